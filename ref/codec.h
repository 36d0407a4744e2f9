/* SPDX-License-Identifier: MIT */
/* Inside of the codec: the layers as loaded (codec_load.c, codec_parts.c), the running state
 * of one direction (codec_flow.c), and the operations between them.
 *
 * All signals are rows of time: x [row, channel]. In that layout every convolution is a sum
 * of matrix products with shifted rows, and a strided or transposed one is a convolution whose
 * rows are s samples wide:
 *   y[t, o] = bias[o] + sum over tap j, input i of w[o, j, i] x[t + (j - n_tap + 1) step, i] */
#ifndef KVREF_REF_CODEC_H
#define KVREF_REF_CODEC_H

#include "base/base.h"
#include "base/pool.h"
#include "kvref/codec.h"
#include "ref/ref.h"

enum { REF_MAX_BOOK = 32, REF_MAX_BLOCK = 8, REF_MAX_LAYER = 64, REF_N_BUF = 3 };

typedef struct ref_conv {
    const float *w;    /* [n_out, n_tap, n_in], or [n_tap, n_in, n_out] when across   */
    const float *bias; /* [n_out] or NULL                                    */
    int n_out, n_in, n_tap;
    int step;  /* rows between taps: the dilation                            */
    int panel; /* rows of one product; panels start at multiples of this     */
    int chunk; /* columns of one product                                     */
    bool blas, across, gather;
} ref_conv;

typedef struct ref_snake {
    const float *alpha;   /* [width] */
    const float *inverse; /* [width], 1 / (alpha + 1e-9) */
    int width;
} ref_snake;

typedef struct ref_unit {
    ref_snake before, between;
    ref_conv wide, narrow; /* k7 with dilation, k1 */
} ref_unit;

/* Encoder: three units, snake, strided convolution. Decoder: snake, transposed convolution,
 * three units. */
typedef struct ref_conv_block {
    ref_unit unit[3];
    ref_snake snake;
    ref_conv resample;
    int stride;
    int width; /* channels of the units */
} ref_conv_block;

typedef struct ref_convnext {
    const float *depth; /* [7, width] */
    const float *depth_bias, *norm, *norm_bias, *gamma;
    ref_conv up, down; /* to 4 width and back */
} ref_convnext;

/* One stage of quantizer.upsample or downsample. */
typedef struct ref_stage {
    ref_conv resample;
    int stride;
    ref_convnext next;
} ref_stage;

typedef struct ref_window_layer {
    const float *attn_norm, *ffn_norm, *attn_scale, *ffn_scale; /* [width] */
    ref_conv qkv, out, gate, up, down;
} ref_window_layer;

typedef struct ref_window {
    ref_window_layer *layer;
    const float *norm; /* [width] */
    int n_layer, width, d_head, d_ff;
    int window; /* keys seen by one query */
} ref_window;

typedef struct ref_book {
    const float *entry; /* [n_code, width] */
    int n_code, width;
    const float *out;   /* [width, latent]   */
    const float *bias;  /* [latent]          */
    ref_conv in;        /* encoding only     */
    const float *unit;  /* [n_code, width] rows of length 1; encoding only */
    const float *unit2; /* [n_code] their squared lengths */
} ref_book;

/* What the tensors cannot tell (spec 06 section 1). */
typedef struct ref_codec_setup {
    int sample_rate, window, encoder_window, d_head;
    int dilation[3];
    float rope_base, norm_eps;
    int enc_stride[REF_MAX_BLOCK], dec_stride[REF_MAX_BLOCK]; /* 0: not stated */
    int n_enc_stride, n_dec_stride;                           /* 0: not stated */
} ref_codec_setup;

/* How much one direction takes at once. */
typedef struct ref_span {
    int piece;           /* frames that go through together, at most                   */
    size_t row_floats;   /* largest rows x width of a piece (while loading: a frame)   */
    size_t slack_floats; /* readable before and after the rows of a buffer             */
} ref_span;

struct kvref_codec {
    kvref_codec_info info;
    kvref_codec_opts opts;
    ref_codec_setup setup;
    kvref_file *file;
    kvref_pool *pool;
    const ref_simd *simd;
    bool generator; /* names carry "generator." (spec 01 section 5.3) */

    ref_book book[REF_MAX_BOOK];
    int n_stage; /* of upsample, and of downsample */
    int n_block; /* of decoder, and of encoder     */
    /* decode */
    ref_window post;
    ref_stage up[REF_MAX_BLOCK];
    ref_conv dec_first, dec_last;
    ref_conv_block dec[REF_MAX_BLOCK];
    ref_snake dec_snake;
    /* encode */
    ref_conv enc_first, enc_last;
    ref_conv_block enc[REF_MAX_BLOCK];
    ref_window enc_window, pre;
    ref_snake enc_snake;
    ref_stage down[REF_MAX_BLOCK];

