/* SPDX-License-Identifier: MIT */
/* Inner loops on vectors of W floats. simd.c includes this file once per instruction set,
 * with W, NAME, TARGET, BITS16, HALF, ROWS, TILE_W and TILE_X defined.
 *
 * The order of every sum is the same for each W. A dot product of n terms uses 16 lanes:
 *     lane[l] = w[l] x[l] + w[l+16] x[l+16] + w[l+32] x[l+32] + ...     (ascending, l < 16)
 * then the halves are added: lane[l] += lane[l+8], then +4, +2, +1. Each product is rounded
 * before it is added. Elements beyond the last full 16 go to their own lanes; absent ones
 * add 0 * 0, which leaves a lane as it was. So the bits depend on n and nothing else: not on W,
 * not on how many rows are taken at once, not on alignment. */
#define PART (REF_LANES / W)

typedef float NAME(vec) __attribute__((vector_size(4 * W)));
typedef float NAME(any) __attribute__((vector_size(4 * W), aligned(1), may_alias));
typedef uint32_t NAME(bits) __attribute__((vector_size(4 * W)));

#define INLINE static inline __attribute__((always_inline)) TARGET

/* W weights at any address. */
INLINE NAME(vec) NAME(load)(const char *p, kvref_dtype dtype)
{
    if (dtype == KVREF_F32) return *(const NAME(any) *)p;
    if (dtype == KVREF_BF16) return (NAME(vec))((NAME(bits))BITS16(p) << 16);
    return (NAME(vec))HALF(p);
}

INLINE float NAME(tree)(float *lane)
{
    for (int n = REF_LANES / 2; n > 0; n /= 2)
        for (int l = 0; l < n; l++) lane[l] += lane[l + n];
    return lane[0];
}

/* The last n < 16 terms, padded with zeros. */
INLINE void
NAME(tail)(NAME(vec) * lane, const char *w, const float *x, kvref_dtype dtype, size_t n)
{
    size_t size = dtype == KVREF_F32 ? 4 : 2;
    char w_pad[4 * REF_LANES] = {0};
    float x_pad[REF_LANES] = {0};
    memcpy(w_pad, w, n * size);
    memcpy(x_pad, x, n * sizeof *x);
    UNROLL
    for (int p = 0; p < PART; p++)
        lane[p] += NAME(load)(w_pad + (size_t)(p * W) * size, dtype) *
                   *(const NAME(any) *)(x_pad + p * W);
}

/* n_w rows of weights against n_x rows of x: n_w * n_x dot products side by side, so that a
 * loaded value is used several times. With one x, 16-bit weights come from memory faster than a
 * CPU foresees, so the block of rows after this one is asked for in advance. */
INLINE void
NAME(tile)(float *y, const ref_product *a, int o0, int t0, kvref_dtype dtype, int n_w, int n_x)
{
    NAME(vec) lane[4][4][PART];
    size_t size = dtype == KVREF_F32 ? 4 : 2, ahead = (size_t)n_w * a->stride_w;
    const char *w = (const char *)a->w + (size_t)o0 * a->stride_w;
    const float *x = a->x + (size_t)t0 * a->stride_x;
    UNROLL
    for (int o = 0; o < n_w; o++) UNROLL
    for (int t = 0; t < n_x; t++) UNROLL
    for (int p = 0; p < PART; p++) lane[o][t][p] = (NAME(vec)){0};
    int i = 0;
    for (; i + REF_LANES <= a->n_col; i += REF_LANES) {
        UNROLL
        for (int p = 0; p < PART; p++) {
            NAME(vec) x_now[4];
            UNROLL
            for (int t = 0; t < n_x; t++)
                x_now[t] = *(const NAME(any) *)(x + (size_t)t * a->stride_x + i + p * W);
            UNROLL
            for (int o = 0; o < n_w; o++) {
                const char *at = w + (size_t)o * a->stride_w + (size_t)(i + p * W) * size;
                NAME(vec) w_now = NAME(load)(at, dtype);
                if (n_x == 1 && p == 0 && dtype != KVREF_F32)
                    __builtin_prefetch((void *)((uintptr_t)at + ahead));
                UNROLL
                for (int t = 0; t < n_x; t++) lane[o][t][p] += w_now * x_now[t];
            }
        }
    }
    UNROLL
    for (int o = 0; o < n_w; o++) UNROLL
    for (int t = 0; t < n_x; t++) {
        if (i < a->n_col) NAME(tail)
        (lane[o][t],
         w + (size_t)o * a->stride_w + (size_t)i * size,
         x + (size_t)t * a->stride_x + i,
         dtype,
         (size_t)(a->n_col - i));
        float sum[REF_LANES];
        UNROLL
        for (int p = 0; p < PART; p++) *(NAME(any) *)(sum + p * W) = lane[o][t][p];
        y[(size_t)(t0 + t) * a->stride_y + (size_t)(o0 + o)] = NAME(tree)(sum);
    }
}

