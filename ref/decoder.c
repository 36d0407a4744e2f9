/* SPDX-License-Identifier: MIT */
/* Opening and closing a decoder, the choice of its variants, and its taps.
 *
 * A decoder borrows the weights and owns one mapping with everything else (layout.c). Variants
 * are chosen here, once: a function pointer for the form of attention, another set for the
 * instruction set, a flag for products. After that no call asks which variant it is in.
 *
 * A tap hands intermediate arrays to whoever compares them with another implementation. The
 * points are named the same everywhere, so the first name that differs is the step that does.
 */
#include "ref/ref.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Indexed by ref_point; both lists are in dataflow order. */
static const char *const slow_names[REF_N_POINT] = {
    "slow.embed",
    "slow.attn_norm",
    "slow.q",
    "slow.k",
    "slow.v",
    "slow.attn",
    "slow.attn_out",
    "slow.ffn_norm",
    "slow.ffn_act",
    "slow.ffn_out",
    "slow.out",
    "slow.norm",
    "slow.logits",
    "slow.hidden",
};

static const char *const fast_names[REF_N_POINT] = {
    "fast.embed",
    "fast.attn_norm",
    "fast.q",
    "fast.k",
    "fast.v",
    "fast.attn",
    "fast.attn_out",
    "fast.ffn_norm",
    "fast.ffn_act",
    "fast.ffn_out",
    "fast.out",
    "fast.norm",
    "fast.logits",
    NULL, /* hidden is the slow transformer's */
};

/* The lowest level that reports a point: what leaves a frame, what leaves a layer (and the
 * cache), or every operation in between. */
static kvref_tap_level level_of(ref_point point)
{
    switch (point) {
    case REF_LOGITS:
    case REF_HIDDEN:
        return KVREF_TAP_LOGITS;
    case REF_EMBED:
    case REF_K:
    case REF_V:
    case REF_ATTN:
    case REF_OUT:
    case REF_NORM:
        return KVREF_TAP_LAYERS;
    default:
        return KVREF_TAP_OPS;
    }
}

/* Heads in a row (0: not split) and the row's width. */
static int
width_of(const kvref_decoder *d, const ref_transformer *net, ref_point point, int *head)
{
    const kvref_config *c = &d->config;
    const kvref_stack *s = net->stack;
    *head = 0;
    switch (point) {
    case REF_Q:
    case REF_ATTN:
        *head = s->n_head;
        return s->n_head * s->d_head;
    case REF_K:
    case REF_V:
        *head = s->n_kv_head;
        return s->n_kv_head * s->d_head;
    case REF_FFN_ACT:
        return s->d_ff;
    case REF_LOGITS:
        return net == &d->slow ? c->n_vocab : c->n_code;
    case REF_HIDDEN:
        return c->fast.d_model;
    default:
        return s->d_model;
    }
}

void ref_tap(const kvref_decoder *d,
             const ref_transformer *net,
             ref_point point,
             int layer,
             int first,
             int n_row,
             const float *x)
{
    const kvref_tap *tap = &d->opts.tap;
    if (!tap->fn || tap->level < level_of(point)) return;
    kvref_tap_data data = {
        .name = net->tap[point], .layer = layer, .first = first, .n_row = n_row, .x = x};
    data.width = width_of(d, net, point, &data.head);
    tap->fn(tap->user, &data);
}

static kvref_status check(const kvref_decoder_opts *opts, kvref_error *err)
{
    if (opts->capacity < 0 || opts->capacity > REF_MAX_POS)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "capacity: expected 0..%d, found %d",
                          REF_MAX_POS,
                          opts->capacity);
    if (opts->attention != KVREF_ATTN_PREFIX && opts->attention != KVREF_ATTN_FULL)
        return kvref_fail(err, KVREF_E_ARG, "attention: unknown mode %d", (int)opts->attention);
    if (opts->linear != KVREF_LINEAR_EXACT && opts->linear != KVREF_LINEAR_BLAS)
        return kvref_fail(err, KVREF_E_ARG, "linear: unknown variant %d", (int)opts->linear);
    if (opts->rope_table != KVREF_ROPE_BF16 && opts->rope_table != KVREF_ROPE_F32)
        return kvref_fail(
            err, KVREF_E_ARG, "rope table: unknown kind %d", (int)opts->rope_table);
    return KVREF_OK;
}

static kvref_status choose_linear(kvref_decoder *d, kvref_error *err)
{
    d->tools.linear = d->opts.linear;
    if (d->opts.linear == KVREF_LINEAR_EXACT) return KVREF_OK;
    return ref_blas_check(&d->opts.log, err);
}

/* Everything after the allocation of *d. */
static kvref_status open_parts(kvref_decoder *d, kvref_error *err)
{
    const kvref_config *c = &d->config;
    d->slow.tap = slow_names;
    d->fast.tap = fast_names;
    d->slow.layer = d->weights->slow;
    d->fast.layer = d->weights->fast;
    bool full = d->opts.attention == KVREF_ATTN_FULL;
    d->slow.attention = full ? ref_attention_full : ref_attention_prefix;
    d->fast.attention = full ? ref_attention_books_full : ref_attention_books;
    d->tools.simd = ref_simd_best();
    KVREF_TRY(choose_linear(d, err));
    KVREF_TRY(kvref_pool_open(&d->tools.pool, d->opts.n_thread, err));
    KVREF_TRY(ref_reserve(d, err));
    kvref_config_candidates(c, d->candidate, d->n_candidate);
    ref_rope_init(&d->slow.rope, c->slow.d_head, c->rope_base, d->opts.rope_table);
    ref_rope_init(&d->fast.rope, c->fast.d_head, c->rope_base, d->opts.rope_table);
    ref_rope_reach(&d->fast.rope, c->n_codebook);
    return KVREF_OK;
}

kvref_status ref_decoder_open(kvref_decoder **out,
                              const kvref_config *config,
                              const kvref_weights *weights,
                              const kvref_decoder_opts *opts,
                              kvref_error *err)
{
    *out = NULL;
    KVREF_TRY(check(opts, err));
    kvref_decoder *d = calloc(1, sizeof *d);
    if (!d) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    ref_prepare(d, config, opts);
    d->weights = weights;
    kvref_status status = open_parts(d, err);
    if (status != KVREF_OK) {
        ref_decoder_close(&d);
        return status;
    }
    *out = d;
    return KVREF_OK;
}

void ref_decoder_close(kvref_decoder **d)
{
    if (!*d) return;
    kvref_pool_close(&(*d)->tools.pool);
    if ((*d)->map) munmap((*d)->map, (*d)->n_map);
    free(*d);
    *d = NULL;
}

kvref_kv_count ref_kv_count(const kvref_decoder *d, int layer)
{
    if (layer == -1) return d->fast_count;
    if (layer < 0 || layer >= d->config.slow.n_layer) return (kvref_kv_count){0};
    return d->slow_count[layer];
}
