/* SPDX-License-Identifier: MIT */
/* Attention of T new positions over the cache, in two forms that give the same bits.
 *
 *     score[r] = q . k[r] / sqrt(E)                      for r = 0 .. P+t
 *     out      = sum of e^(score[r] - max) v[r]  /  sum of e^(score[r] - max)
 *
 * Query head h reads key/value head h / (H/G); the H/G heads of a group go through a row
 * together. Every row is visited twice: once for its score and the maximum, once for its share.
 * The maximum is subtracted so that e^x cannot overflow; it does not change the quotient.
 *
 * prefix: rows 0 .. P+t of the cache and nothing else.
 * full: what is being replaced. K and V are expanded to H heads over the whole capacity, every
 * score gets a mask of 0 or minus infinity, and all C rows are weighted. A masked row has
 * weight e^-inf = 0 exactly and adds 0 v: nothing, unless v is NaN or infinite. So the full
 * form needs a cache without such values beyond the prefix, and the prefix form does not.
 *
 * Order of the sums: within REF_CHUNK positions ascending, then chunk after chunk. The chunks
 * of the full form beyond the prefix add zeros, so both forms, and every capacity, agree. */
#include "ref/ref.h"

#include <math.h>
#include <string.h>

/* One query row of n_head heads over n_row rows of k and v, of which n_live count. */
typedef struct attend_call {
    float *out;     /* [n_head, E] */
    const float *q; /* [n_head, E] */
    int n_head;
    const float *k, *v; /* [n_row, E] */
    int n_row, n_live, d_head;
} attend_call;

size_t ref_attention_scratch(int n_head, int n_kv_head, int d_head, int capacity)
{
    size_t group = (size_t)(n_head / n_kv_head);
    return group * ((size_t)capacity + 2) + (size_t)d_head;
}

/* score[h, r], masked, and largest[h]. */
static void find_scores(
    const ref_tools *tools, const attend_call *a, int worker, float *score, float *largest)
{
    float scale = 1.0f / sqrtf((float)a->d_head);
    tools->simd->product(&(ref_product){.y = score,
                                        .stride_y = (size_t)a->n_row,
                                        .x = a->q,
                                        .stride_x = (size_t)a->d_head,
                                        .w = a->k,
                                        .stride_w = (size_t)a->d_head * sizeof(float),
                                        .dtype = KVREF_F32,
                                        .n_x = a->n_head,
                                        .n_w = a->n_row,
                                        .n_col = a->d_head});
    for (int h = 0; h < a->n_head; h++) {
        float *row = score + (size_t)h * (size_t)a->n_row, max = -INFINITY;
        for (int r = 0; r < a->n_row; r++) {
            float mask = r < a->n_live ? 0.0f : -INFINITY;
            row[r] = row[r] * scale + mask;
            if (row[r] > max) max = row[r];
        }
        largest[h] = max;
    }
    tools->count[worker].k_rows += (uint64_t)a->n_row;
    tools->count[worker].bytes += (uint64_t)a->n_row * (uint64_t)a->d_head * sizeof *a->k;
}

/* Where a worker keeps the scores of one call. */
typedef struct attend_work {
    float *score;           /* [n_head, n_row] */
    float *largest, *total; /* [n_head]        */
    float *mixed;           /* [E]             */
} attend_work;

/* Adds rows first..first+n-1 to out[h] and total[h]. */
static void add_chunk(const ref_tools *tools,
                      const attend_call *a,
                      int worker,
                      const attend_work *work,
                      int first,
                      int n)
{
    const float *v = a->v + (size_t)first * (size_t)a->d_head;
    for (int h = 0; h < a->n_head; h++) {
        float *weight = work->score + (size_t)h * (size_t)a->n_row + (size_t)first, sum = 0;
        for (int r = 0; r < n; r++) weight[r] = kvref_expf(weight[r] - work->largest[h]);
        for (int r = 0; r < n; r++) sum += weight[r];
        tools->simd->mix(work->mixed, weight, v, n, a->d_head);
        work->total[h] += sum;
        float *out = a->out + (size_t)h * (size_t)a->d_head;
        for (int e = 0; e < a->d_head; e++) out[e] += work->mixed[e];
    }
    tools->count[worker].v_rows += (uint64_t)n;
    tools->count[worker].bytes += (uint64_t)n * (uint64_t)a->d_head * sizeof *v;
}

