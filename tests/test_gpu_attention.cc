/* SPDX-License-Identifier: MIT */
/* Attention of gpu/ on the CPU execution layer: against its formula bit for bit, and the claim,
 * that rows beyond kv_len are not read and that capacity decides no bit. */
#include "tests/attend.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>

using namespace attend;

struct heads {
    int n_head, n_kv_head;
};
static const heads all_heads[] = {
    {1, 1}, {4, 2}, {6, 2}, {8, 2}, {16, 2}, {32, 8}, {5, 1}, {12, 3}, {18, 1}};
static const int all_widths[] = {2, 6, 16, 64, 128};
static const int all_lengths[] = {1, 2, 63, 64, 65, 127, 128, 200};

static void must_equal(const halves &a, const halves &b, const shape &s, int what)
{
    int n = differ(a, b);
    ck_assert_msg(n == 0,
                  "H %d G %d E %d C %d P %d T %d, input or form %d: %d of %d differ",
                  s.n_head,
                  s.n_kv_head,
                  s.d_head,
                  s.capacity,
                  s.n_past,
                  s.n_row,
                  what,
                  n,
                  static_cast<int>(a.size()));
}

/* One new position, kv_len in all, at a capacity of 200. */
static shape step(const heads &h, int d_head, int kv_len)
{
    return {h.n_head, h.n_kv_head, d_head, 200, kv_len - 1, 1};
}

START_TEST(prefix_is_the_written_formula_bit_for_bit)
{
    int n = 0;
    for (const heads &h : all_heads)
        for (int e : all_widths)
            for (int kv_len : all_lengths) {
                if (h.n_head * e * kv_len > 60000 && kv_len != 65) continue;
                shape s = step(h, e, kv_len);
                input kind = static_cast<input>(n++ % N_INPUT);
                scene w = make_scene(s, kind, static_cast<uint64_t>(n));
                must_equal(run(w, PREFIX, true), expected(w, PREFIX), s, kind);
            }
    printf("%d cases of prefix\n", n);
}
END_TEST

START_TEST(every_input_class_and_the_widest_heads_keep_the_formula)
{
    for (int kind = 0; kind < N_INPUT; kind++)
        for (int e : {6, 130, 200, 256}) {
            shape s = {3, 1, e, 140, 129, 1};
            scene w = make_scene(s, static_cast<input>(kind), 5);
            must_equal(run(w, PREFIX, true), expected(w, PREFIX), s, kind);
            must_equal(run(w, FULL, false), expected(w, FULL), s, kind);
        }
}
END_TEST

/* Row t sees P + t + 1 rows, also when nine rows take two rounds. */
START_TEST(each_query_row_has_its_own_prefix)
{
    for (int t = 1; t <= 9; t++)
        for (int past : {0, 62, 126}) {
            if (past == 126 && t % 3) continue;
            shape s = {4, 2, 16, 140, past, t};
            scene w = make_scene(s, NOISE, static_cast<uint64_t>(t));
            must_equal(run(w, PREFIX, true), expected(w, PREFIX), s, 0);
            must_equal(run(w, FULL, false), expected(w, FULL), s, 0);
        }
}
END_TEST

START_TEST(rows_together_are_rows_one_by_one)
{
    shape s = {6, 2, 16, 140, 60, 9};
    scene w = make_scene(s, NOISE, 3);
    halves all = run(w, PREFIX, false);
    size_t width = w.q.size() / 9;
    for (int t = 0; t < 9; t++) {
        scene one = w;
        one.s.n_past = 60 + t;
        one.s.n_row = 1;
        one.q.assign(w.q.begin() + t * static_cast<long>(width),
                     w.q.begin() + (t + 1) * static_cast<long>(width));
        halves row(all.begin() + t * static_cast<long>(width),
                   all.begin() + (t + 1) * static_cast<long>(width));
        must_equal(run(one, PREFIX, true), row, one.s, t);
    }
}
END_TEST

START_TEST(full_is_prefix_bit_for_bit)
{
    int n = 0;
    for (const heads &h : all_heads)
        for (int e : all_widths)
            for (int kv_len : {1, 64, 65, 200}) {
                if (h.n_head * e > 100) continue;
                shape s = step(h, e, kv_len);
                scene w = make_scene(s, static_cast<input>(n++ % N_INPUT), 8);
                must_equal(run(w, FULL, false), run(w, PREFIX, true), s, FULL);
            }
    printf("%d cases of full\n", n);
}
END_TEST

START_TEST(capacity_decides_no_bit)
{
    for (int kv_len : {1, 64, 65, 200}) {
        shape s = {8, 2, 16, kv_len, kv_len - 1, 1};
        scene w = make_scene(s, NOISE, 11);
        halves out = run(w, PREFIX, false);
        for (int capacity : {256, 4096}) {
            scene wide = at_capacity(w, capacity);
            must_equal(run(wide, PREFIX, true), out, wide.s, PREFIX);
            if (capacity == 256) must_equal(run(wide, FULL, false), out, wide.s, FULL);
        }
    }
}
END_TEST

/* More chunks than the grid has blocks, and more than one tile of the merge. */
START_TEST(long_prefixes_keep_the_formula)
{
    for (int kv_len : {64 * 64 + 1, 64 * 130 + 5}) {
        shape s = {2, 1, 2, kv_len + 100, kv_len - 1, 1};
        scene w = make_scene(s, FLAT, 2);
        must_equal(run(w, PREFIX, true), expected(w, PREFIX), s, PREFIX);
    }
}
END_TEST

