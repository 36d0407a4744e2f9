/* SPDX-License-Identifier: MIT */
#include "tests/world.h"

#include "tests/support.h"

#include <stdlib.h>
#include <string.h>

float world_noise(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    uint32_t x = *state ^ *state >> 15;
    return (float)(x * 2654435761u >> 8) * 0x1p-23f - 1.0f;
}

float *world_floats(size_t n, float scale, uint32_t seed)
{
    float *x = malloc((n + 1) * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (size_t i = 0; i < n; i++) x[i] = world_noise(&seed) * scale;
    return x;
}

kvref_config world_tiny(void)
{
    kvref_stack slow = {2, 64, 4, 2, 16, 96, false, false, true};
    kvref_stack fast = {1, 64, 4, 2, 16, 96, false, false, false};
    return (kvref_config){.model_type = "dual_ar",
                          .slow = slow,
                          .fast = fast,
                          .n_vocab = 128,
                          .n_codebook = 3,
                          .n_code = 32,
                          .max_seq_len = 32,
                          .rope_base = 1e6f,
                          .norm_eps = 1e-6f,
                          .tie_word_embeddings = true,
                          .scale_codebook_embeddings = true,
                          .norm_fastlayer_input = true,
                          .semantic_begin = 80,
                          .semantic_end = 111,
                          .im_end = 5};
}

kvref_config world_odd(void)
{
    kvref_stack slow = {3, 40, 6, 3, 10, 72, true, true, true};
    kvref_stack fast = {2, 24, 4, 1, 8, 52, true, true, true};
    return (kvref_config){.model_type = "dual_ar",
                          .slow = slow,
                          .fast = fast,
                          .n_vocab = 150,
                          .n_codebook = 5,
                          .n_code = 18,
                          .max_seq_len = 300,
                          .rope_base = 1e4f,
                          .norm_eps = 1e-5f,
                          .semantic_begin = 100,
                          .semantic_end = 117,
                          .im_end = 130};
}

/* Multiples of 2^-7 times a power of two: exact in every dtype. */
static kvref_weight matrix(
    world *w, kvref_dtype dtype, size_t misalign, int n_row, int n_col, float base, float scale)
{
    size_t n = (size_t)n_row * (size_t)n_col, size = kvref_dtype_size(dtype);
    char *data = malloc(n * size + misalign + 1);
    w->block = realloc(w->block, ((size_t)w->n_block + 1) * sizeof *w->block);
    ck_assert(data && w->block);
    w->block[w->n_block++] = data;
    uint32_t state = (uint32_t)w->n_block * 7919u;
    for (size_t i = 0; i < n; i++) {
        float x = base + (float)(int)(world_noise(&state) * 64) * 0x1p-6f * scale;
        uint16_t half = dtype == KVREF_BF16 ? kvref_f32_bf16(x) : kvref_f32_f16(x);
        memcpy(
            data + misalign + i * size, dtype == KVREF_F32 ? (void *)&x : (void *)&half, size);
    }
    return (kvref_weight){data + misalign, dtype, n_row, n_col};
}

static float row_scale(int n_col)
{
    float scale = 1;
    for (; n_col > 3; n_col /= 4) scale /= 2;
    return scale;
}

static kvref_layer *layers(world *w, const kvref_stack *s, kvref_dtype t, size_t m)
{
    int q = s->n_head * s->d_head, k = s->n_kv_head * s->d_head, d = s->d_model, f = s->d_ff;
    kvref_layer *all = calloc((size_t)s->n_layer, sizeof *all);
    ck_assert_ptr_nonnull(all);
    for (int l = 0; l < s->n_layer; l++) {
        kvref_layer *y = &all[l];
        y->attn_norm = matrix(w, t, m, 1, d, 1, 0.125f);
        y->wq = matrix(w, t, m, q, d, 0, row_scale(d));
        y->wk = matrix(w, t, m, k, d, 0, row_scale(d));
        y->wv = matrix(w, t, m, k, d, 0, row_scale(d));
        if (s->qkv_bias) {
            y->bq = matrix(w, t, m, 1, q, 0, 0.125f);
            y->bk = matrix(w, t, m, 1, k, 0, 0.125f);
            y->bv = matrix(w, t, m, 1, k, 0, 0.125f);
        }
        if (s->qk_norm) {
            y->q_norm = matrix(w, t, m, 1, s->d_head, 1, 0.125f);
            y->k_norm = matrix(w, t, m, 1, s->d_head, 1, 0.125f);
        }
        y->wo = matrix(w, t, m, d, q, 0, row_scale(q));
        if (s->o_bias) y->bo = matrix(w, t, m, 1, d, 0, 0.125f);
        y->ffn_norm = matrix(w, t, m, 1, d, 1, 0.125f);
        y->w1 = matrix(w, t, m, f, d, 0, row_scale(d));
        y->w3 = matrix(w, t, m, f, d, 0, row_scale(d));
        y->w2 = matrix(w, t, m, d, f, 0, row_scale(f));
    }
    return all;
}

void world_open(world *w, const kvref_config *c, kvref_dtype t, size_t m)
{
    int d = c->slow.d_model, f = c->fast.d_model;
    *w = (world){.config = *c};
    kvref_weights *y = &w->weights;
    y->embed = matrix(w, t, m, c->n_vocab, d, 0, 1);
    y->codebook_embed = matrix(w, t, m, c->n_codebook * c->n_code, d, 0, 1);
    y->slow = layers(w, &c->slow, t, m);
    y->norm = matrix(w, t, m, 1, d, 1, 0.125f);
    y->head = c->tie_word_embeddings ? y->embed : matrix(w, t, m, c->n_vocab, d, 0, 0.25f);
    if (d != f) {
        y->fast_in = matrix(w, t, m, f, d, 0, row_scale(d));
        y->fast_in_bias = matrix(w, t, m, 1, f, 0, 0.125f);
    }
    y->fast_embed = matrix(w, t, m, c->n_code, f, 0, 1);
    y->fast = layers(w, &c->fast, t, m);
    y->fast_norm = matrix(w, t, m, 1, f, 1, 0.125f);
    y->fast_head = matrix(w, t, m, c->n_code, f, 0, 0.25f);
}

void world_close(world *w)
{
    for (int i = 0; i < w->n_block; i++) free(w->block[i]);
    free(w->block);
    free(w->weights.slow);
    free(w->weights.fast);
    *w = (world){0};
}

kvref_decoder *world_decoder(const world *w, kvref_decoder_opts opts)
{
    kvref_decoder *d;
    kvref_error err;
    if (!opts.n_thread) opts.n_thread = 1;
    must(ref_decoder_open(&d, &w->config, &w->weights, &opts, &err), err);
    return d;
}

int32_t *world_frames(const kvref_config *c, int n, uint32_t seed)
{
    int32_t *frames = calloc((size_t)n * (size_t)(1 + c->n_codebook), sizeof *frames);
    ck_assert_ptr_nonnull(frames);
    for (int t = 0; t < n; t++) {
        int32_t *frame = frames + t * (1 + c->n_codebook);
        bool audio = world_noise(&seed) > -0.2f;
        for (int b = 0; audio && b < c->n_codebook; b++)
            frame[1 + b] = (int32_t)((world_noise(&seed) + 1) * 0.5f * (float)c->n_code);
        frame[0] = audio
                       ? c->semantic_begin + frame[1]
                       : (int32_t)((world_noise(&seed) + 1) * 0.5f * (float)c->semantic_begin);
    }
    return frames;
}

void world_tools(ref_tools *tools, const ref_simd *simd, int n_thread, int widest, size_t score)
{
    kvref_error err;
    *tools = (ref_tools){.simd = simd};
    must(kvref_pool_open(&tools->pool, n_thread, &err), err);
    tools->panel_size = REF_BLAS_PANEL * (size_t)widest;
    tools->panel = calloc((size_t)n_thread, tools->panel_size * sizeof(float));
    tools->score_size = score;
    tools->score = calloc((size_t)n_thread, (score + 1) * sizeof(float));
    tools->count = calloc((size_t)n_thread, sizeof *tools->count);
    ck_assert(tools->panel && tools->score && tools->count);
}

void world_tools_close(ref_tools *tools)
{
    kvref_pool_close(&tools->pool);
    free(tools->panel);
    free(tools->score);
    free(tools->count);
    free(tools->wide_k);
    free(tools->wide_v);
}

size_t world_differ(const float *a, const float *b, size_t n)
{
    size_t differ = 0;
    for (size_t i = 0; i < n; i++) differ += kvref_f32_bits(a[i]) != kvref_f32_bits(b[i]);
    return differ;
}
