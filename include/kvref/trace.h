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
    KVREF_TAP_CODES,  /* nothing from the decoder; what the loop knows (below)         */
    KVREF_TAP_LOGITS, /* slow.logits, slow.hidden, fast.logits                         */
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

/* The tap that fills this trace. Rows must come in order: positions without a gap, codebook
 * positions from the first one of every frame on. Rows out of order, of another width than
 * before or not allocatable are left out, and kvref_trace_write reports the first such fault.
 */
kvref_tap kvref_trace_tap(kvref_trace *trace, kvref_tap_level level);

/* Appends rows of an integer tensor [n_row, width], or [n_row] when width is 0. The generation
 * loop records, at every level:
 *   prompt         int32 [column, 1+N]
 *   frames         int32 [column, 1+N]
 *   slow.kv_len    int32 [call]      positions held after the call: T, T+1, ...
 *   slow.kv_rows   int64 [call, L]   K rows read, per key/value head; a decode step of one
 *                                    query reads kv_len, a prefill the sum over its queries
 *   slow.kv_bytes  int64 [call, L]   K and V bytes read
 *   slow.decision  float32 [call, 3] gap between the two best candidate logits (a near tie is
 *                                    a gap below the error of the logits), probability of the
 *                                    end token among the candidates, its rank (0: the best) */
kvref_status kvref_trace_ints(kvref_trace *trace,
                              const char *name,
                              const int32_t *x,
                              int n_row,
                              int width,
                              kvref_error *err);
kvref_status kvref_trace_counts(kvref_trace *trace,
                                const char *name,
                                const int64_t *x,
                                int n_row,
                                int width,
                                kvref_error *err);

/* Sets a metadata string; key and value are copied. A key set again is replaced. "format" is
 * always kvref-trace-1 and cannot be set (ARG). */
kvref_status
kvref_trace_meta(kvref_trace *trace, const char *key, const char *value, kvref_error *err);

/* Writes everything to path (through a temporary name), tensors in order of name. Those of the
 * fast side become [frame, codebook position, ...]: n_frame says how many frames there are. */
kvref_status
kvref_trace_write(kvref_trace *trace, const char *path, int n_frame, kvref_error *err);

/* 64-bit FNV-1a over names, types, shapes and bits of everything collected so far, in order of
 * name: equal results have equal hashes whatever compiler, thread count, capacity or attention
 * mode made them. slow.kv_rows and slow.kv_bytes say how much work was done, slow.decision
 * follows from the logits; they are left out, and so is the metadata. 0 after a fault (see
 * kvref_trace_tap). */
uint64_t kvref_trace_hash(const kvref_trace *trace);

/* The first tensor, in order of name, that holds a NaN or an infinity, and the row of it
 * counted from its beginning; NULL: all are finite. The name is owned by the trace. */
const char *kvref_trace_not_finite(const kvref_trace *trace, int *row);

void kvref_trace_close(kvref_trace **trace);

#ifdef __cplusplus
}
#endif
#endif
