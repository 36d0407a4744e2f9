/* SPDX-License-Identifier: MIT */
/* One tensor of a .pth archive: a view (offset, sizes, strides, all in elements) of a storage
 * P/data/K (spec 01 section 5.2). Element (i0, i1, ...) is number offset + sum_k i_k*stride_k
 * of the storage. Every product and sum is checked; a view has at most as many elements as
 * its storage, so nothing is larger than the file. */
#include "base/pth.h"

#include <string.h>

typedef struct view {
    const char *name;
    int n_name;
    kvref_tensor tensor;
    kvref_view at;
    int64_t n_elem, n_storage; /* elements of the tensor, of its storage */
} view;

static kvref_status
bad(const kvref_pth *r, const view *v, kvref_status status, const char *what, kvref_error *err)
{
    return kvref_fail(err, status, "%s: tensor %.*s: %s", r->path, v->n_name, v->name, what);
}

/* Finds the storage's bytes and checks their number. */
static kvref_status
read_storage(const kvref_pth *r, view *v, const kvref_value *storage, kvref_error *err)
{
    const kvref_value *part = r->pickle.pool + storage->at; /* class, key, location, elements */
    const char *key = (const char *)r->pickle.data + part[1].at;
    char head[KVREF_ZIP_MAX_NAME];
    int n_key = (int)(part[1].n < 80 ? part[1].n : 80);
    v->tensor.dtype = (kvref_dtype)part[0].at;
    v->n_storage = part[3].at;
    memcpy(head, r->pkl->name, r->n_folder);
    memcpy(head + r->n_folder, "data/", 5);
    const kvref_zip_entry *e = kvref_zip_find(&r->zip, head, r->n_folder + 5, key, part[1].n);
    if (!e)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: tensor %.*s: the archive has no storage '%.*s'",
                          r->path,
                          v->n_name,
                          v->name,
                          n_key,
                          key);
    int64_t n_byte;
    if (v->n_storage < 0 ||
        __builtin_mul_overflow(
            v->n_storage, (int64_t)kvref_dtype_size(v->tensor.dtype), &n_byte) ||
        (size_t)n_byte != e->n_byte)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: tensor %.*s: storage '%.*s': expected %lld elements of %s, "
                          "found %zu bytes",
                          r->path,
                          v->n_name,
                          v->name,
                          n_key,
                          key,
                          (long long)v->n_storage,
                          kvref_dtype_name(v->tensor.dtype),
                          e->n_byte);
    v->at.storage = e->data;
    return KVREF_OK;
}

/* Copies sizes and strides out of their tuples. */
static kvref_status read_axes(const kvref_pth *r,
                              view *v,
                              const kvref_value *sizes,
                              const kvref_value *strides,
                              kvref_error *err)
{
    if (sizes->n > KVREF_MAX_DIM)
        return bad(r, v, KVREF_E_UNSUPPORTED, "more than 8 axes", err);
    if (sizes->n != strides->n)
        return bad(r, v, KVREF_E_FORMAT, "as many strides as sizes expected", err);
    v->tensor.n_dim = (int)sizes->n;
    for (uint32_t k = 0; k < sizes->n; k++) {
        kvref_value size = r->pickle.pool[sizes->at + k];
        kvref_value stride = r->pickle.pool[strides->at + k];
        if (size.kind != KVREF_V_INT || stride.kind != KVREF_V_INT)
            return bad(r, v, KVREF_E_FORMAT, "a size or stride that is no integer", err);
        if (size.at < 0) return bad(r, v, KVREF_E_FORMAT, "a negative size", err);
        if (stride.at < 0) return bad(r, v, KVREF_E_UNSUPPORTED, "a negative stride", err);
        v->tensor.dim[k] = size.at;
        v->at.stride[k] = stride.at;
    }
    return KVREF_OK;
}

