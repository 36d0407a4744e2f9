/* SPDX-License-Identifier: MIT */
/* Figures of kvref bench: median and quartiles, bits against bits. Times are never tested. */
#include "tests/support.h"

#include "tools/bench.h"

START_TEST(median_and_quartiles_lie_between_neighbours_in_proportion)
{
    double x[] = {9, 1, 4, 2}; /* sorted 1 2 4 9: places 0.75, 1.5, 2.25 */
    bench_stats s = bench_stats_of(x, 4);
    ck_assert_int_eq(s.n, 4);
    ck_assert_double_eq(s.min, 1);
    ck_assert_double_eq(s.q1, 1.75);
    ck_assert_double_eq(s.median, 3);
    ck_assert_double_eq(s.q3, 5.25);
    ck_assert_double_eq(s.max, 9);
}
END_TEST

START_TEST(an_odd_count_has_a_value_as_median)
{
    double x[] = {5, 3, 1, 4, 2};
    bench_stats s = bench_stats_of(x, 5);
    ck_assert_double_eq(s.q1, 2);
    ck_assert_double_eq(s.median, 3);
    ck_assert_double_eq(s.q3, 4);
}
END_TEST

START_TEST(one_value_is_its_own_spread_and_none_is_zero)
{
    double x[] = {7};
    bench_stats s = bench_stats_of(x, 1), none = bench_stats_of(x, 0);
    ck_assert(s.min == 7 && s.q1 == 7 && s.median == 7 && s.q3 == 7 && s.max == 7);
    ck_assert(none.n == 0 && none.median == 0);
}
END_TEST

/* Four points: two arms of key 1 and one of none at length 10, one of key 1 at length 20. */
static int compared(uint64_t other, uint64_t free_one, uint64_t longer, bench_point point[4])
{
    static bench_arm arm[3];
    static uint64_t hash[4][2];
    arm[0].key = arm[1].key = 1;
    arm[2].key = -1;
    uint64_t second[4] = {77, other, free_one, longer};
    for (int i = 0; i < 4; i++) {
        hash[i][0] = 5;
        hash[i][1] = second[i];
        point[i] =
            (bench_point){.arm = &arm[i % 3], .n_prompt = i == 3 ? 20 : 10, .hash = hash[i]};
    }
    return bench_compare(point, 4, 2);
}

START_TEST(another_hash_in_any_round_is_a_difference)
{
    bench_point point[4];
    ck_assert_int_eq(compared(78, 77, 77, point), 1);
    ck_assert(!point[0].differs && point[1].differs && !point[2].differs && !point[3].differs);
}
END_TEST

START_TEST(equal_hashes_other_lengths_and_arms_without_a_key_are_none)
{
    bench_point point[4];
    ck_assert_int_eq(compared(77, 1, 2, point), 0);
    ck_assert(!point[1].differs && !point[2].differs && !point[3].differs);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench");
    TCase *tc = tcase_create("bench");
    tcase_add_test(tc, median_and_quartiles_lie_between_neighbours_in_proportion);
    tcase_add_test(tc, an_odd_count_has_a_value_as_median);
    tcase_add_test(tc, one_value_is_its_own_spread_and_none_is_zero);
    tcase_add_test(tc, another_hash_in_any_round_is_a_difference);
    tcase_add_test(tc, equal_hashes_other_lengths_and_arms_without_a_key_are_none);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
