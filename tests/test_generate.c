/* SPDX-License-Identifier: MIT */
/* How long a generation is, what ends it and what the decoder is fed. */
#include "base/trace.h"
#include "tests/fake.h"
#include "tests/support.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* ---- length ---- */

START_TEST(the_budget_is_capped_by_the_capacity_alone)
{
    static const struct {
        int n_prompt, max_new_tokens, frames; /* frames 0: refused */
    } row[] = {
        {20, 0, 44},
        {20, 1, 1},
        {20, 16, 16},
        {20, 43, 43},
        {20, 44, 44},
        {20, 45, 0},
        {63, 0, 1},
        {63, 1, 1},
        {63, 2, 0},
        {64, 0, 0},
        {64, 1, 0},
        {65, 0, 0},
        {1, 0, 63},
        {20, INT_MAX, 0},
        {1, 63, 63},
        {1, 64, 0},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        fake_begin();
        fake.prompt.n_frame = row[i].n_prompt;
        fake.opts.max_new_tokens = row[i].max_new_tokens;
        if (row[i].frames == 0) {
            must_fail(fake_generate(1), KVREF_E_CAPACITY, fake.err, "capacity");
            ck_assert_int_eq(fake.decoder.n_slow + fake.decoder.n_rewind, 0);
            ck_assert_ptr_null(fake.made.frames.value);
        } else {
            int last = row[i].n_prompt + row[i].frames - 1;
            must(fake_generate(1), fake.err);
            fake_expect(row[i].frames, row[i].frames - 1, KVREF_STOP_LENGTH);
            ck_assert_int_eq(fake.decoder.length, last); /* the last frame is not fed back */
        }
    }
    fake_begin();
    fake.prompt.n_frame = 20;
    fake.opts.max_new_tokens = 45;
    must_fail(fake_generate(1),
              KVREF_E_CAPACITY,
              fake.err,
              "budget of 45 frames after a prompt of 20");
    must_fail(fake_generate(1), KVREF_E_CAPACITY, fake.err, "at most 44, the capacity is 64");
}
END_TEST

START_TEST(a_budget_of_one_gives_no_code_unless_the_last_frame_is_kept)
{
    fake_begin();
    fake.opts.max_new_tokens = 1;
    must(fake_generate(1), fake.err);
    fake_expect(1, 0, KVREF_STOP_LENGTH);
    fake.opts.keep_last_frame = true;
    must(fake_generate(1), fake.err);
    fake_expect(1, 1, KVREF_STOP_LENGTH);
}
END_TEST

START_TEST(a_model_that_never_ends_stops_at_the_limit)
{
    static const int never[] = {3, 4, 5, 6, 7, 8};
    fake_begin();
    fake_script(never, 6);
    fake.opts.max_new_tokens = 6;
    must(fake_generate(1), fake.err);
    fake_expect(6, 5, KVREF_STOP_LENGTH);
    fake.opts.keep_last_frame = true;
    must(fake_generate(1), fake.err);
    fake_expect(6, 6, KVREF_STOP_LENGTH);
}
END_TEST

/* ---- the end token ---- */

START_TEST(an_end_in_the_prefill_is_a_frame_like_others)
{
    static const int first[] = {0, 3, 4, 5};
    fake_begin();
    fake_script(first, 4);
    fake.opts.max_new_tokens = 4;
    must(fake_generate(1), fake.err);
    fake_expect(4, 3, KVREF_STOP_LENGTH);
    ck_assert_int_eq(fake_token(0), FAKE_END);
    ck_assert_int_eq(fake.made.codes.code[0], 0);
    ck_assert_int_eq(fake_token(1), FAKE_BEGIN + 2);
}
END_TEST

START_TEST(an_end_in_the_prefill_stops_if_asked_to)
{
    static const int first[] = {0, 3, 4, 5};
    fake_begin();
    fake_script(first, 4);
    fake.opts.stop_at_first_end = true;
    must(fake_generate(1), fake.err);
    fake_expect(1, 0, KVREF_STOP_END);
    fake.opts.keep_last_frame = true;
    must(fake_generate(1), fake.err);
    fake_expect(1, 0, KVREF_STOP_END);
}
END_TEST

