/* SPDX-License-Identifier: MIT */
/* Comparison of two traces: what a comparator must not let pass, the order of the first
 * divergence, how far runs with other codes are judged, partial traces. */
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

START_TEST(equal_traces_are_the_same_by_every_rule)
{
    fresh();
    for (int p = KVREF_EXACT; p <= KVREF_STORE_F16; p++) {
        compared c = compare_traces(&a, &b, (kvref_precision)p);
        ck_assert(c.d->verdict == KVREF_SAME && !c.d->first && !c.d->first_is_choice);
        ck_assert(c.d->inputs == KVREF_INPUTS_SAME && c.d->n_value == c.d->n_value_a);
        ck_assert(c.d->n_prompt == RUN_P && c.d->n_tap == 16 && c.d->n_only_a == 0);
        ck_assert(c.d->worst && c.d->worst->used == 0 && c.d->n_hint == 0);
        compared_free(&c);
    }
    done();
}
END_TEST

START_TEST(nan_and_infinity_differ_wherever_they_stand)
{
    const float odd[] = {NAN, INFINITY, -INFINITY};
    const char *const name[] = {"slow.embed", "slow.L01.k", "slow.logits", "fast.logits"};
    for (int n = 0; n < 4; n++)
        for (int i = 0; i < 3; i++)
            for (int side = 0; side < 3; side++) { /* A, B, both */
                fresh();
                if (side != 1) floats(&a, name[n])[3] = odd[i];
                if (side != 0) floats(&b, name[n])[3] = odd[i];
                compared c = compare_traces(&a, &b, KVREF_STORE_F16);
                ck_assert(c.d->verdict == KVREF_DIFFERS && tap(&c, name[n])->n_bad == 1);
                ck_assert(isinf(tap(&c, name[n])->used) && tap(&c, name[n])->n_nonfinite == 1);
                ck_assert(c.d->first == tap(&c, name[n]) && c.d->worst == c.d->first);
                compared_free(&c);
                done();
            }
}
END_TEST

START_TEST(the_sign_of_zero_counts_in_exact_comparison_alone)
{
    fresh();
    floats(&a, "slow.embed")[4] = 0.0f;
    floats(&b, "slow.embed")[4] = -0.0f;
    ck_assert(verdict_of(&a, &b, KVREF_STORE_F32) == KVREF_SAME);
    compared c = compare_traces(&a, &b, KVREF_EXACT);
    ck_assert(c.d->verdict == KVREF_DIFFERS && isinf(tap(&c, "slow.embed")->used));
    compared_free(&c);
    done();
}
END_TEST

START_TEST(one_bit_differs_in_exact_comparison)
{
    fresh();
    float *x = floats(&b, "fast.L00.k");
    x[7] = nextafterf(x[7], 2);
    ck_assert(verdict_of(&a, &b, KVREF_EXACT) == KVREF_DIFFERS);
    ck_assert(verdict_of(&a, &b, KVREF_STORE_F32) == KVREF_SAME);
    done();
}
END_TEST

/* A value 0.9 of the limit away passes, 1.1 of it fails; in FP16 the limit is wider. */
START_TEST(the_limit_is_a_share_of_the_largest_magnitude_of_a)
{
    fresh();
    floats(&a, "slow.L00.k")[1] = floats(&b, "slow.L00.k")[1] = -100.0f;
    float *x = floats(&b, "slow.L00.k");
    x[20] += 0.0009f;
    compared c = compare_traces(&a, &b, KVREF_STORE_F32);
    const kvref_tap_diff *t = tap(&c, "slow.L00.k");
    ck_assert(c.d->verdict == KVREF_SAME && t->max_mag == 100 && t->limit == 100 * 1e-5);
    ck_assert(t->used > 0.89 && t->used < 0.91 && t->worst.at[0] == 2 && t->worst.at[1] == 1 &&
              t->worst.at[2] == 0);
    compared_free(&c);
    x[20] += 0.0002f;
    c = compare_traces(&a, &b, KVREF_STORE_F32);
    t = tap(&c, "slow.L00.k");
    ck_assert(c.d->verdict == KVREF_DIFFERS && t->used > 1 && t->used < 1.2 && t->n_bad == 1);
    compared_free(&c);
    ck_assert(verdict_of(&a, &b, KVREF_STORE_F16) == KVREF_SAME);
    x[20] += 0.5f;
    ck_assert(verdict_of(&a, &b, KVREF_STORE_F16) == KVREF_DIFFERS);
    done();
}
END_TEST

