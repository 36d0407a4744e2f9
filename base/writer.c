/* SPDX-License-Identifier: MIT */
/* Writes one safetensors file in a single pass: the header is known from the declared tensors,
 * the data is streamed behind it in any pieces, and the file takes its name only when exactly
 * the declared bytes have arrived. The header is padded with spaces so that the data area
 * starts at a multiple of 64. */
#include "base/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

struct kvref_writer {
    kvref_out *out;
    char *path;
    uint64_t n_data, n_done;
};

/* A growing text. */
typedef struct text {
    char *data;
    size_t n, cap;
} text;

static kvref_status append(text *t, const char *s, size_t n, kvref_error *err)
{
    KVREF_TRY(kvref_grow((void **)&t->data, &t->cap, t->n + n, 1, err));
    memcpy(t->data + t->n, s, n);
    t->n += n;
    return KVREF_OK;
}

/* Appends a JSON string; a text that is not UTF-8 is an error. */
static kvref_status append_string(text *t, const char *s, const char *path, kvref_error *err)
{
    const utf8proc_uint8_t *p = (const utf8proc_uint8_t *)s;
    utf8proc_ssize_t left = (utf8proc_ssize_t)strlen(s), n;
    KVREF_TRY(append(t, "\"", 1, err));
    for (; left > 0; p += n, left -= n) {
        utf8proc_int32_t c;
        char code[8];
        n = utf8proc_iterate(p, left, &c);
        if (n <= 0)
            return kvref_fail(
                err, KVREF_E_ARG, "%s: a name or metadata value is not valid UTF-8", path);
        if (c < 0x20 || c == '"' || c == '\\') {
            snprintf(code, sizeof code, "\\u%04x", (unsigned)c);
            KVREF_TRY(append(t, code, 6, err));
        } else {
            KVREF_TRY(append(t, (const char *)p, (size_t)n, err));
        }
    }
    return append(t, "\"", 1, err);
}

static kvref_status append_key(text *t, const char *key, const char *path, kvref_error *err)
{
    if (t->data[t->n - 1] != '{') KVREF_TRY(append(t, ",", 1, err));
    KVREF_TRY(append_string(t, key, path, err));
    return append(t, ":", 1, err);
}

static kvref_status
append_meta(text *t, const char *const *meta, int n_meta, const char *path, kvref_error *err)
{
    if (n_meta == 0) return KVREF_OK;
    KVREF_TRY(append_key(t, "__metadata__", path, err));
    KVREF_TRY(append(t, "{", 1, err));
    for (int i = 0; i < n_meta; i++) {
        KVREF_TRY(append_key(t, meta[2 * (size_t)i], path, err));
        KVREF_TRY(append_string(t, meta[2 * (size_t)i + 1], path, err));
    }
    return append(t, "}", 1, err);
}

/* Appends one tensor that begins at *at of the data area, and moves *at behind it. */
static kvref_status append_tensor(
    text *t, uint64_t *at, const kvref_tensor *tensor, const char *path, kvref_error *err)
{
    size_t n_byte = 0, end = 0, n_name = strlen(tensor->name);
    char entry[128];
    if (n_name < 1 || n_name > KVREF_MAX_NAME || strcmp(tensor->name, "__metadata__") == 0)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "%s: tensor name \"%s\": expected 1..%d bytes, not __metadata__",
                          path,
                          tensor->name,
                          KVREF_MAX_NAME);
    if (tensor->n_dim < 0 || tensor->n_dim > KVREF_MAX_DIM ||
        !kvref_tensor_bytes(&n_byte, tensor->dtype, tensor->n_dim, tensor->dim) ||
        !kvref_add_size((size_t)*at, n_byte, &end) || end > INT64_MAX)
        return kvref_fail(
            err, KVREF_E_ARG, "%s: tensor %s: shape is too large", path, tensor->name);
    KVREF_TRY(append_key(t, tensor->name, path, err));
    int n = snprintf(
        entry, sizeof entry, "{\"dtype\":\"%s\",\"shape\":[", kvref_dtype_name(tensor->dtype));
    KVREF_TRY(append(t, entry, (size_t)n, err));
    for (int i = 0; i < tensor->n_dim; i++) {
        n = snprintf(entry, sizeof entry, "%s%" PRId64, i ? "," : "", tensor->dim[i]);
        KVREF_TRY(append(t, entry, (size_t)n, err));
    }
    n = snprintf(entry, sizeof entry, "],\"data_offsets\":[%" PRIu64 ",%zu]}", *at, end);
    *at = end;
    return append(t, entry, (size_t)n, err);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static kvref_status
