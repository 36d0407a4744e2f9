/* SPDX-License-Identifier: MIT */
/* Tables of the rotation, for every backend (spec 02 section 4; ref/rope.c explains them). */
#ifndef KVREF_BASE_ROPE_H
#define KVREF_BASE_ROPE_H

#include "kvref/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* f_j = fl(1 / fl(base^fl(2j/E))), j = 0 .. E/2-1. */
float kvref_rope_frequency(float base, int d_head, int j);

/* cosine and sine [n] of one position: the angle is fl(pos f_j), values are correctly rounded
 * and then, for the bf16 table, rounded to bfloat16. frequency [n]; pos below 2^20. */
void kvref_rope_row(
    float *cosine, float *sine, const float *frequency, int n, int pos, kvref_rope_table table);

#ifdef __cplusplus
}
#endif
#endif
