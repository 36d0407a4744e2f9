/* SPDX-License-Identifier: MIT */
#include "kvref/compare.h"
#include "tests/support.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { N = 64 };
static const kvref_limit tight = {.rel = 1e-5};
static const kvref_limit exact = {.exact = true};
static const kvref_limit lenient = {.rel = 1e-5, .nonfinite = true};

/* Zero-mean values without repetition, largest magnitude 31.5. */
static void sample(float *x)
{
    for (int i = 0; i < N; i++) x[i] = (float)(i * 37 % N) - 31.5f;
}

static kvref_difference changed(int at, float value, const kvref_limit *limit)
{
    float x[N], ref[N];
    sample(x);
    sample(ref);
    x[at] = value;
    return kvref_compare(x, ref, N, limit);
}

START_TEST(equal_values_pass_every_limit)
{
    float ref[N];
    sample(ref);
    const kvref_limit none = {0};
    const kvref_limit *const limit[] = {&none, &tight, &exact, &lenient};
    for (int i = 0; i < 4; i++) {
        kvref_difference d = kvref_compare(ref, ref, N, limit[i]);
        ck_assert(d.pass && d.max_err == 0 && d.at == N && d.first_bad == N && d.n_bad == 0);
        ck_assert(d.max_mag == 31.5 && d.n == N && kvref_difference_rel(&d) == 0);
    }
}
END_TEST

START_TEST(worst_value_is_found_and_judged_by_the_largest_reference)
{
    kvref_difference d = changed(5, 100.0f, &tight);
    ck_assert(!d.pass && d.at == 5 && d.n_bad == 1 && d.first_bad == 5);
    ck_assert(d.max_mag == 31.5 && d.limit == 31.5 * 1e-5);
    d = changed(0, -31.5f + 0.00031f, &tight); /* limit 0.000315 */
    ck_assert(d.pass && d.at == 0 && d.max_err > 0.0003);
    ck_assert(kvref_difference_rel(&d) < 1e-5);
    d = changed(0, -31.5f + 0.00032f, &tight);
    ck_assert(!d.pass && kvref_difference_rel(&d) > 1e-5);
}
END_TEST

START_TEST(nan_and_infinity_never_pass_unless_asked)
{
    const float odd[] = {NAN, -NAN, INFINITY, -INFINITY};
    const kvref_limit wide = {.rel = HUGE_VAL, .abs = HUGE_VAL};
    const kvref_limit broken = {.rel = (double)NAN};
    for (int i = 0; i < 4; i++) {
        float x[N], ref[N];
        sample(x);
        sample(ref);
        ref[9] = odd[i];
        kvref_difference d = kvref_compare(x, ref, N, &wide);
        ck_assert(!d.pass && d.n_bad == 1 && d.first_bad == 9 && d.n_nonfinite == 1);
        ck_assert(d.max_mag == 31.5);
        ck_assert(!kvref_compare(ref, x, N, &wide).pass);
        ck_assert(!kvref_compare(ref, ref, N, &wide).pass);
        ck_assert(!kvref_compare(ref, ref, N, &exact).pass);
        ck_assert(kvref_compare(ref, ref, N, &lenient).pass);
        ck_assert(!kvref_compare(x, ref, N, &lenient).pass);
        x[9] = odd[3 - i]; /* another kind */
        ck_assert(!kvref_compare(x, ref, N, &lenient).pass);
    }
    float plus = INFINITY, minus = -INFINITY;
    ck_assert(!kvref_compare(&plus, &minus, 1, &lenient).pass);
    ck_assert(!changed(3, 1.0f, &broken).pass);
}
END_TEST

START_TEST(negative_zero_is_equal_but_not_exactly)
{
    float x[N], ref[N];
    sample(x);
    sample(ref);
    x[7] = 0.0f;
    ref[7] = -0.0f;
    kvref_difference d = kvref_compare(x, ref, N, &(kvref_limit){0});
    ck_assert(d.pass && d.n_zero_sign == 1);
    d = kvref_compare(x, ref, N, &exact);
    ck_assert(!d.pass && d.n_zero_sign == 1 && d.first_bad == 7 && d.max_err == 0);
    ck_assert(kvref_compare(x, ref, N, &(kvref_limit){.rel = 1, .exact = true}).limit == 0);
}
END_TEST

START_TEST(denormals_are_told_apart)
{
    float x[2] = {FLT_TRUE_MIN, 0}, ref[2] = {2 * FLT_TRUE_MIN, 0};
    kvref_difference d = kvref_compare(x, ref, 2, &(kvref_limit){0});
    ck_assert(!d.pass && d.at == 0 && d.max_err == (double)FLT_TRUE_MIN);
    ck_assert(!kvref_compare(x, ref, 2, &tight).pass);
    ck_assert(!kvref_compare(x, ref, 2, &exact).pass);
    ck_assert(kvref_compare(x, ref, 2, &(kvref_limit){.rel = 0.5}).pass);
}
END_TEST

START_TEST(extremes_do_not_overflow_the_difference)
{
    float x[1] = {FLT_MAX}, ref[1] = {-FLT_MAX};
    kvref_difference d = kvref_compare(x, ref, 1, &tight);
    ck_assert(!d.pass && d.max_err == 2.0 * (double)FLT_MAX);
}
END_TEST

START_TEST(constant_zero_shuffled_and_negated_results_are_rejected)
{
    float x[N], ref[N];
    sample(ref);
    for (int i = 0; i < N; i++) x[i] = 0;
    ck_assert(!kvref_compare(x, ref, N, &tight).pass);
    for (int i = 0; i < N; i++) x[i] = 0.5f;
    ck_assert(!kvref_compare(x, ref, N, &tight).pass);
    for (int i = 0; i < N; i++) x[i] = ref[(i + 1) % N];
    ck_assert(!kvref_compare(x, ref, N, &tight).pass);
    for (int i = 0; i < N; i++) x[i] = -ref[i];
    ck_assert(!kvref_compare(x, ref, N, &tight).pass);
    float zero[N] = {0};
    kvref_difference d = kvref_compare(ref, zero, N, &tight);
    ck_assert(!d.pass && isinf(kvref_difference_rel(&d)));
}
END_TEST

START_TEST(nothing_compared_is_not_a_pass)
{
    ck_assert(!kvref_compare(NULL, NULL, 0, &tight).pass);
    ck_assert(!kvref_compare_ints(NULL, NULL, 0).pass);
}
END_TEST

START_TEST(integers_are_compared_exactly)
{
    int32_t x[3] = {1, INT32_MAX, -1}, ref[3] = {1, INT32_MIN, -1};
    kvref_difference d = kvref_compare_ints(x, ref, 3);
    ck_assert(!d.pass && d.first_bad == 1 && d.n_bad == 1 && d.max_err == 4294967295.0);
    ck_assert(kvref_compare_ints(x, x, 3).pass);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("compare");
    TCase *tc = tcase_create("compare");
    tcase_add_test(tc, equal_values_pass_every_limit);
    tcase_add_test(tc, worst_value_is_found_and_judged_by_the_largest_reference);
    tcase_add_test(tc, nan_and_infinity_never_pass_unless_asked);
    tcase_add_test(tc, negative_zero_is_equal_but_not_exactly);
    tcase_add_test(tc, denormals_are_told_apart);
    tcase_add_test(tc, extremes_do_not_overflow_the_difference);
    tcase_add_test(tc, constant_zero_shuffled_and_negated_results_are_rejected);
    tcase_add_test(tc, nothing_compared_is_not_a_pass);
    tcase_add_test(tc, integers_are_compared_exactly);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
