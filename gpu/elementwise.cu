/* SPDX-License-Identifier: MIT */
/* Sums with the residual and the gate of the feed-forward part (spec 02 section 5, steps 8, 10
 * and 11). A thread takes a group of eight values. */
#include "gpu/dot.h"

namespace GPU_NAMESPACE
{

enum {
    ELEMENT_THREADS = 128 /* of a block */
};

/* x + y */
struct add_values {
    static __device__ float of(float x, float y)
    {
        return x + y;
    }
};

/* R(silu(gate)) up */
struct gate_values {
    static __device__ float of(float gate, float up)
    {
        return gpu_f32(gpu_f16(kvref_siluf(gate))) * up; /* round: f16 */
    }
};

/* x[i] = R(F(x[i], y[i])) */
template <class F>
static __global__ void
element_kernel(gpu_half *x /* [n] */, const gpu_half *y /* [n] */, size_t n)
{
    size_t at = (static_cast<size_t>(blockIdx.x) * ELEMENT_THREADS + threadIdx.x) * GPU_GROUP;
    if (at + GPU_GROUP > n) {
        for (; at < n; at++)
            x[at] = gpu_f16(F::of(gpu_f32(x[at]), gpu_f32(y[at]))); /* round: f16 */
        return;
    }
    gpu_eight a = gpu_unpack(gpu_load(x + at)), b = gpu_unpack(gpu_load(y + at));
    GPU_UNROLL
    for (int i = 0; i < GPU_GROUP; i++) a.v[i] = F::of(a.v[i], b.v[i]);
    gpu_store(x + at, gpu_pack(a)); /* round: f16 */
}

template <class F>
static void launch(cudaStream_t stream, gpu_half *x, const gpu_half *y, size_t n)
{
    const size_t n_value = ELEMENT_THREADS * GPU_GROUP; /* of a block */
    unsigned n_block = static_cast<unsigned>((n + n_value - 1) / n_value);
    GPU_LAUNCH((element_kernel<F>), n_block, ELEMENT_THREADS, 0, stream, x, y, n);
}

void gpu_add(cudaStream_t stream, gpu_half *x, const gpu_half *y, size_t n)
{
    launch<add_values>(stream, x, y, n);
}

void gpu_swiglu(cudaStream_t stream, gpu_half *gate, const gpu_half *up, size_t n)
{
    launch<gate_values>(stream, gate, up, n);
}

} /* namespace GPU_NAMESPACE */
