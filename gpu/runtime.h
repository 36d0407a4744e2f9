/* SPDX-License-Identifier: MIT */
/* The one header through which .cu files see the CUDA language and runtime. nvcc gives the real
 * thing; a C++ compiler gives the CPU execution layer of gpu/cudacpu/, where the same source
 * runs with one fiber per thread. Whatever a .cu file defines stands in namespace
 * GPU_NAMESPACE, so that both builds can be linked into one program. What C++ cannot parse has
 * a macro: GPU_LAUNCH(kernel, grid, block, shared_bytes, stream, args...)
 * kernel<<<...>>>(args...) GPU_SHARED(T, name, N)      __shared__ T name[N] GPU_DYN_SHARED(T,
 * name)     T *name, the dynamic shared memory of the launch GPU_UNROLL                  before
 * a loop Template kernels are parenthesised: GPU_LAUNCH((scale<8>), ...). */
#ifndef KVREF_GPU_RUNTIME_H
#define KVREF_GPU_RUNTIME_H

#if defined(__FAST_MATH__)
#error "kvref needs exact float arithmetic: build without -ffast-math"
#endif

#include "kvref/half.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define GPU_NAMESPACE kvref_cuda
#define GPU_UNROLL    _Pragma("unroll")
#define GPU_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                             \
    (kernel)<<<(grid), (block), (shared_bytes), (stream)>>>(__VA_ARGS__)
#define GPU_SHARED(T, name, N) __shared__ T name[N]
#define GPU_DYN_SHARED(T, name)                                                                \
    extern __shared__ __align__(16) unsigned char gpu_dynamic_bytes[];                         \
    T *name = reinterpret_cast<T *>(gpu_dynamic_bytes)

#else

#include "gpu/cudacpu/cudacpu.h"

#define GPU_NAMESPACE kvref_cudacpu
#define GPU_UNROLL
#define GPU_LAUNCH(kernel, ...)                                                                \
    cudacpu::launch(cudacpu::launch_site{#kernel, __FILE__, __LINE__}, kernel, __VA_ARGS__)
#define GPU_SHARED(T, name, N)                                                                 \
    static cudacpu::shared_slot name##_slot;                                                   \
    T(&name)                                                                                   \
    [N] = *static_cast<T(*)[N]>(cudacpu::shared_static(                                        \
        &name##_slot, sizeof(T) * (N), alignof(T), #name, __FILE__, __LINE__))
#define GPU_DYN_SHARED(T, name) T *name = static_cast<T *>(cudacpu::shared_dynamic())

namespace GPU_NAMESPACE
{
using namespace cudacpu;
}

#endif

namespace GPU_NAMESPACE
{

/* A float16 value is stored as its bit pattern; arithmetic is done in float32. */
typedef uint16_t gpu_half;

__device__ __host__ inline float gpu_f32(gpu_half h)
{
#ifdef __CUDA_ARCH__
    return __half2float(__ushort_as_half(h));
#else
    return kvref_f16_f32(h);
#endif
}

/* To nearest, ties to even. */
__device__ __host__ inline gpu_half gpu_f16(float x)
{
#ifdef __CUDA_ARCH__
    return __half_as_ushort(__float2half_rn(x));
#else
    return kvref_f32_f16(x);
#endif
}

} /* namespace GPU_NAMESPACE */

#endif
