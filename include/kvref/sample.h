/* SPDX-License-Identifier: MIT */
/* From logits to a choice, and where the random numbers come from (spec 04). */
#ifndef KVREF_SAMPLE_H
#define KVREF_SAMPLE_H

#include "kvref/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvref_sampling {
    float temperature; /* 0 <= t < 2; 0 is greedy by rule: only rank 0 survives */
    float top_p;       /* 0 < p <= 1                                            */
    int top_k;         /* >= 0; 0 keeps only rank 0, as upstream                */
} kvref_sampling;

/* ARG with parameter, range and value when one is out of range or not a number. */
kvref_status kvref_sampling_check(const kvref_sampling *s, kvref_error *err);

/* Scratch that kvref_sample needs for n candidates. */
size_t kvref_sample_scratch(int n);

/* Probabilities p [n] after the filters: sort descending (stable, lower index first), softmax
 * without temperature, cut by inclusive cumulative sum > top_p or rank >= top_k (rank 0 always
 * stays), divide by max(temperature, 1e-5), softmax (spec 04 section 2; float32, cumulative sum
 * in float64 rounded to float32). Removed candidates get exactly 0. Logits of -infinity are
 * candidates that can never be chosen; a NaN, +infinity or no finite logit gives FORMAT,
 * settings out of range give ARG. scratch: kvref_sample_scratch(n) bytes, aligned as malloc
 * does. Allocates nothing. */
kvref_status kvref_sample_probs(float *p,
                                const float *logits,
                                int n,
                                const kvref_sampling *s,
                                void *scratch,
                                kvref_error *err);

/* argmax of p[i] / -ln(u[i]) over p[i] > 0, lowest index first; never an index of probability
 * 0 (spec 04 section 3). u [n] in [0, 1). */
int kvref_sample_draw(const float *p, const float *u, int n);

/* Where a set of numbers is asked for: the same address gives the same numbers in counter and
 * file noise; the mt19937 stream ignores it. */
typedef struct kvref_draw {
    int sample, frame;
    int set;              /* 0: a1, 1: a2 (the high-temperature draw), 1+i: book i */
    int n_set;            /* numbers the whole set has: V for sets 0 and 1, K else */
    const int32_t *index; /* [n] which of them are wanted, ascending; NULL: 0..n-1 */
    int n;
} kvref_draw;

/* A source of uniform numbers in [0, 1). */
typedef struct kvref_noise kvref_noise;

/* torch's CPU generator: MT19937 seeded with the low 32 bits, one output a number, modulo
 * 2^24 (spec 04 section 5.1). A set always consumes n_set outputs. */
kvref_status kvref_noise_mt19937(kvref_noise **out, uint64_t seed, kvref_error *err);

/* Philox4x32-10 by address: key = seed, counter = (index, set, frame, sample), word 0 >> 8
 * over 2^24. Any port can compute any number alone. */
kvref_status kvref_noise_counter(kvref_noise **out, uint64_t seed, kvref_error *err);

/* A float32 .npy [sample, frame, 2*n_main + (N-1)*n_code]: a1, a2 (candidates in ascending id
 * order), then books 1..N-1. The file stays mapped and is read where a draw asks for it: a
 * value outside [0, 1) is then FORMAT, a draw outside the file's samples or frames CAPACITY. */
kvref_status kvref_noise_file(kvref_noise **out,
                              const char *path,
                              int n_main,
                              int n_code,
                              int n_codebook,
                              kvref_error *err);

/* Fills u [draw->n]. */
kvref_status
kvref_noise_fill(kvref_noise *noise, float *u, const kvref_draw *draw, kvref_error *err);

void kvref_noise_close(kvref_noise **noise);

#ifdef __cplusplus
}
#endif
#endif
