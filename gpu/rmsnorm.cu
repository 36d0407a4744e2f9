/* SPDX-License-Identifier: MIT */
/* Root mean square norm, y = x s w with s = 1 / sqrt(sum(x^2) / width + eps), over whole rows
 * or over the heads of a row (spec 02 section 3). A warp per row; the squares are added in the
 * order of gpu.h. Rows are loaded by 16 bytes where all begin and end at such addresses, else
 * value by value: heads of an odd width begin anywhere, and pad places are not touched. */
#include "gpu/dot.h"

namespace GPU_NAMESPACE
{

enum {
    NORM_WARPS = 4,                  /* rows of a block                                 */
    NORM_STEP = GPU_WARP * GPU_GROUP /* values that a warp takes at once                */
};

template <bool ALIGNED>
static __device__ uint4 norm_load(const gpu_half *row /* [width] */, int at, int width)
{
    return ALIGNED ? gpu_load(row + at) : gpu_load_any(row + at, width - at);
}

template <bool ALIGNED>
static __device__ void
norm_store(gpu_half *row /* [width] */, int at, int width, const gpu_eight &e)
{
    if constexpr (ALIGNED) {
        gpu_store(row + at, gpu_pack(e)); /* round: f16 */
    } else {
        for (int i = 0; i < GPU_GROUP && at + i < width; i++)
            row[at + i] = gpu_f16(e.v[i]); /* round: f16 */
    }
}

/* Adds the squares of groups at, at + 256, ... for as long as there are U more, loaded
 * together. Returns where to go on. */
template <bool ALIGNED, int U>
static __device__ int
add_squares(float *sum, const gpu_half *x /* [width] */, int at, int width)
{
    for (; at + (U - 1) * NORM_STEP < width; at += U * NORM_STEP) {
        uint4 packed[U];
        GPU_UNROLL
        for (int u = 0; u < U; u++)
            packed[u] = norm_load<ALIGNED>(x, at + u * NORM_STEP, width);
        GPU_UNROLL
        for (int u = 0; u < U; u++) *sum = gpu_dot(*sum, packed[u], packed[u]);
    }
    return at;
}

/* Writes the same groups of y. */
template <bool ALIGNED, int U>
static __device__ int scale(gpu_half *y /* [width] */,
                            const gpu_half *x /* [width] */,
                            const gpu_norm &a,
                            float s,
                            int at)
{
    for (; at + (U - 1) * NORM_STEP < a.width; at += U * NORM_STEP) {
        uint4 packed[U], weight[U];
        GPU_UNROLL
        for (int u = 0; u < U; u++) {
            packed[u] = norm_load<ALIGNED>(x, at + u * NORM_STEP, a.width);
            weight[u] = norm_load<ALIGNED>(a.w, at + u * NORM_STEP, a.width);
        }
        GPU_UNROLL
        for (int u = 0; u < U; u++) {
            gpu_eight e = gpu_unpack(packed[u]), w = gpu_unpack(weight[u]);
            GPU_UNROLL
            for (int i = 0; i < GPU_GROUP; i++) {
                float scaled = e.v[i] * s;
                if (a.twice) scaled = gpu_f32(gpu_f16(scaled)); /* round: f16 */
                e.v[i] = scaled * w.v[i];
            }
            norm_store<ALIGNED>(y, at + u * NORM_STEP, a.width, e);
        }
    }
    return at;
}

/* U: groups that a lane loads together; 2560 values are 2 x 5 for each. */
template <bool ALIGNED, int U>
static __global__ void __launch_bounds__(NORM_WARPS *GPU_WARP) norm_kernel(gpu_norm a)
{
    int r = gpu_thread() / GPU_WARP;
    if (r >= a.n_row) return;
    int64_t begin = static_cast<int64_t>(r / a.n_group) * a.stride + r % a.n_group * a.width;
    const gpu_half *x = a.x + begin;
    gpu_half *y = a.y + begin;
    int first = gpu_lane() * GPU_GROUP;

    float sum = 0.0f;
    int at = add_squares<ALIGNED, U>(&sum, x, first, a.width);
    if (U > 1) add_squares<ALIGNED, 1>(&sum, x, at, a.width);
    sum = gpu_fold(sum, GPU_WARP);
    float s = 1.0f / sqrtf(sum / static_cast<float>(a.width) + a.eps);
    at = scale<ALIGNED, U>(y, x, a, s, first);
    if (U > 1) scale<ALIGNED, 1>(y, x, a, s, at);
}

void gpu_rmsnorm(cudaStream_t stream, const gpu_norm *a)
{
    unsigned n_block = gpu_blocks(a->n_row, NORM_WARPS);
    const unsigned n_thread = NORM_WARPS * GPU_WARP;
    bool aligned = a->stride % GPU_GROUP == 0 && a->width % GPU_GROUP == 0;
    if (aligned)
        GPU_LAUNCH((norm_kernel<true, 5>), n_block, n_thread, 0, stream, *a);
    else
        GPU_LAUNCH((norm_kernel<false, 1>), n_block, n_thread, 0, stream, *a);
}

} /* namespace GPU_NAMESPACE */
