/* SPDX-License-Identifier: MIT */
/* Inside of the float32 reference: the types and operations of this folder.
 * README.md gives the reading order; axis letters are those of kvref/model.h. */
#ifndef KVREF_REF_REF_H
#define KVREF_REF_REF_H

#include "base/base.h"
#include "base/pool.h"
#include "kvref/backend.h"
#include "kvref/fmath.h"
#include "kvref/half.h"

#define REF_CHUNK      64        /* cached positions whose weighted sum is formed at once     */
#define REF_BLAS_ROWS  8         /* OpenBLAS multiplies from so many rows of x up (backend.h) */
#define REF_BLAS_PANEL 128       /* output rows of a task that OpenBLAS multiplies            */
#define REF_ROWS       256       /* query rows taken through all layers together              */
#define REF_PANEL      16        /* output rows of a matrix that make one task                */
#define REF_MAX_POS    (1 << 20) /* angles below this have correctly rounded sine and cosine */
#define REF_MAX_SIMD   3
#define REF_WAKE_WORK  20000 /* nanoseconds: about what waking a thread costs */

/* Two readings of one text. Spec 02 and 03 mark the points where a model in 16 bits rounds; the
 * code has ref_round there and nowhere else. In float32 it does nothing. Compiled with
 * REF_ROUND_F16 this folder emulates the float16 decoder of gpu/ (README.md, "In float16"),
 * bit for bit, which also asks for the device's order of summation: see ref_dot_naive. */
#ifdef REF_ROUND_F16
#define REF_GROUP 8  /* neighbours that go to the same partial sum */
#define REF_LANES 32 /* partial sums of a dot product              */
static inline float ref_round(float x)
{
    return kvref_f16_f32(kvref_f32_f16(x));
}
#else
#define REF_GROUP 1
#define REF_LANES 16
static inline float ref_round(float x)
{
    return x;
}
#endif

/* ---- simd.c, or simd_naive.c in float16: inner loops ---- */

/* y[t, o] = sum over i of w[o, i] x[t, i], in the order of ref_dot_naive. */
typedef struct ref_product {
    float *y;        /* [n_x, n_w]                           */
    size_t stride_y; /* floats from row to row               */
    const float *x;  /* [n_x, n_col]                         */
    size_t stride_x; /* floats                               */
    const void *w;   /* [n_w, n_col] of dtype, any alignment */
    size_t stride_w; /* bytes                                */
    kvref_dtype dtype;
    int n_x, n_w, n_col;
} ref_product;

typedef struct ref_simd {
    const char *name;
    void (*product)(const ref_product *a);
    void (*widen)(float *y, const void *w, kvref_dtype dtype, size_t n);
    /* Weighted sum of rows: y[e] = sum over r of p[r] v[r, e], r ascending. y [n_col],
     * p [n_row], v [n_row, n_col]. */
    void (*mix)(float *y, const float *p, const float *v, int n_row, int n_col);
} ref_simd;

/* Lists what this CPU can run, best last; returns how many. */
int ref_simd_list(const ref_simd *list[REF_MAX_SIMD]);
const ref_simd *ref_simd_best(void);

/* ---- what every operation needs beside its arrays ---- */

typedef struct ref_tools {
    kvref_pool *pool;
    const ref_simd *simd;
    kvref_linear linear;
    float *panel;           /* [worker, rows of a task, widest row], float32    */
    size_t panel_size;      /* floats of one worker                             */
    float *score;           /* [worker, score_size]: ref_attention_scratch     */
    size_t score_size;      /* floats of one worker                             */
    float *wide_k, *wide_v; /* [H, C, E] each, full attention only             */
    kvref_kv_count *count;  /* [worker]                                         */
} ref_tools;

/* Runs fn over n_task tasks on the pool, or here when the work (about one nanosecond a unit) is
 * too small to wake anybody. Tasks write their own outputs: results are the same either way. */
void ref_run(const ref_tools *tools,
             void (*fn)(void *arg, int worker, int first, int last),
             void *arg,
             int n_task,
             double work);

/* ---- linear_naive.c: what linear.c and lanes.h must give, to the bit ---- */

/* Element i of w, which may lie at any address, as float32. Exact. */
float ref_element(const void *w, kvref_dtype dtype, size_t i);

/* Sum over i of w[i] x[i], n terms, in the written order. */
float ref_dot_naive(const void *w, kvref_dtype dtype, const float *x, int n);

/* x [n_row, w.n_col], y [n_row, w.n_row]; bias may be NULL or absent. */
void ref_linear_naive(
    float *y, const kvref_weight *w, const kvref_weight *bias, const float *x, int n_row);

