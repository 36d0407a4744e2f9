/* SPDX-License-Identifier: MIT */
/* Hand-made .npy files for the test programs. */
#ifndef KVREF_TESTS_NPY_MAKE_H
#define KVREF_TESTS_NPY_MAKE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static char file[4096];

/* Builds version 1.0 around a dict literal, padded to 64 bytes; returns the offset of the data.
 */
static inline size_t npy_head(const char *dict)
{
    size_t n = strlen(dict), end = (10 + n + 1 + 63) / 64 * 64;
    memset(file, ' ', sizeof file);
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (char)((end - 10) & 255);
    file[9] = (char)((end - 10) >> 8);
    memcpy(file + 10, dict, n);
    file[end - 1] = '\n';
    return end;
}

static inline size_t npy_shape(const char *descr, const char *fortran, const char *shape)
{
    char dict[300];
    snprintf(dict,
             sizeof dict,
             "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }",
             descr,
             fortran,
             shape);
    return npy_head(dict);
}

/* One element of `size` bytes, either end first. */
static inline size_t put(size_t at, int64_t value, int size, int big)
{
    for (int k = 0; k < size; k++)
        file[at + (size_t)(big ? size - 1 - k : k)] = (char)((uint64_t)value >> 8 * k);
    return at + (size_t)size;
}

#endif
