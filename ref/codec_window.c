/* SPDX-License-Identifier: MIT */
/* Window transformer (spec 06 section 2). Per layer, on rows x [n, width]:
 *   x = x + attn_scale * out(attention(rms(x)))
 *   x = x + ffn_scale * down(silu(gate(rms(x))) * up(rms(x)))
 * and rms(x) after the last. A query at position t sees keys max(0, t - window + 1) .. t.
 * Rotation by absolute position, table rounded to bfloat16, adjacent elements paired. */
#include "ref/codec.h"

#include "kvref/half.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct window_job {
    ref_flow *flow;
    const ref_window *w;
    const float *weight;        /* norm */
    float *x, *y, *qkv, *k, *v; /* k, v: [n_head, cap, d_head] of the layer, oldest row first */
    size_t head;                /* cap * d_head                                              */
    int n, have;                /* new rows, rows kept before them                          */
    int64_t first;              /* position of the first new row                            */
} window_job;

static void norm_task(void *arg, int worker, int first, int last)
{
    const window_job *job = arg;
    kvref_codec *c = job->flow->c;
    int d = job->w->width;
    ref_tools tools = {.simd = c->simd, .panel = c->work + (size_t)worker * c->work_floats};
    kvref_weight weight = {job->weight, KVREF_F32, 1, d};
    ref_rmsnorm(&tools,
                job->y + (ptrdiff_t)first * d,
                job->x + (ptrdiff_t)first * d,
                last - first,
                d,
                &weight,
                c->setup.norm_eps,
                true);
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
        size_t slot = (size_t)(job->have + r) * (size_t)e;
        for (int j = 0; j < e / 2; j++) {
            float angle = (float)(job->first + r) * job->flow->c->rope[j];
            cosine[j] = kvref_bf16_f32(kvref_f32_bf16((float)cos((double)angle)));
            sine[j] = kvref_bf16_f32(kvref_f32_bf16((float)sin((double)angle)));
        }
        for (int h = 0; h < d; h += e, slot += job->head) {
            rotate(q + h, q + h, cosine, sine, e / 2);
            rotate(job->k + slot, k + h, cosine, sine, e / 2);
            memcpy(job->v + slot, k + d + h, (size_t)e * sizeof *k);
        }
    }
}

/* One query head over n keys; y [e] = sum of weights times v / sum of weights.
 * q [e], k and v [n, e], score [n] is scratch. */
static void attend(const ref_simd *simd,
                   float *y,
                   float *score,
                   const float *q,
                   const float *k,
                   const float *v,
                   int n,
                   int e)
{
    float scale = 1.0f / sqrtf((float)e), top = -INFINITY, sum = 0.0f;
    simd->product(&(ref_product){.y = score,
                                 .x = q,
                                 .w = k,
                                 .stride_w = (size_t)e * sizeof *k,
                                 .dtype = KVREF_F32,
                                 .n_x = 1,
                                 .n_w = n,
                                 .n_col = e});
    for (int j = 0; j < n; j++) {
        score[j] *= scale;
        if (score[j] > top) top = score[j];
    }
    for (int j = 0; j < n; j++) {
        score[j] = kvref_expf(score[j] - top);
        sum += score[j];
    }
    simd->mix(y, score, v, n, e);
    for (int i = 0; i < e; i++) y[i] /= sum;
}

/* Task = (head, row). */
static void attend_task(void *arg, int worker, int first, int last)
{
    const window_job *job = arg;
    const ref_window *w = job->w;
    kvref_codec *c = job->flow->c;
    int d = w->width, e = w->d_head;
    float *score = c->work + (size_t)worker * c->work_floats;
    for (int t = first; t < last; t++) {
        int h = t / job->n, r = t % job->n, at = job->have + r;
        int lo = at - w->window + 1 > 0 ? at - w->window + 1 : 0;
        size_t from = (size_t)h * job->head + (size_t)lo * (size_t)e;
        attend(c->simd,
               job->y + (ptrdiff_t)r * d + h * e,
               score,
               job->qkv + (ptrdiff_t)r * 3 * d + h * e,
               job->k + from,
               job->v + from,
               at - lo + 1,
               e);
    }
}

static void gate_task(void *arg, int worker, int first, int last)
{
    const window_job *job = arg;
    size_t f = (size_t)job->w->d_ff, at = (size_t)first * f;
    (void)worker;
    ref_swiglu(job->x + at, job->y + at, (size_t)(last - first) * f);
}

static void norm_rows(window_job *job, float *y, float *x, const float *weight)
{
    job->y = y;
    job->x = x;
    job->weight = weight;
    ref_share_run(job->flow->c, norm_task, job, job->n);
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
static void run_layer(window_job *job, float *const buf[REF_N_BUF], int l, const char *tap)
{
    const ref_window_layer *a = &job->w->layer[l];
    kvref_codec *c = job->flow->c;
    norm_rows(job, buf[1], buf[0], a->attn_norm);
    ref_conv_run(c, &a->qkv, buf[1], job->first, job->n, (ref_after){REF_STORE, buf[2], 0, 0});
    job->qkv = buf[2];
    job->y = buf[1];
    ref_share_run(c, rotate_task, job, job->n);
    ref_share_run(c, attend_task, job, job->n * (job->w->width / job->w->d_head));
    tap_layer(job, tap, l, ".attn", buf[1]);
    ref_after add = {REF_ADD, buf[0], NULL, a->attn_scale};
    ref_conv_run(c, &a->out, buf[1], job->first, job->n, add);
    norm_rows(job, buf[1], buf[0], a->ffn_norm);
    ref_conv_run(c, &a->gate, buf[1], job->first, job->n, (ref_after){REF_STORE, buf[2], 0, 0});
    job->x = buf[2];
    job->y = buf[2] + (ptrdiff_t)job->n * job->w->d_ff;
    ref_conv_run(c, &a->up, buf[1], job->first, job->n, (ref_after){REF_STORE, job->y, 0, 0});
    ref_share_run(c, gate_task, job, job->n);
    add.scale = a->ffn_scale;
    ref_conv_run(c, &a->down, buf[2], job->first, job->n, add);
    tap_layer(job, tap, l, "", buf[0]);
}

/* Makes room for n rows behind the kept ones; true position of row 0 follows from n_pos. */
static void make_room(ref_cache *cache, const ref_window *w, int n)
{
    if (cache->used + (size_t)n <= cache->cap) return;
    size_t e = (size_t)w->d_head, keep = (size_t)(w->window - 1), drop = cache->used - keep;
    for (int i = 0; i < 2 * w->n_layer * (w->width / w->d_head); i++) {
        float *rows = cache->kv + (size_t)i * cache->cap * e;
        memmove(rows, rows + drop * e, keep * e * sizeof *rows);
    }
    cache->used = keep;
}

void ref_window_run(ref_flow *flow,
                    const ref_window *w,
                    ref_cache *cache,
                    float *const buf[REF_N_BUF],
                    int n,
                    const char *tap)
{
    make_room(cache, w, n);
    window_job job = {.flow = flow, .w = w, .n = n};
    job.have = (int)cache->used;
    job.first = cache->n_pos;
    job.head = cache->cap * (size_t)w->d_head;
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
