/* SPDX-License-Identifier: MIT */
/* A checkpoint in several safetensors files with an index
 *   {"metadata": {...}, "weight_map": {"tensor name": "file name", ...}}
 * (spec 01 section 4). Files must lie beside the index. A tensor that the index names must be
 * in that file; one in two files is an error; one that the index does not name is ignored. */
#include "base/file.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_INDEX = 8 << 20, MAX_SHARD = 256 };

typedef struct place {
    char *tensor, *file;
    int part;
} place;

typedef struct shard_map {
    const char *path;
    place *place; /* [n_place] by file, later by tensor */
    size_t n_place, cap_place;
    bool has_map;
} shard_map;

static kvref_status
add_place(shard_map *x, const char *tensor, const json_t *file, kvref_error *err)
{
    char text[48];
    const char *name = json_string_value(file);
    if (!name)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: weight_map: %s: expected a file name, found %s",
                          x->path,
                          tensor,
                          kvref_json_show(text, file));
    if (!*name || strchr(name, '/') || strchr(name, '\\') || strcmp(name, ".") == 0 ||
        strcmp(name, "..") == 0 || strlen(name) > KVREF_MAX_NAME)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: weight_map: %s: expected the name of a file beside the index, "
                          "found \"%s\"",
                          x->path,
                          tensor,
                          name);
    if (x->n_place == KVREF_MAX_TENSOR)
        return kvref_fail(
            err, KVREF_E_FORMAT, "%s: more than %d tensors", x->path, KVREF_MAX_TENSOR);
    KVREF_TRY(
        kvref_grow((void **)&x->place, &x->cap_place, x->n_place + 1, sizeof x->place[0], err));
    place *l = &x->place[x->n_place++];
    *l = (place){strdup(tensor), strdup(name), 0};
    return l->tensor && l->file ? KVREF_OK : kvref_fail(err, KVREF_E_MEMORY, "out of memory");
}

static kvref_status read_map(shard_map *x, const kvref_json_walk *top, kvref_error *err)
{
    if (x->has_map)
        return kvref_fail(err, KVREF_E_FORMAT, "%s: weight_map: found twice", x->path);
    x->has_map = true;
    kvref_json_walk w = {0};
    json_t *file = NULL;
    bool more = false;
    kvref_status s = kvref_json_open(&w, x->path, top->value, top->n_value, err);
    while (s == KVREF_OK && (s = kvref_json_next(&w, &more, err)) == KVREF_OK && more) {
        s = kvref_json_leaf(&file, &w, err);
        if (s != KVREF_OK) break;
        s = add_place(x, kvref_json_key(&w), file, err);
        json_decref(file);
    }
    kvref_json_close(&w);
    return s;
}

static kvref_status read_top(shard_map *x, kvref_json_walk *w, kvref_error *err)
{
    for (;;) {
        bool more;
        KVREF_TRY(kvref_json_next(w, &more, err));
        if (!more) break;
        if (strcmp(kvref_json_key(w), "weight_map") == 0) {
            KVREF_TRY(read_map(x, w, err));
        } else {
            json_t *other;
            KVREF_TRY(kvref_json_leaf(&other, w, err));
            json_decref(other);
        }
    }
    if (!x->has_map) return kvref_fail(err, KVREF_E_MISSING, "%s: no weight_map", x->path);
    return KVREF_OK;
}

static kvref_status read_index(shard_map *x, kvref_error *err)
{
    kvref_map map;
    kvref_json_walk w = {0};
    KVREF_TRY(kvref_map_open(&map, x->path, err));
    kvref_status s;
    if (map.n_byte > MAX_INDEX)
        s = kvref_fail(err,
                       KVREF_E_FORMAT,
                       "%s: index of %zu bytes, expected at most %d",
                       x->path,
                       map.n_byte,
                       MAX_INDEX);
    else
        s = kvref_json_open(&w, x->path, (const char *)map.data, map.n_byte, err);
    if (s == KVREF_OK) s = read_top(x, &w, err);
    kvref_json_close(&w);
    kvref_map_close(&map);
    return s;
}

