/* SPDX-License-Identifier: MIT */
/* One transformer layer (spec 02 section 5), as a list of launches; ref/block.c is the same
 * list on the CPU. Each arrow is an array of float16 in device memory. */
#include "gpu/decoder.h"

namespace GPU_NAMESPACE
{

static gpu_product product(gpu_half *y, const gpu_matrix *w)
{
    gpu_product p = gpu_product();
    p.y = y;
    p.stride_y = gpu_pad(w->n_row);
    p.w = *w;
    p.n_out = w->n_row;
    return p;
}

static void
linear(gpu_decoder *d, gpu_half *y, const gpu_matrix *w, const gpu_half *x, int n_row)
{
    gpu_product p = product(y, w);
    gpu_linear(d->stream, &p, 1, x, gpu_pad(w->n_col), n_row);
}

static void
norm_rows(gpu_decoder *d, const gpu_net *net, gpu_half *y, const gpu_half *w, int n_row)
{
    int width = net->stack->d_model;
    gpu_norm a = {y, net->x, w, n_row, 1, width, gpu_pad(width), d->config.norm_eps, true};
    gpu_rmsnorm(d->stream, &a);
}

static void norm_heads(
    gpu_decoder *d, const gpu_net *net, gpu_half *x, const gpu_half *w, int n_row, int n_head)
{
    int width = net->stack->d_head, stride = gpu_pad(n_head * width);
    gpu_norm a = {x, x, w, n_row * n_head, n_head, width, stride, d->config.norm_eps, false};
    gpu_rmsnorm(d->stream, &a);
}

static void attend(gpu_decoder *d, gpu_net *net, int layer, int n_row, const int32_t *first)
{
    gpu_attention a = d->scratch;
    a.out = net->mixed;
    a.q = net->q;
    a.kv = &net->kv;
    a.layer = layer;
    a.n_head = net->stack->n_head;
    a.n_row = n_row;
    a.first = first;
    bool full = d->opts.attention == KVREF_ATTN_FULL;
    if (net->books)
        gpu_attention_books(d->stream, &a, full);
    else if (full)
        gpu_attention_full(d->stream, &a);
    else
        gpu_attention_prefix(d->stream, &a);
}

/* net->mixed from net->norm: projections, head norm, rotation, cache, attention. */
static void
attention(gpu_decoder *d, gpu_net *net, int layer, int base, int n_row, const int32_t *first)
{
    const kvref_stack *s = net->stack;
    const gpu_layer *w = &net->layer[layer];
    gpu_product qkv[] = {
        product(net->q, &w->wq), product(net->k, &w->wk), product(net->v, &w->wv)};
    gpu_linear(d->stream, qkv, 3, net->norm, gpu_pad(s->d_model), n_row);
    if (s->qk_norm) {
        norm_heads(d, net, net->q, w->q_norm, n_row, s->n_head);
        norm_heads(d, net, net->k, w->k_norm, n_row, s->n_kv_head);
    }
    int q = gpu_pad(s->n_head * s->d_head), k = gpu_pad(s->n_kv_head * s->d_head);
    gpu_rope(d->stream, net->q, q, n_row, s->n_head, s->d_head, net->cosine, net->sine, first);
    gpu_rope(
        d->stream, net->k, k, n_row, s->n_kv_head, s->d_head, net->cosine, net->sine, first);
    gpu_tap(d, net, GPU_Q, layer, base, n_row, net->q);
    gpu_tap(d, net, GPU_K, layer, base, n_row, net->k);
    gpu_tap(d, net, GPU_V, layer, base, n_row, net->v);
    gpu_kv_append(d->stream, &net->kv, layer, net->k, net->v, n_row, first);
    attend(d, net, layer, n_row, first);
    gpu_tap(d, net, GPU_ATTN, layer, base, n_row, net->mixed);
}

void gpu_block(
    gpu_decoder *d, gpu_net *net, int layer, int base, int n_row, const int32_t *first)
{
    const kvref_stack *s = net->stack;
    const gpu_layer *w = &net->layer[layer];
    size_t n = static_cast<size_t>(n_row) * static_cast<size_t>(gpu_pad(s->d_model));
    size_t n_ff = static_cast<size_t>(n_row) * static_cast<size_t>(gpu_pad(s->d_ff));

    norm_rows(d, net, net->norm, w->attn_norm, n_row);
    gpu_tap(d, net, GPU_ATTN_NORM, layer, base, n_row, net->norm);
    attention(d, net, layer, base, n_row, first);
    linear(d, net->out, &w->wo, net->mixed, n_row);
    gpu_tap(d, net, GPU_ATTN_OUT, layer, base, n_row, net->out);
    gpu_add(d->stream, net->x, net->out, n);

    norm_rows(d, net, net->norm, w->ffn_norm, n_row);
    gpu_tap(d, net, GPU_FFN_NORM, layer, base, n_row, net->norm);
    gpu_product gate_up[] = {product(net->gate, &w->w1), product(net->up, &w->w3)};
    gpu_linear(d->stream, gate_up, 2, net->norm, gpu_pad(s->d_model), n_row);
    gpu_swiglu(d->stream, net->gate, net->up, n_ff);
    gpu_tap(d, net, GPU_FFN_ACT, layer, base, n_row, net->gate);
    linear(d, net->out, &w->w2, net->gate, n_row);
    gpu_tap(d, net, GPU_FFN_OUT, layer, base, n_row, net->out);
    gpu_add(d->stream, net->x, net->out, n);
    gpu_tap(d, net, GPU_OUT, layer, base, n_row, net->x);
}

} // namespace GPU_NAMESPACE
