/* SPDX-License-Identifier: MIT */
/* Planted faults of place and state: out of bounds, never written, forbidden, misaligned,
 * memory of the host or of another thread. */
#include "tests/cudacpu_faults.h"
#include "tests/cudacpu_rig.h"

namespace GPU_NAMESPACE
{

__global__ void static_shared_bounds(int *out, int at, bool write)
{
    GPU_SHARED(int, s, 40);
    GPU_SHARED(int, other, 40);
    s[threadIdx.x] = other[threadIdx.x] = 1;
    if (write) s[at] = 2;
    out[threadIdx.x] = s[threadIdx.x] + other[threadIdx.x];
    if (!write && threadIdx.x == 0) out[0] = s[at] == 12345 ? 0 : 2;
}

static int run_static_shared_write(void)
{
    begin();
    GPU_LAUNCH(static_shared_bounds, 1, 40, 0, nullptr, dev, 40, true);
    return end(40, [](int) { return 2; });
}

static int run_static_shared_read(void)
{
    begin();
    GPU_LAUNCH(static_shared_bounds, 1, 40, 0, nullptr, dev, -1, false);
    return end(40, [](int) { return 2; });
}

__global__ void dynamic_shared_bounds(int *out)
{
    GPU_DYN_SHARED(int, s);
    s[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 0) s[40] = 2; /* the launch asked for 40 */
    out[threadIdx.x] = s[threadIdx.x];
}

static int run_dynamic_shared_write(void)
{
    begin();
    GPU_LAUNCH(dynamic_shared_bounds, 1, 40, 160, nullptr, dev);
    return end(40, [](int) { return 1; });
}

__global__ void too_much_shared(int *out)
{
    GPU_SHARED(int, s, 12288);
    GPU_SHARED(int, more, 1);
    s[0] = more[0] = 1;
    out[0] = s[0] + more[0];
}

static int run_too_much_shared(void)
{
    begin();
    GPU_LAUNCH(too_much_shared, 1, 1, 0, nullptr, dev);
    return end(1, anything);
}

__global__ void device_bounds(int *out, int at, bool write)
{
    if (write)
        out[at] = 1;
    else
        out[0] = out[at];
}

/* An allocation of 100 ints, in the middle of a page, used at one index outside. Seen when the
 * device is waited for, or only when it is freed. */
static int run_device(int at, bool write, bool wait)
{
    int *odd = nullptr;
    begin();
    cudaMalloc(&odd, 100 * sizeof *odd);
    cudaMemset(odd, 0, 100 * sizeof *odd);
    GPU_LAUNCH(device_bounds, 1, 1, 0, nullptr, odd, at, write);
    if (wait) cudaDeviceSynchronize();
    size_t n_report = cudacpu_n_report();
    cudaFree(odd);
    return end(1, anything) && (n_report > 0) == wait;
}

static int run_device_write_before(void)
{
    return run_device(-1, true, false);
}

static int run_device_write_behind(void)
{
    return run_device(100, true, false);
}

static int run_device_write_seen_before(void)
{
    return run_device(-1, true, true);
}

static int run_device_write_seen_behind(void)
{
    return run_device(100, true, true);
}

static int run_device_read_behind(void)
{
    return run_device(100, false, false);
}

__global__ void unset_shared(int *out)
{
    GPU_SHARED(int, s, 32);
    if (threadIdx.x != 7) s[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = s[31 - threadIdx.x] | 1; /* hides what was read */
}

static int run_unset_shared(void)
{
    begin();
    GPU_LAUNCH(unset_shared, 1, 32, 0, nullptr, dev);
    return end(1, [](int) { return 1; });
}

__global__ void unset_shared_of_last_block(int *out)
{
    GPU_SHARED(int, s, 1);
    if (blockIdx.x == 0) s[0] = 1; /* the next block gets other memory */
    out[blockIdx.x] = s[0] == 1 || s[0] == -1;
}

static int run_unset_shared_of_last_block(void)
{
    begin();
    GPU_LAUNCH(unset_shared_of_last_block, 2, 1, 0, nullptr, dev);
    return end(2, [](int) { return 1; });
}

__global__ void read_device(int *out, const int *in)
{
    out[0] = in[0] == 12345 ? 0 : 1;
}

static int run_unset_device(void)
{
    int *fresh = nullptr;
    begin();
    cudaMalloc(&fresh, 64);
    cudaMemset(fresh + 1, 0, 60);
    GPU_LAUNCH(read_device, 1, 1, 0, nullptr, dev, fresh);
    cudaFree(fresh);
    return end(1, [](int) { return 1; });
}

static int run_unset_copied(void)
{
    int *fresh = nullptr, *copy = nullptr;
    begin();
    cudaMalloc(&fresh, 64);
    cudaMalloc(&copy, 64);
    cudaMemset(copy, 0, 64);
    cudaMemcpy(copy, fresh, 64, cudaMemcpyDeviceToDevice);
    GPU_LAUNCH(read_device, 1, 1, 0, nullptr, dev, copy);
    cudaFree(fresh);
    cudaFree(copy);
    return end(1, [](int) { return 1; });
}

__global__ void read_past_the_prefix(int *out, const int *cache, int kv_len)
{
    int t = static_cast<int>(threadIdx.x), x = cache[t]; /* loads first, decides later */
    out[t] = t < kv_len ? x : 0;
}

static int run_read_past_the_prefix(void)
{
    begin();
    cudacpu_forbid(dev_in + 10, 1014 * sizeof *dev_in);
    GPU_LAUNCH(read_past_the_prefix, 1, 32, 0, nullptr, dev, dev_in, 10);
    return end(32, [](int i) { return i < 10 ? i : 0; });
}

static int run_host_pointer(void)
{
    static int on_host[1] = {3};
    begin();
    GPU_LAUNCH(read_device, 1, 1, 0, nullptr, dev, on_host);
    return end(1, [](int) { return 1; });
}

__global__ void misaligned(int *out, const int *in)
{
    const uint2 *p = reinterpret_cast<const uint2 *>(in + 1);
    uint2 v = *p;
    out[0] = static_cast<int>(v.x);
}

static int run_misaligned(void)
{
    begin();
    GPU_LAUNCH(misaligned, 1, 1, 0, nullptr, dev, dev_in);
    return end(1, [](int) { return 1; });
}

__global__ void share_a_local(int *out)
{
    GPU_SHARED(int *, p, 1);
    int local[4] = {1, 2, 3, static_cast<int>(threadIdx.x)};
    if (threadIdx.x == 0) p[0] = local;
    __syncthreads();
    out[threadIdx.x] = p[0][threadIdx.x % 4];
    __syncthreads();
}

static int run_share_a_local(void)
{
    begin();
    GPU_LAUNCH(share_a_local, 1, 32, 0, nullptr, dev);
    return end(1, [](int) { return 1; });
}

} /* namespace GPU_NAMESPACE */

using namespace GPU_NAMESPACE;

#define NONE CUDACPU_NO_REPORT
extern "C" const fault cudacpu_memory_faults[] = {
    {"static shared, written behind",
     run_static_shared_write,
     CUDACPU_GUARD,
     CUDACPU_OUT_OF_BOUNDS,
     0},
    {"static shared, read before", run_static_shared_read, NONE, CUDACPU_OUT_OF_BOUNDS, 0},
    {"dynamic shared, written behind",
     run_dynamic_shared_write,
     CUDACPU_GUARD,
     CUDACPU_OUT_OF_BOUNDS,
     0},
    {"too much shared memory",
     run_too_much_shared,
     CUDACPU_SHARED_SIZE,
     CUDACPU_SHARED_SIZE,
     0},
    {"device memory, written before",
     run_device_write_before,
     CUDACPU_GUARD,
     CUDACPU_OUT_OF_BOUNDS,
     -1},
    {"device memory, written behind",
     run_device_write_behind,
     CUDACPU_GUARD,
     CUDACPU_OUT_OF_BOUNDS,
     -1},
    {"device memory, seen before",
     run_device_write_seen_before,
     CUDACPU_GUARD,
     CUDACPU_OUT_OF_BOUNDS,
     -1},
    {"device memory, seen behind",
     run_device_write_seen_behind,
     CUDACPU_GUARD,
     CUDACPU_OUT_OF_BOUNDS,
     -1},
    {"device memory, read behind", run_device_read_behind, NONE, CUDACPU_OUT_OF_BOUNDS, 0},
    {"unset shared word", run_unset_shared, NONE, CUDACPU_UNINITIALISED, 0},
    {"shared word of the last block",
     run_unset_shared_of_last_block,
     NONE,
     CUDACPU_UNINITIALISED,
     0},
    {"unset device word", run_unset_device, NONE, CUDACPU_UNINITIALISED, 0},
    {"unset device word, copied", run_unset_copied, NONE, CUDACPU_UNINITIALISED, 0},
    {"load past the prefix, discarded", run_read_past_the_prefix, NONE, CUDACPU_FORBIDDEN, 0},
    {"host pointer", run_host_pointer, NONE, CUDACPU_HOST_POINTER, 0},
    {"misaligned 8-byte load", run_misaligned, NONE, CUDACPU_MISALIGNED, 0},
    {"local variable of another thread", run_share_a_local, NONE, CUDACPU_FOREIGN_STACK, 0},
    {nullptr, nullptr, NONE, NONE, 0},
};