START_TEST(order_of_threads_and_blocks_decides_no_bit)
{
    shape s = {6, 2, 6, 200, 129, 2};
    scene w = make_scene(s, FLAT, 4);
    halves prefix = expected(w, PREFIX), books;
    scene small = make_scene({6, 2, 6, 10, 7, 2}, NOISE, 4);
    books = expected(small, BOOKS);
    for (int seed = -1; seed < 20; seed++) {
        cudacpu_set_order(seed < 0 ? CUDACPU_DESCENDING : CUDACPU_SEEDED,
                          static_cast<uint64_t>(seed));
        must_equal(run(w, PREFIX, true), prefix, s, seed);
        must_equal(run(w, FULL, false), prefix, s, seed);
        must_equal(run(small, BOOKS, true), books, small.s, seed);
        must_equal(run(small, BOOKS_FULL, false), books, small.s, seed);
    }
    cudacpu_reset();
}
END_TEST

/* The tail holds NaN, infinity, 65504, random bits, and may not be touched. */
START_TEST(prefix_never_sees_the_tail)
{
    for (int kv_len : {1, 65, 130}) {
        shape s = {4, 2, 16, 1024, kv_len - 1, 1};
        scene w = make_scene(s, NOISE, 6);
        halves out = expected(w, PREFIX);
        for (int bits : {0x7e00, 0xfe01, 0x7c00, 0xfc00, 0x7bff, -1}) {
            fill_tail(&w, bits);
            must_equal(run(w, PREFIX, true), out, s, bits);
        }
    }
}
END_TEST

/* Positive control: the same tails reach the result of the full form, unless they are numbers.
 */
START_TEST(full_sees_the_tail)
{
    shape s = {4, 2, 16, 200, 64, 1};
    scene w = make_scene(s, NOISE, 6);
    halves out = expected(w, FULL);
    fill_tail(&w, 0x7bff);
    must_equal(run(w, FULL, false), out, s, FULL);
    for (int bits : {0x7e00, 0x7c00, 0xfc00}) {
        fill_tail(&w, bits);
        ck_assert_int_eq(differ(run(w, FULL, false), out), 4 * 16);
    }
}
END_TEST

START_TEST(a_nan_within_the_prefix_is_not_hidden)
{
    shape s = {4, 2, 16, 100, 70, 1};
    scene w = make_scene(s, NOISE, 6);
    w.k[place(s, 1, 66, 3)] = 0x7e00;
    halves out = run(w, PREFIX, false);
    for (size_t i = 0; i < out.size(); i++)
        ck_assert_int_eq((out[i] & 0x7fff) > 0x7c00, i >= 2 * 16); /* heads of group 1 */
}
END_TEST

/* Half a unit of the last place for R, and what float32 sums may lose. */
START_TEST(prefix_is_near_the_formula_in_float64)
{
    double worst = 0;
    for (const heads &h : all_heads)
        for (int kind = 0; kind < N_INPUT; kind++) {
            shape s = step(h, 16, 130);
            scene w = make_scene(s, static_cast<input>(kind), 21);
            halves out = run(w, PREFIX, true);
            std::vector<double> size, y = exact(w, &size);
            for (size_t i = 0; i < y.size(); i++) {
                double err = fabs(static_cast<double>(gpu_f32(out[i])) - y[i]);
                double limit = 0x1p-11 * fabs(y[i]) + 0x1p-16 * size[i] + 0x1p-25;
                if (!(err / limit <= worst)) worst = err / limit;
            }
        }
    printf("prefix against float64: %.2f of the limit\n", worst);
    ck_assert(worst <= 1);
}
END_TEST

START_TEST(books_are_the_explicit_formula_bit_for_bit)
{
    int n = 0;
    for (const heads &h : all_heads)
        for (int e : {2, 6, 16, 128, 256})
            for (int past : {0, 1, 8, 62}) {
                if (h.n_head * e * past > 4000) continue;
                shape s = {h.n_head, h.n_kv_head, e, past > 10 ? 64 : 10, past, 2};
                input kind = static_cast<input>(n++ % N_INPUT);
                scene w = make_scene(s, kind, static_cast<uint64_t>(n));
                halves out = expected(w, BOOKS);
                must_equal(run(w, BOOKS_FULL, false), out, s, kind);
                fill_tail(&w, 0x7e00);
                must_equal(run(w, BOOKS, true), out, s, kind);
                if (past == 1) ck_assert(differ(run(w, BOOKS_FULL, false), out) > 0);
            }
    printf("%d cases of the books\n", n);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_attention");
    TCase *tc = tcase_create("attention");
    tcase_add_test(tc, prefix_is_the_written_formula_bit_for_bit);
    tcase_add_test(tc, every_input_class_and_the_widest_heads_keep_the_formula);
    tcase_add_test(tc, each_query_row_has_its_own_prefix);
    tcase_add_test(tc, rows_together_are_rows_one_by_one);
    tcase_add_test(tc, full_is_prefix_bit_for_bit);
    tcase_add_test(tc, capacity_decides_no_bit);
    tcase_add_test(tc, long_prefixes_keep_the_formula);
    tcase_add_test(tc, order_of_threads_and_blocks_decides_no_bit);
    tcase_add_test(tc, prefix_never_sees_the_tail);
    tcase_add_test(tc, full_sees_the_tail);
    tcase_add_test(tc, a_nan_within_the_prefix_is_not_hidden);
    tcase_add_test(tc, prefix_is_near_the_formula_in_float64);
    tcase_add_test(tc, books_are_the_explicit_formula_bit_for_bit);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
