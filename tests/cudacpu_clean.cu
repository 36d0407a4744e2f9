/* SPDX-License-Identifier: MIT */
/* Correct kernels that resemble the planted faults: no build may report them, in any order. */
#include "tests/cudacpu_faults.h"
#include "tests/cudacpu_rig.h"

#define ALL 0xffffffffu

namespace GPU_NAMESPACE
{

__global__ void neighbours(int *out)
{
    GPU_SHARED(int, s, 256);
    int t = static_cast<int>(threadIdx.x);
    s[t] = t;
    __syncthreads();
    int v = t ? s[t - 1] : 0;
    __syncthreads();
    s[t] = v;
    out[t] = s[t];
}

static int run_neighbours(void)
{
    begin();
    GPU_LAUNCH(neighbours, 1, 256, 0, nullptr, dev);
    return end(256, [](int i) { return i ? i - 1 : 0; });
}

/* One warp: lanes exchange through memory, then one lane overwrites what all have read. */
__global__ void syncwarps(int *out)
{
    GPU_SHARED(int, s, 64);
    int t = static_cast<int>(threadIdx.x), first = t / 32 * 32;
    s[t] = t;
    __syncwarp();
    int v = s[t ^ 1] + s[first];
    __syncwarp();
    if (t % 32 == 9) s[first] = -5;
    __syncwarp();
    out[t] = v + s[first];
}

static int run_syncwarps(void)
{
    begin();
    GPU_LAUNCH(syncwarps, 1, 64, 0, nullptr, dev);
    return end(64, [](int i) { return (i ^ 1) + i / 32 * 32 - 5; });
}

/* Halves of a warp meet apart, then all of it. */
__global__ void half_warps(int *out)
{
    GPU_SHARED(int, s, 32);
    int t = static_cast<int>(threadIdx.x);
    unsigned mask = t < 16 ? 0xffffu : 0xffff0000u;
    s[t] = t;
    if (t < 16)
        __syncwarp(mask);
    else
        __syncwarp(mask);
    int v = s[t ^ 8];
    __syncwarp();
    out[t] = v + s[31 - t];
}

static int run_half_warps(void)
{
    begin();
    GPU_LAUNCH(half_warps, 1, 32, 0, nullptr, dev);
    return end(32, [](int i) { return (i ^ 8) + 31 - i; });
}

__global__ void counters(int *out)
{
    GPU_SHARED(int, s, 1);
    if (threadIdx.x == 0) s[0] = 0;
    __syncthreads();
    atomicAdd(&s[0], 1);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(&out[0], s[0]);
    atomicMax(&out[1], static_cast<int>(blockIdx.x));
}

static int run_counters(void)
{
    begin();
    cudaMemset(dev, 0, 8);
    GPU_LAUNCH(counters, 5, 40, 0, nullptr, dev);
    return end(2, [](int i) { return i ? 4 : 200; });
}

/* Neighbouring float16 of one word belong to different threads, of different blocks even. */
__global__ void half_words(gpu_half *out)
{
    unsigned i = (threadIdx.x * gridDim.x + blockIdx.x);
    out[i] = gpu_f16(static_cast<float>(i));
}

static int run_half_words(void)
{
    begin();
    GPU_LAUNCH(half_words, 2, 64, 0, nullptr, reinterpret_cast<gpu_half *>(dev));
    return end(64, [](int i) {
        unsigned low = gpu_f16(static_cast<float>(2 * i));
        unsigned high = gpu_f16(static_cast<float>(2 * i + 1));
        return static_cast<int>(low | high << 16);
    });
}

/* Vector loads and stores, an array on the stack, a word read by every thread of every block.
 */
__global__ void vectors(int4 *out, const int4 *in, const int *scale)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    int4 v = in[i];
    int part[4] = {v.x, v.y, v.z, v.w};
    for (int k = 0; k < 4; k++) part[(k + scale[0]) % 4] += scale[0];
    out[i] = make_int4(part[0], part[1], part[2], part[3]);
}

static int run_vectors(void)
{
    int *copy = nullptr;
    begin();
    cudaMalloc(&copy, 4096);
    cudaMemcpy(copy, dev_in, 4096, cudaMemcpyDeviceToDevice);
    GPU_LAUNCH(vectors,
               4,
               64,
               0,
               nullptr,
               reinterpret_cast<int4 *>(dev),
               reinterpret_cast<const int4 *>(dev_in),
               copy + 1);
    cudaFree(copy);
    return end(1024, [](int i) { return i + 1; });
}

/* One launch after another needs nothing in between. */
static int run_two_launches(void)
{
    begin();
    GPU_LAUNCH(neighbours, 1, 256, 0, nullptr, dev);
    GPU_LAUNCH(neighbours, 1, 256, 0, nullptr, dev);
    return end(256, [](int i) { return i ? i - 1 : 0; });
}

__global__ void row_sums(int *out, const int *in)
{
    GPU_DYN_SHARED(int, s);
    int t = static_cast<int>(threadIdx.x), sum = in[threadIdx.x];
    for (int flip = 16; flip; flip /= 2) sum += __shfl_xor_sync(ALL, sum, flip);
    if (t % 32 == 0) s[t / 32] = sum;
    __syncthreads();
    if (t < 32) {
        sum = t < 8 ? s[t] : 0;
        for (int flip = 4; flip; flip /= 2) sum += __shfl_xor_sync(ALL, sum, flip);
        if (t == 0) out[0] = sum;
    }
}

static int run_row_sums(void)
{
    begin();
    GPU_LAUNCH(row_sums, 1, 256, 32, nullptr, dev, dev_in);
    return end(1, [](int) { return 255 * 128; });
}

} /* namespace GPU_NAMESPACE */

using namespace GPU_NAMESPACE;

#define NONE CUDACPU_NO_REPORT
extern "C" const fault cudacpu_clean[] = {
    {"neighbours behind barriers", run_neighbours, NONE, NONE, 0},
    {"lanes behind __syncwarp", run_syncwarps, NONE, NONE, 0},
    {"halves of a warp", run_half_warps, NONE, NONE, 0},
    {"atomic counters", run_counters, NONE, NONE, 0},
    {"float16 neighbours", run_half_words, NONE, NONE, 0},
    {"vectors and a local array", run_vectors, NONE, NONE, 0},
    {"two launches", run_two_launches, NONE, NONE, 0},
    {"sums by shuffles", run_row_sums, NONE, NONE, 0},
    {nullptr, nullptr, NONE, NONE, 0},
};
