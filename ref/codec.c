/* SPDX-License-Identifier: MIT */
/* The public side of the codec: opening, whole and streamed decoding, encoding. A whole signal
 * is a stream that is fed pieces of the largest size. */
#include "ref/codec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Floats of a buffer that frames are gathered up to, and frames at most. */
enum { BUFFER_FLOATS = 1 << 23, MAX_PIECE = 256 };

struct kvref_codec_stream {
    ref_flow *flow;
    bool failed; /* in the middle of a piece: what it remembers fits no position */
};

/* path itself, or codec.pth or codec.safetensors in it; free it. */
static kvref_status locate(char **out, const char *path, kvref_error *err)
{
    static const char *const name[2] = {"codec.pth", "codec.safetensors"};
    struct stat st;
    *out = NULL;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        *out = strdup(path);
        return *out ? KVREF_OK : kvref_fail(err, KVREF_E_MEMORY, "codec: out of memory");
    }
    for (int i = 0; i < 2; i++) {
        *out = kvref_path_join(path, name[i]);
        if (!*out) return kvref_fail(err, KVREF_E_MEMORY, "codec: out of memory");
        if (stat(*out, &st) == 0) return KVREF_OK;
        free(*out);
        *out = NULL;
    }
    return kvref_fail(err,
                      KVREF_E_MISSING,
                      "%s: expected codec.pth or codec.safetensors, found neither",
                      path);
}

static kvref_status make_rope(kvref_codec *c, kvref_error *err)
{
    ref_rope rope;
    KVREF_TRY(ref_codec_block(c, &rope.freq, (size_t)c->setup.d_head / 2, err));
    ref_rope_init(&rope, c->setup.d_head, c->setup.rope_base, KVREF_ROPE_BF16);
    c->rope = rope.freq;
    return KVREF_OK;
}

/* The largest power of two of frames that fits: 32 for decoding and 64 for encoding at the real
 * widths. */
static void choose_pieces(kvref_codec *c)
{
    for (int i = 0; i < 2; i++) {
        ref_span *span = &c->span[i];
        span->piece = 1;
        while (span->piece < MAX_PIECE && span->row_floats <= BUFFER_FLOATS / 2) {
            span->piece *= 2;
            span->row_floats *= 2;
        }
    }
}

/* Each stride that codec.json states was compared with its kernel; here their number. */
static kvref_status
check_n_stride(const kvref_codec *c, const char *key, int n_stated, kvref_error *err)
{
    if (n_stated == 0 || n_stated == c->n_block) return KVREF_OK;
    return kvref_fail(err,
                      KVREF_E_SHAPE,
                      "codec: %s of codec.json: expected %d, as the file has, found %d",
                      key,
                      c->n_block,
                      n_stated);
}

static kvref_status load_parts(kvref_codec *c, kvref_error *err)
{
    KVREF_TRY(check_n_stride(c, "decoder_strides", c->setup.n_dec_stride, err));
    KVREF_TRY(check_n_stride(c, "encoder_strides", c->setup.n_enc_stride, err));
    if (c->info.parts & KVREF_CODEC_DECODE) KVREF_TRY(ref_codec_load_decoder(c, err));
    return c->info.parts & KVREF_CODEC_ENCODE ? ref_codec_load_encoder(c, err) : KVREF_OK;
}

static kvref_status load(kvref_codec *c, const char *path, kvref_error *err)
{
    KVREF_TRY(kvref_file_open(&c->file, path, &c->opts.log, err));
    KVREF_TRY(ref_codec_setup_read(&c->setup, path, err));
    for (int i = 0; !c->generator && i < kvref_file_count(c->file); i++)
        c->generator = strstr(kvref_file_at(c->file, i)->name, "generator") != NULL;
    KVREF_TRY(make_rope(c, err));
    KVREF_TRY(ref_codec_load_books(c, err));
    KVREF_TRY(ref_codec_sides(c, err));
    KVREF_TRY(load_parts(c, err));
    c->info.sample_rate = c->setup.sample_rate;
    choose_pieces(c);
    size_t latent = (size_t)c->info.latent;
    if (c->work_floats < latent) c->work_floats = latent;
    KVREF_TRY(kvref_pool_open(&c->pool, c->opts.n_thread, err));
    return ref_codec_block(c, &c->work, c->work_floats * (size_t)kvref_pool_size(c->pool), err);
}

