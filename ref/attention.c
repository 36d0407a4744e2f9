/* SPDX-License-Identifier: MIT */
/* Attention of one query position over rows of the cache; attention_naive.c defines it.
 *
 *     score[h, r]  = q[h, :] . k[r, :] / sqrt(E)
 *     weight[h, r] = e^(score[h, r] - largest[h]),  0 where r >= n_live
 *     out[h, :]    = sum over r of weight[h, r] v[r, :]  /  sum over r of weight[h, r]
 *
 * What makes it faster than the definition, with the same bits:
 * - The heads that share a key/value head go through its rows together: a row of k or v is
 *   read from memory once for all of them. This is why models have fewer of those heads.
 * - Vectors of floats along E (lanes.h), REF_CHUNK rows of v at a time.
 * Notice that softmax needs all scores before the first weight, so a row is visited twice. */
#include "ref/ref.h"

#include <math.h>
#include <string.h>

size_t ref_attention_scratch(int n_head, int n_kv_head, int d_head, int capacity)
{
    size_t group = (size_t)(n_head / n_kv_head);
    return group * ((size_t)capacity + 1) + (size_t)d_head;
}

void ref_attend_scores(const ref_simd *simd, float *score, const ref_attend *a)
{
    simd->product(&(ref_product){.y = score,
                                 .stride_y = (size_t)a->n_row,
                                 .x = a->q,
                                 .stride_x = (size_t)a->d_head,
                                 .w = a->k,
                                 .stride_w = (size_t)a->d_head * sizeof(float),
                                 .dtype = KVREF_F32,
                                 .n_x = a->n_head,
                                 .n_w = a->n_row,
                                 .n_col = a->d_head});
}

static int chunk_end(int first, int n)
{
    return n - first < REF_CHUNK ? n : first + REF_CHUNK;
}

/* Softmax without its division: dot products of one head become weights; returns their sum.
 * The mask is added as upstream does it, 0 or minus infinity, and e^-inf is exactly 0. */
static float weigh(float *row, const ref_attend *a)
{
    float scale = 1.0f / sqrtf((float)a->d_head), largest = -INFINITY, total = 0;
    for (int r = 0; r < a->n_row; r++) {
        float mask = r < a->n_live ? 0.0f : -INFINITY;
        row[r] = row[r] * scale + mask;
        if (row[r] > largest) largest = row[r];
    }
    for (int r = 0; r < a->n_row; r++) row[r] = kvref_expf(row[r] - largest);
    for (int first = 0; first < a->n_row; first += REF_CHUNK) {
        float sum = 0;
        for (int r = first; r < chunk_end(first, a->n_row); r++) sum += row[r];
        total += sum;
    }
    return total;
}

/* out[h, :] = sum over r of weight[h, r] v[r, :]. part [E] holds the sum of one chunk. */
static void average(const ref_simd *simd, const ref_attend *a, const float *weight, float *part)
{
    size_t width = (size_t)a->d_head;
    memset(a->out, 0, (size_t)a->n_head * width * sizeof *a->out);
    for (int first = 0; first < a->n_row; first += REF_CHUNK) {
        int n = chunk_end(first, a->n_row) - first;
        const float *v = a->v + (size_t)first * width;
        for (int h = 0; h < a->n_head; h++) {
            float *out = a->out + (size_t)h * width;
            simd->mix(part, weight + (size_t)h * (size_t)a->n_row + first, v, n, a->d_head);
            for (size_t e = 0; e < width; e++) out[e] += part[e];
        }
    }
}

void ref_attend_row(const ref_simd *simd, const ref_attend *a, float *scratch)
{
    size_t width = (size_t)a->d_head;
    float *weight = scratch; /* [n_head, n_row] */
    float *total = weight + (size_t)a->n_head * (size_t)a->n_row;
    float *part = total + a->n_head;
    ref_attend_scores(simd, weight, a);
    for (int h = 0; h < a->n_head; h++)
        total[h] = weigh(weight + (size_t)h * (size_t)a->n_row, a);
    average(simd, a, weight, part);
    for (int h = 0; h < a->n_head; h++)
        for (size_t e = 0; e < width; e++) {
            float *out = a->out + (size_t)h * width + e;
            *out = ref_round(*out / total[h]);
        }
}
