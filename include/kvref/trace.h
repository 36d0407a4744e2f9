/* SPDX-License-Identifier: MIT */
/* Taps and traces. A decoder hands every intermediate result to one callback; the trace
 * collects them into a safetensors file whose names and axes are those of golden/README.md. */
#ifndef KVREF_TRACE_H
#define KVREF_TRACE_H

#include "kvref/status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How much a decoder reports. Each level includes the ones before it. */
typedef enum kvref_tap_level {
    KVREF_TAP_NONE,
    KVREF_TAP_CODES,  /* nothing from the decoder; prompt and frames from the loop     */
    KVREF_TAP_LOGITS, /* slow.logits, slow.hidden, fast.logits, kv_len and rows read   */
    KVREF_TAP_LAYERS, /* + embed, norm, and per layer k, v, attn, out                  */
    KVREF_TAP_OPS     /* + per layer attn_norm, q, attn_out, ffn_norm, ffn_act, ffn_out */
} kvref_tap_level;

/* One reported array: n_row rows of width values, host float32, row-major. name is a static
 * part such as "slow.embed" or "slow.attn_norm"; layer is -1 or the layer, giving
 * "slow.L00.attn_norm". head > 0 splits a row into [head, width / head]. first is the position
 * (slow), the frame (slow.norm, slow.logits, slow.hidden) or the codebook position (fast) of
 * row 0. The data is valid during the call only. */
typedef struct kvref_tap_data {
    const char *name;
    int layer;
    int first;
    int n_row;
    int head;
    int width;
    const float *x; /* [n_row, width] */
} kvref_tap_data;

typedef struct kvref_tap {
    void (*fn)(void *user, const kvref_tap_data *data);
    void *user;
    kvref_tap_level level;
} kvref_tap;

typedef struct kvref_trace kvref_trace;

/* An empty trace in memory. */
kvref_status kvref_trace_open(kvref_trace **out, kvref_error *err);

/* The tap that fills this trace. A failed allocation inside is reported by
 * kvref_trace_write. */
kvref_tap kvref_trace_tap(kvref_trace *trace, kvref_tap_level level);

/* Appends rows of an int32 tensor, shape [.., width] (prompt, frames, kv_len, kv_rows ...). */
kvref_status kvref_trace_ints(kvref_trace *trace,
                              const char *name,
                              const int32_t *x,
                              int n_row,
                              int width,
                              kvref_error *err);

/* Sets a metadata string; key and value are copied. "format" is always kvref-trace-1. */
kvref_status
kvref_trace_meta(kvref_trace *trace, const char *key, const char *value, kvref_error *err);

/* Writes everything to path (through a temporary name). Tensors of the fast side become
 * [frame, codebook position, ...]: n_frame says how many frames there are. */
kvref_status
kvref_trace_write(kvref_trace *trace, const char *path, int n_frame, kvref_error *err);

/* 64-bit FNV-1a over names, shapes and bits of everything collected so far: equal traces have
 * equal hashes whatever compiler, thread count or capacity made them. */
uint64_t kvref_trace_hash(const kvref_trace *trace);

void kvref_trace_close(kvref_trace **trace);

#ifdef __cplusplus
}
#endif
#endif
