/* SPDX-License-Identifier: MIT */
/* Device side of the one order of summation (gpu.h): groups of eight float16 values as 16-byte
 * loads, the products a lane adds, and the folding of lanes in halves.
 *
 *     for (int g = lane; g < n_group; g += n_lane)
 *         sum = gpu_dot(sum, gpu_load(a + 8 * g), gpu_load(b + 8 * g));
 *     sum = gpu_fold(sum, n_lane);
 *
 * Lanes that have no group of the row keep +0. Every lane of the warp takes part in a fold. */
#ifndef KVREF_GPU_DOT_H
#define KVREF_GPU_DOT_H

#include "gpu/gpu.h"

namespace GPU_NAMESPACE
{

/* Blocks that n threads, warps or tiles make, n_each to a block. */
inline unsigned gpu_blocks(int n, int n_each)
{
    return static_cast<unsigned>((n + n_each - 1) / n_each);
}

/* Place of a thread in its warp, and its warp's in the block. */
inline __device__ int gpu_lane()
{
    return static_cast<int>(threadIdx.x % GPU_WARP);
}

inline __device__ int gpu_warp()
{
    return static_cast<int>(threadIdx.x / GPU_WARP);
}

/* Place of a thread among all of the grid's first dimension. */
inline __device__ int gpu_thread()
{
    return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

/* float32 values of one group. */
struct gpu_eight {
    float v[GPU_GROUP];
};

/* Lanes that a row of n values needs: 8 up to 64 values, 16 up to 128, else the whole warp. */
inline __host__ __device__ int gpu_lanes(int n)
{
    return n <= 8 * GPU_GROUP ? 8 : n <= 16 * GPU_GROUP ? 16 : GPU_WARP;
}

/* The eight values at p, a multiple of 16 bytes, still packed. */
inline __device__ uint4 gpu_load(const gpu_half *p)
{
    return *reinterpret_cast<const uint4 *>(p);
}

inline __device__ void gpu_store(gpu_half *p, uint4 packed)
{
    *reinterpret_cast<uint4 *>(p) = packed;
}

inline __device__ gpu_eight gpu_unpack(uint4 packed)
{
    const unsigned word[4] = {packed.x, packed.y, packed.z, packed.w};
    gpu_eight e;
    GPU_UNROLL
    for (int i = 0; i < 4; i++) {
        e.v[2 * i] = gpu_f32(static_cast<gpu_half>(word[i] & 0xffffu));
        e.v[2 * i + 1] = gpu_f32(static_cast<gpu_half>(word[i] >> 16));
    }
    return e;
}

/* Rounds each of the eight. */
inline __device__ uint4 gpu_pack(const gpu_eight &e)
{
    unsigned word[4];
    GPU_UNROLL
    for (int i = 0; i < 4; i++)
        word[i] = gpu_f16(e.v[2 * i]) | static_cast<unsigned>(gpu_f16(e.v[2 * i + 1])) << 16;
    return make_uint4(word[0], word[1], word[2], word[3]);
}

/* The group at p, which may be any address, of a row that ends after n_left values: what is
 * beyond the end is not read and is 0. */
inline __device__ uint4 gpu_load_any(const gpu_half *p, int n_left)
{
    unsigned half[GPU_GROUP];
    GPU_UNROLL
    for (int i = 0; i < GPU_GROUP; i++) half[i] = i < n_left ? p[i] : 0u;
    return make_uint4(half[0] | half[1] << 16,
                      half[2] | half[3] << 16,
                      half[4] | half[5] << 16,
                      half[6] | half[7] << 16);
}

/* sum + a b. The product of two float16 is exact, so one instruction gives the same bits as
 * two; only for such products. */
inline __device__ float gpu_add_product(float sum, float a, float b)
{
#ifdef __CUDA_ARCH__
    return __fmaf_rn(a, b, sum);
#else
    return sum + a * b;
#endif
}

/* sum plus the eight products, in ascending order. */
inline __device__ float gpu_dot(float sum, const gpu_eight &a, const gpu_eight &b)
{
    GPU_UNROLL
    for (int i = 0; i < GPU_GROUP; i++) sum = gpu_add_product(sum, a.v[i], b.v[i]);
    return sum;
}

inline __device__ float gpu_dot(float sum, uint4 a, uint4 b)
{
    return gpu_dot(sum, gpu_unpack(a), gpu_unpack(b));
}

/* Total over n_lane neighbouring lanes, n_lane 8, 16 or 32, known to each of them. Exchanging
 * makes lane l + lane l ^ n in both, which is the same sum. */
inline __device__ float gpu_fold(float sum, int n_lane)
{
    GPU_UNROLL
    for (int n = GPU_WARP / 2; n > 0; n /= 2)
        if (n < n_lane) sum += __shfl_xor_sync(0xffffffffu, sum, n);
    return sum;
}

/* Which of N values a lane holds after gpu_fold_all, and whether it is the first to. */
template <int N> inline __device__ int gpu_folded(int lane)
{
    return lane / (GPU_WARP / N);
}

template <int N> inline __device__ bool gpu_folded_first(int lane)
{
    return lane % (GPU_WARP / N) == 0;
}

/* Totals of N values of every lane, N a power of two: lane l gets that of sum[l / (32 / N)].
 * As N folds of one value each, but in a halving step a lane hands over the values that it
 * will not end with, so 2 N and not 5 N exchanges are made. sum is used up. */
template <int N> inline __device__ float gpu_fold_all(float *sum /* [N] */, int lane)
{
    int n_kept = N;
    GPU_UNROLL
    for (int n = GPU_WARP / 2; n > 0; n /= 2) {
        if (n_kept == 1) {
            sum[0] += __shfl_xor_sync(0xffffffffu, sum[0], n);
            continue;
        }
        n_kept /= 2;
        GPU_UNROLL
        for (int i = 0; i < N / 2; i++) {
            if (i >= n_kept) break;
            float keep = lane & n ? sum[i + n_kept] : sum[i];
            float give = lane & n ? sum[i] : sum[i + n_kept];
            sum[i] = keep + __shfl_xor_sync(0xffffffffu, give, n);
        }
    }
    return sum[0];
}

} /* namespace GPU_NAMESPACE */

#endif
