/* SPDX-License-Identifier: MIT */
#include "kvref/half.h"
#include "tests/support.h"

#include <math.h>

/* The value of a float16 pattern from its definition, in double. */
static double f16_value(unsigned h)
{
    int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
    double x = e == 0 ? ldexp(m, -24) : ldexp(1024 + m, e - 25);
    return h & 0x8000u ? -x : x;
}

START_TEST(every_float16_pattern_widens_exactly_and_returns)
{
    for (unsigned h = 0; h < 65536; h++) {
        float x = kvref_f16_f32((uint16_t)h);
        if ((h & 0x7c00u) != 0x7c00u) {
            ck_assert_msg((double)x == f16_value(h) && !!signbit(x) == !!(h & 0x8000u),
                          "pattern %04x",
                          h);
            ck_assert_uint_eq(kvref_f32_f16(x), h);
        } else if (h & 1023u) {
            ck_assert(isnan(x) && isnan(kvref_f16_f32(kvref_f32_f16(x))));
        } else {
            ck_assert(isinf(x) && kvref_f32_f16(x) == h);
        }
    }
}
END_TEST

START_TEST(float16_rounds_every_midpoint_to_even)
{
    for (unsigned h = 0; h < 0x7c00u; h++) {
        double low = f16_value(h), high = h == 0x7bffu ? 65536.0 : f16_value(h + 1);
        float mid = (float)((low + high) / 2);
        unsigned even = h & 1u ? h + 1 : h;
        ck_assert_msg(kvref_f32_f16(mid) == even, "midpoint above %04x", h);
        ck_assert_uint_eq(kvref_f32_f16(nextafterf(mid, 0.0f)), h);
        ck_assert_uint_eq(kvref_f32_f16(nextafterf(mid, 1e9f)), h + 1);
        ck_assert_uint_eq(kvref_f32_f16(-mid), even | 0x8000u);
    }
}
END_TEST

START_TEST(every_bfloat16_pattern_widens_exactly_and_returns)
{
    for (unsigned h = 0; h < 65536; h++) {
        float x = kvref_bf16_f32((uint16_t)h);
        if (isnan(x)) {
            ck_assert(isnan(kvref_bf16_f32(kvref_f32_bf16(x))));
        } else {
            ck_assert_uint_eq(kvref_f32_bf16(x), h);
            ck_assert_uint_eq(kvref_f32_bits(x), h << 16);
        }
    }
}
END_TEST

START_TEST(bfloat16_rounds_to_nearest_even)
{
    ck_assert_uint_eq(kvref_f32_bf16(kvref_bits_f32(0x3f808000u)), 0x3f80);
    ck_assert_uint_eq(kvref_f32_bf16(kvref_bits_f32(0x3f818000u)), 0x3f82);
    ck_assert_uint_eq(kvref_f32_bf16(kvref_bits_f32(0x3f808001u)), 0x3f81);
    ck_assert_uint_eq(kvref_f32_bf16(kvref_bits_f32(0x7f7fffffu)), 0x7f80);
    ck_assert_uint_eq(kvref_f32_bf16(kvref_bits_f32(0x7f800001u)), 0x7fc0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("half");
    TCase *tc = tcase_create("half");
    tcase_add_test(tc, every_float16_pattern_widens_exactly_and_returns);
    tcase_add_test(tc, float16_rounds_every_midpoint_to_even);
    tcase_add_test(tc, every_bfloat16_pattern_widens_exactly_and_returns);
    tcase_add_test(tc, bfloat16_rounds_to_nearest_even);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
