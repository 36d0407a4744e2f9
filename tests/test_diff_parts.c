/* SPDX-License-Identifier: MIT */
/* Comparison of traces that are not alike: parts of a run, other shapes, nothing in
 * common, what is shown but not judged, the codec, long runs. */
#include "tests/trace_make.h"

#include <math.h>

static trace_make a, b;

static void fresh(void)
{
    run_make(&a);
    run_make(&b);
}

static void done(void)
{
    trace_free(&a);
    trace_free(&b);
}

static float *floats(trace_make *m, const char *name)
{
    return trace_at(m, name);
}

static const kvref_tap_diff *tap(const compared *c, const char *name)
{
    for (int i = 0; i < c->d->n_tap; i++)
        if (strcmp(c->d->tap[i].a->name, name) == 0) return &c->d->tap[i];
    ck_abort_msg("no tap %s", name);
}

static void keep_only(trace_make *m, const char *x, const char *y)
{
    for (int i = m->n - 1; i >= 0; i--) {
        const char *name = m->t[i].name;
        if (strcmp(name, x) != 0 && strcmp(name, y) != 0) trace_drop(m, name);
    }
}

START_TEST(codes_alone_can_be_compared)
{
    fresh();
    keep_only(&b, "frames", "prompt");
    compared c = compare_traces(&a, &b, KVREF_STORE_F32);
    ck_assert(c.d->verdict == KVREF_SAME && c.d->n_tap == 2 && c.d->n_only_a == 14);
    ck_assert(c.d->n_only_b == 0 && c.d->n_value == 16 + 12);
    compared_free(&c);
    ((int32_t *)trace_at(&b, "frames"))[5] ^= 1; /* code 0 of frame 1 */
    c = compare_traces(&a, &b, KVREF_STORE_F32);
    ck_assert(c.d->verdict == KVREF_DIFFERS && c.d->first_is_choice);
    ck_assert(c.d->split.frame == 1 && c.d->split.column == 1 && !c.d->split.have_logits);
    compared_free(&c);
    done();
}
END_TEST

START_TEST(a_recorded_gap_is_told_when_logits_are_missing)
{
    fresh();
    keep_only(&a, "frames", "prompt");
    keep_only(&b, "frames", "prompt");
    float *gap = ADD(&a, "slow.decision", KVREF_F32, RUN_F, 3);
    gap[2 * 3] = 0.125f;
    ((int32_t *)trace_at(&b, "frames"))[2 * 4] ^= 1;
    compared c = compare_traces(&a, &b, KVREF_STORE_F32);
    ck_assert(c.d->verdict == KVREF_DIFFERS && !c.d->split.have_logits);
    ck_assert(c.d->split.gap == 0.125);
    compared_free(&c);
    done();
}
END_TEST

START_TEST(logits_alone_can_be_compared)
{
    fresh();
    keep_only(&b, "slow.logits", "fast.logits");
    compared c = compare_traces(&a, &b, KVREF_STORE_F32);
    ck_assert(c.d->verdict == KVREF_SAME && c.d->inputs == KVREF_INPUTS_UNKNOWN);
    ck_assert(c.d->n_prompt == RUN_P && c.d->n_tap == 2);
    compared_free(&c);
    floats(&b, "fast.logits")[13] = 7;
    c = compare_traces(&a, &b, KVREF_STORE_F32);
    ck_assert(c.d->verdict == KVREF_DIFFERS && c.d->first->first.place.frame == 1);
    compared_free(&c);
    done();
}
END_TEST

/* Without a prompt its length follows from kv_len, or from the rows that no frame fed. */
START_TEST(the_length_of_the_prompt_is_found)
{
    for (int without = 0; without < 2; without++) {
        fresh();
        trace_drop(&a, "prompt");
        if (without) trace_drop(&a, "slow.kv_len");
        if (without) trace_drop(&b, "slow.kv_len");
        trace_drop(&b, "prompt");
        floats(&b, "slow.L01.k")[4 * 8] += 1;
        compared c = compare_traces(&a, &b, KVREF_STORE_F32);
        ck_assert(c.d->n_prompt == RUN_P && c.d->first->first.place.frame == 2);
        compared_free(&c);
        done();
    }
}
END_TEST

