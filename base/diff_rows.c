/* SPDX-License-Identifier: MIT */
/* Rows of two tensors side by side: which of them both hold, what each stands for, and their
 * values whatever the number type. A file may keep some rows only and say which. */
#include "base/diff_parts.h"
#include "kvref/half.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* "0,1,9" in ascending order. */
static kvref_status
read_list(kvref_row_list *list, const kvref_side *s, const char *key, kvref_error *err)
{
    const char *at = kvref_file_meta(s->file, key);
    int64_t last = -1;
    if (!at) return KVREF_OK;
    while (true) {
        char *end = NULL;
        long long id = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : -1;
        if (id <= last || id == LLONG_MAX || !end || (*end != ',' && *end != 0))
            return kvref_fail(err,
                              KVREF_E_FORMAT,
                              "%s: %s: expected ascending numbers with commas, found \"%.40s\"",
                              s->label,
                              key,
                              at);
        KVREF_TRY(kvref_grow((void **)&list->id, &list->cap, list->n + 1, sizeof last, err));
        list->id[list->n++] = last = id;
        if (*end == 0) return KVREF_OK;
        at = end + 1;
    }
}

kvref_status kvref_side_open(kvref_side *s, const kvref_file *file, kvref_error *err)
{
    s->file = file;
    KVREF_TRY(read_list(&s->position, s, "rows.position", err));
    KVREF_TRY(read_list(&s->frame, s, "rows.frame", err));
    return read_list(&s->book, s, "rows.book", err);
}

void kvref_side_close(kvref_side *s)
{
    free(s->position.id);
    free(s->frame.id);
    free(s->book.id);
}

bool kvref_is_float(kvref_dtype dtype)
{
    return dtype == KVREF_F32 || dtype == KVREF_F16 || dtype == KVREF_BF16 ||
           dtype == KVREF_F64;
}

const char *kvref_rows_unlike(const kvref_tensor *a, const kvref_tensor *b, kvref_axis axis)
{
    int lead = axis == KVREF_AXIS_BOOK ? 2 : 1;
    if (kvref_is_float(a->dtype) != kvref_is_float(b->dtype)) return "other kinds of number";
    if (a->n_dim != b->n_dim) return "other numbers of axes";
    if (a->n_dim < lead && axis != KVREF_AXIS_PLAIN) return "too few axes";
    for (int d = lead; d < a->n_dim; d++)
        if (a->dim[d] != b->dim[d]) return "other axes";
    return NULL;
}

static const kvref_row_list *outer_list(const kvref_side *s, const kvref_tap_name *id)
{
    static const kvref_row_list all = {0};
    if (id->axis == KVREF_AXIS_POSITION) return &s->position;
    if (id->axis == KVREF_AXIS_BOOK) return &s->frame;
    bool cut = strcmp(id->tap, "slow.norm") == 0 || strcmp(id->tap, "slow.logits") == 0 ||
               strcmp(id->tap, "slow.hidden") == 0;
    return cut ? &s->frame : &all;
}

static kvref_status check_list(const kvref_row_list *list,
                               int64_t n,
                               const kvref_side *s,
                               const char *tensor,
                               kvref_error *err)
{
    if (!list->id || (uint64_t)n == list->n) return KVREF_OK;
    return kvref_fail(err,
                      KVREF_E_FORMAT,
                      "%s: %s: expected the %zu rows that its metadata lists, found %lld",
                      s->label,
                      tensor,
                      list->n,
                      (long long)n);
}

kvref_status kvref_rows_open(kvref_row_walk *w,
                             const kvref_diff_job *job,
                             const kvref_tensor *a,
                             const kvref_tensor *b,
                             kvref_error *err)
{
    const kvref_side *s = job->side;
    static const kvref_row_list one = {0};
    *w = (kvref_row_walk){.job = job, .a = a, .b = b, .id = kvref_tap_parse(a->name)};
    bool books = w->id.axis == KVREF_AXIS_BOOK;
    w->n_lead = books ? 2 : a->n_dim > 0 ? 1 : 0;
    w->outer_a = outer_list(&s[0], &w->id);
    w->outer_b = outer_list(&s[1], &w->id);
    w->inner_a = books ? &s[0].book : &one;
    w->inner_b = books ? &s[1].book : &one;
    w->n_outer_a = a->n_dim > 0 ? a->dim[0] : 1;
    w->n_outer_b = a->n_dim > 0 ? b->dim[0] : 1;
    w->n_inner_a = books ? a->dim[1] : 1;
    w->n_inner_b = books ? b->dim[1] : 1;
    w->first_inner = books && strcmp(w->id.tap, "fast.logits") == 0;
    w->width = 1;
    for (int d = w->n_lead; d < a->n_dim; d++) w->width *= (size_t)a->dim[d];
    KVREF_TRY(check_list(w->outer_a, w->n_outer_a, &s[0], a->name, err));
    KVREF_TRY(check_list(w->outer_b, w->n_outer_b, &s[1], b->name, err));
    if (!books) return KVREF_OK;
    KVREF_TRY(check_list(w->inner_a, w->n_inner_a, &s[0], a->name, err));
    return check_list(w->inner_b, w->n_inner_b, &s[1], b->name, err);
}

