/* SPDX-License-Identifier: MIT */
/* A trace as a safetensors file, and as one number. */
#include "base/trace.h"

#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

/* The axes of an item in the file: rows of the fast side are split by frame. */
static kvref_status
file_axes(kvref_tensor *tensor, const kvref_trace_item *item, int n_frame, kvref_error *err)
{
    int64_t dim[3];
    int n_dim = kvref_trace_axes(dim, item), at = 0;
    if (strncmp(item->name, "fast.", 5) == 0) {
        if (n_frame < 1 || item->n_row % n_frame != 0)
            return kvref_fail(err,
                              KVREF_E_SHAPE,
                              "trace: %s: expected rows for each of %d frames, found %d rows",
                              item->name,
                              n_frame,
                              item->n_row);
        tensor->dim[at++] = n_frame;
        dim[0] = item->n_row / n_frame;
    }
    for (int i = 0; i < n_dim; i++) tensor->dim[at++] = dim[i];
    tensor->name = item->name;
    tensor->dtype = item->dtype;
    tensor->n_dim = at;
    return KVREF_OK;
}

static kvref_status write_file(const kvref_trace *t,
                               kvref_tensor *tensor,
                               const char **meta,
                               const char *path,
                               int n_frame,
                               kvref_error *err)
{
    for (size_t i = 0; i < t->n_item; i++)
        KVREF_TRY(file_axes(&tensor[i], &t->item[i], n_frame, err));
    meta[0] = "format";
    meta[1] = "kvref-trace-1";
    for (size_t i = 0; i < 2 * t->n_meta; i++) meta[2 + i] = t->meta[i];

    kvref_writer *w;
    KVREF_TRY(
        kvref_writer_open(&w, path, tensor, (int)t->n_item, meta, (int)t->n_meta + 1, err));
    kvref_status status = KVREF_OK;
    for (size_t i = 0; i < t->n_item && status == KVREF_OK; i++)
        if (t->item[i].n_byte > 0)
            status = kvref_writer_put(w, t->item[i].data, t->item[i].n_byte, err);
    if (status == KVREF_OK) status = kvref_writer_commit(&w, err);
    kvref_writer_abort(&w);
    return status;
}

kvref_status
kvref_trace_write(kvref_trace *trace, const char *path, int n_frame, kvref_error *err)
{
    if (trace->fault.status != KVREF_OK)
        return kvref_fail(err, trace->fault.status, "%s", trace->fault.text);
    kvref_tensor *tensor = calloc(trace->n_item + 1, sizeof *tensor);
    const char **meta = calloc(2 * trace->n_meta + 2, sizeof *meta);
    kvref_status status = tensor && meta
                              ? write_file(trace, tensor, meta, path, n_frame, err)
                              : kvref_fail(err, KVREF_E_MEMORY, "trace: out of memory");
    free(tensor);
    free(meta);
    return status;
}

/* ---- hash ---- */

/* Strings with their NUL, numbers as eight bytes: no two traces run together alike. */
static uint64_t fnv_item(uint64_t hash, const kvref_trace_item *item)
{
    const char *type = kvref_dtype_name(item->dtype);
    int64_t dim[3], n_dim = kvref_trace_axes(dim, item);
    hash = kvref_fnv64(hash, item->name, strlen(item->name) + 1);
    hash = kvref_fnv64(hash, type, strlen(type) + 1);
    hash = kvref_fnv64(hash, &n_dim, sizeof n_dim);
    hash = kvref_fnv64(hash, dim, sizeof dim[0] * (size_t)n_dim);
    return kvref_fnv64(hash, item->data, item->n_byte);
}

const char *kvref_trace_not_finite(const kvref_trace *trace, int *row)
{
    for (size_t i = 0; i < trace->n_item; i++) {
        const kvref_trace_item *item = &trace->item[i];
        if (item->dtype != KVREF_F32) continue;
        for (size_t at = 0; at < item->n_byte; at += sizeof(float)) {
            uint32_t bits;
            memcpy(&bits, item->data + at, sizeof bits);
            if ((bits & 0x7f800000u) != 0x7f800000u) continue;
            *row = (int)(at / sizeof(float) / (size_t)(item->width ? item->width : 1));
            return item->name;
        }
    }
    return NULL;
}

uint64_t kvref_trace_hash(const kvref_trace *trace)
{
    uint64_t hash = KVREF_FNV64;
    if (trace->fault.status != KVREF_OK) return 0;
    for (size_t i = 0; i < trace->n_item; i++) {
        const char *name = trace->item[i].name;
        if (strcmp(name, "slow.kv_rows") != 0 && strcmp(name, "slow.kv_bytes") != 0 &&
            strcmp(name, "slow.decision") != 0)
            hash = fnv_item(hash, &trace->item[i]);
    }
    return hash;
}