/* ---- linear.c, rmsnorm.c, embed.c, swiglu.c ---- */

/* One matrix applied to x [T, w.n_col]: y [T, w.n_row]. bias may be NULL or absent. */
typedef struct ref_matrix {
    float *y;
    const kvref_weight *w, *bias;
} ref_matrix;

/* y[t, o] = R(sum over i of w[o, i] x[t, i] + bias[o]) for n matrices (at most 3) that share x.
 */
void ref_linear(const ref_tools *tools, const ref_matrix *m, int n, const float *x, int n_row);

/* Rows first..first+n-1 of w. */
kvref_weight ref_rows(const kvref_weight *w, int first, int n);

/* Widens row `row` of w into y [w.n_col]. Exact. */
void ref_row(const ref_tools *tools, float *y, const kvref_weight *w, int row);

/* y[t, :] = R(R(x[t, :] / sqrt(mean(x[t, :]^2) + eps)) * w), or with the outer R alone unless
 * twice: whole rows are rounded twice, heads of q and k once (spec 02 section 3). x and y
 * [T, D] may be the same. */
void ref_rmsnorm(const ref_tools *tools,
                 float *y,
                 const float *x,
                 int n_row,
                 int width,
                 const kvref_weight *w,
                 float eps,
                 bool twice);

/* x[t, :] from frames [T, 1+N]; work [D] is scratch. */
void ref_embed(const ref_tools *tools,
               float *x,
               const int32_t *frames,
               int n_row,
               const kvref_config *config,
               const kvref_weights *weights,
               float *work);

/* gate[i] = R(R(silu(gate[i])) * up[i]), n values. */
void ref_swiglu(float *gate, const float *up, size_t n);

/* ---- blas.c ---- */

/* Whoever is about to use OpenBLAS: notes slow kernels, and fails if they are wrong. */
kvref_status ref_blas_check(const kvref_log *log, kvref_error *err);

/* ---- rope.c ---- */

typedef struct ref_rope {
    int d_head, n_row; /* rows 0..n_row-1 of the table are filled */
    kvref_rope_table table;
    float *freq;          /* [E/2]    */
    float *cosine, *sine; /* [C, E/2] */
} ref_rope;

void ref_rope_init(ref_rope *rope, int d_head, float base, kvref_rope_table table);

/* Fills rows up to n_row - 1. In float16 the bfloat16 values are converted once more (spec 02
 * section 4); the float32 table is left as it is. */
void ref_rope_reach(ref_rope *rope, int n_row);

/* Turns x [T, n_head, E] by the angles of positions first..first+T-1. */
void ref_rope_apply(const ref_rope *rope, float *x, int n_row, int n_head, int first);

/* ---- kv.c ---- */

typedef struct ref_kv {
    int n_layer, n_head, d_head, capacity; /* L, G, E, C                             */
    size_t head_byte;                      /* bytes from head to head, whole pages   */
    char *base;                            /* [L, 2, G] areas of head_byte           */
} ref_kv;

/* Sizes the cache; returns its bytes (SIZE_MAX: more than can be addressed). */
size_t ref_kv_init(ref_kv *kv, int n_layer, int n_head, int d_head, int capacity);

/* Row 0 of a head of K (value 0) or V (value 1): [C, E]. */
float *ref_kv_head(const ref_kv *kv, int layer, int value, int head);

/* Copies k and v [T, G, E] to positions first..first+T-1. Nothing else is touched. */
void ref_kv_append(
    const ref_kv *kv, int layer, int first, const float *k, const float *v, int n_row);

/* ---- attention.c, attention_books.c, attention_run.c, attention_naive.c ---- */

/* One query position over n_row rows of one key/value head, of which the first n_live count. */
typedef struct ref_attend {
    float *out;         /* [n_head, E]: query heads that share this key/value head */
    const float *q;     /* [n_head, E]                                             */
    const float *k, *v; /* [n_row, E]                                              */
    int n_head, n_row, n_live, d_head;
} ref_attend;

/* out from q, k and v. scratch: ref_attention_scratch floats. The fast transformer has a form
 * of its own, the same function rounded at other places: ref_attend_books. */
typedef void ref_attend_fn(const ref_simd *simd, const ref_attend *a, float *scratch);
ref_attend_fn ref_attend_row, ref_attend_books;

/* score [n_head, n_row]: the bare dot products. */
void ref_attend_scores(const ref_simd *simd, float *score, const ref_attend *a);

