/* SPDX-License-Identifier: MIT */
/* Planted faults of order: races, barriers, warp operations. What is wrong is said at each; the
 * rest of the kernel is right. Results are compared with the right ones, so that the plain
 * build, which does not watch accesses, can be asked what the order reveals. */
#include "tests/cudacpu_faults.h"
#include "tests/cudacpu_rig.h"

#define ALL 0xffffffffu

namespace GPU_NAMESPACE
{

/* ---- races ---- */

__global__ void no_barrier_raw(int *out)
{
    GPU_SHARED(int, s, 256);
    int t = static_cast<int>(threadIdx.x);
    s[t] = t;
    out[t] = t ? s[t - 1] : 0; /* no barrier before */
}

static int run_no_barrier_raw(void)
{
    begin();
    GPU_LAUNCH(no_barrier_raw, 1, 256, 0, nullptr, dev);
    return end(256, [](int i) { return i ? i - 1 : 0; });
}

__global__ void no_barrier_war(int *out)
{
    GPU_SHARED(int, s, 256);
    int t = static_cast<int>(threadIdx.x);
    s[t] = t;
    __syncthreads();
    int next = s[(t + 1) % 256];
    s[t] = -t; /* no barrier before */
    out[t] = next;
}

static int run_no_barrier_war(void)
{
    begin();
    GPU_LAUNCH(no_barrier_war, 1, 256, 0, nullptr, dev);
    return end(256, [](int i) { return (i + 1) % 256; });
}

__global__ void no_syncwarp(int *out)
{
    GPU_SHARED(int, s, 64);
    int t = static_cast<int>(threadIdx.x);
    s[t] = t;
    out[t] = s[t ^ 1]; /* the lanes of a warp do not run in step */
}

static int run_no_syncwarp(void)
{
    begin();
    GPU_LAUNCH(no_syncwarp, 1, 64, 0, nullptr, dev);
    return end(64, [](int i) { return i ^ 1; });
}

__global__ void shuffle_is_no_barrier(int *out)
{
    GPU_SHARED(int, s, 32);
    int t = static_cast<int>(threadIdx.x);
    s[t] = t;
    int v = __shfl_xor_sync(ALL, t, 1); /* exchanges registers, orders no memory */
    out[t] = s[t ^ 1] + v - v;
}

static int run_shuffle_is_no_barrier(void)
{
    begin();
    GPU_LAUNCH(shuffle_is_no_barrier, 1, 32, 0, nullptr, dev);
    return end(32, [](int i) { return i ^ 1; });
}

__global__ void syncwarp_for_two_warps(int *out)
{
    GPU_SHARED(int, s, 64);
    int t = static_cast<int>(threadIdx.x);
    s[t] = t;
    __syncwarp(); /* orders this warp, the neighbour is in the other */
    out[t] = s[63 - t];
}

static int run_syncwarp_for_two_warps(void)
{
    begin();
    GPU_LAUNCH(syncwarp_for_two_warps, 1, 64, 0, nullptr, dev);
    return end(64, [](int i) { return 63 - i; });
}

__global__ void syncwarp_of_the_reader(int *out)
{
    GPU_SHARED(int, s, 32);
    int t = static_cast<int>(threadIdx.x);
    if (t < 32) {
        s[t] = t;
    } else {
        __syncwarp(); /* the writers are in the other warp */
        out[t] = s[t - 32];
    }
}

static int run_syncwarp_of_the_reader(void)
{
    begin();
    GPU_LAUNCH(syncwarp_of_the_reader, 1, 64, 0, nullptr, dev);
    return end(64, [](int i) { return i < 32 ? -1 : i - 32; });
}

__global__ void syncwarp_of_the_half(int *out)
{
    GPU_SHARED(int, s, 32);
    int t = static_cast<int>(threadIdx.x);
    s[t] = t;
    if (t < 16) {
        __syncwarp(0xffffu); /* the writers are in the other half */
        out[t] = s[31 - t];
    }
}

static int run_syncwarp_of_the_half(void)
{
    begin();
    GPU_LAUNCH(syncwarp_of_the_half, 1, 32, 0, nullptr, dev);
    return end(16, [](int i) { return 31 - i; });
}

__global__ void many_read_one_writes(int *out)
{
    GPU_SHARED(int, s, 1);
    int t = static_cast<int>(threadIdx.x);
    if (t == 0) s[0] = 7;
    __syncthreads();
    out[t] = s[0];
    if (t == 255) s[0] = 8; /* others may not have read yet */
}

static int run_many_read_one_writes(void)
{
    begin();
    GPU_LAUNCH(many_read_one_writes, 1, 256, 0, nullptr, dev);
    return end(256, [](int) { return 7; });
}

__global__ void one_word_two_blocks(int *out)
{
    out[0] = static_cast<int>(blockIdx.x); /* both blocks */
}

static int run_one_word_two_blocks(void)
{
    begin();
    GPU_LAUNCH(one_word_two_blocks, 2, 1, 0, nullptr, dev);
    return end(1, [](int) { return 1; });
}

__global__ void plain_sum(int *out, const int *in)
{
    out[0] += in[blockIdx.x]; /* no atomic */
}

static int run_plain_sum(void)
{
    begin();
    cudaMemset(dev, 0, 4);
    GPU_LAUNCH(plain_sum, 8, 1, 0, nullptr, dev, dev_in);
    return end(1, [](int) { return 28; });
}

__global__ void read_what_another_block_writes(int *out)
{
    int b = static_cast<int>(blockIdx.x);
    out[b] = b;
    out[100 + b] = out[(b + 1) % 4] >= 0;
}

static int run_read_what_another_block_writes(void)
{
    begin();
    GPU_LAUNCH(read_what_another_block_writes, 4, 1, 0, nullptr, dev);
    return end(4, [](int i) { return i; });
}

__global__ void atomic_and_plain(int *out)
{
    if (threadIdx.x)
        atomicAdd(&out[0], 1);
    else
        out[1] = out[0] >= 0; /* while others add */
}

static int run_atomic_and_plain(void)
{
    begin();
    cudaMemset(dev, 0, 4);
    GPU_LAUNCH(atomic_and_plain, 1, 64, 0, nullptr, dev);
    return end(1, [](int) { return 63; });
}

/* ---- barriers and warp operations ---- */

__global__ void divergent_barrier(int *out)
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads(); /* another one */
    out[threadIdx.x] = 1;
}

