/* SPDX-License-Identifier: MIT */
/* A whole run of the reference on a small model, and everything it left behind. */
#ifndef KVREF_TESTS_RUN_H
#define KVREF_TESTS_RUN_H

#include "tests/world.h"

/* Feeds frames in pieces and walks the fast transformer after each. */
typedef struct run {
    int n_pos, n_call;
    int *end;              /* [n_call] positions held after it  */
    size_t n_kv;           /* floats of all slow K and V rows            */
    float *kv;             /* [L, 2, G, n_pos, E]                        */
    float *logits;         /* [n_call, A]                                */
    float *hidden;         /* [n_call, D']                               */
    float *fast;           /* [n_call, N-1, K]                           */
    kvref_kv_count *count; /* [n_call, L + 1], fast last         */
} run;

/* Called before every slow and fast call. */
typedef void run_hook(kvref_decoder *d, bool before_fast);

/* piece holds the sizes of the slow calls, ended by 0; the last one repeats until n frames are
 * fed. hook may be NULL. */
void run_make(run *out,
              const world *w,
              const kvref_decoder_opts *opts,
              const int32_t *frames,
              int n,
              const int *piece,
              run_hook *hook);
void run_free(run *r);

/* The same on an open decoder. */
void run_feed(
    run *out, kvref_decoder *d, const int32_t *frames, int n, const int *piece, run_hook *hook);

/* Asserts that K and V agree, and logits, hidden state and fast logits of all calls that end at
 * the same position; the last call is one of them. All logits are finite. */
void run_must_agree(const run *a, const run *b, const kvref_config *c, const char *what);

#endif
