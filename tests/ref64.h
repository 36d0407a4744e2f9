/* SPDX-License-Identifier: MIT */
/* The decoder in double, by loops over the formulas of spec 02 and 03 and nothing else: it
 * shares no code with ref/ or gpu/, and rounds nothing. The rotation table and the weights are
 * inputs, so they are those of the decoder under test. Errors abort the test. */
#ifndef KVREF_TESTS_REF64_H
#define KVREF_TESTS_REF64_H

#include "kvref/backend.h"

/* As kvref_tap_data, in double: the same names, axes, levels and order. */
typedef struct ref64_data {
    const char *name;
    int layer, first, n_row, head, width;
    const double *x; /* [n_row, width] */
} ref64_data;

typedef struct ref64_opts {
    int capacity;
    kvref_rope_table rope_table;
    bool half_table; /* the bfloat16 table is converted to float16, as float16 models do */
    kvref_tap_level level;
    void (*fn)(void *user, const ref64_data *data);
    void *user;
} ref64_opts;

typedef struct ref64 ref64;

/* Borrows config and weights. */
ref64 *
ref64_open(const kvref_config *config, const kvref_weights *weights, const ref64_opts *o);
void ref64_close(ref64 *r);

/* As slow and fast of kvref/backend.h. What they compute goes to fn. */
void ref64_slow(ref64 *r, const int32_t *frames, int n_frame);
void ref64_fast(ref64 *r, int book, int32_t code);

#endif
