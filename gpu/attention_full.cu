/* SPDX-License-Identifier: MIT */
/* Attention over the whole capacity, the baseline that attention.cu replaces. K and V of a
 * layer are copied to all H query heads, C rows each, and scores, softmax and weighted sum run
 * over C rows under a mask:
 *
 *     s[t, h, r] = q . wide_k[h, r] * c + (r < kv_len ? 0 : -inf)
 *     out[t, h, :] = R(sum over r < C of w_r wide_v[h, r, :] / sum over r < C of w_r)
 *
 * Traffic and grids follow the capacity. A masked row has weight 0 and adds 0 v, which is
 * nothing unless v is infinite or NaN: what lies beyond kv_len must be numbers. */
#include "gpu/attention.h"
#include "gpu/dot.h"

namespace GPU_NAMESPACE
{

enum { N_COPIER = 256 /* threads of a block */ };

/* K (z = 0) or V (z = 1) of head h, n_group groups of eight. */
static __global__ void __launch_bounds__(N_COPIER)
    expand_kernel(gpu_attention_pass a, gpu_half *wide_k, gpu_half *wide_v, size_t n_group)
{
    size_t i = blockIdx.x * gpu_size(N_COPIER) + threadIdx.x;
    if (i >= n_group) return;
    size_t h = blockIdx.y, g = h / gpu_size(a.n_head / a.n_kv_head);
    gpu_half *to = blockIdx.z == 0 ? wide_k : wide_v;
    const gpu_half *from = blockIdx.z == 0 ? a.k : a.v;
    gpu_store(to + (h * n_group + i) * GPU_GROUP,
              gpu_load(from + (g * n_group + i) * GPU_GROUP));
}

void gpu_attention_full(cudaStream_t stream, const gpu_attention *a)
{
    gpu_attention_pass p = gpu_attention_prepare(a);
    size_t n_group = gpu_size(p.capacity) * gpu_size(gpu_pad(p.d_head) / GPU_GROUP);
    dim3 grid(static_cast<unsigned>((n_group + N_COPIER - 1) / N_COPIER),
              static_cast<unsigned>(p.n_head),
              2);
    GPU_LAUNCH(
        expand_kernel, grid, dim3(N_COPIER), 0, stream, p, a->wide_k, a->wide_v, n_group);
    p.k = a->wide_k;
    p.v = a->wide_v;
    p.n_kv_head = p.n_head;
    p.full = true;
    gpu_attention_rounds(stream, &p, a->n_row);
}

} /* namespace GPU_NAMESPACE */
