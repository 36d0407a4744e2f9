/* SPDX-License-Identifier: MIT */
/* State of the generation loop: checked and allocated by generate_open.c, run by generate.c. */
#ifndef KVREF_BASE_GENERATE_H
#define KVREF_BASE_GENERATE_H

#include "kvref/generate.h"

/* Main tokens of decode calls that a new one should not repeat (spec 04 section 4). */
enum { KVREF_RAS_WINDOW = 10 };

typedef struct kvref_loop {
    const kvref_backend *backend;
    kvref_decoder *d;
    const kvref_config *config;
    const kvref_frames *prompt;
    kvref_noise *noise;
    const kvref_generate_opts *opts;
    kvref_error *err;

    int limit;                        /* most frames to make                     */
    int n_candidate, end;             /* A, and the place of im_end among them   */
    int32_t window[KVREF_RAS_WINDOW]; /* starts as zeros, is a ring from frame 1 */

    void *block;           /* what the pointers below point into */
    int64_t *rows;         /* [L] K rows read of a call          */
    int64_t *bytes;        /* [L]                                */
    int32_t *candidate;    /* [A] ids, ascending                 */
    float *logits, *p, *u; /* [max(A, K)]                        */
    float *noise_frame;    /* [2A + (N-1)K] of a whole frame; NULL: draws are made here */
    void *scratch;         /* of kvref_sample_probs              */
} kvref_loop;

/* Checks everything and allocates everything, *out at the limit included. Writes nothing to
 * the decoder. g->block is to be freed whatever the outcome. */
kvref_status kvref_loop_open(kvref_loop *g, kvref_generated *out);

#endif
