/* SPDX-License-Identifier: MIT */
#include "kvref/fmath.h"
#include "tests/support.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

/* Distance of got from the exact value, in units of the last place of float32 there. */
static double ulps(float got, double exact)
{
    if (isinf(got) && fabs(exact) >= 0x1.ffffffp127) return 0;
    int e;
    frexp(exact, &e);
    double unit = ldexp(1, (e < -125 ? -125 : e) - 24);
    return fabs((double)got - exact) / unit;
}

/* Worst error of fn against exact over every 997th bit pattern that accept lets through. */
static double
sweep(float (*fn)(float), double (*exact)(double), bool (*accept)(float), float *where)
{
    double worst = 0;
    for (uint64_t bits = 0; bits < 0x100000000u; bits += 997) {
        float x = kvref_bits_f32((uint32_t)bits);
        if (isnan(x)) {
            if (!isnan(fn(x))) return HUGE_VAL;
            continue;
        }
        if (!accept(x)) continue;
        double err = ulps(fn(x), exact((double)x));
        if (!(err <= worst)) {
            worst = err;
            *where = x;
        }
    }
    return worst;
}

static bool any(float x)
{
    (void)x;
    return true;
}

static bool positive(float x)
{
    return x > 0 && x < INFINITY;
}

static bool below_2_to_20(float x)
{
    return fabsf(x) < 0x1p20f;
}

static float exp_of(float x)
{
    return kvref_expf(x);
}

static float log_of(float x)
{
    return kvref_logf(x);
}

static float sin_of(float x)
{
    float s, c;
    kvref_sincosf(&s, &c, x);
    return s;
}

static float cos_of(float x)
{
    float s, c;
    kvref_sincosf(&s, &c, x);
    return c;
}

START_TEST(exp_is_within_one_ulp)
{
    float where = 0;
    double worst = sweep(exp_of, exp, any, &where);
    printf("exp: %.4f ulp at %a\n", worst, (double)where);
    ck_assert(worst <= 1.0);
}
END_TEST

START_TEST(exp_is_within_one_ulp_where_softmax_uses_it)
{
    double worst = 0;
    for (int i = -20 * 65536; i <= 65536; i++) {
        float x = (float)i * 0x1p-16f;
        double err = ulps(kvref_expf(x), exp((double)x));
        if (!(err <= worst)) worst = err;
    }
    printf("exp on [-20, 1]: %.4f ulp\n", worst);
    ck_assert(worst <= 1.0);
}
END_TEST

START_TEST(exp_has_the_right_limits)
{
    ck_assert(kvref_expf(0.0f) == 1.0f && kvref_expf(-0.0f) == 1.0f);
    ck_assert(kvref_f32_bits(kvref_expf(-INFINITY)) == 0);
    ck_assert(kvref_f32_bits(kvref_expf(-1e38f)) == 0);
    ck_assert(kvref_f32_bits(kvref_expf(-104.0f)) == 0);
    ck_assert(kvref_expf(INFINITY) == INFINITY && kvref_expf(1e38f) == INFINITY);
    ck_assert(kvref_expf(0x1.62e42ep6f) < INFINITY);  /* last with a finite result */
    ck_assert(kvref_expf(0x1.62e430p6f) == INFINITY); /* first without one         */
    ck_assert(kvref_expf(0x1p-149f) == 1.0f);
    ck_assert(isnan(kvref_expf(NAN)) && isnan(kvref_expf(-NAN)));
}
END_TEST

/* Every float in short stretches: where the power of two changes, and at both ends. */
START_TEST(exp_never_decreases)
{
    float start[] = {-103.98f, -88.03f, -87.34f, -1.0398f, -0.34660f, 0.34655f, 88.7225f};
    for (size_t s = 0; s < sizeof start / sizeof *start; s++) {
        float x = start[s], before = kvref_expf(x);
        for (int i = 0; i < 20000; i++) {
            x = nextafterf(x, INFINITY);
            float y = kvref_expf(x);
            ck_assert_msg(
                y >= before, "exp(%a) = %a after %a", (double)x, (double)y, (double)before);
            before = y;
        }
    }
}
END_TEST

START_TEST(a_loop_over_an_array_gives_the_bits_of_single_calls)
{
    static float x[4096], y[4096];
    for (int i = 0; i < 4096; i++) x[i] = kvref_bits_f32((uint32_t)i * 1048573u);
    for (int i = 0; i < 4096; i++) y[i] = kvref_expf(x[i]);
    for (int i = 0; i < 4096; i++) {
        volatile float one = x[i];
        float want = kvref_expf(one);
        ck_assert(isnan(want) ? isnan(y[i]) : kvref_f32_bits(want) == kvref_f32_bits(y[i]));
    }
}
END_TEST

/* The same hash from every compiler and instruction set: gcc 12 and clang 14, -O0 to -O3,
 * SSE2 and AVX-512 gave these. */
