/* SPDX-License-Identifier: MIT */
/* The FP16 decoder: what it holds on the device and on the host, and its parts. */
#ifndef KVREF_GPU_DECODER_H
#define KVREF_GPU_DECODER_H

#include "base/base.h"
#include "base/frames.h"
#include "base/narrow.h"
#include "base/rope.h"
#include "gpu/gpu.h"

namespace GPU_NAMESPACE
{

/* ---- memory.cu: device memory, planned as a whole before any is taken ---- */

struct gpu_buffer {
    char name[48]; /* for messages                  */
    size_t n_byte;
    void **at; /* receives the address          */
    bool zero; /* filled with zero bytes at open */
};

struct gpu_plan {
    gpu_buffer *buffer; /* [n] */
    size_t n, cap, n_byte;
    kvref_status status;
};

/* Adds n values of a type; *at stays NULL when n is 0. A failure is kept in the plan. */
template <class type>
void gpu_want(gpu_plan *plan, type **at, size_t n, bool zero, const char *name);
void gpu_want_bytes(gpu_plan *plan, void **at, size_t n_byte, bool zero, const char *name);

template <class type>
void gpu_want(gpu_plan *plan, type **at, size_t n, bool zero, const char *name)
{
    size_t n_byte = SIZE_MAX;
    if (!kvref_mul_size(n, sizeof(type), &n_byte)) n_byte = SIZE_MAX;
    gpu_want_bytes(plan, reinterpret_cast<void **>(at), n_byte, zero, name);
}

/* Takes all of it, or nothing: MEMORY names the first buffer that does not fit, its size, what
 * is free and what is needed in all. */
kvref_status gpu_take(gpu_plan *plan, kvref_error *err);

/* Gives back what was taken, and forgets the plan. */
void gpu_release(gpu_plan *plan);

/* ---- weights.cu ---- */

struct gpu_layer {
    gpu_half *attn_norm, *q_norm, *k_norm, *ffn_norm;
    gpu_matrix wq, wk, wv, wo, w1, w3, w2;
};

struct gpu_weights {
    gpu_embedding embed;
    gpu_matrix head;        /* [V, D]; the token table when tied */
    gpu_half *norm;         /* [D]                               */
    gpu_matrix fast_in;     /* data NULL: absent                 */
    gpu_half *fast_embed;   /* [K, pad(D')]                      */
    gpu_half *fast_norm;    /* [D']                              */
    gpu_matrix fast_head;   /* [K, D']                           */
    gpu_layer *slow, *fast; /* [L]                               */
};

struct gpu_decoder;

/* Plans device copies of every weight; then fills them, rounded to float16. */
kvref_status gpu_weights_plan(gpu_decoder *d, kvref_error *err);
kvref_status gpu_weights_fill(gpu_decoder *d, kvref_error *err);

/* ---- the decoder ---- */

/* One of the two transformers. Rows are [T, pad(width)], T up to n_row. */
struct gpu_net {
    const kvref_stack *stack;
    const gpu_layer *layer;
    bool books; /* the fast one: explicit attention over N positions */
    int n_row;
    gpu_kv kv;
    float *cosine, *sine;        /* [C, E/2]                              */
    gpu_half *x, *norm, *out;    /* [T, pad(D)]                           */
    gpu_half *q, *k, *v, *mixed; /* [T, pad(H*E)], [T, pad(G*E)] twice, q */
    gpu_half *gate, *up;         /* [T, pad(F)]                           */
    kvref_kv_count count;        /* gpu_count                             */
};

/* Where taps sit, in the order of a call. */
enum gpu_point {
    GPU_EMBED,
    GPU_ATTN_NORM,
    GPU_Q,
    GPU_K,
    GPU_V,
    GPU_ATTN,
    GPU_ATTN_OUT,
    GPU_FFN_NORM,
    GPU_FFN_ACT,
    GPU_FFN_OUT,
    GPU_OUT,
    GPU_NORM,
    GPU_LOGITS,
    GPU_HIDDEN,
    GPU_N_POINT
};

/* One copy that was made for the tap; base is added to first when it is reported. */
struct gpu_record {
    const char *name;
    int layer, n_row, head, width;
    enum { POSITION, CALL, BOOK } base;
    int first;
    size_t offset; /* of row 0 in the tap area; rows are pad(width) apart */
};

/* What one call, or one captured frame, copies aside. */
struct gpu_records {
    gpu_record *at; /* [n]                              */
    size_t n, cap;
    size_t used; /* values of the tap area taken so far */
    bool failed; /* no memory for a record              */
};

struct gpu_tap_area {
    gpu_half *device, *host; /* [n_value]                     */
    size_t n_value;
    gpu_records call, graph; /* of the call, of the graph     */
    gpu_records *to;         /* which of them records now     */
    float *row;              /* [GPU_ROWS * widest] reported  */
};

/* What the host writes before a frame and reads after it, in memory the device can reach. */
struct gpu_host {
    gpu_frame_args args;
    gpu_frame_state state;
    int32_t first;
};

struct gpu_decoder {
    kvref_config config;
    const kvref_weights *source; /* borrowed */
    kvref_decoder_opts opts;
    gpu_plan plan;
    cudaStream_t stream;
    gpu_weights w;
    gpu_net slow, fast;
    gpu_attention scratch; /* score, peak, total, part, wide_k, wide_v */
    kvref_narrowed narrowed;

