/* SPDX-License-Identifier: MIT */
/* Private reader of .npy arrays; codes are read and written through kvref/file.h. */
#ifndef KVREF_BASE_NPY_H
#define KVREF_BASE_NPY_H

#include "base/base.h"

#define KVREF_NPY_MAX_DIM 4

/* One array in memory, checked against its size. */
typedef struct kvref_npy {
    const char *name; /* for messages */
    char kind;        /* 'i', 'u', 'f', ... */
    int size;         /* bytes of an element: 1, 2, 4, 8 */
    bool big, fortran;
    char descr[16];
    int n_dim;
    int64_t dim[KVREF_NPY_MAX_DIM];
    size_t stride[KVREF_NPY_MAX_DIM]; /* in elements */
    size_t n_elem;
    const uint8_t *data; /* n_elem * size bytes, borrowed */
} kvref_npy;

kvref_status kvref_npy_parse(
    kvref_npy *a, const uint8_t *data, size_t n_byte, const char *name, kvref_error *err);

/* The bits of element i of the stored order, not sign-extended. */
uint64_t kvref_npy_bits(const kvref_npy *a, size_t i);

#endif
