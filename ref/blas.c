/* SPDX-License-Identifier: MIT */
/* OpenBLAS: which kernels it chose, and whether they are right.
 *
 * Debian's 0.3.21 takes its Prescott kernels on CPUs that are newer than itself, and is then
 * four times slower than it could be. The names below are those of openblas_get_corename. The
 * choice is made when the library is loaded, so a program can only note it, or start again with
 * OPENBLAS_CORETYPE set.
 *
 * Kernels that are wrong for some shape have been released before, so a few small products of
 * awkward shapes are checked against double before any result is trusted. */
#include "kvref/blas.h"

#include "ref/ref.h"

#include <cblas.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#ifdef __x86_64__
/* 2: written for AVX-512, 1: for AVX2, 0: older or unknown. */
static int kernel_class(const char *core)
{
    static const char *const wide[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
    static const char *const medium[] = {"Haswell", "Zen", "Excavator"};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (strcasecmp(core, wide[i]) == 0) return 2;
    for (size_t i = 0; i < sizeof medium / sizeof *medium; i++)
        if (strcasecmp(core, medium[i]) == 0) return 1;
    return 0;
}

/* In the same classes, what this CPU could run. */
static int cpu_class(void)
{
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
               ? 2
               : 1;
}
#endif

bool kvref_blas_core(const char **found, const char **wanted)
{
    *found = openblas_get_corename();
    *wanted = *found;
#ifdef __x86_64__
    static const char *const best[] = {"", "Haswell", "SkylakeX"};
    int cpu = cpu_class();
    if (kernel_class(*found) >= cpu) return true;
    *wanted = best[cpu];
    return false;
#else
    return true;
#endif
}

/* -1 .. 1, the same sequence everywhere. */
static void fill(float *x, int n, unsigned seed)
{
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int)(seed >> 8) * 0x1p-23f - 1.0f;
    }
}

#define MAX_SIZE 67

/* y [m, n] = x [m, k] w [n, k]^T, each element within 2 sqrt(k) u sum|x w| + u |y| of a sum in
 * double, u = 2^-24: rounding errors of k terms grow like a random walk, and twice that is
 * still far below one wrong term. y starts as NaN, so an element left out is found too. */
static kvref_status test_shape(int m, int n, int k, kvref_error *err)
{
    float x[MAX_SIZE * MAX_SIZE], w[MAX_SIZE * MAX_SIZE], y[MAX_SIZE * MAX_SIZE];
    fill(x, m * k, 1);
    fill(w, n * k, 2);
    for (int i = 0; i < m * n; i++) y[i] = NAN;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1.0f, x, k, w, k, 0.0f, y, n);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0, size = 0;
            for (int p = 0; p < k; p++) {
                double term = (double)x[i * k + p] * (double)w[j * k + p];
                sum += term;
                size += fabs(term);
            }
            double limit = 2 * sqrt(k) * 0x1p-24 * size + 0x1p-24 * fabs(sum);
            if (!(fabs((double)y[i * n + j] - sum) <= limit))
                return kvref_fail(err,
                                  KVREF_E_DEVICE,
                                  "OpenBLAS (%s): product of [%d, %d] and [%d, %d]: element "
                                  "%d, %d: expected %.9g, found %.9g",
                                  openblas_get_corename(),
                                  m,
                                  k,
                                  k,
                                  n,
                                  i,
                                  j,
                                  sum,
                                  (double)y[i * n + j]);
        }
    return KVREF_OK;
}

kvref_status kvref_blas_selftest(kvref_error *err)
{
    static const int shape[][3] = {{1, 1, 1},
                                   {2, 3, 5},
                                   {3, 17, 4},
                                   {16, 16, 16},
                                   {5, 66, 33},
                                   {67, 67, 67},
                                   {64, 31, 65}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        KVREF_TRY(test_shape(shape[i][0], shape[i][1], shape[i][2], err));
    return KVREF_OK;
}

kvref_status ref_blas_check(const kvref_log *log, kvref_error *err)
{
    const char *found, *wanted;
    if (!kvref_blas_core(&found, &wanted))
        kvref_note(log,
                   "OpenBLAS runs its %s kernels on this CPU: set OPENBLAS_CORETYPE=%s",
                   found,
                   wanted);
    return kvref_blas_selftest(err);
}
