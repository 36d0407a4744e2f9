/* SPDX-License-Identifier: MIT */
/* The decoder as a whole: what may not change a bit, and what must be refused. */
#include "tests/run.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const int whole[] = {1000, 0}, single[] = {1, 0};

/* Both models, with every dtype once and matrices at odd addresses. */
static void open_setting(world *w, int i)
{
    kvref_config config = i % 2 ? world_odd() : world_tiny();
    static const kvref_dtype dtype[] = {KVREF_BF16, KVREF_F16, KVREF_F32, KVREF_BF16};
    world_open(w, &config, dtype[i], (size_t)i);
}

START_TEST(prefix_equals_full_bit_for_bit)
{
    static const int pieces[] = {5, 1, 1, 4, 1, 0};
    world w;
    open_setting(&w, _i);
    int32_t *frames = world_frames(&w.config, 24, 1);
    run prefix, full;
    run_make(&prefix,
             &w,
             &(kvref_decoder_opts){.capacity = 32, .n_thread = 1},
             frames,
             24,
             pieces,
             NULL);
    run_make(&full,
             &w,
             &(kvref_decoder_opts){.capacity = 32, .n_thread = 1, .attention = KVREF_ATTN_FULL},
             frames,
             24,
             pieces,
             NULL);
    run_must_agree(&prefix, &full, &w.config, "full");
    run_free(&prefix);
    run_free(&full);
    free(frames);
    world_close(&w);
}
END_TEST

START_TEST(result_is_independent_of_capacity)
{
    static const int capacity[] = {64, 300, 4096, 32768};
    static const int pieces[] = {40, 1, 0};
    world w;
    open_setting(&w, _i);
    int32_t *frames = world_frames(&w.config, 60, 2);
    run first, other;
    run_make(&first,
             &w,
             &(kvref_decoder_opts){.capacity = 60, .n_thread = 1},
             frames,
             60,
             pieces,
             NULL);
    for (int i = 0; i < 4; i++) {
        run_make(&other,
                 &w,
                 &(kvref_decoder_opts){.capacity = capacity[i], .n_thread = 1},
                 frames,
                 60,
                 pieces,
                 NULL);
        run_must_agree(&first, &other, &w.config, "capacity");
        ck_assert(memcmp(first.count,
                         other.count,
                         (size_t)(first.n_call * (w.config.slow.n_layer + 1)) *
                             sizeof *first.count) == 0);
        run_free(&other);
    }
    run_free(&first);
    free(frames);
    world_close(&w);
}
END_TEST

/* Wide enough that even a single position wakes the others, in matrices and in attention. */
START_TEST(result_is_independent_of_threads)
{
    static const int threads[] = {2, 3, 8};
    static const int pieces[] = {70, 1, 0};
    kvref_config config = world_tiny();
    config.slow = (kvref_stack){2, 512, 16, 4, 96, 700, false, false, true};
    config.fast.d_ff = 2100;
    ck_assert(0.1 * 512 * (16 + 2 * 4) * 96 > REF_WAKE_WORK); /* wq, wk, wv (linear.c) */
    ck_assert(0.1 * 64 * 2 * 2100 > REF_WAKE_WORK);           /* fast w1, w3           */
    ck_assert(0.2 * 71 * 16 * 96 > REF_WAKE_WORK);            /* attention.c           */
    world w;
    world_open(&w, &config, KVREF_BF16, 0);
    int32_t *frames = world_frames(&config, 74, 3);
    run first, other;
    for (int mode = 0; mode < 2; mode++) {
        kvref_decoder_opts opts = {
            .capacity = 100, .n_thread = 1, .attention = (kvref_attention)mode};
        run_make(&first, &w, &opts, frames, 74, pieces, NULL);
        for (int i = 0; i < 3; i++) {
            opts.n_thread = threads[i];
            run_make(&other, &w, &opts, frames, 74, pieces, NULL);
            run_must_agree(&first, &other, &config, "threads");
            run_free(&other);
        }
        run_free(&first);
    }
    free(frames);
    world_close(&w);
}
END_TEST

