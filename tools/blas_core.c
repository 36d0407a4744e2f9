/* SPDX-License-Identifier: MIT */
/* Which OpenBLAS kernels are in use, which should be, and starting again with those. */
#include "tools/blas_core.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define CORETYPE "OPENBLAS_CORETYPE"
#define MARK     "KVREF_CORETYPE_CHOSEN" /* stops a second start */

char **blas_core_argv;

const char *blas_core_found(void)
{
    return openblas_get_corename();
}

#if defined(__x86_64__) || defined(__i386__)
/* 3: 512 bits wide, 2: 256 bits with fused multiply-add, 1: less. */
static int cpu_rank(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return 3;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 2 : 1;
}
#else
static int cpu_rank(void)
{
    return 0;
}
#endif

const char *blas_core_simd(void)
{
    static const char *const name[] = {"not x86: compiler's choice", "SSE2", "AVX2", "AVX-512"};
    return name[cpu_rank()];
}

const char *blas_core_wanted(void)
{
    static const char *const name[] = {NULL, NULL, "Haswell", "SkylakeX"};
    return name[cpu_rank()];
}

bool blas_core_poor(void)
{
    static const char *const wide[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
    static const char *const middle[] = {"Haswell", "Zen", "Excavator"};
    int rank = 1, cpu = cpu_rank();
    const char *found = blas_core_found();
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (strcasecmp(found, wide[i]) == 0) rank = 3;
    for (size_t i = 0; i < sizeof middle / sizeof middle[0]; i++)
        if (strcasecmp(found, middle[i]) == 0) rank = 2;
    return cpu > 1 && rank < cpu;
}

bool blas_core_chosen(void)
{
    return getenv(MARK) != NULL;
}

void blas_core_choose(char **argv)
{
    if (!argv || getenv(CORETYPE) || getenv(MARK) || !blas_core_poor()) return;
    if (setenv(CORETYPE, blas_core_wanted(), 1) != 0 || setenv(MARK, "1", 1) != 0) return;
    execv("/proc/self/exe", argv);
    unsetenv(CORETYPE); /* could not be started again: go on with the slow kernels */
    unsetenv(MARK);
}