    int n_pos, n_call, book;
    int device_pos;  /* what *pos holds once the queue is empty          */
    bool has_hidden; /* hidden belongs to the last position              */
    bool has_frame;  /* frame is the one that follows the last position  */
    bool ten;        /* fast positions 0 and 1 go one by one             */

    /* On the device. */
    int32_t *frames;       /* [GPU_ROWS, 1+N] of a piece of a slow call  */
    int32_t *frame;        /* [1+N] of the frame being made              */
    int32_t *forced;       /* [1+N]                                      */
    int32_t *pos;          /* positions held                             */
    int32_t *book_pos;     /* [N] 0, 1, 2, ...                           */
    int32_t *candidate;    /* [A]                                        */
    gpu_half *logits;      /* [pad(max(A, K))]                           */
    gpu_half *main_logits; /* [pad(A)] kept for the host                */
    gpu_half *all_logits;  /* [pad(V)] only when logits are tapped       */
    gpu_half *hidden;      /* [pad(D')]                                  */
    gpu_frame_args *args;
    gpu_frame_state *state;
    float *noise;   /* [2A + (N-1)K]                              */
    float *p;       /* [max(A, K)]                                */
    int32_t *order; /* [max(A, K)]                                */

    /* On the host, pinned. */
    gpu_host *host;
    int32_t *host_frames;  /* [GPU_ROWS, 1+N]    */
    int32_t *host_frame;   /* [1+N]              */
    int32_t *host_forced;  /* [1+N]              */
    gpu_half *host_logits; /* [max(A, K)]       */
    float *host_noise;     /* [2A + (N-1)K]      */

    int n_candidate, end; /* A, and the place of the end token, -1: none */
    gpu_tap_area tap;

