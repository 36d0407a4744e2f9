/* SPDX-License-Identifier: MIT */
/* Numbers of the float16 decoder, written down once more from the first comment of gpu/gpu.h.
 */
#ifndef KVREF_TESTS_HALF_MATH_H
#define KVREF_TESTS_HALF_MATH_H

#include "kvref/half.h"

/* R */
static inline float half_round(float x)
{
    return kvref_f16_f32(kvref_f32_f16(x));
}

/* Element i of n goes to group i / 8, lane i / 8 mod 32; lanes are folded in halves. */
static inline float half_dot(const uint16_t *w, const float *x, int n)
{
    float lane[32] = {0};
    for (int l = 0; l < 32; l++)
        for (int group = l; group * 8 < n; group += 32)
            for (int i = group * 8; i < n && i < group * 8 + 8; i++)
                lane[l] += kvref_f16_f32(w[i]) * x[i];
    for (int half = 16; half > 0; half /= 2)
        for (int l = 0; l < half; l++) lane[l] += lane[l + half];
    return lane[0];
}

#endif
