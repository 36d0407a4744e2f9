/* SPDX-License-Identifier: MIT */
/* Torch archive writer. Entries: codec/data.pkl, codec/data/0, codec/data/1, ..., and
 * codec/version. The pickle (protocol 2) is one dict from name to
 *   torch._utils._rebuild_tensor_v2(storage, 0, size, stride, False, OrderedDict()).
 * Sizes and sums stand in data descriptors and in the directory, as torch has them. */
#include "base/pth_write.h"

#include "base/zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, LOCAL = 30, CENTRAL = 46, DESCRIPTOR = 16 };

typedef struct bytes {
    uint8_t *data;
    size_t n, cap;
    kvref_status status; /* the first failure; later puts do nothing */
} bytes;

typedef struct entry {
    char name[32];
    uint32_t crc, n_byte, at;
} entry;

struct kvref_pth_writer {
    kvref_out *out;
    const kvref_tensor *tensor;
    entry *entry; /* pickle, one per tensor, version */
    int n_tensor, n_entry;
    uint64_t at;   /* bytes of the archive so far     */
    uint64_t left; /* bytes of the open entry to come */
};

static void put(bytes *b, const void *data, size_t n)
{
    if (b->status == KVREF_OK)
        b->status = kvref_grow((void **)&b->data, &b->cap, b->n + n, 1, NULL);
    if (b->status != KVREF_OK) return;
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

/* Little-endian. */
static void put_int(bytes *b, uint64_t value, int width)
{
    uint8_t le[8];
    for (int i = 0; i < width; i++) le[i] = (uint8_t)(value >> 8 * i);
    put(b, le, (size_t)width);
}

static void put_text(bytes *b, const char *text)
{
    put(b, text, strlen(text));
}

/* BINUNICODE */
static void put_string(bytes *b, const char *text)
{
    put_text(b, "X");
    put_int(b, strlen(text), 4);
    put_text(b, text);
}

/* BININT */
static void put_number(bytes *b, int64_t value)
{
    put_text(b, "J");
    put_int(b, (uint64_t)value, 4);
}

static const char *storage_class(kvref_dtype dtype)
{
    switch (dtype) {
    case KVREF_F32:
        return "FloatStorage";
    case KVREF_F16:
        return "HalfStorage";
    case KVREF_BF16:
        return "BFloat16Storage";
    case KVREF_BOOL:
        return "BoolStorage";
    default:
        return NULL;
    }
}

static void put_tensor(bytes *b, const kvref_tensor *t, int key)
{
    char text[64];
    put_string(b, t->name);
    put_text(b, "ctorch._utils\n_rebuild_tensor_v2\n((");
    put_string(b, "storage");
    snprintf(text, sizeof text, "ctorch\n%s\n", storage_class(t->dtype));
    put_text(b, text);
    snprintf(text, sizeof text, "%d", key);
    put_string(b, text);
    put_string(b, "cpu");
    put_number(b, (int64_t)(t->n_byte / kvref_dtype_size(t->dtype)));
    put_text(b, "tQ");
    put_number(b, 0);
    put_text(b, "(");
    for (int i = 0; i < t->n_dim; i++) put_number(b, t->dim[i]);
    put_text(b, "t(");
    for (int i = 0; i < t->n_dim; i++) {
        int64_t stride = 1;
        for (int k = i + 1; k < t->n_dim; k++) stride *= t->dim[k];
        put_number(b, stride);
    }
    put_text(b,
             "t\x89"
             "ccollections\nOrderedDict\n)RtR");
}

static void make_pickle(bytes *b, const kvref_tensor *tensor, int n)
{
    put_text(b, "\x80\x02}(");
    for (int i = 0; i < n; i++) put_tensor(b, &tensor[i], i);
    put_text(b, "u.");
}

/* Writes what was gathered and empties it. */
static kvref_status flush(kvref_pth_writer *w, bytes *b, kvref_error *err)
{
    kvref_status status = b->status;
    if (status == KVREF_OK)
        status = kvref_out_put(w->out, b->data, b->n, err);
    else
        kvref_fail(err, status, "torch archive: out of memory");
    w->at += b->n;
    free(b->data);
    *b = (bytes){0};
    return status;
}

static void put_head(bytes *b, const entry *e)
{
    put_int(b, 0, 2);                           /* version needed */
    put_int(b, e->n_byte ? 0x0808 : 0x0800, 2); /* descriptor, UTF-8 names */
    put_int(b, 0, 2);                           /* stored */
    put_int(b, 0, 4);                           /* time, date */
}

/* Starts the next entry; an extra field pads its data to a multiple of 64. */
static kvref_status
begin(kvref_pth_writer *w, const char *name, size_t n_byte, kvref_error *err)
{
    entry *e = &w->entry[w->n_entry];
    bytes b = {0};
    snprintf(e->name, sizeof e->name, "%s", name);
    e->n_byte = (uint32_t)n_byte;
    e->at = (uint32_t)w->at;
    w->left = n_byte;
    size_t fixed = LOCAL + strlen(e->name) + 4;
    size_t pad = (ALIGN - (w->at + fixed) % ALIGN) % ALIGN;
    put_text(&b, "PK\x03\x04");
    put_head(&b, e);
    put_int(&b, 0, 4);
    put_int(&b, 0, 8); /* both sizes */
    put_int(&b, strlen(e->name), 2);
    put_int(&b, pad + 4, 2);
    put_text(&b, e->name);
    put_text(&b, "FB");
    put_int(&b, pad, 2);
    for (size_t i = 0; i < pad; i++) put_text(&b, "Z");
    return flush(w, &b, err);
}

static kvref_status end(kvref_pth_writer *w, kvref_error *err)
{
    const entry *e = &w->entry[w->n_entry++];
    bytes b = {0};
    if (e->n_byte == 0) return KVREF_OK;
    put_text(&b, "PK\x07\x08");
    put_int(&b, e->crc, 4);
    put_int(&b, e->n_byte, 4);
    put_int(&b, e->n_byte, 4);
    return flush(w, &b, err);
}

static kvref_status
whole(kvref_pth_writer *w, const char *name, const void *data, size_t n_byte, kvref_error *err)
{
    KVREF_TRY(begin(w, name, n_byte, err));
    KVREF_TRY(kvref_out_put(w->out, data, n_byte, err));
    w->entry[w->n_entry].crc = kvref_zip_crc(0, data, n_byte);
    w->at += n_byte;
    return end(w, err);
}

/* The entry of the next tensor. */
static kvref_status next_tensor(kvref_pth_writer *w, kvref_error *err)
{
    char name[32];
    int i = w->n_entry - 1;
    if (i >= w->n_tensor) return KVREF_OK;
    snprintf(name, sizeof name, "codec/data/%d", i);
    return begin(w, name, w->tensor[i].n_byte, err);
}

static kvref_status
check(const kvref_tensor *tensor, int n_tensor, const char *path, kvref_error *err)
{
    uint64_t total = 1 << 20;
    for (int i = 0; i < n_tensor; i++) {
        if (!storage_class(tensor[i].dtype) || tensor[i].n_byte == 0)
            return kvref_fail(err, KVREF_E_ARG, "%s: %s: dtype or size", path, tensor[i].name);
        total += tensor[i].n_byte + 512;
        if (total > UINT32_MAX || i > 60000)
            return kvref_fail(
                err, KVREF_E_UNSUPPORTED, "%s: archives of 4 GiB are not written", path);
    }
    return KVREF_OK;
}

kvref_status kvref_pth_writer_open(kvref_pth_writer **out,
                                   const char *path,
                                   const kvref_tensor *tensor,
                                   int n_tensor,
                                   kvref_error *err)
{
    *out = NULL;
    KVREF_TRY(check(tensor, n_tensor, path, err));
    kvref_pth_writer *w = calloc(1, sizeof *w);
    if (w) w->entry = calloc((size_t)n_tensor + 2, sizeof *w->entry);
    if (!w || !w->entry) {
        free(w);
        return kvref_fail(err, KVREF_E_MEMORY, "%s: out of memory", path);
    }
    w->tensor = tensor;
    w->n_tensor = n_tensor;
    bytes pickle = {0};
    make_pickle(&pickle, tensor, n_tensor);
    kvref_status status = kvref_out_open(&w->out, path, err);
    if (status == KVREF_OK && pickle.status != KVREF_OK)
        status = kvref_fail(err, pickle.status, "%s: out of memory", path);
    if (status == KVREF_OK) status = whole(w, "codec/data.pkl", pickle.data, pickle.n, err);
    if (status == KVREF_OK) status = next_tensor(w, err);
    free(pickle.data);
    if (status != KVREF_OK) {
        kvref_pth_writer_abort(&w);
        return status;
    }
    *out = w;
    return KVREF_OK;
}

kvref_status
kvref_pth_writer_put(kvref_pth_writer *w, const void *data, size_t n_byte, kvref_error *err)
{
    if (n_byte > w->left)
        return kvref_fail(err, KVREF_E_ARG, "torch archive: more bytes than declared");
    entry *e = &w->entry[w->n_entry];
    KVREF_TRY(kvref_out_put(w->out, data, n_byte, err));
    e->crc = kvref_zip_crc(e->crc, data, n_byte);
    w->at += n_byte;
    w->left -= n_byte;
    if (w->left) return KVREF_OK;
    KVREF_TRY(end(w, err));
    return next_tensor(w, err);
}

static void put_directory(bytes *b, const kvref_pth_writer *w)
{
    for (int i = 0; i < w->n_entry; i++) {
        const entry *e = &w->entry[i];
        put_text(b, "PK\x01\x02");
        put_int(b, 0, 2); /* made by */
        put_head(b, e);
        put_int(b, e->crc, 4);
        put_int(b, e->n_byte, 4);
        put_int(b, e->n_byte, 4);
        put_int(b, strlen(e->name), 2);
        for (int k = 0; k < 6; k++) put_int(b, 0, 2); /* extra, comment, disk, attributes */
        put_int(b, e->at, 4);
        put_text(b, e->name);
    }
    uint64_t n_byte = b->n;
    put_text(b, "PK\x05\x06");
    put_int(b, 0, 4);
    put_int(b, (uint64_t)w->n_entry, 2);
    put_int(b, (uint64_t)w->n_entry, 2);
    put_int(b, n_byte, 4);
    put_int(b, w->at, 4);
    put_int(b, 0, 2);
}

kvref_status kvref_pth_writer_commit(kvref_pth_writer **w, kvref_error *err)
{
    kvref_pth_writer *p = *w;
    bytes b = {0};
    kvref_status status = KVREF_OK;
    if (p->left || p->n_entry != p->n_tensor + 1)
        status = kvref_fail(err, KVREF_E_ARG, "torch archive: fewer bytes than declared");
    if (status == KVREF_OK) status = whole(p, "codec/version", "3\n", 2, err);
    if (status == KVREF_OK) {
        put_directory(&b, p);
        status = flush(p, &b, err);
    }
    if (status == KVREF_OK) status = kvref_out_commit(&p->out, err);
    kvref_pth_writer_abort(w);
    return status;
}

void kvref_pth_writer_abort(kvref_pth_writer **w)
{
    if (!*w) return;
    if ((*w)->out) kvref_out_abort(&(*w)->out);
    free((*w)->entry);
    free(*w);
    *w = NULL;
}
