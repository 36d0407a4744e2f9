/* SPDX-License-Identifier: MIT */
/* Reads one safetensors file: 8 bytes little-endian header length n, n bytes of JSON
 *   {"name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}, ...}
 * then the data area, which the tensors must tile: no gap, no overlap, nothing after the last
 * (spec 01 section 4). Every number of the header is checked against the file before use, and
 * memory grows with the tensors seen, never with a size that the file claims. */
#include "base/file.h"
#include "base/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Of all parts together. The format allows 100 MB each; 16384 tensors with the longest names
 * need less than 8 MiB. */
enum { MAX_HEADER = 8 << 20, MAX_META = 1 << 20, MAX_META_PAIR = 1024 };

typedef struct span {
    size_t begin, end; /* in the data area */
    const char *name;  /* the tensor's     */
} span;

typedef struct reader {
    kvref_file *f;
    int part;
    const char *path;
    const uint8_t *data; /* the data area, n_data bytes */
    size_t n_data;
    bool has_meta;
    span *span; /* [n_span], one per tensor, in header order */
    size_t n_span, cap_span;
} reader;

static kvref_status check_header(const char **header,
                                 size_t *n_header,
                                 kvref_file *f,
                                 const kvref_part *part,
                                 kvref_error *err)
{
    const char *path = part->path;
    const kvref_map *map = &part->map;
    const size_t left = MAX_HEADER - f->n_header;
    if (map->n_byte < 8)
        return kvref_fail(
            err,
            KVREF_E_FORMAT,
            "%s: not a safetensors file: %zu bytes, expected at least 8 and a header",
            path,
            map->n_byte);
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--) n = n << 8 | map->data[i];
    if (n > left && n <= map->n_byte - 8 && f->n_header > 0)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: header length %" PRIu64 ", expected at most %zu: with those "
                          "before it %d",
                          path,
                          n,
                          left,
                          MAX_HEADER);
    if (n < 2 || n > map->n_byte - 8 || n > left)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: not a safetensors file: header length %" PRIu64
                          ", expected 2..%zu",
                          path,
                          n,
                          map->n_byte - 8 < left ? map->n_byte - 8 : left);
    f->n_header += (size_t)n;
    *header = (const char *)map->data + 8;
    *n_header = (size_t)n;
    if (**header != '{')
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: not a safetensors file: header begins with 0x%02x, expected '{'",
                          path,
                          map->data[8]);
    return KVREF_OK;
}

static kvref_status entry_error(const reader *r,
                                const char *name,
                                const char *what,
                                const char *want,
                                const json_t *found,
                                kvref_error *err)
{
    char text[48];
    return kvref_fail(err,
                      KVREF_E_FORMAT,
                      "%s: tensor %s: %s: expected %s, found %s",
                      r->path,
                      name,
                      what,
                      want,
                      found ? kvref_json_show(text, found) : "nothing");
}

static kvref_status
read_dtype(kvref_tensor *t, const reader *r, const json_t *entry, kvref_error *err)
{
    const json_t *v = json_object_get(entry, "dtype");
    if (json_is_string(v) && kvref_dtype_parse(&t->dtype, json_string_value(v)))
        return KVREF_OK;
    return entry_error(
        r, t->name, "dtype", "F64, F32, F16, BF16, I64, I32, I16, I8, U8 or BOOL", v, err);
}

static kvref_status
read_shape(kvref_tensor *t, const reader *r, const json_t *entry, kvref_error *err)
{
    const json_t *v = json_object_get(entry, "shape"), *size;
    size_t i;
    if (!json_is_array(v)) return entry_error(r, t->name, "shape", "an array", v, err);
    if (json_array_size(v) > KVREF_MAX_DIM)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: tensor %s: shape of %zu sizes, expected at most %d",
                          r->path,
                          t->name,
                          json_array_size(v),
                          KVREF_MAX_DIM);
    json_array_foreach(v, i, size)
    {
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return entry_error(r, t->name, "shape", "integers from 0", size, err);
        t->dim[t->n_dim++] = json_integer_value(size);
    }
    if (!kvref_tensor_bytes(&t->n_byte, t->dtype, t->n_dim, t->dim))
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: tensor %s: shape: the product of the sizes overflows",
                          r->path,
                          t->name);
    return KVREF_OK;
}

static kvref_status
read_offsets(span *out, kvref_tensor *t, const reader *r, const json_t *entry, kvref_error *err)
{
    const json_t *v = json_object_get(entry, "data_offsets"), *pos;
    json_int_t at[2] = {0};
    size_t i;
    if (!json_is_array(v) || json_array_size(v) != 2)
        return entry_error(r, t->name, "data_offsets", "an array of two", v, err);
    json_array_foreach(v, i, pos)
    {
        if (!json_is_integer(pos) || json_integer_value(pos) < 0)
            return entry_error(r, t->name, "data_offsets", "integers from 0", pos, err);
        at[i] = json_integer_value(pos);
    }
    if (at[0] > at[1] || (json_int_t)r->n_data < at[1])
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: tensor %s: data_offsets [%lld, %lld], expected begin <= end <= "
                          "%zu, the size of the data",
                          r->path,
                          t->name,
                          (long long)at[0],
                          (long long)at[1],
                          r->n_data);
    *out = (span){(size_t)at[0], (size_t)at[1], NULL};
    if (out->end - out->begin != t->n_byte)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: tensor %s: %zu bytes in data_offsets, its shape needs %zu",
                          r->path,
                          t->name,
                          out->end - out->begin,
                          t->n_byte);
    t->data = r->data + out->begin;
    return KVREF_OK;
}

