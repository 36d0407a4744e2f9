/* SPDX-License-Identifier: MIT */
#include "tests/narrowed.h"

#include "tests/support.h"

#include <stdlib.h>

static void *keep(narrowed *n, size_t n_byte)
{
    void *data = malloc(n_byte + 1);
    n->block = realloc(n->block, ((size_t)n->n_block + 1) * sizeof *n->block);
    ck_assert(data && n->block);
    return n->block[n->n_block++] = data;
}

/* Replaces *w by a copy. Absent ones stay absent. */
static void narrow(narrowed *n, kvref_weight *w)
{
    if (!w->data) return;
    size_t stride = (size_t)w->n_col;
    uint16_t *half = keep(n, (size_t)w->n_row * stride * sizeof *half);
    kvref_narrow(half, stride, w, 0, w->n_row, &n->count);
    *w = (kvref_weight){half, KVREF_F16, w->n_row, w->n_col};
}

static kvref_layer *layers(narrowed *n, const kvref_layer *from, int n_layer)
{
    kvref_layer *all = keep(n, (size_t)n_layer * sizeof *all);
    for (int l = 0; l < n_layer; l++) {
        kvref_layer *y = &all[l];
        *y = from[l];
        kvref_weight *every[] = {&y->attn_norm,
                                 &y->wq,
                                 &y->wk,
                                 &y->wv,
                                 &y->bq,
                                 &y->bk,
                                 &y->bv,
                                 &y->q_norm,
                                 &y->k_norm,
                                 &y->wo,
                                 &y->bo,
                                 &y->ffn_norm,
                                 &y->w1,
                                 &y->w3,
                                 &y->w2};
        for (size_t i = 0; i < sizeof every / sizeof *every; i++) narrow(n, every[i]);
    }
    return all;
}

void narrowed_open(narrowed *n, const kvref_config *config, const kvref_weights *weights)
{
    *n = (narrowed){.weights = *weights};
    kvref_weights *y = &n->weights;
    bool tied = weights->head.data == weights->embed.data;
    narrow(n, &y->embed);
    narrow(n, &y->codebook_embed);
    y->slow = layers(n, weights->slow, config->slow.n_layer);
    narrow(n, &y->norm);
    if (tied)
        y->head = y->embed;
    else
        narrow(n, &y->head);
    narrow(n, &y->fast_in);
    narrow(n, &y->fast_in_bias);
    narrow(n, &y->fast_embed);
    y->fast = layers(n, weights->fast, config->fast.n_layer);
    narrow(n, &y->fast_norm);
    narrow(n, &y->fast_head);
}

void narrowed_close(narrowed *n)
{
    for (int i = 0; i < n->n_block; i++) free(n->block[i]);
    free(n->block);
    *n = (narrowed){0};
}
