/* SPDX-License-Identifier: MIT */
/* Tensors of a file under the internal names of spec 01 section 3.1. */
#ifndef KVREF_BASE_NAMES_H
#define KVREF_BASE_NAMES_H

#include "base/base.h"
#include "kvref/file.h"

typedef struct kvref_named {
    char *name;                 /* internal, owned; NULL: dropped by a rule */
    const kvref_tensor *tensor; /* the file's                               */
    bool used;
} kvref_named;

typedef struct kvref_names {
    kvref_named *named; /* [n] by name, dropped ones last */
    size_t n, n_kept;
} kvref_names;

/* Maps every name of the file; two that become one are FORMAT. */
kvref_status kvref_names_map(kvref_names *out, const kvref_file *file, kvref_error *err);

/* The entry of an internal name, or NULL. */
kvref_named *kvref_names_find(const kvref_names *names, const char *name);

void kvref_names_clear(kvref_names *names);

#endif
