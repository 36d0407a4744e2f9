/* SPDX-License-Identifier: MIT */
/* One tensor of both traces, row by row in small pieces: first the largest magnitude, which
 * the limit is a share of, then every value by kvref_compare. Work is linear in the values,
 * memory does not grow with them. */
#include "base/diff_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1024 }; /* values at a time */

typedef struct values {
    bool any, constant;
    double first;
} values;

static void look(values *v, double x)
{
    if (!v->any) *v = (values){.any = true, .constant = true, .first = x};
    if (x != v->first && !(isnan(x) && isnan(v->first))) v->constant = false;
}

typedef struct judging {
    kvref_diff_job *job;
    kvref_tap_diff *t;
    kvref_row_walk w;
    kvref_limit limit;
    kvref_lane *lane;
    values a, b;
} judging;

static double share(double err, double limit, bool bad)
{
    if (bad && !(err > 0)) return HUGE_VAL; /* not a number, or another sign of zero */
    if (err == 0) return 0;
    return limit > 0 ? err / limit : HUGE_VAL;
}

static void note(kvref_spot *spot, const kvref_row_walk *w, size_t e, double a, double b)
{
    spot->place = w->place;
    kvref_rows_index(spot->at, w, e);
    spot->a = a;
    spot->b = b;
}

static void heat(judging *g, double used)
{
    const kvref_diff *out = g->job->out;
    if (!g->lane || g->w.place.frame < 0) return;
    int64_t column = g->w.place.frame / out->frames_per_column;
    if (column >= out->n_column) column = out->n_column - 1;
    double *cell = &g->lane->used[column];
    if (!(used <= *cell)) *cell = used;
}

/* Values e .. e + n - 1 of the present row. */
static void judge_floats(judging *g, size_t e, size_t n)
{
    float a[PIECE], b[PIECE];
    kvref_tap_diff *t = g->t;
    kvref_load_floats(a, t->a, g->w.to_a + e, n);
    kvref_load_floats(b, t->b, g->w.to_b + e, n);
    kvref_difference d = kvref_compare(b, a, n, &g->limit);
    for (size_t i = 0; i < n; i++) {
        look(&g->a, (double)a[i]);
        look(&g->b, (double)b[i]);
    }
    if (d.n_bad > 0 && t->n_bad == 0) {
        size_t at = d.first_bad;
        note(&t->first, &g->w, e + at, (double)a[at], (double)b[at]);
    }
    if (d.max_err > t->max_err) {
        t->max_err = d.max_err;
        note(&t->worst, &g->w, e + d.at, (double)a[d.at], (double)b[d.at]);
    }
    t->n += n;
    t->n_bad += d.n_bad;
    t->n_nonfinite += d.n_nonfinite;
    double limit = g->limit.exact ? 0 : t->limit;
    double used = share(d.max_err, limit, false);
    if (d.n_bad > 0 && !(used > 1)) used = HUGE_VAL;
    if (!(used <= t->used)) t->used = used;
    heat(g, used);
}

static void judge_ints(judging *g, size_t e, size_t n)
{
    kvref_tap_diff *t = g->t;
    for (size_t i = e; i < e + n; i++) {
        int64_t a = kvref_load_int(t->a, g->w.to_a + i),
                b = kvref_load_int(t->b, g->w.to_b + i);
        double err = fabs((double)a - (double)b);
        look(&g->a, (double)a);
        look(&g->b, (double)b);
        if (a != b && t->n_bad++ == 0) note(&t->first, &g->w, i, (double)a, (double)b);
        if (err > t->max_err) {
            t->max_err = err;
            note(&t->worst, &g->w, i, (double)a, (double)b);
        }
        if (a != b) t->used = HUGE_VAL;
    }
    t->n += n;
}

