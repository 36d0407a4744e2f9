/* SPDX-License-Identifier: MIT */
/* Inner loops on vectors of W floats; linear_naive.c defines what they compute. simd.c includes
 * this file once per instruction set, and NAME(product) becomes product_avx2 and so on.
 *
 *     W                4, 8 or 16: floats in a vector register
 *     TARGET           attribute that lets the compiler use the instruction set
 *     BITS16, HALF     W weights of 16 bits: as integers in W lanes; from float16 to float32
 *     ROWS             rows of w taken together when there is one row of x
 *     TILE_W, TILE_X   rows of w and rows of x taken together when there are several
 *
 * A dot product of n terms has REF_LANES = 16 partial sums, PART vectors of W:
 *     lane[l] = w[l] x[l] + w[l+16] x[l+16] + w[l+32] x[l+32] + ...     (ascending, l < 16)
 * then the halves are added: lane[l] += lane[l+8], then +4, +2, +1. Each product is rounded
 * before it is added. Elements beyond the last full 16 go to their own lanes; absent ones
 * add 0 * 0, which leaves a lane as it was. So the bits depend on n and nothing else: not on W,
 * not on how many rows are taken at once, not on alignment.
 *
 * Why tiles: an addition takes 4 cycles and 2 can start in each, so one dot product, whose
 * additions wait for one another, keeps the adder idle most of the time. Several side by side
 * fill it, and a loaded value serves several of them. Limits are the 16 or 32 registers.
 *
 * Lines marked for the coverage report branch on what every caller fixes when it is compiled.
 */
#define PART (REF_LANES / W)

typedef float NAME(vec) __attribute__((vector_size(4 * W)));
typedef float NAME(any) __attribute__((vector_size(4 * W), aligned(1), may_alias));
typedef uint32_t NAME(bits) __attribute__((vector_size(4 * W)));

#define INLINE static inline __attribute__((always_inline)) TARGET

/* W weights at any address. */
INLINE NAME(vec) NAME(load)(const char *p, kvref_dtype dtype)
{
    if (dtype == KVREF_F32) return *(const NAME(any) *)p;
    if (dtype == KVREF_BF16) /* LCOV_EXCL_BR_LINE */
        return (NAME(vec))((NAME(bits))BITS16(p) << 16);
    return (NAME(vec))HALF(p);
}

/* Halves are added: 8 + 8, 4 + 4, 2 + 2, 1 + 1. */
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

/* One step of n_w * n_x dot products: 16 terms of each, from column i on. w and x are at the
 * first row of the tile. Every vector of w is used n_x times, every vector of x n_w times.
 *
 * With one x, 16-bit weights come from memory faster than a CPU foresees, so the rows after
 * this tile are asked for in advance. */
INLINE void NAME(step)(NAME(vec) lane[4][4][PART],
                       const ref_product *a,
                       const char *w,
                       const float *x,
                       kvref_dtype dtype,
                       int n_w,
                       int n_x)
{
    size_t size = dtype == KVREF_F32 ? 4 : 2, ahead = (size_t)n_w * a->stride_w;
    UNROLL
    for (int p = 0; p < PART; p++) {
        NAME(vec) x_now[4];
        UNROLL
        for (int t = 0; t < n_x; t++)
            x_now[t] = *(const NAME(any) *)(x + (size_t)t * a->stride_x + p * W);
        UNROLL
        for (int o = 0; o < n_w; o++) {
            const char *at = w + (size_t)o * a->stride_w + (size_t)(p * W) * size;
            NAME(vec) w_now = NAME(load)(at, dtype);
            if (n_x == 1 && p == 0 && dtype != KVREF_F32) /* LCOV_EXCL_BR_LINE */
                __builtin_prefetch((void *)((uintptr_t)at + ahead));
            UNROLL
            for (int t = 0; t < n_x; t++) lane[o][t][p] += w_now * x_now[t];
        }
    }
}

/* The 16 partial sums of one dot product become its value. */
INLINE float NAME(fold)(const NAME(vec) * lane)
{
    float sum[REF_LANES];
    UNROLL
    for (int p = 0; p < PART; p++) *(NAME(any) *)(sum + p * W) = lane[p];
    return NAME(tree)(sum);
}

/* y of rows o0 .. o0+n_w-1 of w and t0 .. t0+n_x-1 of x, n_w * n_x dot products side by side.
 * n_w and n_x are constants at every call, so the lanes live in registers. */
INLINE void
NAME(tile)(const ref_product *a, int o0, int t0, kvref_dtype dtype, int n_w, int n_x)
{
    NAME(vec) lane[4][4][PART];
    size_t size = dtype == KVREF_F32 ? 4 : 2;
    const char *w = (const char *)a->w + (size_t)o0 * a->stride_w;
    const float *x = a->x + (size_t)t0 * a->stride_x;
    UNROLL
    for (int k = 0; k < n_w * n_x * PART; k++) {
        int row = k / PART;
        lane[row / n_x][row % n_x][k % PART] = (NAME(vec)){0};
    }
    int i = 0;
    for (; i + REF_LANES <= a->n_col; i += REF_LANES)
        NAME(step)(lane, a, w + (size_t)i * size, x + i, dtype, n_w, n_x);
    size_t left = (size_t)(a->n_col - i);
    UNROLL
    for (int k = 0; k < n_w * n_x; k++) {
        size_t o = (size_t)(k / n_x), t = (size_t)(k % n_x);
        const char *w_end = w + o * a->stride_w + (size_t)i * size;
        if (left) NAME(tail)(lane[o][t], w_end, x + t * a->stride_x + i, dtype, left);
        a->y[((size_t)t0 + t) * a->stride_y + (size_t)o0 + o] = NAME(fold)(lane[o][t]);
    }
}

/* All n_w * n_x of them: tiles first, then the rows that fill none. */
INLINE void NAME(product_of)(const ref_product *a, kvref_dtype dtype)
{
    int t = 0;
    for (; t + TILE_X <= a->n_x; t += TILE_X) {
        int o = 0;
        for (; o + TILE_W <= a->n_w; o += TILE_W) NAME(tile)(a, o, t, dtype, TILE_W, TILE_X);
        for (; o < a->n_w; o++) NAME(tile)(a, o, t, dtype, 1, TILE_X);
    }
    for (; t < a->n_x; t++) {
        int o = 0;
        for (; o + ROWS <= a->n_w; o += ROWS) NAME(tile)(a, o, t, dtype, ROWS, 1);
        for (; o < a->n_w; o++) NAME(tile)(a, o, t, dtype, 1, 1);
    }
}

/* The test of dtype is out here so that it is not made for every weight. */
static TARGET void NAME(product)(const ref_product *a)
{
    if (a->dtype == KVREF_BF16)
        NAME(product_of)(a, KVREF_BF16);
    else if (a->dtype == KVREF_F16)
        NAME(product_of)(a, KVREF_F16);
    else
        NAME(product_of)(a, KVREF_F32);
}

/* n weights to float32, each exactly: both 16-bit formats are subsets of it. */
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

/* Weighted sum of rows, a mix of them: y[e] = p[0] v[0,e] + p[1] v[1,e] + ... in ascending row
 * order. Every e is a sum of its own, so there are no lanes to fold. y [n_col], p [n_row],
 * v [n_row, n_col]; 4 W columns at a time stay in registers while the rows go by. */
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
