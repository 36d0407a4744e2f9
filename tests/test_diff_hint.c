/* SPDX-License-Identifier: MIT */
/* What a mismatch is said to look like: known switches are named when two traces show them, and
 * nothing else is taken for one. */
#include "kvref/half.h"
#include "tests/trace_make.h"

#include <math.h>
#include <stdio.h>

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

/* The hints of comparing a with b, one after the other; frees the traces. */
static const char *hints(void)
{
    static char all[4096];
    compared c = compare_traces(&a, &b, KVREF_STORE_F32);
    all[0] = 0;
    size_t n = 0;
    for (int i = 0; i < c.d->n_hint; i++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s. ", c.d->hint[i]);
    compared_free(&c);
    done();
    return all;
}

static void expect(const char *text)
{
    const char *all = hints();
    ck_assert_msg(strstr(all, text) != NULL, "hints \"%s\" lack \"%s\"", all, text);
}

static void expect_none(void)
{
    const char *all = hints();
    ck_assert_msg(*all == 0, "hints: %s", all);
}

/* ---- rotation ---- */

typedef enum table { EXACT, BF16, SHIFTED, OTHER_BASE, HALVES } table;

/* Rotates the rows of slow.L00.k [row, 2, 4] by position. */
static void rotate(trace_make *m, table kind)
{
    float *k = trace_at(m, "slow.L00.k");
    for (int p = 0; p < RUN_ROWS; p++)
        for (int h = 0; h < 2; h++)
            for (int j = 0; j < 2; j++) {
                double angle =
                    (p + (kind == SHIFTED)) * (j ? kind == OTHER_BASE ? 0.3 : 0.01 : 1.0);
                float c = (float)cos(angle), s = (float)sin(angle);
                if (kind == BF16) {
                    c = kvref_bf16_f32(kvref_f32_bf16(c));
                    s = kvref_bf16_f32(kvref_f32_bf16(s));
                }
                float *x = k + p * 8 + h * 4 + (kind == HALVES ? j : 2 * j);
                float *y = x + (kind == HALVES ? 2 : 1);
                float re = *x * c - *y * s, im = *y * c + *x * s;
                *x = re;
                *y = im;
            }
}

START_TEST(tables_rounded_otherwise_are_recognised_in_either_trace)
{
    fresh();
    rotate(&a, BF16);
    rotate(&b, EXACT);
    expect("rotation tables rounded otherwise");
    fresh();
    rotate(&a, EXACT);
    rotate(&b, BF16);
    expect("rotation tables rounded otherwise");
}
END_TEST

START_TEST(another_rotation_is_told_from_rounded_tables)
{
    static const struct {
        table kind;
        const char *text;
    } row[] = {
        {SHIFTED, "positions shifted, pairing, or base"},
        {OTHER_BASE,
         "position 0 apart; V agrees. The rotation is another one: pairing of elements"},
        {HALVES,
         "position 0 apart; V agrees. The rotation is another one: pairing of elements"},
    };
    for (int i = 0; i < 3; i++) {
        fresh();
        rotate(&a, BF16);
        rotate(&b, row[i].kind);
        expect(row[i].text);
    }
}
END_TEST

START_TEST(other_faults_of_k_are_not_taken_for_rotation)
{
    fresh(); /* one head scaled */
    rotate(&a, BF16);
    rotate(&b, BF16);
    float *k = trace_at(&b, "slow.L00.k");
    for (int p = 1; p < RUN_ROWS; p++)
        for (int i = 0; i < 4; i++) k[p * 8 + i] *= 1.01f;
    expect_none();
    fresh(); /* a factor near 1 in one head alone */
    k = trace_at(&b, "slow.L00.k");
    for (int p = 1; p < RUN_ROWS; p++)
        for (int i = 0; i < 4; i++) k[p * 8 + i] *= 1.002f;
    const char *all = hints();
    ck_assert_msg(!strstr(all, "tables"), "%s", all);
    fresh(); /* V differs as well: not the rotation */
    rotate(&a, BF16);
    rotate(&b, EXACT);
    ((float *)trace_at(&b, "slow.L00.v"))[3] += 0.5f;
    expect_none();
    fresh(); /* one value */
    ((float *)trace_at(&b, "slow.L00.k"))[9] += 0.5f;
    expect_none();
    fresh();
    ((float *)trace_at(&b, "slow.L00.k"))[9] = NAN;
    expect_none();
}
END_TEST

/* ---- length ---- */

static void shorten(trace_make *m, int n)
{
    int32_t old[RUN_F * (1 + RUN_N)];
    memcpy(old, trace_at(m, "frames"), sizeof old);
    trace_drop(m, "frames");
    int32_t *x = ADD(m, "frames", KVREF_I32, n, 1 + RUN_N);
    memcpy(x, old, (size_t)(n * (1 + RUN_N)) * sizeof *x);
}

START_TEST(a_last_column_more_or_less_is_recognised)
{
    fresh();
    shorten(&b, RUN_F - 1);
    expect("A has one column more and is equal before it");
    fresh();
    shorten(&a, RUN_F - 1);
    expect("B has one column more and is equal before it");
    fresh();
    shorten(&a, RUN_F - 2);
    expect("it stops 2 columns before B");
}
END_TEST

START_TEST(a_stop_at_the_first_end_needs_the_end_token)
{
    char text[64];
    fresh();
    shorten(&b, 1);
    expect("it stops 3 columns before A");
    fresh();
    snprintf(text, sizeof text, "a=1 im_end=%d b=2", ((int32_t *)trace_at(&a, "frames"))[0]);
    trace_note(&b, "config", text);
    shorten(&b, 1);
    expect("B stops because the first frame drew the end token");
    fresh();
    trace_note(&b, "config", "im_end=77");
    shorten(&b, 1);
    expect("it stops 3 columns before A");
}
END_TEST

/* ---- choices ---- */

START_TEST(draws_on_demand_begin_with_the_first_code_after_the_first_token)
{
    fresh();
    ((int32_t *)trace_at(&b, "frames"))[2] ^= 1; /* frame 0, book 1 */
    expect("as when numbers are drawn on demand");
    fresh();
    ((int32_t *)trace_at(&b, "frames"))[4 + 2] ^= 1; /* frame 1: the frame before agrees */
    expect("the sampler or its random numbers differ");
    fresh();
    ((int32_t *)trace_at(&b, "frames"))[0] ^= 1; /* the first draw */
    expect("the sampler or its random numbers differ");
    fresh();
    ((int32_t *)trace_at(&b, "frames"))[2] ^= 1;
    trace_note(&a, "seed", "1");
    trace_note(&b, "seed", "2");
    expect("name other random numbers");
    fresh();
    ((int32_t *)trace_at(&b, "frames"))[1] ^= 1;
    expect("code 0 follows from the token");
    fresh();
    ((int32_t *)trace_at(&b, "frames"))[2] ^= 1;
    ((float *)trace_at(&b, "slow.embed"))[0] += 1;
    expect("forced codes (kvref trace --from A)");
}
END_TEST

START_TEST(greedy_codes_of_one_side_are_recognised)
{
    fresh(); /* run_make is greedy; A takes another code in one of eight */
    ((int32_t *)trace_at(&a, "frames"))[3 * 4 + 3] ^= 1;
    expect("is the best logit in B (8 of 8), and not in A (7 of 8)");
    fresh(); /* nearly all is not all */
    ((int32_t *)trace_at(&a, "frames"))[3 * 4 + 3] ^= 1;
    ((int32_t *)trace_at(&b, "frames"))[3 * 4 + 2] ^= 1;
    ((int32_t *)trace_at(&a, "frames"))[2 * 4 + 3] ^= 1;
    expect("the sampler or its random numbers differ");
    fresh();
    ((int32_t *)trace_at(&a, "frames"))[3 * 4 + 3] ^= 1;
    ((int32_t *)trace_at(&b, "frames"))[3 * 4 + 2] ^= 1;
    ck_assert_ptr_null(strstr(hints(), "greedily"));
}
END_TEST

START_TEST(equal_traces_get_no_hint)
{
    fresh();
    expect_none();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("diff_hint");
    TCase *tc = tcase_create("diff_hint");
    tcase_add_test(tc, tables_rounded_otherwise_are_recognised_in_either_trace);
    tcase_add_test(tc, another_rotation_is_told_from_rounded_tables);
    tcase_add_test(tc, other_faults_of_k_are_not_taken_for_rotation);
    tcase_add_test(tc, a_last_column_more_or_less_is_recognised);
    tcase_add_test(tc, a_stop_at_the_first_end_needs_the_end_token);
    tcase_add_test(tc, draws_on_demand_begin_with_the_first_code_after_the_first_token);
    tcase_add_test(tc, greedy_codes_of_one_side_are_recognised);
    tcase_add_test(tc, equal_traces_get_no_hint);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
