/* SPDX-License-Identifier: MIT */
#include "tests/ref64.h"

#include "base/rope.h"
#include "kvref/half.h"
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct net {
    const char *const *name; /* by point */
    const kvref_stack *size;
    const kvref_layer *layer;
    int capacity;
    double *k, *v;       /* [L, C, G*E] */
    double *turn, *lift; /* [C, E/2]: cosine, sine */
} net;

struct ref64 {
    const kvref_config *c;
    const kvref_weights *w;
    ref64_opts o;
    net slow, fast;
    int n_pos, n_call;
    double *hidden; /* [D'] */
};

enum {
    EMBED,
    ATTN_NORM,
    Q,
    K,
    V,
    ATTN,
    ATTN_OUT,
    FFN_NORM,
    FFN_ACT,
    FFN_OUT,
    OUT,
    NORM,
    LOGITS
};

static const char *const slow_name[] = {"slow.embed",
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
                                        "slow.logits"};
static const char *const fast_name[] = {"fast.embed",
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
                                        "fast.logits"};

static double *doubles(size_t n)
{
    double *x = calloc(n + 1, sizeof *x);
    ck_assert_ptr_nonnull(x);
    return x;
}

/* Element [row, col] of a matrix in whatever it is stored. */
static double at(const kvref_weight *w, int row, int col)
{
    size_t i = (size_t)row * (size_t)w->n_col + (size_t)col;
    const char *data = w->data;
    float single;
    uint16_t half;
    if (w->dtype == KVREF_F32) {
        memcpy(&single, data + 4 * i, 4);
        return (double)single;
    }
    memcpy(&half, data + 2 * i, 2);
    return (double)(w->dtype == KVREF_F16 ? kvref_f16_f32(half) : kvref_bf16_f32(half));
}

static void tell(const ref64 *r,
                 kvref_tap_level level,
                 const char *name,
                 int layer,
                 int first,
                 int n_row,
                 int head,
                 int width,
                 const double *x)
{
    if (r->o.fn && level <= r->o.level)
        r->o.fn(r->o.user, &(ref64_data){name, layer, first, n_row, head, width, x});
}

/* y[t, o] = sum over i of w[o, i] x[t, i] + b[o]; y is new. */
static double *linear(const kvref_weight *w, const kvref_weight *b, const double *x, int n_row)
{
    int in = w->n_col, out = w->n_row;
    double *y = doubles((size_t)n_row * (size_t)out), *row = doubles((size_t)in);
    for (int o = 0; o < out; o++) {
        for (int i = 0; i < in; i++) row[i] = at(w, o, i);
        for (int t = 0; t < n_row; t++) {
            double sum = b && b->data ? at(b, 0, o) : 0;
            for (int i = 0; i < in; i++) sum += row[i] * x[(size_t)t * (size_t)in + (size_t)i];
            y[(size_t)t * (size_t)out + (size_t)o] = sum;
        }
    }
    free(row);
    return y;
}

/* x / sqrt(mean(x^2) + eps) * w for rows of n; y is new. */
static double *norm(const kvref_weight *w, const double *x, int n_row, int n, float eps)
{
    double *y = doubles((size_t)n_row * (size_t)n);
    for (int t = 0; t < n_row; t++) {
        const double *from = x + (size_t)t * (size_t)n;
        double sum = 0;
        for (int i = 0; i < n; i++) sum += from[i] * from[i];
        for (int i = 0; i < n; i++)
            y[(size_t)t * (size_t)n + (size_t)i] =
                from[i] / sqrt(sum / n + (double)eps) * at(w, 0, i);
    }
    return y;
}

/* Neighbours of every head of x [T, heads, E] turn by the angles of positions first.. */
static void rotate(const net *a, double *x, int n_row, int n_head, int first)
{
    int half = a->size->d_head / 2;
    for (int t = 0; t < n_row; t++)
        for (int h = 0; h < n_head; h++)
            for (int j = 0; j < half; j++, x += 2) {
                double c = a->turn[(first + t) * half + j], s = a->lift[(first + t) * half + j];
                double even = x[0], odd = x[1];
                x[0] = even * c - odd * s;
                x[1] = odd * c + even * s;
            }
}

