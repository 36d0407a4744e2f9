/* SPDX-License-Identifier: MIT */
/* The container behind kvref_file: mapped parts, and tensors sorted by name that point into
 * them. A format reader fills it through base/file.h; nothing is visible before all is read
 * and checked. */
#include "base/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {[KVREF_F32] = {"F32", 4},
              [KVREF_F16] = {"F16", 2},
              [KVREF_BF16] = {"BF16", 2},
              [KVREF_F64] = {"F64", 8},
              [KVREF_I64] = {"I64", 8},
              [KVREF_I32] = {"I32", 4},
              [KVREF_I16] = {"I16", 2},
              [KVREF_I8] = {"I8", 1},
              [KVREF_U8] = {"U8", 1},
              [KVREF_BOOL] = {"BOOL", 1}};

size_t kvref_dtype_size(kvref_dtype dtype)
{
    return dtypes[dtype].size;
}

const char *kvref_dtype_name(kvref_dtype dtype)
{
    return dtypes[dtype].name;
}

bool kvref_dtype_parse(kvref_dtype *out, const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(name, dtypes[i].name) == 0) {
            *out = (kvref_dtype)i;
            return true;
        }
    }
    return false;
}

bool kvref_tensor_bytes(size_t *out, kvref_dtype dtype, int n_dim, const int64_t *dim)
{
    size_t n = kvref_dtype_size(dtype);
    for (int i = 0; i < n_dim; i++) {
        if (dim[i] < 0 || !kvref_mul_size(n, (size_t)dim[i], &n)) return false;
    }
    *out = n;
    return true;
}

kvref_status kvref_file_new(kvref_file **out, kvref_error *err)
{
    *out = calloc(1, sizeof **out);
    return *out ? KVREF_OK : kvref_fail(err, KVREF_E_MEMORY, "out of memory");
}

static kvref_status
add_part(kvref_file *f, int *index, const char *path, const kvref_map *map, kvref_error *err)
{
    KVREF_TRY(
        kvref_grow((void **)&f->part, &f->cap_part, f->n_part + 1, sizeof f->part[0], err));
    char *copy = strdup(path);
    if (!copy) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    f->part[f->n_part] = (kvref_part){copy, *map};
    *index = (int)f->n_part++;
    return KVREF_OK;
}

kvref_status kvref_file_add_part(kvref_file *f, int *index, const char *path, kvref_error *err)
{
    kvref_map map;
    KVREF_TRY(kvref_map_open(&map, path, err));
    kvref_status s = add_part(f, index, path, &map, err);
    if (s != KVREF_OK) kvref_map_close(&map);
    return s;
}

kvref_status kvref_file_add_memory(kvref_file *f,
                                   int *index,
                                   const char *path,
                                   const void *data,
                                   size_t n_byte,
                                   kvref_error *err)
{
    return add_part(f, index, path, &(kvref_map){.data = data, .n_byte = n_byte}, err);
}

kvref_status kvref_file_add(kvref_file *f,
                            int part,
                            const char *name,
                            size_t n_name,
                            const kvref_tensor *tensor,
                            kvref_error *err)
{
    const char *path = f->part[part].path;
    if (n_name < 1 || n_name > KVREF_MAX_NAME)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: tensor name of %zu bytes, expected 1..%d",
                          path,
                          n_name,
                          KVREF_MAX_NAME);
    if (f->n_entry == KVREF_MAX_TENSOR)
        return kvref_fail(
            err, KVREF_E_FORMAT, "%s: more than %d tensors", path, KVREF_MAX_TENSOR);
    KVREF_TRY(
        kvref_grow((void **)&f->entry, &f->cap_entry, f->n_entry + 1, sizeof f->entry[0], err));
    char *copy = strndup(name, n_name);
    if (!copy) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    f->entry[f->n_entry] = (kvref_entry){.tensor = *tensor, .part = part};
    f->entry[f->n_entry++].tensor.name = copy;
    return KVREF_OK;
}

kvref_status kvref_file_add_view(kvref_file *f,
                                 int part,
                                 const char *name,
                                 size_t n_name,
                                 const kvref_tensor *tensor,
                                 const kvref_view *view,
                                 kvref_error *err)
{
    KVREF_TRY(kvref_file_add(f, part, name, n_name, tensor, err));
    kvref_entry *e = &f->entry[f->n_entry - 1];
    e->view = malloc(sizeof *view);
    if (!e->view) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    *e->view = *view;
    e->tensor.data = NULL;
    return KVREF_OK;
}

kvref_status kvref_tensor_load(const kvref_tensor *tensor, kvref_error *err)
{
    kvref_entry *e = (kvref_entry *)tensor;
    if (!e->view || e->gathered) return KVREF_OK;
    e->gathered = malloc(tensor->n_byte);
    if (!e->gathered)
        return kvref_fail(err,
                          KVREF_E_MEMORY,
                          "tensor %s: out of memory (%zu bytes)",
                          tensor->name,
                          tensor->n_byte);
    kvref_view_gather(e->gathered,
                      e->view,
                      tensor,
                      (int64_t)(tensor->n_byte / kvref_dtype_size(tensor->dtype)));
    e->tensor.data = e->gathered;
    return KVREF_OK;
}

kvref_status
kvref_file_add_meta(kvref_file *f, const char *key, const char *value, kvref_error *err)
{
    KVREF_TRY(
        kvref_grow((void **)&f->meta, &f->cap_meta, 2 * f->n_meta + 2, sizeof f->meta[0], err));
    char *k = strdup(key), *v = strdup(value);
    if (!k || !v) {
        free(k);
        free(v);
        return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    }
    f->meta[2 * f->n_meta] = k;
    f->meta[2 * f->n_meta++ + 1] = v;
    return KVREF_OK;
}

