/* SPDX-License-Identifier: MIT */
/* Taps on a device: at each point the array is copied aside, in order, and handed over when the
 * call has finished. The copies are queued like any other work, so a captured frame has them
 * too, and a tap never makes the device wait. Names and levels are those of kvref/trace.h. */
#include "gpu/decoder.h"

#include <string.h>

namespace GPU_NAMESPACE
{

static const char *const names[2][GPU_N_POINT] = {
    {"slow.embed",
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
     "slow.hidden"},
    {"fast.embed",
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
     nullptr},
};

static kvref_tap_level level_of(gpu_point point)
{
    switch (point) {
    case GPU_LOGITS:
    case GPU_HIDDEN:
        return KVREF_TAP_LOGITS;
    case GPU_EMBED:
    case GPU_K:
    case GPU_V:
    case GPU_ATTN:
    case GPU_OUT:
    case GPU_NORM:
        return KVREF_TAP_LAYERS;
    default:
        return KVREF_TAP_OPS;
    }
}

bool gpu_tap_wanted(const gpu_decoder *d, gpu_point point)
{
    return d->opts.tap.fn && d->opts.tap.level >= level_of(point);
}

int gpu_tap_width(const gpu_decoder *d, const gpu_net *net, gpu_point point, int *head)
{
    const kvref_stack *s = net->stack;
    *head = 0;
    switch (point) {
    case GPU_Q:
    case GPU_ATTN:
        *head = s->n_head;
        return s->n_head * s->d_head;
    case GPU_K:
    case GPU_V:
        *head = s->n_kv_head;
        return s->n_kv_head * s->d_head;
    case GPU_FFN_ACT:
        return s->d_ff;
    case GPU_LOGITS:
        return net->books ? d->config.n_code : d->config.n_vocab;
    case GPU_HIDDEN:
        return d->config.fast.d_model;
    default:
        return s->d_model;
    }
}

/* Values of one row at every wanted point, those of layers once a layer. */
static size_t row_values(const gpu_decoder *d, const gpu_net *net)
{
    size_t n = 0, layers = static_cast<size_t>(net->stack->n_layer);
    for (int i = 0; i < GPU_N_POINT; i++) {
        gpu_point point = static_cast<gpu_point>(i);
        if (!gpu_tap_wanted(d, point) || (net->books && point == GPU_HIDDEN)) continue;
        int head;
        size_t width = static_cast<size_t>(gpu_pad(gpu_tap_width(d, net, point, &head)));
        bool once = point == GPU_EMBED || point >= GPU_NORM;
        n += once ? width : width * layers;
    }
    return n;
}

/* A piece of the slow transformer, or a whole frame: one row of it and N of the fast one. */
size_t gpu_tap_values(const gpu_decoder *d)
{
    size_t slow = row_values(d, &d->slow), fast = row_values(d, &d->fast);
    return slow * static_cast<size_t>(d->slow.n_row) +
           fast * static_cast<size_t>(d->config.n_codebook + 1);
}

void gpu_tap(gpu_decoder *d,
             const gpu_net *net,
             gpu_point point,
             int layer,
             int first,
             int n_row,
             const gpu_half *x)
{
    gpu_records *to = d->tap.to;
    if (!gpu_tap_wanted(d, point)) return;
    void *list = to->at;
    if (kvref_grow(&list, &to->cap, to->n + 1, sizeof *to->at, nullptr) != KVREF_OK) {
        to->failed = true; /* reported by the flush */
        return;
    }
    to->at = static_cast<gpu_record *>(list);
    gpu_record r = gpu_record();
    r.name = names[net->books][point];
    r.layer = layer;
    r.first = first;
    r.n_row = n_row;
    r.base = net->books          ? gpu_record::BOOK
             : point >= GPU_NORM ? gpu_record::CALL
                                 : gpu_record::POSITION;
    r.width = gpu_tap_width(d, net, point, &r.head);
    r.offset = to->used;
    size_t n = static_cast<size_t>(n_row) * static_cast<size_t>(gpu_pad(r.width));
    (void)cudaMemcpyAsync(
        d->tap.device + r.offset, x, n * sizeof *x, cudaMemcpyDeviceToDevice, d->stream);
    to->used += n;
    to->at[to->n++] = r;
}

static void report(gpu_decoder *d, const gpu_record *r, int position, int call)
{
    const gpu_tap_area *area = &d->tap;
    size_t width = static_cast<size_t>(r->width),
           stride = static_cast<size_t>(gpu_pad(r->width));
    for (size_t t = 0; t < static_cast<size_t>(r->n_row); t++)
        for (size_t i = 0; i < width; i++)
            area->row[t * width + i] = kvref_f16_f32(area->host[r->offset + t * stride + i]);
    kvref_tap_data data = kvref_tap_data();
    data.name = r->name;
    data.layer = r->layer;
    data.first = r->first;
    if (r->base == gpu_record::POSITION) data.first += position;
    if (r->base == gpu_record::CALL) data.first += call;
    data.n_row = r->n_row;
    data.head = r->head;
    data.width = r->width;
    data.x = area->row;
    d->opts.tap.fn(d->opts.tap.user, &data);
}

kvref_status gpu_tap_flush(
    gpu_decoder *d, const gpu_records *records, int position, int call, kvref_error *err)
{
    gpu_tap_area *area = &d->tap;
    if (records->failed) return kvref_fail(err, KVREF_E_MEMORY, "taps: out of memory");
    if (records->n == 0) return KVREF_OK;
    size_t n_byte = records->used * sizeof *area->host;
    cudaError_t e =
        cudaMemcpyAsync(area->host, area->device, n_byte, cudaMemcpyDeviceToHost, d->stream);
    KVREF_TRY(gpu_check("fetching taps", e, err));
    KVREF_TRY(gpu_wait(d, "fetching taps", err));
    for (size_t i = 0; i < records->n; i++) report(d, &records->at[i], position, call);
    return KVREF_OK;
}

void gpu_tap_begin(gpu_decoder *d, gpu_records *to)
{
    to->n = to->used = 0;
    to->failed = false;
    d->tap.to = to;
}

} // namespace GPU_NAMESPACE
