/* SPDX-License-Identifier: MIT */
/* One transformer layer, the same for both transformers (spec 02 section 5):
 *
 *     n = rmsnorm(x)              q = Wq n,  k = Wk n,  v = Wv n   (+ bias)
 *     q, k = rmsnorm per head     only with qk_norm, and before the rotation
 *     q, k = rope(q, k)           k, v go to the cache
 *     x = x + Wo attention(q)     (+ bias)
 *     n = rmsnorm(x)
 *     x = x + W2 (silu(W1 n) * W3 n)
 *
 * Notice that rows meet in one line only, the attention; everything else treats each row by
 * itself. That is why a prompt may be fed whole, in chunks or one by one. */
#include "ref/ref.h"

/* The residual stream: each half of a layer adds to x and never replaces it. */
static void add(float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = ref_round(x[i] + y[i]);
}

/* d->mixed from d->norm: projections, head norm, rotation, cache, attention. */
static void attention(kvref_decoder *d,
                      ref_transformer *net,
                      int layer,
                      int first,
                      int n_row,
                      kvref_kv_count *count)
{
    const kvref_stack *s = net->stack;
    const kvref_layer *w = &net->layer[layer];
    const ref_tools *tools = &d->tools;
    ref_matrix qkv[] = {{d->q, &w->wq, &w->bq}, {d->k, &w->wk, &w->bk}, {d->v, &w->wv, &w->bv}};
    ref_linear(tools, qkv, 3, d->norm, n_row);
    if (s->qk_norm) {
        float eps = d->config.norm_eps;
        ref_rmsnorm(tools, d->q, d->q, n_row * s->n_head, s->d_head, &w->q_norm, eps, false);
        ref_rmsnorm(tools, d->k, d->k, n_row * s->n_kv_head, s->d_head, &w->k_norm, eps, false);
    }
    ref_rope_apply(&net->rope, d->q, n_row, s->n_head, first);
    ref_rope_apply(&net->rope, d->k, n_row, s->n_kv_head, first);
    ref_tap(d, net, REF_Q, layer, first, n_row, d->q);
    ref_tap(d, net, REF_K, layer, first, n_row, d->k);
    ref_tap(d, net, REF_V, layer, first, n_row, d->v);
    ref_kv_append(&net->kv, layer, first, d->k, d->v, n_row);

    /* Workers count apart, so that they share nothing; the sum is the same for any number. */
    int n_worker = kvref_pool_size(tools->pool);
    for (int i = 0; i < n_worker; i++) tools->count[i] = (kvref_kv_count){0};
    net->attention(tools, d->mixed, d->q, &net->kv, layer, first, n_row, s->n_head);
    for (int i = 0; i < n_worker; i++) {
        count->k_rows += tools->count[i].k_rows;
        count->v_rows += tools->count[i].v_rows;
        count->bytes += tools->count[i].bytes;
    }
    ref_tap(d, net, REF_ATTN, layer, first, n_row, d->mixed);
}

void ref_block(kvref_decoder *d,
               ref_transformer *net,
               int layer,
               int first,
               int n_row,
               kvref_kv_count *count)
{
    const kvref_stack *s = net->stack;
    const kvref_layer *w = &net->layer[layer];
    const ref_tools *tools = &d->tools;
    int width = s->d_model;
    size_t n = (size_t)n_row * (size_t)width, n_ff = (size_t)n_row * (size_t)s->d_ff;

    ref_rmsnorm(tools, d->norm, d->x, n_row, width, &w->attn_norm, d->config.norm_eps, true);
    ref_tap(d, net, REF_ATTN_NORM, layer, first, n_row, d->norm);
    attention(d, net, layer, first, n_row, count);
    ref_linear(tools, &(ref_matrix){d->out, &w->wo, &w->bo}, 1, d->mixed, n_row);
    ref_tap(d, net, REF_ATTN_OUT, layer, first, n_row, d->out);
    add(d->x, d->out, n);

    ref_rmsnorm(tools, d->norm, d->x, n_row, width, &w->ffn_norm, d->config.norm_eps, true);
    ref_tap(d, net, REF_FFN_NORM, layer, first, n_row, d->norm);
    ref_matrix gate_up[] = {{d->gate, &w->w1, NULL}, {d->up, &w->w3, NULL}};
    ref_linear(tools, gate_up, 2, d->norm, n_row);
    ref_swiglu(d->gate, d->up, n_ff);
    ref_tap(d, net, REF_FFN_ACT, layer, first, n_row, d->gate);
    ref_linear(tools, &(ref_matrix){d->out, &w->w2, NULL}, 1, d->gate, n_row);
    ref_tap(d, net, REF_FFN_OUT, layer, first, n_row, d->out);
    add(d->x, d->out, n);
    ref_tap(d, net, REF_OUT, layer, first, n_row, d->x);
}