INLINE void NAME(product_of)(const ref_product *a, kvref_dtype dtype)
{
    int t = 0;
    for (; t + TILE_X <= a->n_x; t += TILE_X) {
        int o = 0;
        for (; o + TILE_W <= a->n_w; o += TILE_W)
            NAME(tile)(a->y, a, o, t, dtype, TILE_W, TILE_X);
        for (; o < a->n_w; o++) NAME(tile)(a->y, a, o, t, dtype, 1, TILE_X);
    }
    for (; t < a->n_x; t++) {
        int o = 0;
        for (; o + ROWS <= a->n_w; o += ROWS) NAME(tile)(a->y, a, o, t, dtype, ROWS, 1);
        for (; o < a->n_w; o++) NAME(tile)(a->y, a, o, t, dtype, 1, 1);
    }
}

static TARGET void NAME(product)(const ref_product *a)
{
    if (a->dtype == KVREF_BF16)
        NAME(product_of)(a, KVREF_BF16);
    else if (a->dtype == KVREF_F16)
        NAME(product_of)(a, KVREF_F16);
    else
        NAME(product_of)(a, KVREF_F32);
}

INLINE void NAME(widen_of)(float *y, const char *w, kvref_dtype dtype, size_t n)
{
    size_t i = 0, size = dtype == KVREF_F32 ? 4 : 2;
    for (; i + W <= n; i += W) *(NAME(any) *)(y + i) = NAME(load)(w + i * size, dtype);
    if (i == n) return;
    char w_pad[4 * W] = {0};
    float y_pad[W];
    memcpy(w_pad, w + i * size, (n - i) * size);
    *(NAME(any) *)y_pad = NAME(load)(w_pad, dtype);
    memcpy(y + i, y_pad, (n - i) * sizeof *y);
}

static TARGET void NAME(widen)(float *y, const void *w, kvref_dtype dtype, size_t n)
{
    if (dtype == KVREF_BF16)
        NAME(widen_of)(y, w, KVREF_BF16, n);
    else if (dtype == KVREF_F16)
        NAME(widen_of)(y, w, KVREF_F16, n);
    else
        NAME(widen_of)(y, w, KVREF_F32, n);
}

/* y[e] = p[0] v[0,e] + p[1] v[1,e] + ... in ascending row order; no lanes, every e on its own.
 * y [n_col], p [n_row], v [n_row, n_col]. */
static TARGET void NAME(mix)(float *y, const float *p, const float *v, int n_row, int n_col)
{
    int e = 0;
    for (; e + 4 * W <= n_col; e += 4 * W) {
        NAME(vec) sum[4] = {{0}};
        for (int r = 0; r < n_row; r++) {
            const float *at = v + (size_t)r * (size_t)n_col + e;
            UNROLL
            for (int j = 0; j < 4; j++) sum[j] += p[r] * *(const NAME(any) *)(at + j * W);
        }
        UNROLL
        for (int j = 0; j < 4; j++) *(NAME(any) *)(y + e + j * W) = sum[j];
    }
    for (; e < n_col; e++) {
        float sum = 0;
        for (int r = 0; r < n_row; r++) sum += p[r] * v[(size_t)r * (size_t)n_col + (size_t)e];
        y[e] = sum;
    }
}

#undef W
#undef NAME
#undef TARGET
#undef BITS16
#undef HALF
#undef ROWS
#undef TILE_W
#undef TILE_X
#undef PART
#undef INLINE