/* Whole, one by one, 1 + rest, halves, and pieces around the size of a block of rows. */
START_TEST(prefill_equals_step_by_step_equals_chunks)
{
    enum { N = 2 * REF_ROWS + 9 };
    static const int one_and_rest[] = {1, N, 0}, halves[] = {N / 2, N, 0};
    static const int odd[] = {3, REF_ROWS + 1, REF_ROWS - 1, 1, 0}, sevens[] = {7, 0};
    static const int *const pieces[] = {single, one_and_rest, halves, odd, sevens};
    world w;
    open_setting(&w, _i);
    int32_t *frames = world_frames(&w.config, N, 4);
    kvref_decoder_opts opts = {.capacity = N, .n_thread = 1};
    run first, other;
    run_make(&first, &w, &opts, frames, N, whole, NULL);
    ck_assert_int_eq(first.n_call, 1);
    for (int i = 0; i < 5; i++) {
        run_make(&other, &w, &opts, frames, N, pieces[i], NULL);
        run_must_agree(&first, &other, &w.config, "chunks");
        run_free(&other);
    }
    run_free(&first);
    free(frames);
    world_close(&w);
}
END_TEST

static int poison_kind;

static float poison_value(uint32_t *state)
{
    switch (poison_kind) {
    case 0:
        return NAN;
    case 1:
        return INFINITY;
    case 2:
        return 65504.0f;
    default:
        return kvref_bits_f32(kvref_f32_bits(world_noise(state)) * 2654435761u);
    }
}

static void poison_rows(const ref_kv *kv, int first)
{
    uint32_t state = 5;
    for (int l = 0; l < kv->n_layer; l++)
        for (int value = 0; value < 2; value++)
            for (int g = 0; g < kv->n_head; g++) {
                float *x = ref_kv_head(kv, l, value, g);
                for (int i = first * kv->d_head; i < kv->capacity * kv->d_head; i++)
                    x[i] = poison_value(&state);
            }
}

/* Everything beyond the prefix of both caches; at the start of a frame the whole fast cache. */
static void poison_tails(kvref_decoder *d, bool before_fast)
{
    poison_rows(&d->slow.kv, d->n_pos);
    poison_rows(&d->fast.kv, before_fast && d->book > 0 ? d->book + 1 : 0);
}

START_TEST(poisoned_tail_is_never_read_at_any_layer_of_either_transformer)
{
    static const int pieces[] = {6, 1, 1, 3, 1, 0};
    world w;
    open_setting(&w, _i);
    int32_t *frames = world_frames(&w.config, 20, 5);
    kvref_decoder_opts opts = {.capacity = 40, .n_thread = 1};
    run clean, other;
    run_make(&clean, &w, &opts, frames, 20, pieces, NULL);
    for (poison_kind = 0; poison_kind < 4; poison_kind++) {
        run_make(&other, &w, &opts, frames, 20, pieces, poison_tails);
        run_must_agree(&clean, &other, &w.config, "poison");
        run_free(&other);
    }
    run_free(&clean);
    free(frames);
    world_close(&w);
}
END_TEST

START_TEST(full_mode_under_a_nan_tail_gives_nan)
{
    world w;
    open_setting(&w, 0);
    int32_t *frames = world_frames(&w.config, 5, 5);
    kvref_decoder_opts opts = {.capacity = 40, .n_thread = 1, .attention = KVREF_ATTN_FULL};
    run r;
    poison_kind = 0;
    run_make(&r, &w, &opts, frames, 5, single, poison_tails);
    ck_assert(isnan(r.logits[0]) && isnan(r.fast[0]));
    run_free(&r);
    free(frames);
    world_close(&w);
}
END_TEST

/* Heads of 16 floats: the first page of a head holds 64 rows, the rest is taken away. */
static void forbid_tails(kvref_decoder *d, bool before_fast)
{
    const ref_kv *kv = &d->slow.kv;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (before_fast || d->n_pos) return;
    for (int i = 0; i < kv->n_layer * 2 * kv->n_head; i++)
        ck_assert(mprotect(kv->base + (size_t)i * kv->head_byte + page,
                           kv->head_byte - page,
                           PROT_NONE) == 0);
}

START_TEST(unreadable_tail_is_never_touched)
{
    static const int pieces[] = {20, 1, 0};
    world w;
    open_setting(&w, 0);
    int n = (int)(sysconf(_SC_PAGESIZE) / 64);
    int32_t *frames = world_frames(&w.config, n, 5);
    kvref_decoder_opts opts = {.capacity = 4096, .n_thread = 1};
    run clean, other;
    run_make(&clean, &w, &opts, frames, n, pieces, NULL);
    run_make(&other, &w, &opts, frames, n, pieces, forbid_tails);
    run_must_agree(&clean, &other, &w.config, "forbidden tail");
    run_free(&clean);
    run_free(&other);
    free(frames);
    world_close(&w);
}
END_TEST

