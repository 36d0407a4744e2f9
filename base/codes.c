/* SPDX-License-Identifier: MIT */
/* Codes of audio frames as .npy arrays [n_book, n_frame] (spec 05 section 7): any integer dtype
 * in, <i8 in C order out, byte for byte as NumPy writes it. In memory they are time-major:
 * code[t * n_book + b]. */
#include "base/npy.h"
#include "kvref/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WRITE_HEADER 128 /* bytes before the data in files written here */

/* As int32; false when the value does not fit. */
static bool integer(const kvref_npy *a, size_t i, int32_t *out)
{
    uint64_t value = kvref_npy_bits(a, i);
    if (a->kind == 'i' && value >> (8 * a->size - 1)) {
        int64_t negative = (int64_t)(value | (a->size < 8 ? UINT64_MAX << 8 * a->size : 0));
        *out = (int32_t)negative;
        return negative >= INT32_MIN;
    }
    *out = (int32_t)(value & INT32_MAX);
    return value <= INT32_MAX;
}

static kvref_status fill_codes(kvref_codes *out, const kvref_npy *a, kvref_error *err)
{
    size_t n_book = (size_t)out->n_book, n_frame = (size_t)out->n_frame;
    for (size_t t = 0; t < n_frame; t++)
        for (size_t b = 0; b < n_book; b++)
            if (!integer(a, b * a->stride[0] + t * a->stride[1], &out->code[t * n_book + b]))
                return kvref_fail(err,
                                  KVREF_E_FORMAT,
                                  "%s: code of book %zu, frame %zu does not fit 32 bits",
                                  a->name,
                                  b,
                                  t);
    return KVREF_OK;
}

static kvref_status
check_extents(const kvref_npy *a, int max_book, int max_frame, kvref_error *err)
{
    static const char *const what[] = {"book", "frame"};
    const int most[] = {max_book ? max_book : INT_MAX, max_frame ? max_frame : INT_MAX};
    for (int i = 0; i < 2; i++)
        if (a->dim[i] < (i == 0) || a->dim[i] > most[i])
            return kvref_fail(err,
                              KVREF_E_FORMAT,
                              "%s: codes: expected %d to %d %ss, found shape (%lld, %lld)",
                              a->name,
                              i == 0,
                              most[i],
                              what[i],
                              (long long)a->dim[0],
                              (long long)a->dim[1]);
    return KVREF_OK;
}

kvref_status kvref_codes_parse(kvref_codes *out,
                               const void *data,
                               size_t n_byte,
                               const char *name,
                               int max_book,
                               int max_frame,
                               kvref_error *err)
{
    kvref_npy a;
    *out = (kvref_codes){0};
    KVREF_TRY(kvref_npy_parse(&a, data, n_byte, name, err));
    if (a.kind != 'i' && a.kind != 'u')
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: codes: expected an integer dtype, found '%s'",
                          name,
                          a.descr);
    if (a.n_dim != 2)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: codes: expected 2 axes (books, frames), found %d",
                          name,
                          a.n_dim);
    KVREF_TRY(check_extents(&a, max_book, max_frame, err));
    size_t need;
    if (kvref_mul_size(a.n_elem, sizeof *out->code, &need))
        out->code = malloc(need + (need == 0));
    if (!out->code) return kvref_fail(err, KVREF_E_MEMORY, "%s: out of memory", name);
    out->n_book = (int)a.dim[0];
    out->n_frame = (int)a.dim[1];
    kvref_status s = fill_codes(out, &a, err);
    if (s != KVREF_OK) kvref_codes_clear(out);
    return s;
}

kvref_status kvref_codes_read(
    kvref_codes *out, const char *path, int max_book, int max_frame, kvref_error *err)
{
    kvref_map map;
    *out = (kvref_codes){0};
    KVREF_TRY(kvref_map_open(&map, path, err));
    kvref_status s =
        kvref_codes_parse(out, map.data, map.n_byte, path, max_book, max_frame, err);
    kvref_map_close(&map);
    return s;
}

kvref_status kvref_codes_check(
    const kvref_codes *codes, int n_book, int n_code, const char *name, kvref_error *err)
{
    if (codes->n_book != n_book)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "%s: codes: expected %d books, found %d",
                          name,
                          n_book,
                          codes->n_book);
    const int32_t *code = codes->code;
    for (int t = 0; t < codes->n_frame; t++)
        for (int b = 0; b < n_book; b++, code++)
            if (*code < 0 || *code >= n_code)
                return kvref_fail(err,
                                  KVREF_E_ARG,
                                  "%s: code of book %d, frame %d: expected 0 to %d, found %d",
                                  name,
                                  b,
                                  t,
                                  n_code - 1,
                                  *code);
    return KVREF_OK;
}

/* The whole file in fresh memory; NULL when there is none. */
static uint8_t *encode(const kvref_codes *codes, size_t *n_byte)
{
    size_t n_book = (size_t)codes->n_book, n_frame = (size_t)codes->n_frame;
    *n_byte = WRITE_HEADER + 8 * n_book * n_frame;
    uint8_t *file = malloc(*n_byte);
    if (!file) return NULL;
    memset(file, ' ', WRITE_HEADER);
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = WRITE_HEADER - 10;
    file[9] = 0;
    int n = snprintf((char *)file + 10,
                     WRITE_HEADER - 10,
                     "{'descr': '<i8', 'fortran_order': False, 'shape': (%d, %d), }",
                     codes->n_book,
                     codes->n_frame);
    file[10 + n] = ' ';
    file[WRITE_HEADER - 1] = '\n';
    uint8_t *cell = file + WRITE_HEADER;
    for (size_t b = 0; b < n_book; b++)
        for (size_t t = 0; t < n_frame; t++, cell += 8) {
            uint64_t value = (uint64_t)(int64_t)codes->code[t * n_book + b];
            for (int k = 0; k < 8; k++) cell[k] = (uint8_t)(value >> 8 * k);
        }
    return file;
}

static kvref_status put_standard(const uint8_t *data, size_t n_byte, kvref_error *err)
{
    while (n_byte) {
        ssize_t n = write(STDOUT_FILENO, data, n_byte);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return kvref_fail(
                err, KVREF_E_IO, "standard output: cannot write: %s", strerror(errno));
        data += n, n_byte -= (size_t)n;
    }
    return KVREF_OK;
}

static kvref_status
put_file(const uint8_t *data, size_t n_byte, const char *path, kvref_error *err)
{
    kvref_out *o;
    KVREF_TRY(kvref_out_open(&o, path, err));
    kvref_status s = kvref_out_put(o, data, n_byte, err);
    if (s == KVREF_OK) return kvref_out_commit(&o, err);
    kvref_out_abort(&o);
    return s;
}

kvref_status kvref_codes_write(const kvref_codes *codes, const char *path, kvref_error *err)
{
    size_t n_byte;
    uint8_t *file = encode(codes, &n_byte);
    if (!file) return kvref_fail(err, KVREF_E_MEMORY, "%s: out of memory", path);
    kvref_status s = strcmp(path, "-") == 0 ? put_standard(file, n_byte, err)
                                            : put_file(file, n_byte, path, err);
    free(file);
    return s;
}

void kvref_codes_clear(kvref_codes *codes)
{
    free(codes->code);
    *codes = (kvref_codes){0};
}
