/* SPDX-License-Identifier: MIT */
/* First part of attention.cu:
 *
 *     s[t, h, r] = q[t, h, :] . k[r, g, :] * c, and the largest of each chunk of 64 positions
 *
 * A row of k is loaded by 8, 16 or 32 lanes, eight values each, several rows at once, and
 * multiplied by all query heads of the block, which wait in shared memory as float32. Dot
 * products have the one order of gpu.h; the largest is exact in any order. */
#include "gpu/attention.h"
#include "gpu/dot.h"

namespace GPU_NAMESPACE
{

enum { N_LOAD = 4 /* rows of k that a lane loads together */ };

/* q [n_head, pad(E)] of the block's heads, pad places 0. */
static __device__ void load_q(float *q, const gpu_attention_pass &a, const gpu_share &s)
{
    int width = gpu_pad(a.d_head);
    const gpu_half *from = a.q + blockIdx.z * gpu_size(a.stride);
    for (int i = static_cast<int>(threadIdx.x); i < s.n_head * width;
         i += static_cast<int>(blockDim.x)) {
        int h = s.head + i / width, e = i % width;
        q[i] = e < a.d_head ? gpu_f32(from[h * a.d_head + e]) : 0.0f;
    }
}

/* score [n_head, 64] of rows first.. of k, by LANES lanes a row. */
template <int LANES>
static __device__ void dot_chunk(
    float *score, const float *q, const gpu_attention_pass &a, const gpu_share &s, int first)
{
    int width = gpu_pad(a.d_head), n_slot = static_cast<int>(blockDim.x) / LANES;
    int lane = static_cast<int>(threadIdx.x) % LANES, e = lane * GPU_GROUP;
    int slot = static_cast<int>(threadIdx.x) / LANES;
    const gpu_half *k = a.k + gpu_size(s.group) * gpu_size(a.capacity) * gpu_size(width) + e;
    for (int base = 0; base < GPU_CHUNK; base += n_slot * N_LOAD) {
        uint4 packed[N_LOAD];
        GPU_UNROLL
        for (int i = 0; i < N_LOAD; i++) {
            int r = first + base + slot + i * n_slot;
            packed[i] = make_uint4(0, 0, 0, 0);
            if (r < s.n && e < width) packed[i] = gpu_load(k + gpu_size(r) * gpu_size(width));
        }
        gpu_eight key[N_LOAD];
        GPU_UNROLL
        for (int i = 0; i < N_LOAD; i++) key[i] = gpu_unpack(packed[i]);
        for (int h = 0; h < s.n_head; h++) {
            gpu_eight query = {};
            if (e < width) {
                const float4 *from = reinterpret_cast<const float4 *>(q + h * width + e);
                float4 lo = from[0], hi = from[1];
                query = {lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w};
            }
            GPU_UNROLL
            for (int i = 0; i < N_LOAD; i++) {
                float sum = gpu_fold(gpu_dot(0.0f, key[i], query), LANES);
                int r = base + slot + i * n_slot;
                if (lane == 0) score[h * GPU_CHUNK + r] = sum * a.scale;
            }
        }
    }
}

/* The chunk's scores and its largest, to where mix finds them; a warp for each head. */
static __device__ void
store_chunk(const gpu_attention_pass &a, const gpu_share &s, const float *score, int chunk)
{
    int n_chunk = gpu_chunks(a.capacity), n_warp = static_cast<int>(blockDim.x) / GPU_WARP;
    int lane = static_cast<int>(threadIdx.x) % GPU_WARP;
    for (int h = static_cast<int>(threadIdx.x) / GPU_WARP; h < s.n_head; h += n_warp) {
        size_t at = gpu_head_row(a, s.head + h) * gpu_size(n_chunk) + gpu_size(chunk);
        float most = -INFINITY;
        GPU_UNROLL
        for (int i = lane; i < GPU_CHUNK; i += GPU_WARP) {
            int r = chunk * GPU_CHUNK + i;
            if (r >= s.n) continue;
            float x = score[h * GPU_CHUNK + i];
            if (a.full) x += r < s.n_live ? 0.0f : -INFINITY;
            a.score[at * GPU_CHUNK + gpu_size(i)] = x;
            most = gpu_larger(most, x);
        }
        most = gpu_warp_largest(most);
        if (lane == 0) a.peak[at] = most;
    }
}

template <int LANES>
static __global__ void __launch_bounds__(GPU_ATTN_THREADS) score_kernel(gpu_attention_pass a)
{
    GPU_DYN_SHARED(float, q); /* [n_head, pad(E)] */
    GPU_SHARED(float, score, GPU_MAX_SHARED *GPU_CHUNK);
    gpu_share s = gpu_block_share(a);
    int n_chunk = gpu_chunks(s.n), step = static_cast<int>(gridDim.x);
    if (static_cast<int>(blockIdx.x) >= n_chunk) return;
    load_q(q, a, s);
    __syncthreads();
    for (int chunk = static_cast<int>(blockIdx.x); chunk < n_chunk; chunk += step) {
        dot_chunk<LANES>(score, q, a, s, chunk * GPU_CHUNK);
        __syncthreads();
        store_chunk(a, s, score, chunk);
        __syncthreads();
    }
}

void gpu_attention_score(cudaStream_t stream, const gpu_attention_pass *a)
{
    int lanes = gpu_lanes(a->d_head),
        n_head = gpu_at_most(a->n_head / a->n_kv_head, GPU_MAX_SHARED);
    size_t shared = sizeof(float) * gpu_size(n_head * gpu_pad(a->d_head));
    dim3 grid = gpu_attention_grid(a);
    dim3 block(
        static_cast<unsigned>(gpu_at_most(GPU_CHUNK / N_LOAD * lanes, GPU_ATTN_THREADS)));
    if (lanes == 8)
        GPU_LAUNCH(score_kernel<8>, grid, block, shared, stream, *a);
    else if (lanes == 16)
        GPU_LAUNCH(score_kernel<16>, grid, block, shared, stream, *a);
    else
        GPU_LAUNCH(score_kernel<32>, grid, block, shared, stream, *a);
}

} /* namespace GPU_NAMESPACE */
