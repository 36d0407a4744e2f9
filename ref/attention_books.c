/* SPDX-License-Identifier: MIT */
/* Attention of the fast transformer, over the few codebook positions of one frame (spec 03
 * section 3). Upstream computes it there by the explicit formula, each step in model dtype:
 *
 *     s[h, r]   = R(R(q[h, :] . k[r, :]) / sqrt(E))
 *     p[h, r]   = R(e^(s[h, r] - largest[h]) / sum over r of e^(s[h, r] - largest[h]))
 *     out[h, :] = R(sum over r of p[h, r] v[r, :])
 *
 * Notice what differs from attention.c: weights are divided by their sum before they meet v,
 * and there are R inside. In float32 R does nothing and the two agree but for last bits; in
 * float16 a frame can get other codes. There are at most as many rows as codebooks, so all sums
 * simply ascend. */
#include "ref/ref.h"

#include <math.h>

/* Dot products of one head become probabilities. A masked row has score minus infinity. */
static void softmax(float *row, const ref_attend *a)
{
    float scale = 1.0f / sqrtf((float)a->d_head), largest = -INFINITY, total = 0;
    for (int r = 0; r < a->n_row; r++) {
        row[r] = r < a->n_live ? ref_round(ref_round(row[r]) * scale) : -INFINITY;
        if (row[r] > largest) largest = row[r];
    }
    for (int r = 0; r < a->n_row; r++) total += row[r] = kvref_expf(row[r] - largest);
    for (int r = 0; r < a->n_row; r++) row[r] = ref_round(row[r] / total);
}

void ref_attend_books(const ref_simd *simd, const ref_attend *a, float *scratch)
{
    float *p = scratch; /* [n_head, n_row] */
    ref_attend_scores(simd, p, a);
    for (int h = 0; h < a->n_head; h++, p += a->n_row) {
        float *out = a->out + (size_t)h * (size_t)a->d_head;
        softmax(p, a);
        simd->mix(out, p, a->v, a->n_row, a->d_head);
        for (int e = 0; e < a->d_head; e++) out[e] = ref_round(out[e]);
    }
}