START_TEST(rows_read_are_exactly_kv_len_per_layer_and_step)
{
    enum { T = 7, N = 20 };
    static const int pieces[] = {T, 1, 0};
    world w;
    open_setting(&w, _i);
    const kvref_stack *s = &w.config.slow, *f = &w.config.fast;
    int32_t *frames = world_frames(&w.config, N, 6);
    run r;
    run_make(&r,
             &w,
             &(kvref_decoder_opts){.capacity = 4096, .n_thread = 1},
             frames,
             N,
             pieces,
             NULL);
    for (int call = 0; call < r.n_call; call++) {
        const kvref_kv_count *count = r.count + call * (s->n_layer + 1);
        uint64_t rows =
            (uint64_t)s->n_kv_head * (call ? (uint64_t)(T + call) : T * (T + 1) / 2);
        for (int l = 0; l < s->n_layer; l++) {
            ck_assert_uint_eq(count[l].k_rows, rows);
            ck_assert_uint_eq(count[l].v_rows, rows);
            ck_assert_uint_eq(count[l].bytes, 2 * rows * (uint64_t)s->d_head * 4);
        }
        uint64_t books = (uint64_t)w.config.n_codebook;
        rows = (uint64_t)(f->n_layer * f->n_kv_head) * (books * (books + 1) / 2);
        ck_assert_uint_eq(count[s->n_layer].k_rows, rows);
        ck_assert_uint_eq(count[s->n_layer].bytes, 2 * rows * (uint64_t)f->d_head * 4);
    }
    run_free(&r);
    free(frames);
    world_close(&w);
}
END_TEST

START_TEST(rewind_forgets_and_nothing_of_it_remains)
{
    world w;
    open_setting(&w, _i);
    int32_t *frames = world_frames(&w.config, 20, 7), *others = world_frames(&w.config, 20, 8);
    kvref_decoder_opts opts = {.capacity = 40, .n_thread = 1};
    kvref_decoder *d;
    kvref_error err;
    float logits[64];
    run fresh, again;
    must(ref_decoder_open(&d, &w.config, &w.weights, &opts, &err), err);
    run_feed(&fresh, d, frames, 20, single, NULL);
    run_feed(&again, d, others, 20, single, NULL);
    run_free(&again);
    must(ref_rewind(d, 13, &err), err);
    must_fail(ref_fast(d, logits, 1, 0, &err), KVREF_E_ARG, err, "no slow step");
    run_feed(&again, d, frames + 13 * (1 + w.config.n_codebook), 7, single, NULL);
    run_must_agree(&fresh, &again, &w.config, "rewind");
    run_free(&again);
    must_fail(ref_rewind(d, 21, &err), KVREF_E_ARG, err, "0..20, found 21");
    must_fail(ref_rewind(d, -1, &err), KVREF_E_ARG, err, "found -1");
    must(ref_rewind(d, 20, &err), err);
    must(ref_fast(d, logits, 1, 0, &err), err); /* nothing was forgotten */
    must(ref_rewind(d, 0, &err), err);
    run_feed(&again, d, frames, 20, whole, NULL);
    run_must_agree(&fresh, &again, &w.config, "rewind to 0");
    run_free(&again);
    run_free(&fresh);
    ref_decoder_close(&d);
    free(frames);
    free(others);
    world_close(&w);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("decoder");
    TCase *tc = tcase_create("decoder");
    tcase_add_loop_test(tc, prefix_equals_full_bit_for_bit, 0, 4);
    tcase_add_loop_test(tc, result_is_independent_of_capacity, 0, 4);
    tcase_add_test(tc, result_is_independent_of_threads);
    tcase_add_loop_test(tc, prefill_equals_step_by_step_equals_chunks, 0, 4);
    tcase_add_loop_test(
        tc, poisoned_tail_is_never_read_at_any_layer_of_either_transformer, 0, 4);
    tcase_add_test(tc, full_mode_under_a_nan_tail_gives_nan);
    tcase_add_test(tc, unreadable_tail_is_never_touched);
    tcase_add_loop_test(tc, rows_read_are_exactly_kv_len_per_layer_and_step, 0, 4);
    tcase_add_loop_test(tc, rewind_forgets_and_nothing_of_it_remains, 0, 4);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
