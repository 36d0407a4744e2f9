/* SPDX-License-Identifier: MIT */
/* MT19937 (Matsumoto and Nishimura 1998) as torch seeds it, and Philox4x32-10 (Salmon et al.
 * 2011). Constants: spec 04 section 5. */
#include "base/random.h"

enum { MT_N = 624, MT_M = 397 };

void kvref_mt19937_seed(kvref_mt19937 *mt, uint32_t seed)
{
    uint32_t *s = mt->state;
    s[0] = seed;
    for (uint32_t j = 1; j < MT_N; j++) s[j] = 1812433253u * (s[j - 1] ^ s[j - 1] >> 30) + j;
    mt->next = MT_N;
}

/* The successor of word i joins the top bit of s[i] with the rest of s[i+1]. */
static uint32_t twist(uint32_t upper, uint32_t lower, uint32_t far)
{
    uint32_t y = (upper & 0x80000000u) | (lower & 0x7fffffffu);
    return far ^ y >> 1 ^ (lower & 1u ? 0x9908b0dfu : 0);
}

static void refill(kvref_mt19937 *mt)
{
    uint32_t *s = mt->state;
    int i = 0;
    for (; i < MT_N - MT_M; i++) s[i] = twist(s[i], s[i + 1], s[i + MT_M]);
    for (; i < MT_N - 1; i++) s[i] = twist(s[i], s[i + 1], s[i + MT_M - MT_N]);
    s[i] = twist(s[i], s[0], s[MT_M - 1]);
    mt->next = 0;
}

void kvref_mt19937_skip(kvref_mt19937 *mt, int n)
{
    while (n > MT_N - mt->next) {
        n -= MT_N - mt->next;
        refill(mt);
    }
    mt->next += n;
}

uint32_t kvref_mt19937_next(kvref_mt19937 *mt)
{
    if (mt->next == MT_N) refill(mt);
    uint32_t y = mt->state[mt->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

void kvref_philox(uint32_t word[4], const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xd2511f53u * c0, b = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    word[0] = c0;
    word[1] = c1;
    word[2] = c2;
    word[3] = c3;
}