START_TEST(a_constant_output_differs_and_is_named)
{
    for (int value = 0; value < 2; value++) {
        fresh();
        float *x = floats(&b, "slow.L01.out");
        for (int i = 0; i < RUN_ROWS * 5; i++) x[i] = (float)value * 0.5f;
        compared c = compare_traces(&a, &b, KVREF_STORE_F16);
        ck_assert(c.d->verdict == KVREF_DIFFERS && tap(&c, "slow.L01.out")->constant_b);
        ck_assert(c.d->n_hint == 1 && strstr(c.d->hint[0], "slow.L01.out is "));
        compared_free(&c);
        done();
    }
}
END_TEST

/* One value out of limit at every tap in turn, in the last tap first: the earliest is named. */
START_TEST(the_first_divergence_is_the_first_in_order_of_computation)
{
    static const struct {
        const char *name;
        size_t at;
        int64_t frame, book;
    } step[] = {
        {"fast.logits", 2 * 12 + 6 + 1, 2, 2}, /* frame 2, book 2            */
        {"fast.L00.k", 2 * 12 + 8, 2, 2},      /* its last position          */
        {"fast.logits", 2 * 12 + 1, 2, 1},     /* book 1                     */
        {"fast.embed", 2 * 15 + 5, 2, 1},      /* position 1                 */
        {"fast.L00.k", 2 * 12, 2, 0},          /* position 0                 */
        {"slow.hidden", 2 * 5, 2, -1},         /* the slow call before       */
        {"slow.logits", 2 * 8 + 1, 2, -1},
        {"slow.norm", 2 * 5 + 1, 2, -1},    /* after all layers           */
        {"slow.L01.out", 4 * 5 + 4, 2, -1}, /* position 3 + 2 - 1         */
        {"slow.L00.out", 4 * 5, 2, -1},
        {"slow.L00.k", 4 * 8 + 7, 2, -1},
        {"slow.embed", 4 * 5 + 2, 2, -1},
        {"slow.L01.k", 3 * 8, 1, -1}, /* a call before              */
        {"fast.logits", 5, 0, 1},     /* frame 0                    */
        {"slow.hidden", 4, 0, -1},
        {"slow.L01.k", 2 * 8, 0, -1},     /* prompt, position 2         */
        {"slow.L01.k", 0, 0, -1},         /* position 0 of that layer   */
        {"slow.L00.v", 2 * 8 + 3, 0, -1}, /* layer 0, position 2        */
        {"slow.L00.k", 2 * 8, 0, -1},
        {"slow.embed", 2 * 5 + 4, 0, -1},
        {"slow.embed", 1, 0, -1},
    };
    fresh();
    for (size_t i = 0; i < sizeof step / sizeof step[0]; i++) {
        floats(&b, step[i].name)[step[i].at] += 0.25f;
        compared c = compare_traces(&a, &b, KVREF_STORE_F32);
        const kvref_tap_diff *t = c.d->first;
        ck_assert_msg(t && strcmp(t->a->name, step[i].name) == 0,
                      "step %zu: %s",
                      i,
                      t ? t->a->name : "none");
        ck_assert_msg(t->first.place.frame == step[i].frame &&
                          t->first.place.book == step[i].book,
                      "step %zu: frame %d book %d",
                      i,
                      (int)t->first.place.frame,
                      (int)t->first.place.book);
        size_t at = 0;
        for (int d = 0; d < t->a->n_dim; d++)
            at = at * (size_t)t->a->dim[d] + (size_t)t->first.at[d];
        ck_assert_uint_eq(at, step[i].at);
        ck_assert(t->first.a == (double)floats(&a, step[i].name)[at] &&
                  t->first.b == (double)floats(&b, step[i].name)[at]);
        compared_free(&c);
    }
    done();
}
END_TEST

START_TEST(a_choice_stands_after_its_logits_and_before_the_next_book)
{
    fresh();
    int32_t *frames = trace_at(&b, "frames");
    frames[4 + 2] = (frames[4 + 2] + 1) % RUN_K; /* frame 1, book 1 */
    floats(&b, "fast.logits")[12 + 6] += 0.25f;  /* frame 1, book 2: not the same inputs */
    floats(&b, "slow.embed")[4 * 5] += 0.25f;    /* frame 2 */
    compared c = compare_traces(&a, &b, KVREF_STORE_F32);
    ck_assert(c.d->verdict == KVREF_DIFFERS && c.d->first_is_choice && !c.d->first);
    ck_assert(c.d->split.frame == 1 && c.d->split.book == 1 && c.d->split.have_logits);
    ck_assert(c.d->split.best_a == c.d->split.a && c.d->split.best_b == c.d->split.a);
    ck_assert(!c.d->split.greedy && c.d->split.err == 0);
    compared_free(&c);
    floats(&b, "fast.logits")[12 + 1] += 0.25f; /* book 1's own logits are judged */
    c = compare_traces(&a, &b, KVREF_STORE_F32);
    ck_assert(!c.d->first_is_choice && c.d->first == tap(&c, "fast.logits"));
    ck_assert(c.d->first->n_bad == 1 && c.d->first->n == 12 + 6);
    compared_free(&c);
    done();
}
END_TEST