START_TEST(an_end_in_the_first_decode_call_leaves_one_frame)
{
    static const int second[] = {3, 0, 4, 5};
    fake_begin();
    fake_script(second, 4);
    for (int keep = 0; keep < 2; keep++) {
        fake.opts.keep_last_frame = keep;
        must(fake_generate(1), fake.err);
        fake_expect(2, 1, KVREF_STOP_END);
        ck_assert_int_eq(fake_token(1), FAKE_END);
        ck_assert_int_eq(fake.decoder.n_fast, 2 * FAKE_N - 2);
    }
}
END_TEST

START_TEST(an_end_as_the_last_frame_of_the_budget_is_an_end)
{
    static const int third[] = {3, 4, 0};
    fake_begin();
    fake_script(third, 3);
    fake.opts.max_new_tokens = 3;
    must(fake_generate(1), fake.err);
    fake_expect(3, 2, KVREF_STOP_END);
}
END_TEST

START_TEST(the_end_cannot_be_drawn_in_the_first_min_frames)
{
    static const int always[8] = {0};
    for (int n = 0; n < 5; n++) {
        fake_begin();
        fake_script(always, 8);
        fake.opts.min_frames = n;
        fake.opts.max_new_tokens = 8;
        must(fake_generate(1), fake.err);
        int end = n > 1 ? n : 1;
        fake_expect(end + 1, end, KVREF_STOP_END);
        for (int f = 0; f < end; f++) ck_assert((fake_token(f) != FAKE_END) == (f < n));
    }
    fake_begin();
    fake.config.im_end = FAKE_V - 1; /* now the last candidate */
    fake_script((int[]){FAKE_A - 1, FAKE_A - 1, FAKE_A - 1}, 3);
    fake.opts.min_frames = 2;
    must(fake_generate(1), fake.err);
    fake_expect(3, 2, KVREF_STOP_END);
    /* The fallback must not find it either. */
    fake_begin();
    fake.decoder.lead = 0;
    fake.opts.sampling.temperature = 1;
    fake.opts.min_frames = 40;
    fake.opts.max_new_tokens = 40;
    for (uint64_t seed = 0; seed < 20; seed++) {
        must(fake_generate(seed), fake.err);
        fake_expect(40, 39, KVREF_STOP_LENGTH);
        for (int f = 0; f < 40; f++) ck_assert_int_ne(fake_token(f), FAKE_END);
    }
}
END_TEST

/* ---- what is fed ---- */

START_TEST(every_frame_but_the_last_is_fed_at_the_next_position)
{
    fake_begin();
    fake.opts.sampling.temperature = 1;
    fake.opts.max_new_tokens = 9;
    fake.opts.min_frames = 9;
    must(fake_generate(3), fake.err);
    fake_expect(9, 8, KVREF_STOP_LENGTH);
    ck_assert_int_eq(fake.decoder.n_rewind, 1);
    ck_assert_int_eq(fake.decoder.n_slow, 9);
    ck_assert_int_eq(fake.decoder.length, 5 + 8);
    ck_assert_mem_eq(fake.decoder.fed[0], fake.prompt_value, sizeof fake.decoder.fed[0] * 5);
    for (int f = 0; f < 8; f++)
        ck_assert_mem_eq(fake.decoder.fed[5 + f],
                         fake.made.frames.value + (size_t)f * FAKE_ROW,
                         sizeof fake.decoder.fed[0]);
    for (int f = 0; f < 9; f++) {
        const int32_t *frame = fake.made.frames.value + (size_t)f * FAKE_ROW;
        ck_assert_int_eq(frame[1], frame[0] - FAKE_BEGIN);
        for (int b = 1; b < FAKE_N; b++)
            ck_assert_int_eq(fake.decoder.fast_code[f * (FAKE_N - 1) + b - 1], frame[b]);
    }
}
END_TEST

START_TEST(codes_of_a_token_above_the_semantic_ids_are_clamped)
{
    static const int last[] = {FAKE_A - 1};
    fake_begin();
    fake.config.im_end = FAKE_V - 1; /* now the last candidate */
    fake_script(last, 1);
    fake.opts.max_new_tokens = 1;
    must(fake_generate(1), fake.err);
    ck_assert_int_eq(fake_token(0), FAKE_V - 1);
    ck_assert_int_eq(fake.made.frames.value[1], FAKE_K - 1);
}
END_TEST

/* ---- what is recorded ---- */

