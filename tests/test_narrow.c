/* SPDX-License-Identifier: MIT */
/* base/narrow.h: weights of a checkpoint as float16. The rounding is judged by its definition:
 * the float16 value nearest in double, found by search, and the even one of two as near. */
#include "base/narrow.h"
#include "kvref/half.h"
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_PATTERN = 65536 };

/* Float16 magnitude of bits h below 0x7c00, or what would be the next one, 65536. */
static double magnitude(int h)
{
    int exponent = h >> 10, fraction = h & 0x3ff;
    return exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
}

/* The definition. 0x7c00, infinity, stands where 65536 would be. */
static uint16_t nearest(double x)
{
    int low = 0, high = 0x7c00;
    double size = fabs(x);
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (size >= 65536) return (uint16_t)(sign | 0x7c00);
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (magnitude(middle) <= size)
            low = middle;
        else
            high = middle;
    }
    double below = size - magnitude(low), above = magnitude(high) - size;
    bool up = above < below || (above == below && low % 2 == 1);
    return (uint16_t)(sign | (up ? high : low));
}

/* What count_one should say of x, from the definition alone. */
static void expect(kvref_narrowed *c, double x)
{
    uint16_t h = nearest(x);
    bool subnormal = (h & 0x7fff) != 0 && (h & 0x7fff) < 0x400;
    double back = (h & 0x7fff) == 0x7c00 ? HUGE_VAL : magnitude(h & 0x7fff);
    c->n++;
    c->subnormal += subnormal;
    c->inexact += fabs(x) != back;
    c->overflow += !isinf(x) && isinf(back);
    c->underflow += x != 0 && back == 0;
}

static void must_count(const kvref_narrowed *a, const kvref_narrowed *b)
{
    ck_assert_uint_eq(a->n, b->n);
    ck_assert_uint_eq(a->overflow, b->overflow);
    ck_assert_uint_eq(a->underflow, b->underflow);
    ck_assert_uint_eq(a->subnormal, b->subnormal);
    ck_assert_uint_eq(a->inexact, b->inexact);
}

START_TEST(every_bf16_pattern_becomes_the_nearest_half_and_is_counted)
{
    static uint16_t in[N_PATTERN], out[N_PATTERN];
    kvref_narrowed count = {0}, want = {0};
    for (int i = 0; i < N_PATTERN; i++) in[i] = (uint16_t)i;
    kvref_narrow(out, N_PATTERN, &(kvref_weight){in, KVREF_BF16, 1, N_PATTERN}, 0, 1, &count);
    for (int i = 0; i < N_PATTERN; i++) {
        double x = (double)kvref_bf16_f32((uint16_t)i);
        if (isnan(x)) { /* a NaN stays one, and nothing has been lost */
            want.n++;
            ck_assert_msg((out[i] & 0x7fff) > 0x7c00, "%04x became %04x", i, out[i]);
            continue;
        }
        expect(&want, x);
        ck_assert_msg(out[i] == nearest(x), "%04x became %04x", i, out[i]);
    }
    must_count(&count, &want);
    ck_assert_uint_eq(want.n, N_PATTERN);
    ck_assert(want.overflow > 1000 && want.underflow > 1000 && want.subnormal > 1000);
}
END_TEST

START_TEST(every_half_stays_what_it_was)
{
    static uint16_t in[N_PATTERN], out[N_PATTERN];
    kvref_narrowed count = {0};
    for (int i = 0; i < N_PATTERN; i++) in[i] = (uint16_t)i;
    kvref_narrow(out, N_PATTERN, &(kvref_weight){in, KVREF_F16, 1, N_PATTERN}, 0, 1, &count);
    for (int i = 0; i < N_PATTERN; i++) {
        bool nan = (i & 0x7fff) > 0x7c00;
        ck_assert_msg(nan ? (out[i] & 0x7fff) > 0x7c00 : out[i] == i, "%04x: %04x", i, out[i]);
    }
    must_count(&count, &(kvref_narrowed){.n = N_PATTERN, .subnormal = 2 * 1023});
}
END_TEST

