/* SPDX-License-Identifier: MIT */
/* Inside of kvref_trace: filled by trace.c, written by trace_write.c. */
#ifndef KVREF_BASE_TRACE_H
#define KVREF_BASE_TRACE_H

#include "base/base.h"
#include "kvref/file.h"
#include "kvref/trace.h"

/* One tensor, growing by rows. */
typedef struct kvref_trace_item {
    char *name;
    kvref_dtype dtype;
    int head, width; /* a row is [width], or [head, width / head]; width 0: one value */
    int base, next;  /* taps: first row number seen, and the one expected next        */
    int n_row;
    uint8_t *data;
    size_t n_byte, cap;
} kvref_trace_item;

struct kvref_trace {
    kvref_trace_item *item; /* by name */
    size_t n_item, cap_item;
    char **meta; /* [2*n_meta] key, value */
    size_t n_meta, cap_meta;
    kvref_error fault; /* the first one inside a tap */
};

/* Writes the axes of an item as collected, [n_row, ...], returns how many (1..3). */
int kvref_trace_axes(int64_t dim[3], const kvref_trace_item *item);

#endif
