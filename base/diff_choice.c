/* SPDX-License-Identifier: MIT */
/* Decisions: at the first code that differs, and at every choice of the frames that are the
 * same, the two best logits of A, the error of the logits, and whether that error could have
 * turned the choice (rule T3). Drawn codes are not their best logit, so their turn is not
 * excused by it; codes of greedy runs are. */
#include "base/diff_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_KNOWN = -1 };

/* The ids that can be drawn, from either trace. */
static kvref_status find_candidates(kvref_diff_job *job, kvref_error *err)
{
    for (int i = 0; i < 2 && !job->candidate; i++) {
        const kvref_tensor *t = kvref_file_find(job->side[i].file, "candidates");
        if (!t || kvref_is_float(t->dtype) || t->n_dim != 1 || t->n_byte == 0) continue;
        KVREF_TRY(kvref_tensor_load(t, err));
        job->n_candidate = (size_t)t->dim[0];
        job->candidate = malloc(job->n_candidate * sizeof *job->candidate);
        if (!job->candidate) return kvref_fail(err, KVREF_E_MEMORY, "compare: out of memory");
        for (size_t k = 0; k < job->n_candidate; k++) job->candidate[k] = kvref_load_int(t, k);
    }
    return KVREF_OK;
}

/* One row of logits in both traces. */
typedef struct logit_row {
    const int64_t *id; /* [n]; NULL: 0 .. n-1 */
    size_t n;
    float *a, *b; /* [width] */
    size_t width;
} logit_row;

static void judge_row(kvref_choice *c, const logit_row *r)
{
    double best_a = -HUGE_VAL, second = -HUGE_VAL, best_b = -HUGE_VAL;
    c->best_a = c->best_b = NOT_KNOWN;
    c->err = 0;
    for (size_t i = 0; i < r->n; i++) {
        int64_t id = r->id ? r->id[i] : (int64_t)i;
        if (id < 0 || (uint64_t)id >= r->width) continue;
        double a = (double)r->a[id], b = (double)r->b[id], err = fabs(a - b);
        if (!(err <= c->err) && !isnan(c->err)) c->err = err;
        if (a > best_a) {
            second = best_a;
            best_a = a;
            c->best_a = id;
        } else if (a > second) {
            second = a;
        }
        if (b > best_b) {
            best_b = b;
            c->best_b = id;
        }
    }
    c->have_logits = c->best_a >= 0 && c->best_b >= 0;
    c->gap = best_a - second;
    c->near_tie = kvref_t3_near_tie(c->gap, c->err);
    c->greedy = c->a == c->best_a && c->b == c->best_b;
}

/* What was chosen in that frame; NOT_KNOWN when frames do not say. */
static int64_t chosen(const kvref_side *s, const kvref_choice *c)
{
    const kvref_tensor *t = s->frames;
    if (!t || c->frame < 0 || c->frame >= t->dim[0] || c->column >= t->dim[1]) return NOT_KNOWN;
    return kvref_load_int(t, (size_t)(c->frame * t->dim[1] + c->column));
}

static void count(kvref_diff_job *job, const kvref_choice *c)
{
    int kind = c->book > 0;
    if (kind == 0 && !job->candidate) return;
    if (c->a >= 0) {
        job->n_chosen[0][kind]++;
        job->n_best[0][kind] += c->a == c->best_a;
    }
    if (c->b >= 0) {
        job->n_chosen[1][kind]++;
        job->n_best[1][kind] += c->b == c->best_b;
    }
}

/* A choice whose inputs are the same: whether the best one turned, how narrow it was. */
static void keep(kvref_diff *d, const kvref_choice *c)
{
    if (c->best_a != c->best_b && d->n_flip++ == 0) d->flip = *c;
    if (isnan(d->smallest_gap) || c->gap < d->smallest_gap) {
        d->smallest_gap = c->gap;
        d->gap_err = c->err;
    }
}

static void look_at(kvref_diff_job *job, const kvref_row_walk *w, const logit_row *r)
{
    if (w->place.book > KVREF_MAX_COLUMN) return;
    kvref_diff *d = job->out;
    int book = w->place.book > 0 ? (int)w->place.book : 0;
    kvref_choice c = {.frame = w->place.frame, .book = book, .column = book > 0 ? book + 1 : 0};
    c.a = chosen(&job->side[0], &c);
    c.b = chosen(&job->side[1], &c);
    judge_row(&c, r);
    if (!c.have_logits) return;
    count(job, &c);
    bool known = c.book > 0 || job->candidate;
    bool split = d->inputs == KVREF_INPUTS_PART && c.frame == d->split.frame &&
                 c.column == d->split.column;
    if (split) d->split = c;
    if (known && kvref_within(job, &w->place)) keep(d, &c);
}

static kvref_status scan(kvref_diff_job *job, const kvref_tap_diff *t, kvref_error *err)
{
    kvref_row_walk w;
    KVREF_TRY(kvref_rows_open(&w, job, t->a, t->b, err));
    if (w.width == 0 || t->a->n_dim - w.n_lead != 1) return KVREF_OK;
    bool main_token = t->id.axis == KVREF_AXIS_CALL && job->candidate;
    if (main_token && job->n_candidate > w.width) return KVREF_OK; /* not these logits' */
    float *x = calloc(2 * w.width, sizeof *x);
    if (!x) return kvref_fail(err, KVREF_E_MEMORY, "compare: out of memory");
    const logit_row r = {.id = main_token ? job->candidate : NULL,
                         .n = main_token ? job->n_candidate : w.width,
                         .a = x,
                         .b = x + w.width,
                         .width = w.width};
    while (kvref_rows_next(&w)) {
        kvref_load_floats(r.a, t->a, w.to_a, w.width);
        kvref_load_floats(r.b, t->b, w.to_b, w.width);
        look_at(job, &w, &r);
    }
    free(x);
    return KVREF_OK;
}

/* Without logits a trace still tells, for every call, the gap of its two best. */
static kvref_status gap_from_decision(kvref_diff_job *job, kvref_error *err)
{
    kvref_choice *c = &job->out->split;
    const kvref_tensor *t = kvref_file_find(job->side[0].file, "slow.decision");
    if (job->out->inputs != KVREF_INPUTS_PART || c->have_logits || c->column > 0 || !t ||
        !kvref_is_float(t->dtype) || t->n_dim != 2 || t->dim[1] < 1 || c->frame >= t->dim[0])
        return KVREF_OK;
    float gap;
    KVREF_TRY(kvref_tensor_load(t, err));
    kvref_load_floats(&gap, t, (size_t)(c->frame * t->dim[1]), 1);
    c->gap = (double)gap;
    return KVREF_OK;
}

kvref_status kvref_diff_choices(kvref_diff_job *job, kvref_error *err)
{
    kvref_diff *d = job->out;
    d->split.gap = d->smallest_gap = d->gap_err = (double)NAN;
    KVREF_TRY(find_candidates(job, err));
    for (int i = 0; i < d->n_tap; i++) {
        const kvref_tap_diff *t = &d->tap[i];
        bool logits =
            strcmp(t->id.tap, "slow.logits") == 0 || strcmp(t->id.tap, "fast.logits") == 0;
        bool usable = t->state == KVREF_TAP_JUDGED || t->state == KVREF_TAP_BEYOND;
        if (logits && usable && kvref_is_float(t->a->dtype)) KVREF_TRY(scan(job, t, err));
    }
    return gap_from_decision(job, err);
}
