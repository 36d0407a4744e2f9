/* SPDX-License-Identifier: MIT */
/* Running a golden case: checkpoint by formula, decoder, trace, comparison with the stored
 * numbers (golden/README.md). */
#ifndef KVREF_TESTS_GOLDEN_H
#define KVREF_TESTS_GOLDEN_H

#include "kvref/backend.h"
#include "kvref/generate.h"
#include "tests/support.h"

#include <jansson.h>

typedef struct golden_run {
    kvref_sampling sampling;
    uint64_t seed;
    int max_new_tokens;
} golden_run;

typedef struct golden_case {
    const char *name;
    kvref_config config;
    kvref_rope_table rope_table;
    golden_run run;
    kvref_file *ref; /* the stored tensors; NULL for a case read from golden-lm.json */
} golden_case;

/* Reads NAME.json and NAME.safetensors of a folder; aborts the test on failure. */
void golden_open(golden_case *g, const char *name, const char *json, const char *tensors);
void golden_close(golden_case *g);

/* The config and one set of sampling parameters, from JSON as the case files hold them. */
void golden_read_config(kvref_config *out, const json_t *config, const json_t *im_end);
void golden_read_run(golden_run *out, const json_t *sampling);

/* Makes the case's checkpoint in a fresh temporary folder and opens it. */
kvref_model *golden_model(const kvref_config *config, kvref_dtype dtype);

/* Decodes with a backend from prompt [n_prompt, 1+N]; the trace (may be NULL) gets prompt,
 * frames and counters. Returns the result, to be cleared. */
kvref_generated golden_generate(const kvref_backend *backend,
                                const kvref_model *model,
                                const kvref_decoder_opts *opts,
                                const golden_run *run,
                                const kvref_frames *prompt,
                                kvref_trace *trace);

/* The int32 tensor of that name as frames. */
kvref_frames golden_frames(const kvref_file *file, const char *name);

/* The trace hash of that name in golden/lm/hashes.txt. */
uint64_t golden_hash(const char *name);

/* Runs the whole case and compares every stored tensor, rows that the file keeps; prints the
 * worst. Frames must be identical. Returns the hash of the trace, all taps included. */
uint64_t golden_check(const golden_case *g,
                      const kvref_backend *backend,
                      const kvref_model *model,
                      const kvref_decoder_opts *opts);

#endif