static int by_file(const void *a, const void *b)
{
    return strcmp(((const place *)a)->file, ((const place *)b)->file);
}

static int by_tensor(const void *a, const void *b)
{
    return strcmp(((const place *)a)->tensor, ((const place *)b)->tensor);
}

/* Opens every distinct file once, in order of name. */
static kvref_status open_files(kvref_file *f, const char *dir, shard_map *x, kvref_error *err)
{
    int part = -1;
    if (x->n_place) qsort(x->place, x->n_place, sizeof x->place[0], by_file);
    for (size_t i = 0; i < x->n_place; i++) {
        if (i == 0 || by_file(&x->place[i - 1], &x->place[i]) != 0) {
            if (f->n_part == MAX_SHARD)
                return kvref_fail(
                    err, KVREF_E_FORMAT, "%s: more than %d files", x->path, MAX_SHARD);
            char *path = kvref_path_join(dir, x->place[i].file);
            if (!path) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
            kvref_status s = kvref_file_add_part(f, &part, path, err);
            free(path);
            if (s == KVREF_OK) s = kvref_safetensors_parse(f, part, err);
            if (s != KVREF_OK) return s;
        }
        x->place[i].part = part;
    }
    return kvref_file_finish(f, err);
}

/* Every tensor of the index must be where it says. */
static kvref_status check_places(const kvref_file *f, const shard_map *x, kvref_error *err)
{
    for (size_t i = 0; i < x->n_place; i++) {
        const place *l = &x->place[i];
        if (i && by_tensor(l - 1, l) == 0)
            return kvref_fail(
                err, KVREF_E_FORMAT, "%s: weight_map: %s: found twice", x->path, l->tensor);
        const kvref_tensor *t = kvref_file_find(f, l->tensor);
        if (!t || ((const kvref_entry *)t)->part != l->part)
            return kvref_fail(err,
                              KVREF_E_MISSING,
                              "%s: tensor %s: expected by %s, found %s",
                              f->part[l->part].path,
                              l->tensor,
                              x->path,
                              t ? kvref_file_path_of(f, t) : "nowhere");
    }
    return KVREF_OK;
}

/* Removes what the index does not name. */
static void drop_unnamed(kvref_file *f, const shard_map *x, const kvref_log *log)
{
    size_t kept = 0, n = f->n_entry;
    for (size_t i = 0; i < n; i++) {
        kvref_entry *e = &f->entry[i];
        place key = {.tensor = (char *)e->tensor.name};
        if (x->n_place && bsearch(&key, x->place, x->n_place, sizeof x->place[0], by_tensor)) {
            f->entry[kept++] = *e;
            continue;
        }
        if (i - kept < 16)
            kvref_note(log,
                       "%s: tensor %s: not in the index, ignored",
                       f->part[e->part].path,
                       e->tensor.name);
        kvref_entry_clear(e);
    }
    f->n_entry = kept;
    if (n - kept > 16)
        kvref_note(log, "%s: %zu more tensors not in the index", x->path, n - kept - 16);
}

kvref_status kvref_shards_open(kvref_file *f,
                               const char *dir,
                               const char *index_path,
                               const kvref_log *log,
                               kvref_error *err)
{
    shard_map x = {.path = index_path};
    kvref_status s = read_index(&x, err);
    if (s == KVREF_OK) s = open_files(f, dir, &x, err);
    if (s == KVREF_OK && x.n_place) qsort(x.place, x.n_place, sizeof x.place[0], by_tensor);
    if (s == KVREF_OK) s = check_places(f, &x, err);
    if (s == KVREF_OK) drop_unnamed(f, &x, log);
    for (size_t i = 0; i < x.n_place; i++) {
        free(x.place[i].tensor);
        free(x.place[i].file);
    }
    free(x.place);
    return s;
}
