/* SPDX-License-Identifier: MIT */
/* The CPU execution layer does what CUDA says: indices, barriers, warp operations, shared
 * memory, whatever the order. Each kernel is checked against the definition written out on the
 * host. */
#include "gpu/runtime.h"

#include "gpu/cudacpu/control.h"
#include "tests/support.h"

#include <math.h>

namespace GPU_NAMESPACE
{

struct place {
    uint3 thread, block;
    unsigned written, first_of_warp;
};

__global__ void places(place *out)
{
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    place *p = &out[block * (blockDim.x * blockDim.y * blockDim.z) + thread];
    p->thread = threadIdx;
    p->block = blockIdx;
    p->written = 1;
    p->first_of_warp = __shfl_sync(thread < 32 ? 0xffffffffu : 0x0fffffffu, thread, 0);
}

/* Inclusive sums by doubling steps: wrong if any barrier is missing or any order matters. */
__global__ void scan(int *out, const int *in)
{
    GPU_SHARED(int, s, 256);
    int t = static_cast<int>(threadIdx.x);
    s[t] = in[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        int add = t >= step ? s[t - step] : 0;
        __syncthreads();
        s[t] += add;
        __syncthreads();
    }
    out[blockIdx.x * 256 + threadIdx.x] = s[t];
}

enum { XOR, DOWN, UP, INDEX };

/* out[width index][step][lane] for one kind of shuffle. */
__global__ void shuffles(int *out, int kind)
{
    int lane = static_cast<int>(threadIdx.x), row = 0;
    for (int width = 1; width <= 32; width *= 2)
        for (int step = 0; step < 32; step++, row++) {
            int got = 0, x = 100 + lane;
            unsigned u = static_cast<unsigned>(step);
            if (kind == XOR) got = __shfl_xor_sync(0xffffffffu, x, step, width);
            if (kind == DOWN) got = __shfl_down_sync(0xffffffffu, x, u, width);
            if (kind == UP) got = __shfl_up_sync(0xffffffffu, x, u, width);
            if (kind == INDEX) got = __shfl_sync(0xffffffffu, x, step, width);
            out[row * 32 + lane] = got;
        }
}

/* Each lane votes with bit (lane) of a pattern; the halves meet on their own. */
__global__ void votes(unsigned *out, unsigned pattern)
{
    unsigned lane = threadIdx.x % 32, mask = lane < 16 ? 0x0000ffffu : 0xffff0000u;
    int yes = static_cast<int>(pattern >> lane & 1);
    out[threadIdx.x * 4 + 0] = __ballot_sync(0xffffffffu, yes);
    if (lane < 16)
        out[threadIdx.x * 4 + 1] = __ballot_sync(mask, yes);
    else
        out[threadIdx.x * 4 + 1] = __ballot_sync(mask, yes);
    out[threadIdx.x * 4 + 2] = static_cast<unsigned>(__any_sync(0xffffffffu, yes));
    out[threadIdx.x * 4 + 3] = static_cast<unsigned>(__all_sync(0xffffffffu, yes));
}

__global__ void arrivals(unsigned *order, unsigned *count, bool wait)
{
    if (wait) __syncthreads();
    order[atomicAdd(count, 1u)] = blockIdx.x * blockDim.x + threadIdx.x;
}

template <int N> __global__ void own_shared(uint32_t *out)
{
    GPU_SHARED(uint16_t, first, N);
    GPU_SHARED(float4, second, 2);
    GPU_DYN_SHARED(uint32_t, dynamic);
    if (threadIdx.x == 0) {
        uint32_t *row = &out[blockIdx.x * 6];
        row[0] = first[N - 1];
        row[1] = __float_as_uint(second[1].w);
        row[2] = dynamic[3];
        row[3] = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(second) % 16);
        row[4] = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(dynamic) % 16);
        row[5] = sizeof first;
        first[N - 1] = 7;
        second[1].w = 7;
        dynamic[3] = 7;
    }
}

__global__ void nothing() {}

/* Runs f under both plain orders and 20 seeds. */
template <class F> static void in_every_order(F f)
{
    for (uint64_t seed = 0; seed < 22; seed++) {
        cudacpu_set_order(seed == 0   ? CUDACPU_ASCENDING
                          : seed == 1 ? CUDACPU_DESCENDING
                                      : CUDACPU_SEEDED,
                          seed);
        f();
    }
    cudacpu_reset();
}

template <class T> static T *device(size_t n)
{
    T *p = nullptr;
    ck_assert(cudaMalloc(&p, n * sizeof(T)) == cudaSuccess);
    return p;
}