/* softmax(q k^T / sqrt(E)) v of one head: q and out [E], k and v [n] rows of `stride`. */
static void
head(double *out, const double *q, const double *k, const double *v, int n, int e, int stride)
{
    double *p = doubles((size_t)n), max = -HUGE_VAL, total = 0;
    for (int r = 0; r < n; r++) {
        for (int i = 0; i < e; i++) p[r] += q[i] * k[(size_t)r * (size_t)stride + (size_t)i];
        p[r] /= sqrt(e);
        max = fmax(max, p[r]);
    }
    for (int r = 0; r < n; r++) total += p[r] = exp(p[r] - max);
    for (int i = 0; i < e; i++) {
        double sum = 0;
        for (int r = 0; r < n; r++) sum += p[r] * v[(size_t)r * (size_t)stride + (size_t)i];
        out[i] = sum / total;
    }
    free(p);
}

/* q [T, H*E], k and v [T, G*E] of one layer: projected, normed, turned, cached. */
static double *query(const ref64 *r, const net *a, int l, const double *x, int first, int n_row)
{
    const kvref_stack *s = a->size;
    const kvref_layer *w = &a->layer[l];
    double *q = linear(&w->wq, &w->bq, x, n_row), *k = linear(&w->wk, &w->bk, x, n_row),
           *v = linear(&w->wv, &w->bv, x, n_row);
    int width = s->n_kv_head * s->d_head;
    if (s->qk_norm) {
        double *bare = q;
        q = norm(&w->q_norm, bare, n_row * s->n_head, s->d_head, r->c->norm_eps);
        free(bare);
        bare = k;
        k = norm(&w->k_norm, bare, n_row * s->n_kv_head, s->d_head, r->c->norm_eps);
        free(bare);
    }
    rotate(a, q, n_row, s->n_head, first);
    rotate(a, k, n_row, s->n_kv_head, first);
    tell(r, KVREF_TAP_OPS, a->name[Q], l, first, n_row, s->n_head, s->n_head * s->d_head, q);
    tell(r, KVREF_TAP_LAYERS, a->name[K], l, first, n_row, s->n_kv_head, width, k);
    tell(r, KVREF_TAP_LAYERS, a->name[V], l, first, n_row, s->n_kv_head, width, v);
    size_t to = ((size_t)l * (size_t)a->capacity + (size_t)first) * (size_t)width;
    memcpy(a->k + to, k, (size_t)n_row * (size_t)width * sizeof *k);
    memcpy(a->v + to, v, (size_t)n_row * (size_t)width * sizeof *v);
    free(k);
    free(v);
    return q;
}

/* Attention of T rows at positions first..: [T, H*E], new. */
static double *attend(const net *a, int l, const double *q, int first, int n_row)
{
    const kvref_stack *s = a->size;
    int e = s->d_head, share = s->n_head / s->n_kv_head, stride = s->n_kv_head * e;
    double *out = doubles((size_t)(n_row * s->n_head * e));
    size_t from = (size_t)l * (size_t)a->capacity * (size_t)stride;
    for (int t = 0; t < n_row; t++)
        for (int h = 0; h < s->n_head; h++) {
            size_t row = ((size_t)t * (size_t)s->n_head + (size_t)h) * (size_t)e,
                   group = from + (size_t)(h / share * e);
            head(out + row, q + row, a->k + group, a->v + group, first + t + 1, e, stride);
        }
    return out;
}

static void add(double *x, double *y, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] += y[i];
    free(y);
}

