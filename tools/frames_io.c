/* SPDX-License-Identifier: MIT */
/* Prompts and frames from files, checked against the config. */
#include "tools/frames_io.h"

#include "base/frames.h"

#include <stdlib.h>
#include <string.h>

/* Told by content; what is no regular file is refused, so that a pipe cannot hold us up. */
static kvref_status is_npy(bool *yes, const char *path, kvref_error *err)
{
    kvref_map map;
    KVREF_TRY(kvref_map_open(&map, path, err));
    *yes = map.n_byte >= 6 && memcmp(map.data, "\x93NUMPY", 6) == 0;
    kvref_map_close(&map);
    return KVREF_OK;
}

/* Room for n columns, filled by the caller. */
static kvref_status
reserve(kvref_frames *out, const char *path, int n, const kvref_config *c, kvref_error *err)
{
    size_t n_byte;
    if (kvref_mul_size((size_t)n, (size_t)c->n_codebook + 1, &n_byte) &&
        kvref_mul_size(n_byte, sizeof *out->value, &n_byte))
        out->value = malloc(n_byte + (n_byte == 0));
    if (!out->value) return kvref_fail(err, KVREF_E_MEMORY, "%s: out of memory", path);
    out->n_frame = out->cap = n;
    return KVREF_OK;
}

/* Columns of codes; with a row for the token when the file has it. */
static kvref_status from_codes(kvref_frames *out,
                               const kvref_codes *codes,
                               const char *path,
                               const kvref_config *c,
                               kvref_error *err)
{
    int n_row = 1 + c->n_codebook;
    if (codes->n_book != n_row && codes->n_book != c->n_codebook)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "%s: expected %d rows (token and codes) or %d (codes), found %d",
                          path,
                          n_row,
                          c->n_codebook,
                          codes->n_book);
    KVREF_TRY(reserve(out, path, codes->n_frame, c, err));
    size_t n_book = (size_t)codes->n_book, skip = (size_t)n_row - n_book;
    for (int t = 0; t < codes->n_frame; t++) {
        const int32_t *from = codes->code + (size_t)t * n_book;
        int32_t *column = out->value + (size_t)t * (size_t)n_row;
        memcpy(column + skip, from, n_book * sizeof *from);
        if (skip)
            column[0] = from[0] >= 0 && from[0] < c->n_code ? c->semantic_begin + from[0] : 0;
    }
    return KVREF_OK;
}

static kvref_status
read_npy(kvref_frames *out, const char *path, const kvref_config *c, kvref_error *err)
{
    kvref_codes codes = {0};
    KVREF_TRY(kvref_codes_read(&codes, path, 1 + c->n_codebook, c->max_seq_len, err));
    kvref_status s = from_codes(out, &codes, path, c, err);
    kvref_codes_clear(&codes);
    return s;
}

static kvref_status from_tensor(kvref_frames *out,
                                const kvref_tensor *t,
                                const char *path,
                                const char *name,
                                const kvref_config *c,
                                kvref_error *err)
{
    int n_row = 1 + c->n_codebook;
    if (!t)
        return kvref_fail(
            err, KVREF_E_MISSING, "%s: expected a tensor \"%s\", found none", path, name);
    if (t->dtype != KVREF_I32 || t->n_dim != 2 || t->dim[1] != n_row)
        return kvref_fail(
            err,
            KVREF_E_SHAPE,
            "%s: %s: expected I32 [positions, %d], found %s of %d dimensions, the "
            "last of %lld",
            path,
            name,
            n_row,
            kvref_dtype_name(t->dtype),
            t->n_dim,
            t->n_dim ? (long long)t->dim[t->n_dim - 1] : 0);
    if (t->dim[0] > c->max_seq_len)
        return kvref_fail(err,
                          KVREF_E_CAPACITY,
                          "%s: %s: expected at most %d positions (max_seq_len), found %lld",
                          path,
                          name,
                          c->max_seq_len,
                          (long long)t->dim[0]);
    KVREF_TRY(kvref_tensor_load(t, err));
    KVREF_TRY(reserve(out, path, (int)t->dim[0], c, err));
    if (t->n_byte) memcpy(out->value, t->data, t->n_byte);
    return KVREF_OK;
}

kvref_status frames_read(kvref_frames *out,
                         const char *path,
                         const char *name,
                         const kvref_config *config,
                         kvref_error *err)
{
    *out = (kvref_frames){.n_row = 1 + config->n_codebook};
    kvref_status s;
    bool npy;
    KVREF_TRY(is_npy(&npy, path, err));
    if (npy) {
        s = read_npy(out, path, config, err);
    } else {
        kvref_file *file;
        KVREF_TRY(kvref_file_open(&file, path, NULL, err));
        s = from_tensor(out, kvref_file_find(file, name), path, name, config, err);
        kvref_file_close(&file);
    }
    if (s == KVREF_OK) s = kvref_frames_check(out->value, out->n_frame, config, path, err);
    if (s == KVREF_OK && out->n_frame == 0)
        s = kvref_fail(err, KVREF_E_ARG, "%s: expected at least one position, found 0", path);
    if (s != KVREF_OK) kvref_frames_clear(out);
    return s;
}
