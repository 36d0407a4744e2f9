/* SPDX-License-Identifier: MIT */
/* Attention of the fast transformer, whose formula rounds at every step (spec 03 section 3):
 *
 *     s_r = R(R(q . k_r) * c),   c = 1 / sqrt(E)
 *     p_r = R(e^(s_r - m) / sum of e^(s_r - m)),   m the largest s_r
 *     out[t, h, :] = R(sum over r of p_r v_r)
 *
 * sums over rows ascending, dot products in the order of gpu.h. A block has one query head of
 * one row t; there are N rows of the cache at most, the books of a frame, so each thread sums
 * the weights for itself. prefix looks at rows 0..P+t; full at all, with s_r = R(s_r - inf) for
 * those after P+t. */
#include "gpu/attention.h"
#include "gpu/dot.h"

#include <assert.h>

namespace GPU_NAMESPACE
{

enum { N_THREAD = 128 /* of a block */ };

static __device__ float r16(float x)
{
    return gpu_f32(gpu_f16(x));
}

/* s [n] of a query head q [E] and rows k [n, pad(E)]; a warp for each row. */
static __device__ void
score_rows(float *s, const gpu_half *q, const gpu_half *k, const gpu_attention_pass &a, int n)
{
    int lane = static_cast<int>(threadIdx.x) % GPU_WARP, e = lane * GPU_GROUP;
    int width = gpu_pad(a.d_head);
    gpu_eight query = gpu_unpack(gpu_load_any(q + e, a.d_head - e));
    for (int r = static_cast<int>(threadIdx.x) / GPU_WARP; r < n; r += N_THREAD / GPU_WARP) {
        uint4 key = make_uint4(0, 0, 0, 0);
        if (e < width) key = gpu_load(k + r * width + e);
        float dot =
            r16(gpu_fold(gpu_dot(0.0f, gpu_unpack(key), query), GPU_WARP)); /* round: f16 */
        if (lane == 0) s[r] = r16(dot * a.scale);                           /* round: f16 */
    }
}

/* p [n] from s [n], n <= N_THREAD; rows from n_live on are masked. */
static __device__ void softmax_rows(float *p, const float *s, float *e, int n, int n_live)
{
    int i = static_cast<int>(threadIdx.x);
    float most = -INFINITY, sum = 0;
    for (int r = 0; r < n; r++) most = gpu_larger(most, r < n_live ? s[r] : s[r] + -INFINITY);
    if (i < n) e[i] = kvref_expf((i < n_live ? s[i] : s[i] + -INFINITY) - most);
    __syncthreads();
    for (int r = 0; r < n; r++) sum += e[r];
    if (i < n) p[i] = r16(e[i] / sum); /* round: f16 */
    __syncthreads();
}

static __global__ void __launch_bounds__(N_THREAD) books_kernel(gpu_attention_pass a)
{
    GPU_SHARED(float, s, GPU_MAX_BOOKS);
    GPU_SHARED(float, weight, GPU_MAX_BOOKS);
    GPU_SHARED(float, p, GPU_MAX_BOOKS);
    int head = static_cast<int>(blockIdx.y), group = head / (a.n_head / a.n_kv_head);
    int width = gpu_pad(a.d_head), n_live = gpu_block_live(a);
    int n = a.full ? a.capacity : n_live;
    size_t at = blockIdx.z * gpu_size(a.stride) + gpu_size(head * a.d_head);
    size_t rows = gpu_size(group) * gpu_size(a.capacity) * gpu_size(width);
    score_rows(s, a.q + at, a.k + rows, a, n);
    __syncthreads();
    softmax_rows(p, s, weight, n, n_live);
    const gpu_half *v = a.v + rows;
    gpu_half *out = a.out + at;
    for (int e = static_cast<int>(threadIdx.x); e < a.d_head; e += N_THREAD) {
        float sum = 0;
        for (int r = 0; r < n; r++) sum = gpu_add_product(sum, p[r], gpu_f32(v[r * width + e]));
        out[e] = gpu_f16(sum); /* round: f16 */
    }
}

void gpu_attention_books(cudaStream_t stream, const gpu_attention *a, bool full)
{
    gpu_attention_pass p = gpu_attention_prepare(a);
    assert(p.capacity <= GPU_MAX_BOOKS);
    p.full = full;
    p.n_row = a->n_row;
    dim3 grid(1, static_cast<unsigned>(p.n_head), static_cast<unsigned>(p.n_row));
    GPU_LAUNCH(books_kernel, grid, dim3(N_THREAD), 0, stream, p);
}

} /* namespace GPU_NAMESPACE */
