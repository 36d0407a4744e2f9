/* SPDX-License-Identifier: MIT */
/* Attention of T new positions in its two forms: which rows each query is given, and who does
 * it.
 *
 * prefix: query t of group g gets rows 0 .. P+t of the cache and nothing else. What it costs
 * follows the conversation, not the capacity.
 * full: what is being replaced. K and V are expanded to H heads over the whole capacity C, and
 * every query gets all C rows of which the first P+t+1 count. A masked row has weight
 * e^-inf = 0 exactly and adds 0 v: nothing, unless v is NaN or infinite. So the full form needs
 * a cache without such values beyond the prefix, and the prefix form does not. Rows of weight 0
 * form whole chunks of zeros at the end of each sum, so both forms, and every capacity, agree.
 *
 * Each task is one query row of one group (prefix) or head (full) and writes its own part of
 * out. It also counts the rows that it passes on: those are all that attention.c can see. */
#include "ref/ref.h"

#include <string.h>

typedef struct attention_call {
    const ref_tools *tools;
    float *out;     /* [T, H, E] */
    const float *q; /* [T, H, E] */
    const ref_kv *kv;
    int layer, n_past, n_row, n_head;
    ref_attend_fn *attend; /* the slow form or the fast one */
} attention_call;

static void count_rows(kvref_kv_count *count, int n_row, int d_head)
{
    count->k_rows += (uint64_t)n_row;
    count->v_rows += (uint64_t)n_row;
    count->bytes += 2 * (uint64_t)n_row * (uint64_t)d_head * sizeof(float);
}

/* Heads first_head .. of query row t; the rows are those that *a already holds. */
static void attend(const attention_call *c, ref_attend *a, int worker, int t, int first_head)
{
    size_t row = (size_t)t * (size_t)c->n_head + (size_t)first_head;
    a->d_head = c->kv->d_head;
    a->q = c->q + row * (size_t)a->d_head;
    a->out = c->out + row * (size_t)a->d_head;
    c->attend(c->tools->simd, a, c->tools->score + (size_t)worker * c->tools->score_size);
    count_rows(&c->tools->count[worker], a->n_row, a->d_head);
}

/* Task g*T + t: the H/G heads of group g at query row t. */
static void prefix_tasks(void *arg, int worker, int first, int last)
{
    const attention_call *c = arg;
    int group = c->n_head / c->kv->n_head;
    for (int task = first; task < last; task++) {
        int g = task / c->n_row, t = task % c->n_row, kv_len = c->n_past + t + 1;
        ref_attend a = {.n_head = group,
                        .k = ref_kv_head(c->kv, c->layer, 0, g),
                        .v = ref_kv_head(c->kv, c->layer, 1, g),
                        .n_row = kv_len,
                        .n_live = kv_len};
        attend(c, &a, worker, t, g * group);
    }
}

/* Nanoseconds, roughly: two products of n_row rows for every head and query. */
static double attention_work(const attention_call *c, int n_row)
{
    return 0.2 * c->n_row * c->n_head * c->kv->d_head * n_row;
}

static void run_prefix(attention_call *c)
{
    double work = attention_work(c, c->n_past + c->n_row);
    ref_run(c->tools, prefix_tasks, c, c->kv->n_head * c->n_row, work);
}

/* Copies the whole capacity of head h / (H/G) to head h, for each h. */
static void expand(void *arg, int worker, int first, int last)
{
    const attention_call *c = arg;
    const ref_kv *kv = c->kv;
    size_t size = (size_t)kv->capacity * (size_t)kv->d_head;
    for (int h = first; h < last; h++) {
        int g = h / (c->n_head / kv->n_head);
        const float *k = ref_kv_head(kv, c->layer, 0, g), *v = ref_kv_head(kv, c->layer, 1, g);
        memcpy(c->tools->wide_k + (size_t)h * size, k, size * sizeof *k);
        memcpy(c->tools->wide_v + (size_t)h * size, v, size * sizeof *v);
        c->tools->count[worker].bytes += 4 * size * sizeof *k; /* read and written, K and V */
    }
}

/* Task h*T + t: head h at query row t. */
static void full_tasks(void *arg, int worker, int first, int last)
{
    const attention_call *c = arg;
    size_t size = (size_t)c->kv->capacity * (size_t)c->kv->d_head;
    for (int task = first; task < last; task++) {
        int h = task / c->n_row, t = task % c->n_row;
        ref_attend a = {.n_head = 1,
                        .k = c->tools->wide_k + (size_t)h * size,
                        .v = c->tools->wide_v + (size_t)h * size,
                        .n_row = c->kv->capacity,
                        .n_live = c->n_past + t + 1};
        attend(c, &a, worker, t, h);
    }
}

static void run_full(attention_call *c)
{
    const ref_kv *kv = c->kv;
    ref_run(c->tools, expand, c, c->n_head, 0.5 * c->n_head * kv->capacity * kv->d_head);
    ref_run(c->tools, full_tasks, c, c->n_head * c->n_row, attention_work(c, kv->capacity));
}

void ref_attention_prefix(const ref_tools *tools,
                          float *out,
                          const float *q,
                          const ref_kv *kv,
                          int layer,
                          int n_past,
                          int n_row,
                          int n_head)
{
    attention_call call = {tools, out, q, kv, layer, n_past, n_row, n_head, ref_attend_row};
    run_prefix(&call);
}

void ref_attention_full(const ref_tools *tools,
                        float *out,
                        const float *q,
                        const ref_kv *kv,
                        int layer,
                        int n_past,
                        int n_row,
                        int n_head)
{
    attention_call call = {tools, out, q, kv, layer, n_past, n_row, n_head, ref_attend_row};
    run_full(&call);
}

void ref_attention_books(const ref_tools *tools,
                         float *out,
                         const float *q,
                         const ref_kv *kv,
                         int layer,
                         int n_past,
                         int n_row,
                         int n_head)
{
    attention_call call = {tools, out, q, kv, layer, n_past, n_row, n_head, ref_attend_books};
    run_prefix(&call);
}

void ref_attention_books_full(const ref_tools *tools,
                              float *out,
                              const float *q,
                              const ref_kv *kv,
                              int layer,
                              int n_past,
                              int n_row,
                              int n_head)
{
    attention_call call = {tools, out, q, kv, layer, n_past, n_row, n_head, ref_attend_books};
    run_full(&call);
}
