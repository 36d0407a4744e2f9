/* SPDX-License-Identifier: MIT */
/* The two transformers from end to end, as queued work: the slow one over a piece of a call,
 * its outputs, and the fast one over one or two positions (spec 02 section 7, 03 section 2).
 * Nothing here waits or looks at a result, so the same code is run at once or captured. */
#include "gpu/decoder.h"

namespace GPU_NAMESPACE
{

void gpu_slow_pass(gpu_decoder *d, const int32_t *frames, int n_row)
{
    gpu_net *net = &d->slow;
    gpu_embed(d->stream, net->x, frames, n_row, &d->w.embed);
    gpu_tap(d, net, GPU_EMBED, -1, 0, n_row, net->x);
    for (int l = 0; l < net->stack->n_layer; l++) gpu_block(d, net, l, 0, n_row, d->pos);
    gpu_advance(d->stream, d->pos, n_row);
}

/* Logits of the candidates; of everything as well when somebody wants to see all. */
static void logits_of(gpu_decoder *d, const gpu_half *z)
{
    gpu_product p = gpu_product();
    p.y = d->main_logits;
    p.stride_y = gpu_pad(d->n_candidate);
    p.w = d->w.head;
    p.index = d->candidate;
    p.n_out = d->n_candidate;
    int stride = gpu_pad(p.w.n_col);
    gpu_linear(d->stream, &p, 1, z, stride, 1);
    if (!d->all_logits) return;
    p.y = d->all_logits;
    p.stride_y = gpu_pad(p.w.n_row);
    p.index = nullptr;
    p.n_out = p.w.n_row;
    gpu_linear(d->stream, &p, 1, z, stride, 1);
    gpu_tap(d, &d->slow, GPU_LOGITS, -1, 0, 1, d->all_logits);
}

void gpu_slow_finish(gpu_decoder *d, int row)
{
    const kvref_config *c = &d->config;
    gpu_net *net = &d->slow;
    int width = c->slow.d_model, stride = gpu_pad(width);
    const gpu_half *x = net->x + static_cast<size_t>(row) * static_cast<size_t>(stride);
    gpu_norm norm = {net->norm, x, d->w.norm, 1, 1, width, stride, c->norm_eps, true};
    gpu_rmsnorm(d->stream, &norm);
    gpu_tap(d, net, GPU_NORM, -1, 0, 1, net->norm);
    logits_of(d, net->norm);
    const gpu_half *from = c->norm_fastlayer_input ? net->norm : x;
    if (d->w.fast_in.data) {
        gpu_product p = gpu_product();
        p.y = d->hidden;
        p.w = d->w.fast_in;
        p.n_out = p.w.n_row;
        p.stride_y = gpu_pad(p.w.n_row);
        gpu_linear(d->stream, &p, 1, from, stride, 1);
    } else {
        size_t n_byte = static_cast<size_t>(stride) * sizeof *from;
        (void)cudaMemcpyAsync(d->hidden, from, n_byte, cudaMemcpyDeviceToDevice, d->stream);
    }
    gpu_tap(d, net, GPU_HIDDEN, -1, 0, 1, d->hidden);
}

void gpu_fast_pass(gpu_decoder *d, int first, int n_row)
{
    gpu_net *net = &d->fast;
    int width = d->config.fast.d_model, stride = gpu_pad(width);
    for (int t = 0; t < n_row; t++) {
        gpu_half *x = net->x + static_cast<size_t>(t) * static_cast<size_t>(stride);
        int position = first + t;
        if (position > 0) {
            gpu_lookup(d->stream, x, d->w.fast_embed, d->frame + position, width);
            continue;
        }
        size_t n_byte = static_cast<size_t>(stride) * sizeof *x;
        (void)cudaMemcpyAsync(x, d->hidden, n_byte, cudaMemcpyDeviceToDevice, d->stream);
    }
    gpu_tap(d, net, GPU_EMBED, -1, first, n_row, net->x);
    for (int l = 0; l < net->stack->n_layer; l++)
        gpu_block(d, net, l, first, n_row, d->book_pos + first);
    gpu_norm norm = {
        net->norm, net->x, d->w.fast_norm, n_row, 1, width, stride, d->config.norm_eps, true};
    gpu_rmsnorm(d->stream, &norm);
    gpu_tap(d, net, GPU_NORM, -1, first, n_row, net->norm);
}

void gpu_fast_book(gpu_decoder *d, int book)
{
    gpu_net *net = &d->fast;
    int n_row = 1;
    if (book == 1 && !d->ten)
        n_row = 2;
    else if (book == 1)
        gpu_fast_pass(d, 0, 1);
    gpu_fast_pass(d, book + 1 - n_row, n_row);
    size_t stride = static_cast<size_t>(gpu_pad(d->config.fast.d_model));
    gpu_product p = gpu_product();
    p.y = d->logits;
    p.w = d->w.fast_head;
    p.n_out = p.w.n_row;
    p.stride_y = gpu_pad(p.w.n_row);
    gpu_linear(d->stream,
               &p,
               1,
               net->norm + static_cast<size_t>(n_row - 1) * stride,
               static_cast<int>(stride),
               1);
    gpu_tap(d, net, GPU_LOGITS, -1, book, 1, d->logits);
}

} // namespace GPU_NAMESPACE