/* Number of elements, and that none lies outside the storage. */
static kvref_status measure(const kvref_pth *r, view *v, kvref_error *err)
{
    int64_t n = 1, last = v->at.offset, way;
    bool empty = false;
    if (v->at.offset < 0) return bad(r, v, KVREF_E_FORMAT, "a negative storage offset", err);
    for (int k = 0; k < v->tensor.n_dim; k++) {
        empty = empty || v->tensor.dim[k] == 0;
        if (__builtin_mul_overflow(n, v->tensor.dim[k] ? v->tensor.dim[k] : 1, &n))
            return bad(r, v, KVREF_E_FORMAT, "sizes whose product passes 63 bits", err);
    }
    for (int k = 0; !empty && k < v->tensor.n_dim; k++)
        if (__builtin_mul_overflow(v->tensor.dim[k] - 1, v->at.stride[k], &way) ||
            __builtin_add_overflow(last, way, &last))
            return bad(r, v, KVREF_E_FORMAT, "strides that pass 63 bits", err);
    v->n_elem = empty ? 0 : n;
    if (v->n_elem > v->n_storage)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: tensor %.*s: %lld elements in a storage of %lld (an expanded "
                          "view?)",
                          r->path,
                          v->n_name,
                          v->name,
                          (long long)v->n_elem,
                          (long long)v->n_storage);
    if (!empty && last >= v->n_storage)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: tensor %.*s: reaches element %lld of a storage of %lld",
                          r->path,
                          v->n_name,
                          v->name,
                          (long long)last,
                          (long long)v->n_storage);
    return KVREF_OK;
}

static bool is_contiguous(const view *v)
{
    int64_t run = 1;
    for (int k = v->tensor.n_dim - 1; k >= 0; k--) {
        if (v->tensor.dim[k] != 1 && v->at.stride[k] != run) return false;
        run *= v->tensor.dim[k];
    }
    return true;
}

/* n elements of `size` bytes, `way` bytes apart. */
static void gather_row(uint8_t *to, const uint8_t *from, int64_t n, size_t size, int64_t way)
{
    switch (size) {
    case 1:
        for (int64_t i = 0; i < n; i++) to[i] = from[i * way];
        break;
    case 2:
        for (int64_t i = 0; i < n; i++) memcpy(to + 2 * i, from + i * way, 2);
        break;
    case 4:
        for (int64_t i = 0; i < n; i++) memcpy(to + 4 * i, from + i * way, 4);
        break;
    default:
        for (int64_t i = 0; i < n; i++) memcpy(to + 8 * i, from + i * way, 8);
    }
}

/* All elements in row-major order: an odometer over all axes but the last. */
void kvref_view_gather(uint8_t *to,
                       const kvref_view *of,
                       const kvref_tensor *shape,
                       int64_t n_elem)
{
    size_t size = kvref_dtype_size(shape->dtype);
    int last = shape->n_dim - 1;
    int64_t n_row = last < 0 ? 1 : shape->dim[last];
    int64_t way = n_row == 1 ? 0 : of->stride[last]; /* of one element it may be anything */
    int64_t at[KVREF_MAX_DIM] = {0};
    for (int64_t done = 0; done < n_elem; done += n_row) {
        int64_t from = of->offset;
        for (int k = 0; k < last; k++) from += at[k] * of->stride[k];
        gather_row(to + (size_t)done * size,
                   of->storage + (size_t)from * size,
                   n_row,
                   size,
                   way * (int64_t)size);
        for (int k = last - 1; k >= 0 && ++at[k] == shape->dim[k]; k--) at[k] = 0;
    }
}

/* Contiguous tensors are used in place, and then unread (codec files hold large masks that
 * nobody uses); others are gathered when they are loaded. */
kvref_status
kvref_pth_add(kvref_pth *r, const char *name, size_t n_name, uint32_t at, kvref_error *err)
{
    const kvref_value *arg = r->pickle.pool + at; /* storage, offset, sizes, strides, ... */
    view v = {.name = name, .n_name = (int)(n_name < 150 ? n_name : 150)};
    v.at.offset = arg[1].at;
    KVREF_TRY(read_storage(r, &v, &arg[0], err));
    KVREF_TRY(read_axes(r, &v, &arg[2], &arg[3], err));
    KVREF_TRY(measure(r, &v, err));
    size_t size = kvref_dtype_size(v.tensor.dtype);
    v.tensor.n_byte = (size_t)v.n_elem * size;
    v.tensor.data = v.at.storage + (v.n_elem ? (size_t)v.at.offset * size : 0);
    if (v.n_elem > 0 && !is_contiguous(&v))
        return kvref_file_add_view(r->file, r->part, name, n_name, &v.tensor, &v.at, err);
    return kvref_file_add(r->file, r->part, name, n_name, &v.tensor, err);
}
