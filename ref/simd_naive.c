/* SPDX-License-Identifier: MIT */
/* The inner loops by their definitions, in place of simd.c where the folder is compiled for
 * float16. That build is a judge, not a player: what it computes should be seen at a glance. */
#include "ref/ref.h"

static void product(const ref_product *a)
{
    for (int t = 0; t < a->n_x; t++)
        for (int o = 0; o < a->n_w; o++) {
            const char *w = (const char *)a->w + (size_t)o * a->stride_w;
            const float *x = a->x + (size_t)t * a->stride_x;
            a->y[(size_t)t * a->stride_y + (size_t)o] = ref_dot_naive(w, a->dtype, x, a->n_col);
        }
}

static void widen(float *y, const void *w, kvref_dtype dtype, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = ref_element(w, dtype, i);
}

static void mix(float *y, const float *p, const float *v, int n_row, int n_col)
{
    for (int e = 0; e < n_col; e++) {
        float sum = 0;
        for (int r = 0; r < n_row; r++) sum += p[r] * v[(size_t)r * (size_t)n_col + (size_t)e];
        y[e] = sum;
    }
}

static const ref_simd naive = {"naive", product, widen, mix};

int ref_simd_list(const ref_simd *list[REF_MAX_SIMD])
{
    list[0] = &naive;
    return 1;
}

const ref_simd *ref_simd_best(void)
{
    return &naive;
}
