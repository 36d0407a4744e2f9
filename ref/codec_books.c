/* SPDX-License-Identifier: MIT */
/* The residual vector quantizer (spec 06 sections 3 and 4).
 * Decoding: z = sum over books of out(entry[min(c, n_code - 1)]).
 * Encoding: each book takes the entry nearest to e = in(r) among rows of length 1, by
 * |e|^2 - 2 e.c + |c|^2, the first of equals; then r = r - out(entry). */
#include "ref/codec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* q = out(entry of code) for one frame. */
static void project(float *q, const ref_book *book, int32_t code, int latent)
{
    const float *entry = book->entry + (size_t)code * (size_t)book->width, *w = book->out;
    memset(q, 0, (size_t)latent * sizeof *q);
    for (int i = 0; i < book->width; i++, w += latent)
        for (int o = 0; o < latent; o++) q[o] += w[o] * entry[i];
    for (int o = 0; o < latent; o++) q[o] += book->bias[o];
}

typedef struct decode_job {
    const kvref_codec *c;
    float *z;
    const int32_t *code;
} decode_job;

/* The semantic book is added to the sum of the others, as upstream has it. */
static void decode_task(void *arg, int worker, int first, int last)
{
    const decode_job *job = arg;
    const kvref_codec *c = job->c;
    int d = c->info.latent, n_book = c->info.n_book;
    float *q = c->work + (size_t)worker * c->work_floats;
    for (int t = first; t < last; t++) {
        const int32_t *code = job->code + (ptrdiff_t)t * n_book;
        float *z = job->z + (ptrdiff_t)t * d;
        memset(z, 0, (size_t)d * sizeof *z);
        for (int b = 1; b <= n_book; b++) {
            const ref_book *book = &c->book[b % n_book];
            int32_t k = code[b % n_book];
            project(q, book, k < book->n_code ? k : book->n_code - 1, d);
            for (int i = 0; i < d; i++) z[i] += q[i];
        }
    }
}

void ref_books_decode(kvref_codec *c, float *z, const int32_t *code, int n)
{
    decode_job job = {c, z, code};
    ref_share_run(c, decode_task, &job, n);
}

static float dot(const float *a, const float *b, int n)
{
    float sum = 0.0f;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* The nearest entry to e [width]. */
static int32_t nearest(const ref_book *book, const float *e)
{
    float unit[64], length = sqrtf(dot(e, e, book->width));
    for (int i = 0; i < book->width; i++) unit[i] = e[i] / (length > 1e-12f ? length : 1e-12f);
    float own = dot(unit, unit, book->width), best = INFINITY;
    int32_t code = 0;
    for (int k = 0; k < book->n_code; k++) {
        float away =
            own - 2.0f * dot(unit, book->unit + (size_t)k * (size_t)book->width, book->width) +
            book->unit2[k];
        if (away < best) {
            best = away;
            code = k;
        }
    }
    return code;
}

typedef struct encode_job {
    const ref_book *book;
    const float *e; /* [n, width] */
    float *q, *r;   /* [n, latent] */
    int32_t *code;  /* [n], stride apart */
    int stride, latent;
} encode_job;

static void encode_task(void *arg, int worker, int first, int last)
{
    const encode_job *job = arg;
    int d = job->latent;
    (void)worker;
    for (int t = first; t < last; t++) {
        int32_t code = nearest(job->book, job->e + (ptrdiff_t)t * job->book->width);
        float *q = job->q + (ptrdiff_t)t * d, *r = job->r + (ptrdiff_t)t * d;
        project(q, job->book, code, d);
        for (int i = 0; i < d; i++) r[i] -= q[i];
        job->code[(ptrdiff_t)t * job->stride] = code;
    }
}

/* Every e must be a number: of a NaN the search would just take no notice. */
static kvref_status check(const ref_flow *flow, const float *e, int n, int b, kvref_error *err)
{
    int width = flow->c->book[b].width;
    for (int i = 0; i < n * width; i++)
        if (!isfinite(e[i]))
            return kvref_fail(
                err,
                KVREF_E_FORMAT,
                "codec: frame %lld, book %d: input of the quantizer is not finite",
                (long long)flow->frame + i / width,
                b);
    return KVREF_OK;
}

static void tap(const ref_flow *flow, int b, char what, int n, int width, const float *x)
{
    char name[32];
    snprintf(name, sizeof name, "vq.%d.%c", b, what);
    ref_flow_tap(flow, KVREF_TAP_LAYERS, name, flow->frame, n, width, x);
}

kvref_status ref_books_encode(ref_flow *flow, int32_t *code, float *z, int n, kvref_error *err)
{
    kvref_codec *c = flow->c;
    int n_book = c->info.n_book;
    encode_job job = {.e = flow->buf[1], .q = flow->buf[2], .r = z, .stride = n_book};
    job.latent = c->info.latent;
    for (int b = 0; b < n_book; b++) {
        job.book = &c->book[b];
        job.code = code + b;
        ref_after store = {REF_STORE, flow->buf[1], NULL, NULL};
        ref_conv_run(c, &job.book->in, z, flow->frame, n, store);
        KVREF_TRY(check(flow, job.e, n, b, err));
        ref_share_run(c, encode_task, &job, n);
        tap(flow, b, 'e', n, job.book->width, job.e);
        tap(flow, b, 'q', n, c->info.latent, job.q);
        tap(flow, b, 'r', n, c->info.latent, z);
    }
    return KVREF_OK;
}