/* Both sides of every edge: ties, the last finite value, the smallest subnormals. */
START_TEST(floats_at_every_edge_round_to_nearest_even)
{
    static float in[3 * 0x7c00 + 1];
    static uint16_t out[3 * 0x7c00 + 1];
    int n = 0;
    for (int h = 0; h < 0x7c00; h++) { /* the middle of two neighbours, and beside it */
        float middle = (float)((magnitude(h) + magnitude(h + 1)) / 2);
        in[n++] = nextafterf(middle, 0);
        in[n++] = -middle;
        in[n++] = nextafterf(middle, INFINITY);
    }
    in[n++] = INFINITY;
    kvref_narrowed count = {0}, want = {0};
    kvref_narrow(out, (size_t)n, &(kvref_weight){in, KVREF_F32, 1, n}, 0, 1, &count);
    for (int i = 0; i < n; i++) {
        expect(&want, (double)in[i]);
        ck_assert_msg(out[i] == nearest((double)in[i]), "%a: %04x", (double)in[i], out[i]);
    }
    must_count(&count, &want);
    ck_assert_uint_eq(want.overflow, 2); /* 65520 itself and the float after it */
}
END_TEST

/* Rows first..first+n-1 of a matrix that begins at an odd address. */
START_TEST(rows_at_any_address_are_padded_with_zeros_and_nothing_else_is_written)
{
    enum { ROW = 5, COL = 11, STRIDE = 16, FIRST = 1, N = 3 };
    static const kvref_dtype dtype[] = {KVREF_F32, KVREF_F16, KVREF_BF16};
    for (size_t k = 0; k < 3; k++)
        for (size_t shift = 0; shift < 4; shift++) {
            size_t size = kvref_dtype_size(dtype[k]);
            char *data = malloc(ROW * COL * size + shift);
            uint16_t out[STRIDE * (N + 1)];
            kvref_narrowed count = {.n = 7, .inexact = 1};
            memset(out, 0xab, sizeof out);
            for (int i = 0; i < ROW * COL; i++) {
                float x = (float)(i - 20) * 0.25f;
                uint16_t h = dtype[k] == KVREF_BF16 ? kvref_f32_bf16(x) : kvref_f32_f16(x);
                memcpy(data + shift + (size_t)i * size,
                       dtype[k] == KVREF_F32 ? (void *)&x : (void *)&h,
                       size);
            }
            kvref_weight w = {data + shift, dtype[k], ROW, COL};
            kvref_narrow(out, STRIDE, &w, FIRST, N, &count);
            for (int r = 0; r < N; r++)
                for (int i = 0; i < STRIDE; i++) {
                    float x = (float)((r + FIRST) * COL + i - 20) * 0.25f;
                    uint16_t want = i < COL ? nearest((double)x) : 0;
                    ck_assert_msg(out[r * STRIDE + i] == want, "row %d place %d", r, i);
                }
            for (int i = N * STRIDE; i < (N + 1) * STRIDE; i++) ck_assert(out[i] == 0xabab);
            must_count(&count, &(kvref_narrowed){.n = 7 + N * COL, .inexact = 1});
            kvref_narrow(out + STRIDE * N - COL, COL, &w, 0, 1, NULL); /* no padding */
            ck_assert(out[STRIDE * N - 1] == nearest((COL - 1 - 20) * 0.25));
            ck_assert(out[STRIDE * N] == 0xabab);
            free(data);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("narrow");
    TCase *tc = tcase_create("narrow");
    tcase_add_test(tc, every_bf16_pattern_becomes_the_nearest_half_and_is_counted);
    tcase_add_test(tc, every_half_stays_what_it_was);
    tcase_add_test(tc, floats_at_every_edge_round_to_nearest_even);
    tcase_add_test(tc, rows_at_any_address_are_padded_with_zeros_and_nothing_else_is_written);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