kvref_status kvref_codec_open(kvref_codec **out,
                              const char *path,
                              const kvref_codec_opts *opts,
                              kvref_error *err)
{
    *out = NULL;
    unsigned all = KVREF_CODEC_DECODE | KVREF_CODEC_ENCODE;
    if (opts->parts & ~all)
        return kvref_fail(
            err, KVREF_E_ARG, "codec: parts: expected 0..3, found %u", opts->parts);
    kvref_codec *c = calloc(1, sizeof *c);
    if (!c) return kvref_fail(err, KVREF_E_MEMORY, "codec: out of memory");
    c->opts = *opts;
    c->simd = ref_simd_best();
    c->info.parts = opts->parts ? opts->parts : all;
    char *file = NULL;
    kvref_status status = locate(&file, path, err);
    if (status == KVREF_OK && opts->conv == KVREF_CONV_BLAS)
        status = ref_blas_check(&opts->log, err);
    if (status == KVREF_OK) status = load(c, file, err);
    free(file);
    if (status != KVREF_OK) {
        kvref_codec_close(&c);
        return status;
    }
    *out = c;
    return KVREF_OK;
}

const kvref_codec_info *kvref_codec_about(const kvref_codec *codec)
{
    return &codec->info;
}

void kvref_codec_close(kvref_codec **codec)
{
    kvref_codec *c = *codec;
    if (!c) return;
    kvref_pool_close(&c->pool);
    kvref_file_close(&c->file);
    for (size_t i = 0; i < c->n_block_mem; i++) free(c->block[i]);
    free(c->block);
    free(c);
    *codec = NULL;
}

kvref_status
kvref_codec_stream_open(kvref_codec_stream **out, kvref_codec *codec, kvref_error *err)
{
    *out = NULL;
    kvref_codec_stream *s = calloc(1, sizeof *s);
    if (!s) return kvref_fail(err, KVREF_E_MEMORY, "codec: out of memory");
    kvref_status status = ref_flow_open(&s->flow, codec, KVREF_CODEC_DECODE, err);
    if (status != KVREF_OK) {
        free(s);
        return status;
    }
    *out = s;
    return KVREF_OK;
}

void kvref_codec_stream_close(kvref_codec_stream **stream)
{
    if (!*stream) return;
    ref_flow_close(&(*stream)->flow);
    free(*stream);
    *stream = NULL;
}

size_t kvref_codec_stream_bytes(const kvref_codec *codec)
{
    return sizeof(kvref_codec_stream) + ref_flow_bytes(codec, KVREF_CODEC_DECODE);
}

/* Upstream has no lower bound and reads outside its table; here that is an error. */
static kvref_status
check_codes(const kvref_codec *c, const int32_t *code, int n_frame, kvref_error *err)
{
    int n_book = c->info.n_book;
    for (int64_t i = 0; i < (int64_t)n_frame * n_book; i++)
        if (code[i] < 0)
            return kvref_fail(
                err,
                KVREF_E_ARG,
                "codec: frame %lld, book %d: expected a code of 0 or more, found %d",
                (long long)(i / n_book),
                (int)(i % n_book),
                (int)code[i]);
    return KVREF_OK;
}

