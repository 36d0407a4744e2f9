/* SPDX-License-Identifier: MIT */
/* Interruption, failures, forced frames, and what is refused before the decoder hears of it. */
#include "tests/alloc.h"
#include "tests/fake.h"
#include "tests/support.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* ---- interruption and faults ---- */

static int seen_frames, seen_limit, stop_at;
static int allocated[FAKE_MOST]; /* calls made for each frame */

static int on_progress(void *user, int n_frame, int limit)
{
    allocated[n_frame] = alloc_count;
    ck_assert_ptr_eq(user, &fake);
    ck_assert_int_eq(n_frame, seen_frames + 1);
    seen_frames = n_frame;
    seen_limit = limit;
    alloc_count = 0; /* what the checks above took does not count */
    return n_frame == stop_at;
}

static void watch(int stop)
{
    seen_frames = seen_limit = 0;
    stop_at = stop;
    fake.opts.progress = on_progress;
    fake.opts.user = &fake;
}

START_TEST(stopping_on_request_keeps_the_frames_so_far)
{
    for (int at = 1; at < 4; at++) {
        fake_begin();
        fake.opts.max_new_tokens = 9;
        watch(at);
        must_fail(fake_generate(1), KVREF_E_STOPPED, fake.err, "stopped on request");
        ck_assert_int_eq(seen_limit, 9);
        fake_expect(at, at - 1, KVREF_STOP_LENGTH);
    }
}
END_TEST

START_TEST(no_frame_allocates)
{
    fake_begin();
    fake.opts.sampling.temperature = 1;
    fake.opts.max_new_tokens = fake.opts.min_frames = 40;
    watch(-1);
    must(fake_generate(1), fake.err);
    ck_assert_int_eq(seen_frames, 40);
    ck_assert_int_gt(allocated[1], 0); /* the count counts */
    for (int f = 2; f <= 40; f++) ck_assert_int_eq(allocated[f], 0);
}
END_TEST

START_TEST(a_failing_backend_leaves_nothing_behind)
{
    for (int call = 0; call < 4; call++) {
        fake_begin();
        fake.decoder.fail_call = call + 1;
        fake.decoder.fail_status = KVREF_E_DEVICE;
        must_fail(fake_generate(1), KVREF_E_DEVICE, fake.err, "failed");
        ck_assert(fake.made.frames.value == NULL && fake.made.codes.code == NULL);
        ck_assert_int_eq(fake.made.frames.n_frame, 0);
    }
}
END_TEST

START_TEST(a_backend_that_stops_keeps_the_frames_so_far)
{
    for (int call = 0; call < 4; call++) {
        fake_begin();
        fake.decoder.fail_call = call + 1;
        fake.decoder.fail_status = KVREF_E_STOPPED;
        must_fail(fake_generate(1), KVREF_E_STOPPED, fake.err, "failed");
        fake_expect(call, call > 0 ? call - 1 : 0, KVREF_STOP_LENGTH);
    }
}
END_TEST

START_TEST(logits_that_are_no_numbers_are_refused)
{
    fake_begin();
    fake.decoder.nan_at = 2;
    must_fail(fake_generate(1), KVREF_E_FORMAT, fake.err, "logit 3");
    ck_assert_ptr_null(fake.made.frames.value);
}
END_TEST

/* ---- forced frames ---- */

START_TEST(forced_frames_are_fed_without_a_draw)
{
    enum { THIRD = 2 * FAKE_ROW };
    int32_t value[4 * FAKE_ROW];
    for (int i = 0; i < 4 * FAKE_ROW; i++) value[i] = (i * 7 + 3) % FAKE_K;
    value[THIRD] = FAKE_END; /* an end does not stop them */
    const kvref_frames forced = {.n_row = FAKE_ROW, .n_frame = 4, .value = value};
    fake_begin();
    fake.opts.forced = &forced;
    fake.opts.sampling.top_p = 0; /* not looked at */
    must(fake_generate_from(NULL), fake.err);
    fake_expect(4, 3, KVREF_STOP_FORCED);
    fake.config.im_end = -1; /* nor need it be known */
    must(fake_generate_from(NULL), fake.err);
    fake_expect(4, 3, KVREF_STOP_FORCED);
    ck_assert_mem_eq(fake.made.frames.value, value, sizeof value);
    ck_assert_mem_eq(fake.decoder.fed[5], value, sizeof fake.decoder.fed[0] * 3);
    ck_assert_int_eq(fake.decoder.length, 8);
    for (int f = 0; f < 4; f++)
        for (int b = 1; b < FAKE_N; b++)
            ck_assert_int_eq(fake.decoder.fast_code[f * (FAKE_N - 1) + b - 1],
                             value[f * FAKE_ROW + b]);

    fake.opts.max_new_tokens = 2;
    must(fake_generate_from(NULL), fake.err);
    fake_expect(2, 1, KVREF_STOP_LENGTH);
    fake.opts.max_new_tokens = 9;
    fake.opts.keep_last_frame = true;
    must(fake_generate_from(NULL), fake.err);
    fake_expect(4, 4, KVREF_STOP_FORCED);
    fake.decoder.capacity = 8;
    must_fail(fake_generate_from(NULL), KVREF_E_CAPACITY, fake.err, "budget of 4 frames");
}
END_TEST