static kvref_status
read_tensor(reader *r, const char *name, const json_t *entry, kvref_error *err)
{
    kvref_tensor t = {.name = name};
    span at;
    if (!json_is_object(entry) || json_object_size(entry) != 3)
        return entry_error(
            r, name, "entry", "an object of dtype, shape and data_offsets", entry, err);
    KVREF_TRY(read_dtype(&t, r, entry, err));
    KVREF_TRY(read_shape(&t, r, entry, err));
    KVREF_TRY(read_offsets(&at, &t, r, entry, err));
    KVREF_TRY(kvref_file_add(r->f, r->part, name, strlen(name), &t, err));
    at.name = r->f->entry[r->f->n_entry - 1].tensor.name;
    KVREF_TRY(
        kvref_grow((void **)&r->span, &r->cap_span, r->n_span + 1, sizeof r->span[0], err));
    r->span[r->n_span++] = at;
    return KVREF_OK;
}

static kvref_status
read_pair(const reader *r, const char *key, const json_t *value, kvref_error *err)
{
    if (!json_is_string(value))
        return kvref_fail(
            err, KVREF_E_FORMAT, "%s: __metadata__: %s: expected a string", r->path, key);
    if (r->part != 0) return KVREF_OK;
    if (kvref_file_meta(r->f, key))
        return kvref_fail(
            err, KVREF_E_FORMAT, "%s: __metadata__: %s: found twice", r->path, key);
    if (r->f->n_meta == MAX_META_PAIR)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: __metadata__: more than %d entries",
                          r->path,
                          MAX_META_PAIR);
    return kvref_file_add_meta(r->f, key, json_string_value(value), err);
}

/* Metadata of the first part is kept, that of other shards only checked. */
static kvref_status read_meta(reader *r, const kvref_json_walk *header, kvref_error *err)
{
    if (r->has_meta)
        return kvref_fail(err, KVREF_E_FORMAT, "%s: __metadata__: found twice", r->path);
    r->has_meta = true;
    if (header->n_value > MAX_META)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: __metadata__: %zu bytes, expected at most %d",
                          r->path,
                          header->n_value,
                          MAX_META);
    kvref_json_walk w = {0};
    json_t *value = NULL;
    bool more = false;
    kvref_status s = kvref_json_open(&w, r->path, header->value, header->n_value, err);
    while (s == KVREF_OK && (s = kvref_json_next(&w, &more, err)) == KVREF_OK && more) {
        s = kvref_json_leaf(&value, &w, err);
        if (s != KVREF_OK) break;
        s = read_pair(r, kvref_json_key(&w), value, err);
        json_decref(value);
    }
    kvref_json_close(&w);
    return s;
}

static int by_place(const void *a, const void *b)
{
    const span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end == y->end ? 0 : x->end < y->end ? -1 : 1;
}

/* The tensors must tile the data area. */
static kvref_status check_tiling(const reader *r, kvref_error *err)
{
    size_t at = 0;
    if (r->n_span) qsort(r->span, r->n_span, sizeof r->span[0], by_place);
    for (size_t i = 0; i < r->n_span; i++) {
        const span *s = &r->span[i];
        if (s->begin != at)
            return kvref_fail(err,
                              KVREF_E_FORMAT,
                              "%s: tensor %s: data begins at %zu, expected %zu: %s",
                              r->path,
                              s->name,
                              s->begin,
                              at,
                              s->begin < at ? "two tensors overlap" : "a gap before it");
        at = s->end;
    }
    if (at != r->n_data)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: data of %zu bytes, the tensors end at %zu",
                          r->path,
                          r->n_data,
                          at);
    return KVREF_OK;
}

static kvref_status read_header(reader *r, kvref_json_walk *w, kvref_error *err)
{
    for (;;) {
        bool more;
        KVREF_TRY(kvref_json_next(w, &more, err));
        if (!more) return check_tiling(r, err);
        if (strcmp(kvref_json_key(w), "__metadata__") == 0) {
            KVREF_TRY(read_meta(r, w, err));
            continue;
        }
        json_t *entry;
        KVREF_TRY(kvref_json_leaf(&entry, w, err));
        kvref_status s = read_tensor(r, kvref_json_key(w), entry, err);
        json_decref(entry);
        if (s != KVREF_OK) return s;
    }
}

kvref_status kvref_safetensors_parse(kvref_file *f, int part, kvref_error *err)
{
    const kvref_map *map = &f->part[part].map;
    reader r = {.f = f, .part = part, .path = f->part[part].path};
    kvref_json_walk w = {0};
    const char *header = NULL;
    size_t n_header = 0;
    KVREF_TRY(check_header(&header, &n_header, f, &f->part[part], err));
    r.data = map->data + 8 + n_header;
    r.n_data = map->n_byte - 8 - n_header;
    kvref_status s = kvref_json_open(&w, r.path, header, n_header, err);
    if (s == KVREF_OK) s = read_header(&r, &w, err);
    kvref_json_close(&w);
    free(r.span);
    return s;
}
