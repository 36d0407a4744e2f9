/* SPDX-License-Identifier: MIT */
/* The fast transformer: the codebooks of one frame (spec 03).
 *
 *     position 0       the slow hidden state; its logits would be thrown away
 *     position i >= 1  fast_embed[code of book i-1]; its logits choose the code of book i
 *
 * One table serves all books: the rotation tells which book a position is. The cache has N
 * positions and is empty at the start of each frame, not by clearing but because position i
 * reads rows 0..i only. Positions 0 and 1 go through together as two rows: code 0 is known
 * when the main token is, and each weight is then read nine times a frame instead of ten. */
#include "ref/ref.h"

#include <string.h>

static kvref_status check(const kvref_decoder *d, int book, int32_t code, kvref_error *err)
{
    const kvref_config *c = &d->config;
    if (!d->has_hidden)
        return kvref_fail(
            err, KVREF_E_ARG, "book %d: no slow step since the last rewind", book);
    if (book < 1 || book >= c->n_codebook || (book != 1 && book != d->book + 1))
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "book: expected 1 or the one after %d, below %d, found %d",
                          d->book,
                          c->n_codebook,
                          book);
    if (code < 0 || code >= c->n_code)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "code of book %d: expected 0..%d, found %d",
                          book - 1,
                          c->n_code - 1,
                          (int)code);
    return KVREF_OK;
}

kvref_status ref_fast(kvref_decoder *d, float *logits, int book, int32_t code, kvref_error *err)
{
    const kvref_config *c = &d->config;
    const kvref_weights *w = d->weights;
    int width = c->fast.d_model;
    KVREF_TRY(check(d, book, code, err));
    int first = book == 1 ? 0 : book, n_row = book - first + 1; /* book 1: positions 0 and 1 */
    float *last = d->x + (size_t)(n_row - 1) * (size_t)width;
    if (book == 1) {
        d->fast_count = (kvref_kv_count){0};
        memcpy(d->x, d->hidden, (size_t)width * sizeof *d->x);
    }
    ref_row(&d->tools, last, &w->fast_embed, code);
    ref_tap(d, &d->fast, REF_EMBED, -1, first, n_row, d->x);
    for (int l = 0; l < c->fast.n_layer; l++)
        ref_block(d, &d->fast, l, first, n_row, &d->fast_count);
    ref_rmsnorm(&d->tools, d->norm, d->x, n_row, width, &w->fast_norm, c->norm_eps, true);
    ref_tap(d, &d->fast, REF_NORM, -1, first, n_row, d->norm);
    last = d->norm + (size_t)(n_row - 1) * (size_t)width;
    ref_linear(&d->tools, &(ref_matrix){logits, &w->fast_head, NULL}, 1, last, 1);
    ref_tap(d, &d->fast, REF_LOGITS, -1, book, 1, logits);
    d->book = book;
    return KVREF_OK;
}