static const kvref_trace_item *recorded(const kvref_trace *trace, const char *name)
{
    for (size_t i = 0; i < trace->n_item; i++)
        if (strcmp(trace->item[i].name, name) == 0) return &trace->item[i];
    ck_abort_msg("%s is missing", name);
    return NULL;
}

START_TEST(the_trace_holds_columns_lengths_and_rows_read)
{
    enum { CALLS = 4 };
    kvref_trace *trace;
    const kvref_trace_item *item;
    fake_begin();
    must(kvref_trace_open(&trace, &fake.err), fake.err);
    fake.opts.trace = trace;
    fake.opts.max_new_tokens = CALLS;
    must(fake_generate(1), fake.err);

    item = recorded(trace, "prompt");
    ck_assert(item->n_row == 5 && item->width == FAKE_ROW);
    ck_assert_mem_eq(item->data, fake.prompt_value, item->n_byte);
    item = recorded(trace, "frames");
    ck_assert(item->n_row == CALLS && item->width == FAKE_ROW);
    ck_assert_mem_eq(item->data, fake.made.frames.value, item->n_byte);
    item = recorded(trace, "slow.kv_len");
    ck_assert(item->n_row == CALLS && item->width == 0);
    for (int i = 0; i < CALLS; i++) ck_assert_int_eq(((const int32_t *)item->data)[i], 5 + i);
    item = recorded(trace, "slow.kv_rows");
    ck_assert(item->n_row == CALLS && item->width == FAKE_L);
    for (int i = 0; i < CALLS * FAKE_L; i++)
        ck_assert_int_eq(((const int64_t *)item->data)[i], 5 + i / FAKE_L);
    item = recorded(trace, "slow.kv_bytes");
    ck_assert(item->n_row == CALLS && item->width == FAKE_L);
    for (int i = 0; i < CALLS * FAKE_L; i++)
        ck_assert_int_eq(((const int64_t *)item->data)[i],
                         (5 + i / FAKE_L) * FAKE_G * 8 + i % FAKE_L);
    ck_assert_uint_eq(trace->n_item, 6);
    kvref_trace_close(&trace);
}
END_TEST

/* The end token 0.005 behind the best, then the best by as much. */
START_TEST(a_near_tie_at_the_end_token_is_recorded_as_one)
{
    static const int favourite[] = {7, 0};
    kvref_trace *trace;
    fake_begin();
    fake_script(favourite, 2);
    fake.decoder.lead = 0.005f;
    must(kvref_trace_open(&trace, &fake.err), fake.err);
    fake.opts.trace = trace;
    fake.opts.max_new_tokens = 2;
    must(fake_generate(1), fake.err);
    const kvref_trace_item *item = recorded(trace, "slow.decision");
    ck_assert(item->n_row == 2 && item->width == 3);
    const float *row = (const float *)(const void *)item->data;
    for (int call = 0; call < 2; call++, row += 3) {
        double top = exp(0.005), want = call ? top : 1;
        ck_assert(row[0] == 0.005f);
        ck_assert(fabs((double)row[1] - want / (FAKE_A - 1 + top)) < 1e-7);
        ck_assert(row[2] == (call ? 0 : 1));
    }
    kvref_trace_close(&trace);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("generate");
    TCase *tc = tcase_create("generate");
    tcase_add_test(tc, the_budget_is_capped_by_the_capacity_alone);
    tcase_add_test(tc, a_budget_of_one_gives_no_code_unless_the_last_frame_is_kept);
    tcase_add_test(tc, a_model_that_never_ends_stops_at_the_limit);
    tcase_add_test(tc, an_end_in_the_prefill_is_a_frame_like_others);
    tcase_add_test(tc, an_end_in_the_prefill_stops_if_asked_to);
    tcase_add_test(tc, an_end_in_the_first_decode_call_leaves_one_frame);
    tcase_add_test(tc, an_end_as_the_last_frame_of_the_budget_is_an_end);
    tcase_add_test(tc, the_end_cannot_be_drawn_in_the_first_min_frames);
    tcase_add_test(tc, every_frame_but_the_last_is_fed_at_the_next_position);
    tcase_add_test(tc, codes_of_a_token_above_the_semantic_ids_are_clamped);
    tcase_add_test(tc, the_trace_holds_columns_lengths_and_rows_read);
    tcase_add_test(tc, a_near_tie_at_the_end_token_is_recorded_as_one);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
