/* SPDX-License-Identifier: MIT */
/* The running state of one direction of the codec, in one allocation.
 *
 * A causal convolution looks (n_tap - 1) * step rows back. Those rows are remembered in one
 * array, in the order in which the layers of a piece ask for them; before the first piece they
 * are zeros, which is the padding. The attention windows keep keys and values of the last
 * window - 1 positions. Nothing else passes from piece to piece, so memory does not grow. */
#include "ref/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t conv_history(const ref_conv *v)
{
    return (size_t)((v->n_tap - 1) * v->step) * (size_t)v->n_in;
}

static size_t unit_history(const ref_conv_block *block)
{
    size_t n = 0;
    for (int u = 0; u < 3; u++) n += conv_history(&block->unit[u].wide);
    return n + conv_history(&block->resample);
}

static size_t stage_history(const ref_stage *stage)
{
    return conv_history(&stage->resample) + 6 * (size_t)stage->next.up.n_in;
}

/* Floats remembered by all convolutions of one direction. */
static size_t history_floats(const kvref_codec *c, unsigned part)
{
    bool dec = part == KVREF_CODEC_DECODE;
    size_t n = conv_history(dec ? &c->dec_first : &c->enc_first) +
               conv_history(dec ? &c->dec_last : &c->enc_last);
    for (int i = 0; i < c->n_block; i++) n += unit_history(dec ? &c->dec[i] : &c->enc[i]);
    for (int i = 0; i < c->n_stage; i++) n += stage_history(dec ? &c->up[i] : &c->down[i]);
    return n;
}

/* Positions that one piece brings to a transformer. */
static int piece_rows(const kvref_codec *c, const ref_window *w)
{
    int rate = 1;
    for (int i = 0; w == &c->enc_window && i < c->n_stage; i++) rate *= c->down[i].stride;
    return c->span[w != &c->post].piece * rate;
}

static size_t cache_cap(const kvref_codec *c, const ref_window *w)
{
    return 2 * (size_t)(w->window - 1) + (size_t)piece_rows(c, w);
}

static size_t cache_floats(const kvref_codec *c, const ref_window *w)
{
    return cache_cap(c, w) * 2 * (size_t)w->n_layer * (size_t)w->width;
}

/* The transformers of one direction; returns how many. */
static int windows_of(const kvref_codec *c, unsigned part, const ref_window *w[2])
{
    w[0] = part == KVREF_CODEC_DECODE ? &c->post : &c->enc_window;
    w[1] = &c->pre;
    return part == KVREF_CODEC_DECODE ? 1 : 2;
}

static const ref_span *span_of(const kvref_codec *c, unsigned part)
{
    return &c->span[part == KVREF_CODEC_ENCODE];
}

static size_t buffer_floats(const ref_span *span)
{
    return span->row_floats + 2 * span->slack_floats;
}

static size_t flow_floats(const kvref_codec *c, unsigned part)
{
    const ref_window *w[2];
    size_t n = history_floats(c, part) + REF_N_BUF * buffer_floats(span_of(c, part));
    for (int i = windows_of(c, part, w) - 1; i >= 0; i--) n += cache_floats(c, w[i]);
    return n;
}

size_t ref_flow_bytes(const kvref_codec *c, unsigned part)
{
    return sizeof(ref_flow) + flow_floats(c, part) * sizeof(float);
}

kvref_status ref_flow_open(ref_flow **out, kvref_codec *c, unsigned part, kvref_error *err)
{
    *out = NULL;
    if (!(c->info.parts & part))
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "codec: opened without the part for %s",
                          part == KVREF_CODEC_DECODE ? "decoding" : "encoding");
    ref_flow *f = calloc(1, sizeof *f);
    float *mem = calloc(flow_floats(c, part), sizeof *mem);
    if (!f || !mem) {
        free(f);
        free(mem);
        return kvref_fail(err, KVREF_E_MEMORY, "codec: no memory for a stream");
    }
    f->c = c;
    f->span = span_of(c, part);
    f->mem = f->history = mem;
    f->n_history = history_floats(c, part);
    mem += f->n_history;
    const ref_window *w[2];
    for (int i = windows_of(c, part, w) - 1; i >= 0; i--) {
        f->cache[i].kv = mem;
        f->cache[i].cap = cache_cap(c, w[i]);
        mem += cache_floats(c, w[i]);
    }
    for (int i = 0; i < REF_N_BUF; i++)
        f->buf[i] = mem + (size_t)i * buffer_floats(f->span) + f->span->slack_floats;
    *out = f;
    return KVREF_OK;
}

void ref_flow_close(ref_flow **flow)
{
    if (!*flow) return;
    free((*flow)->mem);
    free(*flow);
    *flow = NULL;
}

void ref_flow_look_back(ref_flow *flow, float *x, int n, int width, int n_row)
{
    size_t back = (size_t)n_row * (size_t)width;
    float *kept = flow->history + flow->cursor;
    flow->cursor += back;
    memcpy(x - back, kept, back * sizeof *x);
    memcpy(kept, x + (size_t)n * (size_t)width - back, back * sizeof *x);
}

void ref_flow_tap(const ref_flow *flow,
                  kvref_tap_level level,
                  const char *name,
                  int64_t first,
                  int n,
                  int width,
                  const float *x)
{
    const kvref_tap *tap = &flow->c->opts.tap;
    if (!tap->fn || tap->level < level) return;
    kvref_tap_data data = {name, -1, (int)first, n, 0, width, x};
    tap->fn(tap->user, &data);
}

void ref_flow_stage(
    const ref_flow *flow, const char *format, int i, int64_t first, int n, int width)
{
    char name[64];
    snprintf(name, sizeof name, format, i);
    ref_flow_tap(flow, KVREF_TAP_LAYERS, name, first, n, width, flow->buf[0]);
}
