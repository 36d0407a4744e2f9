/* SPDX-License-Identifier: MIT */
/* Weights on the device: every matrix of the shared loader rounded to float16, rows padded to
 * 16 bytes with zeros (a zero adds nothing to a sum, whatever x holds there). What the rounding
 * did is counted: bfloat16 has a wider range than float16. */
#include "gpu/decoder.h"

#include <stdio.h>
#include <stdlib.h>

namespace GPU_NAMESPACE
{

/* Calls fn for every weight; the same list plans and fills. */
typedef kvref_status visit(gpu_decoder *d,
                           const gpu_half **to,
                           const kvref_weight *from,
                           const char *name,
                           kvref_error *err);

static kvref_status vector(gpu_decoder *d,
                           visit *fn,
                           gpu_half **to,
                           const kvref_weight *from,
                           const char *name,
                           kvref_error *err)
{
    return fn(d, const_cast<const gpu_half **>(to), from, name, err);
}

static kvref_status matrix(gpu_decoder *d,
                           visit *fn,
                           gpu_matrix *to,
                           const kvref_weight *w,
                           const kvref_weight *bias,
                           const char *name,
                           kvref_error *err)
{
    to->n_row = w->n_row;
    to->n_col = w->n_col;
    KVREF_TRY(fn(d, &to->data, w, name, err));
    if (!bias || !bias->data) return KVREF_OK;
    return fn(d, &to->bias, bias, name, err);
}

static kvref_status layer_list(gpu_decoder *d,
                               visit *fn,
                               gpu_layer *to,
                               const kvref_layer *w,
                               const char *side,
                               int layer,
                               kvref_error *err)
{
    char name[48];
#define NAME(part) (snprintf(name, sizeof name, "weights %s.L%02d." part, side, layer), name)
    KVREF_TRY(vector(d, fn, &to->attn_norm, &w->attn_norm, NAME("attn_norm"), err));
    KVREF_TRY(matrix(d, fn, &to->wq, &w->wq, &w->bq, NAME("wq"), err));
    KVREF_TRY(matrix(d, fn, &to->wk, &w->wk, &w->bk, NAME("wk"), err));
    KVREF_TRY(matrix(d, fn, &to->wv, &w->wv, &w->bv, NAME("wv"), err));
    KVREF_TRY(vector(d, fn, &to->q_norm, &w->q_norm, NAME("q_norm"), err));
    KVREF_TRY(vector(d, fn, &to->k_norm, &w->k_norm, NAME("k_norm"), err));
    KVREF_TRY(matrix(d, fn, &to->wo, &w->wo, &w->bo, NAME("wo"), err));
    KVREF_TRY(vector(d, fn, &to->ffn_norm, &w->ffn_norm, NAME("ffn_norm"), err));
    KVREF_TRY(matrix(d, fn, &to->w1, &w->w1, nullptr, NAME("w1"), err));
    KVREF_TRY(matrix(d, fn, &to->w3, &w->w3, nullptr, NAME("w3"), err));
    return matrix(d, fn, &to->w2, &w->w2, nullptr, NAME("w2"), err);
#undef NAME
}

static kvref_status list(gpu_decoder *d, visit *fn, kvref_error *err)
{
    const kvref_weights *w = d->source;
    gpu_weights *to = &d->w;
    KVREF_TRY(fn(d, &to->embed.token, &w->embed, "weights embed", err));
    KVREF_TRY(fn(d, &to->embed.code, &w->codebook_embed, "weights codebook_embed", err));
    for (int l = 0; l < d->config.slow.n_layer; l++)
        KVREF_TRY(layer_list(d, fn, &to->slow[l], &w->slow[l], "slow", l, err));
    KVREF_TRY(vector(d, fn, &to->norm, &w->norm, "weights norm", err));
    to->head.n_row = w->head.n_row;
    to->head.n_col = w->head.n_col;
    if (w->head.data != w->embed.data)
        KVREF_TRY(matrix(d, fn, &to->head, &w->head, nullptr, "weights head", err));
    if (w->fast_in.data)
        KVREF_TRY(
            matrix(d, fn, &to->fast_in, &w->fast_in, &w->fast_in_bias, "weights fast_in", err));
    KVREF_TRY(vector(d, fn, &to->fast_embed, &w->fast_embed, "weights fast_embed", err));
    for (int l = 0; l < d->config.fast.n_layer; l++)
        KVREF_TRY(layer_list(d, fn, &to->fast[l], &w->fast[l], "fast", l, err));
    KVREF_TRY(vector(d, fn, &to->fast_norm, &w->fast_norm, "weights fast_norm", err));
    return matrix(d, fn, &to->fast_head, &w->fast_head, nullptr, "weights fast_head", err);
}

static kvref_status plan_one(gpu_decoder *d,
                             const gpu_half **to,
                             const kvref_weight *from,
                             const char *name,
                             kvref_error *)
{
    size_t n = 0;
    if (from->data)
        n = static_cast<size_t>(from->n_row) * static_cast<size_t>(gpu_pad(from->n_col));
    gpu_want(&d->plan, const_cast<gpu_half **>(to), n, false, name);
    return KVREF_OK;
}

enum { STAGE = 1 << 21 }; /* values converted at once */

static kvref_status fill_one(gpu_decoder *d,
                             const gpu_half **to,
                             const kvref_weight *from,
                             const char *name,
                             kvref_error *err)
{
    if (!from->data) return KVREF_OK;
    size_t stride = static_cast<size_t>(gpu_pad(from->n_col));
    int rows = static_cast<int>(STAGE / stride);
    rows = rows < 1 ? 1 : rows > from->n_row ? from->n_row : rows;
    gpu_half *stage =
        static_cast<gpu_half *>(malloc(static_cast<size_t>(rows) * stride * sizeof *stage));
    if (!stage) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    kvref_status status = KVREF_OK;
    for (int r = 0; r < from->n_row && status == KVREF_OK; r += rows) {
        int n = from->n_row - r < rows ? from->n_row - r : rows;
        kvref_narrow(stage, stride, from, r, n, &d->narrowed);
        gpu_half *at = const_cast<gpu_half *>(*to) + static_cast<size_t>(r) * stride;
        size_t n_byte = static_cast<size_t>(n) * stride * sizeof *stage;
        status = gpu_check(name, cudaMemcpy(at, stage, n_byte, cudaMemcpyHostToDevice), err);
    }
    free(stage);
    return status;
}

kvref_status gpu_weights_plan(gpu_decoder *d, kvref_error *err)
{
    const kvref_config *c = &d->config;
    gpu_weights *w = &d->w;
    w->slow =
        static_cast<gpu_layer *>(calloc(static_cast<size_t>(c->slow.n_layer), sizeof *w->slow));
    w->fast =
        static_cast<gpu_layer *>(calloc(static_cast<size_t>(c->fast.n_layer), sizeof *w->fast));
    if (!w->slow || !w->fast) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    w->embed.width = c->slow.d_model;
    w->embed.n_codebook = c->n_codebook;
    w->embed.n_code = c->n_code;
    w->embed.semantic_begin = c->semantic_begin;
    w->embed.semantic_end = c->semantic_end;
    w->embed.scale = c->scale_codebook_embeddings;
    return list(d, plan_one, err);
}

kvref_status gpu_weights_fill(gpu_decoder *d, kvref_error *err)
{
    KVREF_TRY(list(d, fill_one, err));
    if (!d->w.head.data) d->w.head.data = d->w.embed.token;
    const kvref_narrowed *n = &d->narrowed;
    if (n->overflow || n->underflow)
        kvref_note(&d->opts.log,
                   "weights as float16: of %llu values %llu became infinite and %llu became 0",
                   static_cast<unsigned long long>(n->n),
                   static_cast<unsigned long long>(n->overflow),
                   static_cast<unsigned long long>(n->underflow));
    return KVREF_OK;
}

} // namespace GPU_NAMESPACE
