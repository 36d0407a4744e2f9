/* SPDX-License-Identifier: MIT */
/* Linear layer: y[t, o] = R(sum over i of w[o, i] x[t, i] + bias[o]), as linear_naive.c
 * defines it.
 *
 * A row of w makes one output, and one decode step (T = 1) reads every weight exactly once: it
 * is as fast as memory. So weights stay in checkpoint dtype, half the bytes of float32, and
 * become float32, exactly, when they are multiplied; for bfloat16 that is a shift. Work is cut
 * into panels, a few rows of w each: outputs are disjoint, so who computes which panel cannot
 * matter, and all rows of x meet a panel while it is in the cache.
 *
 * exact: the order of linear_naive.c, by the loops of lanes.h.
 * blas: from REF_BLAS_ROWS rows of x up, OpenBLAS multiplies the panel; its order is its own.
 * It must do so on the thread that asks: the panels already occupy all threads that the decoder
 * may use, and a panel that has just been widened is in that core's cache. */
#include "ref/ref.h"

#include <assert.h>
#include <cblas.h>

typedef struct linear_call {
    const ref_tools *tools;
    const ref_matrix *m; /* several, with one x: q, k and v, or gate and up */
    const float *x;      /* [n_row, n_col]                                  */
    int n_row;
    bool blas;
    int height; /* rows of w in a panel */
} linear_call;

kvref_weight ref_rows(const kvref_weight *w, int first, int n)
{
    size_t skip = (size_t)first * (size_t)w->n_col * kvref_dtype_size(w->dtype);
    return (kvref_weight){(const char *)w->data + skip, w->dtype, n, w->n_col};
}

void ref_row(const ref_tools *tools, float *y, const kvref_weight *w, int row)
{
    kvref_weight one = ref_rows(w, row, 1);
    tools->simd->widen(y, one.data, one.dtype, (size_t)one.n_col);
}

/* y[t, o] = sum over i of w[o, i] x[t, i]; y has stride_y floats from row to row. */
static void multiply_exact(const linear_call *a, float *y, size_t stride_y, kvref_weight w)
{
    size_t n_col = (size_t)w.n_col;
    a->tools->simd->product(&(ref_product){.y = y,
                                           .stride_y = stride_y,
                                           .x = a->x,
                                           .stride_x = n_col,
                                           .w = w.data,
                                           .stride_w = n_col * kvref_dtype_size(w.dtype),
                                           .dtype = w.dtype,
                                           .n_x = a->n_row,
                                           .n_w = w.n_row,
                                           .n_col = w.n_col});
}

/* The same for float32 weights, in OpenBLAS's order: y = x w^T. */
static void multiply_blas(const linear_call *a, float *y, size_t stride_y, kvref_weight w)
{
    cblas_sgemm(CblasRowMajor,
                CblasNoTrans,
                CblasTrans,
                a->n_row,
                w.n_row,
                w.n_col,
                1.0f,
                a->x,
                w.n_col,
                w.data,
                w.n_col,
                0.0f,
                y,
                (int)stride_y);
}

/* y[t, o] = R(y[t, o] + bias[o]) for n outputs from first on: the bias is inside the rounding.
 */
static void add_bias(const linear_call *a, const ref_matrix *m, int first, int n)
{
    const kvref_weight *bias = m->bias;
    bool has_bias = bias && bias->data;
    for (int t = 0; t < a->n_row; t++) {
        float *y = m->y + (size_t)t * (size_t)m->w->n_row + (size_t)first;
        for (int o = 0; o < n; o++) {
            if (has_bias)
                y[o] += ref_element(bias->data, bias->dtype, (size_t)first + (size_t)o);
            y[o] = ref_round(y[o]);
        }
    }
}

static void panel(const linear_call *a, const ref_matrix *m, int worker, int first, int n)
{
    const ref_tools *tools = a->tools;
    kvref_weight w = ref_rows(m->w, first, n);
    bool costly = w.dtype == KVREF_F16 && a->n_row > 2; /* to widen once for each row of x */
    if (w.dtype != KVREF_F32 && (a->blas || costly)) {
        float *wide = tools->panel + (size_t)worker * tools->panel_size;
        tools->simd->widen(wide, w.data, w.dtype, (size_t)n * (size_t)w.n_col);
        w = (kvref_weight){wide, KVREF_F32, n, w.n_col};
    }
    if (a->blas)
        multiply_blas(a, m->y + first, (size_t)m->w->n_row, w);
    else
        multiply_exact(a, m->y + first, (size_t)m->w->n_row, w);
    add_bias(a, m, first, n);
}

static int n_panel(const linear_call *a, const ref_matrix *m)
{
    return (m->w->n_row + a->height - 1) / a->height;
}

/* Panels are numbered through all matrices. */
static void panels(void *arg, int worker, int first, int last)
{
    const linear_call *a = arg;
    const ref_matrix *m = a->m;
    for (int task = first, skipped = 0; task < last; task++) {
        while (task - skipped >= n_panel(a, m)) skipped += n_panel(a, m++);
        int row = (task - skipped) * a->height, left = m->w->n_row - row;
        panel(a, m, worker, row, left < a->height ? left : a->height);
    }
}

void ref_linear(const ref_tools *tools, const ref_matrix *m, int n, const float *x, int n_row)
{
    bool blas = tools->linear == KVREF_LINEAR_BLAS && n_row >= REF_BLAS_ROWS;
    linear_call call = {tools, m, x, n_row, blas, blas ? REF_BLAS_PANEL : REF_PANEL};
    int n_task = 0;
    double work = 0;
    for (int i = 0; i < n; i++) {
        assert(m[i].w->n_col == m[0].w->n_col);
        n_task += n_panel(&call, &m[i]);
        work += 0.1 * m[i].w->n_row * m[i].w->n_col * n_row;
    }
    int before = blas ? openblas_get_num_threads() : 0;
    if (blas) openblas_set_num_threads(1); /* per panel; process-wide, put back below */
    ref_run(tools, panels, &call, n_task, work);
    if (blas) openblas_set_num_threads(before);
}
