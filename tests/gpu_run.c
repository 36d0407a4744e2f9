/* SPDX-License-Identifier: MIT */
#include "tests/gpu_run.h"

#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kvref_frames as_frames(const kvref_config *c, const int32_t *value, int n)
{
    int32_t *mine = malloc((size_t)n * (size_t)(1 + c->n_codebook) * sizeof *mine);
    ck_assert_ptr_nonnull(mine);
    memcpy(mine, value, (size_t)n * (size_t)(1 + c->n_codebook) * sizeof *mine);
    return (kvref_frames){.n_row = 1 + c->n_codebook, .n_frame = n, .cap = n, .value = mine};
}

void gpu_run(gpu_result *out, const gpu_job *job)
{
    kvref_error err;
    kvref_decoder *d = NULL;
    kvref_noise *noise = NULL;
    kvref_decoder_opts opts = job->opts;
    kvref_frames prompt = as_frames(job->config, job->prompt, job->n_prompt), forced = {0};
    if (job->forced) forced = as_frames(job->config, job->forced, job->n_forced);
    *out = (gpu_result){0};
    must(kvref_trace_open(&out->trace, &err), err);
    opts.tap = kvref_trace_tap(out->trace, job->level);
    if (!opts.n_thread) opts.n_thread = 1;
    must(kvref_noise_counter(&noise, job->seed, &err), err);
    must(job->open(&d, job->config, job->weights, &opts, &err), err);
    if (job->before) job->before(d);
    kvref_generate_opts how = {.sampling = job->sampling,
                               .max_new_tokens = job->max_new_tokens,
                               .min_frames = job->min_frames,
                               .forced = job->forced ? &forced : NULL,
                               .trace = out->trace};
    must(kvref_generate(job->backend, d, job->config, &out->made, &prompt, noise, &how, &err),
         err);
    if (job->backend->device_bytes) out->device_bytes = job->backend->device_bytes(d);
    out->hash = kvref_trace_hash(out->trace);
    ck_assert_msg(out->hash != 0, "the trace is incomplete");
    int row;
    const char *bad = kvref_trace_not_finite(out->trace, &row);
    ck_assert_msg(!bad, "%s, row %d: not finite", bad, row);
    job->backend->close(&d);
    ck_assert_ptr_null(d);
    kvref_noise_close(&noise);
    kvref_frames_clear(&prompt);
    kvref_frames_clear(&forced);
}

void gpu_result_clear(gpu_result *r)
{
    kvref_trace_close(&r->trace);
    kvref_generated_clear(&r->made);
}

static const char *keep(const gpu_result *r, const char *name)
{
    kvref_error err;
    const char *dir = getenv("KVREF_KEEP");
    const char *path = support_path(dir ? dir : support_temp_dir(), name);
    must(kvref_trace_write(r->trace, path, r->made.frames.n_frame, &err), err);
    return path;
}

void gpu_must_agree(const gpu_result *a, const gpu_result *b, const char *what)
{
    const kvref_frames *x = &a->made.frames, *y = &b->made.frames;
    ck_assert_msg(
        x->n_frame == y->n_frame, "%s: %d and %d frames", what, x->n_frame, y->n_frame);
    if (a->hash != b->hash) {
        const char *first = keep(a, "a.safetensors"), *second = keep(b, "b.safetensors");
        ck_abort_msg("%s: traces differ: %s and %s", what, first, second);
    }
    size_t n = (size_t)x->n_frame * (size_t)x->n_row;
    ck_assert_msg(memcmp(x->value, y->value, n * sizeof *x->value) == 0, "%s: frames", what);
}