START_TEST(the_main_token_stands_before_the_fast_side)
{
    for (int column = 0; column < 2; column++) { /* code 0 follows from the token */
        fresh();
        ((int32_t *)trace_at(&b, "frames"))[2 * 4 + column] ^= 1;
        floats(&b, "fast.L00.k")[2 * 12] += 0.25f; /* frame 2, position 0 */
        compared c = compare_traces(&a, &b, KVREF_STORE_F32);
        ck_assert(c.d->first_is_choice && c.d->first == tap(&c, "fast.L00.k"));
        compared_free(&c);
        floats(&b, "slow.hidden")[2 * 5] += 0.25f;
        c = compare_traces(&a, &b, KVREF_STORE_F32);
        ck_assert(!c.d->first_is_choice && c.d->first == tap(&c, "slow.hidden"));
        compared_free(&c);
        done();
    }
}
END_TEST

START_TEST(numbers_after_the_first_other_code_are_not_judged)
{
    fresh();
    int32_t *frames = trace_at(&b, "frames");
    frames[2 * 4] ^= 1; /* main token of frame 2 */
    for (int i = 4 * 5 + 5; i < RUN_ROWS * 5; i++) floats(&b, "slow.L00.out")[i] = NAN;
    for (int i = 3 * RUN_V; i < 4 * RUN_V; i++) floats(&b, "slow.logits")[i] = NAN;
    for (int i = 2 * 15 + 5; i < 4 * 15; i++) floats(&b, "fast.embed")[i] = NAN;
    compared c = compare_traces(&a, &b, KVREF_STORE_F32);
    ck_assert(c.d->inputs == KVREF_INPUTS_PART && c.d->first_is_choice && !c.d->first);
    ck_assert(tap(&c, "slow.L00.out")->n == 25 && tap(&c, "slow.L00.out")->n_bad == 0);
    ck_assert(tap(&c, "slow.logits")->n == 3 * RUN_V);
    ck_assert(tap(&c, "fast.embed")->n == 2 * 15 + 5); /* the hidden state is no choice's */
    ck_assert(c.d->n_value < c.d->n_value_a);
    compared_free(&c);
    floats(&b, "slow.logits")[2 * RUN_V] = NAN; /* the call before the choice is judged */
    c = compare_traces(&a, &b, KVREF_STORE_F32);
    ck_assert(!c.d->first_is_choice && c.d->first == tap(&c, "slow.logits"));
    compared_free(&c);
    done();
}
END_TEST

/* Two best logits 0.001 apart; B's err by d and turn when 2 d > 0.001. */
static compared near_tie(float d, bool chosen, const char *stop)
{
    fresh();
    float *x = floats(&a, "fast.logits") + 12, *y = floats(&b, "fast.logits") + 12;
    int32_t *f = (int32_t *)trace_at(&a, "frames") + 4,
            *g = (int32_t *)trace_at(&b, "frames") + 4;
    /* a large magnitude elsewhere lets d pass as an error of logits */
    floats(&a, "fast.logits")[0] = floats(&b, "fast.logits")[0] = -1000.0f;
    x[2] = y[2] = 2.0f;
    x[3] = y[3] = 1.999f;
    f[2] = g[2] = 2;
    y[2] -= d;
    y[3] += d;
    if (chosen) g[2] = 3;
    if (stop) trace_note(&a, "stop", stop);
    return compare_traces(&a, &b, KVREF_STORE_F32);
}

