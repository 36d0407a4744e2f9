/* SPDX-License-Identifier: MIT */
/* Linear layers, y[t, o] = R(sum over i of w[o, i] x[t, i] + bias[o]) (spec 02 section 5).
 *
 * A warp takes a tile of W rows of w and T rows of x. Each lane holds W T sums, and a group of
 * eight columns is loaded once for the whole tile: with one row of x each weight is read once
 * and 2 W or more loads are in flight; with many rows a weight serves T of them. The order of
 * summation of an element is that of gpu.h in any tile, so tiles are a matter of speed alone.
 * x is small and read by every warp: it is left to the first-level cache. */
#include "gpu/dot.h"

#include <limits.h>

namespace GPU_NAMESPACE
{

enum {
    LINEAR_WARPS = 4 /* of a block */
};

struct linear_args {
    gpu_product p[3];
    int first_block[3]; /* where the blocks of a product begin, INT_MAX for none */
    int n_tile;         /* tiles that the rows of x make                         */
    const gpu_half *x;  /* [n_row, stride_x]                                     */
    int stride_x, n_row;
};

/* A tile: rows of w and of x as pointers. Those beyond the last point to a row of x: what comes
 * of them is not stored, and so no load needs a condition, which would keep it from starting
 * before the one ahead has ended. */
template <int W, int T> struct linear_tile {
    const gpu_half *w[W]; /* [n_col] each */
    const gpu_half *x[T]; /* [n_col] each */
    float sum[T * W];
};

template <int W, int T>
static __device__ void
begin_tile(linear_tile<W, T> *tile, const linear_args &a, const gpu_product &p, int o, int t)
{
    int64_t n_place = static_cast<int64_t>(gpu_pad(p.w.n_col));
    GPU_UNROLL
    for (int i = 0; i < T; i++)
        tile->x[i] = a.x + static_cast<int64_t>(min(t + i, a.n_row - 1)) * a.stride_x;
    GPU_UNROLL
    for (int i = 0; i < W; i++) {
        tile->w[i] = tile->x[0];
        if (o + i >= p.n_out) continue;
        int r = p.index ? p.index[o + i] : o + i;
        tile->w[i] = p.w.data + static_cast<int64_t>(r) * n_place;
    }
    GPU_UNROLL
    for (int i = 0; i < T * W; i++) tile->sum[i] = 0.0f;
}

/* Adds the products of groups g, g + 32, ... for as long as there are U more of them, loaded
 * together. Returns the group to go on with. */
template <int U, int W, int T>
static __device__ int add_groups(linear_tile<W, T> *tile, int g, int n_group)
{
    for (; g + (U - 1) * GPU_WARP < n_group; g += U * GPU_WARP) {
        uint4 w[U][W], x[U][T];
        GPU_UNROLL
        for (int u = 0; u < U; u++) {
            int at = (g + u * GPU_WARP) * GPU_GROUP;
            GPU_UNROLL
            for (int i = 0; i < W; i++) w[u][i] = gpu_load(tile->w[i] + at);
            GPU_UNROLL
            for (int i = 0; i < T; i++) x[u][i] = gpu_load(tile->x[i] + at);
        }
        GPU_UNROLL
        for (int u = 0; u < U; u++) {
            gpu_eight wide[W];
            GPU_UNROLL
            for (int i = 0; i < W; i++) wide[i] = gpu_unpack(w[u][i]);
            GPU_UNROLL
            for (int t = 0; t < T; t++) {
                gpu_eight v = gpu_unpack(x[u][t]);
                GPU_UNROLL
                for (int i = 0; i < W; i++)
                    tile->sum[t * W + i] = gpu_dot(tile->sum[t * W + i], wide[i], v);
            }
        }
    }
    return g;
}

template <int W, int T, int U>
static __global__ void __launch_bounds__(LINEAR_WARPS *GPU_WARP) linear_kernel(linear_args a)
{
    int lane = gpu_lane();
    int block = static_cast<int>(blockIdx.x), first_t = block % a.n_tile * T;
    block /= a.n_tile;
    gpu_product p = a.p[0];
    int begin = 0;
    if (block >= a.first_block[1]) p = a.p[1], begin = a.first_block[1];
    if (block >= a.first_block[2]) p = a.p[2], begin = a.first_block[2];
    int first_o = ((block - begin) * LINEAR_WARPS + gpu_warp()) * W;
    if (first_o >= p.n_out) return;

    linear_tile<W, T> tile;
    begin_tile(&tile, a, p, first_o, first_t);
    int n_group = gpu_pad(p.w.n_col) / GPU_GROUP;
    int g = add_groups<U>(&tile, lane, n_group);
    if (U > 2) g = add_groups<2>(&tile, g, n_group);
    if (U > 1) add_groups<1>(&tile, g, n_group);

    float total = gpu_fold_all<T * W>(tile.sum, lane);
    int which = gpu_folded<T * W>(lane), t = first_t + which / W, o = first_o + which % W;
    if (!gpu_folded_first<T * W>(lane) || t >= a.n_row || o >= p.n_out) return;
    if (p.w.bias) total += gpu_f32(p.w.bias[p.index ? p.index[o] : o]);
    p.y[static_cast<int64_t>(t) * p.stride_y + o] = gpu_f16(total); /* round: f16 */
}

template <int W, int T, int U>
static void launch(cudaStream_t stream, linear_args *a, int n_product)
{
    unsigned n_block = 0;
    for (int i = 0; i < 3; i++) {
        a->first_block[i] = i < n_product ? static_cast<int>(n_block) : INT_MAX;
        if (i < n_product) n_block += gpu_blocks(a->p[i].n_out, LINEAR_WARPS * W);
    }
    a->n_tile = (a->n_row + T - 1) / T;
    GPU_LAUNCH((linear_kernel<W, T, U>),
               n_block * static_cast<unsigned>(a->n_tile),
               LINEAR_WARPS * GPU_WARP,
               0,
               stream,
               *a);
}

void gpu_linear(cudaStream_t stream,
                const gpu_product *p,
                int n_product,
                const gpu_half *x,
                int stride_x,
                int n_row)
{
    linear_args a = {};
    for (int i = 0; i < n_product; i++) a.p[i] = p[i];
    a.x = x;
    a.stride_x = stride_x;
    a.n_row = n_row;
    if (n_row == 1)
        launch<2, 1, 4>(stream, &a, n_product);
    else if (n_row == 2)
        launch<2, 2, 4>(stream, &a, n_product);
    else if (n_row <= 4)
        launch<4, 4, 2>(stream, &a, n_product);
    else
        launch<4, 8, 1>(stream, &a, n_product);
}

} /* namespace GPU_NAMESPACE */
