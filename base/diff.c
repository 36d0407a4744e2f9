/* SPDX-License-Identifier: MIT */
/* Two traces: pairs their tensors by name, judges each, and finds what parts first. */
#include "base/diff_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- pairing ---- */

static kvref_status take_room(kvref_diff *d, kvref_error *err)
{
    size_t n_a = (size_t)kvref_file_count(d->file_a), n_b = (size_t)kvref_file_count(d->file_b);
    d->tap = calloc(n_a + 1, sizeof *d->tap);
    d->only_a = calloc(n_a + 1, sizeof(void *));
    d->only_b = calloc(n_b + 1, sizeof(void *));
    if (d->tap && d->only_a && d->only_b) return KVREF_OK;
    return kvref_fail(err, KVREF_E_MEMORY, "compare: out of memory");
}

/* Both lists are in order of name. */
static void pair(kvref_diff *d)
{
    int i = 0, k = 0, n_a = kvref_file_count(d->file_a), n_b = kvref_file_count(d->file_b);
    while (i < n_a || k < n_b) {
        const kvref_tensor *a = i < n_a ? kvref_file_at(d->file_a, i) : NULL;
        const kvref_tensor *b = k < n_b ? kvref_file_at(d->file_b, k) : NULL;
        int order = !a ? 1 : !b ? -1 : strcmp(a->name, b->name);
        if (order < 0) {
            d->only_a[d->n_only_a++] = a;
        } else if (order > 0) {
            d->only_b[d->n_only_b++] = b;
        } else {
            d->tap[d->n_tap++] =
                (kvref_tap_diff){.a = a, .b = b, .id = kvref_tap_parse(a->name)};
        }
        i += order <= 0;
        k += order >= 0;
    }
}

/* By the place of a first row; names break ties. */
static int by_order(const void *x, const void *y)
{
    const kvref_tap_diff *a = x, *b = y;
    const kvref_tap_name *p = &a->id, *q = &b->id;
    int key[][2] = {{p->axis == KVREF_AXIS_PLAIN    ? p->layer == KVREF_AFTER ? 3 : 0
                     : p->axis == KVREF_AXIS_CHOICE ? 2
                                                    : 1,
                     q->axis == KVREF_AXIS_PLAIN    ? q->layer == KVREF_AFTER ? 3 : 0
                     : q->axis == KVREF_AXIS_CHOICE ? 2
                                                    : 1},
                    {p->axis == KVREF_AXIS_BOOK, q->axis == KVREF_AXIS_BOOK},
                    {p->layer, q->layer},
                    {p->rank, q->rank}};
    for (size_t i = 0; i < sizeof key / sizeof key[0]; i++)
        if (key[i][0] != key[i][1]) return key[i][0] < key[i][1] ? -1 : 1;
    return strcmp(a->a->name, b->a->name);
}

/* ---- judging ---- */

static void plan_heat(kvref_diff *d)
{
    int64_t n = d->n_frame_a > d->n_frame_b ? d->n_frame_a : d->n_frame_b;
    for (int i = 0; n < 1 && i < d->n_tap; i++) /* no frames: as many as there are rows */
        if (d->tap[i].id.axis != KVREF_AXIS_PLAIN && d->tap[i].a->n_dim > 0 &&
            d->tap[i].a->dim[0] > n && d->tap[i].a->n_byte > 0)
            n = d->tap[i].a->dim[0];
    if (n < 1) n = 1;
    d->frames_per_column = (n - 1) / KVREF_HEAT_COLUMNS + 1;
    d->n_column = (n - 1) / d->frames_per_column + 1;
}

static size_t n_element(const kvref_tensor *t)
{
    return t->n_byte / kvref_dtype_size(t->dtype);
}

/* Whether a tensor is a known result, not something the run was given or counted. */
static bool is_result(const kvref_tap_diff *t)
{
    if (t->id.axis == KVREF_AXIS_PLAIN && t->id.layer == KVREF_AFTER) return false;
    return strcmp(t->id.tap, "prompt") != 0 && strcmp(t->id.tap, "candidates") != 0 &&
           strcmp(t->id.tap, "slow.kv_len") != 0;
}

static kvref_status judge_all(kvref_diff_job *job, kvref_error *err)
{
    kvref_diff *d = job->out;
    for (int i = 0; i < d->n_tap; i++) {
        kvref_tap_diff *t = &d->tap[i];
        KVREF_TRY(kvref_diff_tap(job, t, err));
        if (t->rule.rule != KVREF_UNJUDGED) d->n_value_a += n_element(t->a);
        if (t->state != KVREF_TAP_JUDGED) continue;
        d->n_value += t->n;
        bool choice = t->id.axis == KVREF_AXIS_CHOICE;
        if (choice || (d->worst && !(t->used > d->worst->used))) continue;
        d->worst = t;
    }
    for (int i = 0; i < d->n_only_a; i++) {
        kvref_tap_limit l = kvref_limits_find(job->limits, d->only_a[i]->name);
        if (l.rule != KVREF_UNJUDGED) d->n_value_a += n_element(d->only_a[i]);
    }
    return KVREF_OK;
}

