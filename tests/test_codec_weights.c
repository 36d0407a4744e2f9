/* SPDX-License-Identifier: MIT */
/* What a codec makes of its tensors: values that are not numbers are found, extreme snakes stay
 * finite, ignored buffers stay unread; and the list is the real one. */
#include "ref/codec.h"
#include "tests/codec_toy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FRAMES = 3 };

static const kvref_codec_opts quick = {.n_thread = 1};

typedef struct poke {
    const char *name;
    float value;
} poke;

static bool set_first(void *user, char *name, kvref_tensor *t, float *x, size_t n)
{
    const poke *p = user;
    (void)t, (void)n;
    if (strcmp(name, p->name) == 0) x[0] = p->value;
    return true;
}

static kvref_status try_value(const char *name, float value, bool encode, kvref_error *err)
{
    static const char *dir;
    kvref_codec *codec;
    kvref_codes codes = {0};
    poke p = {name, value};
    float pcm[FRAMES * 192];
    kvref_codec_dims dims = toy_small_dims();
    if (!dir) dir = toy_write(&dims, false, 0);
    must(kvref_codec_open(&codec, toy_edit(dir, set_first, &p, KVREF_F32), &quick, err), *err);
    int32_t *code = toy_codes("load", 4, FRAMES);
    float *audio = toy_audio("load", 500);
    kvref_status status = encode ? kvref_codec_encode(codec, &codes, audio, 500, err)
                                 : kvref_codec_decode(codec, pcm, code, FRAMES, err);
    for (int i = 0; status == KVREF_OK && !encode && i < FRAMES * 192; i++)
        ck_assert(pcm[i] >= -1.0f && pcm[i] <= 1.0f);
    kvref_codes_clear(&codes);
    free(code);
    free(audio);
    kvref_codec_close(&codec);
    return status;
}

START_TEST(weights_that_are_not_numbers_are_found)
{
    static const char *const decode[] = {
        "decoder.model.6.conv.bias",
        "decoder.model.4.block.3.block.0.alpha",
        "decoder.model.2.block.1.conv.parametrizations.weight.original0",
        "quantizer.upsample.0.1.pwconv1.weight",
        "quantizer.post_module.layers.0.attention.wqkv.weight",
        "quantizer.semantic_quantizer.quantizers.0.out_proj.bias"};
    static const char *const encode[] = {"encoder.block.0.conv.bias",
                                         "encoder.block.4.block.5.norm.weight",
                                         "quantizer.downsample.1.1.norm.bias",
                                         "quantizer.pre_module.layers.1.feed_forward.w2.weight",
                                         "quantizer.quantizer.quantizers.2.in_proj.bias"};
    kvref_error err;
    for (size_t i = 0; i < sizeof decode / sizeof *decode; i++)
        must_fail(try_value(decode[i], NAN, false, &err), KVREF_E_FORMAT, err, "is not finite");
    for (size_t i = 0; i < sizeof encode / sizeof *encode; i++)
        must_fail(try_value(encode[i], NAN, true, &err), KVREF_E_FORMAT, err, "is not finite");
    /* tanh of an infinity would be 1 */
    must_fail(try_value("decoder.model.6.conv.bias", INFINITY, false, &err),
              KVREF_E_FORMAT,
              err,
              "sample 0 is not finite");
}
END_TEST

/* Positions and remembered rows of a piece that failed half-way fit no other piece. */
START_TEST(a_stream_that_failed_takes_no_more_frames)
{
    kvref_error err;
    kvref_codec *codec;
    kvref_codec_stream *stream;
    poke p = {"decoder.model.6.conv.bias", NAN};
    kvref_codec_dims dims = toy_small_dims();
    const char *dir = toy_edit(toy_write(&dims, false, 0), set_first, &p, KVREF_F32);
    int32_t *code = toy_codes("failed", 4, 1);
    float pcm[192];
    must(kvref_codec_open(&codec, dir, &quick, &err), err);
    must(kvref_codec_stream_open(&stream, codec, &err), err);
    must_fail(
        kvref_codec_stream_push(stream, pcm, code, 1, &err), KVREF_E_FORMAT, err, "sample 0");
    must_fail(kvref_codec_stream_push(stream, pcm, code, 1, &err), KVREF_E_ARG, err, "failed");
    kvref_codec_stream_close(&stream);
    kvref_codec_close(&codec);
    free(code);
}
END_TEST

