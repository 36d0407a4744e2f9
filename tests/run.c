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
    *out = (run){.logits = calloc(calls * a, sizeof(float)),
                 .hidden = calloc(calls * wide, sizeof(float)),
                 .fast = calloc(calls * (size_t)(c->n_codebook * c->n_code), sizeof(float)),
                 .count = calloc(calls * (size_t)(c->slow.n_layer + 1), sizeof *out->count)};
    ck_assert(out->logits && out->hidden && out->fast && out->count);
    for (int fed = 0, size = 1; fed < n; fed += size) {
        if (*piece) size = *piece++;
        if (size > n - fed) size = n - fed;
        if (hook) hook(d, false);
        const int32_t *frame = frames + fed * (1 + c->n_codebook);
        must(ref_slow(d, out->logits + (size_t)out->n_call * a, frame, size, &err), err);
        memcpy(out->hidden + (size_t)out->n_call * wide, d->hidden, wide * sizeof(float));
        out->n_pos = d->n_pos;
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
    free(r->kv);
    free(r->logits);
    free(r->hidden);
    free(r->fast);
    free(r->count);
    *r = (run){0};
}

static size_t last_row_differs(const float *a, int n_a, const float *b, int n_b, size_t width)
{
    return world_differ(a + (size_t)(n_a - 1) * width, b + (size_t)(n_b - 1) * width, width);
}

void run_must_agree(const run *a, const run *b, const kvref_config *c, const char *what)
{
    size_t kinds = (size_t)kvref_config_candidates(c, NULL, 0);
    size_t fast = (size_t)((c->n_codebook - 1) * c->n_code), wide = (size_t)c->fast.d_model;
    ck_assert_int_eq(a->n_pos, b->n_pos);
    ck_assert_msg(world_differ(a->kv, b->kv, a->n_kv) == 0, "%s: K or V differ", what);
    ck_assert_msg(last_row_differs(a->logits, a->n_call, b->logits, b->n_call, kinds) == 0,
                  "%s: logits differ",
                  what);
    ck_assert_msg(last_row_differs(a->hidden, a->n_call, b->hidden, b->n_call, wide) == 0,
                  "%s: hidden state differs",
                  what);
    ck_assert_msg(last_row_differs(a->fast, a->n_call, b->fast, b->n_call, fast) == 0,
                  "%s: fast logits differ",
                  what);
    for (size_t i = 0; i < kinds; i++) {
        float x = a->logits[(size_t)(a->n_call - 1) * kinds + i];
        ck_assert_msg(x - x == 0, "%s: logits are not finite", what);
    }
}
