/* SPDX-License-Identifier: MIT */
/* Root mean square norm: y = x / sqrt(mean(x^2) + eps) * w, over the last axis (spec 02
 * section 3). No mean is taken off and there is no bias.
 *
 * The squares are summed in float32, in the order of every dot product: a row of 300s, whose
 * squares pass the largest float16, is harmless. The same code norms the heads of q and k, one
 * row a head; upstream's two kinds of norm round at different places, hence `twice`. */
#include "ref/ref.h"

#include <math.h>

void ref_rmsnorm(const ref_tools *tools,
                 float *y,
                 const float *x,
                 int n_row,
                 int width,
                 const kvref_weight *w,
                 float eps,
                 bool twice)
{
    float *weight = tools->panel;
    ref_row(tools, weight, w, 0);
    for (int t = 0; t < n_row; t++) {
        const float *from = x + (size_t)t * (size_t)width;
        float *to = y + (size_t)t * (size_t)width;
        float sum = 0;
        tools->simd->product(&(ref_product){.y = &sum,
                                            .x = from,
                                            .w = from,
                                            .dtype = KVREF_F32,
                                            .n_x = 1,
                                            .n_w = 1,
                                            .n_col = width});
        float scale = 1.0f / sqrtf(sum / (float)width + eps);
        for (int i = 0; i < width; i++) {
            float normed = from[i] * scale;
            to[i] = ref_round((twice ? ref_round(normed) : normed) * weight[i]);
        }
    }
}
