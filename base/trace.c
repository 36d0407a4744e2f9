/* SPDX-License-Identifier: MIT */
/* Collects what a decoder and the generation loop report, tensor by tensor and row by row, in
 * memory, kept in order of name so that files and hashes do not depend on the order of calls.
 */
#include "base/trace.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_BYTES = 64 };

kvref_status kvref_trace_open(kvref_trace **out, kvref_error *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out) return kvref_fail(err, KVREF_E_MEMORY, "trace: out of memory");
    return KVREF_OK;
}

void kvref_trace_close(kvref_trace **trace)
{
    kvref_trace *t = *trace;
    if (!t) return;
    for (size_t i = 0; i < t->n_item; i++) {
        free(t->item[i].name);
        free(t->item[i].data);
    }
    for (size_t i = 0; i < 2 * t->n_meta; i++) free(t->meta[i]);
    free(t->item);
    free(t->meta);
    free(t);
    *trace = NULL;
}

int kvref_trace_axes(int64_t dim[3], const kvref_trace_item *item)
{
    int n = 0;
    dim[n++] = item->n_row;
    if (item->head > 0) dim[n++] = item->head;
    if (item->width > 0) dim[n++] = item->head > 0 ? item->width / item->head : item->width;
    return n;
}

/* Where the name is, or where it belongs. */
static size_t place(const kvref_trace *t, const char *name)
{
    size_t low = 0, high = t->n_item;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (strcmp(t->item[mid].name, name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The item of that name, made from `like` when it is new; NULL when out of memory. */
static kvref_trace_item *find(kvref_trace *t, const kvref_trace_item *like, kvref_error *err)
{
    size_t at = place(t, like->name);
    if (at < t->n_item && strcmp(t->item[at].name, like->name) == 0) return &t->item[at];
    if (kvref_grow((void **)&t->item, &t->cap_item, t->n_item + 1, sizeof *t->item, err))
        return NULL;
    char *name = strdup(like->name);
    if (!name) {
        kvref_fail(err, KVREF_E_MEMORY, "trace: out of memory");
        return NULL;
    }
    memmove(&t->item[at + 1], &t->item[at], (t->n_item - at) * sizeof *t->item);
    t->n_item++;
    t->item[at] = *like;
    t->item[at].name = name;
    return &t->item[at];
}

/* Appends n_row rows at x; `like` tells name, dtype, head, width and the first row's number. */
static kvref_status
append(kvref_trace *t, const kvref_trace_item *like, const void *x, int n_row, kvref_error *err)
{
    kvref_trace_item *item = find(t, like, err);
    if (!item) return KVREF_E_MEMORY;
    if (item->dtype != like->dtype || item->width != like->width || item->head != like->head)
        return kvref_fail(err,
                          KVREF_E_SHAPE,
                          "trace: %s: expected %s rows of %d values in %d heads, found %s rows "
                          "of %d in %d",
                          item->name,
                          kvref_dtype_name(item->dtype),
                          item->width,
                          item->head,
                          kvref_dtype_name(like->dtype),
                          like->width,
                          like->head);
    item->next = like->base + n_row;
    if (n_row == 0) return KVREF_OK;
    size_t width = item->width > 0 ? (size_t)item->width : 1;
    size_t n_byte = (size_t)n_row * width * kvref_dtype_size(item->dtype);
    if (n_row > INT_MAX - item->n_row)
        return kvref_fail(err, KVREF_E_MEMORY, "trace: %s: too many rows", item->name);
    KVREF_TRY(kvref_grow((void **)&item->data, &item->cap, item->n_byte + n_byte, 1, err));
    memcpy(item->data + item->n_byte, x, n_byte);
    item->n_byte += n_byte;
    item->n_row += n_row;
    return KVREF_OK;
}

/* ---- taps ---- */

/* "slow.q" and layer 7 make "slow.L07.q". */
static kvref_status
full_name(char out[NAME_MAX_BYTES], const kvref_tap_data *d, kvref_error *err)
{
    const char *dot = strchr(d->name, '.');
    int n;
    if (d->layer < 0)
        n = snprintf(out, NAME_MAX_BYTES, "%s", d->name);
    else if (dot)
        n = snprintf(
            out, NAME_MAX_BYTES, "%.*s.L%02d%s", (int)(dot - d->name), d->name, d->layer, dot);
    else
        n = NAME_MAX_BYTES;
    if (n < 0 || n >= NAME_MAX_BYTES)
        return kvref_fail(
            err, KVREF_E_ARG, "trace: %s: expected a name of the form side.part", d->name);
    return KVREF_OK;
}

/* Positions of the slow side follow one another; codebook positions of the fast side do too
 * and start over with every frame; results of whole slow calls are counted here alone. */
static bool
in_order(const kvref_trace *t, const kvref_trace_item *like, const kvref_tap_data *d)
{
    size_t at = place(t, like->name);
    bool seen = at < t->n_item && strcmp(t->item[at].name, like->name) == 0;
    const kvref_trace_item *item = seen ? &t->item[at] : NULL;
    if (strncmp(like->name, "fast.", 5) == 0)
        return !seen || d->first == item->next || d->first == item->base;
    if (d->layer < 0 && strcmp(d->name, "slow.embed") != 0) return true;
    return d->first == (seen ? item->next : 0);
}

static kvref_status take(kvref_trace *t, const kvref_tap_data *d, kvref_error *err)
{
    char name[NAME_MAX_BYTES];
    KVREF_TRY(full_name(name, d, err));
    if (d->width < 1 || d->n_row < 0 || d->head < 0 || (d->head && d->width % d->head))
        return kvref_fail(err,
                          KVREF_E_SHAPE,
                          "trace: %s: expected rows of whole heads, found %d rows of %d values "
                          "in %d heads",
                          name,
                          d->n_row,
                          d->width,
                          d->head);
    const kvref_trace_item like = {
        .name = name, .dtype = KVREF_F32, .head = d->head, .width = d->width, .base = d->first};
    if (!in_order(t, &like, d))
        return kvref_fail(err,
                          KVREF_E_SHAPE,
                          "trace: %s: row %d does not follow the rows so far",
                          name,
                          d->first);
    return append(t, &like, d->x, d->n_row, err);
}

static void on_tap(void *user, const kvref_tap_data *data)
{
    kvref_trace *t = user;
    if (t->fault.status == KVREF_OK) take(t, data, &t->fault);
}

kvref_tap kvref_trace_tap(kvref_trace *trace, kvref_tap_level level)
{
    return (kvref_tap){.fn = on_tap, .user = trace, .level = level};
}

/* ---- integers and metadata ---- */

static kvref_status ints(kvref_trace *t,
                         const char *name,
                         kvref_dtype dtype,
                         const void *x,
                         int n_row,
                         int width,
                         kvref_error *err)
{
    char copy[NAME_MAX_BYTES];
    int n = snprintf(copy, sizeof copy, "%s", name);
    if (n < 0 || n >= NAME_MAX_BYTES || n_row < 0 || width < 0)
        return kvref_fail(
            err,
            KVREF_E_ARG,
            "trace: %s: expected a name under %d bytes and a shape, found %d x %d",
            name,
            NAME_MAX_BYTES,
            n_row,
            width);
    const kvref_trace_item like = {.name = copy, .dtype = dtype, .width = width};
    return append(t, &like, x, n_row, err);
}

kvref_status kvref_trace_ints(kvref_trace *trace,
                              const char *name,
                              const int32_t *x,
                              int n_row,
                              int width,
                              kvref_error *err)
{
    return ints(trace, name, KVREF_I32, x, n_row, width, err);
}

kvref_status kvref_trace_counts(kvref_trace *trace,
                                const char *name,
                                const int64_t *x,
                                int n_row,
                                int width,
                                kvref_error *err)
{
    return ints(trace, name, KVREF_I64, x, n_row, width, err);
}

kvref_status
kvref_trace_meta(kvref_trace *trace, const char *key, const char *value, kvref_error *err)
{
    if (strcmp(key, "format") == 0)
        return kvref_fail(err, KVREF_E_ARG, "trace: metadata key \"format\" is fixed");
    char *pair[2] = {strdup(key), strdup(value)};
    kvref_status status = kvref_grow(
        (void **)&trace->meta, &trace->cap_meta, 2 * trace->n_meta + 2, sizeof(char *), err);
    if (!pair[0] || !pair[1] || status != KVREF_OK) {
        free(pair[0]);
        free(pair[1]);
        return kvref_fail(err, KVREF_E_MEMORY, "trace: out of memory");
    }
    size_t i = 0;
    while (i < trace->n_meta && strcmp(trace->meta[2 * i], key) != 0) i++;
    if (i == trace->n_meta) {
        trace->n_meta++;
    } else {
        free(trace->meta[2 * i]);
        free(trace->meta[2 * i + 1]);
    }
    memcpy(&trace->meta[2 * i], pair, sizeof pair);
    return KVREF_OK;
}
