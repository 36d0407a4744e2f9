/* SPDX-License-Identifier: MIT */
/* Faulty calls of the runtime, faults that end in SIGSEGV, and a kernel of known traffic. */
#include "tests/cudacpu_faults.h"
#include "tests/cudacpu_rig.h"

namespace GPU_NAMESPACE
{

/* ---- faulty calls ---- */

static int run_copy_bounds(void)
{
    int x[1025] = {};
    begin();
    cudaMemcpy(dev, x, sizeof x, cudaMemcpyHostToDevice);
    return end(1, anything);
}

static int run_copy_before(void)
{
    int x[2] = {}, *small = nullptr;
    begin();
    cudaMalloc(&small, 400); /* in the middle of a page */
    cudaMemcpy(x, small - 1, sizeof x, cudaMemcpyDeviceToHost);
    cudaFree(small);
    return end(1, anything);
}

static int run_set_bounds(void)
{
    begin();
    cudaMemset(dev + 1, 0, 4096);
    return end(1, anything);
}

static int run_copy_direction(void)
{
    int x = 0;
    begin();
    cudaMemcpy(dev, &x, sizeof x, cudaMemcpyDeviceToHost);
    return end(1, anything);
}

static int run_copy_host_as_device(void)
{
    int x = 0, y = 0;
    begin();
    cudaMemcpy(&x, &y, sizeof x, cudaMemcpyHostToDevice);
    return end(1, anything);
}

static int run_double_free(void)
{
    int *p = nullptr;
    begin();
    cudaMalloc(&p, 4);
    cudaFree(p);
    cudaFree(p);
    return end(1, anything);
}

static int run_free_inside(void)
{
    begin();
    cudaFree(dev + 64);
    return end(1, anything);
}

static int run_free_host(void)
{
    int x = 0;
    begin();
    cudaFree(&x);
    return end(1, anything);
}

static int run_copy_freed(void)
{
    int *p = nullptr, x = 0;
    begin();
    cudaMalloc(&p, 4);
    cudaFree(p);
    cudaMemcpy(&x, p, 4, cudaMemcpyDeviceToHost);
    return end(1, anything);
}

static int run_copy_forbidden(void)
{
    int x = 0;
    begin();
    cudacpu_forbid(dev + 1, 4);
    cudaMemcpy(&x, dev + 1, 4, cudaMemcpyDeviceToHost);
    return end(1, anything);
}

/* The host buffer changes before the copy ran; without deferred streams nobody sees it. */
static int run_changed_buffer(void)
{
    cudaStream_t s;
    int x = -1;
    begin();
    cudacpu_set_deferred(1);
    cudaStreamCreate(&s);
    cudaMemcpyAsync(dev, &x, sizeof x, cudaMemcpyHostToDevice, s);
    x = 5;
    cudaStreamSynchronize(s);
    cudaStreamDestroy(s);
    cudacpu_set_deferred(0);
    return end(1, anything);
}

__global__ void append(int *out, int kv_len)
{
    out[kv_len] = 1;
}

/* The length by value, frozen when the graph was captured. */
static int run_frozen_length(void)
{
    cudaStream_t s;
    cudaGraph_t g;
    cudaGraphExec_t x;
    int kv_len = 0;
    begin();
    cudaStreamCreate(&s);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    GPU_LAUNCH(append, 1, 1, 0, s, dev, kv_len);
    cudaStreamEndCapture(s, &g);
    cudaGraphInstantiate(&x, g);
    for (kv_len = 0; kv_len < 3; kv_len++) cudaGraphLaunch(x, s);
    cudaStreamSynchronize(s);
    cudaGraphExecDestroy(x);
    cudaGraphDestroy(g);
    cudaStreamDestroy(s);
    return end(3, [](int) { return 1; });
}

/* ---- faults that a page catches ---- */

__global__ void read_one(int *out, const int *in)
{
    out[0] = in[0];
}

__global__ void recurse(int *out, int depth)
{
    int room[256];
    for (int i = 0; i < 256; i++) room[i] = depth + i + out[0];
    if (depth < 100000) recurse(room, depth + 1);
    out[0] = room[depth % 256];
}

__global__ void
traffic(const gpu_half *in, float *out, unsigned *count, int n_read, int n_write, int n_add)
{
    float sum = 0;
    for (int i = 0; i < n_read; i++) sum += gpu_f32(in[i]);
    for (int i = 0; i < n_write; i++) out[blockIdx.x * 500 + static_cast<unsigned>(i)] = sum;
    for (int i = 0; i < n_add; i++) atomicAdd(count, 1u);
}

} /* namespace GPU_NAMESPACE */

