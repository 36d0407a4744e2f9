/* SPDX-License-Identifier: MIT */
/* What stands before the first write of a generation: every check of prompt, options and room,
 * and all of the memory. */
#include "base/generate.h"

#include "base/frames.h"

#include <limits.h>
#include <stdlib.h>

static kvref_status
check_frames(const kvref_frames *frames, const char *what, const kvref_loop *g)
{
    int n_row = 1 + g->config->n_codebook;
    if (frames->n_frame < 1 || frames->n_row != n_row)
        return kvref_fail(g->err,
                          KVREF_E_ARG,
                          "%s: expected one or more columns of %d values, found %d of %d",
                          what,
                          n_row,
                          frames->n_frame,
                          frames->n_row);
    return kvref_frames_check(frames->value, frames->n_frame, g->config, what, g->err);
}

static kvref_status check_numbers(const kvref_loop *g)
{
    const kvref_generate_opts *o = g->opts;
    const struct {
        const char *name;
        int value;
    } at_least_0[] = {{"max_new_tokens", o->max_new_tokens},
                      {"min_frames", o->min_frames},
                      {"sample", o->sample},
                      {"frame_base", o->frame_base}};
    for (size_t i = 0; i < sizeof at_least_0 / sizeof at_least_0[0]; i++)
        if (at_least_0[i].value < 0)
            return kvref_fail(g->err,
                              KVREF_E_ARG,
                              "%s: expected 0 or more, found %d",
                              at_least_0[i].name,
                              at_least_0[i].value);
    if (o->forced) return check_frames(o->forced, "forced frames", g);
    if (!g->noise) return kvref_fail(g->err, KVREF_E_ARG, "noise: expected a source");
    if (g->config->im_end < 0)
        return kvref_fail(g->err,
                          KVREF_E_ARG,
                          "end token: unknown, the checkpoint has neither a tokenizer nor "
                          "eos_token_id");
    return kvref_sampling_check(&o->sampling, g->err);
}

/* Sets the limit: with T positions of C filled, C - T frames at most (upstream's rule; the
 * last frame is never fed back, so the last position stays free). */
static kvref_status check_room(kvref_loop *g)
{
    int n_prompt = g->prompt->n_frame, capacity = g->backend->capacity(g->d);
    if (n_prompt >= capacity)
        return kvref_fail(g->err,
                          KVREF_E_CAPACITY,
                          "prompt of %d positions: expected fewer than the capacity of %d",
                          n_prompt,
                          capacity);
    int room = capacity - n_prompt, want = g->opts->max_new_tokens;
    if (g->opts->forced && (want == 0 || want > g->opts->forced->n_frame))
        want = g->opts->forced->n_frame;
    if (want > room)
        return kvref_fail(g->err,
                          KVREF_E_CAPACITY,
                          "budget of %d frames after a prompt of %d positions: expected at "
                          "most %d, the capacity is %d",
                          want,
                          n_prompt,
                          room,
                          capacity);
    g->limit = want > 0 ? want : room;
    if (g->opts->frame_base > INT_MAX - g->limit)
        return kvref_fail(g->err,
                          KVREF_E_ARG,
                          "frame_base: expected at most %d, found %d",
                          INT_MAX - g->limit,
                          g->opts->frame_base);
    return KVREF_OK;
}

/* ---- memory, all of it ---- */

static kvref_status open_block(kvref_loop *g)
{
    size_t a = (size_t)g->n_candidate, k = (size_t)g->config->n_code;
    size_t most = a > k ? a : k, layers = (size_t)g->config->slow.n_layer;
    size_t scratch = kvref_sample_scratch((int)most), n_float = 4 * most;
    bool whole = g->backend->has_frame && g->backend->has_frame(g->d);
    if (whole) n_float += 2 * a + (size_t)(g->config->n_codebook - 1) * k;
    g->block = calloc(1, 2 * layers * sizeof(int64_t) + scratch + n_float * sizeof(float));
    if (!g->block) return kvref_fail(g->err, KVREF_E_MEMORY, "generation: out of memory");
    g->rows = g->block;
    g->bytes = g->rows + layers;
    g->scratch = g->bytes + layers;
    g->logits = (float *)((char *)g->scratch + scratch);
    g->p = g->logits + most;
    g->u = g->p + most;
    g->candidate = (int32_t *)(g->u + most);
    if (whole) g->noise_frame = g->u + 2 * most;
    return KVREF_OK;
}

static kvref_status open_candidates(kvref_loop *g)
{
    const kvref_config *c = g->config;
    g->n_candidate = kvref_config_candidates(c, NULL, 0);
    if (g->n_candidate < 1)
        return kvref_fail(g->err, KVREF_E_ARG, "candidates: expected 1 or more, found none");
    KVREF_TRY(open_block(g));
    kvref_config_candidates(c, g->candidate, g->n_candidate);
    if (g->candidate[0] < 0 || g->candidate[g->n_candidate - 1] >= c->n_vocab)
        return kvref_fail(g->err,
                          KVREF_E_ARG,
                          "candidates: expected ids of 0..%d, found %d..%d",
                          c->n_vocab - 1,
                          (int)g->candidate[0],
                          (int)g->candidate[g->n_candidate - 1]);
    g->end = -1;
    for (int i = 0; i < g->n_candidate; i++)
        if (g->candidate[i] == c->im_end) g->end = i;
    return KVREF_OK;
}

static kvref_status open_out(kvref_generated *out, const kvref_loop *g)
{
    size_t limit = (size_t)g->limit, n = (size_t)g->config->n_codebook;
    out->frames.n_row = g->config->n_codebook + 1;
    out->codes.n_book = g->config->n_codebook;
    out->frames.value = calloc(limit, (n + 1) * sizeof(int32_t));
    out->codes.code = calloc(limit, n * sizeof(int32_t));
    if (!out->frames.value || !out->codes.code)
        return kvref_fail(g->err, KVREF_E_MEMORY, "%d frames: out of memory", g->limit);
    out->frames.cap = g->limit;
    return KVREF_OK;
}

kvref_status kvref_loop_open(kvref_loop *g, kvref_generated *out)
{
    KVREF_TRY(check_frames(g->prompt, "prompt", g));
    KVREF_TRY(check_numbers(g));
    KVREF_TRY(check_room(g));
    KVREF_TRY(open_candidates(g));
    return open_out(out, g);
}
