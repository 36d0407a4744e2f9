/* SPDX-License-Identifier: MIT */
/* The CPU execution layer's memory, streams, graphs and events, as the host sees them. */
#include "gpu/runtime.h"

#include "gpu/cudacpu/control.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

namespace GPU_NAMESPACE
{

__global__ void add(int *to, const int *from, int plus)
{
    to[threadIdx.x] = to[threadIdx.x] + from[threadIdx.x] + plus;
}

static int *device(int n)
{
    int *p = nullptr;
    ck_assert(cudaMalloc(&p, static_cast<size_t>(n) * sizeof *p) == cudaSuccess);
    return p;
}

static int first_of(const int *d)
{
    int x = 0;
    ck_assert(cudaMemcpy(&x, d, sizeof x, cudaMemcpyDeviceToHost) == cudaSuccess);
    return x;
}

static size_t resident_byte()
{
    size_t n_page = 0, skipped = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    ck_assert(f && fscanf(f, "%zu %zu", &skipped, &n_page) == 2);
    fclose(f);
    return n_page * 4096;
}

static bool all_are(const unsigned char *p, size_t n, int x)
{
    size_t i = 0;
    while (i < n && p[i] == x) i++;
    return i == n;
}

START_TEST(new_memory_is_aligned_and_reads_as_nan)
{
    const size_t sizes[] = {
        1, 2, 255, 256, 257, 4095, 4096, 4097, 100000, (4u << 20) + 1, 9u << 20};
    for (size_t n : sizes) {
        unsigned char *p = nullptr, *copy = static_cast<unsigned char *>(malloc(n));
        ck_assert(cudaMalloc(&p, n) == cudaSuccess);
        ck_assert_uint_eq(reinterpret_cast<uintptr_t>(p) % 256, 0);
        ck_assert_uint_eq(cudacpu_allocation(p), n);
        cudaMemcpy(copy, p, n, cudaMemcpyDeviceToHost);
        ck_assert(all_are(copy, n, 0xff));
        cudaMemset(p, 1, n);
        cudaMemcpy(copy, p, n, cudaMemcpyDeviceToHost);
        ck_assert(all_are(copy, n, 1));
        ck_assert(cudaFree(p) == cudaSuccess);
        free(copy);
    }
}
END_TEST

START_TEST(large_memory_is_resident_only_where_written)
{
    char *p = nullptr;
    size_t before = resident_byte();
    cudacpu_set_memory_limit(static_cast<size_t>(5) << 30);
    ck_assert(cudaMalloc(&p, static_cast<size_t>(4) << 30) == cudaSuccess);
    cudaMemset(p + (1u << 30), 0, 1u << 20);
    if (support_measures()) ck_assert_uint_lt(resident_byte(), before + (16u << 20));
    ck_assert(cudaFree(p) == cudaSuccess);
    cudacpu_reset();
}
END_TEST

START_TEST(memory_ends_at_the_limit_with_an_error_code)
{
    char *a = nullptr, *b = nullptr, *c = nullptr;
    size_t n_free = 0, n_total = 0;
    cudacpu_set_memory_limit(10000);
    cudacpu_reset_counts();
    ck_assert(cudaMalloc(&a, 6000) == cudaSuccess);
    ck_assert(cudaMalloc(&b, 4001) == cudaErrorMemoryAllocation && !b);
    ck_assert(cudaGetLastError() == cudaErrorMemoryAllocation);
    ck_assert(cudaMalloc(&c, 4000) == cudaSuccess);
    cudaMemGetInfo(&n_free, &n_total);
    ck_assert(n_free == 0 && n_total == 10000);
    cudaFree(a);
    cudaMemGetInfo(&n_free, &n_total);
    ck_assert_uint_eq(n_free, 6000);
    cudacpu_counts n = cudacpu_get_counts();
    ck_assert(n.live_byte == 4000 && n.peak_byte == 10000 && n.n_alloc == 2);
    cudaFree(c);
    ck_assert(cudaMalloc(&b, SIZE_MAX) == cudaErrorMemoryAllocation);
    cudacpu_reset();
}
END_TEST

START_TEST(deferred_streams_see_what_the_host_did_meanwhile)
{
    for (int deferred = 0; deferred < 2; deferred++) {
        cudaStream_t s;
        int x = 1, *d = device(1);
        cudacpu_set_deferred(deferred);
        ck_assert(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
        cudaMemcpyAsync(d, &x, sizeof x, cudaMemcpyHostToDevice, s);
        x = 2;
        ck_assert(cudaStreamQuery(s) == (deferred ? cudaErrorNotReady : cudaSuccess));
        ck_assert(cudaStreamSynchronize(s) == cudaSuccess);
        ck_assert_int_eq(first_of(d), deferred ? 2 : 1);
        cudaStreamDestroy(s);
        cudaFree(d);
    }
    cudacpu_reset();
}
END_TEST

START_TEST(kernel_arguments_are_taken_when_launched)
{
    cudaStream_t s;
    int *d = device(1), *zero = device(1), plus = 5;
    cudaMemset(d, 0, sizeof *d);
    cudaMemset(zero, 0, sizeof *zero);
    cudacpu_set_deferred(1);
    cudaStreamCreate(&s);
    GPU_LAUNCH(add, 1, 1, 0, s, d, zero, plus++);
    GPU_LAUNCH(add, 1, 1, 0, s, d, zero, plus++);
    plus = 100;
    cudaStreamSynchronize(s);
    ck_assert_int_eq(first_of(d), 11);
    cudaStreamDestroy(s);
    cudaFree(d);
    cudaFree(zero);
    cudacpu_reset();
}
END_TEST

START_TEST(default_stream_waits_for_blocking_streams_alone)
{
    cudaStream_t blocking, free_running;
    int *d = device(1), *e = device(1);
    cudacpu_set_deferred(1);
    cudaStreamCreate(&blocking);
    cudaStreamCreateWithFlags(&free_running, cudaStreamNonBlocking);
    cudaMemset(d, 0, 4);
    cudaMemset(e, 0, 4);
    cudaMemsetAsync(d, 1, 4, blocking);
    cudaMemsetAsync(e, 1, 4, free_running);
    ck_assert_int_eq(first_of(d), 0x01010101);
    ck_assert_int_eq(first_of(e), 0);
    ck_assert(cudaDeviceSynchronize() == cudaSuccess);
    ck_assert_int_eq(first_of(e), 0x01010101);
    cudaStreamDestroy(blocking);
    cudaStreamDestroy(free_running);
    cudaFree(d);
    cudaFree(e);
    cudacpu_reset();
}
END_TEST

START_TEST(graphs_replay_frozen_arguments_on_current_memory)
{
    for (int deferred = 0; deferred < 2; deferred++) {
        cudaStream_t s;
        cudaGraph_t g;
        cudaGraphExec_t x;
        int *sum = device(1), *step = device(1), host = 10, plus = 1;
        cudacpu_set_deferred(deferred);
        cudaMemset(sum, 0, sizeof *sum);
        cudaStreamCreate(&s);
        cudacpu_reset_counts();
        ck_assert(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal) == cudaSuccess);
        cudaMemcpyAsync(step, &host, sizeof host, cudaMemcpyHostToDevice, s);
        GPU_LAUNCH(add, 1, 1, 0, s, sum, step, plus);
        ck_assert(cudaStreamEndCapture(s, &g) == cudaSuccess);
        ck_assert(cudaGraphInstantiate(&x, g) == cudaSuccess);
        ck_assert(cudaGraphDestroy(g) == cudaSuccess);
        ck_assert_uint_eq(cudacpu_get_counts().n_launch, 0);
        plus = 1000; /* frozen: no effect */
        for (int i = 0; i < 3; i++) {
            host = 10 * (i + 1); /* read at each replay */
            ck_assert(cudaGraphLaunch(x, s) == cudaSuccess);
            ck_assert(cudaStreamSynchronize(s) == cudaSuccess);
        }
        ck_assert_int_eq(first_of(sum), 60 + 3);
        cudacpu_counts n = cudacpu_get_counts();
        ck_assert(n.n_capture == 1 && n.n_instantiate == 1 && n.n_graph_launch == 3);
        ck_assert(n.n_launch == 3 && n.n_copy == 4 && n.n_synchronise == 4);
        cudaGraphExecDestroy(x);
        cudaStreamDestroy(s);
        cudaFree(sum);
        cudaFree(step);
    }
    cudacpu_reset();
}
END_TEST

START_TEST(waiting_or_allocating_spoils_a_capture)
{
    cudaStream_t s;
    cudaGraph_t g;
    int *d = device(1), x = 0;
    cudaStreamCreate(&s);
    for (int what = 0; what < 5; what++) {
        cudaError_t e = cudaErrorUnknown;
        void *p = nullptr;
        cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
        if (what == 0) e = cudaStreamSynchronize(s);
        if (what == 1) e = cudaDeviceSynchronize();
        if (what == 2) e = cudaMemcpy(&x, d, sizeof x, cudaMemcpyDeviceToHost);
        if (what == 3) e = cudaMalloc(&p, 4);
        if (what == 4) e = cudaFree(d);
        ck_assert(e == cudaErrorStreamCaptureUnsupported);
        ck_assert(cudaStreamEndCapture(s, &g) == cudaErrorStreamCaptureInvalidated && !g);
    }
    ck_assert(cudaStreamEndCapture(s, &g) == cudaErrorInvalidValue);
    cudaStreamDestroy(s);
    ck_assert(cudaFree(d) == cudaSuccess);
}
END_TEST

START_TEST(events_happen_in_stream_order)
{
    cudaStream_t s;
    cudaEvent_t a, b;
    float ms = -1;
    int *d = device(1);
    cudacpu_set_deferred(1);
    cudaStreamCreate(&s);
    cudaEventCreate(&a);
    cudaEventCreate(&b);
    ck_assert(cudaEventElapsedTime(&ms, a, b) == cudaErrorInvalidResourceHandle);
    cudaEventRecord(a, s);
    cudaMemsetAsync(d, 1, sizeof *d, s);
    cudaEventRecord(b, s);
    ck_assert(cudaEventElapsedTime(&ms, a, b) == cudaErrorNotReady);
    ck_assert(cudaEventSynchronize(b) == cudaSuccess);
    ck_assert_int_eq(first_of(d), 0x01010101);
    ck_assert(cudaEventElapsedTime(&ms, a, b) == cudaSuccess && ms >= 0);
    cudaEventDestroy(a);
    cudaEventDestroy(b);
    cudaStreamDestroy(s);
    cudaFree(d);
    cudacpu_reset();
}
END_TEST

START_TEST(the_device_describes_itself)
{
    cudaDeviceProp p;
    int n = 0;
    ck_assert(cudaGetDeviceCount(&n) == cudaSuccess && n == 1);
    ck_assert(cudaSetDevice(0) == cudaSuccess && cudaSetDevice(1) == cudaErrorInvalidDevice);
    cudacpu_set_processors(11);
    ck_assert(cudaGetDeviceProperties(&p, 0) == cudaSuccess);
    ck_assert_str_eq(p.name, "kvref CPU execution layer");
    ck_assert(p.multiProcessorCount == 11 && p.warpSize == 32 && p.totalGlobalMem > 1u << 20);
    ck_assert_str_eq(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
    ck_assert_str_eq(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    cudacpu_reset();
}
END_TEST

} /* namespace GPU_NAMESPACE */

int main(void)
{
    using namespace GPU_NAMESPACE;
    Suite *suite = suite_create("cudacpu_host");
    TCase *tc = tcase_create("cudacpu_host");
    tcase_add_test(tc, new_memory_is_aligned_and_reads_as_nan);
    tcase_add_test(tc, large_memory_is_resident_only_where_written);
    tcase_add_test(tc, memory_ends_at_the_limit_with_an_error_code);
    tcase_add_test(tc, deferred_streams_see_what_the_host_did_meanwhile);
    tcase_add_test(tc, kernel_arguments_are_taken_when_launched);
    tcase_add_test(tc, default_stream_waits_for_blocking_streams_alone);
    tcase_add_test(tc, graphs_replay_frozen_arguments_on_current_memory);
    tcase_add_test(tc, waiting_or_allocating_spoils_a_capture);
    tcase_add_test(tc, events_happen_in_stream_order);
    tcase_add_test(tc, the_device_describes_itself);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
