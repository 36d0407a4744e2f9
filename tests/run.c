/* SPDX-License-Identifier: MIT */
#include "tests/run.h"

#include "tests/support.h"

#include <stdlib.h>
#include <string.h>

static void copy_kv(run *r, const kvref_decoder *d)
{
    const ref_kv *kv = &d->slow.kv;
    size_t rows = (size_t)r->n_pos * (size_t)kv->d_head;
    r->n_kv = (size_t)(kv->n_layer * 2 * kv->n_head) * rows;
    r->kv = calloc(r->n_kv, sizeof *r->kv);
    ck_assert_ptr_nonnull(r->kv);
    float *to = r->kv;
    for (int l = 0; l < kv->n_layer; l++)
        for (int value = 0; value < 2; value++)
            for (int g = 0; g < kv->n_head; g++, to += rows)
                memcpy(to, ref_kv_head(kv, l, value, g), rows * sizeof *to);
}

static void walk_fast(run *r, kvref_decoder *d, run_hook *hook)
{
    const kvref_config *c = &d->config;
    kvref_error err;
    for (int book = 1; book < c->n_codebook; book++) {
        size_t row = (size_t)(r->n_call * (c->n_codebook - 1) + book - 1) * (size_t)c->n_code;
        if (hook) hook(d, true);
        must(ref_fast(d, r->fast + row, book, (7 * book + r->n_pos) % c->n_code, &err), err);
    }
}

void run_feed(
    run *out, kvref_decoder *d, const int32_t *frames, int n, const int *piece, run_hook *hook)
{
    const kvref_config *c = &d->config;
    size_t a = (size_t)d->n_candidate, calls = (size_t)n, wide = (size_t)c->fast.d_model;
    kvref_error err;
    *out = (run){.end = calloc(calls, sizeof(int)),
                 .logits = calloc(calls * a, sizeof(float)),
                 .hidden = calloc(calls * wide, sizeof(float)),
                 .fast = calloc(calls * (size_t)(c->n_codebook * c->n_code), sizeof(float)),
                 .count = calloc(calls * (size_t)(c->slow.n_layer + 1), sizeof *out->count)};
    ck_assert(out->end && out->logits && out->hidden && out->fast && out->count);
    for (int fed = 0, size = 1; fed < n; fed += size) {
        if (*piece) size = *piece++;
        if (size > n - fed) size = n - fed;
        if (hook) hook(d, false);
        const int32_t *frame = frames + fed * (1 + c->n_codebook);
        must(ref_slow(d, out->logits + (size_t)out->n_call * a, frame, size, &err), err);
        memcpy(out->hidden + (size_t)out->n_call * wide, d->hidden, wide * sizeof(float));
        out->n_pos = out->end[out->n_call] = d->n_pos;
        walk_fast(out, d, hook);
        kvref_kv_count *count = out->count + out->n_call * (c->slow.n_layer + 1);
        for (int l = 0; l < c->slow.n_layer; l++) count[l] = ref_kv_count(d, l);
        count[c->slow.n_layer] = ref_kv_count(d, -1);
        out->n_call++;
    }
    copy_kv(out, d);
}

void run_make(run *out,
              const world *w,
              const kvref_decoder_opts *opts,
              const int32_t *frames,
              int n,
              const int *piece,
              run_hook *hook)
{
    kvref_decoder *d;
    kvref_error err;
    must(ref_decoder_open(&d, &w->config, &w->weights, opts, &err), err);
    run_feed(out, d, frames, n, piece, hook);
    ref_decoder_close(&d);
    ck_assert_ptr_null(d);
}

void run_free(run *r)
{
    free(r->end);
    free(r->kv);
    free(r->logits);
    free(r->hidden);
    free(r->fast);
    free(r->count);
    *r = (run){0};
}

static void must_be_rows(
    const float *a, const float *b, size_t n, const char *what, const char *which, int end)
{
    ck_assert_msg(world_differ(a, b, n) == 0, "%s: %s differ at %d", what, which, end);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(a[i] - a[i] == 0, "%s: %s are not finite at %d", what, which, end);
}

void run_must_agree(const run *a, const run *b, const kvref_config *c, const char *what)
{
    size_t kinds = (size_t)kvref_config_candidates(c, NULL, 0);
    size_t fast = (size_t)((c->n_codebook - 1) * c->n_code), wide = (size_t)c->fast.d_model;
    int n_shared = 0, i = 0;
    ck_assert_int_eq(a->n_pos, b->n_pos);
    ck_assert_msg(world_differ(a->kv, b->kv, a->n_kv) == 0, "%s: K or V differ", what);
    for (int j = 0; j < b->n_call; j++) {
        while (i < a->n_call && a->end[i] < b->end[j]) i++;
        if (i == a->n_call || a->end[i] != b->end[j]) continue;
        size_t x = (size_t)i, y = (size_t)j;
        int end = a->end[i];
        must_be_rows(a->logits + x * kinds, b->logits + y * kinds, kinds, what, "logits", end);
        must_be_rows(a->hidden + x * wide, b->hidden + y * wide, wide, what, "states", end);
        must_be_rows(a->fast + x * fast, b->fast + y * fast, fast, what, "fast logits", end);
        n_shared++;
    }
    ck_assert_int_ge(n_shared, 1);
    if (a->n_call == b->n_call) ck_assert_int_eq(n_shared, a->n_call);
}