    void **block; /* memory of weights */
    size_t n_block_mem, cap_block;
    ref_span span[2];   /* of decoding, of encoding                             */
    bool encoding;      /* which one is being loaded                            */
    size_t work_floats; /* of each worker                                       */
    float *work;        /* [n_thread, work_floats]                              */
    const float *rope;  /* [d_head / 2] frequencies                             */
};

/* ---- loading ---- */

/* The tensor of an internal name; NULL and OK when absent. */
kvref_status ref_codec_find(const kvref_codec *c,
                            const kvref_tensor **out,
                            const char *name,
                            kvref_error *err);

/* Required float tensor as float32, in the mapping where possible. dim: expected extents, a
 * zero is filled in with what is found. */
kvref_status ref_codec_floats(
    kvref_codec *c, const float **out, const char *name, int n_dim, int *dim, kvref_error *err);

/* Vector of n values named prefix.suffix. */
kvref_status ref_codec_vector(kvref_codec *c,
                              const float **out,
                              const char *prefix,
                              const char *suffix,
                              int n,
                              kvref_error *err);

/* prefix.alpha [1, n, 1]. */
kvref_status
ref_codec_snake(kvref_codec *c, ref_snake *out, const char *prefix, int n, kvref_error *err);

/* Parts of the above: shape check, widening to float32, memory that lives with the codec. */
kvref_status ref_codec_check(
    const kvref_codec *c, const kvref_tensor *t, int n_dim, int *dim, kvref_error *err);
void ref_codec_widen(float *out, const kvref_tensor *t, size_t n);
kvref_status ref_codec_block(kvref_codec *c, float **out, size_t n, kvref_error *err);

/* Convolution weights under any of the three namings, folded, as [dim0, dim1, k] in fresh
 * memory (free). dim: expected extents, zeros are filled in. */
kvref_status
ref_codec_fold(kvref_codec *c, float **out, const char *prefix, int dim[3], kvref_error *err);

/* Shape of a convolution's weight. */
kvref_status
ref_codec_shape(const kvref_codec *c, const char *prefix, int dim[3], kvref_error *err);

/* A causal convolution (prefix.weight..., prefix.bias) with stride s: n_in of the result is
 * s * channels. rate: output rows of one frame. dim as in fold. */
kvref_status ref_codec_conv(kvref_codec *c,
                            ref_conv *out,
                            const char *prefix,
                            int dim[3],
                            int stride,
                            int step,
                            int rate,
                            kvref_error *err);

/* A transposed convolution with stride s: one row in, a row of s * channels out. */
kvref_status ref_codec_transposed(kvref_codec *c,
                                  ref_conv *out,
                                  const char *prefix,
                                  int dim[3],
                                  int stride,
                                  int rate,
                                  kvref_error *err);

/* A linear layer [n_out, n_in] named prefix.weight (and prefix.bias), not copied. */
kvref_status ref_codec_linear(kvref_codec *c,
                              ref_conv *out,
                              const char *prefix,
                              int n_out,
                              int n_in,
                              bool bias,
                              int rate,
                              kvref_error *err);

/* Chooses panel and chunk, and lets buffers grow to what the convolution needs. */
void ref_codec_plan(kvref_codec *c, ref_conv *conv, int rate);
void ref_codec_need(kvref_codec *c, int rate, int width);

kvref_status
ref_codec_setup_read(ref_codec_setup *out, const char *codec_path, kvref_error *err);
/* The number where format has its %d in the beginning of a stored name; -1: another name. */
int ref_codec_number(const kvref_codec *c, const char *stored, const char *format);

/* Parts first, first + 1, ... up to the last that has a tensor whose name begins as format
 * says: a gap is found when its part is loaded. More than max is UNSUPPORTED. */
kvref_status ref_codec_count(
    const kvref_codec *c, int *n, const char *format, int first, int max, kvref_error *err);
/* Sets the numbers of stages and blocks, which both sides of a file must agree on whichever is
 * loaded. */
kvref_status ref_codec_sides(kvref_codec *c, kvref_error *err);
kvref_status ref_codec_load_books(kvref_codec *c, kvref_error *err);
kvref_status ref_codec_load_window(
    kvref_codec *c, ref_window *w, const char *prefix, int window, int rate, kvref_error *err);
kvref_status ref_codec_load_decoder(kvref_codec *c, kvref_error *err);
kvref_status ref_codec_load_encoder(kvref_codec *c, kvref_error *err);

/* ---- running ---- */

/* Keys and values of a window transformer: the last window - 1 positions and the present ones.
 * kv [n_layer, 2, n_head, cap, d_head]. */
