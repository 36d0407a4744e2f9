/* SPDX-License-Identifier: MIT */
/* The generation loop (spec 04 sections 4-6): one slow call for the whole prompt, then one per
 * frame; a main token from the slow logits, N-1 codes from the fast ones. Everything the loop
 * needs is allocated before the first write; after that only a trace allocates. */
#include "base/generate.h"

#include "base/base.h"
#include "kvref/fmath.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- one frame ---- */

/* Fills u for set 0 or 1 (the candidates among V numbers) or 1 + book (K numbers). */
static kvref_status fill(const kvref_loop *g, float *u, int f, int set)
{
    const kvref_draw draw = {
        .sample = g->opts->sample,
        .frame = g->opts->frame_base + f,
        .set = set,
        .n_set = set < 2 ? g->config->n_vocab : g->config->n_code,
        .index = set < 2 ? g->candidate : NULL,
        .n = set < 2 ? g->n_candidate : g->config->n_code,
    };
    return kvref_noise_fill(g->noise, u, &draw, g->err);
}

static kvref_status choose(const kvref_loop *g, int *index, int n, const kvref_sampling *s)
{
    KVREF_TRY(kvref_sample_probs(g->p, g->logits, n, s, g->scratch, g->err));
    *index = kvref_sample_draw(g->p, g->u, n);
    return KVREF_OK;
}

/* Is a semantic token among the last main tokens of decode calls? */
static bool repeats(const kvref_loop *g, int32_t token)
{
    if (token < g->config->semantic_begin || token > g->config->semantic_end) return false;
    for (int i = 0; i < KVREF_RAS_WINDOW; i++)
        if (g->window[i] == token) return true;
    return false;
}

/* The main token: a draw with the user's settings, or, when that repeats, a second one at
 * temperature 1 and top_p 0.9 from the same logits. The second set of numbers is consumed in
 * any case. The prefill's token (f = 0) is neither tested nor remembered. */
static kvref_status draw_main(kvref_loop *g, int32_t *token, int f)
{
    int index;
    if (f < g->opts->min_frames && g->end >= 0) g->logits[g->end] = -INFINITY;
    KVREF_TRY(fill(g, g->u, f, 0));
    KVREF_TRY(choose(g, &index, g->n_candidate, &g->opts->sampling));
    *token = g->candidate[index];
    KVREF_TRY(fill(g, g->u, f, 1));
    if (f == 0) return KVREF_OK;
    if (repeats(g, *token)) {
        const kvref_sampling high = {1.0f, 0.9f, g->opts->sampling.top_k};
        KVREF_TRY(choose(g, &index, g->n_candidate, &high));
        *token = g->candidate[index];
    }
    g->window[(f - 1) % KVREF_RAS_WINDOW] = *token;
    return KVREF_OK;
}

/* frame [1+N] from the logits that the slow call left in g->logits. */
static kvref_status draw_frame(kvref_loop *g, int32_t *frame, int f)
{
    const kvref_config *c = g->config;
    KVREF_TRY(draw_main(g, &frame[0], f));
    int32_t code = frame[0] - c->semantic_begin;
    frame[1] = code < 0 ? 0 : code >= c->n_code ? c->n_code - 1 : code;
    for (int book = 1; book < c->n_codebook; book++) {
        int index;
        KVREF_TRY(g->backend->fast(g->d, g->logits, book, frame[book], g->err));
        KVREF_TRY(fill(g, g->u, f, 1 + book));
        KVREF_TRY(choose(g, &index, c->n_code, &g->opts->sampling));
        frame[book + 1] = index;
    }
    return KVREF_OK;
}

static kvref_status force_frame(kvref_loop *g, int32_t *frame, int f)
{
    int n_row = g->opts->forced->n_row;
    const int32_t *from = g->opts->forced->value + (size_t)f * (size_t)n_row;
    memcpy(frame, from, sizeof *frame * (size_t)n_row);
    for (int book = 1; book < g->config->n_codebook; book++)
        KVREF_TRY(g->backend->fast(g->d, g->logits, book, frame[book], g->err));
    return KVREF_OK;
}