static void attend(const ref_tools *tools, const attend_call *a, int worker)
{
    attend_work work = {.score = tools->score + (size_t)worker * tools->score_size};
    work.largest = work.score + (size_t)a->n_head * (size_t)a->n_row;
    work.total = work.largest + a->n_head;
    work.mixed = work.total + a->n_head;
    find_scores(tools, a, worker, work.score, work.largest);
    memset(work.total, 0, (size_t)a->n_head * sizeof *work.total);
    memset(a->out, 0, (size_t)a->n_head * (size_t)a->d_head * sizeof *a->out);
    for (int first = 0; first < a->n_row; first += REF_CHUNK) {
        int n = a->n_row - first < REF_CHUNK ? a->n_row - first : REF_CHUNK;
        add_chunk(tools, a, worker, &work, first, n);
    }
    for (int h = 0; h < a->n_head; h++)
        for (int e = 0; e < a->d_head; e++) {
            float *out = a->out + (size_t)h * (size_t)a->d_head + (size_t)e;
            *out = ref_round(*out / work.total[h]);
        }
}

typedef struct attention_call {
    const ref_tools *tools;
    float *out;
    const float *q;
    const ref_kv *kv;
    int layer, n_past, n_row, n_head;
} attention_call;

/* Task g*T + t: the heads of group g at query row t. */
static void prefix_tasks(void *arg, int worker, int first, int last)
{
    const attention_call *a = arg;
    const ref_kv *kv = a->kv;
    int group = a->n_head / kv->n_head;
    for (int task = first; task < last; task++) {
        int g = task / a->n_row, t = task % a->n_row;
        size_t row = ((size_t)t * (size_t)a->n_head + (size_t)(g * group)) * (size_t)kv->d_head;
        int kv_len = a->n_past + t + 1;
        attend(a->tools,
               &(attend_call){.out = a->out + row,
                              .q = a->q + row,
                              .n_head = group,
                              .k = ref_kv_head(kv, a->layer, 0, g),
                              .v = ref_kv_head(kv, a->layer, 1, g),
                              .n_row = kv_len,
                              .n_live = kv_len,
                              .d_head = kv->d_head},
               worker);
    }
}

/* Nanoseconds, roughly: two products of n_row rows for every head and query. */
static double attention_work(const attention_call *a, int n_row)
{
    return 0.2 * a->n_row * a->n_head * a->kv->d_head * n_row;
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
    attention_call call = {tools, NULL, q, kv, layer, n_past, n_row, n_head};
    call.out = out;
    double work = attention_work(&call, n_past + n_row);
    ref_run(tools, prefix_tasks, &call, kv->n_head * n_row, work);
}

/* Copies the whole capacity of head h / (H/G) to head h, for each h. */
static void expand(void *arg, int worker, int first, int last)
{
    const attention_call *a = arg;
    const ref_kv *kv = a->kv;
    size_t size = (size_t)kv->capacity * (size_t)kv->d_head;
    for (int h = first; h < last; h++) {
        int g = h / (a->n_head / kv->n_head);
        const float *k = ref_kv_head(kv, a->layer, 0, g), *v = ref_kv_head(kv, a->layer, 1, g);
        memcpy(a->tools->wide_k + (size_t)h * size, k, size * sizeof *k);
        memcpy(a->tools->wide_v + (size_t)h * size, v, size * sizeof *v);
        a->tools->count[worker].bytes += 4 * size * sizeof *k; /* read and written, K and V */
    }
}

/* Task h*T + t. */
static void full_tasks(void *arg, int worker, int first, int last)
{
    const attention_call *a = arg;
    const ref_kv *kv = a->kv;
    size_t size = (size_t)kv->capacity * (size_t)kv->d_head;
    for (int task = first; task < last; task++) {
        int h = task / a->n_row, t = task % a->n_row;
        size_t row = ((size_t)t * (size_t)a->n_head + (size_t)h) * (size_t)kv->d_head;
        attend(a->tools,
               &(attend_call){.out = a->out + row,
                              .q = a->q + row,
                              .n_head = 1,
                              .k = a->tools->wide_k + (size_t)h * size,
                              .v = a->tools->wide_v + (size_t)h * size,
                              .n_row = kv->capacity,
                              .n_live = a->n_past + t + 1,
                              .d_head = kv->d_head},
               worker);
    }
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
    attention_call call = {tools, NULL, q, kv, layer, n_past, n_row, n_head};
    call.out = out;
    ref_run(tools, expand, &call, n_head, 0.5 * n_head * kv->capacity * kv->d_head);
    ref_run(tools, full_tasks, &call, n_head * n_row, attention_work(&call, kv->capacity));
}