static int run_divergent_barrier(void)
{
    begin();
    GPU_LAUNCH(divergent_barrier, 1, 64, 0, nullptr, dev);
    return end(64, anything);
}

__global__ void early_exit(int *out, int n)
{
    if (static_cast<int>(threadIdx.x) >= n) return; /* before the barrier */
    __syncthreads();
    out[threadIdx.x] = 1;
}

static int run_early_exit(void)
{
    begin();
    GPU_LAUNCH(early_exit, 1, 64, 0, nullptr, dev, 50);
    return end(64, anything);
}

__global__ void absent_lane(int *out)
{
    if (threadIdx.x != 5) out[threadIdx.x] = __shfl_xor_sync(ALL, 1, 1);
}

static int run_absent_lane(void)
{
    begin();
    GPU_LAUNCH(absent_lane, 1, 32, 0, nullptr, dev);
    return end(32, anything);
}

__global__ void masks_disagree(int *out)
{
    unsigned mask = threadIdx.x < 8 ? 0xffu : 0xffff00f0u;
    if (threadIdx.x < 8 || threadIdx.x >= 16) out[threadIdx.x] = __shfl_sync(mask, 1, 4);
}

static int run_masks_disagree(void)
{
    begin();
    GPU_LAUNCH(masks_disagree, 1, 32, 0, nullptr, dev);
    return end(32, anything);
}

__global__ void not_in_own_mask(int *out)
{
    out[threadIdx.x] = static_cast<int>(__ballot_sync(0x7fffffffu, 1));
}

