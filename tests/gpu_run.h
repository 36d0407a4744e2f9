/* SPDX-License-Identifier: MIT */
/* One generation with everything it computes, for comparing backends. */
#ifndef KVREF_TESTS_GPU_RUN_H
#define KVREF_TESTS_GPU_RUN_H

#include "kvref/generate.h"
#include "tests/world.h"

typedef kvref_status gpu_opener(kvref_decoder **out,
                                const kvref_config *config,
                                const kvref_weights *weights,
                                const kvref_decoder_opts *opts,
                                kvref_error *err);

/* What is to be run. */
typedef struct gpu_job {
    const kvref_backend *backend;
    gpu_opener *open;
    const kvref_config *config;
    const kvref_weights *weights;
    kvref_decoder_opts opts; /* tap and level are set by gpu_run */
    kvref_tap_level level;
    const int32_t *prompt; /* [n_prompt, 1+N] */
    int n_prompt;
    const int32_t *forced; /* [n_forced, 1+N], or NULL: frames are drawn */
    int n_forced, max_new_tokens, min_frames;
    kvref_sampling sampling;
    uint64_t seed;
    void (*before)(kvref_decoder *d); /* NULL, or called once it is open */
} gpu_job;

typedef struct gpu_result {
    kvref_trace *trace;
    uint64_t hash;
    kvref_generated made;
    size_t device_bytes;
} gpu_result;

void gpu_run(gpu_result *out, const gpu_job *job);
void gpu_result_clear(gpu_result *r);

/* Asserts equal frames and equal bits of everything that was tapped; writes both traces to
 * files and names them when they differ. */
void gpu_must_agree(const gpu_result *a, const gpu_result *b, const char *what);

#endif