/* ---- refusals, all before the decoder hears of anything ---- */

static void refused(const char *what)
{
    must_fail(fake_generate(1), KVREF_E_ARG, fake.err, what);
    ck_assert_int_eq(fake.decoder.n_slow + fake.decoder.n_fast + fake.decoder.n_rewind, 0);
    ck_assert(fake.made.frames.value == NULL && fake.made.codes.code == NULL);
    fake_begin();
}

START_TEST(bad_numbers_are_refused_before_anything_is_written)
{
    fake_begin();
    fake.opts.max_new_tokens = -1;
    refused("max_new_tokens");
    fake.opts.max_new_tokens = INT_MIN;
    refused("max_new_tokens");
    fake.opts.min_frames = -1;
    refused("min_frames");
    fake.opts.sample = -1;
    refused("sample");
    fake.opts.frame_base = -1;
    refused("frame_base");
    fake.opts.frame_base = INT_MAX - 58;
    refused("frame_base");
    fake.opts.sampling.top_p = 0;
    refused("top_p");
    fake.opts.sampling.temperature = NAN;
    refused("temperature");
    fake.opts.sampling.top_k = -1;
    refused("top_k");
    must_fail(fake_generate_from(NULL), KVREF_E_ARG, fake.err, "noise");
    ck_assert_int_eq(fake.decoder.n_slow + fake.decoder.n_rewind, 0);
}
END_TEST

START_TEST(configs_without_candidates_are_refused)
{
    static int32_t value[FAKE_ROW];
    const kvref_frames forced = {.n_row = FAKE_ROW, .n_frame = 1, .value = value};
    fake_begin();
    fake.config.im_end = -1;
    refused("end token");
    fake.config.im_end = FAKE_V;
    refused("candidates");
    fake.opts.forced = &forced;
    fake.config.im_end = -1;
    fake.config.semantic_end = FAKE_BEGIN - 1;
    refused("candidates: expected 1 or more");
    fake.config.semantic_begin = -1;
    fake.config.semantic_end = FAKE_K - 2;
    refused("candidates");
}
END_TEST

static int32_t *prompt_at(size_t column, size_t row)
{
    return &fake.prompt_value[column * FAKE_ROW + row];
}

START_TEST(columns_out_of_range_are_refused_by_place)
{
    int32_t value[2 * FAKE_ROW] = {0};
    const kvref_frames forced = {.n_row = FAKE_ROW, .n_frame = 2, .value = value};
    kvref_frames other = forced;
    fake_begin();
    fake.prompt.n_frame = 0;
    refused("prompt: expected one or more columns");
    fake.prompt.n_row = FAKE_ROW + 1;
    refused("prompt: expected one or more columns of 4 values, found 5 of 5");
    *prompt_at(3, 0) = FAKE_V;
    refused("prompt: column 3, row 0: expected 0..99, found 100");
    *prompt_at(2, 3) = FAKE_K;
    refused("prompt: column 2, row 3: expected 0..31, found 32");
    *prompt_at(4, 1) = -1;
    refused("prompt: column 4, row 1");
    value[FAKE_ROW + 2] = FAKE_K;
    fake.opts.forced = &forced;
    refused("forced frames: column 1, row 2");
    other.n_frame = 0;
    fake.opts.forced = &other;
    refused("forced frames: expected one or more columns");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("generate_faults");
    TCase *tc = tcase_create("generate_faults");
    tcase_add_test(tc, stopping_on_request_keeps_the_frames_so_far);
    tcase_add_test(tc, no_frame_allocates);
    tcase_add_test(tc, a_failing_backend_leaves_nothing_behind);
    tcase_add_test(tc, a_backend_that_stops_keeps_the_frames_so_far);
    tcase_add_test(tc, logits_that_are_no_numbers_are_refused);
    tcase_add_test(tc, forced_frames_are_fed_without_a_draw);
    tcase_add_test(tc, bad_numbers_are_refused_before_anything_is_written);
    tcase_add_test(tc, configs_without_candidates_are_refused);
    tcase_add_test(tc, columns_out_of_range_are_refused_by_place);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