/* Frame f made by the backend in one call, from the n_in columns at in; the later ones feed
 * what the device still holds. All sets of numbers are fetched first, in the order of the
 * draws. */
static kvref_status
whole_frame(kvref_loop *g, int32_t *frame, int f, const int32_t *in, int n_in)
{
    const kvref_config *c = g->config;
    size_t n_main = (size_t)g->n_candidate, n_code = (size_t)c->n_code;
    kvref_frame_call call = {.frames = f == 0 ? in : NULL,
                             .n_frame = n_in,
                             .sampling = g->opts->sampling,
                             .no_end = f < g->opts->min_frames && g->end >= 0,
                             .remember = f > 0};
    if (g->opts->forced) {
        call.forced = g->opts->forced->value + (size_t)f * (size_t)g->opts->forced->n_row;
    } else {
        for (int set = 0; set <= c->n_codebook; set++) {
            size_t at =
                set < 2 ? (size_t)set * n_main : 2 * n_main + (size_t)(set - 2) * n_code;
            KVREF_TRY(fill(g, g->noise_frame + at, f, set));
        }
        call.noise = g->noise_frame;
    }
    return g->backend->frame(g->d, frame, g->opts->trace ? g->logits : NULL, &call, g->err);
}

/* ---- the loop ---- */

static kvref_status trace_call(const kvref_loop *g)
{
    int layers = g->config->slow.n_layer;
    if (!g->opts->trace) return KVREF_OK;
    const int32_t length = g->backend->length(g->d);
    for (int i = 0; i < layers; i++) {
        kvref_kv_count count = g->backend->kv_count(g->d, i);
        g->rows[i] = (int64_t)(count.k_rows / (uint64_t)g->config->slow.n_kv_head);
        g->bytes[i] = (int64_t)count.bytes;
    }
    KVREF_TRY(kvref_trace_ints(g->opts->trace, "slow.kv_len", &length, 1, 0, g->err));
    KVREF_TRY(kvref_trace_counts(g->opts->trace, "slow.kv_rows", g->rows, 1, layers, g->err));
    return kvref_trace_counts(g->opts->trace, "slow.kv_bytes", g->bytes, 1, layers, g->err);
}

/* How near the main token was to another: gap between the two best logits, probability of the
 * end token among the candidates (no filter, temperature 1), and its rank. */
static void trace_decision(const kvref_loop *g, int f)
{
    if (!g->opts->trace) return;
    float best = -INFINITY, second = -INFINITY,
          end = g->end < 0 ? -INFINITY : g->logits[g->end];
    double sum = 0;
    int rank = 0;
    for (int i = 0; i < g->n_candidate; i++) {
        float x = g->logits[i];
        second = x > best ? best : x > second ? x : second;
        best = x > best ? x : best;
        rank += x > end || (x == end && i < g->end);
    }
    for (int i = 0; i < g->n_candidate; i++) sum += (double)kvref_expf(g->logits[i] - best);
    const float row[3] = {
        best - second, (float)((double)kvref_expf(end - best) / sum), (float)rank};
    const kvref_tap_data data = {
        .name = "slow.decision", .layer = -1, .first = f, .n_row = 1, .width = 3, .x = row};
    kvref_tap tap = kvref_trace_tap(g->opts->trace, KVREF_TAP_CODES);
    tap.fn(tap.user, &data);
}

static kvref_status
trace_frame(const kvref_loop *g, const char *name, const kvref_frames *frames, int f, int n)
{
    if (!g->opts->trace) return KVREF_OK;
    const int32_t *from = frames->value + (size_t)f * (size_t)frames->n_row;
    return kvref_trace_ints(g->opts->trace, name, from, n, frames->n_row, g->err);
}