kvref_status kvref_codec_stream_push(
    kvref_codec_stream *stream, float *pcm, const int32_t *code, int n_frame, kvref_error *err)
{
    ref_flow *flow = stream->flow;
    const kvref_codec *c = flow->c;
    if (n_frame < 0)
        return kvref_fail(err, KVREF_E_ARG, "codec: expected frames, found %d", n_frame);
    if (stream->failed)
        return kvref_fail(err, KVREF_E_ARG, "codec: expected a stream that has not failed");
    KVREF_TRY(check_codes(c, code, n_frame, err));
    while (n_frame > 0) {
        /* To the next multiple of a piece, so that panels are whole where they can be. */
        int n = flow->span->piece - (int)(flow->frame % flow->span->piece);
        if (n > n_frame) n = n_frame;
        kvref_status status = ref_decode_piece(flow, pcm, code, n, err);
        stream->failed = status != KVREF_OK;
        KVREF_TRY(status);
        pcm += (ptrdiff_t)n * c->info.frame;
        code += (ptrdiff_t)n * c->info.n_book;
        n_frame -= n;
    }
    return KVREF_OK;
}

kvref_status kvref_codec_decode(
    kvref_codec *codec, float *pcm, const int32_t *code, int n_frame, kvref_error *err)
{
    if (n_frame < 1)
        return kvref_fail(
            err, KVREF_E_ARG, "codec: expected at least one frame, found %d", n_frame);
    kvref_codec_stream *stream;
    KVREF_TRY(kvref_codec_stream_open(&stream, codec, err));
    kvref_status status = kvref_codec_stream_push(stream, pcm, code, n_frame, err);
    kvref_codec_stream_close(&stream);
    return status;
}

/* The last piece is filled up with zeros to whole frames. */
static kvref_status encode(ref_flow *flow,
                           int32_t *code,
                           const float *pcm,
                           size_t n_sample,
                           float *pad,
                           kvref_error *err)
{
    const kvref_codec *c = flow->c;
    size_t frame = (size_t)c->info.frame, most = (size_t)flow->span->piece * frame;
    while (n_sample > 0) {
        size_t n = n_sample < most ? n_sample : most, n_frame = (n + frame - 1) / frame;
        const float *from = pcm;
        if (n % frame) {
            memset(pad, 0, n_frame * frame * sizeof *pad);
            memcpy(pad, pcm, n * sizeof *pad);
            from = pad;
        }
        KVREF_TRY(ref_encode_piece(flow, code, from, (int)n_frame, err));
        code += n_frame * (size_t)c->info.n_book;
        pcm += n;
        n_sample -= n;
    }
    return KVREF_OK;
}

static kvref_status check_samples(const float *pcm, size_t n, kvref_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(pcm[i]))
            return kvref_fail(err, KVREF_E_ARG, "codec: sample %zu is not finite", i);
    return KVREF_OK;
}

kvref_status kvref_codec_encode(
    kvref_codec *codec, kvref_codes *out, const float *pcm, size_t n_sample, kvref_error *err)
{
    *out = (kvref_codes){0};
    size_t frame = (size_t)codec->info.frame, n_book = (size_t)codec->info.n_book;
    if (n_sample == 0) return kvref_fail(err, KVREF_E_ARG, "codec: no samples");
    /* Rows of a signal, and codes, are counted in int. */
    size_t most = (size_t)INT32_MAX / (frame > n_book ? frame : n_book) * frame;
    if (n_sample > most)
        return kvref_fail(
            err, KVREF_E_ARG, "codec: expected at most %zu samples, found %zu", most, n_sample);
    size_t n_frame = n_sample / frame + (n_sample % frame != 0);
    KVREF_TRY(check_samples(pcm, n_sample, err));
    ref_flow *flow = NULL;
    int32_t *code = malloc(n_frame * n_book * sizeof *code);
    float *pad = malloc((size_t)codec->span[1].piece * frame * sizeof *pad);
    kvref_status status = KVREF_OK;
    if (!code || !pad) status = kvref_fail(err, KVREF_E_MEMORY, "codec: no memory for codes");
    if (status == KVREF_OK) status = ref_flow_open(&flow, codec, KVREF_CODEC_ENCODE, err);
    if (status == KVREF_OK) status = encode(flow, code, pcm, n_sample, pad, err);
    ref_flow_close(&flow);
    free(pad);
    if (status != KVREF_OK) {
        free(code);
        return status;
    }
    *out = (kvref_codes){(int)n_book, (int)n_frame, code};
    return KVREF_OK;
}
