/* SPDX-License-Identifier: MIT */
/* One layer of cache with queries, keys and values by class, and the formula in double. */
#ifndef KVREF_TESTS_SCENE_H
#define KVREF_TESTS_SCENE_H

#include "tests/world.h"

/* Everything is [rows, heads, E]. */
typedef struct scene {
    int n_head, n_kv, d_head, capacity, n_past, n_row;
    ref_kv kv;
    size_t n_byte;
    float *q, *k, *v, *out; /* q and out of n_row rows, k and v of n_past + n_row */
    ref_tools tools;
} scene;

/* Inputs by class: what scores and values look like. */
typedef enum scene_input {
    SCENE_NORMAL,
    SCENE_LARGE,
    SCENE_EQUAL,
    SCENE_ZERO,
    SCENE_DOMINANT,
    SCENE_HUGE_VALUES,
    SCENE_N_INPUT
} scene_input;

void scene_open(scene *s,
                int n_head,
                int n_kv,
                int d_head,
                int capacity,
                int n_past,
                int n_row,
                scene_input kind);
void scene_close(scene *s);

/* Floats of the result. */
size_t scene_size(const scene *s);

/* Runs one form; the result is in s->out, of which 8 guard cells must survive. */
const float *scene_run(scene *s, ref_attention *form);

/* To be freed. */
float *scene_copy(const float *x, size_t n);

/* Largest error against the formula in double, as a share of the limit: rounding a score of
 * size s moves its weight by u s, and the values by that share of the largest. */
double scene_share(const scene *s, const float *out);

#endif
