/* SPDX-License-Identifier: MIT */
/* The calls of the decoder: order, refusals, opening, and the short cut of a frame. */
#include "kvref/limits.h"
#include "tests/run.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Everything that a refused call must leave alone. */
static float *snapshot(const kvref_decoder *d)
{
    size_t kv = (size_t)(d->slow.kv.n_layer * 2 * d->slow.kv.n_head) * d->slow.kv.head_byte / 4;
    size_t fast =
        (size_t)(d->fast.kv.n_layer * 2 * d->fast.kv.n_head) * d->fast.kv.head_byte / 4;
    size_t hidden = (size_t)d->config.fast.d_model;
    float *all = malloc((kv + fast + hidden) * sizeof *all);
    ck_assert_ptr_nonnull(all);
    memcpy(all, d->slow.kv.base, kv * sizeof *all);
    memcpy(all + kv, d->fast.kv.base, fast * sizeof *all);
    memcpy(all + kv + fast, d->hidden, hidden * sizeof *all);
    return all;
}

static void must_be_unchanged(const kvref_decoder *d, float *before, int n_pos)
{
    size_t kv = (size_t)(d->slow.kv.n_layer * 2 * d->slow.kv.n_head) * d->slow.kv.head_byte / 4;
    size_t fast =
        (size_t)(d->fast.kv.n_layer * 2 * d->fast.kv.n_head) * d->fast.kv.head_byte / 4;
    float *now = snapshot(d);
    ck_assert_uint_eq(world_differ(before, now, kv + fast + (size_t)d->config.fast.d_model), 0);
    ck_assert_int_eq(d->n_pos, n_pos);
    free(now);
    free(before);
}

START_TEST(full_cache_refuses_before_writing)
{
    kvref_config config = world_odd();
    world w;
    world_open(&w, &config, KVREF_BF16, 0);
    kvref_decoder *d = world_decoder(&w, (kvref_decoder_opts){.capacity = 12});
    int32_t *frames = world_frames(&config, 14, 1);
    float logits[64];
    kvref_error err;
    float *before = snapshot(d);
    must_fail(ref_slow(d, logits, frames, 13, &err),
              KVREF_E_CAPACITY,
              err,
              "0 positions held and 13 more do not fit capacity 12");
    must_be_unchanged(d, before, 0);
    must(ref_slow(d, logits, frames, 11, &err), err); /* capacity - 1 */
    before = snapshot(d);
    must_fail(ref_slow(d, logits, frames, 2, &err),
              KVREF_E_CAPACITY,
              err,
              "11 positions held and 2 more");
    must_be_unchanged(d, before, 11);
    must(ref_fast(d, logits, 1, 3, &err), err); /* the refused call took nothing away */
    must(ref_slow(d, logits, frames, 1, &err), err);
    before = snapshot(d);
    must_fail(ref_slow(d, logits, frames, 1, &err),
              KVREF_E_CAPACITY,
              err,
              "12 positions held and 1 more");
    must_fail(
        ref_slow(d, logits, frames, 2147483647, &err), KVREF_E_CAPACITY, err, "2147483647");
    must_be_unchanged(d, before, 12);
    ref_decoder_close(&d);
    free(frames);
    world_close(&w);
}
END_TEST

