/* SPDX-License-Identifier: MIT */
/* The exact matrix product of the codec: for each pair of rows, products k are added into 16
 * lanes by k mod 16, in order of k, without fused steps; then lane l and l + 8, l + 4, l + 2,
 * l + 1 are added. Tiles of 4 x 4 sums share their loads; a sum does not know its tile. */
#include "ref/codec.h"

#include "ref/clones.h"

#include <string.h>

enum { LANES = 16, TILE = 4 };

typedef float lanes __attribute__((vector_size(64)));
/* The same without alignment, for reading rows wherever they lie. */
typedef float lanes_at __attribute__((vector_size(64), aligned(4), may_alias));

static inline float tree(const lanes *v)
{
    float a[LANES];
    memcpy(a, v, sizeof a);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) a[l] += a[l + half];
    return a[0];
}

/* 4 x 4 sums; rows beyond the edges repeat a valid one (their sums are not stored). */
static inline __attribute__((always_inline)) void
tile(float sum[TILE][TILE], const float *const x[TILE], const float *const w[TILE], int n_k)
{
    lanes acc[TILE][TILE];
    memset(acc, 0, sizeof acc);
    int k = 0;
    for (; k + LANES <= n_k; k += LANES) {
        lanes a[TILE];
        for (int r = 0; r < TILE; r++) a[r] = *(const lanes_at *)(x[r] + k);
        for (int o = 0; o < TILE; o++) {
            lanes b = *(const lanes_at *)(w[o] + k);
            for (int r = 0; r < TILE; r++) acc[r][o] += a[r] * b;
        }
    }
    for (int r = 0; k < n_k && r < TILE; r++) {
        for (int o = 0; o < TILE; o++) {
            lanes a = {0}, b = {0};
            memcpy(&a, x[r] + k, (size_t)(n_k - k) * sizeof **x);
            memcpy(&b, w[o] + k, (size_t)(n_k - k) * sizeof **w);
            acc[r][o] += a * b;
        }
    }
    for (int r = 0; r < TILE; r++)
        for (int o = 0; o < TILE; o++) sum[r][o] = tree(&acc[r][o]);
}

REF_CLONES void ref_exact_product(float *sums,
                                  int ld_sums,
                                  const float *x,
                                  size_t ld_x,
                                  int n_row,
                                  const float *w,
                                  int n_out,
                                  int n_k)
{
    for (int o0 = 0; o0 < n_out; o0 += TILE) {
        const float *wt[TILE];
        for (int o = 0; o < TILE; o++)
            wt[o] = w + (size_t)(o0 + o < n_out ? o0 + o : o0) * (size_t)n_k;
        for (int r0 = 0; r0 < n_row; r0 += TILE) {
            const float *xt[TILE];
            float sum[TILE][TILE];
            for (int r = 0; r < TILE; r++)
                xt[r] = x + (size_t)(r0 + r < n_row ? r0 + r : r0) * ld_x;
            tile(sum, xt, wt, n_k);
            for (int r = 0; r < TILE && r0 + r < n_row; r++)
                for (int o = 0; o < TILE && o0 + o < n_out; o++)
                    sums[(size_t)(r0 + r) * (size_t)ld_sums + (size_t)(o0 + o)] = sum[r][o];
        }
    }
}
