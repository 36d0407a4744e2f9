/* SPDX-License-Identifier: MIT */
/* The one device, errors by name, and atomics. */
#include "gpu/cudacpu/engine.h"

#include <stdio.h>

namespace cudacpu
{
using namespace cudacpu_engine;

struct error_row {
    cudaError_t code;
    const char *name, *text;
};

static const error_row error_rows[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration,
     "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidDevicePointer, "cudaErrorInvalidDevicePointer", "invalid device pointer"},
    {cudaErrorInvalidMemcpyDirection,
     "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver,
     "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle,
     "cudaErrorInvalidResourceHandle",
     "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported,
     "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated,
     "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureUnmatched,
     "cudaErrorStreamCaptureUnmatched",
     "capture was not initiated in this stream"},
};

static const error_row *find_row(cudaError_t e)
{
    for (const error_row &r : error_rows)
        if (r.code == e) return &r;
    return nullptr;
}

const char *cudaGetErrorString(cudaError_t e)
{
    const error_row *r = find_row(e);
    return r ? r->text : "unknown error";
}

const char *cudaGetErrorName(cudaError_t e)
{
    const error_row *r = find_row(e);
    return r ? r->name : "cudaErrorUnknown";
}

cudaError_t cudaGetLastError()
{
    return take_error();
}

cudaError_t cudaPeekAtLastError()
{
    return peek_error();
}

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    return device == 0 ? cudaSuccess : note_error(cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device)
{
    if (!p) return note_error(cudaErrorInvalidValue);
    if (device != 0) return note_error(cudaErrorInvalidDevice);
    size_t n_free;
    *p = {};
    snprintf(p->name, sizeof p->name, "kvref CPU execution layer");
    cudaMemGetInfo(&n_free, &p->totalGlobalMem);
    p->sharedMemPerBlock = p->sharedMemPerBlockOptin = SHARED_LIMIT;
    p->sharedMemPerMultiprocessor = 64 << 10;
    p->regsPerBlock = 65536;
    p->warpSize = warpSize;
    p->maxThreadsPerBlock = MAX_THREAD;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = MAX_THREAD;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->major = 7;
    p->multiProcessorCount = set.n_processor;
    p->maxThreadsPerMultiProcessor = 2 * MAX_THREAD;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 0;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = 0;
    return cudaSuccess;
}

template <class T, class F> static T change(T *p, F f)
{
    if (check) check->atomic(p, sizeof *p);
    T old = *p;
    *p = f(old);
    return old;
}

#define ADD(T)                                                                                 \
    T atomicAdd(T *p, T x)                                                                     \
    {                                                                                          \
        return change(p, [x](T old) { return static_cast<T>(old + x); });                      \
    }
#define MAX(T)                                                                                 \
    T atomicMax(T *p, T x)                                                                     \
    {                                                                                          \
        return change(p, [x](T old) { return old < x ? x : old; });                            \
    }
#define MIN(T)                                                                                 \
    T atomicMin(T *p, T x)                                                                     \
    {                                                                                          \
        return change(p, [x](T old) { return x < old ? x : old; });                            \
    }
#define CAS(T)                                                                                 \
    T atomicCAS(T *p, T expected, T x)                                                         \
    {                                                                                          \
        return change(p, [expected, x](T old) { return old == expected ? x : old; });          \
    }
#define EXCH(T)                                                                                \
    T atomicExch(T *p, T x)                                                                    \
    {                                                                                          \
        return change(p, [x](T) { return x; });                                                \
    }

int atomicAdd(int *p, int x) /* wraps, as the hardware does */
{
    return change(p, [x](int old) {
        return static_cast<int>(static_cast<unsigned>(old) + static_cast<unsigned>(x));
    });
}
ADD(unsigned)
ADD(unsigned long long)
MAX(int)
MAX(unsigned)
MAX(unsigned long long)
MIN(int)
MIN(unsigned)
CAS(int)
CAS(unsigned)
CAS(unsigned long long)
EXCH(int)
EXCH(unsigned)

} /* namespace cudacpu */

extern "C" int cudacpu_is_race_build(void)
{
    return cudacpu_engine::check != nullptr;
}