static int by_name(const void *a, const void *b)
{
    const kvref_entry *x = a, *y = b;
    int order = strcmp(x->tensor.name, y->tensor.name);
    return order ? order : x->part - y->part;
}

kvref_status kvref_file_finish(kvref_file *f, kvref_error *err)
{
    if (f->n_entry) qsort(f->entry, f->n_entry, sizeof f->entry[0], by_name);
    for (size_t i = 1; i < f->n_entry; i++) {
        const kvref_entry *a = &f->entry[i - 1], *b = &f->entry[i];
        if (strcmp(a->tensor.name, b->tensor.name) != 0) continue;
        const char *first = f->part[a->part].path, *second = f->part[b->part].path;
        if (a->part == b->part)
            return kvref_fail(err,
                              KVREF_E_FORMAT,
                              "%s: tensor %s: found twice, expected once",
                              first,
                              a->tensor.name);
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: tensor %s: found again in %s, expected in one file",
                          first,
                          a->tensor.name,
                          second);
    }
    return KVREF_OK;
}

/* A zip signature, or the .pth name where the ninth byte cannot start a safetensors header. */
static bool looks_like_pth(const kvref_part *p)
{
    size_t n_path = strlen(p->path);
    if (p->map.n_byte >= 4 &&
        (memcmp(p->map.data, "PK\3\4", 4) == 0 || memcmp(p->map.data, "PK\5\6", 4) == 0))
        return true;
    return n_path > 4 && strcmp(p->path + n_path - 4, ".pth") == 0 &&
           (p->map.n_byte < 9 || p->map.data[8] != '{');
}

static kvref_status
open_one(kvref_file *f, const char *path, const kvref_log *log, kvref_error *err)
{
    int part;
    KVREF_TRY(kvref_file_add_part(f, &part, path, err));
    f->is_pth = looks_like_pth(&f->part[part]);
    KVREF_TRY(f->is_pth ? kvref_pth_parse(f, part, log, err)
                        : kvref_safetensors_parse(f, part, err));
    return kvref_file_finish(f, err);
}

kvref_status
kvref_file_open(kvref_file **out, const char *path, const kvref_log *log, kvref_error *err)
{
    KVREF_TRY(kvref_file_new(out, err));
    kvref_status s = open_one(*out, path, log, err);
    if (s != KVREF_OK) kvref_file_close(out);
    return s;
}

/* Whether dir/name exists, be it a link to nothing; another failure than absence is left for
 * the opening to report. */
static kvref_status probe(char **path, const char *dir, const char *name, kvref_error *err)
{
    struct stat st;
    *path = kvref_path_join(dir, name);
    if (!*path) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    if (lstat(*path, &st) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        free(*path);
        *path = NULL;
    }
    return KVREF_OK;
}

kvref_status
kvref_file_open_dir(kvref_file **out, const char *dir, const kvref_log *log, kvref_error *err)
{
    static const char *const name[] = {
        "model.safetensors.index.json", "model.safetensors", "model.pth"};
    *out = NULL;
    char *path = NULL;
    int i = 0;
    for (; i < 3 && !path; i++) KVREF_TRY(probe(&path, dir, name[i], err));
    if (!path)
        return kvref_fail(err,
                          KVREF_E_MISSING,
                          "%s: no weights: expected %s, %s or %s",
                          dir,
                          name[0],
                          name[1],
                          name[2]);
    kvref_status s = kvref_file_new(out, err);
    if (s == KVREF_OK)
        s = i == 1 ? kvref_shards_open(*out, dir, path, log, err)
                   : open_one(*out, path, log, err);
    free(path);
    if (s != KVREF_OK) kvref_file_close(out);
    return s;
}

int kvref_file_count(const kvref_file *file)
{
    return (int)file->n_entry;
}

const kvref_tensor *kvref_file_at(const kvref_file *file, int i)
{
    return &file->entry[i].tensor;
}

static int name_against_entry(const void *name, const void *entry)
{
    return strcmp(name, ((const kvref_entry *)entry)->tensor.name);
}

const kvref_tensor *kvref_file_find(const kvref_file *file, const char *name)
{
    if (!file->n_entry) return NULL;
    const kvref_entry *e =
        bsearch(name, file->entry, file->n_entry, sizeof file->entry[0], name_against_entry);
    return e ? &e->tensor : NULL;
}

const char *kvref_file_meta(const kvref_file *file, const char *key)
{
    for (size_t i = 0; i < file->n_meta; i++) {
        if (strcmp(file->meta[2 * i], key) == 0) return file->meta[2 * i + 1];
    }
    return NULL;
}

const char *kvref_file_path_of(const kvref_file *file, const kvref_tensor *tensor)
{
    const kvref_entry *e = (const kvref_entry *)tensor;
    return file->part[e->part].path;
}

void kvref_entry_clear(kvref_entry *e)
{
    free((char *)e->tensor.name);
    free(e->view);
    free(e->gathered);
}

void kvref_file_close(kvref_file **file)
{
    kvref_file *f = *file;
    if (!f) return;
    for (size_t i = 0; i < f->n_part; i++) {
        kvref_map_close(&f->part[i].map);
        free(f->part[i].path);
    }
    for (size_t i = 0; i < f->n_entry; i++) kvref_entry_clear(&f->entry[i]);
    for (size_t i = 0; i < 2 * f->n_meta; i++) free(f->meta[i]);
    free(f->part);
    free(f->entry);
    free(f->meta);
    free(f);
    *file = NULL;
}