static int64_t id_of(const kvref_row_list *list, int64_t i, int64_t first)
{
    return list->id ? list->id[i] : first + i;
}

static kvref_place place_of(const kvref_row_walk *w, int64_t outer, int64_t inner)
{
    int64_t n_prompt = w->job->out->n_prompt;
    kvref_place p = {.layer = w->id.layer, .rank = w->id.rank, .book = -1, .row = outer};
    switch (w->id.axis) {
    case KVREF_AXIS_CALL:
        p.frame = outer;
        break;
    case KVREF_AXIS_POSITION:
        if (n_prompt < 0) n_prompt = 1;
        p.frame = outer < n_prompt ? 0 : outer - n_prompt + 1;
        break;
    case KVREF_AXIS_BOOK:
        p.frame = outer;
        p.book = inner;
        break;
    case KVREF_AXIS_CHOICE:
        p.frame = outer;
        break;
    case KVREF_AXIS_PLAIN:
        p.frame = p.layer == KVREF_AFTER ? INT64_MAX : -1;
        break;
    }
    return p;
}

/* The next pair of equal numbers in two ascending lists, from i and k on. */
static bool meet(int64_t *i,
                 int64_t n_i,
                 const kvref_row_list *a,
                 int64_t *k,
                 int64_t n_k,
                 const kvref_row_list *b,
                 int64_t first)
{
    while (*i < n_i && *k < n_k) {
        int64_t x = id_of(a, *i, first), y = id_of(b, *k, first);
        if (x == y) return true;
        if (x < y) {
            ++*i;
        } else {
            ++*k;
        }
    }
    return false;
}

bool kvref_rows_next(kvref_row_walk *w)
{
    if (w->in_row) {
        w->j++;
        w->l++;
    }
    while (meet(&w->i, w->n_outer_a, w->outer_a, &w->k, w->n_outer_b, w->outer_b, 0)) {
        if (meet(&w->j,
                 w->n_inner_a,
                 w->inner_a,
                 &w->l,
                 w->n_inner_b,
                 w->inner_b,
                 w->first_inner)) {
            w->place = place_of(
                w, id_of(w->outer_a, w->i, 0), id_of(w->inner_a, w->j, w->first_inner));
            w->to_a = ((size_t)w->i * (size_t)w->n_inner_a + (size_t)w->j) * w->width;
            w->to_b = ((size_t)w->k * (size_t)w->n_inner_b + (size_t)w->l) * w->width;
            w->at[0] = w->i;
            w->at[1] = w->j;
            w->in_row = true;
            return true;
        }
        w->j = w->l = 0;
        w->in_row = false;
        w->i++;
        w->k++;
    }
    return false;
}

bool kvref_within(const kvref_diff_job *job, const kvref_place *p)
{
    return p->frame < job->last_frame ||
           (p->frame == job->last_frame && p->book <= job->last_book);
}

void kvref_rows_index(int64_t at[KVREF_MAX_DIM], const kvref_row_walk *w, size_t e)
{
    for (int d = 0; d < w->n_lead; d++) at[d] = w->at[d];
    for (int d = w->a->n_dim - 1; d >= w->n_lead; d--) {
        at[d] = (int64_t)(e % (size_t)w->a->dim[d]);
        e /= (size_t)w->a->dim[d];
    }
}

void kvref_load_floats(float *to, const kvref_tensor *t, size_t from, size_t n)
{
    const char *x = (const char *)t->data + from * kvref_dtype_size(t->dtype);
    uint16_t h;
    double d;
    switch (t->dtype) {
    case KVREF_F32:
        memcpy(to, x, n * sizeof *to);
        break;
    case KVREF_F64:
        for (size_t i = 0; i < n; i++) {
            memcpy(&d, x + i * sizeof d, sizeof d);
            to[i] = (float)d;
        }
        break;
    case KVREF_F16:
    case KVREF_BF16:
        for (size_t i = 0; i < n; i++) {
            memcpy(&h, x + i * sizeof h, sizeof h);
            to[i] = t->dtype == KVREF_F16 ? kvref_f16_f32(h) : kvref_bf16_f32(h);
        }
        break;
    default:
        break;
    }
}

int64_t kvref_load_int(const kvref_tensor *t, size_t at)
{
    const char *x = (const char *)t->data + at * kvref_dtype_size(t->dtype);
    int64_t l = 0;
    int32_t i;
    int16_t s;
    switch (t->dtype) {
    case KVREF_I64:
        memcpy(&l, x, sizeof l);
        return l;
    case KVREF_I32:
        memcpy(&i, x, sizeof i);
        return i;
    case KVREF_I16:
        memcpy(&s, x, sizeof s);
        return s;
    case KVREF_I8:
        return (signed char)*x;
    default:
        return (unsigned char)*x;
    }
}