/* x [T, D] through one layer, in place. */
static void layer(const ref64 *r, const net *a, int l, double *x, int first, int n_row)
{
    const kvref_stack *s = a->size;
    const kvref_layer *w = &a->layer[l];
    const kvref_tap_level ops = KVREF_TAP_OPS, layers = KVREF_TAP_LAYERS;
    int d = s->d_model, f = s->d_ff, wide = s->n_head * s->d_head;
    size_t n = (size_t)n_row * (size_t)d;

    double *normed = norm(&w->attn_norm, x, n_row, d, r->c->norm_eps);
    tell(r, ops, a->name[ATTN_NORM], l, first, n_row, 0, d, normed);
    double *q = query(r, a, l, normed, first, n_row), *mixed = attend(a, l, q, first, n_row);
    tell(r, layers, a->name[ATTN], l, first, n_row, s->n_head, wide, mixed);
    double *out = linear(&w->wo, &w->bo, mixed, n_row);
    tell(r, ops, a->name[ATTN_OUT], l, first, n_row, 0, d, out);
    add(x, out, n);
    free(normed);
    free(q);
    free(mixed);

    normed = norm(&w->ffn_norm, x, n_row, d, r->c->norm_eps);
    tell(r, ops, a->name[FFN_NORM], l, first, n_row, 0, d, normed);
    double *gate = linear(&w->w1, NULL, normed, n_row),
           *up = linear(&w->w3, NULL, normed, n_row);
    for (size_t i = 0; i < (size_t)n_row * (size_t)f; i++)
        gate[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
    tell(r, ops, a->name[FFN_ACT], l, first, n_row, 0, f, gate);
    out = linear(&w->w2, NULL, gate, n_row);
    tell(r, ops, a->name[FFN_OUT], l, first, n_row, 0, d, out);
    add(x, out, n);
    free(normed);
    free(gate);
    free(up);
    tell(r, layers, a->name[OUT], l, first, n_row, 0, d, x);
}

/* x [D] of one frame: token, and at audio positions all its codes, the sum scaled. */
static void embed(const ref64 *r, double *x, const int32_t *frame)
{
    const kvref_config *c = r->c;
    bool audio = frame[0] >= c->semantic_begin && frame[0] <= c->semantic_end;
    for (int i = 0; i < c->slow.d_model; i++) {
        x[i] = at(&r->w->embed, frame[0], i);
        for (int b = 0; audio && b < c->n_codebook; b++)
            x[i] += at(&r->w->codebook_embed, b * c->n_code + frame[1 + b], i);
        if (audio && c->scale_codebook_embeddings) x[i] /= sqrt(c->n_codebook + 1);
    }
}

/* Norm, logits and hidden state of the last row x [D] of a call. */
static void finish(ref64 *r, const double *x)
{
    const kvref_config *c = r->c;
    const kvref_weights *w = r->w;
    int d = c->slow.d_model, call = r->n_call;
    double *z = norm(&w->norm, x, 1, d, c->norm_eps);
    tell(r, KVREF_TAP_LAYERS, slow_name[NORM], -1, call, 1, 0, d, z);
    if (r->o.level >= KVREF_TAP_LOGITS) {
        double *logits = linear(&w->head, NULL, z, 1);
        tell(r, KVREF_TAP_LOGITS, slow_name[LOGITS], -1, call, 1, 0, c->n_vocab, logits);
        free(logits);
    }
    const double *from = c->norm_fastlayer_input ? z : x;
    free(r->hidden);
    if (w->fast_in.data)
        r->hidden = linear(&w->fast_in, &w->fast_in_bias, from, 1);
    else
        r->hidden = memcpy(doubles((size_t)d), from, (size_t)d * sizeof *from);
    tell(r, KVREF_TAP_LOGITS, "slow.hidden", -1, call, 1, 0, c->fast.d_model, r->hidden);
    free(z);
}

void ref64_slow(ref64 *r, const int32_t *frames, int n_frame)
{
    int d = r->c->slow.d_model;
    ck_assert_int_le(r->n_pos + n_frame, r->slow.capacity);
    double *x = doubles((size_t)n_frame * (size_t)d);
    for (int t = 0; t < n_frame; t++)
        embed(r, x + (size_t)t * (size_t)d, frames + (size_t)(t * (1 + r->c->n_codebook)));
    tell(r, KVREF_TAP_LAYERS, slow_name[EMBED], -1, r->n_pos, n_frame, 0, d, x);
    for (int l = 0; l < r->c->slow.n_layer; l++) layer(r, &r->slow, l, x, r->n_pos, n_frame);
    finish(r, x + (size_t)(n_frame - 1) * (size_t)d);
    r->n_pos += n_frame;
    r->n_call++;
    free(x);
}

void ref64_fast(ref64 *r, int book, int32_t code)
{
    const kvref_weights *w = r->w;
    int d = r->c->fast.d_model, first = book == 1 ? 0 : book, n_row = book - first + 1;
    double *x = doubles((size_t)(n_row * d)), *last = x + (n_row - 1) * d;
    if (book == 1) memcpy(x, r->hidden, (size_t)d * sizeof *x);
    for (int i = 0; i < d; i++) last[i] = at(&w->fast_embed, code, i);
    tell(r, KVREF_TAP_LAYERS, fast_name[EMBED], -1, first, n_row, 0, d, x);
    for (int l = 0; l < r->c->fast.n_layer; l++) layer(r, &r->fast, l, x, first, n_row);
    double *z = norm(&w->fast_norm, x, n_row, d, r->c->norm_eps);
    tell(r, KVREF_TAP_LAYERS, fast_name[NORM], -1, first, n_row, 0, d, z);
    double *logits = linear(&w->fast_head, NULL, z + (n_row - 1) * d, 1);
    tell(r, KVREF_TAP_LOGITS, fast_name[LOGITS], -1, book, 1, 0, r->c->n_code, logits);
    free(logits);
    free(z);
    free(x);
}

static void open_net(net *a, const kvref_config *c, const ref64_opts *o, int capacity)
{
    int e = a->size->d_head, n = e / 2;
    size_t kv = (size_t)(a->size->n_layer * a->size->n_kv_head * e) * (size_t)capacity;
    float *freq = calloc((size_t)(3 * n), sizeof *freq), *cosine = freq + n, *sine = cosine + n;
    ck_assert_ptr_nonnull(freq);
    a->capacity = capacity;
    a->k = doubles(kv);
    a->v = doubles(kv);
    a->turn = doubles((size_t)(capacity * n));
    a->lift = doubles((size_t)(capacity * n));
    for (int j = 0; j < n; j++) freq[j] = kvref_rope_frequency(c->rope_base, e, j);
    for (int i = 0; i < capacity * n; i++) {
        int j = i % n;
        if (j == 0) kvref_rope_row(cosine, sine, freq, n, i / n, o->rope_table);
        bool half = o->half_table && o->rope_table == KVREF_ROPE_BF16;
        a->turn[i] = (double)(half ? kvref_f16_f32(kvref_f32_f16(cosine[j])) : cosine[j]);
        a->lift[i] = (double)(half ? kvref_f16_f32(kvref_f32_f16(sine[j])) : sine[j]);
    }
    free(freq);
}

ref64 *ref64_open(const kvref_config *config, const kvref_weights *weights, const ref64_opts *o)
{
    ref64 *r = calloc(1, sizeof *r);
    ck_assert_ptr_nonnull(r);
    *r = (ref64){.c = config, .w = weights, .o = *o};
    r->slow = (net){.name = slow_name, .size = &config->slow, .layer = weights->slow};
    r->fast = (net){.name = fast_name, .size = &config->fast, .layer = weights->fast};
    open_net(&r->slow, config, o, o->capacity);
    open_net(&r->fast, config, o, config->n_codebook);
    return r;
}

static void close_net(net *a)
{
    free(a->k);
    free(a->v);
    free(a->turn);
    free(a->lift);
}

void ref64_close(ref64 *r)
{
    close_net(&r->slow);
    close_net(&r->fast);
    free(r->hidden);
    free(r);
}
