/* SPDX-License-Identifier: MIT */
/* The slow transformer: one position per audio frame (spec 02).
 *
 * A prefill of T positions and a decode step are the same call; a step has T = 1. The active
 * length is a host integer: after the call n_pos = P + T, and query t saw P + t + 1 rows. The
 * last position alone gets a final norm, logits, and a hidden state for the fast transformer.
 *
 * Long calls go through all layers in pieces of REF_ROWS rows, so scratch does not grow with
 * T; rows do not depend on where a piece ends. That holds because a row meets others in
 * attention only, and there it sees the cache, not the piece.
 *
 * Nothing is written before all frames of a call have been checked. */
#include "ref/ref.h"

#include "base/frames.h"

#include <string.h>

static kvref_status
check(const kvref_decoder *d, const int32_t *frames, int n_frame, kvref_error *err)
{
    if (n_frame < 1)
        return kvref_fail(err, KVREF_E_ARG, "frames: expected at least 1, found %d", n_frame);
    if (n_frame > d->slow.kv.capacity - d->n_pos)
        return kvref_fail(err,
                          KVREF_E_CAPACITY,
                          "cache: %d positions held and %d more do not fit capacity %d",
                          d->n_pos,
                          n_frame,
                          d->slow.kv.capacity);
    return kvref_frames_check(frames, n_frame, &d->config, "frames", err);
}

/* Logits of the candidate rows only; ids in a row are one matrix. Each row's bits are those it
 * has in the whole product. */
static void candidate_logits(const kvref_decoder *d, float *logits, const float *z)
{
    const int32_t *id = d->candidate;
    for (int i = 0, j; i < d->n_candidate; i = j) {
        for (j = i + 1; j < d->n_candidate && id[j] == id[i] + (j - i); j++) continue;
        kvref_weight rows = ref_rows(&d->weights->head, id[i], j - i);
        ref_linear(&d->tools, &(ref_matrix){logits + i, &rows, NULL}, 1, z, 1);
    }
}

/* logits [A] from z [D]. Of V rows of the head only the A candidates can be drawn, so only they
 * are multiplied, unless somebody wants to see all: both ways give the candidates' bits. */
static void logits_of(const kvref_decoder *d, float *logits, const float *z)
{
    if (!d->all_logits) {
        candidate_logits(d, logits, z);
        return;
    }
    ref_linear(&d->tools, &(ref_matrix){d->all_logits, &d->weights->head, NULL}, 1, z, 1);
    ref_tap(d, &d->slow, REF_LOGITS, -1, d->n_call, 1, d->all_logits);
    for (int i = 0; i < d->n_candidate; i++) logits[i] = d->all_logits[d->candidate[i]];
}

/* Final norm, logits and hidden state of the row x [D]. */
static void finish(kvref_decoder *d, float *logits, const float *x)
{
    const kvref_config *c = &d->config;
    const kvref_weights *w = d->weights;
    int width = c->slow.d_model, width_fast = c->fast.d_model;
    ref_rmsnorm(&d->tools, d->norm, x, 1, width, &w->norm, c->norm_eps, true);
    ref_tap(d, &d->slow, REF_NORM, -1, d->n_call, 1, d->norm);
    logits_of(d, logits, d->norm);
    const float *from = c->norm_fastlayer_input ? d->norm : x;
    if (w->fast_in.data)
        ref_linear(
            &d->tools, &(ref_matrix){d->hidden, &w->fast_in, &w->fast_in_bias}, 1, from, 1);
    else
        memcpy(d->hidden, from, (size_t)width_fast * sizeof *from);
    ref_tap(d, &d->slow, REF_HIDDEN, -1, d->n_call, 1, d->hidden);
}

kvref_status
ref_slow(kvref_decoder *d, float *logits, const int32_t *frames, int n_frame, kvref_error *err)
{
    const kvref_config *c = &d->config;
    int width = c->slow.d_model, n_row = 0;
    KVREF_TRY(check(d, frames, n_frame, err));
    d->book = 0;
    memset(d->slow_count, 0, (size_t)c->slow.n_layer * sizeof *d->slow_count);
    ref_rope_reach(&d->slow.rope, d->n_pos + n_frame);
    for (int t = 0; t < n_frame; t += n_row) {
        const int32_t *frame = frames + (size_t)t * (size_t)(1 + c->n_codebook);
        n_row = n_frame - t < REF_ROWS ? n_frame - t : REF_ROWS;
        ref_embed(&d->tools, d->x, frame, n_row, c, d->weights, d->work);
        ref_tap(d, &d->slow, REF_EMBED, -1, d->n_pos + t, n_row, d->x);
        for (int l = 0; l < c->slow.n_layer; l++)
            ref_block(d, &d->slow, l, d->n_pos + t, n_row, &d->slow_count[l]);
    }
    finish(d, logits, d->x + (size_t)(n_row - 1) * (size_t)width);
    d->n_pos += n_frame;
    d->n_call++;
    d->has_hidden = true;
    return KVREF_OK;
}

/* The cache is not touched: rows from pos on are simply no longer part of the prefix, and the
 * next call writes over them. */
kvref_status ref_rewind(kvref_decoder *d, int pos, kvref_error *err)
{
    if (pos < 0 || pos > d->n_pos)
        return kvref_fail(
            err, KVREF_E_ARG, "rewind: expected a position 0..%d, found %d", d->n_pos, pos);
    if (pos < d->n_pos) { /* the hidden state was that of a position now forgotten */
        d->has_hidden = false;
        d->book = 0;
    }
    d->n_pos = pos;
    if (pos == 0) d->n_call = 0;
    return KVREF_OK;
}