START_TEST(nothing_in_common_cannot_be_told)
{
    fresh();
    keep_only(&a, "frames", "");
    keep_only(&b, "slow.logits", "");
    compared c = compare_traces(&a, &b, KVREF_STORE_F32);
    ck_assert(c.d->verdict == KVREF_CANNOT_TELL && strstr(c.d->reason, "no result"));
    ck_assert(c.d->n_only_a == 1 && c.d->n_only_b == 1 && !c.d->worst);
    compared_free(&c);
    done();
    fresh(); /* inputs alone are no result */
    keep_only(&a, "prompt", "candidates");
    ck_assert(verdict_of(&a, &b, KVREF_STORE_F32) == KVREF_CANNOT_TELL);
    done();
    a = b = (trace_make){0}; /* neither are names that nobody knows */
    ADD(&a, "model.weight", KVREF_F32, 3);
    ADD(&b, "model.weight", KVREF_F32, 3);
    ck_assert(verdict_of(&a, &b, KVREF_STORE_F32) == KVREF_CANNOT_TELL);
    floats(&b, "model.weight")[1] = 1;
    ck_assert(verdict_of(&a, &b, KVREF_STORE_F32) == KVREF_DIFFERS);
    done();
}
END_TEST

START_TEST(empty_tensors_are_no_agreement)
{
    a = b = (trace_make){0};
    ADD(&a, "slow.logits", KVREF_F32, 0, 8);
    ADD(&b, "slow.logits", KVREF_F32, 0, 8);
    ADD(&a, "slow.embed", KVREF_F32, 4, 0);
    ADD(&b, "slow.embed", KVREF_F32, 4, 0);
    ADD(&a, "frames", KVREF_I32, 0, 4);
    ADD(&b, "frames", KVREF_I32, 0, 4);
    compared c = compare_traces(&a, &b, KVREF_STORE_F32);
    ck_assert(c.d->verdict == KVREF_CANNOT_TELL && tap(&c, "slow.logits")->n == 0);
    ck_assert(tap(&c, "slow.logits")->state == KVREF_TAP_EMPTY);
    compared_free(&c);
    done();
    a = b = (trace_make){0};
    compared none = compare_traces(&a, &b, KVREF_STORE_F32);
    ck_assert(none.d->verdict == KVREF_CANNOT_TELL && none.d->n_tap == 0);
    compared_free(&none);
}
END_TEST

START_TEST(other_shapes_cannot_be_told_unless_something_else_differs)
{
    static const int shape[][3] = {{RUN_ROWS, 4, 2}, {RUN_ROWS, 2, 5}, {RUN_ROWS, 8, 0}};
    for (int i = 0; i < 3; i++) {
        fresh();
        trace_drop(&b, "slow.L01.k");
        trace_add(&b, "slow.L01.k", KVREF_F32, shape[i], i == 2 ? 2 : 3);
        compared c = compare_traces(&a, &b, KVREF_STORE_F32);
        ck_assert(c.d->verdict == KVREF_CANNOT_TELL && strstr(c.d->reason, "slow.L01.k"));
        ck_assert(tap(&c, "slow.L01.k")->state == KVREF_TAP_UNLIKE);
        compared_free(&c);
        floats(&b, "slow.L00.k")[0] += 1;
        ck_assert(verdict_of(&a, &b, KVREF_STORE_F32) == KVREF_DIFFERS);
        done();
    }
    fresh();
    trace_drop(&b, "slow.hidden"); /* integers where A has floats; too few axes */
    ADD(&b, "slow.hidden", KVREF_I32, RUN_F, 5);
    ck_assert(verdict_of(&a, &b, KVREF_STORE_F32) == KVREF_CANNOT_TELL);
    trace_drop(&b, "slow.hidden");
    ADD(&b, "slow.hidden", KVREF_F32, RUN_F * 5);
    ck_assert(verdict_of(&a, &b, KVREF_STORE_F32) == KVREF_CANNOT_TELL);
    trace_drop(&b, "slow.hidden");
    trace_add(&b, "slow.hidden", KVREF_F32, NULL, 0);
    ck_assert(verdict_of(&a, &b, KVREF_STORE_F32) == KVREF_CANNOT_TELL);
    done();
}
END_TEST

