/* SPDX-License-Identifier: MIT */
/* Linear layer: y[t, o] = sum over i of w[o, i] x[t, i] + bias[o].
 *
 * Matrices are [out, in], row-major: an output is the dot product of a row of w with a row of
 * x, and one decode step (T = 1) reads every weight exactly once. It is therefore as fast as
 * memory, and weights stay in checkpoint dtype: 16 bits become float32, exactly, on the way.
 *
 * exact: the summation order of lanes.h. A task is REF_PANEL output rows, so threads share no
 * output. With several rows of x a task first widens its weights once.
 * blas: OpenBLAS for calls of several rows; its order of summation is its own. */
#include "ref/ref.h"

#include <assert.h>
#include <cblas.h>

typedef struct linear_call {
    const ref_tools *tools;
    const ref_matrix *m;
    int n; /* matrices */
    const float *x;
    int n_row;
    int widen_from; /* blas: first row of the only matrix that is widened */
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

static int panels(const kvref_weight *w)
{
    return (w->n_row + REF_PANEL - 1) / REF_PANEL;
}

static int rows_of_panel(const kvref_weight *w, int panel)
{
    int left = w->n_row - panel * REF_PANEL;
    return left < REF_PANEL ? left : REF_PANEL;
}

/* y[t, o] = R(y[t, o] + bias[o]) for n columns from first on: the bias is inside the rounding.
 */
static void finish(const linear_call *a, const ref_matrix *m, int first, int n)
{
    float bias[REF_PANEL] = {0};
    bool has_bias = m->bias && m->bias->data;
    if (has_bias) {
        size_t skip = (size_t)first * kvref_dtype_size(m->bias->dtype);
        a->tools->simd->widen(
            bias, (const char *)m->bias->data + skip, m->bias->dtype, (size_t)n);
    }
    for (int t = 0; t < a->n_row; t++) {
        float *y = m->y + (size_t)t * (size_t)m->w->n_row + (size_t)first;
        for (int o = 0; o < n; o++) y[o] = ref_round(has_bias ? y[o] + bias[o] : y[o]);
    }
}

static void panel_exact(const linear_call *a, const ref_matrix *m, int worker, int panel)
{
    const ref_tools *tools = a->tools;
    int first = panel * REF_PANEL, n = rows_of_panel(m->w, panel);
    size_t n_col = (size_t)m->w->n_col;
    kvref_weight w = ref_rows(m->w, first, n);
    if (a->n_row > 1 && w.dtype != KVREF_F32) {
        float *wide = tools->panel + (size_t)worker * tools->panel_size;
        tools->simd->widen(wide, w.data, w.dtype, (size_t)n * n_col);
        w = (kvref_weight){wide, KVREF_F32, n, w.n_col};
    }
    tools->simd->product(&(ref_product){.y = m->y + first,
                                        .stride_y = (size_t)m->w->n_row,
                                        .x = a->x,
                                        .stride_x = n_col,
                                        .w = w.data,
                                        .stride_w = n_col * kvref_dtype_size(w.dtype),
                                        .dtype = w.dtype,
                                        .n_x = a->n_row,
                                        .n_w = n,
                                        .n_col = w.n_col});
    finish(a, m, first, n);
}

static void exact(void *arg, int worker, int first, int last)
{
    const linear_call *a = arg;
    const ref_matrix *m = a->m;
    for (int task = first, skipped = 0; task < last; task++) {
        while (task - skipped >= panels(m->w)) skipped += panels(m++->w);
        panel_exact(a, m, worker, task - skipped);
    }
}

static void widen_for_blas(void *arg, int worker, int first, int last)
{
    (void)worker;
    const linear_call *a = arg;
    size_t n_col = (size_t)a->m->w->n_col;
    for (int panel = first; panel < last; panel++) {
        kvref_weight w = ref_rows(a->m->w,
                                  panel * REF_PANEL + a->widen_from,
                                  rows_of_panel(a->m->w, a->widen_from / REF_PANEL + panel));
        a->tools->simd->widen(a->tools->blas_panel + (size_t)(panel * REF_PANEL) * n_col,
                              w.data,
                              w.dtype,
                              (size_t)w.n_row * n_col);
    }
}

/* REF_BLAS_PANEL output rows at a time, so that the float32 copy stays small. */
static void blas(linear_call *a)
{
    const ref_matrix *m = a->m;
    const kvref_weight *w = m->w;
    for (int first = 0; first < w->n_row; first += REF_BLAS_PANEL) {
        int n = w->n_row - first < REF_BLAS_PANEL ? w->n_row - first : REF_BLAS_PANEL;
        int n_panel = (n + REF_PANEL - 1) / REF_PANEL;
        a->widen_from = first;
        ref_run(a->tools, widen_for_blas, a, n_panel, 0.2 * n * w->n_col);
        cblas_sgemm(CblasRowMajor,
                    CblasNoTrans,
                    CblasTrans,
                    a->n_row,
                    n,
                    w->n_col,
                    1.0f,
                    a->x,
                    w->n_col,
                    a->tools->blas_panel,
                    w->n_col,
                    0.0f,
                    m->y + first,
                    w->n_row);
    }
    for (int panel = 0; panel < panels(w); panel++)
        finish(a, m, panel * REF_PANEL, rows_of_panel(w, panel));
}

void ref_linear(const ref_tools *tools, const ref_matrix *m, int n, const float *x, int n_row)
{
    linear_call call = {tools, m, n, x, n_row, 0};
    if (tools->linear == KVREF_LINEAR_BLAS && n_row > 1) {
        for (; call.n > 0; call.n--, call.m++) blas(&call);
        return;
    }
    int n_task = 0;
    double work = 0;
    for (int i = 0; i < n; i++) {
        assert(m[i].w->n_col == m[0].w->n_col);
        n_task += panels(m[i].w);
        work += 0.1 * m[i].w->n_row * m[i].w->n_col * n_row;
    }
    ref_run(tools, exact, &call, n_task, work);
}
