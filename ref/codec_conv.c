/* SPDX-License-Identifier: MIT */
/* Convolutions as matrix products on panels of rows.
 *
 * A panel is `panel` rows that start at a multiple of it, counted from the beginning of the
 * whole signal, times `chunk` columns. BLAS always gets the whole panel, also where only some
 * of its rows are wanted (the others hold whatever lies there): so the call that makes a row,
 * its sizes and the place of the row in it are the same however the signal is cut in pieces,
 * and whatever the number of threads. Taps are added by one product each. The exact variant
 * sums all taps and inputs of an output in the order of lanes.h. */
#include "ref/codec.h"

#include "ref/clones.h"

#include <cblas.h>
#include <string.h>

typedef struct conv_job {
    kvref_codec *c;
    const ref_conv *conv;
    const float *x;
    int n, n_chunk;
    int64_t row0, panel0; /* first row, first panel */
    ref_after after;
} conv_job;

/* Rows [n, n_tap * n_in] of all inputs of each output, side by side. */
static void gather_rows(float *out, const float *x, const ref_conv *v, int n)
{
    size_t n_in = (size_t)v->n_in, n_k = n_in * (size_t)v->n_tap;
    for (int j = 0; j < v->n_tap; j++) {
        const float *from = x - (ptrdiff_t)((v->n_tap - 1 - j) * v->step) * v->n_in;
        for (int r = 0; r < n; r++)
            memcpy(out + (size_t)r * n_k + (size_t)j * n_in,
                   from + (size_t)r * n_in,
                   n_in * sizeof *x);
    }
}

/* sums [panel, chunk] of rows x, stride_x apart and n_k long, times weights from element
 * from[0] of every output on, outputs from[1] .. from[1]+n_o-1. Element 0 begins the sums,
 * others are added. */
static void multiply(const conv_job *job,
                     float *sums,
                     const float *x,
                     int stride_x,
                     int n_k,
                     const int from[2],
                     int n_o)
{
    const ref_conv *v = job->conv;
    int k0 = from[0], o0 = from[1];
    int all = v->n_tap * v->n_in, stride = v->across ? v->n_out : all;
    size_t at = v->across ? (size_t)k0 * (size_t)stride + (size_t)o0
                          : (size_t)o0 * (size_t)stride + (size_t)k0;
    cblas_sgemm(CblasRowMajor,
                CblasNoTrans,
                v->across ? CblasNoTrans : CblasTrans,
                v->panel,
                n_o,
                n_k,
                1.0f,
                x,
                stride_x,
                v->w + at,
                stride,
                k0 > 0 ? 1.0f : 0.0f,
                sums,
                v->chunk);
}

static void
blas_panel(const conv_job *job, float *sums, float *rows, const float *x, int o0, int n_o)
{
    const ref_conv *v = job->conv;
    int n_k = v->n_tap * v->n_in;
    if (v->gather) {
        gather_rows(rows, x, v, v->panel);
        multiply(job, sums, rows, n_k, n_k, (int[]){0, o0}, n_o);
        return;
    }
    for (int j = 0; j < v->n_tap; j++) {
        const float *at = x - (ptrdiff_t)((v->n_tap - 1 - j) * v->step) * v->n_in;
        multiply(job, sums, at, v->n_in, v->n_in, (int[]){j * v->n_in, o0}, n_o);
    }
}

/* sums [n, chunk] of rows x. Taps one row apart lie side by side as they are. */
static void exact_panel(
    const conv_job *job, float *sums, float *rows, const float *x, int n, int o0, int n_o)
{
    const ref_conv *v = job->conv;
    int n_k = v->n_tap * v->n_in, stride_x = v->n_in;
    const float *w = v->w + (size_t)o0 * (size_t)n_k;
    if (v->gather) {
        gather_rows(rows, x, v, n);
        x = rows;
        stride_x = n_k;
    } else if (v->n_tap > 1) {
        x -= (ptrdiff_t)(v->n_tap - 1) * v->n_in;
    }
    job->c->simd->product(&(ref_product){.y = sums,
                                         .stride_y = (size_t)v->chunk,
                                         .x = x,
                                         .stride_x = (size_t)stride_x,
                                         .w = w,
                                         .stride_w = (size_t)n_k * sizeof *w,
                                         .dtype = KVREF_F32,
                                         .n_x = n,
                                         .n_w = n_o,
                                         .n_col = n_k});
}

REF_CLONES static void add(float *y, const float *x, int n)
{
    for (int i = 0; i < n; i++) y[i] += x[i];
}

REF_CLONES static void add_scaled(float *y, const float *x, const float *scale, int n)
{
    for (int i = 0; i < n; i++) y[i] += scale[i] * x[i];
}

/* In one pass: these rows come from far. */
REF_CLONES static void add_both(float *y, const float *x, const float *bias, int n)
{
    for (int i = 0; i < n; i++) y[i] += x[i] + bias[i];
}