/* Makes frame f from the n_in columns at in and appends it to out. */
static kvref_status step(kvref_loop *g, kvref_generated *out, const int32_t *in, int n_in)
{
    int f = out->frames.n_frame;
    int32_t *frame = out->frames.value + (size_t)f * (size_t)out->frames.n_row;
    if (g->noise_frame)
        KVREF_TRY(whole_frame(g, frame, f, in, n_in));
    else
        KVREF_TRY(g->backend->slow(g->d, g->logits, in, n_in, g->err));
    KVREF_TRY(trace_call(g));
    trace_decision(g, f);
    if (!g->noise_frame)
        KVREF_TRY(g->opts->forced ? force_frame(g, frame, f) : draw_frame(g, frame, f));
    out->frames.n_frame++;
    KVREF_TRY(trace_frame(g, "frames", &out->frames, f, 1));
    if (g->opts->progress && g->opts->progress(g->opts->user, f + 1, g->limit))
        return kvref_fail(
            g->err, KVREF_E_STOPPED, "generation: stopped on request after %d frames", f + 1);
    return KVREF_OK;
}

/* Did frame f, the newest, end the utterance? The prefill's frame only if asked to. */
static bool ended(const kvref_loop *g, const kvref_frames *frames)
{
    int f = frames->n_frame - 1;
    const int32_t *frame = frames->value + (size_t)f * (size_t)frames->n_row;
    return !g->opts->forced && frame[0] == g->config->im_end &&
           (f > 0 || g->opts->stop_at_first_end);
}

static kvref_status run(kvref_loop *g, kvref_generated *out)
{
    KVREF_TRY(g->backend->rewind(g->d, 0, g->err));
    KVREF_TRY(trace_frame(g, "prompt", g->prompt, 0, g->prompt->n_frame));
    KVREF_TRY(step(g, out, g->prompt->value, g->prompt->n_frame));
    while (!ended(g, &out->frames) && out->frames.n_frame < g->limit) {
        size_t last = (size_t)(out->frames.n_frame - 1) * (size_t)out->frames.n_row;
        KVREF_TRY(step(g, out, out->frames.value + last, 1));
    }
    if (ended(g, &out->frames))
        out->stop = KVREF_STOP_END;
    else if (g->opts->forced && out->frames.n_frame == g->opts->forced->n_frame)
        out->stop = KVREF_STOP_FORCED;
    return KVREF_OK;
}

/* Rows 1..N of all columns but the last; of the last as well if asked to, unless it is the
 * end. */
static void keep_codes(const kvref_loop *g, kvref_generated *out)
{
    size_t n = (size_t)out->codes.n_book;
    int keep = out->frames.n_frame - 1;
    if (keep < 0) return;
    const int32_t *last = out->frames.value + (size_t)keep * (n + 1);
    if (g->opts->keep_last_frame && *last != g->config->im_end) keep++;
    for (int f = 0; f < keep; f++)
        memcpy(out->codes.code + (size_t)f * n,
               out->frames.value + (size_t)f * (n + 1) + 1,
               sizeof(int32_t) * n);
    out->codes.n_frame = keep;
}

kvref_status kvref_generate(const kvref_backend *backend,
                            kvref_decoder *d,
                            const kvref_config *config,
                            kvref_generated *out,
                            const kvref_frames *prompt,
                            kvref_noise *noise,
                            const kvref_generate_opts *opts,
                            kvref_error *err)
{
    kvref_loop g = {.backend = backend,
                    .d = d,
                    .config = config,
                    .prompt = prompt,
                    .noise = noise,
                    .opts = opts,
                    .err = err};
    *out = (kvref_generated){.stop = KVREF_STOP_LENGTH};
    kvref_status status = kvref_loop_open(&g, out);
    if (status == KVREF_OK) status = run(&g, out);
    free(g.block);
    if (status == KVREF_OK || status == KVREF_E_STOPPED)
        keep_codes(&g, out);
    else
        kvref_generated_clear(out);
    return status;
}

void kvref_generated_clear(kvref_generated *g)
{
    free(g->frames.value);
    free(g->codes.code);
    *g = (kvref_generated){.stop = KVREF_STOP_LENGTH};
}
