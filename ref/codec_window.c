/* SPDX-License-Identifier: MIT */
/* Window transformer (spec 06 section 2). Per layer, on rows x [n, width]:
 *   x = x + attn_scale * out(attention(rms(x)))
 *   x = x + ffn_scale * down(silu(gate(rms(x))) * up(rms(x)))
 * and rms(x) after the last. A query at position t sees keys max(0, t - window + 1) .. t.
 * Rotation by absolute position, table rounded to bfloat16, adjacent elements paired. */
#include "ref/codec.h"

#include "kvref/fmath.h"
#include "kvref/half.h"
#include "ref/clones.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LANES = 16 };

typedef struct window_job {
    ref_flow *flow;
    const ref_window *w;
    const float *weight;        /* norm */
    float *x, *y, *qkv, *k, *v; /* k, v: [cap, width] of the layer, from the oldest kept row */
    int n, have;                /* new rows, rows kept before them                          */
    int64_t first;              /* position of the first new row                            */
} window_job;

static void norm_task(void *arg, int worker, int first, int last)
{
    const window_job *job = arg;
    int d = job->w->width;
    (void)worker;
    for (int r = first; r < last; r++)
        ref_codec_rms(job->y + (ptrdiff_t)r * d,
                      job->x + (ptrdiff_t)r * d,
                      job->weight,
                      d,
                      job->flow->c->setup.norm_eps);
}

/* Rotates n_pair adjacent pairs of y = u by the angles of a position. */
static void rotate(float *y, const float *u, const float *cosine, const float *sine, int n_pair)
{
    for (int j = 0; j < n_pair; j++) {
        float a = u[2 * j], b = u[2 * j + 1];
        y[2 * j] = a * cosine[j] - b * sine[j];
        y[2 * j + 1] = b * cosine[j] + a * sine[j];
    }
}

/* q in place, k and v into the cache. */
static void rotate_task(void *arg, int worker, int first, int last)
{
    const window_job *job = arg;
    int d = job->w->width, e = job->w->d_head;
    (void)worker;
    for (int r = first; r < last; r++) {
        float cosine[256], sine[256];
        float *q = job->qkv + (ptrdiff_t)r * 3 * d, *k = q + d;
        ptrdiff_t slot = (ptrdiff_t)(job->have + r) * d;
        for (int j = 0; j < e / 2; j++) {
            float angle = (float)(job->first + r) * job->flow->c->rope[j];
            cosine[j] = kvref_bf16_f32(kvref_f32_bf16((float)cos((double)angle)));
            sine[j] = kvref_bf16_f32(kvref_f32_bf16((float)sin((double)angle)));
        }
        for (int h = 0; h < d; h += e) {
            rotate(q + h, q + h, cosine, sine, e / 2);
            rotate(job->k + slot + h, k + h, cosine, sine, e / 2);
        }
        memcpy(job->v + slot, k + d, (size_t)d * sizeof *k);
    }
}

/* Sum of a[i] * b[i] in 16 lanes by i mod 16, added as a tree. */
static inline float dot(const float *a, const float *b, int n)
{
    float lane[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += a[i + l] * b[i + l];
    for (; i < n; i++) lane[i % LANES] += a[i] * b[i];
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) lane[l] += lane[l + half];
    return lane[0];
}

/* One query head over n keys, rows ld apart; y [e] = sum of weights times v / sum of weights.
 * score: room for n. */
REF_CLONES static void attend(float *y,
                              float *score,
                              const float *q,
                              const float *k,
                              const float *v,
                              int n,
                              int e,
                              int ld)
{
    float scale = (float)(1.0 / sqrt((double)e)), top = -INFINITY, sum = 0.0f;
    for (int j = 0; j < n; j++) {
        score[j] = dot(q, k + (ptrdiff_t)j * ld, e) * scale;
        if (score[j] > top) top = score[j];
    }
    for (int j = 0; j < n; j++) {
        score[j] = kvref_expf(score[j] - top);
        sum += score[j];
    }
    memset(y, 0, (size_t)e * sizeof *y);
    for (int j = 0; j < n; j++, v += ld) {
        float p = score[j];
        int i = 0;
        for (; i + LANES <= e; i += LANES)
            for (int l = 0; l < LANES; l++) y[i + l] += p * v[i + l];
        for (; i < e; i++) y[i] += p * v[i];
    }
    for (int i = 0; i < e; i++) y[i] /= sum;
}