/* Columns o0 .. o0 + n_o - 1 of one row. */
static void finish_row(const conv_job *job, float *sums, int row, int o0, int n_o)
{
    const ref_conv *v = job->conv;
    const ref_after *a = &job->after;
    float *y = a->y + (size_t)row * (size_t)v->n_out + o0;
    bool both = a->kind == REF_ADD && !a->scale && v->bias;
    if (v->bias && !both) add(sums, v->bias + o0, n_o);
    switch (a->kind) {
    case REF_STORE:
        memcpy(y, sums, (size_t)n_o * sizeof *y);
        break;
    case REF_GELU:
        ref_gelu(sums, (size_t)n_o);
        memcpy(y, sums, (size_t)n_o * sizeof *y);
        break;
    case REF_SNAKE: {
        ref_snake part = {a->snake->alpha + o0, a->snake->inverse + o0, n_o};
        ref_snake_rows(y, sums, &part, 1);
        break;
    }
    case REF_ADD:
        if (both)
            add_both(y, sums, v->bias + o0, n_o);
        else if (a->scale)
            add_scaled(y, sums, a->scale + o0, n_o);
        else
            add(y, sums, n_o);
        break;
    }
}

static void conv_task(void *arg, int worker, int first, int last)
{
    const conv_job *job = arg;
    const ref_conv *v = job->conv;
    float *sums = job->c->work + (size_t)worker * job->c->work_floats;
    float *rows = sums + (size_t)v->panel * (size_t)v->chunk;
    for (int t = first; t < last; t++) {
        int o0 = t % job->n_chunk * v->chunk;
        int n_o = v->n_out - o0 < v->chunk ? v->n_out - o0 : v->chunk;
        /* The panel in rows of this piece: from at, which may be before its first row. */
        int at = (int)((job->panel0 + t / job->n_chunk) * v->panel - job->row0);
        int lo = at < 0 ? -at : 0, hi = job->n - at < v->panel ? job->n - at : v->panel;
        const float *x = job->x + (ptrdiff_t)at * v->n_in;
        float *top = sums + (size_t)lo * (size_t)v->chunk;
        if (job->conv->blas)
            blas_panel(job, sums, rows, x, o0, n_o);
        else
            exact_panel(job, top, rows, x + (size_t)lo * (size_t)v->n_in, hi - lo, o0, n_o);
        for (int r = lo; r < hi; r++, top += v->chunk) finish_row(job, top, at + r, o0, n_o);
    }
}

void ref_conv_run(
    kvref_codec *c, const ref_conv *conv, const float *x, int64_t row0, int n, ref_after after)
{
    conv_job job = {.c = c, .conv = conv, .x = x, .n = n, .row0 = row0, .after = after};
    job.n_chunk = (conv->n_out + conv->chunk - 1) / conv->chunk;
    job.panel0 = row0 / conv->panel;
    int64_t n_panel = (row0 + n - 1) / conv->panel - job.panel0 + 1;
    ref_share_run(c, conv_task, &job, (int)n_panel * job.n_chunk);
}

/* Small panels waste less where few rows come at a time; large ones run faster, because BLAS
 * brings the weights into its own order once for each (of its full rate: 32 rows 45 %, 64 rows
 * 62 %, 128 rows 78 %, 256 rows 95 %, 512 rows 98 %). Decoding may be fed single frames,
 * encoding never is. */
static int panel_rows(int rate, bool encoding)
{
    if (rate < 2) return encoding ? 64 : 32;
    if (rate < 4) return encoding ? 128 : 64;
    if (rate < 32) return encoding ? 256 : 128;
    if (rate < 256) return 256;
    return rate < 1024 ? 512 : 1024;
}

void ref_codec_plan(kvref_codec *c, ref_conv *conv, int rate)
{
    conv->blas = c->opts.conv == KVREF_CONV_BLAS && conv->n_out > 16;
    conv->gather = conv->n_tap > 1 && (conv->blas ? conv->n_in < 32 : conv->step > 1);
    conv->panel = panel_rows(rate, c->encoding);
    int n_chunk = (conv->n_out + 511) / 512;
    conv->chunk = ((conv->n_out + n_chunk - 1) / n_chunk + 15) / 16 * 16;
    size_t n_k = (size_t)conv->n_tap * (size_t)conv->n_in, panel = (size_t)conv->panel;
    size_t work = panel * (size_t)conv->chunk + (conv->gather ? panel * n_k : 0);
    size_t slack = ((size_t)((conv->n_tap - 1) * conv->step) + panel) * (size_t)conv->n_in;
    if (work > c->work_floats) c->work_floats = work;
    ref_span *span = &c->span[c->encoding];
    if (slack > span->slack_floats) span->slack_floats = slack;
    ref_codec_need(c, rate, conv->n_in);
    ref_codec_need(c, rate, conv->n_out);
}

void ref_codec_need(kvref_codec *c, int rate, int width)
{
    ref_span *span = &c->span[c->encoding];
    size_t need = (size_t)rate * (size_t)width;
    if (need > span->row_floats) span->row_floats = need;
}
