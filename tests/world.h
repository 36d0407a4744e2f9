/* SPDX-License-Identifier: MIT */
/* Small models and inputs in memory, for tests of ref/ that need no checkpoint. */
#ifndef KVREF_TESTS_WORLD_H
#define KVREF_TESTS_WORLD_H

#include "ref/ref.h"

/* A model made of noise, the same values in every dtype. */
typedef struct world {
    kvref_config config;
    kvref_weights weights;
    void **block;
    int n_block;
} world;

/* The next value of a fixed sequence, -1 .. 1. */
float world_noise(uint32_t *state);

/* n such values in fresh memory, times scale; at least 1 element is allocated. */
float *world_floats(size_t n, float scale, uint32_t seed);

/* "tiny": 2 slow layers, 1 fast layer, width 64, heads 4/2 of 16, 3 codebooks of 32, 128
 * tokens, 32 positions, like S2-Pro. "odd": no two sizes equal, H*E != D, biases, untied head,
 * projection, norms in the fast part, hidden before the norm. */
kvref_config world_tiny(void);
kvref_config world_odd(void);

/* Weights for a config. misalign bytes are put before every matrix. */
void world_open(world *w, const kvref_config *config, kvref_dtype dtype, size_t misalign);
void world_close(world *w);

/* A decoder on w; one thread unless opts says otherwise. */
kvref_decoder *world_decoder(const world *w, kvref_decoder_opts opts);

/* n frames [n, 1+N]: text and audio mixed, all in range. To be freed. */
int32_t *world_frames(const kvref_config *config, int n, uint32_t seed);

/* Tools for single operations: rows up to `widest`, attention scratch of `score` floats. */
void world_tools(
    ref_tools *tools, const ref_simd *simd, int n_thread, int widest, size_t score);
void world_tools_close(ref_tools *tools);

/* How many of n floats differ in their bits. */
size_t world_differ(const float *a, const float *b, size_t n);

#endif