typedef struct ref_cache {
    float *kv;
    size_t cap, used;
    int64_t n_pos; /* positions seen so far */
} ref_cache;

/* One direction at work: what it remembers between pieces, and its buffers. */
typedef struct ref_flow {
    kvref_codec *c;
    const ref_span *span;
    int64_t frame;    /* frames done                                            */
    float *history;   /* rows that convolutions look back to, in order of calls  */
    size_t n_history; /* floats                                                  */
    size_t cursor;    /* position in history within a piece                      */
    ref_cache cache[2];
    float *buf[REF_N_BUF]; /* row_floats each, slack_floats before and after          */
    void *mem;
} ref_flow;

kvref_status ref_flow_open(ref_flow **out, kvref_codec *c, unsigned part, kvref_error *err);
void ref_flow_close(ref_flow **flow);
size_t ref_flow_bytes(const kvref_codec *c, unsigned part);

/* fn over tasks 0 .. n_task - 1, in ranges, on all threads of the codec. */
void ref_share_run(kvref_codec *c,
                   void (*fn)(void *arg, int worker, int first, int last),
                   void *arg,
                   int n_task);

/* Puts the remembered rows before x and remembers the last ones of x [n, width] instead. */
void ref_flow_look_back(ref_flow *flow, float *x, int n, int width, int n_row);

/* Reports rows to the tap. */
void ref_flow_tap(const ref_flow *flow,
                  kvref_tap_level level,
                  const char *name,
                  int64_t first,
                  int n,
                  int width,
                  const float *x);

/* Reports buf[0] under a name made from a format with one %d, or none. */
void ref_flow_stage(
    const ref_flow *flow, const char *format, int i, int64_t first, int n, int width);

/* What happens to acc = sum + bias on its way to y [n, n_out]. */
typedef enum ref_after_kind {
    REF_STORE, /* y = acc         */
    REF_SNAKE, /* y = snake(acc)  */
    REF_GELU,  /* y = gelu(acc)   */
    REF_ADD    /* y = y + scale * acc */
} ref_after_kind;

typedef struct ref_after {
    ref_after_kind kind;
    float *y;
    const ref_snake *snake;
    const float *scale; /* [n_out], or NULL: ones */
} ref_after;

/* Runs a convolution over rows row0 .. row0 + n - 1 of the whole signal. x points to row row0
 * of the input; (n_tap - 1) * step rows before it must hold the rows before; panel rows more
 * at either end must be readable. y must not overlap x. */
void ref_conv_run(
    kvref_codec *c, const ref_conv *conv, const float *x, int64_t row0, int n, ref_after after);

/* y[r, c] = x + sin^2(alpha x) / (alpha + 1e-9), n rows; y may be x. */
void ref_snake_rows(float *y, const float *x, const ref_snake *snake, int n);
void ref_snake_run(kvref_codec *c, float *y, const float *x, const ref_snake *snake, int n);

/* 0.5 x (1 + erf(x / sqrt 2)) in place. */
void ref_gelu(float *x, size_t n);

/* The layer norm of the ConvNeXt (eps 1e-6). */
void ref_codec_layer_norm(
    float *y, const float *x, const float *weight, const float *bias, int n);

/* x [n, width] through the transformer in place, scratch a and b (buffers of the flow). */
void ref_window_run(ref_flow *flow,
                    const ref_window *w,
                    ref_cache *cache,
                    float *const buf[REF_N_BUF],
                    int n,
                    const char *tap);

/* x in buf[0], result in buf[0]; the other buffers are used. row0: absolute row of x. */
void ref_convnext_run(ref_flow *flow, const ref_convnext *next, int64_t row0, int n);
void ref_unit_run(ref_flow *flow, const ref_unit *unit, int64_t row0, int n);

/* x = buf[0] becomes buf[0] [n, n_out], the convolution of it; buffers are exchanged. A
 * strided or transposed one counts rows of s samples, n of them. */
void ref_replace_run(ref_flow *flow, const ref_conv *conv, int64_t row0, int n);

/* z [n, latent] of code [n, n_book], already checked. */
void ref_books_decode(kvref_codec *c, float *z, const int32_t *code, int n);
/* code [n, n_book] of z [n, latent], which becomes the last residual. */
kvref_status ref_books_encode(ref_flow *flow, int32_t *code, float *z, int n, kvref_error *err);

/* One piece of at most span.piece frames. */
kvref_status
ref_decode_piece(ref_flow *flow, float *pcm, const int32_t *code, int n, kvref_error *err);
kvref_status
ref_encode_piece(ref_flow *flow, int32_t *code, const float *pcm, int n, kvref_error *err);

#endif