static int run_not_in_own_mask(void)
{
    begin();
    GPU_LAUNCH(not_in_own_mask, 1, 32, 0, nullptr, dev);
    return end(32, anything);
}

static int run_mask_beyond_the_block(void)
{
    begin();
    GPU_LAUNCH(shuffle_is_no_barrier, 1, 20, 0, nullptr, dev);
    return end(20, anything);
}

__global__ void inactive_source(int *out)
{
    if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(0xffffu, 1, 16);
}

static int run_inactive_source(void)
{
    begin();
    GPU_LAUNCH(inactive_source, 1, 32, 0, nullptr, dev);
    return end(32, anything);
}

__global__ void two_operations(int *out)
{
    if (threadIdx.x % 2)
        out[threadIdx.x] = __shfl_sync(ALL, 1, 0);
    else
        out[threadIdx.x] = __any_sync(ALL, 1);
}

static int run_two_operations(void)
{
    begin();
    GPU_LAUNCH(two_operations, 1, 32, 0, nullptr, dev);
    return end(32, anything);
}

} /* namespace GPU_NAMESPACE */

using namespace GPU_NAMESPACE;

#define NONE CUDACPU_NO_REPORT
extern "C" const fault cudacpu_sync_faults[] = {
    {"no barrier, read after write", run_no_barrier_raw, NONE, CUDACPU_RACE, 1},
    {"no barrier, write after read", run_no_barrier_war, NONE, CUDACPU_RACE, 1},
    {"no __syncwarp", run_no_syncwarp, NONE, CUDACPU_RACE, 1},
    {"shuffle in place of __syncwarp", run_shuffle_is_no_barrier, NONE, CUDACPU_RACE, 0},
    {"__syncwarp between warps", run_syncwarp_for_two_warps, NONE, CUDACPU_RACE, 1},
    {"__syncwarp of the reader's warp", run_syncwarp_of_the_reader, NONE, CUDACPU_RACE, 1},
    {"__syncwarp of the reader's half", run_syncwarp_of_the_half, NONE, CUDACPU_RACE, 1},
    {"many read, one writes", run_many_read_one_writes, NONE, CUDACPU_RACE, 1},
    {"two blocks write one word", run_one_word_two_blocks, NONE, CUDACPU_RACE_BLOCKS, 1},
    {"sum without atomics", run_plain_sum, NONE, CUDACPU_RACE_BLOCKS, 0},
    {"reads another block's word",
     run_read_what_another_block_writes,
     NONE,
     CUDACPU_RACE_BLOCKS,
     0},
    {"plain read among atomics", run_atomic_and_plain, NONE, CUDACPU_RACE, 0},
    {"divergent barrier",
     run_divergent_barrier,
     CUDACPU_BARRIER_DIVERGED,
     CUDACPU_BARRIER_DIVERGED,
     0},
    {"exit before a barrier",
     run_early_exit,
     CUDACPU_BARRIER_EXITED,
     CUDACPU_BARRIER_EXITED,
     0},
    {"absent lane", run_absent_lane, CUDACPU_WARP_ABSENT, CUDACPU_WARP_ABSENT, 0},
    {"masks disagree", run_masks_disagree, CUDACPU_WARP_ABSENT, CUDACPU_WARP_ABSENT, 0},
    {"lane not in its mask", run_not_in_own_mask, CUDACPU_WARP_MASK, CUDACPU_WARP_MASK, 0},
    {"mask beyond the block",
     run_mask_beyond_the_block,
     CUDACPU_WARP_MASK,
     CUDACPU_WARP_MASK,
     0},
    {"shuffle from outside the mask",
     run_inactive_source,
     CUDACPU_WARP_INACTIVE,
     CUDACPU_WARP_INACTIVE,
     0},
    {"two operations meet",
     run_two_operations,
     CUDACPU_WARP_OPERATION,
     CUDACPU_WARP_OPERATION,
     0},
    {nullptr, nullptr, NONE, NONE, 0},
};
