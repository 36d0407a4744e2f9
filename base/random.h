/* SPDX-License-Identifier: MIT */
/* The two generators behind kvref_noise, in raw 32-bit words. */
#ifndef KVREF_RANDOM_H
#define KVREF_RANDOM_H

#include <stdint.h>

typedef struct kvref_mt19937 {
    uint32_t state[624];
    int next; /* of state, 624: refill first */
} kvref_mt19937;

void kvref_mt19937_seed(kvref_mt19937 *mt, uint32_t seed);

/* Leaves out n outputs at the cost of the refills alone. */
void kvref_mt19937_skip(kvref_mt19937 *mt, int n);

uint32_t kvref_mt19937_next(kvref_mt19937 *mt);

/* Philox4x32 of ten rounds: word [4] from counter [4] and key [2]. */
void kvref_philox(uint32_t word[4], const uint32_t counter[4], const uint32_t key[2]);

#endif
