/* SPDX-License-Identifier: MIT */
/* CUDA C++ for a plain C++17 compiler: what kernels may write, mapped to the execution layer.
 * Everything here is thin; the work is done out of line, in code that is never instrumented.
 * Not offered: __shared__ (GPU_SHARED), __activemask, __constant__, textures, cooperative
 * groups. */
#ifndef KVREF_GPU_CUDACPU_CUDACPU_H
#define KVREF_GPU_CUDACPU_CUDACPU_H

#include "gpu/cudacpu/api.h"
#include "gpu/cudacpu/types.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tuple>

#define __global__
#define __device__
#define __host__
#define __forceinline__        inline __attribute__((always_inline))
#define __launch_bounds__(...) /* registers do not exist here */

#define threadIdx (cudacpu::thread_index())
#define blockIdx  (cudacpu::block_index())
#define blockDim  (cudacpu::block_shape())
#define gridDim   (cudacpu::grid_shape())

namespace cudacpu
{

constexpr int warpSize = 32;

/* Constant while one thread of one block runs, hence as long as any function of it does. */
uint3 thread_index() __attribute__((const));
uint3 block_index() __attribute__((const));
uint3 block_shape() __attribute__((const));
uint3 grid_shape() __attribute__((const));

struct shared_slot {
    unsigned long long launch; /* in which launch the offset was given; 0: none */
    unsigned offset;
};
void *shared_static(shared_slot *slot,
                    size_t n_byte,
                    size_t align,
                    const char *name,
                    const char *file,
                    int line);
void *shared_dynamic();

/* ---- launches ---- */

struct launch_site {
    const char *kernel, *file;
    int line;
};

/* A kernel with its arguments, evaluated and converted once, where it was launched. */
struct call {
    void (*run)(const call *); /* one thread of it */
    size_t n_byte;             /* of the whole object, which may be copied as bytes */
};

void submit(const launch_site &site,
            dim3 grid,
            dim3 block,
            size_t shared_byte,
            cudaStream_t stream,
            const call *c);

template <class... P> struct call_of : call {
    void (*kernel)(P...);
    std::tuple<P...> args;

    static void run_one(const call *c)
    {
        const call_of *self = static_cast<const call_of *>(c);
        std::apply(self->kernel, self->args);
    }
};

template <class T> struct same {
    typedef T type;
};

/* Arguments are converted to the kernel's parameter types, as <<<>>> does. */
template <class... P>
inline void launch(const launch_site &site,
                   void (*kernel)(P...),
                   dim3 grid,
                   dim3 block,
                   size_t shared_byte,
                   cudaStream_t stream,
                   typename same<P>::type... args)
{
    static_assert((__is_trivially_copyable(P) && ...), "a kernel's parameters are plain data");
    call_of<P...> c{{call_of<P...>::run_one, sizeof c}, kernel, std::tuple<P...>(args...)};
    submit(site, grid, block, shared_byte, stream, &c);
}

/* ---- within a block ---- */

#define CUDACPU_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

enum warp_kind { WARP_SYNC, WARP_SHUFFLE, WARP_BALLOT, WARP_ANY, WARP_ALL };

void barrier(const char *file, int line);
uint64_t
warp_op(warp_kind kind, unsigned mask, uint64_t value, int source, const char *file, int line);
unsigned lane_id();

inline void __syncthreads(CUDACPU_SITE)
{
    barrier(file, line);
}

inline void __syncwarp(unsigned mask = 0xffffffffu, CUDACPU_SITE)
{
    warp_op(WARP_SYNC, mask, 0, 0, file, line);
}

template <class T> inline uint64_t to_word(T x)
{
    static_assert(sizeof(T) <= 8, "shuffles move up to 8 bytes");
    uint64_t w = 0;
    memcpy(&w, &x, sizeof x);
    return w;
}

template <class T> inline T from_word(uint64_t w)
{
    T x;
    memcpy(&x, &w, sizeof x);
    return x;
}

template <class T>
inline T __shfl_sync(unsigned mask, T x, int source, int width = warpSize, CUDACPU_SITE)
{
    int first = static_cast<int>(lane_id()) & ~(width - 1);
    int from = first | (source & (width - 1));
    return from_word<T>(warp_op(WARP_SHUFFLE, mask, to_word(x), from, file, line));
}

template <class T>
inline T __shfl_xor_sync(unsigned mask, T x, int flip, int width = warpSize, CUDACPU_SITE)
{
    int lane = static_cast<int>(lane_id()), from = lane ^ flip;
    if (from > (lane | (width - 1))) from = lane;
    return from_word<T>(warp_op(WARP_SHUFFLE, mask, to_word(x), from, file, line));
}

template <class T>
inline T __shfl_down_sync(unsigned mask, T x, unsigned step, int width = warpSize, CUDACPU_SITE)
{
    int lane = static_cast<int>(lane_id()), from = lane + static_cast<int>(step);
    if (from > (lane | (width - 1))) from = lane;
    return from_word<T>(warp_op(WARP_SHUFFLE, mask, to_word(x), from, file, line));
}

template <class T>
inline T __shfl_up_sync(unsigned mask, T x, unsigned step, int width = warpSize, CUDACPU_SITE)
{
    int lane = static_cast<int>(lane_id()), from = lane - static_cast<int>(step);
    if (from < (lane & ~(width - 1))) from = lane;
    return from_word<T>(warp_op(WARP_SHUFFLE, mask, to_word(x), from, file, line));
}

inline unsigned __ballot_sync(unsigned mask, int yes, CUDACPU_SITE)
{
    return static_cast<unsigned>(warp_op(WARP_BALLOT, mask, yes != 0, 0, file, line));
}

inline int __any_sync(unsigned mask, int yes, CUDACPU_SITE)
{
    return static_cast<int>(warp_op(WARP_ANY, mask, yes != 0, 0, file, line));
}

inline int __all_sync(unsigned mask, int yes, CUDACPU_SITE)
{
    return static_cast<int>(warp_op(WARP_ALL, mask, yes != 0, 0, file, line));
}

/* ---- atomics: threads run one at a time, so only the checks need them named ---- */

int atomicAdd(int *p, int x);
unsigned atomicAdd(unsigned *p, unsigned x);
unsigned long long atomicAdd(unsigned long long *p, unsigned long long x);
int atomicMax(int *p, int x);
unsigned atomicMax(unsigned *p, unsigned x);
unsigned long long atomicMax(unsigned long long *p, unsigned long long x);
int atomicMin(int *p, int x);
unsigned atomicMin(unsigned *p, unsigned x);
int atomicCAS(int *p, int expected, int x);
unsigned atomicCAS(unsigned *p, unsigned expected, unsigned x);
unsigned long long
atomicCAS(unsigned long long *p, unsigned long long expected, unsigned long long x);
int atomicExch(int *p, int x);
unsigned atomicExch(unsigned *p, unsigned x);

inline void __threadfence() {}
inline void __threadfence_block() {}

/* ---- small functions ---- */

template <class T> inline T __ldg(const T *p)
{
    return *p;
}
inline float __uint_as_float(unsigned u)
{
    return from_word<float>(u);
}
inline unsigned __float_as_uint(float x)
{
    return static_cast<unsigned>(to_word(x));
}
inline float __int_as_float(int u)
{
    return from_word<float>(static_cast<unsigned>(u));
}
inline int __float_as_int(float x)
{
    return static_cast<int>(__float_as_uint(x));
}
inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
inline int __clz(int x)
{
    return x ? __builtin_clz(static_cast<unsigned>(x)) : 32;
}
inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

#define CUDACPU_MIN_MAX(T)                                                                     \
    inline T min(T a, T b)                                                                     \
    {                                                                                          \
        return b < a ? b : a;                                                                  \
    }                                                                                          \
    inline T max(T a, T b)                                                                     \
    {                                                                                          \
        return a < b ? b : a;                                                                  \
    }
CUDACPU_MIN_MAX(int)
CUDACPU_MIN_MAX(unsigned)
CUDACPU_MIN_MAX(long)
CUDACPU_MIN_MAX(unsigned long)
CUDACPU_MIN_MAX(long long)
CUDACPU_MIN_MAX(unsigned long long)
#undef CUDACPU_MIN_MAX

} /* namespace cudacpu */

#endif
