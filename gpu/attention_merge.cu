/* SPDX-License-Identifier: MIT */
/* Third part of attention.cu:
 *
 *     out[t, h, :] = R(sum over chunks of part[chunk, :] / sum over chunks of total[chunk])
 *
 * chunks ascending. */
#include "gpu/attention.h"

namespace GPU_NAMESPACE
{

enum {
    N_TILE = 128, /* chunks whose parts are merged at a time */
    N_LOADER = 8, /* threads that load parts of one column   */
    N_ADD = 8     /* chunks added without a test between     */
};

/* Parts of chunks base.. of 32 columns, and their totals; zeros after the last. */
static __device__ void load_tile(float *part /* [N_TILE, 32] */,
                                 float *total /* [N_TILE] */,
                                 const gpu_attention_pass &a,
                                 size_t first,
                                 int n)
{
    int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
    int e = static_cast<int>(blockIdx.x) * GPU_WARP + x;
    const float *from = a.part + first * gpu_size(a.d_head) + e;
    float value[N_TILE / N_LOADER];
    GPU_UNROLL
    for (int i = 0; i < N_TILE / N_LOADER; i++) {
        int c = y + i * N_LOADER;
        value[i] = c < n && e < a.d_head ? from[c * a.d_head] : 0.0f;
    }
    GPU_UNROLL
    for (int i = 0; i < N_TILE / N_LOADER; i++)
        part[(y + i * N_LOADER) * GPU_WARP + x] = value[i];
    int c = y * GPU_WARP + x;
    if (c < N_TILE) total[c] = c < n ? a.total[first + gpu_size(c)] : 0.0f;
}

/* Threads (column, loader). The loaders bring many parts near at once; the additions, which
 * wait for one another, then take a few cycles each. */
static __global__ void __launch_bounds__(GPU_ATTN_THREADS) merge_kernel(gpu_attention_pass a)
{
    GPU_SHARED(float, part, N_TILE *GPU_WARP);
    GPU_SHARED(float, total, N_TILE);
    int live = gpu_block_live(a), n_chunk = gpu_chunks(a.full ? a.capacity : live);
    int head = static_cast<int>(blockIdx.y);
    int x = static_cast<int>(threadIdx.x), e = static_cast<int>(blockIdx.x) * GPU_WARP + x;
    size_t first = gpu_head_row(a, head) * gpu_size(gpu_chunks(a.capacity));
    float sum = 0, weight = 0;
    for (int base = 0; base < n_chunk; base += N_TILE) {
        int n = min(static_cast<int>(N_TILE), n_chunk - base);
        load_tile(part, total, a, first + gpu_size(base), n);
        __syncthreads();
        for (int c = 0; threadIdx.y == 0 && c < n; c += N_ADD) {
            GPU_UNROLL
            for (int i = 0; i < N_ADD; i++) {
                weight += total[c + i];
                sum += part[(c + i) * GPU_WARP + x];
            }
        }
        __syncthreads();
    }
    if (threadIdx.y != 0 || e >= a.d_head) return;
    gpu_half *out = a.out + blockIdx.z * gpu_size(a.stride);
    out[head * a.d_head + e] = gpu_f16(sum / weight); /* round: f16 */
}

void gpu_attention_merge(cudaStream_t stream, const gpu_attention_pass *a)
{
    dim3 grid(static_cast<unsigned>(gpu_warps_of(a->d_head) / GPU_WARP),
              static_cast<unsigned>(a->n_head),
              static_cast<unsigned>(a->n_row));
    GPU_LAUNCH(merge_kernel, grid, dim3(GPU_WARP, N_LOADER), 0, stream, *a);
}

} /* namespace GPU_NAMESPACE */