/* ---- the verdict ---- */

static void find_first(kvref_diff *d)
{
    for (int i = 0; i < d->n_tap; i++) {
        const kvref_tap_diff *t = &d->tap[i];
        if (t->state != KVREF_TAP_JUDGED || t->n_bad == 0) continue;
        if (t->id.axis == KVREF_AXIS_CHOICE) continue;
        if (!d->first || kvref_place_order(&t->first.place, &d->first->first.place) < 0)
            d->first = t;
    }
    if (d->inputs != KVREF_INPUTS_PART) return;
    kvref_place split = {.frame = d->split.frame,
                         .book = d->split.column > 1 ? d->split.book : -1,
                         .layer = KVREF_AFTER,
                         .rank = KVREF_AFTER};
    d->first_is_choice = !d->first || kvref_place_order(&split, &d->first->first.place) < 0;
}

/* T3: codes may part at a greedy choice that the logits' error can turn. Under forced codes
 * nothing was chosen. */
static bool excused(const kvref_diff *d)
{
    const kvref_choice *c = &d->split;
    return d->inputs == KVREF_INPUTS_PART && !d->forced_a && !d->forced_b && c->have_logits &&
           c->greedy && c->near_tie;
}

/* Whether runs of the same codes have other lengths, other than by a forced run that was given
 * fewer. */
static bool other_length(const kvref_diff *d)
{
    if (d->inputs != KVREF_INPUTS_SAME || d->n_frame_a == d->n_frame_b) return false;
    return !(d->n_frame_a > d->n_frame_b ? d->forced_b : d->forced_a);
}

static void conclude(kvref_diff *d)
{
    const char *unlike = NULL;
    bool any = false;
    find_first(d);
    for (int i = 0; i < d->n_tap; i++) {
        any = any || (d->tap[i].state == KVREF_TAP_JUDGED && is_result(&d->tap[i]));
        if (!unlike && d->tap[i].state == KVREF_TAP_UNLIKE) unlike = d->tap[i].a->name;
    }
    if (d->first || d->inputs == KVREF_INPUTS_PROMPT || other_length(d) ||
        (d->inputs == KVREF_INPUTS_PART && !excused(d))) {
        d->verdict = KVREF_DIFFERS;
    } else if (unlike) {
        d->verdict = KVREF_CANNOT_TELL;
        snprintf(
            d->reason, sizeof d->reason, "%.100s has other axes or kinds of number", unlike);
    } else if (!any) {
        d->verdict = KVREF_CANNOT_TELL;
        snprintf(d->reason, sizeof d->reason, "no result of a run is in both traces");
    }
}

static int by_lane(const void *x, const void *y)
{
    const kvref_lane *a = x, *b = y;
    if (a->fast != b->fast) return a->fast ? 1 : -1;
    return (a->layer > b->layer) - (a->layer < b->layer);
}

static kvref_status compare(kvref_diff_job *job, kvref_error *err)
{
    kvref_diff *d = job->out;
    KVREF_TRY(kvref_side_open(&job->side[0], d->file_a, err));
    KVREF_TRY(kvref_side_open(&job->side[1], d->file_b, err));
    KVREF_TRY(take_room(d, err));
    pair(d);
    qsort(d->tap, (size_t)d->n_tap, sizeof *d->tap, by_order);
    KVREF_TRY(kvref_diff_inputs(job, err));
    plan_heat(d);
    KVREF_TRY(judge_all(job, err));
    if (d->n_lane > 1) qsort(d->lane, (size_t)d->n_lane, sizeof *d->lane, by_lane);
    KVREF_TRY(kvref_diff_choices(job, err));
    conclude(d);
    return d->verdict == KVREF_DIFFERS ? kvref_diff_hints(job, err) : KVREF_OK;
}

kvref_status kvref_diff_open(kvref_diff **out,
                             const kvref_file *a,
                             const kvref_file *b,
                             const kvref_limits *limits,
                             kvref_error *err)
{
    kvref_diff_job job = {.limits = limits, .side = {{.label = "A"}, {.label = "B"}}};
    job.out = *out = calloc(1, sizeof **out);
    if (!*out) return kvref_fail(err, KVREF_E_MEMORY, "compare: out of memory");
    (*out)->file_a = a;
    (*out)->file_b = b;
    kvref_status s = compare(&job, err);
    kvref_side_close(&job.side[0]);
    kvref_side_close(&job.side[1]);
    free(job.candidate);
    if (s != KVREF_OK) kvref_diff_close(out);
    return s;
}

void kvref_diff_close(kvref_diff **diff)
{
    kvref_diff *d = *diff;
    if (!d) return;
    free(d->tap);
    free(d->only_a);
    free(d->only_b);
    free(d->lane);
    free(d);
    *diff = NULL;
}