START_TEST(counts_of_work_are_shown_and_not_judged)
{
    fresh();
    int64_t *x = ADD(&a, "slow.kv_rows", KVREF_I64, RUN_F, 2);
    int64_t *y = ADD(&b, "slow.kv_rows", KVREF_I64, RUN_F, 2);
    x[1] = 4;
    y[1] = (int64_t)1 << 40;
    ADD(&a, "slow.decision", KVREF_F32, RUN_F, 3);
    ((float *)ADD(&b, "slow.decision", KVREF_F32, RUN_F, 3))[1] = 0.5f;
    compared c = compare_traces(&a, &b, KVREF_EXACT);
    ck_assert(c.d->verdict == KVREF_SAME && tap(&c, "slow.kv_rows")->state == KVREF_TAP_SHOWN);
    ck_assert(tap(&c, "slow.kv_rows")->n_bad == 1 && tap(&c, "slow.decision")->n_bad == 1);
    for (int i = 0; i < c.d->n_lane; i++) ck_assert(c.d->lane[i].used[0] == 0);
    compared_free(&c);
    ((int32_t *)trace_at(&b, "slow.kv_len"))[1]++; /* but this is */
    c = compare_traces(&a, &b, KVREF_STORE_F16);
    ck_assert(c.d->verdict == KVREF_DIFFERS && c.d->first == tap(&c, "slow.kv_len"));
    ck_assert(c.d->first->first.place.frame == 1);
    compared_free(&c);
    done();
}
END_TEST

START_TEST(stages_of_the_codec_have_their_order_and_limit)
{
    static const char *const order[] = {"decode5.codes",
                                        "decode5.z",
                                        "decode5.post_module.L00",
                                        "decode5.post_module.L01",
                                        "decode5.post_module",
                                        "decode5.upsample.0",
                                        "decode5.decoder.model.0",
                                        "decode5.audio"};
    a = b = (trace_make){0};
    for (int i = 7; i >= 0; i--) {
        ADD(&a, order[i], i ? KVREF_F32 : KVREF_I32, 4, 3);
        ADD(&b, order[i], i ? KVREF_F32 : KVREF_I32, 4, 3);
        if (i == 0) continue;
        floats(&a, order[i])[0] = floats(&b, order[i])[0] = 1;
        floats(&b, order[i])[1] = 2.5e-5f;
    }
    compared c = compare_traces(&a, &b, KVREF_STORE_F32);
    ck_assert(c.d->verdict == KVREF_SAME);
    for (int i = 0; i < 8; i++) ck_assert_str_eq(c.d->tap[i].a->name, order[i]);
    compared_free(&c);
    for (int i = 7; i > 0; i--) {
        floats(&b, order[i])[1] = i == 7 ? 1.1e-4f : 3.5e-5f;
        c = compare_traces(&a, &b, KVREF_STORE_F32);
        ck_assert(c.d->first && strcmp(c.d->first->a->name, order[i]) == 0);
        compared_free(&c);
    }
    done();
}
END_TEST

START_TEST(long_runs_are_gathered_into_columns)
{
    a = b = (trace_make){0};
    enum { F = 1000 };
    for (int side = 0; side < 2; side++) {
        float *x = ADD(side ? &b : &a, "slow.hidden", KVREF_F32, F, 2);
        for (int i = 0; i < F; i++) x[2 * i] = 1;
        if (side) x[2 * 731 + 1] = 5e-6f;
    }
    compared c = compare_traces(&a, &b, KVREF_STORE_F32);
    ck_assert(c.d->n_lane == 1 && c.d->frames_per_column == 9 && c.d->n_column == 112);
    for (int i = 0; i < 112; i++) {
        double used = c.d->lane[0].used[i];
        ck_assert(i == 731 / 9 ? used > 0.49 && used < 0.51 : used == 0);
    }
    compared_free(&c);
    done();
}
END_TEST

static Suite *suite_parts(void)
{
    Suite *suite = suite_create("diff_parts");
    TCase *tc = tcase_create("diff_parts");
    tcase_add_test(tc, codes_alone_can_be_compared);
    tcase_add_test(tc, a_recorded_gap_is_told_when_logits_are_missing);
    tcase_add_test(tc, logits_alone_can_be_compared);
    tcase_add_test(tc, the_length_of_the_prompt_is_found);
    tcase_add_test(tc, nothing_in_common_cannot_be_told);
    tcase_add_test(tc, empty_tensors_are_no_agreement);
    tcase_add_test(tc, other_shapes_cannot_be_told_unless_something_else_differs);
    tcase_add_test(tc, counts_of_work_are_shown_and_not_judged);
    tcase_add_test(tc, stages_of_the_codec_have_their_order_and_limit);
    tcase_add_test(tc, long_runs_are_gathered_into_columns);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return support_run(suite_parts());
}
