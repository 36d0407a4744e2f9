/* SPDX-License-Identifier: MIT */
/* What a mismatch looks like: known switches and habits of other programs, named only where the
 * two traces themselves show it (docs/upstream-quirks.md). A hint changes no verdict. */
#include "base/diff_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void hint(kvref_diff *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void hint(kvref_diff *d, const char *format, ...)
{
    va_list list;
    if (d->n_hint == (int)(sizeof d->hint / sizeof d->hint[0])) return;
    va_start(list, format);
    vsnprintf(d->hint[d->n_hint++], sizeof d->hint[0], format, list);
    va_end(list);
}

static const kvref_tap_diff *find(const kvref_diff *d, const char *name)
{
    for (int i = 0; i < d->n_tap; i++)
        if (strcmp(d->tap[i].a->name, name) == 0) return &d->tap[i];
    return NULL;
}

static bool failed(const kvref_tap_diff *t)
{
    return t && t->state == KVREF_TAP_JUDGED && t->n_bad > 0;
}

/* ---- rotation ---- */

/* What two rotations of the same vectors show. */
typedef struct turning {
    bool tables; /* each pair turned by one factor near 1, the same in every head */
    bool length; /* the length of each head is kept                               */
    bool start;  /* position 0 agrees                                             */
    double largest;
} turning;

enum { BF16_STEP = 9 }; /* rounding to bfloat16 moves a number by 2^-9 of it at most */

static double dot(const float *x, const float *y, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return sum;
}

/* The pair of elements p of every head [head, width]: b = r a with one complex r. */
static void look_at_pair(
    turning *t, const float *a, const float *b, int n_head, int width, int p, double eps)
{
    int big = 0;
    double most = -1;
    for (int h = 0; h < n_head; h++) {
        double size = dot(a + h * width + 2 * p, a + h * width + 2 * p, 2);
        if (size > most) {
            most = size;
            big = h;
        }
    }
    if (!(most > 0)) return;
    const float *x = a + big * width + 2 * p, *y = b + big * width + 2 * p;
    double re = dot(x, y, 2) / most;
    double im = ((double)x[0] * (double)y[1] - (double)x[1] * (double)y[0]) / most;
    double moved = hypot(re - 1, im);
    if (moved * sqrt(most) > 2 * eps && moved > t->largest) t->largest = moved;
    if (!(moved * sqrt(most) <= ldexp(sqrt(most), -BF16_STEP + 1) + 2 * eps)) t->tables = false;
    for (int h = 0; h < n_head; h++) {
        const float *u = a + h * width + 2 * p, *v = b + h * width + 2 * p;
        double du = (double)v[0] - (re * (double)u[0] - im * (double)u[1]);
        double dv = (double)v[1] - (re * (double)u[1] + im * (double)u[0]);
        if (!(hypot(du, dv) <= 6 * eps)) t->tables = false;
    }
}

static void
look_at_row(turning *t, const kvref_row_walk *w, const float *a, const float *b, double eps)
{
    int n_head = (int)w->a->dim[1], width = (int)w->a->dim[2];
    for (int h = 0; h < n_head; h++) {
        double x = sqrt(dot(a + h * width, a + h * width, width));
        double y = sqrt(dot(b + h * width, b + h * width, width));
        if (!(fabs(x - y) <= ldexp(x, -BF16_STEP + 1) + eps * sqrt(width))) t->length = false;
    }
    for (int i = 0; i < n_head * width && w->place.row == 0; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= eps)) t->start = false;
    for (int p = 0; p < width / 2; p++) look_at_pair(t, a, b, n_head, width, p, eps);
}

static kvref_status
look_at_turning(turning *t, kvref_diff_job *job, const kvref_tap_diff *k, kvref_error *err)
{
    kvref_row_walk w;
    *t = (turning){true, true, true, 0};
    KVREF_TRY(kvref_rows_open(&w, job, k->a, k->b, err));
    float *x = malloc((2 * w.width + 1) * sizeof *x);
    if (!x) return kvref_fail(err, KVREF_E_MEMORY, "compare: out of memory");
    while (kvref_rows_next(&w)) {
        if (!kvref_within(job, &w.place)) continue;
        kvref_load_floats(x, k->a, w.to_a, w.width);
        kvref_load_floats(x + w.width, k->b, w.to_b, w.width);
        look_at_row(t, &w, x, x + w.width, k->limit);
    }
    free(x);
    return KVREF_OK;
}

/* K of layer 0 is the first number that positions enter. */
static kvref_status rotation(kvref_diff_job *job, kvref_error *err)
{
    kvref_diff *d = job->out;
    turning t;
    const kvref_tap_diff *k = find(d, "slow.L00.k"), *v = find(d, "slow.L00.v");
    if (!failed(k) || !v || v->state != KVREF_TAP_JUDGED || failed(v) ||
        failed(find(d, "slow.embed")) || k->a->n_dim != 3 || k->a->dim[2] % 2 != 0 ||
        k->a->dim[1] > KVREF_MAX_COLUMN / k->a->dim[2])
        return KVREF_OK;
    KVREF_TRY(look_at_turning(&t, job, k, err));
    if (t.tables && t.start) {
        hint(
            d,
            "K of layer 0 differs by one factor for each position and pair of elements, the "
            "same "
            "in every head, at most %.2g from 1, and not at position 0; V agrees. That is what "
            "rotation tables rounded otherwise give: bfloat16, as upstream has them, against "
            "float32 (--rope-table)",
            t.largest);
    } else if (t.length) {
        hint(d,
             "K of layer 0 keeps the length of every head but not its direction%s; V agrees. "
             "The "
             "rotation is another one: %s",
             t.start ? ", position 0 apart" : "",
             t.start ? "pairing of elements, or base" : "positions shifted, pairing, or base");
    }
    return KVREF_OK;
}

