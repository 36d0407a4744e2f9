/* SPDX-License-Identifier: MIT */
/* Inside of kvref_diff: what its files share. */
#ifndef KVREF_BASE_DIFF_PARTS_H
#define KVREF_BASE_DIFF_PARTS_H

#include "base/base.h"
#include "base/diff.h"

enum { KVREF_MAX_COLUMN = 1 << 20 }; /* codebooks, or elements of K in a row: far beyond any */

/* Which rows of an axis a file keeps (metadata rows.position, rows.frame, rows.book: ascending
 * numbers with commas); all of them when there is no list. */
typedef struct kvref_row_list {
    int64_t *id; /* [n]; NULL: all */
    size_t n, cap;
} kvref_row_list;

typedef struct kvref_side {
    const kvref_file *file;
    const char *label; /* "A", "B" */
    kvref_row_list position, frame, book;
    const kvref_tensor *prompt, *frames; /* NULL: none that can be used */
} kvref_side;

/* A comparison while it is made. Rows of frame `last_frame` count up to codebook position
 * `last_book`, later frames not at all. */
typedef struct kvref_diff_job {
    kvref_diff *out;
    kvref_side side[2];
    const kvref_limits *limits;
    int64_t last_frame, last_book;
    int64_t *candidate; /* ids that can be drawn, NULL: not known */
    size_t n_candidate;
    int n_chosen[2][2], n_best[2][2]; /* [side][main, fast]: choices looked at, best ones */
    size_t cap_lane;
} kvref_diff_job;

/* ---- diff_rows.c ---- */

kvref_status kvref_side_open(kvref_side *s, const kvref_file *file, kvref_error *err);
void kvref_side_close(kvref_side *s);

/* Walks over the rows that both tensors hold. */
typedef struct kvref_row_walk {
    const kvref_diff_job *job;
    const kvref_tensor *a, *b;
    kvref_tap_name id;
    const kvref_row_list *outer_a, *outer_b, *inner_a, *inner_b;
    int64_t n_outer_a, n_outer_b, n_inner_a, n_inner_b, first_inner;
    int64_t i, k, j, l;
    bool in_row;
    /* the present row */
    kvref_place place;
    int64_t at[2];     /* A's numbers on the leading axes */
    size_t to_a, to_b; /* first element                   */
    size_t width;      /* elements of a row               */
    int n_lead;
} kvref_row_walk;

/* Whether the two can be walked together; NULL or what is in the way. */
const char *kvref_rows_unlike(const kvref_tensor *a, const kvref_tensor *b, kvref_axis axis);

/* Checks the row lists against the axes: FORMAT. */
kvref_status kvref_rows_open(kvref_row_walk *w,
                             const kvref_diff_job *job,
                             const kvref_tensor *a,
                             const kvref_tensor *b,
                             kvref_error *err);
bool kvref_rows_next(kvref_row_walk *w);

/* Whether the inputs of that step are the same on both sides. */
bool kvref_within(const kvref_diff_job *job, const kvref_place *place);

/* Index of element e of the present row on every axis. */
void kvref_rows_index(int64_t at[KVREF_MAX_DIM], const kvref_row_walk *w, size_t e);

bool kvref_is_float(kvref_dtype dtype);
/* n elements from element `from` on. */
void kvref_load_floats(float *to, const kvref_tensor *t, size_t from, size_t n);
int64_t kvref_load_int(const kvref_tensor *t, size_t at);

/* ---- diff_tap.c ---- */

kvref_status kvref_diff_tap(kvref_diff_job *job, kvref_tap_diff *t, kvref_error *err);

/* ---- diff_inputs.c ---- */

/* Finds prompt, frames, the first other column, and how far rows can be judged. */
kvref_status kvref_diff_inputs(kvref_diff_job *job, kvref_error *err);

/* ---- diff_choice.c ---- */

kvref_status kvref_diff_choices(kvref_diff_job *job, kvref_error *err);

/* ---- diff_hint.c ---- */

kvref_status kvref_diff_hints(kvref_diff_job *job, kvref_error *err);

#endif