    cudaGraph_t graph;
    cudaGraphExec_t exec; /* NULL: not captured yet */
};

/* Inside, the public type is this one. */
inline gpu_decoder *gpu_of(kvref_decoder *d)
{
    return reinterpret_cast<gpu_decoder *>(d);
}

inline const gpu_decoder *gpu_of(const kvref_decoder *d)
{
    return reinterpret_cast<const gpu_decoder *>(d);
}

/* DEVICE with what was being done if the runtime has noted an error since the last call. */
kvref_status gpu_check(const char *doing, cudaError_t e, kvref_error *err);

/* Waits for the stream and reports what went wrong on the way. */
kvref_status gpu_wait(const gpu_decoder *d, const char *doing, kvref_error *err);

/* ---- layout.cu ---- */

/* Copies config and options, fills in defaults, plans every buffer. */
kvref_status gpu_layout(gpu_decoder *d, kvref_error *err);

/* Pinned host memory, and what does not change: positions, tables, candidates. */
kvref_status gpu_fill(gpu_decoder *d, kvref_error *err);
void gpu_release_host(gpu_decoder *d);

/* ---- taps.cu ---- */

bool gpu_tap_wanted(const gpu_decoder *d, gpu_point point);

/* Heads in a row (0: not split) and its width. */
int gpu_tap_width(const gpu_decoder *d, const gpu_net *net, gpu_point point, int *head);

/* Queues a copy of x [n_row, pad(width)] when the point is wanted. first: of row 0, relative
 * to the piece for positions. */
void gpu_tap(gpu_decoder *d,
             const gpu_net *net,
             gpu_point point,
             int layer,
             int first,
             int n_row,
             const gpu_half *x);

/* Values that the taps of one piece take at most. */
size_t gpu_tap_values(const gpu_decoder *d);

/* What is tapped from now on is recorded there, from the start of the area. */
void gpu_tap_begin(gpu_decoder *d, gpu_records *to);

/* Reports what was recorded, fetching the values; waits for the stream. position and call are
 * added to what records say. */
kvref_status gpu_tap_flush(
    gpu_decoder *d, const gpu_records *records, int position, int call, kvref_error *err);

/* ---- block.cu: queues work, waits for nothing ---- */

/* net->x [n_row, pad(D)] through one layer, in place, at positions *first .. */
void gpu_block(
    gpu_decoder *d, gpu_net *net, int layer, int base, int n_row, const int32_t *first);

/* ---- passes.cu: queues work, waits for nothing ---- */

/* frames [n_row, 1+N] on the device through all slow layers, at the positions from *d->pos. */
void gpu_slow_pass(gpu_decoder *d, const int32_t *frames, int n_row);

/* Final norm, candidate logits, hidden state of row `row`. */
void gpu_slow_finish(gpu_decoder *d, int row);

/* Positions first..first+n_row-1 of the fast transformer: row 0 at position 0 is the hidden
 * state, a row at position i the code of book i-1 in d->frame. Leaves logits [K]. */
void gpu_fast_pass(gpu_decoder *d, int first, int n_row);

/* The part of book `book`: positions 0 and 1 for book 1, else one. */
void gpu_fast_book(gpu_decoder *d, int book);

/* ---- calls.cu, frame.cu: the backend's calls of these names ---- */

kvref_status
gpu_slow(kvref_decoder *d, float *logits, const int32_t *frames, int n_frame, kvref_error *err);
kvref_status
gpu_fast(kvref_decoder *d, float *logits, int book, int32_t code, kvref_error *err);
kvref_status gpu_rewind(kvref_decoder *d, int pos, kvref_error *err);
kvref_status gpu_frame(kvref_decoder *d,
                       int32_t *frame,
                       float *logits,
                       const kvref_frame_call *call,
                       kvref_error *err);

/* Checks a call that feeds frames before anything is written. */
kvref_status
gpu_check_call(const gpu_decoder *d, const int32_t *frames, int n_frame, kvref_error *err);

/* Feeds frames in pieces: everything up to hidden state and logits is queued, taps of pieces
 * before the last are reported. The taps of the last piece begin at position *from. */
kvref_status
gpu_feed(gpu_decoder *d, const int32_t *frames, int n_frame, int *from, kvref_error *err);

/* Makes *d->pos say n_pos. */
void gpu_place(gpu_decoder *d);

/* Adds what attention reads of one layer: query rows at positions first.. of a net. */
void gpu_count(
    const gpu_decoder *d, kvref_kv_count *c, const gpu_net *net, int first, int n_row);

} // namespace GPU_NAMESPACE
#endif
