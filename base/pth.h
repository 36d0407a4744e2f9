/* SPDX-License-Identifier: MIT */
/* Private: what pth.c (the archive and its dict) and pth_tensor.c (one tensor) share. */
#ifndef KVREF_BASE_PTH_H
#define KVREF_BASE_PTH_H

#include "base/file.h"
#include "base/pickle.h"
#include "base/zip.h"

typedef struct kvref_pth {
    kvref_file *file;
    int part;
    const char *path;
    const kvref_log *log;
    kvref_zip zip;
    const kvref_zip_entry *pkl; /* P/data.pkl                            */
    size_t n_folder;            /* bytes of "P/", which start its name   */
    kvref_pickle pickle;
} kvref_pth;

/* Adds the tensor whose arguments (storage, offset, sizes, strides, ...) lie at `at` in the
 * pickle's pool. Contiguous ones stay in the mapping, others are gathered in row-major order
 * and their own dtype once they are loaded. */
kvref_status
kvref_pth_add(kvref_pth *r, const char *name, size_t n_name, uint32_t at, kvref_error *err);

#endif