START_TEST(bits_are_those_of_every_other_build)
{
    uint32_t hash[3] = {0x811c9dc5u, 0x811c9dc5u, 0x811c9dc5u};
    for (uint64_t bits = 0; bits < 0x100000000u; bits += 65521) {
        float x = kvref_bits_f32((uint32_t)bits);
        if (isnan(x)) continue;
        hash[0] = (hash[0] ^ kvref_f32_bits(kvref_expf(x))) * 0x01000193u;
        if (x > 0) hash[1] = (hash[1] ^ kvref_f32_bits(kvref_logf(x))) * 0x01000193u;
        if (fabsf(x) < 0x1p20f)
            hash[2] = (hash[2] ^ kvref_f32_bits(sin_of(x) + cos_of(x))) * 0x01000193u;
    }
    ck_assert_uint_eq(hash[0], 0x74601dbfu);
    ck_assert_uint_eq(hash[1], 0x15253f75u);
    ck_assert_uint_eq(hash[2], 0xb1a4d04fu);
}
END_TEST

START_TEST(silu_has_the_right_limits)
{
    ck_assert(kvref_siluf(0.0f) == 0.0f);
    ck_assert(kvref_siluf(100.0f) == 100.0f);
    ck_assert(kvref_siluf(-200.0f) == 0.0f);
    ck_assert(kvref_siluf(-60000.0f) == 0.0f && kvref_siluf(60000.0f) == 60000.0f);
    ck_assert(isnan(kvref_siluf(NAN)));
    for (int i = -7000; i < 7000; i++) {
        float x = (float)i * 0.0113f;
        double want = (double)x / (1 + exp(-(double)x));
        ck_assert(ulps(kvref_siluf(x), want) <= 3.0);
    }
}
END_TEST

START_TEST(log_is_correctly_rounded_but_for_near_ties)
{
    float where = 0;
    double worst = sweep(log_of, log, positive, &where);
    printf("log: %.5f ulp at %a\n", worst, (double)where);
    ck_assert(worst <= 0.501);
}
END_TEST

START_TEST(log_has_the_right_limits)
{
    ck_assert(kvref_f32_bits(kvref_logf(1.0f)) == 0);
    ck_assert(kvref_logf(0.0f) == -INFINITY && kvref_logf(-0.0f) == -INFINITY);
    ck_assert(kvref_logf(INFINITY) == INFINITY);
    ck_assert(isnan(kvref_logf(-1.0f)) && isnan(kvref_logf(-INFINITY)) &&
              isnan(kvref_logf(NAN)));
    float x = 0.999f;
    for (int i = 0; i < 40000; i++) { /* across 1 */
        float y = nextafterf(x, 2.0f);
        ck_assert(kvref_logf(x) <= kvref_logf(y));
        ck_assert(ulps(kvref_logf(x), log((double)x)) <= 0.501);
        x = y;
    }
}
END_TEST

START_TEST(sine_and_cosine_are_correctly_rounded_but_for_near_ties)
{
    float where = 0;
    double worst = sweep(sin_of, sin, below_2_to_20, &where);
    printf("sin: %.5f ulp at %a\n", worst, (double)where);
    ck_assert(worst <= 0.501);
    worst = sweep(cos_of, cos, below_2_to_20, &where);
    printf("cos: %.5f ulp at %a\n", worst, (double)where);
    ck_assert(worst <= 0.501);
}
END_TEST

START_TEST(sine_and_cosine_are_right_beside_multiples_of_a_right_angle)
{
    for (int k = -4000; k < 600000; k += k < 4000 ? 1 : 997) {
        float x = (float)(k * 1.5707963267948966);
        for (int side = -1; side <= 1; side++) {
            float z = side ? nextafterf(x, (float)side * INFINITY) : x;
            ck_assert(ulps(sin_of(z), sin((double)z)) <= 0.501);
            ck_assert(ulps(cos_of(z), cos((double)z)) <= 0.501);
        }
    }
    ck_assert(sin_of(0.0f) == 0.0f && cos_of(0.0f) == 1.0f);
    ck_assert(isnan(sin_of(INFINITY)) && isnan(cos_of(NAN)));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fmath");
    TCase *tc = tcase_create("fmath");
    tcase_add_test(tc, exp_is_within_one_ulp);
    tcase_add_test(tc, exp_is_within_one_ulp_where_softmax_uses_it);
    tcase_add_test(tc, exp_has_the_right_limits);
    tcase_add_test(tc, exp_never_decreases);
    tcase_add_test(tc, a_loop_over_an_array_gives_the_bits_of_single_calls);
    tcase_add_test(tc, bits_are_those_of_every_other_build);
    tcase_add_test(tc, silu_has_the_right_limits);
    tcase_add_test(tc, log_is_correctly_rounded_but_for_near_ties);
    tcase_add_test(tc, log_has_the_right_limits);
    tcase_add_test(tc, sine_and_cosine_are_correctly_rounded_but_for_near_ties);
    tcase_add_test(tc, sine_and_cosine_are_right_beside_multiples_of_a_right_angle);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