template <class T> static void fetch(T *to, const T *from, size_t n)
{
    ck_assert(cudaMemcpy(to, from, n * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
}

START_TEST(every_thread_sees_its_own_indices)
{
    enum { N = 3 * 2 * 2 * 5 * 4 * 3 };
    static place seen[N];
    place *d = device<place>(N);
    in_every_order([d] {
        cudaMemset(d, 0, sizeof seen);
        GPU_LAUNCH(places, dim3(3, 2, 2), dim3(5, 4, 3), 0, nullptr, d);
        fetch(seen, d, N);
        for (unsigned i = 0; i < N; i++) {
            unsigned t = i % 60, b = i / 60;
            ck_assert_uint_eq(seen[i].written, 1);
            ck_assert_uint_eq(seen[i].first_of_warp, t / 32 * 32);
            ck_assert_uint_eq(seen[i].thread.x + 5 * (seen[i].thread.y + 4 * seen[i].thread.z),
                              t);
            ck_assert_uint_eq(seen[i].block.x + 3 * (seen[i].block.y + 2 * seen[i].block.z), b);
        }
    });
    cudaFree(d);
}
END_TEST

START_TEST(barriers_order_shared_memory)
{
    static int in[512], out[512];
    int *a = device<int>(512), *b = device<int>(512);
    for (int i = 0; i < 512; i++) in[i] = i * i % 91 - 40;
    cudaMemcpy(a, in, sizeof in, cudaMemcpyHostToDevice);
    in_every_order([a, b] {
        GPU_LAUNCH(scan, 2, 256, 0, nullptr, b, a);
        fetch(out, b, 512);
        for (int i = 0, sum = 0; i < 512; i++) {
            sum = (i % 256 ? sum : 0) + in[i];
            ck_assert_int_eq(out[i], sum);
        }
    });
    cudaFree(a);
    cudaFree(b);
}
END_TEST

static int shuffled(int kind, int lane, int step, int width)
{
    int low = lane / width * width, high = low + width - 1, from = lane;
    if (kind == XOR && (lane ^ step) <= high) from = lane ^ step;
    if (kind == DOWN && lane + step <= high) from = lane + step;
    if (kind == UP && lane - step >= low) from = lane - step;
    if (kind == INDEX) from = low + step % width;
    return 100 + from;
}

START_TEST(shuffles_are_those_of_the_definition)
{
    enum { N = 6 * 32 * 32 };
    static int out[N];
    int *d = device<int>(N);
    for (int kind = XOR; kind <= INDEX; kind++)
        in_every_order([d, kind] {
            GPU_LAUNCH(shuffles, 1, 32, 0, nullptr, d, kind);
            fetch(out, d, N);
            for (int i = 0; i < N; i++)
                ck_assert_msg(out[i] == shuffled(kind, i % 32, i / 32 % 32, 1 << i / 1024),
                              "kind %d lane %d step %d width %d",
                              kind,
                              i % 32,
                              i / 32 % 32,
                              1 << i / 1024);
        });
    cudaFree(d);
}
END_TEST

START_TEST(votes_count_the_lanes_of_their_mask)
{
    static unsigned out[64 * 4];
    const unsigned patterns[] = {0, 1, 0x80000000u, 0x12345678u, 0xffffffffu};
    unsigned *d = device<unsigned>(64 * 4);
    for (unsigned p : patterns)
        in_every_order([d, p] {
            GPU_LAUNCH(votes, 1, 64, 0, nullptr, d, p);
            fetch(out, d, 64 * 4);
            for (int t = 0; t < 64; t++) {
                ck_assert_uint_eq(out[t * 4], p);
                ck_assert_uint_eq(out[t * 4 + 1], p & (t % 32 < 16 ? 0xffffu : 0xffff0000u));
                ck_assert_uint_eq(out[t * 4 + 2], p != 0);
                ck_assert_uint_eq(out[t * 4 + 3], p == 0xffffffffu);
            }
        });
    cudaFree(d);
}
END_TEST

/* The order in which 4 x 64 threads came past, as a hash; every thread came once. */
static uint64_t order_seen(unsigned *d, bool wait)
{
    unsigned seen[257];
    uint64_t hash = 0;
    bool came[256] = {};
    cudaMemset(d, 0, sizeof seen);
    GPU_LAUNCH(arrivals, 4, 64, 0, nullptr, d + 1, d, wait);
    fetch(seen, d, 257);
    for (int i = 0; i < 256; i++) {
        ck_assert(seen[i + 1] < 256 && !came[seen[i + 1]]);
        came[seen[i + 1]] = true;
        hash = hash * 1099511628211u + seen[i + 1];
    }
    return hash;
}

START_TEST(orders_are_what_they_say_and_repeat)
{
    unsigned seen[257], *d = device<unsigned>(257);
    for (int wait = 0; wait < 2; wait++) {
        cudacpu_set_order(CUDACPU_ASCENDING, 0);
        order_seen(d, wait);
        fetch(seen, d, 257);
        for (unsigned i = 0; i < 256; i++) ck_assert_uint_eq(seen[i + 1], i);
        cudacpu_set_order(CUDACPU_DESCENDING, 0);
        order_seen(d, wait);
        fetch(seen, d, 257);
        for (unsigned i = 0; i < 256; i++) ck_assert_uint_eq(seen[i + 1], 255 - i);
        uint64_t hash[20];
        for (uint64_t s = 0; s < 20; s++) {
            cudacpu_set_order(CUDACPU_SEEDED, s);
            cudacpu_reset_counts();
            hash[s] = order_seen(d, wait);
            cudacpu_reset_counts();
            ck_assert(order_seen(d, wait) == hash[s]);
            for (uint64_t r = 0; r < s; r++) ck_assert(hash[r] != hash[s]);
        }
    }
    cudacpu_reset();
    cudaFree(d);
}
END_TEST

static void check_own_shared(uint32_t *d, uint32_t n_byte)
{
    uint32_t row[24];
    fetch(row, d, 24);
    for (int b = 0; b < 4; b++) {
        ck_assert_uint_eq(row[6 * b], 0xffff);
        ck_assert_uint_eq(row[6 * b + 1], 0xffffffffu);
        ck_assert_uint_eq(row[6 * b + 2], 0xffffffffu);
        ck_assert_uint_eq(row[6 * b + 3], 0);
        ck_assert_uint_eq(row[6 * b + 4], 0);
        ck_assert_uint_eq(row[6 * b + 5], n_byte);
    }
}

static size_t last_shared;
static void note_launch(void *, const cudacpu_launch *l)
{
    last_shared = l->shared_byte;
}

START_TEST(every_block_and_instance_has_fresh_shared_memory)
{
    uint32_t *d = device<uint32_t>(24);
    if (cudacpu_is_race_build()) return; /* it would report the look at fresh memory */
    cudacpu_set_launch_hook(note_launch, nullptr);
    GPU_LAUNCH((own_shared<5>), 4, 33, 16, nullptr, d);
    check_own_shared(d, 10);
    ck_assert_uint_eq(last_shared, 16 + 10 + 32);
    GPU_LAUNCH((own_shared<24000>), 4, 33, 16, nullptr, d);
    check_own_shared(d, 48000);
    ck_assert_uint_eq(last_shared, 16 + 48000 + 32);
    cudacpu_reset();
    cudaFree(d);
}
END_TEST

START_TEST(impossible_launches_are_refused_as_cuda_does)
{
    cudacpu_reset_counts();
    GPU_LAUNCH(nothing, 1, 1025, 0, nullptr);
    ck_assert(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
    ck_assert(cudaGetLastError() == cudaErrorInvalidConfiguration);
    ck_assert(cudaGetLastError() == cudaSuccess);
    GPU_LAUNCH(nothing, 0, 1, 0, nullptr);
    ck_assert(cudaGetLastError() == cudaErrorInvalidConfiguration);
    GPU_LAUNCH(nothing, dim3(1, 65536), 1, 0, nullptr);
    ck_assert(cudaGetLastError() == cudaErrorInvalidConfiguration);
    GPU_LAUNCH(nothing, 1, dim3(1, 1, 65), 0, nullptr);
    ck_assert(cudaGetLastError() == cudaErrorInvalidConfiguration);
    GPU_LAUNCH(nothing, 1, 1, (48 << 10) + 1, nullptr);
    ck_assert(cudaGetLastError() == cudaErrorInvalidValue);
    ck_assert(cudacpu_get_counts().n_launch == 0);
    GPU_LAUNCH(nothing, 1, 1024, 48 << 10, nullptr);
    GPU_LAUNCH(nothing, dim3(2, 65535), 4, 0, nullptr);
    ck_assert(cudaGetLastError() == cudaSuccess);
    ck_assert(cudacpu_get_counts().n_block == 1 + 2 * 65535);
}
END_TEST

} /* namespace GPU_NAMESPACE */

int main(void)
{
    using namespace GPU_NAMESPACE;
    Suite *suite = suite_create("cudacpu");
    TCase *tc = tcase_create("cudacpu");
    tcase_add_test(tc, every_thread_sees_its_own_indices);
    tcase_add_test(tc, barriers_order_shared_memory);
    tcase_add_test(tc, shuffles_are_those_of_the_definition);
    tcase_add_test(tc, votes_count_the_lanes_of_their_mask);
    tcase_add_test(tc, orders_are_what_they_say_and_repeat);
    tcase_add_test(tc, every_block_and_instance_has_fresh_shared_memory);
    tcase_add_test(tc, impossible_launches_are_refused_as_cuda_does);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
