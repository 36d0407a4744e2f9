/* SPDX-License-Identifier: MIT */
/* Rotation of heads by their position, and the append to the caches (spec 02 sections 4 to 6).
 *
 *     (a, b) = (R(a cos - b sin), R(b cos + a sin))     neighbours a, b of a head
 *
 * A thread turns one pair, or copies one group of a cache row: a cached row begins at a
 * multiple of 16 bytes, the head it comes from need not. The position is read on the device. */
#include "gpu/dot.h"

namespace GPU_NAMESPACE
{

enum {
    ROPE_THREADS = 128 /* of a block */
};

struct rope_args {
    gpu_half *x;                /* [T, stride]  */
    const float *cosine, *sine; /* [C, n_pair] */
    const int32_t *first;
    int stride, n_row_pair, n_pair; /* pairs of a row, of a head */
};

static __global__ void rope_kernel(rope_args a)
{
    int i = gpu_thread(), t = static_cast<int>(blockIdx.y);
    if (i >= a.n_row_pair) return;
    unsigned *place =
        reinterpret_cast<unsigned *>(a.x + static_cast<int64_t>(t) * a.stride) + i;
    unsigned pair = *place;
    float u = gpu_f32(static_cast<gpu_half>(pair & 0xffffu));
    float v = gpu_f32(static_cast<gpu_half>(pair >> 16));
    int64_t at = static_cast<int64_t>(*a.first + t) * a.n_pair + i % a.n_pair;
    float c = a.cosine[at], s = a.sine[at];
    unsigned low = gpu_f16(u * c - v * s);  /* round: f16 */
    unsigned high = gpu_f16(v * c + u * s); /* round: f16 */
    *place = low | high << 16;
}

void gpu_rope(cudaStream_t stream,
              gpu_half *x,
              int stride,
              int n_row,
              int n_head,
              int d_head,
              const float *cosine,
              const float *sine,
              const int32_t *first)
{
    int n_pair = d_head / 2, n_row_pair = n_head * n_pair;
    rope_args a = {x, cosine, sine, first, stride, n_row_pair, n_pair};
    dim3 grid(gpu_blocks(n_row_pair, ROPE_THREADS), static_cast<unsigned>(n_row));
    GPU_LAUNCH(rope_kernel, grid, ROPE_THREADS, 0, stream, a);
}

struct append_args {
    gpu_half *to[2];         /* K and V of the layer, [G, C, pad(E)] */
    const gpu_half *from[2]; /* [T, stride]                          */
    const int32_t *first;
    int n_head, d_head, capacity, stride;
};

/* blockIdx: group within the heads of a row, row, K or V */
static __global__ void append_kernel(append_args a)
{
    int n_group = gpu_pad(a.d_head) / GPU_GROUP; /* of a head */
    int i = gpu_thread(), t = static_cast<int>(blockIdx.y);
    if (i >= a.n_head * n_group) return;
    int head = i / n_group, at = i % n_group * GPU_GROUP;
    bool value = blockIdx.z == 1;
    const gpu_half *from = value ? a.from[1] : a.from[0];
    gpu_half *to = value ? a.to[1] : a.to[0];
    from += static_cast<int64_t>(t) * a.stride + head * a.d_head + at;
    to += (static_cast<int64_t>(head) * a.capacity + (*a.first + t)) * n_group * GPU_GROUP + at;
    gpu_store(to, gpu_load_any(from, a.d_head - at));
}

void gpu_kv_append(cudaStream_t stream,
                   const gpu_kv *kv,
                   int layer,
                   const gpu_half *k,
                   const gpu_half *v,
                   int n_row,
                   const int32_t *first)
{
    int n_place = gpu_pad(kv->d_head);
    int64_t skip = static_cast<int64_t>(layer) * kv->n_head * kv->capacity * n_place;
    append_args a = {{kv->k + skip, kv->v + skip},
                     {k, v},
                     first,
                     kv->n_head,
                     kv->d_head,
                     kv->capacity,
                     gpu_pad(kv->n_head * kv->d_head)};
    int n_group = kv->n_head * (n_place / GPU_GROUP);
    dim3 grid(gpu_blocks(n_group, ROPE_THREADS), static_cast<unsigned>(n_row), 2);
    GPU_LAUNCH(append_kernel, grid, ROPE_THREADS, 0, stream, a);
}

} /* namespace GPU_NAMESPACE */