/* Task = (row, head). */
static void attend_task(void *arg, int worker, int first, int last)
{
    const window_job *job = arg;
    const ref_window *w = job->w;
    int d = w->width, e = w->d_head, n_head = d / e;
    float *score = job->flow->c->work + (size_t)worker * job->flow->c->work_floats;
    for (int t = first; t < last; t++) {
        int r = t / n_head, h = t % n_head * e, at = job->have + r;
        int lo = at - w->window + 1 > 0 ? at - w->window + 1 : 0;
        ptrdiff_t from = (ptrdiff_t)lo * d + h;
        attend(job->y + (ptrdiff_t)r * d + h,
               score,
               job->qkv + (ptrdiff_t)r * 3 * d + h,
               job->k + from,
               job->v + from,
               at - lo + 1,
               e,
               d);
    }
}

static void gate_task(void *arg, int worker, int first, int last)
{
    const window_job *job = arg;
    size_t f = (size_t)job->w->d_ff;
    (void)worker;
    for (size_t i = (size_t)first * f; i < (size_t)last * f; i++)
        job->x[i] = kvref_siluf(job->x[i]) * job->y[i];
}

static void norm_rows(window_job *job, float *y, float *x, const float *weight)
{
    job->y = y;
    job->x = x;
    job->weight = weight;
    kvref_pool_run(job->flow->c->pool, norm_task, job, job->n);
}

static void tap_layer(const window_job *job, const char *tap, int l, const char *what, float *x)
{
    char name[64];
    snprintf(name, sizeof name, "%s.L%02d%s", tap, l, what);
    ref_flow_tap(job->flow,
                 *what ? KVREF_TAP_OPS : KVREF_TAP_LAYERS,
                 name,
                 job->first,
                 job->n,
                 job->w->width,
                 x);
}

/* One layer on buf[0]; the others are scratch. */
static void run_layer(window_job *job, float *const buf[4], int l, const char *tap)
{
    const ref_window_layer *a = &job->w->layer[l];
    kvref_codec *c = job->flow->c;
    norm_rows(job, buf[1], buf[0], a->attn_norm);
    ref_conv_run(c, &a->qkv, buf[1], job->first, job->n, (ref_after){REF_STORE, buf[2], 0, 0});
    job->qkv = buf[2];
    job->y = buf[1];
    kvref_pool_run(c->pool, rotate_task, job, job->n);
    kvref_pool_run(c->pool, attend_task, job, job->n * (job->w->width / job->w->d_head));
    tap_layer(job, tap, l, ".attn", buf[1]);
    ref_after add = {REF_SCALED_ADD, buf[0], NULL, a->attn_scale};
    ref_conv_run(c, &a->out, buf[1], job->first, job->n, add);
    norm_rows(job, buf[1], buf[0], a->ffn_norm);
    ref_conv_run(c, &a->gate, buf[1], job->first, job->n, (ref_after){REF_STORE, buf[2], 0, 0});
    ref_conv_run(c, &a->up, buf[1], job->first, job->n, (ref_after){REF_STORE, buf[3], 0, 0});
    job->x = buf[2];
    job->y = buf[3];
    kvref_pool_run(c->pool, gate_task, job, job->n);
    add.scale = a->ffn_scale;
    ref_conv_run(c, &a->down, buf[2], job->first, job->n, add);
    tap_layer(job, tap, l, "", buf[0]);
}

/* Makes room for n rows behind the kept ones; true position of row 0 follows from n_pos. */
static void make_room(ref_cache *cache, const ref_window *w, int n)
{
    if (cache->used + (size_t)n <= cache->cap) return;
    size_t d = (size_t)w->width, keep = (size_t)(w->window - 1);
    size_t drop = cache->used - keep;
    for (int i = 0; i < 2 * w->n_layer; i++) {
        float *rows = cache->kv + (size_t)i * cache->cap * d;
        memmove(rows, rows + drop * d, keep * d * sizeof *rows);
    }
    cache->used = keep;
}

void ref_window_run(ref_flow *flow,
                    const ref_window *w,
                    ref_cache *cache,
                    float *const buf[4],
                    int n,
                    const char *tap)
{
    make_room(cache, w, n);
    window_job job = {.flow = flow, .w = w, .n = n};
    job.have = (int)cache->used;
    job.first = cache->n_pos;
    for (int l = 0; l < w->n_layer; l++) {
        size_t rows = cache->cap * (size_t)w->width;
        job.k = cache->kv + (size_t)(2 * l) * rows;
        job.v = job.k + rows;
        run_layer(&job, buf, l, tap);
    }
    norm_rows(&job, buf[1], buf[0], w->norm);
    memcpy(buf[0], buf[1], (size_t)n * (size_t)w->width * sizeof *buf[0]);
    cache->used += (size_t)n;
    cache->n_pos += n;
}