using namespace GPU_NAMESPACE;

int fault_use_after_free(void)
{
    int *gone = nullptr;
    begin();
    cudaMalloc(&gone, 4096);
    cudaMemset(gone, 0, 4096);
    cudaFree(gone);
    GPU_LAUNCH(read_one, 1, 1, 0, nullptr, dev, gone);
    return end(1, anything);
}

int fault_read_forbidden_page(void)
{
    int *p = nullptr;
    begin();
    cudaMalloc(&p, 1 << 20);
    cudaMemset(p, 0, 1 << 20);
    cudacpu_forbid(p + 1000, 1 << 19);
    GPU_LAUNCH(read_one, 1, 1, 0, nullptr, dev, p + 60000);
    cudaFree(p);
    return end(1, anything);
}

int fault_write_far_outside(void)
{
    begin();
    GPU_LAUNCH(read_one, 1, 1, 0, nullptr, dev + 1024 + 100, dev_in);
    return end(1, anything);
}

int fault_host_reads_device_memory(void)
{
    begin();
    cudacpu_set_protected(1);
    GPU_LAUNCH(read_one, 1, 1, 0, nullptr, dev, dev_in); /* may */
    return *static_cast<volatile int *>(dev);
}

int fault_endless_recursion(void)
{
    begin();
    GPU_LAUNCH(recurse, 1, 1, 0, nullptr, dev_in, 0);
    return end(1, anything);
}

void run_traffic(int n_read, int n_write, int n_atomic)
{
    gpu_half *in = nullptr;
    float *out = nullptr;
    unsigned *count = nullptr;
    cudaMalloc(&in, 2000);
    cudaMalloc(&out, 4000);
    cudaMalloc(&count, 4);
    cudaMemset(in, 0, 2000);
    cudaMemset(count, 0, 4);
    GPU_LAUNCH(traffic, 2, 1, 0, nullptr, in, out, count, n_read, n_write, n_atomic);
    cudaFree(in);
    cudaFree(out);
    cudaFree(count);
}

#define NONE       CUDACPU_NO_REPORT
#define BOTH(kind) CUDACPU_##kind, CUDACPU_##kind, 0
extern "C" const fault cudacpu_call_faults[] = {
    {"copy longer than its target", run_copy_bounds, BOTH(COPY_BOUNDS)},
    {"copy from before its source", run_copy_before, BOTH(COPY_BOUNDS)},
    {"set beyond its target", run_set_bounds, BOTH(COPY_BOUNDS)},
    {"copy the other way round", run_copy_direction, BOTH(COPY_DIRECTION)},
    {"host memory as a device's", run_copy_host_as_device, BOTH(COPY_DIRECTION)},
    {"double free", run_double_free, BOTH(BAD_FREE)},
    {"free inside an allocation", run_free_inside, BOTH(BAD_FREE)},
    {"free of host memory", run_free_host, BOTH(BAD_FREE)},
    {"copy of freed memory", run_copy_freed, BOTH(AFTER_FREE)},
    {"copy of a forbidden region", run_copy_forbidden, BOTH(FORBIDDEN)},
    {"host buffer changed too early", run_changed_buffer, NONE, NONE, 1},
    {"length frozen in a graph", run_frozen_length, NONE, NONE, 1},
    {nullptr, nullptr, NONE, NONE, 0},
};