START_TEST(a_greedy_choice_may_turn_at_a_near_tie_and_nowhere_else)
{
    compared c = near_tie(0.0006f, true, "length"); /* any stop but "forced" */
    ck_assert(!c.d->forced_a && c.d->verdict == KVREF_SAME && c.d->inputs == KVREF_INPUTS_PART);
    ck_assert(c.d->split.greedy && c.d->split.near_tie && c.d->split.gap < 0.00101);
    ck_assert(c.d->split.err > 0.00059 && c.d->split.err < 0.00061);
    compared_free(&c);
    done();
    c = near_tie(0.0004f, true, NULL); /* does not turn by itself: B chose what is not best */
    ck_assert(c.d->verdict == KVREF_DIFFERS && !c.d->split.near_tie && !c.d->split.greedy);
    compared_free(&c);
    done();
    c = near_tie(0.0006f, true, "forced"); /* nothing was chosen there */
    ck_assert(c.d->verdict == KVREF_DIFFERS && c.d->forced_a && !c.d->forced_b);
    compared_free(&c);
    ck_assert(verdict_of(&a, &b, KVREF_EXACT) == KVREF_DIFFERS);
    done();
    c = near_tie(0.0006f, true, NULL); /* B chose neither of the two */
    compared_free(&c);
    ((int32_t *)trace_at(&b, "frames"))[4 + 2] = 5;
    c = compare_traces(&a, &b, KVREF_STORE_F32);
    ck_assert(c.d->verdict == KVREF_DIFFERS && c.d->split.near_tie && !c.d->split.greedy);
    compared_free(&c);
    done();
}
END_TEST

START_TEST(a_near_tie_excuses_no_logits_out_of_limit)
{
    compared c = near_tie(0.6f, true, NULL);
    ck_assert(c.d->split.near_tie && c.d->verdict == KVREF_DIFFERS);
    ck_assert(c.d->first == tap(&c, "fast.logits") && !c.d->first_is_choice);
    compared_free(&c);
    done();
}
END_TEST

START_TEST(choices_that_would_turn_are_counted_under_the_same_codes)
{
    compared c = near_tie(0.0006f, false, "forced");
    ck_assert(c.d->verdict == KVREF_SAME && c.d->inputs == KVREF_INPUTS_SAME);
    ck_assert(c.d->n_flip == 1 && c.d->flip.frame == 1 && c.d->flip.book == 1);
    ck_assert(c.d->flip.best_a == 2 && c.d->flip.best_b == 3 && c.d->flip.near_tie);
    ck_assert(c.d->smallest_gap < 0.00101 && c.d->gap_err > 0.00059);
    compared_free(&c);
    done();
    c = near_tie(0.0004f, false, "forced");
    ck_assert(c.d->n_flip == 0);
    compared_free(&c);
    done();
}
END_TEST

START_TEST(logits_that_cannot_be_drawn_decide_nothing)
{
    fresh();
    for (int f = 0; f < RUN_F; f++) { /* ids 0 and 1 are no candidates */
        float *x = floats(&a, "slow.logits") + f * RUN_V;
        float *y = floats(&b, "slow.logits") + f * RUN_V;
        x[0] = y[1] = 5.0f;
        x[1] = y[0] = 5.0f - 1e-5f;
    }
    compared c = compare_traces(&a, &b, KVREF_STORE_F32);
    ck_assert(c.d->verdict == KVREF_SAME && c.d->n_flip == 0 && c.d->gap_err == 0);
    compared_free(&c);
    trace_drop(&a, "fast.logits");
    for (int i = 0; i < 2; i++) { /* more candidates than logits: of another vocabulary */
        trace_drop(i ? &b : &a, "candidates");
        ADD(i ? &b : &a, "candidates", KVREF_I32, RUN_V + 1);
    }
    c = compare_traces(&a, &b, KVREF_STORE_F32);
    ck_assert(c.d->n_flip == 0 && isnan(c.d->smallest_gap));
    compared_free(&c);
    done();
}
END_TEST

static Suite *suite_diff(void)
{
    Suite *suite = suite_create("diff");
    TCase *tc = tcase_create("diff");
    tcase_add_test(tc, equal_traces_are_the_same_by_every_rule);
    tcase_add_test(tc, nan_and_infinity_differ_wherever_they_stand);
    tcase_add_test(tc, the_sign_of_zero_counts_in_exact_comparison_alone);
    tcase_add_test(tc, one_bit_differs_in_exact_comparison);
    tcase_add_test(tc, the_limit_is_a_share_of_the_largest_magnitude_of_a);
    tcase_add_test(tc, a_constant_output_differs_and_is_named);
    tcase_add_test(tc, the_first_divergence_is_the_first_in_order_of_computation);
    tcase_add_test(tc, a_choice_stands_after_its_logits_and_before_the_next_book);
    tcase_add_test(tc, the_main_token_stands_before_the_fast_side);
    tcase_add_test(tc, numbers_after_the_first_other_code_are_not_judged);
    tcase_add_test(tc, a_greedy_choice_may_turn_at_a_near_tie_and_nowhere_else);
    tcase_add_test(tc, a_near_tie_excuses_no_logits_out_of_limit);
    tcase_add_test(tc, choices_that_would_turn_are_counted_under_the_same_codes);
    tcase_add_test(tc, logits_that_cannot_be_drawn_decide_nothing);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return support_run(suite_diff());
}
