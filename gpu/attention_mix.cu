/* SPDX-License-Identifier: MIT */
/* Second part of attention.cu:
 *
 *     m = the largest s of all chunks, w[r] = e^(s[r] - m)
 *     total[chunk] = sum over its r of w[r],  part[chunk, :] = sum over its r of w[r] v[r, g,
 * :]
 *
 * rows ascending, each product rounded before it is added. A thread has two columns of v and
 * all query heads of the block; the weights wait in shared memory. */
#include "gpu/attention.h"

namespace GPU_NAMESPACE
{

enum { N_SLOT = 4 /* chunks that a block mixes at a time */ };

/* m of the block's heads; a warp for each head. */
static __device__ void load_peaks(
    float *peak, const gpu_attention_pass &a, const gpu_share &s, int thread, int n_thread)
{
    int lane = thread % GPU_WARP, n_chunk = gpu_chunks(a.capacity);
    for (int h = thread / GPU_WARP; h < s.n_head; h += n_thread / GPU_WARP) {
        const float *from = a.peak + gpu_head_row(a, s.head + h) * gpu_size(n_chunk);
        float most = -INFINITY;
        for (int c = lane; c < gpu_chunks(s.n); c += GPU_WARP) most = gpu_larger(most, from[c]);
        most = gpu_warp_largest(most);
        if (lane == 0) peak[h] = most;
    }
}

/* weight [64, HEADS] of a chunk, 0 for heads and rows that are not there. */
template <int HEADS>
static __device__ void weigh(float *weight,
                             const gpu_attention_pass &a,
                             const gpu_share &s,
                             const float *peak,
                             int chunk)
{
    int n_chunk = gpu_chunks(a.capacity);
    for (int i = static_cast<int>(threadIdx.x); i < GPU_CHUNK * HEADS;
         i += static_cast<int>(blockDim.x)) {
        int r = i % GPU_CHUNK, h = i / GPU_CHUNK;
        float w = 0;
        if (h < s.n_head && chunk * GPU_CHUNK + r < s.n) {
            size_t at = gpu_head_row(a, s.head + h) * gpu_size(n_chunk) + gpu_size(chunk);
            w = kvref_expf(a.score[at * GPU_CHUNK + gpu_size(r)] - peak[h]);
        }
        weight[r * HEADS + h] = w;
    }
}

/* Sums over a chunk of two columns of v, from column e, for all heads; rows ascending. Rows
 * that fill up the last few add 0. */
template <int HEADS>
static __device__ void mix_chunk(
    const gpu_attention_pass &a, const gpu_share &s, const float *weight, int chunk, int e)
{
    int width = gpu_pad(a.d_head), first = chunk * GPU_CHUNK;
    int n = min(static_cast<int>(GPU_CHUNK), s.n - first);
    const gpu_half *v =
        a.v + (gpu_size(s.group) * gpu_size(a.capacity) + gpu_size(first)) * gpu_size(width) +
        e;
    const int ahead = HEADS > 8 ? 4 : 8; /* rows loaded together; registers are few */
    float total[HEADS] = {}, even[HEADS] = {}, odd[HEADS] = {};
    for (int base = 0; base < n; base += ahead) {
        uint32_t pair[ahead];
        GPU_UNROLL
        for (int i = 0; i < ahead; i++) {
            const gpu_half *from = v + (base + i) * width;
            pair[i] = base + i < n ? *reinterpret_cast<const uint32_t *>(from) : 0;
        }
        GPU_UNROLL
        for (int i = 0; i < ahead; i++) {
            float lo = gpu_f32(static_cast<gpu_half>(pair[i] & 0xffffu));
            float hi = gpu_f32(static_cast<gpu_half>(pair[i] >> 16));
            GPU_UNROLL
            for (int h = 0; h < HEADS; h++) {
                float w = weight[(base + i) * HEADS + h];
                total[h] += w;
                even[h] += w * lo;
                odd[h] += w * hi;
            }
        }
    }
    GPU_UNROLL
    for (int h = 0; h < HEADS; h++) {
        if (h >= s.n_head) break;
        size_t at =
            gpu_head_row(a, s.head + h) * gpu_size(gpu_chunks(a.capacity)) + gpu_size(chunk);
        float *part = a.part + at * gpu_size(a.d_head) + e;
        part[0] = even[h];
        part[1] = odd[h];
        if (e == 0) a.total[at] = total[h];
    }
}

/* Threads (pair of columns, slot): each slot has a chunk of its own, far from the others', so
 * that few chunks go to different blocks. */
template <int HEADS>
static __global__ void __launch_bounds__(GPU_ATTN_THREADS, 1) mix_kernel(gpu_attention_pass a)
{
    GPU_SHARED(float, peak, GPU_MAX_SHARED);
    GPU_DYN_SHARED(float, weights); /* [slots, 64, HEADS] */
    gpu_share s = gpu_block_share(a);
    int n_chunk = gpu_chunks(s.n), step = static_cast<int>(gridDim.x);
    if (static_cast<int>(blockIdx.x) >= n_chunk) return;
    int slot = static_cast<int>(threadIdx.y), n_slot = static_cast<int>(blockDim.y);
    int e = 2 * static_cast<int>(threadIdx.x);
    float *weight = weights + slot * GPU_CHUNK * HEADS;
    load_peaks(peak,
               a,
               s,
               slot * static_cast<int>(blockDim.x) + e / 2,
               static_cast<int>(blockDim.x) * n_slot);
    __syncthreads();
    for (int base = static_cast<int>(blockIdx.x); base < n_chunk; base += step * n_slot) {
        int chunk = base + step * slot;
        if (chunk < n_chunk) weigh<HEADS>(weight, a, s, peak, chunk);
        __syncthreads();
        if (chunk < n_chunk && e < a.d_head) mix_chunk<HEADS>(a, s, weight, chunk, e);
        __syncthreads();
    }
}

template <int HEADS> static void mix_heads(cudaStream_t stream, const gpu_attention_pass *a)
{
    int n_pair = gpu_warps_of(a->d_head / 2),
        n_slot = gpu_at_most(GPU_ATTN_THREADS / n_pair, N_SLOT);
    size_t shared = sizeof(float) * gpu_size(n_slot * GPU_CHUNK * HEADS);
    dim3 block(static_cast<unsigned>(n_pair), static_cast<unsigned>(n_slot));
    GPU_LAUNCH(mix_kernel<HEADS>, gpu_attention_grid(a), block, shared, stream, *a);
}

void gpu_attention_mix(cudaStream_t stream, const gpu_attention_pass *a)
{
    int group_size = a->n_head / a->n_kv_head;
    if (group_size == 1)
        mix_heads<1>(stream, a);
    else if (group_size == 2)
        mix_heads<2>(stream, a);
    else if (group_size <= 4)
        mix_heads<4>(stream, a);
    else if (group_size <= 8)
        mix_heads<8>(stream, a);
    else
        mix_heads<16>(stream, a);
}

} /* namespace GPU_NAMESPACE */
