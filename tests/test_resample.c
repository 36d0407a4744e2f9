/* SPDX-License-Identifier: MIT */
/* Resampling against the table of spec 06 section 5 (x[i] = ((37 i mod 101) - 50) / 64 to 44100
 * Hz, tolerance 5e-5), lengths, and refusals. */
#include "kvref/codec.h"
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float *resampled(int n, int from, size_t *n_out)
{
    kvref_error err;
    float x[400], *y;
    for (int i = 0; i < n; i++) x[i] = (float)(37 * i % 101 - 50) / 64.0f;
    must(kvref_resample(&y, n_out, x, (size_t)n, from, 44100, &err), err);
    return y;
}

static void check(const float *y, size_t at, const double *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(fabs((double)y[at + i] - want[i]) <= 5e-5,
                      "y[%zu] is %.6f, expected %.6f",
                      at + i,
                      (double)y[at + i],
                      want[i]);
}

START_TEST(forty_samples_agree_with_the_table)
{
    static const struct {
        int from;
        size_t n;
        double first[6], last[3];
    } row[] = {
        {24000,
         74,
         {-0.780820, -0.695454, -0.090371, 0.407026, 0.243196, -0.376571},
         {-0.023060, -0.372417, -0.166321}},
        {48000,
         37,
         {-0.775339, -0.086719, 0.234158, -0.687295, 0.378632, 0.102478},
         {0.113454, 0.574346, -0.339481}},
        {16000,
         111,
         {-0.780820, -0.797155, -0.529560, -0.090371, 0.299376, 0.433724},
         {-0.372417, -0.273821, -0.055214}},
    };
    for (int i = 0; i < 3; i++) {
        size_t n;
        float *y = resampled(40, row[i].from, &n);
        ck_assert_uint_eq(n, row[i].n);
        check(y, 0, row[i].first, 6);
        check(y, n - 3, row[i].last, 3);
        free(y);
    }
}
END_TEST

START_TEST(four_hundred_samples_agree_with_the_table)
{
    static const struct {
        int from;
        size_t n;
        double a[3], b[3], last[2];
    } row[] = {
        {24000,
         735,
         {0.135362, -0.286223, 0.030845},
         {-0.415103, 0.191586, 0.829261},
         {-0.469150, -0.421140}},
        {48000,
         368,
         {-0.340495, 0.225908, 0.615410},
         {0.620081, -0.434228, 0.317059},
         {0.097207, -0.415307}},
        {16000,
         1103,
         {-0.171968, 0.306041, 0.530829},
         {0.263236, -0.164258, -0.487332},
         {-0.421140, -0.138371}},
        {22050,
         800,
         {0.391876, -0.111357, -0.609480},
         {0.543014, 0.562603, 0.064441},
         {-0.509677, -0.391317}},
    };
    for (int i = 0; i < 4; i++) {
        size_t n;
        float *y = resampled(400, row[i].from, &n);
        ck_assert_uint_eq(n, row[i].n);
        check(y, 146, row[i].a, 3);
        check(y, 293, row[i].b, 3);
        check(y, n - 2, row[i].last, 2);
        free(y);
    }
}
END_TEST

START_TEST(equal_rates_change_no_bit)
{
    size_t n;
    float x[40], *y = resampled(40, 44100, &n);
    for (int i = 0; i < 40; i++) x[i] = (float)(37 * i % 101 - 50) / 64.0f;
    ck_assert(n == 40 && memcmp(x, y, sizeof x) == 0);
    free(y);
}
END_TEST

START_TEST(lengths_are_rounded_up_and_odd_rates_refused)
{
    static const struct {
        size_t n;
        int from, to;
        size_t out;
    } row[] = {{1, 8000, 44100, 6},
               {0, 8000, 44100, 0},
               {1, 96000, 44100, 1},
               {1000, 96000, 44100, 460},
               {1000, 11025, 44100, 4000},
               {3, 192000, 8000, 1},
               {1000, 44100, 16000, 363}};
    kvref_error err;
    float *x = calloc(1000, sizeof *x), *y;
    size_t n;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        must(kvref_resample(&y, &n, x, row[i].n, row[i].from, row[i].to, &err), err);
        ck_assert_msg(n == row[i].out, "row %zu: %zu samples", i, n);
        free(y);
    }
    must_fail(kvref_resample(&y, &n, x, 9, 44101, 44100, &err),
              KVREF_E_UNSUPPORTED,
              err,
              "44101 to 44100 Hz");
    ck_assert(y == NULL && n == 0);
    must_fail(kvref_resample(&y, &n, x, 9, 0, 44100, &err), KVREF_E_ARG, err, "rates 0");
    must_fail(kvref_resample(&y, &n, x, 9, 8000, -1, &err), KVREF_E_ARG, err, "-1");
    must_fail(
        kvref_resample(&y, &n, x, 9, 2147483647, 1, &err), KVREF_E_UNSUPPORTED, err, "Hz");
    free(x);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("resample");
    TCase *tc = tcase_create("resample");
    tcase_add_test(tc, forty_samples_agree_with_the_table);
    tcase_add_test(tc, four_hundred_samples_agree_with_the_table);
    tcase_add_test(tc, equal_rates_change_no_bit);
    tcase_add_test(tc, lengths_are_rounded_up_and_odd_rates_refused);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