/* Largest finite |a| over the rows that are judged. */
static kvref_status find_limit(judging *g, kvref_error *err)
{
    kvref_tap_diff *t = g->t;
    kvref_row_walk w;
    float a[PIECE];
    const kvref_limit none = {.nonfinite = true};
    KVREF_TRY(kvref_rows_open(&w, g->job, t->a, t->b, err));
    while (kvref_rows_next(&w)) {
        if (!kvref_within(g->job, &w.place)) continue;
        for (size_t e = 0; e < w.width; e += PIECE) {
            size_t n = w.width - e < PIECE ? w.width - e : PIECE;
            kvref_load_floats(a, t->a, w.to_a + e, n);
            double mag = kvref_compare(a, a, n, &none).max_mag;
            if (mag > t->max_mag) t->max_mag = mag;
        }
    }
    g->limit = t->rule.limit;
    if (g->limit.exact) return KVREF_OK;
    t->limit = g->limit.rel * t->max_mag + g->limit.abs;
    g->limit = (kvref_limit){.abs = t->limit};
    return KVREF_OK;
}

/* The lane of a layer, made where there is none. */
static kvref_status find_lane(judging *g, kvref_error *err)
{
    kvref_diff *out = g->job->out;
    const kvref_tap_name *id = &g->t->id;
    bool fast = id->axis == KVREF_AXIS_BOOK;
    int i = 0;
    if (id->axis == KVREF_AXIS_PLAIN || id->axis == KVREF_AXIS_CHOICE) return KVREF_OK;
    while (i < out->n_lane && (out->lane[i].fast != fast || out->lane[i].layer != id->layer))
        i++;
    if (i == out->n_lane) {
        KVREF_TRY(kvref_grow(
            (void **)&out->lane, &g->job->cap_lane, (size_t)i + 1, sizeof *out->lane, err));
        out->lane[i] = (kvref_lane){.fast = fast, .layer = id->layer};
        for (int c = 0; c < KVREF_HEAT_COLUMNS; c++) out->lane[i].used[c] = -1;
        out->n_lane++;
    }
    g->lane = &out->lane[i];
    return KVREF_OK;
}

static kvref_status judge(judging *g, kvref_error *err)
{
    kvref_tap_diff *t = g->t;
    bool floats = kvref_is_float(t->a->dtype), any = false;
    if (floats) KVREF_TRY(find_limit(g, err));
    if (t->rule.rule != KVREF_UNJUDGED) KVREF_TRY(find_lane(g, err));
    KVREF_TRY(kvref_rows_open(&g->w, g->job, t->a, t->b, err));
    while (kvref_rows_next(&g->w)) {
        any = true;
        if (!kvref_within(g->job, &g->w.place)) continue;
        for (size_t e = 0; e < g->w.width; e += PIECE) {
            size_t n = g->w.width - e < PIECE ? g->w.width - e : PIECE;
            if (floats) {
                judge_floats(g, e, n);
            } else {
                judge_ints(g, e, n);
            }
        }
    }
    if (t->n == 0) t->state = any ? KVREF_TAP_BEYOND : KVREF_TAP_EMPTY;
    t->constant_a = t->n > 1 && g->a.constant;
    t->constant_b = t->n > 1 && g->b.constant;
    return KVREF_OK;
}

kvref_status kvref_diff_tap(kvref_diff_job *job, kvref_tap_diff *t, kvref_error *err)
{
    judging g = {.job = job, .t = t};
    t->rule = kvref_limits_find(job->limits, t->a->name);
    t->state = t->rule.rule == KVREF_UNJUDGED ? KVREF_TAP_SHOWN : KVREF_TAP_JUDGED;
    if (t->a->n_byte == 0 || t->b->n_byte == 0) {
        t->state = KVREF_TAP_EMPTY;
    } else if (kvref_rows_unlike(t->a, t->b, t->id.axis)) {
        t->state = KVREF_TAP_UNLIKE;
    } else {
        KVREF_TRY(kvref_tensor_load(t->a, err));
        KVREF_TRY(kvref_tensor_load(t->b, err));
        return judge(&g, err);
    }
    return KVREF_OK;
}
