/* SPDX-License-Identifier: MIT */
/* Inputs without a text: positions drawn by a seed, and a past that was never computed. What a
 * step costs does not depend on the values, so a long context can be had at once. */
#include "tools/bench.h"

#include "ref/ref.h"

#include <stdlib.h>

/* The finaliser of a 64-bit generator that counts in steps of the golden ratio. */
static uint64_t next(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static int32_t below(uint64_t *state, int n)
{
    return (int32_t)((next(state) >> 32) % (uint64_t)n);
}

kvref_status bench_prompt(
    kvref_frames *out, const kvref_config *c, int n, uint64_t seed, int round, kvref_error *err)
{
    int n_row = 1 + c->n_codebook;
    uint64_t state = seed ^ ((uint64_t)round << 32) ^ (uint64_t)n << 1;
    *out = (kvref_frames){.n_row = n_row, .n_frame = n, .cap = n};
    out->value = calloc((size_t)n * (size_t)n_row, sizeof *out->value);
    if (!out->value) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    for (int t = 0; t < n; t++) {
        int32_t *frame = out->value + (size_t)t * (size_t)n_row;
        bool speech = t >= n / 2;
        for (int b = 0; speech && b < c->n_codebook; b++)
            frame[1 + b] = below(&state, c->n_code);
        frame[0] = speech ? c->semantic_begin + frame[1] : below(&state, c->n_vocab);
    }
    return KVREF_OK;
}

void bench_fill(kvref_decoder *d, int n, uint64_t seed)
{
    const ref_kv *kv = &d->slow.kv;
    size_t n_value = (size_t)n * (size_t)kv->d_head;
    for (int l = 0; l < kv->n_layer; l++)
        for (int value = 0; value < 2; value++)
            for (int g = 0; g < kv->n_head; g++) {
                float *x = ref_kv_head(kv, l, value, g);
                uint32_t state =
                    (uint32_t)(seed + (uint64_t)((l * 2 + value) * kv->n_head + g));
                for (size_t i = 0; i < n_value; i++) {
                    state = state * 1664525u + 1013904223u;
                    x[i] = (float)(state >> 8) * 0x1p-24f - 0.5f;
                }
            }
    ref_rope_reach(&d->slow.rope, n);
    d->n_pos = n;
}