check_unique(const kvref_tensor *tensor, int n_tensor, const char *path, kvref_error *err)
{
    if (n_tensor < 0 || n_tensor > KVREF_MAX_TENSOR)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "%s: %d tensors, expected 0..%d",
                          path,
                          n_tensor,
                          KVREF_MAX_TENSOR);
    size_t n = (size_t)n_tensor;
    const char **name = malloc((n + 1) * sizeof name[0]);
    if (!name) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    for (size_t i = 0; i < n; i++) name[i] = tensor[i].name;
    qsort(name, n, sizeof name[0], by_text);
    kvref_status s = KVREF_OK;
    for (size_t i = 1; s == KVREF_OK && i < n; i++) {
        if (strcmp(name[i - 1], name[i]) == 0)
            s = kvref_fail(err, KVREF_E_ARG, "%s: tensor %s: declared twice", path, name[i]);
    }
    free(name);
    return s;
}

/* The whole header: length, JSON, padding. */
static kvref_status build_header(text *t,
                                 uint64_t *n_data,
                                 const char *path,
                                 const kvref_tensor *tensor,
                                 int n_tensor,
                                 const char *const *meta,
                                 int n_meta,
                                 kvref_error *err)
{
    KVREF_TRY(check_unique(tensor, n_tensor, path, err));
    KVREF_TRY(append(t, "\0\0\0\0\0\0\0\0{", 9, err));
    KVREF_TRY(append_meta(t, meta, n_meta, path, err));
    *n_data = 0;
    for (int i = 0; i < n_tensor; i++)
        KVREF_TRY(append_tensor(t, n_data, &tensor[i], path, err));
    KVREF_TRY(append(t, "}", 1, err));
    while (t->n % 64) KVREF_TRY(append(t, " ", 1, err));
    for (size_t i = 0; i < 8; i++) t->data[i] = (char)((t->n - 8) >> 8 * i & 255);
    return KVREF_OK;
}

kvref_status kvref_writer_open(kvref_writer **out,
                               const char *path,
                               const kvref_tensor *tensor,
                               int n_tensor,
                               const char *const *meta,
                               int n_meta,
                               kvref_error *err)
{
    text header = {0};
    *out = NULL;
    kvref_writer *w = calloc(1, sizeof *w);
    if (w) w->path = strdup(path);
    kvref_status s = w && w->path ? KVREF_OK : kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    if (s == KVREF_OK)
        s = build_header(&header, &w->n_data, path, tensor, n_tensor, meta, n_meta, err);
    if (s == KVREF_OK) s = kvref_out_open(&w->out, path, err);
    if (s == KVREF_OK) s = kvref_out_put(w->out, header.data, header.n, err);
    free(header.data);
    if (s == KVREF_OK)
        *out = w;
    else
        kvref_writer_abort(&w);
    return s;
}

kvref_status
kvref_writer_put(kvref_writer *w, const void *data, size_t n_byte, kvref_error *err)
{
    if (n_byte > w->n_data - w->n_done)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "%s: data passes the declared %llu bytes",
                          w->path,
                          (unsigned long long)w->n_data);
    w->n_done += n_byte;
    return kvref_out_put(w->out, data, n_byte, err);
}

kvref_status kvref_writer_commit(kvref_writer **w, kvref_error *err)
{
    kvref_writer *p = *w;
    kvref_status s;
    if (p->n_done != p->n_data)
        s = kvref_fail(err,
                       KVREF_E_ARG,
                       "%s: data of %llu bytes put, %llu declared",
                       p->path,
                       (unsigned long long)p->n_done,
                       (unsigned long long)p->n_data);
    else
        s = kvref_out_commit(&p->out, err);
    kvref_writer_abort(w);
    return s;
}

void kvref_writer_abort(kvref_writer **w)
{
    kvref_writer *p = *w;
    if (!p) return;
    kvref_out_abort(&p->out);
    free(p->path);
    free(p);
    *w = NULL;
}
