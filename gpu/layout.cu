/* SPDX-License-Identifier: MIT */
/* Every buffer of a decoder, by name and size, and what is written into them once.
 *
 * Caches have their whole capacity from the start and are filled in place. In the prefix form
 * nothing else ever touches them, so they begin uninitialised: a read beyond the prefix is a
 * fault that a checker can see. The full form multiplies masked rows by 0 and needs numbers
 * there, so it clears them first. */
#include "gpu/decoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace GPU_NAMESPACE
{

static size_t mul(size_t a, size_t b)
{
    size_t out;
    return kvref_mul_size(a, b, &out) ? out : SIZE_MAX;
}

static size_t rows(int n, int width)
{
    return mul(static_cast<size_t>(n), static_cast<size_t>(gpu_pad(width)));
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static void plan_net(gpu_decoder *d, gpu_net *net, int capacity, const char *side)
{
    const kvref_stack *s = net->stack;
    char name[48];
#define WANT(field, n, zero, text)                                                             \
    (snprintf(name, sizeof name, "%s " text, side),                                            \
     gpu_want(&d->plan, &net->field, n, zero, name))
    net->kv.n_layer = s->n_layer;
    net->kv.n_head = s->n_kv_head;
    net->kv.d_head = s->d_head;
    net->kv.capacity = capacity;
    size_t heads = mul(static_cast<size_t>(s->n_layer), static_cast<size_t>(s->n_kv_head));
    bool clear = d->opts.attention == KVREF_ATTN_FULL;
    WANT(kv.k, mul(heads, rows(capacity, s->d_head)), clear, "K cache");
    WANT(kv.v, mul(heads, rows(capacity, s->d_head)), clear, "V cache");
    size_t angles = mul(static_cast<size_t>(capacity), static_cast<size_t>(s->d_head / 2));
    WANT(cosine, angles, false, "cosine table");
    WANT(sine, angles, false, "sine table");
    WANT(x, rows(net->n_row, s->d_model), true, "x");
    WANT(norm, rows(net->n_row, s->d_model), true, "norm");
    WANT(out, rows(net->n_row, s->d_model), true, "out");
    WANT(q, rows(net->n_row, s->n_head * s->d_head), true, "q");
    WANT(k, rows(net->n_row, s->n_kv_head * s->d_head), true, "k");
    WANT(v, rows(net->n_row, s->n_kv_head * s->d_head), true, "v");
    WANT(mixed, rows(net->n_row, s->n_head * s->d_head), true, "attention");
    WANT(gate, rows(net->n_row, s->d_ff), true, "gate");
    WANT(up, rows(net->n_row, s->d_ff), true, "up");
#undef WANT
}

/* Attention scratch of the slow transformer, and copies of the cache for the full form. */
static void plan_attention(gpu_decoder *d, int capacity)
{
    const kvref_stack *s = &d->config.slow;
    size_t n[4];
    gpu_attention_floats(n, s->n_head, s->d_head, capacity);
    gpu_want(&d->plan, &d->scratch.score, n[0], false, "attention scores");
    gpu_want(&d->plan, &d->scratch.peak, n[1], false, "attention maxima");
    gpu_want(&d->plan, &d->scratch.total, n[2], false, "attention sums");
    gpu_want(&d->plan, &d->scratch.part, n[3], false, "attention parts");
    if (d->opts.attention != KVREF_ATTN_FULL) return;
    size_t wide = mul(static_cast<size_t>(s->n_head), rows(capacity, s->d_head));
    gpu_want(&d->plan, &d->scratch.wide_k, wide, false, "expanded K");
    gpu_want(&d->plan, &d->scratch.wide_v, wide, false, "expanded V");
}

static size_t noise_values(const gpu_decoder *d)
{
    const kvref_config *c = &d->config;
    return 2 * static_cast<size_t>(d->n_candidate) +
           mul(static_cast<size_t>(c->n_codebook - 1), static_cast<size_t>(c->n_code));
}

static void plan_rest(gpu_decoder *d)
{
    const kvref_config *c = &d->config;
    size_t frame = 1 + static_cast<size_t>(c->n_codebook);
    int most = larger(d->n_candidate, c->n_code);
    gpu_plan *p = &d->plan;
    gpu_want(p, &d->frames, GPU_ROWS * frame, false, "frames");
    gpu_want(p, &d->frame, frame, true, "frame");
    gpu_want(p, &d->forced, frame, true, "forced frame");
    gpu_want(p, &d->pos, 1, true, "position");
    gpu_want(p, &d->book_pos, static_cast<size_t>(c->n_codebook), false, "book positions");
    gpu_want(p, &d->candidate, static_cast<size_t>(d->n_candidate), false, "candidates");
    gpu_want(p, &d->logits, rows(1, most), true, "logits");
    gpu_want(p, &d->main_logits, rows(1, d->n_candidate), true, "main logits");
    gpu_want(p, &d->hidden, rows(1, c->fast.d_model), true, "hidden state");
    gpu_want(p, &d->args, 1, true, "frame settings");
    gpu_want(p, &d->state, 1, true, "frame state");
    gpu_want(p, &d->noise, noise_values(d), true, "noise");
    gpu_want(p, &d->p, static_cast<size_t>(most), true, "probabilities");
    gpu_want(p, &d->order, static_cast<size_t>(most), true, "ranks");
    if (gpu_tap_wanted(d, GPU_LOGITS))
        gpu_want(p, &d->all_logits, rows(1, c->n_vocab), true, "all logits");
    d->tap.n_value = gpu_tap_values(d);
    gpu_want(p, &d->tap.device, d->tap.n_value, true, "taps");
}

kvref_status gpu_layout(gpu_decoder *d, kvref_error *err)
{
    const kvref_config *c = &d->config;
    int capacity = d->opts.capacity;
    d->n_candidate = kvref_config_candidates(c, nullptr, 0);
    d->slow.stack = &d->config.slow;
    d->fast.stack = &d->config.fast;
    d->fast.books = true;
    d->slow.n_row = capacity < GPU_ROWS ? capacity : GPU_ROWS;
    d->fast.n_row = 2;
    KVREF_TRY(gpu_weights_plan(d, err));
    d->slow.layer = d->w.slow;
    d->fast.layer = d->w.fast;
    plan_net(d, &d->slow, capacity, "slow");
    plan_net(d, &d->fast, c->n_codebook, "fast");
    plan_attention(d, capacity);
    plan_rest(d);
    return KVREF_OK;
}

/* ---- filling ---- */

template <class type> static kvref_status pinned(type **at, size_t n, kvref_error *err)
{
    void *p = nullptr;
    size_t n_byte = 0;
    if (!kvref_mul_size(n, sizeof **at, &n_byte))
        return kvref_fail(err, KVREF_E_MEMORY, "pinned memory: too large");
    KVREF_TRY(gpu_check("taking pinned host memory", cudaMallocHost(&p, n_byte), err));
    memset(p, 0, n_byte);
    *at = static_cast<type *>(p);
    return KVREF_OK;
}

static kvref_status fill_host(gpu_decoder *d, kvref_error *err)
{
    size_t frame = 1 + static_cast<size_t>(d->config.n_codebook);
    KVREF_TRY(pinned(&d->host, 1, err));
    KVREF_TRY(pinned(&d->host_frames, GPU_ROWS * frame, err));
    KVREF_TRY(pinned(&d->host_frame, frame, err));
    KVREF_TRY(pinned(&d->host_forced, frame, err));
    KVREF_TRY(pinned(&d->host_logits, rows(1, larger(d->n_candidate, d->config.n_code)), err));
    KVREF_TRY(pinned(&d->host_noise, noise_values(d), err));
    if (d->tap.n_value == 0) return KVREF_OK;
    KVREF_TRY(pinned(&d->tap.host, d->tap.n_value, err));
    int widest = larger(d->config.n_vocab, larger(d->config.n_code, d->config.slow.d_ff));
    widest = larger(widest, d->config.fast.d_ff);
    const kvref_stack *side[] = {d->slow.stack, d->fast.stack};
    for (const kvref_stack *s : side)
        widest = larger(widest, larger(s->d_model, s->n_head * s->d_head));
    size_t n = static_cast<size_t>(widest) * GPU_ROWS;
    d->tap.row = static_cast<float *>(malloc(n * sizeof(float)));
    return d->tap.row ? KVREF_OK : kvref_fail(err, KVREF_E_MEMORY, "out of memory");
}

/* The table of upstream is float16 like everything else; the float32 one is left alone. */
static void
table_row(gpu_decoder *d, float *cosine, float *sine, const float *f, int n, int pos)
{
    kvref_rope_row(cosine, sine, f, n, pos, d->opts.rope_table);
    if (d->opts.rope_table != KVREF_ROPE_BF16) return;
    for (int j = 0; j < n; j++) {
        cosine[j] = kvref_f16_f32(kvref_f32_f16(cosine[j])); /* round: f16 */
        sine[j] = kvref_f16_f32(kvref_f32_f16(sine[j]));     /* round: f16 */
    }
}

static kvref_status fill_tables(gpu_decoder *d, gpu_net *net, kvref_error *err)
{
    int n = net->stack->d_head / 2, block = 256, capacity = net->kv.capacity;
    size_t width = static_cast<size_t>(n),
           n_float = width * (2 * static_cast<size_t>(block) + 1);
    float *table = static_cast<float *>(malloc((n_float + 1) * sizeof *table));
    if (!table) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    float *sine = table + width * static_cast<size_t>(block),
          *f = sine + width * static_cast<size_t>(block);
    for (int j = 0; j < n; j++) f[j] = kvref_rope_frequency(d->config.rope_base, 2 * n, j);
    cudaError_t e = cudaSuccess;
    for (int p = 0; p < capacity && e == cudaSuccess; p += block) {
        int count = capacity - p < block ? capacity - p : block;
        for (int i = 0; i < count; i++)
            table_row(d,
                      table + static_cast<size_t>(i) * width,
                      sine + static_cast<size_t>(i) * width,
                      f,
                      n,
                      p + i);
        size_t at = static_cast<size_t>(p) * width,
               size = static_cast<size_t>(count) * width * sizeof(float);
        e = cudaMemcpy(net->cosine + at, table, size, cudaMemcpyHostToDevice);
        if (e == cudaSuccess)
            e = cudaMemcpy(net->sine + at, sine, size, cudaMemcpyHostToDevice);
    }
    free(table);
    return gpu_check("copying rotation tables", e, err);
}

/* Small integer tables: book positions and candidates. */
static kvref_status fill_integers(gpu_decoder *d, kvref_error *err)
{
    const kvref_config *c = &d->config;
    size_t n_book = static_cast<size_t>(c->n_codebook), n = static_cast<size_t>(d->n_candidate);
    int32_t *value = static_cast<int32_t *>(malloc((n_book + n) * sizeof *value));
    if (!value) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    for (int i = 0; i < c->n_codebook; i++) value[i] = i;
    int32_t *candidate = value + n_book;
    kvref_config_candidates(c, candidate, d->n_candidate);
    d->end = -1;
    for (int i = 0; i < d->n_candidate; i++)
        if (candidate[i] == c->im_end) d->end = i;
    cudaError_t e =
        cudaMemcpy(d->book_pos, value, n_book * sizeof *value, cudaMemcpyHostToDevice);
    if (e == cudaSuccess)
        e = cudaMemcpy(d->candidate, candidate, n * sizeof *value, cudaMemcpyHostToDevice);
    free(value);
    return gpu_check("copying tables", e, err);
}

kvref_status gpu_fill(gpu_decoder *d, kvref_error *err)
{
    KVREF_TRY(fill_host(d, err));
    KVREF_TRY(gpu_weights_fill(d, err));
    KVREF_TRY(fill_tables(d, &d->slow, err));
    KVREF_TRY(fill_tables(d, &d->fast, err));
    return fill_integers(d, err);
}

void gpu_release_host(gpu_decoder *d)
{
    void *pinned[] = {d->host,
                      d->host_frames,
                      d->host_frame,
                      d->host_forced,
                      d->host_logits,
                      d->host_noise,
                      d->tap.host};
    for (void *p : pinned)
        if (p) (void)cudaFreeHost(p);
    free(d->tap.row);
    free(d->tap.call.at);
    free(d->tap.graph.at);
    free(d->w.slow);
    free(d->w.fast);
}

} // namespace GPU_NAMESPACE
