/* SPDX-License-Identifier: MIT */
/* float16 and bfloat16 bit patterns to and from float32.
 * Widening is exact. Narrowing rounds to nearest, ties to even; float16 overflows to infinity
 * from 65520 up and underflows gradually; a NaN stays a NaN (spec 01 section 6). */
#ifndef KVREF_HALF_H
#define KVREF_HALF_H

#include <stdint.h>
#include <string.h>

/* Marks small functions that CUDA kernels use too. */
#ifdef __CUDACC__
#define KVREF_HD __host__ __device__
#else
#define KVREF_HD
#endif

KVREF_HD static inline float kvref_bits_f32(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

KVREF_HD static inline uint32_t kvref_f32_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

KVREF_HD static inline float kvref_bf16_f32(uint16_t h)
{
    return kvref_bits_f32((uint32_t)h << 16);
}

KVREF_HD static inline uint16_t kvref_f32_bf16(float x)
{
    uint32_t u = kvref_f32_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

/* Exact for all 65536 patterns, subnormals, infinities and NaNs included. The magnitude bits
 * moved into place read as the value times 2^-112; the multiplication restores it exactly. */
KVREF_HD static inline float kvref_f16_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t rest = (uint32_t)(h & 0x7fffu) << 13;
    if (rest >= 0x0f800000u) return kvref_bits_f32(sign | 0x70000000u | rest);
    return kvref_bits_f32(sign | kvref_f32_bits(kvref_bits_f32(rest) * 0x1p112f));
}

KVREF_HD static inline uint16_t kvref_f32_f16(float x)
{
    uint32_t u = kvref_f32_bits(x);
    uint16_t sign = (uint16_t)((u >> 16) & 0x8000u);
    uint32_t mag = u & 0x7fffffffu;
    if (mag > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (mag >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (mag < 0x38800000u) { /* below 2^-14: the sum with 0.5 rounds at steps of 2^-24 */
        uint32_t sum = kvref_f32_bits(kvref_bits_f32(mag) + 0.5f);
        return (uint16_t)(sign | (sum - 0x3f000000u));
    }
    return (uint16_t)(sign | ((mag - 0x38000000u + 0xfffu + ((mag >> 13) & 1u)) >> 13));
}

#endif
