/* SPDX-License-Identifier: MIT */
/* A decoder without arithmetic: logits come from a script, calls are counted and checked. */
#ifndef KVREF_TESTS_FAKE_H
#define KVREF_TESTS_FAKE_H

#include "kvref/generate.h"

enum {
    FAKE_V = 100, /* vocabulary */
    FAKE_N = 3,   /* codebooks */
    FAKE_K = 32,  /* codes: semantic ids 40..71 */
    FAKE_BEGIN = 40,
    FAKE_END = 20, /* the end token, candidate 0 */
    FAKE_A = 33,   /* candidates */
    FAKE_L = 2,    /* slow layers */
    FAKE_G = 2,    /* key/value heads */
    FAKE_ROW = 1 + FAKE_N,
    FAKE_MOST = 512 /* positions, frames and calls at most */
};

struct kvref_decoder {
    int capacity, length;
    int call, n_fast;     /* slow and fast calls since the last rewind to 0 */
    int n_slow, n_rewind; /* calls in all */
    int book;             /* of the last fast call */
    int32_t fed[FAKE_MOST][FAKE_ROW];
    int32_t fast_code[FAKE_MOST]; /* code of fast call i                       */

    const int *script; /* candidate that call i favours                             */
    int n_script;      /* later calls favour 1 + i mod: no end, no repetition */
    float lead;        /* logit of the favourite; the others have 0                 */
    int fail_call;     /* 1 + the call that fails; 0: none                           */
    kvref_status fail_status;
    int nan_at; /* call whose logits hold a NaN; 0: none                     */
};

/* One run and its results, set up by fake_begin. */
typedef struct fake_run {
    kvref_decoder decoder;
    kvref_config config;
    int32_t prompt_value[FAKE_MOST * FAKE_ROW];
    kvref_frames prompt;
    kvref_generate_opts opts;
    kvref_generated made;
    kvref_error err;
} fake_run;

extern fake_run fake;

/* A prompt of five columns, capacity 64, greedy, the favourite ahead by 9. */
void fake_begin(void);
void fake_script(const int *candidate, int n);

/* Runs with this noise, or with counter noise of this seed. */
kvref_status fake_generate_from(kvref_noise *noise);
kvref_status fake_generate(uint64_t seed);
kvref_noise *fake_counter(uint64_t seed);

/* Main token of a frame that was made. */
int32_t fake_token(int f);

/* Asserts what was made and that the codes are those of the frames. */
void fake_expect(int n_frame, int n_code, kvref_stop stop);

#endif