START_TEST(invalid_token_or_code_is_refused_before_writing)
{
    kvref_config config = world_odd();
    world w;
    world_open(&w, &config, KVREF_F32, 0);
    kvref_decoder *d = world_decoder(&w, (kvref_decoder_opts){.capacity = 12});
    int32_t *frames = world_frames(&config, 8, 1);
    static const int32_t bad_token[] = {-1, 150, 2147483647, -2147483647 - 1};
    static const int32_t bad_code[] = {-1, 18, 4096, 2147483647};
    float logits[64];
    kvref_error err;
    must(ref_slow(d, logits, frames, 2, &err), err);
    float *before = snapshot(d);
    for (int i = 0; i < 4; i++) {
        int32_t keep = frames[7 * 6];
        frames[7 * 6] = bad_token[i];
        must_fail(ref_slow(d, logits, frames, 8, &err),
                  KVREF_E_ARG,
                  err,
                  "frames: column 7, row 0: expected 0..149");
        frames[7 * 6] = keep;
        for (int b = 0; b < 5; b += 4) {
            keep = frames[6 * 6 + 1 + b];
            frames[6 * 6 + 1 + b] = bad_code[i];
            must_fail(ref_slow(d, logits, frames, 8, &err),
                      KVREF_E_ARG,
                      err,
                      b ? "frames: column 6, row 5" : "frames: column 6, row 1");
            frames[6 * 6 + 1 + b] = keep;
        }
    }
    must_fail(ref_slow(d, logits, frames, 0, &err), KVREF_E_ARG, err, "at least 1, found 0");
    must_fail(ref_slow(d, logits, frames, -5, &err), KVREF_E_ARG, err, "found -5");
    must_be_unchanged(d, before, 2);
    ref_decoder_close(&d);
    free(frames);
    world_close(&w);
}
END_TEST

START_TEST(fast_steps_come_in_order_and_in_range)
{
    kvref_config config = world_odd();
    world w;
    world_open(&w, &config, KVREF_BF16, 0);
    kvref_decoder *d = world_decoder(&w, (kvref_decoder_opts){.capacity = 12});
    int32_t *frames = world_frames(&config, 2, 1);
    float logits[64], again[64];
    kvref_error err;
    must_fail(ref_fast(d, logits, 1, 0, &err), KVREF_E_ARG, err, "no slow step");
    must(ref_slow(d, logits, frames, 1, &err), err);
    must_fail(
        ref_fast(d, logits, 2, 0, &err), KVREF_E_ARG, err, "expected 1 or the one after 0");
    must_fail(ref_fast(d, logits, 0, 0, &err), KVREF_E_ARG, err, "found 0");
    must(ref_fast(d, logits, 1, 17, &err), err);
    must_fail(ref_fast(d, logits, 3, 0, &err), KVREF_E_ARG, err, "the one after 1");
    float *before = snapshot(d);
    must_fail(ref_fast(d, logits, 2, 18, &err),
              KVREF_E_ARG,
              err,
              "code of book 1: expected 0..17, found 18");
    must_fail(ref_fast(d, logits, 2, -1, &err), KVREF_E_ARG, err, "found -1");
    must_be_unchanged(d, before, 1);
    for (int book = 2; book < 5; book++) must(ref_fast(d, logits, book, book, &err), err);
    must_fail(ref_fast(d, logits, 5, 0, &err), KVREF_E_ARG, err, "below 5");
    for (int book = 1; book < 5; book++) /* a frame may be walked again */
        must(ref_fast(d, again, book, book == 1 ? 17 : book, &err), err);
    ck_assert_uint_eq(world_differ(logits, again, 18), 0);
    must(ref_fast(d, logits, 1, 0, &err), err);
    must(ref_slow(d, logits, frames + 6, 1, &err), err); /* begins a new frame */
    must_fail(ref_fast(d, logits, 2, 0, &err), KVREF_E_ARG, err, "the one after 0");
    ref_decoder_close(&d);
    free(frames);
    world_close(&w);
}
END_TEST

/* One row of the fast transformer at position pos, as spec 03 section 2 has it. */
static void one_pass(kvref_decoder *d, float *logits, const float *x, int pos)
{
    const kvref_config *c = &d->config;
    kvref_kv_count count = {0};
    memcpy(d->x, x, (size_t)c->fast.d_model * sizeof *x);
    for (int l = 0; l < c->fast.n_layer; l++) ref_block(d, &d->fast, l, pos, 1, &count);
    ref_rmsnorm(&d->tools,
                d->norm,
                d->x,
                1,
                c->fast.d_model,
                &d->weights->fast_norm,
                c->norm_eps,
                true);
    ref_linear(&d->tools, &(ref_matrix){logits, &d->weights->fast_head, NULL}, 1, d->norm, 1);
}

