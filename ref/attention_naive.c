/* SPDX-License-Identifier: MIT */
/* Attention, the definition: read this before attention.c, which gives the same bits faster.
 *
 *     score[r]  = q[t, h, :] . k[r, g, :] / sqrt(E)       r = 0 .. P+t,  g = h / (H/G)
 *     weight[r] = e^(score[r] - largest score)
 *     out[t, h, :] = sum over r of weight[r] v[r, g, :]  /  sum over r of weight[r]
 *
 * A query looks at every position up to its own: it compares itself with each key, and takes
 * home an average of the values, weighted by how well the keys fit. Notice:
 * - r stops at P+t. Rows after it are the future, or memory that nobody has written. That the
 *   loop simply ends there is what this project is about.
 * - H/G query heads share one key/value head: heads 0..H/G-1 read group 0, the next ones 1.
 * - The largest score is subtracted so that e^x cannot overflow. It cancels in the quotient.
 * - Order of the sums (it decides the last bits): dot products as in linear_naive.c, then
 *   REF_CHUNK positions ascending, then chunk after chunk. Whole chunks of weight 0 add
 *   nothing, so an attention over a masked capacity can give the same bits. */
#include "ref/ref.h"

#include <math.h>

/* weight[r] for one query head: q [E], k [n, E]. */
static void weigh(float *weight, const float *q, const float *k, int n, int d_head)
{
    float largest = -INFINITY, scale = 1.0f / sqrtf((float)d_head);
    for (int r = 0; r < n; r++) {
        const float *key = k + (size_t)r * (size_t)d_head;
        weight[r] = ref_dot_naive(key, KVREF_F32, q, d_head) * scale;
        if (weight[r] > largest) largest = weight[r];
    }
    for (int r = 0; r < n; r++) weight[r] = kvref_expf(weight[r] - largest);
}

/* out [E]: average of the rows of v [n, E] by weight. */
static void average(float *out, const float *weight, const float *v, int n, int d_head)
{
    float total = 0;
    for (int e = 0; e < d_head; e++) out[e] = 0;
    for (int first = 0; first < n; first += REF_CHUNK) {
        int last = n - first < REF_CHUNK ? n : first + REF_CHUNK;
        float sum = 0;
        for (int r = first; r < last; r++) sum += weight[r];
        total += sum;
        for (int e = 0; e < d_head; e++) {
            float part = 0;
            for (int r = first; r < last; r++)
                part += weight[r] * v[(size_t)r * (size_t)d_head + (size_t)e];
            out[e] += part;
        }
    }
    for (int e = 0; e < d_head; e++) out[e] = ref_round(out[e] / total);
}

/* The slow form. work [n] is scratch. */
static void one_head(
    float *out, const float *q, const float *k, const float *v, int n, int d_head, float *work)
{
    weigh(work, q, k, n, d_head);
    average(out, work, v, n, d_head);
}

/* The fast form: upstream writes softmax(q k^T / sqrt(E)) v out, and rounds after each step
 * (spec 03 section 3). */
static void one_head_books(
    float *out, const float *q, const float *k, const float *v, int n, int d_head, float *work)
{
    float *p = work, largest = -INFINITY, scale = 1.0f / sqrtf((float)d_head), total = 0;
    for (int r = 0; r < n; r++) {
        const float *key = k + (size_t)r * (size_t)d_head;
        p[r] = ref_round(ref_round(ref_dot_naive(key, KVREF_F32, q, d_head)) * scale);
        if (p[r] > largest) largest = p[r];
    }
    for (int r = 0; r < n; r++) total += kvref_expf(p[r] - largest);
    for (int r = 0; r < n; r++) p[r] = ref_round(kvref_expf(p[r] - largest) / total);
    for (int e = 0; e < d_head; e++) {
        float sum = 0;
        for (int r = 0; r < n; r++) sum += p[r] * v[(size_t)r * (size_t)d_head + (size_t)e];
        out[e] = ref_round(sum);
    }
}

typedef void head_fn(
    float *out, const float *q, const float *k, const float *v, int n, int d_head, float *work);

typedef struct naive_call {
    const ref_tools *tools;
    const ref_kv *kv;
    int layer, n_past, n_row, n_head;
} naive_call;

/* Every head of every query, by itself. */
static void each_head(const naive_call *c, float *out, const float *q, head_fn *fn)
{
    const ref_kv *kv = c->kv;
    for (int t = 0; t < c->n_row; t++)
        for (int h = 0; h < c->n_head; h++, q += kv->d_head, out += kv->d_head) {
            int g = h / (c->n_head / kv->n_head), n = c->n_past + t + 1;
            const float *k = ref_kv_head(kv, c->layer, 0, g);
            const float *v = ref_kv_head(kv, c->layer, 1, g);
            fn(out, q, k, v, n, kv->d_head, c->tools->score);
        }
}

void ref_attention_naive(const ref_tools *tools,
                         float *out,
                         const float *q,
                         const ref_kv *kv,
                         int layer,
                         int n_past,
                         int n_row,
                         int n_head)
{
    each_head(&(naive_call){tools, kv, layer, n_past, n_row, n_head}, out, q, one_head);
}

void ref_attention_books_naive(const ref_tools *tools,
                               float *out,
                               const float *q,
                               const ref_kv *kv,
                               int layer,
                               int n_past,
                               int n_row,
                               int n_head)
{
    each_head(&(naive_call){tools, kv, layer, n_past, n_row, n_head}, out, q, one_head_books);
}