START_TEST(extreme_snakes_stay_finite)
{
    static const char *const name[] = {"decoder.model.1.block.0.alpha",
                                       "decoder.model.4.block.2.block.2.alpha",
                                       "decoder.model.5.alpha"};
    kvref_error err;
    for (int i = 0; i < 3; i++) {
        must(try_value(name[i], 1e-8f, false, &err), err);
        must(try_value(name[i], 1e4f, false, &err), err);
        must(try_value(name[i], 0.0f, false, &err), err);
    }
}
END_TEST

/* How many pages of a stretch of memory this process has touched, or the kernel has mapped
 * around a touch; -1 where the kernel's table cannot be read. */
static long pages_touched(const char *from, size_t n_byte)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = n_byte / page;
    FILE *f = fopen("/proc/self/pagemap", "rb");
    uint64_t entry;
    long touched = 0;
    if (!f || fseeko(f, (off_t)((uintptr_t)from / page * sizeof entry), SEEK_SET) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (fread(&entry, sizeof entry, 1, f) != 1) return -1;
        touched += entry >> 63 != 0;
    }
    fclose(f);
    return touched;
}

/* 1024 rows make 16 MiB of mask in the encoder. The outer 4 MiB at either end may be mapped
 * together with their neighbours. */
START_TEST(ignored_buffers_are_never_read)
{
    kvref_error err;
    kvref_codec_dims dims = toy_small_dims();
    for (int pth = 0; pth < 2; pth++) {
        kvref_codec *codec;
        kvref_codes codes;
        const char *dir = toy_write(&dims, pth, 1024);
        must(kvref_codec_open(&codec, dir, &quick, &err), err);
        int32_t *code = toy_codes("load", 4, FRAMES);
        float *audio = toy_audio("load", 500);
        free(toy_decode(codec, code, FRAMES));
        must(kvref_codec_encode(codec, &codes, audio, 500, &err), err);
        const kvref_tensor *mask =
            kvref_file_find(codec->file, "encoder.block.4.block.5.causal_mask");
        ck_assert(mask && mask->n_byte == 16 << 20);
        const char *middle = (const char *)mask->data + (4 << 20);
        ck_assert_int_le(pages_touched(middle, 8 << 20), 0);
        volatile char one = middle[4 << 20];
        ck_assert(one == (char)0xff && pages_touched(middle, 8 << 20) != 0);
        kvref_codes_clear(&codes);
        free(code);
        free(audio);
        kvref_codec_close(&codec);
    }
}
END_TEST

START_TEST(tensor_list_matches_the_real_codec)
{
    kvref_error err;
    kvref_synth_codec_list list;
    kvref_codec_dims dims = kvref_codec_dims_real();
    size_t bytes = 0;
    must(kvref_synth_codec_tensors(&list, &dims, 4096, &err), err);
    ck_assert_int_eq(list.n, 541);
    for (int i = 0; i < list.n; i++) bytes += list.tensor[i].n_byte;
    ck_assert_uint_eq(bytes, 1870857736);
    kvref_synth_codec_free(&list);
    dims.latent_dim = 1000;
    must_fail(kvref_synth_codec_tensors(&list, &dims, 0, &err), KVREF_E_ARG, err, "head_dim");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("codec_weights");
    TCase *tc = tcase_create("codec_weights");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, weights_that_are_not_numbers_are_found);
    tcase_add_test(tc, a_stream_that_failed_takes_no_more_frames);
    tcase_add_test(tc, extreme_snakes_stay_finite);
    tcase_add_test(tc, ignored_buffers_are_never_read);
    tcase_add_test(tc, tensor_list_matches_the_real_codec);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
