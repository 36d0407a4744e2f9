/* SPDX-License-Identifier: MIT */
/* Two device arrays and a comparison, for the planted faults. */
#ifndef KVREF_TESTS_CUDACPU_RIG_H
#define KVREF_TESTS_CUDACPU_RIG_H

#include "gpu/runtime.h"

#include "gpu/cudacpu/control.h"

namespace GPU_NAMESPACE
{

static int *dev, *dev_in; /* 1024 ints each: -1, and 0, 1, 2, ... */

static inline void begin()
{
    int in[1024];
    for (int i = 0; i < 1024; i++) in[i] = i;
    cudaMalloc(&dev, sizeof in);
    cudaMalloc(&dev_in, sizeof in);
    cudaMemset(dev, 0xff, sizeof in);
    cudaMemcpy(dev_in, in, sizeof in, cudaMemcpyHostToDevice);
}

/* Compares dev[0..n) with f(i), frees. */
template <class F> static int end(int n, F f)
{
    int out[1024], right = 1;
    cudaMemcpy(out, dev, sizeof out, cudaMemcpyDeviceToHost);
    cudaDeviceSynchronize();
    for (int i = 0; i < n; i++) right = right && out[i] == f(i);
    cudacpu_allow_all();
    cudaFree(dev);
    cudaFree(dev_in);
    return right;
}

static inline int anything(int)
{
    return -1;
}

} /* namespace GPU_NAMESPACE */

#endif
