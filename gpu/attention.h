/* SPDX-License-Identifier: MIT */
/* What the two forms of attention share: the kernels of attention.cu take either. */
#ifndef KVREF_GPU_ATTENTION_H
#define KVREF_GPU_ATTENTION_H

#include "gpu/gpu.h"

namespace GPU_NAMESPACE
{

enum {
    GPU_MAX_D_HEAD = 256,  /* E: eight values for each lane of a warp                      */
    GPU_MAX_SHARED = 16,   /* query heads of a block; more take several blocks             */
    GPU_ATTN_THREADS = 256 /* of a block at most                                           */
};

/* At most GPU_ATTN_ROWS query rows, of which row t is at position *first + row + t. */
struct gpu_attention_pass {
    gpu_half *out;        /* [T, stride]                                           */
    const gpu_half *q;    /* [T, stride]                                           */
    const gpu_half *k;    /* [G, C, pad(E)]                                        */
    const gpu_half *v;    /* [G, C, pad(E)]                                        */
    const int32_t *first; /*                                                       */
    float *score;         /* [T, H, 64 * chunks(C)]                                */
    float *peak;          /* [T, H, chunks(C)]                                     */
    float *total;         /* [T, H, chunks(C)]                                     */
    float *part;          /* [T, H, chunks(C), E]                                  */
    float scale;          /* c                                                     */
    int row, n_row;       /*                                                       */
    int stride;           /* pad(H*E)                                              */
    int n_head, n_kv_head, d_head, capacity;
    bool full; /* all C rows under a mask, by a grid to match; else kv_len rows */
};

/* A pass over the layer's own rows, row and n_row left open; all rounds of a call. */
gpu_attention_pass gpu_attention_prepare(const gpu_attention *a);
void gpu_attention_rounds(cudaStream_t stream, const gpu_attention_pass *all, int n_row);

/* The three launches of a round. */
void gpu_attention_score(cudaStream_t stream, const gpu_attention_pass *a);
void gpu_attention_mix(cudaStream_t stream, const gpu_attention_pass *a);
void gpu_attention_merge(cudaStream_t stream, const gpu_attention_pass *a);

/* ---- inside score, mix and merge ---- */

/* Grid of score and mix: (chunks, key/value heads or parts of their query heads, T). Its width
 * is the same for every kv_len, and from 16 chunks on for every capacity. */
dim3 gpu_attention_grid(const gpu_attention_pass *a);

inline __host__ __device__ size_t gpu_size(int n)
{
    return static_cast<size_t>(n);
}

inline int gpu_at_most(int n, int limit)
{
    return n < limit ? n : limit;
}

/* Threads of whole warps for n. */
inline int gpu_warps_of(int n)
{
    return (n + GPU_WARP - 1) / GPU_WARP * GPU_WARP;
}

/* Rows that count for the block's query row, read from device memory once for all threads. */
static inline __device__ int gpu_block_live(const gpu_attention_pass &a)
{
    GPU_SHARED(int, live, 1);
    if (threadIdx.x == 0 && threadIdx.y == 0)
        live[0] = *a.first + a.row + static_cast<int>(blockIdx.z) + 1;
    __syncthreads();
    return live[0];
}

/* Query heads of a block, and the rows of the cache for them. */
struct gpu_share {
    int head, n_head; /* first, number                 */
    int group;        /* key/value head                */
    int n, n_live;    /* rows to take, rows that count */
};

static inline __device__ gpu_share gpu_block_share(const gpu_attention_pass &a)
{
    const int limit = GPU_MAX_SHARED;
    int y = static_cast<int>(blockIdx.y), group_size = a.n_head / a.n_kv_head;
    int n_slice = (group_size + limit - 1) / limit, slice = y % n_slice * limit;
    gpu_share s;
    s.group = y / n_slice;
    s.head = s.group * group_size + slice;
    s.n_head = min(limit, group_size - slice);
    s.n_live = gpu_block_live(a);
    s.n = a.full ? a.capacity : s.n_live;
    return s;
}

/* Row (t, head) of score, peak, total or part without its last axes. */
static inline __device__ size_t gpu_head_row(const gpu_attention_pass &a, int head)
{
    return blockIdx.z * gpu_size(a.n_head) + gpu_size(head);
}

static inline __device__ float gpu_larger(float a, float b)
{
    return b > a ? b : a;
}

static inline __device__ float gpu_warp_largest(float x)
{
    GPU_UNROLL
    for (int n = GPU_WARP / 2; n > 0; n /= 2)
        x = gpu_larger(x, __shfl_xor_sync(0xffffffffu, x, n));
    return x;
}

} /* namespace GPU_NAMESPACE */
#endif
