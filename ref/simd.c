/* SPDX-License-Identifier: MIT */
/* The loops of lanes.h compiled for several instruction sets; the best that this CPU has is
 * chosen when a decoder is opened. All give the same bits (tests/test_linear.c).
 *
 * What differs is the width W, how 16-bit weights become float32, and how many dot products run
 * side by side: as many as the registers hold. Notice that nothing here says -march: one
 * program holds all three, and a CPU without AVX never meets an instruction of it. */
#include "ref/ref.h"

#include <string.h>

_Static_assert(REF_GROUP == 1, "lanes.h takes neighbours to different lanes");

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

#ifdef __clang__ /* clang unrolls loops of constant length by itself */
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Four floats at a time: SSE2, NEON, or whatever the compiler makes of it. */
typedef uint16_t four_half __attribute__((vector_size(8), aligned(1), may_alias));
typedef float four __attribute__((vector_size(16)));

static inline __attribute__((always_inline)) four widen_four(const char *p)
{
    uint16_t h[4];
    memcpy(h, p, sizeof h);
    return (four){
        kvref_f16_f32(h[0]), kvref_f16_f32(h[1]), kvref_f16_f32(h[2]), kvref_f16_f32(h[3])};
}

#define W       4
#define NAME(x) x##_base
#define TARGET
#define BITS16(p) __builtin_convertvector(*(const four_half *)(p), bits_base)
#define HALF(p)   widen_four(p)
#define ROWS      2
#define TILE_W    2
#define TILE_X    1
#include "ref/lanes.h"

static const ref_simd base = {"base", product_base, widen_base, mix_base};

#ifdef __x86_64__

/* 16 registers of 8 floats: 4 x 2 or 2 x 2 x 2 of them are lanes, the rest hold w and x. */
#define W         8
#define NAME(x)   x##_avx2
#define TARGET    __attribute__((target("avx2,f16c")))
#define BITS16(p) _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p)))
#define HALF(p)   _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p)))
#define ROWS      4
#define TILE_W    2
#define TILE_X    2
#include "ref/lanes.h"

/* 32 registers of 16 floats: one is a whole set of lanes, 4 x 4 of them make a tile. */
#define W         16
#define NAME(x)   x##_avx512
#define TARGET    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define BITS16(p) _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(p)))
#define HALF(p)   _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p)))
#define ROWS      4
#define TILE_W    4
#define TILE_X    4
#include "ref/lanes.h"

static const ref_simd avx2 = {"avx2", product_avx2, widen_avx2, mix_avx2};
static const ref_simd avx512 = {"avx512", product_avx512, widen_avx512, mix_avx512};

#endif

#ifdef __x86_64__
/* AVX2 does not imply F16C: a hypervisor may show a guest the one without the other. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

int ref_simd_list(const ref_simd *list[REF_MAX_SIMD])
{
    int n = 0;
    list[n++] = &base;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && has_f16c()) list[n++] = &avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        list[n++] = &avx512;
#endif
    return n;
}

const ref_simd *ref_simd_best(void)
{
    const ref_simd *list[REF_MAX_SIMD];
    return list[ref_simd_list(list) - 1];
}
