/* SPDX-License-Identifier: MIT */
/* Prompts and frames from files, checked against the config. */
#include "tools/frames_io.h"

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_npy(const char *path)
{
    char magic[6] = {0};
    FILE *f = fopen(path, "rb");
    bool yes = f && fread(magic, 1, 6, f) == 6 && memcmp(magic, "\x93NUMPY", 6) == 0;
    if (f) fclose(f);
    return yes;
}

static kvref_status
check(const kvref_frames *frames, const char *path, const kvref_config *c, kvref_error *err)
{
    for (int t = 0; t < frames->n_frame; t++) {
        for (int r = 0; r < frames->n_row; r++) {
            int32_t x = frames->value[(size_t)t * (size_t)frames->n_row + (size_t)r];
            int end = r == 0 ? c->n_vocab : c->n_code;
            if (x < 0 || x >= end)
                return kvref_fail(err,
                                  KVREF_E_ARG,
                                  "%s: position %d, row %d: expected 0..%d, found %d",
                                  path,
                                  t,
                                  r,
                                  end - 1,
                                  x);
        }
    }
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
    int32_t column[1024];
    if (n_row > 1024 || (codes->n_book != n_row && codes->n_book != c->n_codebook))
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "%s: expected %d rows (token and codes) or %d (codes), found %d",
                          path,
                          n_row,
                          c->n_codebook,
                          codes->n_book);
    int skip = n_row - codes->n_book;
    for (int t = 0; t < codes->n_frame; t++) {
        const int32_t *from = codes->code + (size_t)t * (size_t)codes->n_book;
        for (int b = 0; b < codes->n_book; b++) column[skip + b] = from[b];
        if (skip)
            column[0] = from[0] >= 0 && from[0] < c->n_code ? c->semantic_begin + from[0] : -1;
        KVREF_TRY(kvref_frames_append(out, column, 1, err));
    }
    return KVREF_OK;
}

static kvref_status
read_npy(kvref_frames *out, const char *path, const kvref_config *c, kvref_error *err)
{
    kvref_codes codes = {0};
    KVREF_TRY(kvref_codes_read(&codes, path, err));
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
    if (t->dtype != KVREF_I32 || t->n_dim != 2 || t->dim[1] != n_row || t->dim[0] > INT32_MAX)
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
    int32_t row[1024];
    for (int64_t i = 0; i < t->dim[0] && n_row <= 1024; i++) {
        size_t n_byte = (size_t)n_row * sizeof *row;
        memcpy(row, (const char *)t->data + (size_t)i * n_byte, n_byte);
        KVREF_TRY(kvref_frames_append(out, row, 1, err));
    }
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
    if (is_npy(path)) {
        s = read_npy(out, path, config, err);
    } else {
        kvref_file *file;
        KVREF_TRY(kvref_file_open(&file, path, NULL, err));
        s = from_tensor(out, kvref_file_find(file, name), path, name, config, err);
        kvref_file_close(&file);
    }
    if (s == KVREF_OK) s = check(out, path, config, err);
    if (s == KVREF_OK && out->n_frame == 0)
        s = kvref_fail(err, KVREF_E_ARG, "%s: expected at least one position, found 0", path);
    if (s != KVREF_OK) kvref_frames_clear(out);
    return s;
}