/* out[t, h, :] = sum over r <= P+t of softmax_r(q[t, h, :] . k[r, g, :] / sqrt(E)) v[r, g, :]
 * with g = h / (H/G). q and out [T, H, E]; query t is at position P+t and its own row has been
 * appended. Adds what it reads to tools->count. */
typedef void ref_attention(const ref_tools *tools,
                           float *out,
                           const float *q,
                           const ref_kv *kv,
                           int layer,
                           int n_past,
                           int n_row,
                           int n_head);

ref_attention ref_attention_prefix, ref_attention_full;
ref_attention ref_attention_books, ref_attention_books_full; /* with ref_attend_books */

/* The definitions: the same bits, one thread, nothing counted. */
ref_attention ref_attention_naive, ref_attention_books_naive;

/* Floats that a worker needs in tools->score. */
size_t ref_attention_scratch(int n_head, int n_kv_head, int d_head, int capacity);

/* ---- block.c, slow.c, fast.c, decoder.c ---- */

/* One of the two transformers, slow or fast: its weights, cache and rotation tables. */
typedef struct ref_transformer {
    const kvref_stack *stack;
    const kvref_layer *layer; /* [L] */
    const char *const *tap;   /* names, by ref_point */
    ref_attention *attention;
    ref_kv kv;
    ref_rope rope;
} ref_transformer;

/* Where taps sit, in the order of a call. */
typedef enum ref_point {
    REF_EMBED,
    REF_ATTN_NORM,
    REF_Q,
    REF_K,
    REF_V,
    REF_ATTN,
    REF_ATTN_OUT,
    REF_FFN_NORM,
    REF_FFN_ACT,
    REF_FFN_OUT,
    REF_OUT,
    REF_NORM,
    REF_LOGITS,
    REF_HIDDEN,
    REF_N_POINT
} ref_point;

struct kvref_decoder {
    kvref_config config;
    const kvref_weights *weights; /* borrowed */
    kvref_decoder_opts opts;
    ref_tools tools;
    ref_transformer slow, fast;
    int n_pos;       /* positions held                                       */
    int n_call;      /* slow calls since position 0: the frame index of taps */
    int book;        /* last codebook position fed in this frame, 0: none    */
    bool has_hidden; /* hidden belongs to the last position                  */

    int32_t *candidate; /* [A] main-token ids that can be chosen */
    int n_candidate;
    kvref_kv_count *slow_count; /* [slow L] of the last slow call  */
    kvref_kv_count fast_count;  /* all fast layers since book 1    */

    /* Scratch for REF_ROWS rows; widths are the larger of both transformers. */
    float *x, *norm;          /* [T, D]   residual stream, normed            */
    float *q, *k, *v, *mixed; /* [T, H*E], [T, G*E] twice, [T, H*E]          */
    float *out;               /* [T, D]   attention or feed-forward output   */
    float *gate, *up;         /* [T, F]                                      */
    float *work;              /* [2, D]   embedding sums                     */
    float *hidden;            /* [D']     slow to fast                       */
    float *all_logits;        /* [V]      only when logits are tapped        */

    void *map; /* all of the above is in one mapping */
    size_t n_map;
};

/* Hands x [n_row, ..] to the tap when its level includes the point. */
void ref_tap(const kvref_decoder *d,
             const ref_transformer *net,
             ref_point point,
             int layer,
             int first,
             int n_row,
             const float *x);

/* d->x [T, D] through one layer, in place, at positions first..first+T-1. Adds what attention
 * reads to *count. */
void ref_block(kvref_decoder *d,
               ref_transformer *net,
               int layer,
               int first,
               int n_row,
               kvref_kv_count *count);

/* layout.c: copies config and options with their defaults filled in; reserves one mapping and
 * points every array into it. */
void ref_prepare(kvref_decoder *d, const kvref_config *config, const kvref_decoder_opts *opts);
kvref_status ref_reserve(kvref_decoder *d, kvref_error *err);

/* The backend calls of the same names (kvref/backend.h). */
kvref_status
ref_slow(kvref_decoder *d, float *logits, const int32_t *frames, int n_frame, kvref_error *err);
kvref_status
ref_fast(kvref_decoder *d, float *logits, int book, int32_t code, kvref_error *err);
kvref_status ref_rewind(kvref_decoder *d, int pos, kvref_error *err);

/* Opens on a config and weights from anywhere; weights are borrowed, config is copied. */
kvref_status ref_decoder_open(kvref_decoder **out,
                              const kvref_config *config,
                              const kvref_weights *weights,
                              const kvref_decoder_opts *opts,
                              kvref_error *err);
void ref_decoder_close(kvref_decoder **d);
kvref_kv_count ref_kv_count(const kvref_decoder *d, int layer);

#endif