START_TEST(two_row_pass_equals_ten_passes_bit_for_bit)
{
    kvref_config config = _i ? world_odd() : world_tiny();
    config.n_codebook = 10;
    world w;
    world_open(&w, &config, KVREF_BF16, 0);
    kvref_decoder *d = world_decoder(&w, (kvref_decoder_opts){.capacity = 12});
    int32_t *frames = world_frames(&config, 1, 1);
    float logits[2][64], x[64], hidden[64];
    kvref_error err;
    size_t n_kv =
        (size_t)(config.fast.n_layer * 2 * config.fast.n_kv_head) * d->fast.kv.head_byte;
    must(ref_slow(d, logits[0], frames, 1, &err), err);
    memcpy(hidden, d->hidden, (size_t)config.fast.d_model * sizeof *x);
    for (int book = 1; book < 10; book++)
        must(ref_fast(d, logits[0], book, book + 3, &err), err);
    char *kv = malloc(n_kv);
    ck_assert_ptr_nonnull(kv);
    memcpy(kv, d->fast.kv.base, n_kv);
    memset(d->fast.kv.base, 0xff, n_kv);
    one_pass(d, logits[1], hidden, 0);
    for (int pos = 1; pos < 10; pos++) {
        ref_row(&d->tools, x, &w.weights.fast_embed, pos + 3);
        one_pass(d, logits[1], x, pos);
    }
    ck_assert_uint_eq(world_differ(logits[0], logits[1], (size_t)config.n_code), 0);
    size_t row = 10 * (size_t)config.fast.d_head * sizeof(float);
    for (int i = 0; i < config.fast.n_layer * 2 * config.fast.n_kv_head; i++) {
        size_t at = (size_t)i * d->fast.kv.head_byte;
        ck_assert(memcmp(kv + at, d->fast.kv.base + at, row) == 0);
    }
    free(kv);
    ref_decoder_close(&d);
    free(frames);
    world_close(&w);
}
END_TEST

/* ---- opening ---- */

START_TEST(options_out_of_range_are_refused)
{
    kvref_config config = world_tiny();
    world w;
    world_open(&w, &config, KVREF_F16, 0);
    kvref_decoder *d;
    kvref_error err;
    const kvref_decoder_opts bad[] = {{.capacity = -1},
                                      {.capacity = REF_MAX_POS + 1},
                                      {.n_thread = -1},
                                      {.n_thread = 5000},
                                      {.attention = (kvref_attention)7},
                                      {.linear = (kvref_linear)7},
                                      {.rope_table = (kvref_rope_table)7}};
    static const char *const text[] = {
        "capacity", "capacity", "threads", "threads", "attention", "linear", "rope table"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        must_fail(ref_decoder_open(&d, &config, &w.weights, &bad[i], &err),
                  KVREF_E_ARG,
                  err,
                  text[i]);
        ck_assert_ptr_null(d);
    }
    ref_decoder_close(&d); /* accepts what never opened */
    must(ref_decoder_open(&d, &config, &w.weights, &(kvref_decoder_opts){0}, &err), err);
    ck_assert_int_eq(d->slow.kv.capacity, config.max_seq_len);
    ref_decoder_close(&d);
    world_close(&w);
}
END_TEST

START_TEST(reserved_bytes_are_those_that_the_sizes_add_up_to)
{
    kvref_config config = world_tiny();
    world w;
    world_open(&w, &config, KVREF_F16, 0);
    for (int full = 0; full < 2; full++)
        for (int capacity = 32; capacity <= 32768; capacity *= 32) {
            kvref_decoder_opts opts = {.capacity = capacity,
                                       .n_thread = full ? 2 : 0,
                                       .attention = (kvref_attention)full};
            kvref_decoder *d;
            kvref_error err;
            must(ref_decoder_open(&d, &config, &w.weights, &opts, &err), err);
            size_t bytes = kvref_ref_bytes(&config, &opts);
            ck_assert_uint_eq(d->n_map, bytes);
            ck_assert_uint_ge(bytes, (size_t)capacity * (full ? 1024 : 512));
            ref_decoder_close(&d);
        }
    config.slow.n_layer = config.slow.d_head = config.slow.n_kv_head = 1 << 20;
    ck_assert(kvref_ref_bytes(&config, &(kvref_decoder_opts){.capacity = 1 << 20}) == SIZE_MAX);
    kvref_decoder *d;
    kvref_error err;
    must_fail(ref_decoder_open(
                  &d, &config, &w.weights, &(kvref_decoder_opts){.capacity = 1 << 20}, &err),
              KVREF_E_MEMORY,
              err,
              "more than can be addressed");
    world_close(&w);
}
END_TEST