/* ---- frames ---- */

/* The end token, by either trace's metadata; -1: not known. */
static int64_t end_token(const kvref_diff *d)
{
    const kvref_file *file[] = {d->file_a, d->file_b};
    for (int i = 0; i < 2; i++) {
        const char *config = kvref_file_meta(file[i], "config");
        const char *at = config ? strstr(config, "im_end=") : NULL;
        if (at) return strtoll(at + strlen("im_end="), NULL, 10);
    }
    return -1;
}

static void length(const kvref_diff_job *job)
{
    kvref_diff *d = job->out;
    if (d->inputs != KVREF_INPUTS_SAME || d->n_frame_a == d->n_frame_b) return;
    bool a_longer = d->n_frame_a > d->n_frame_b;
    const char *longer = a_longer ? "A" : "B", *shorter = a_longer ? "B" : "A";
    const kvref_side *s = &job->side[a_longer ? 1 : 0], *l = &job->side[a_longer ? 0 : 1];
    int64_t n = s->frames->dim[0], end = end_token(d), width = s->frames->dim[1];
    int64_t last = kvref_load_int(s->frames, (size_t)((n - 1) * width));
    int64_t more = l->frames->dim[0] - n;
    if (n == 1 && last == end && end >= 0) {
        hint(d,
             "%s stops because the first frame drew the end token; %s goes on, as upstream "
             "does, "
             "which does not test the first frame (--stop-at-first-end)",
             shorter,
             longer);
    } else if (more == 1) {
        hint(d,
             "%s has one column more and is equal before it: the last column, which upstream "
             "decodes and then drops from the codes. `frames` holds it; codes do not, unless "
             "they "
             "are kept (--keep-last-frame)",
             longer);
    } else {
        hint(d,
             "the codes are equal as far as %s goes; it stops %lld columns before %s: another "
             "limit, or another test for the end",
             shorter,
             (long long)more,
             longer);
    }
}

/* ---- choices ---- */

/* Every code of one side is its best logit, and not of the other: residual codes by argmax. */
static void greedy(const kvref_diff_job *job)
{
    for (int side = 0; side < 2; side++) {
        int n = job->n_chosen[side][1], other = 1 - side;
        if (n < 8 || job->n_best[side][1] != n ||
            job->n_best[other][1] >= job->n_chosen[other][1])
            continue;
        hint(job->out,
             "every code of books 1 and on is the best logit in %s (%d of %d), and not in %s "
             "(%d "
             "of %d): codes taken greedily there, and drawn here",
             job->side[side].label,
             n,
             n,
             job->side[other].label,
             job->n_best[other][1],
             job->n_chosen[other][1]);
    }
}

/* Whether both traces name their random numbers, and others. */
static bool other_noise(const kvref_diff *d)
{
    static const char *const keys[] = {"seed", "noise", "sample"};
    for (int i = 0; i < 3; i++) {
        const char *a = kvref_file_meta(d->file_a, keys[i]),
                   *b = kvref_file_meta(d->file_b, keys[i]);
        if (a && b && strcmp(a, b) != 0) return true;
    }
    return false;
}

static void turned_choice(kvref_diff *d)
{
    const kvref_choice *c = &d->split;
    if (c->column == 1) {
        hint(d,
             "the main token is the same and its code is not: code 0 follows from the token");
    } else if (!c->have_logits || c->greedy) {
        return;
    } else if (!d->first_is_choice) {
        hint(d,
             "codes that are drawn may turn whenever logits move; forced codes (kvref trace "
             "--from "
             "A) tell whether the numbers agree");
    } else if (other_noise(d)) {
        hint(d, "all numbers up to there agree, and the traces name other random numbers");
    } else if (c->frame == 0 && c->book > 0) {
        hint(d,
             "all numbers up to there agree and so does the main token: another stream of "
             "random "
             "numbers from its second set on, as when numbers are drawn on demand. Upstream "
             "draws "
             "the second set of every frame, used or not, and one number for every entry");
    } else {
        hint(d,
             "all numbers up to there agree: the sampler or its random numbers differ, not the "
             "arithmetic");
    }
}

static void constant(kvref_diff *d)
{
    for (int i = 0; i < d->n_tap; i++) {
        const kvref_tap_diff *t = &d->tap[i];
        if (failed(t) && t->constant_b && !t->constant_a) {
            hint(d,
                 "%.80s is %.9g everywhere in B: never written, or cleared",
                 t->b->name,
                 t->first.b);
            return;
        }
    }
}

kvref_status kvref_diff_hints(kvref_diff_job *job, kvref_error *err)
{
    kvref_diff *d = job->out;
    KVREF_TRY(rotation(job, err));
    if (d->inputs == KVREF_INPUTS_PART) turned_choice(d);
    greedy(job);
    length(job);
    constant(d);
    return KVREF_OK;
}
