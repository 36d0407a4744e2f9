/* SPDX-License-Identifier: MIT */
/* slow, fast and rewind of the backend interface: each queues its work, waits once, and hands
 * out logits. Whole frames are in frame.cu. */
#include "gpu/decoder.h"

#include <string.h>

namespace GPU_NAMESPACE
{

kvref_status
gpu_check_call(const gpu_decoder *d, const int32_t *frames, int n_frame, kvref_error *err)
{
    if (n_frame < 1)
        return kvref_fail(err, KVREF_E_ARG, "frames: expected at least 1, found %d", n_frame);
    if (n_frame > d->opts.capacity - d->n_pos)
        return kvref_fail(err,
                          KVREF_E_CAPACITY,
                          "cache: %d positions held and %d more do not fit capacity %d",
                          d->n_pos,
                          n_frame,
                          d->opts.capacity);
    return kvref_frames_check(frames, n_frame, &d->config, "frames", err);
}

void gpu_place(gpu_decoder *d)
{
    if (d->device_pos == d->n_pos) return;
    d->host->first = d->n_pos;
    (void)cudaMemcpyAsync(
        d->pos, &d->host->first, sizeof *d->pos, cudaMemcpyHostToDevice, d->stream);
    d->device_pos = d->n_pos;
}

/* prefix: kv_len rows of every key/value head. full: the expansion reads and writes all rows of
 * all heads, then every query reads them; the fast transformer reads its N rows in place. */
void gpu_count(
    const gpu_decoder *d, kvref_kv_count *c, const gpu_net *net, int first, int n_row)
{
    uint64_t row_byte = 2 * static_cast<uint64_t>(gpu_pad(net->kv.d_head)) * sizeof(gpu_half);
    uint64_t capacity = static_cast<uint64_t>(net->kv.capacity),
             n = static_cast<uint64_t>(n_row);
    uint64_t heads = static_cast<uint64_t>(net->kv.n_head),
             length = static_cast<uint64_t>(first);
    uint64_t rows = heads * (n * length + n * (n + 1) / 2);
    if (d->opts.attention == KVREF_ATTN_FULL) {
        uint64_t wide = static_cast<uint64_t>(net->stack->n_head);
        rows = n * capacity * (net->books ? heads : wide);
        if (!net->books) c->bytes += 2 * wide * capacity * row_byte;
    }
    c->k_rows += rows;
    c->v_rows += rows;
    c->bytes += rows * row_byte;
}

kvref_status
gpu_feed(gpu_decoder *d, const int32_t *frames, int n_frame, int *from, kvref_error *err)
{
    size_t width = 1 + static_cast<size_t>(d->config.n_codebook);
    int n = 0;
    d->slow.count = kvref_kv_count();
    gpu_place(d);
    d->device_pos = -1; /* not known until all is queued: a tap may fail on the way */
    for (int t = 0; t < n_frame; t += n) {
        n = n_frame - t < d->slow.n_row ? n_frame - t : d->slow.n_row;
        if (t > 0) { /* the host's copy of the frames is about to change */
            KVREF_TRY(gpu_tap_flush(d, &d->tap.call, d->n_pos, d->n_call, err));
            KVREF_TRY(gpu_wait(d, "prefill", err));
            d->n_pos += d->slow.n_row;
        }
        size_t n_byte = static_cast<size_t>(n) * width * sizeof *frames;
        memcpy(d->host_frames, frames + static_cast<size_t>(t) * width, n_byte);
        (void)cudaMemcpyAsync(
            d->frames, d->host_frames, n_byte, cudaMemcpyHostToDevice, d->stream);
        gpu_tap_begin(d, &d->tap.call);
        gpu_count(d, &d->slow.count, &d->slow, d->n_pos, n);
        gpu_slow_pass(d, d->frames, n);
    }
    gpu_slow_finish(d, n - 1);
    *from = d->n_pos;
    d->n_pos += n;
    d->device_pos = d->n_pos;
    return KVREF_OK;
}

/* n logits from the device, through pinned memory. */
static kvref_status fetch(gpu_decoder *d,
                          float *logits,
                          const gpu_half *from,
                          int n,
                          const char *doing,
                          kvref_error *err)
{
    size_t n_byte = static_cast<size_t>(n) * sizeof *from;
    (void)cudaMemcpyAsync(d->host_logits, from, n_byte, cudaMemcpyDeviceToHost, d->stream);
    KVREF_TRY(gpu_wait(d, doing, err));
    for (int i = 0; i < n; i++) logits[i] = kvref_f16_f32(d->host_logits[i]);
    return KVREF_OK;
}

kvref_status gpu_slow(
    kvref_decoder *opaque, float *logits, const int32_t *frames, int n_frame, kvref_error *err)
{
    gpu_decoder *d = gpu_of(opaque);
    int from = 0;
    KVREF_TRY(gpu_check_call(d, frames, n_frame, err));
    d->book = 0;
    d->has_hidden = d->has_frame = false;
    KVREF_TRY(gpu_feed(d, frames, n_frame, &from, err));
    KVREF_TRY(fetch(d, logits, d->main_logits, d->n_candidate, "slow step", err));
    KVREF_TRY(gpu_tap_flush(d, &d->tap.call, from, d->n_call, err));
    d->n_call++;
    d->has_hidden = true;
    return KVREF_OK;
}

static kvref_status check_book(const gpu_decoder *d, int book, int32_t code, kvref_error *err)
{
    const kvref_config *c = &d->config;
    if (!d->has_hidden)
        return kvref_fail(
            err, KVREF_E_ARG, "book %d: no slow step since the last rewind", book);
    if (book < 1 || book >= c->n_codebook || (book != 1 && book != d->book + 1))
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "book: expected 1 or the one after %d, below %d, found %d",
                          d->book,
                          c->n_codebook,
                          book);
    if (code < 0 || code >= c->n_code)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "code of book %d: expected 0..%d, found %d",
                          book - 1,
                          c->n_code - 1,
                          static_cast<int>(code));
    return KVREF_OK;
}