static void keep_line(void *user, const char *text)
{
    snprintf(user, 200, "%s", text);
}

/* Prefill through OpenBLAS: close to exact, and one row still exact. */
START_TEST(blas_variant_stays_close_and_reports_a_poor_core)
{
    kvref_config config = world_odd();
    world w;
    world_open(&w, &config, KVREF_BF16, 0);
    char line[200] = "";
    int32_t *frames = world_frames(&config, 40, 1);
    static const int pieces[] = {39, 1, 0};
    kvref_decoder_opts opts = {.capacity = 50, .n_thread = 1};
    run exact, blas;
    run_make(&exact, &w, &opts, frames, 40, pieces, NULL);
    opts.linear = KVREF_LINEAR_BLAS;
    opts.log = (kvref_log){keep_line, line};
    run_make(&blas, &w, &opts, frames, 40, pieces, NULL);
    double worst = 0, size = 0;
    for (size_t i = 0; i < exact.n_kv; i++) {
        double err = fabs((double)exact.kv[i] - (double)blas.kv[i]);
        if (!(err <= worst)) worst = err;
        if (fabs((double)exact.kv[i]) > size) size = fabs((double)exact.kv[i]);
    }
    printf("K and V: %.2g of the largest; log: %s\n", worst / size, line);
    ck_assert(worst <= kvref_limit_of(KVREF_STORE_F32, "slow.k").limit.rel * size);
    ck_assert(line[0] == 0 || strstr(line, "OPENBLAS_CORETYPE="));
    run_free(&exact);
    run_free(&blas);
    free(frames);
    world_close(&w);
}
END_TEST

/* NaN in a weight: no crash, and it shows. */
START_TEST(nan_weights_give_nan_and_no_crash)
{
    kvref_config config = world_tiny();
    world w;
    world_open(&w, &config, KVREF_F32, 0);
    float *bad = world_floats(64 * 64, 1, 1);
    for (int i = 0; i < 64 * 64; i++) bad[i] = i % 2 ? NAN : INFINITY;
    w.weights.slow[0].wq.data = bad; /* [H*E, D] = [64, 64] */
    kvref_decoder *d = world_decoder(&w, (kvref_decoder_opts){.capacity = 30});
    int32_t *frames = world_frames(&config, 9, 1);
    float logits[64];
    kvref_error err;
    must(ref_slow(d, logits, frames, 9, &err), err);
    ck_assert(isnan(logits[0]));
    must(ref_fast(d, logits, 1, 0, &err), err);
    ck_assert(isnan(logits[0]));
    ref_decoder_close(&d);
    free(frames);
    free(bad);
    world_close(&w);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("decoder_calls");
    TCase *tc = tcase_create("calls");
    tcase_add_test(tc, full_cache_refuses_before_writing);
    tcase_add_test(tc, invalid_token_or_code_is_refused_before_writing);
    tcase_add_test(tc, fast_steps_come_in_order_and_in_range);
    tcase_add_loop_test(tc, two_row_pass_equals_ten_passes_bit_for_bit, 0, 2);
    tcase_add_test(tc, options_out_of_range_are_refused);
    tcase_add_test(tc, reserved_bytes_are_those_that_the_sizes_add_up_to);
    tcase_add_test(tc, blas_variant_stays_close_and_reports_a_poor_core);
    tcase_add_test(tc, nan_weights_give_nan_and_no_crash);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
