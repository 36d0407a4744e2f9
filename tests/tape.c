/* SPDX-License-Identifier: MIT */
#include "tests/tape.h"

#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tape_track *find(const tape *t, const char *name, int layer)
{
    for (int i = 0; i < t->n_track; i++)
        if (t->track[i].layer == layer && strcmp(t->track[i].name, name) == 0)
            return &t->track[i];
    return NULL;
}

/* Room for n more values of a track. */
static double *extend(tape *t, const char *name, int layer, int width, size_t n)
{
    tape_track *track = find(t, name, layer);
    if (!track) {
        t->track = realloc(t->track, (size_t)(t->n_track + 1) * sizeof *t->track);
        ck_assert_ptr_nonnull(t->track);
        track = &t->track[t->n_track++];
        *track = (tape_track){.name = name, .layer = layer, .width = width};
    }
    ck_assert_int_eq(track->width, width);
    track->x = realloc(track->x, (track->n + n) * sizeof *track->x);
    ck_assert_ptr_nonnull(track->x);
    track->n += n;
    return track->x + track->n - n;
}

static void hear(void *user, const kvref_tap_data *d)
{
    size_t n = (size_t)d->n_row * (size_t)d->width;
    double *x = extend(user, d->name, d->layer, d->width, n);
    for (size_t i = 0; i < n; i++) x[i] = (double)d->x[i];
}

kvref_tap tape_tap(tape *t, kvref_tap_level level)
{
    return (kvref_tap){hear, t, level};
}

void tape_listen(void *user, const ref64_data *d)
{
    size_t n = (size_t)d->n_row * (size_t)d->width;
    memcpy(extend(user, d->name, d->layer, d->width, n), d->x, n * sizeof *d->x);
}

void tape_clear(tape *t)
{
    for (int i = 0; i < t->n_track; i++) free(t->track[i].x);
    free(t->track);
    *t = (tape){0};
}

/* Who is played: a decoder of a backend, or ref64 where backend is NULL. */
typedef struct player {
    const kvref_backend *backend;
    kvref_decoder *d;
    ref64 *r;
    float *logits;
} player;

static void slow(const player *p, const int32_t *frames, int n)
{
    kvref_error err;
    if (p->backend)
        must(p->backend->slow(p->d, p->logits, frames, n, &err), err);
    else
        ref64_slow(p->r, frames, n);
}

static void fast(const player *p, int book, int32_t code)
{
    kvref_error err;
    if (p->backend)
        must(p->backend->fast(p->d, p->logits, book, code, &err), err);
    else
        ref64_fast(p->r, book, code);
}

static void
play(const player *p, const kvref_config *c, const int32_t *frames, int n, const int *piece)
{
    for (int fed = 0, size = 1; fed < n; fed += size) {
        if (*piece) size = *piece++;
        if (size > n - fed) size = n - fed;
        slow(p, frames + (size_t)fed * (size_t)(1 + c->n_codebook), size);
        for (int book = 1; book < c->n_codebook; book++)
            fast(p, book, (7 * book + fed + size) % c->n_code);
    }
}

void tape_play(const kvref_backend *b,
               kvref_decoder *d,
               const kvref_config *c,
               const int32_t *frames,
               int n,
               const int *piece)
{
    int a = kvref_config_candidates(c, NULL, 0), most = a > c->n_code ? a : c->n_code;
    float *logits = malloc((size_t)most * sizeof *logits);
    ck_assert_ptr_nonnull(logits);
    play(&(player){.backend = b, .d = d, .logits = logits}, c, frames, n, piece);
    free(logits);
}

void tape_play64(
    ref64 *r, const kvref_config *c, const int32_t *frames, int n, const int *piece)
{
    play(&(player){.r = r}, c, frames, n, piece);
}

/* The larger of both, or NaN. */
static double larger(double a, double b)
{
    return a <= b ? b : b <= a ? a : (double)NAN;
}

tape_error tape_compare(const tape_track *x, const tape_track *ref)
{
    double max = 0, max_ref = 0, sum = 0, sum_ref = 0;
    ck_assert_msg(x->n == ref->n && x->width == ref->width, "%s: other size", ref->name);
    for (size_t i = 0; i < ref->n; i++) {
        double err = x->x[i] - ref->x[i];
        max = larger(max, fabs(err));
        max_ref = larger(max_ref, fabs(ref->x[i]));
        sum += err * err;
        sum_ref += ref->x[i] * ref->x[i];
    }
    return (tape_error){max / max_ref, sqrt(sum / sum_ref)};
}

double
tape_judge(const char *what, const tape *x, const tape *ref, tape_limit *limit, const void *arg)
{
    double worst = 0;
    ck_assert(ref->n_track > 0);
    ck_assert_int_eq(x->n_track, ref->n_track);
    for (int i = 0; i < ref->n_track; i++) {
        const tape_track *r = &ref->track[i], *found = find(x, r->name, r->layer);
        ck_assert_msg(found != NULL, "%s: no %s of layer %d", what, r->name, r->layer);
        tape_error err = tape_compare(found, r), most = limit(r, arg);
        double used = larger(err.max / most.max, err.rms / most.rms);
        printf("%s %-15s L%02d  max %.2e  rms %.2e  used %.2f\n",
               what,
               r->name,
               r->layer,
               err.max,
               err.rms,
               used);
        worst = larger(worst, used);
    }
    return worst;
}

/* Layers that a track's values have been through, its own included. */
static int layers_passed(const tape_track *t, const kvref_config *c)
{
    bool fast = strncmp(t->name, "fast", 4) == 0;
    const kvref_stack *s = fast ? &c->fast : &c->slow;
    int before = fast ? c->slow.n_layer : 0;
    if (t->layer >= 0) return before + t->layer + 1;
    return strcmp(t->name + 4, ".embed") == 0 ? before : before + s->n_layer;
}

tape_error tape_walk(const tape_track *ref, const void *arg)
{
    const tape_walk_of *w = arg;
    double rms = 4 * w->u * sqrt(1 + layers_passed(ref, w->config));
    return (tape_error){4 * rms, rms};
}

tape_error tape_twice(const tape_track *ref, const void *arg)
{
    const tape_twice_of *w = arg;
    const tape_track *plain = find(w->plain, ref->name, ref->layer);
    ck_assert_msg(plain != NULL, "no %s of layer %d", ref->name, ref->layer);
    tape_error err = tape_compare(plain, ref);
    return (tape_error){2 * err.max + 0x1p-11, 2 * err.rms + 0x1p-11};
}

size_t tape_differ(const tape *x, const tape *y)
{
    size_t n = 0;
    ck_assert_int_eq(x->n_track, y->n_track);
    for (int i = 0; i < x->n_track; i++) {
        const tape_track *a = &x->track[i], *b = find(y, a->name, a->layer);
        ck_assert_msg(b && a->n == b->n, "%s: other size", a->name);
        for (size_t j = 0; j < a->n; j++) n += memcmp(&a->x[j], &b->x[j], sizeof *a->x) != 0;
    }
    return n;
}
