/* SPDX-License-Identifier: MIT */
/* exp, log, sine and cosine with the same bits everywhere: every compiler, every instruction
 * set, host and CUDA. Only + - * / and integer operations on bits are used, in the order
 * written; fused multiply-add is avoided on purpose (SSE2 has none, and an emulated one is
 * slow). Must be compiled without contraction (-ffp-contract=off, nvcc -fmad=false).
 *
 *   function       largest error seen, over every 997th float32 (tests/test_fmath.c)
 *   kvref_expf     0.97 ulp; stated bound 1 ulp, gradual underflow included
 *   kvref_logf     0.5001 ulp; stated bound 0.501 ulp
 *   kvref_sincosf  0.5001 ulp for |x| < 2^20; stated bound 0.501 ulp
 *
 * NaN gives NaN. The coefficients were fitted or expanded for this file. */
#ifndef KVREF_FMATH_H
#define KVREF_FMATH_H

#include "kvref/half.h"

/* e^x. Range: e^x = 2^n e^r with n the integer nearest to x / ln 2, so |r| <= 0.3467. The
 * sum with 1.5 * 2^23 rounds to an integer and leaves it in the low bits. n * 0.693145752 is
 * exact (15 bits times 8). The polynomial is minimax in relative error of e^r (3.1e-9). 2^n is
 * applied in two factors, so results below 2^-126 are rounded once. No branches: a loop over
 * an array becomes vector code. Below -104 the result is 0, from 88.72284 up infinity. */
KVREF_HD static inline float kvref_expf(float x)
{
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    float t = x * 0x1.715476p+0f + 0x1.8p23f;
    float n = t - 0x1.8p23f;
    float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
    float q = 0x1.6a23dp-10f;
    q = q * r + 0x1.123a2p-7f;
    q = q * r + 0x1.5558f2p-5f;
    q = q * r + 0x1.555492p-3f;
    q = q * r + 0x1.fffffcp-2f;
    float y = 1.0f + (r + (r * r) * q);
    uint32_t i = kvref_f32_bits(t) + (150u << 1) - 0x4b400000u; /* n + 300, never negative */
    uint32_t half = (i >> 1) - 150u + 127u, rest = (i - (i >> 1)) - 150u + 127u;
    return y * kvref_bits_f32(half << 23) * kvref_bits_f32(rest << 23);
}

/* x / (1 + e^-x), the activation of the feed-forward part. */
KVREF_HD static inline float kvref_siluf(float x)
{
    return x / (1.0f + kvref_expf(-x));
}

KVREF_HD static inline double kvref_bits_f64(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

KVREF_HD static inline uint64_t kvref_f64_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Natural logarithm, in double and rounded once: x = 2^e m with m in [0.7, 1.41), then
 * log m = 2 (s + s^3/3 + s^5/5 + ...) with s = (m - 1) / (m + 1), |s| < 0.1716; the first
 * term left out is below 1e-13 of the sum. log 0 is minus infinity, log of a negative NaN. */
KVREF_HD static inline float kvref_logf(float x)
{
    if (x != x || x < 0.0f) return kvref_bits_f32(0x7fc00000u);
    if (x == 0.0f) return kvref_bits_f32(0xff800000u);
    if (kvref_f32_bits(x) == 0x7f800000u) return x;
    uint64_t bits = kvref_f64_bits((double)x);
    int e = (int)(bits >> 52) - 1023;
    double m = kvref_bits_f64((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    double s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = 1.0 / 15;
    p = p * z + 1.0 / 13;
    p = p * z + 1.0 / 11;
    p = p * z + 1.0 / 9;
    p = p * z + 1.0 / 7;
    p = p * z + 1.0 / 5;
    p = p * z + 1.0 / 3;
    return (float)((double)e * 0x1.62e42fefa39efp-1 + 2.0 * (s + s * z * p));
}

/* Sine and cosine of x, |x| < 2^20, in double and rounded once. pi/2 is taken off in three
 * parts of which the first two, of 33 bits, have exact multiples; then Taylor on |r| <= pi/4.
 */
KVREF_HD static inline void kvref_sincosf(float *sine, float *cosine, float x)
{
    double t = (double)x * 0x1.45f306dc9c883p-1 + 0x1.8p52;
    double k = t - 0x1.8p52;
    double r = ((double)x - k * 0x1.921fb544p+0) - k * 0x1.0b4611a6p-34;
    r -= k * 0x1.3198a2e037073p-69;
    double z = r * r;
    double s = -1.0 / 1307674368000.0; /* 1/15! */
    s = s * z + 1.0 / 6227020800.0;
    s = s * z - 1.0 / 39916800.0;
    s = s * z + 1.0 / 362880.0;
    s = s * z - 1.0 / 5040.0;
    s = s * z + 1.0 / 120.0;
    s = s * z - 1.0 / 6.0;
    s = r + r * z * s;
    double c = 1.0 / 20922789888000.0; /* 1/16! */
    c = c * z - 1.0 / 87178291200.0;
    c = c * z + 1.0 / 479001600.0;
    c = c * z - 1.0 / 3628800.0;
    c = c * z + 1.0 / 40320.0;
    c = c * z - 1.0 / 720.0;
    c = c * z + 1.0 / 24.0;
    c = 1.0 + z * (c * z - 0.5);
    unsigned quadrant = (unsigned)kvref_f64_bits(t) & 3u;
    double first = quadrant & 1u ? c : s, second = quadrant & 1u ? s : c;
    *sine = (float)(quadrant & 2u ? -first : first);
    *cosine = (float)(((quadrant + 1u) & 2u) ? -second : second);
}

#endif