kvref_status
gpu_fast(kvref_decoder *opaque, float *logits, int book, int32_t code, kvref_error *err)
{
    gpu_decoder *d = gpu_of(opaque);
    KVREF_TRY(check_book(d, book, code, err));
    if (book == 1) d->fast.count = kvref_kv_count();
    int first = book == 1 ? 0 : book;
    for (int l = 0; l < d->config.fast.n_layer; l++)
        gpu_count(d, &d->fast.count, &d->fast, first, book - first + 1);
    d->host_frame[book] = code;
    (void)cudaMemcpyAsync(
        d->frame + book, d->host_frame + book, sizeof code, cudaMemcpyHostToDevice, d->stream);
    gpu_tap_begin(d, &d->tap.call);
    gpu_fast_book(d, book);
    KVREF_TRY(fetch(d, logits, d->logits, d->config.n_code, "fast step", err));
    KVREF_TRY(gpu_tap_flush(d, &d->tap.call, 0, 0, err));
    d->book = book;
    return KVREF_OK;
}

/* The cache is not touched: rows from pos on are no longer part of the prefix. */
kvref_status gpu_rewind(kvref_decoder *opaque, int pos, kvref_error *err)
{
    gpu_decoder *d = gpu_of(opaque);
    if (pos < 0 || pos > d->n_pos)
        return kvref_fail(
            err, KVREF_E_ARG, "rewind: expected a position 0..%d, found %d", d->n_pos, pos);
    if (pos < d->n_pos) { /* the hidden state was that of a position now forgotten */
        d->has_hidden = d->has_frame = false;
        d->book = 0;
    }
    d->n_pos = pos;
    if (pos > 0) return KVREF_OK;
    d->n_call = 0;
    cudaError_t e = cudaMemsetAsync(d->state, 0, sizeof *d->state, d->stream);
    return gpu_check("rewind", e, err);
}

} // namespace GPU_NAMESPACE
