/* SPDX-License-Identifier: MIT */
/* Linear layer, the definition: read this before linear.c, which gives the same bits faster.
 *
 *     y[t, o] = R(sum over i of w[o, i] x[t, i] + bias[o])      w [out, in], row-major
 *
 * A float sum depends on the order of its terms, so the order is part of the definition. Term i
 * goes to partial sum i mod 16, in ascending i; then the 16 partial sums ("lanes") are folded
 * in halves: 8 + 8, 4 + 4, 2 + 2, 1 + 1. Why not simply one sum from left to right: a vector
 * unit has 4, 8 or 16 floats side by side, and this order suits each of them; besides, the
 * rounding errors of 16 short sums are smaller than those of a long one. (In float16 it is the
 * order of gpu/: 8 neighbours, which a GPU loads at once, go to partial sum i / 8 mod 32.)
 * Notice: every product is rounded before it is added (no fused multiply-add), and a row of
 * y depends on its own row of x only. The tests judge linear.c and lanes.h by this file. */
#include "ref/ref.h"

#include <string.h>

float ref_element(const void *w, kvref_dtype dtype, size_t i)
{
    const char *at = (const char *)w + i * kvref_dtype_size(dtype);
    float single;
    uint16_t half;
    if (dtype == KVREF_F32) {
        memcpy(&single, at, sizeof single); /* weights of a file may lie at any address */
        return single;
    }
    memcpy(&half, at, sizeof half);
    return dtype == KVREF_F16 ? kvref_f16_f32(half) : kvref_bf16_f32(half);
}

float ref_dot_naive(const void *w, kvref_dtype dtype, const float *x, int n)
{
    float lane[REF_LANES] = {0};
    for (int i = 0; i < n; i++)
        lane[i / REF_GROUP % REF_LANES] += ref_element(w, dtype, (size_t)i) * x[i];
    for (int half = REF_LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) lane[l] += lane[l + half];
    return lane[0];
}

void ref_linear_naive(
    float *y, const kvref_weight *w, const kvref_weight *bias, const float *x, int n_row)
{
    size_t in = (size_t)w->n_col, out = (size_t)w->n_row;
    for (size_t t = 0; t < (size_t)n_row; t++)
        for (size_t o = 0; o < out; o++) {
            const char *row = (const char *)w->data + o * in * kvref_dtype_size(w->dtype);
            float sum = ref_dot_naive(row, w->dtype, x + t * in, w->n_col);
            if (bias && bias->data) sum += ref_element(bias->data, bias->dtype, o);
            y[t * out + o] = ref_round(sum);
        }
}
