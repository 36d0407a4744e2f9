/* SPDX-License-Identifier: MIT */
/* For tests of kernels on the CPU execution layer: arrays on the device between guards, input
 * classes, and the order of summation written out from gpu/gpu.h. C++17. */
#ifndef KVREF_TESTS_GPU_HOST_H
#define KVREF_TESTS_GPU_HOST_H

#include "gpu/cudacpu/control.h"
#include "gpu/gpu.h"
#include "kvref/limits.h"
#include "tests/support.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

using namespace GPU_NAMESPACE;

typedef std::vector<gpu_half> halves;

/* A NaN that no kernel makes: what was never written, and what must not be. */
const gpu_half poison = 0x7e5a;

/* A copy of a vector on the device, preceded and followed by poison that nothing may touch (the
 * race build reports even a read). */
template <class T> class on_device
{
  public:
    explicit on_device(const std::vector<T> &from) : n(from.size())
    {
        std::vector<T> all(n + 2 * N_GUARD);
        fill(&all);
        if (n > 0) memcpy(&all[N_GUARD], from.data(), n * sizeof(T));
        ck_assert(cudaMalloc(&place, all.size() * sizeof(T)) == cudaSuccess);
        copy(place, all.data(), all.size(), cudaMemcpyHostToDevice);
        guard(cudacpu_forbid);
    }
    ~on_device()
    {
        cudaFree(place);
    }
    on_device(const on_device &) = delete;
    on_device &operator=(const on_device &) = delete;

    T *at(size_t i = 0) const
    {
        return place + N_GUARD + i;
    }
    /* The values, after a look at the guards. */
    std::vector<T> values() const
    {
        std::vector<T> all(n + 2 * N_GUARD), fresh(n + 2 * N_GUARD);
        guard(cudacpu_allow);
        copy(all.data(), place, all.size(), cudaMemcpyDeviceToHost);
        guard(cudacpu_forbid);
        fill(&fresh);
        ck_assert(memcmp(all.data(), fresh.data(), N_GUARD * sizeof(T)) == 0);
        ck_assert(memcmp(&all[N_GUARD + n], fresh.data(), N_GUARD * sizeof(T)) == 0);
        return std::vector<T>(all.begin() + N_GUARD, all.end() - N_GUARD);
    }

  private:
    static const size_t N_GUARD = 32;
    T *place = nullptr;
    size_t n;

    void guard(void (*f)(const void *, size_t)) const
    {
        f(place, N_GUARD * sizeof(T));
        f(place + N_GUARD + n, N_GUARD * sizeof(T));
    }
    static void fill(std::vector<T> *all)
    {
        for (size_t i = 0; i < all->size() * sizeof(T) / 2; i++)
            memcpy(reinterpret_cast<char *>(all->data()) + 2 * i, &poison, 2);
    }
    static void copy(T *to, const T *from, size_t n_value, cudaMemcpyKind kind)
    {
        ck_assert(cudaMemcpy(to, from, n_value * sizeof(T), kind) == cudaSuccess);
    }
};

enum input_class {
    NOISE,
    LARGE,
    ZEROS,
    DOMINANT,  /* one value far above the others                */
    OVERFLOWS, /* of one sign; sums of products around the largest */
    SUBNORMAL, /* multiples of 2^-24                            */
    CANCELS,   /* times MIRRORED: what is left of a sum is its rounding, so its order shows */
    MIRRORED,
    SPECIAL, /* noise with an infinity and a NaN              */
    N_CLASS
};

inline const char *class_name(int c)
{
    static const char *const name[] = {"noise",
                                       "large",
                                       "zeros",
                                       "dominant",
                                       "overflows",
                                       "subnormal",
                                       "cancels",
                                       "mirrored",
                                       "special"};
    return name[c];
}

/* Even noise in [-1, 1). */
inline float noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return static_cast<float>(*seed >> 8) * 0x1p-23f - 1.0f;
}

/* n_row rows of n values of a class with pad places of zeros, [n_row, gpu_pad(n)]. */
inline halves rows_of(int c, int n_row, int n, uint32_t seed)
{
    size_t n_place = static_cast<size_t>(gpu_pad(n));
    halves h(static_cast<size_t>(n_row) * n_place, 0);
    for (int r = 0; r < n_row; r++)
        for (int i = 0; i < n; i++) {
            float u = noise(&seed), x = u;
            if (c == LARGE || c == CANCELS || c == MIRRORED) x = 100 * u;
            if (c == ZEROS) x = u < 0 ? -0.0f : 0.0f;
            if (c == DOMINANT) x = i == (5 * r + 3) % n ? 2000.0f : 1e-3f * u;
            if (c == OVERFLOWS)
                x = sqrtf(65504.0f / static_cast<float>(n)) * (1.0f + 0.25f * u);
            if (c == SUBNORMAL) x = u * 0x1p-15f;
            if (c == SPECIAL && i == (7 * r + 2) % n) x = r % 2 ? INFINITY : NAN;
            size_t at = static_cast<size_t>(r) * n_place + static_cast<size_t>(i);
            h[at] = gpu_f16(x);
            if ((c != CANCELS && c != MIRRORED) || i < n / 2) continue;
            gpu_half other = h[at - static_cast<size_t>(2 * i + 1 - n)];
            if (c == MIRRORED) h[at] = other;
            if (c == CANCELS) h[at] = 2 * i + 1 == n ? gpu_half(0) : gpu_half(other ^ 0x8000u);
        }
    return h;
}

/* The class of x that brings out what a class of w is for. */
inline int partner(int c)
{
    return c == SUBNORMAL ? NOISE : c == CANCELS ? MIRRORED : c;
}

inline float round16(float x)
{
    return gpu_f32(gpu_f16(x));
}

/* sum of a[i] b[i] in the order of gpu.h. */
inline float dot_in_order(const gpu_half *a, const gpu_half *b, int n)
{
    float lane[32] = {};
    for (int i = 0; i < n; i++) lane[i / 8 % 32] += gpu_f32(a[i]) * gpu_f32(b[i]);
    for (int m = 16; m > 0; m /= 2)
        for (int l = 0; l < m; l++) lane[l] += lane[l + m];
    return lane[0];
}

/* Every bit as expected; a NaN for a NaN, but poison only for poison. */
inline void same_bits(const halves &got, const halves &want, const char *what)
{
    ck_assert(got.size() == want.size());
    for (size_t i = 0; i < got.size(); i++) {
        bool numberless = std::isnan(gpu_f32(got[i])) && std::isnan(gpu_f32(want[i])) &&
                          got[i] != poison && want[i] != poison;
        ck_assert_msg(got[i] == want[i] || numberless,
                      "%s: value %zu is %04x (%g), expected %04x (%g)",
                      what,
                      i,
                      static_cast<unsigned>(got[i]),
                      static_cast<double>(gpu_f32(got[i])),
                      static_cast<unsigned>(want[i]),
                      static_cast<double>(gpu_f32(want[i])));
    }
}

/* Largest share of a limit used so far. A value without a limit must be as expected. */
struct share {
    double used = 0;

    void add(double got, double want, double limit)
    {
        double u = got == want ? 0 : std::fabs(got - want) / limit;
        if (!(u <= used)) used = u;
    }
};

/* Limit T1 of a sum y of n products, all of one sign or not, and half of the smallest step. */
inline double limit_t1(int n, bool one_sign, double sum_abs, double y)
{
    return kvref_t1(one_sign ? double(n) * n : n, sum_abs, y, KVREF_U_F16) + 0x1p-25;
}

#endif
