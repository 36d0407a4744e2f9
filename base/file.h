/* SPDX-License-Identifier: MIT */
/* Inside of kvref_file: filled by safetensors.c and pth.c, read through kvref/file.h. */
#ifndef KVREF_BASE_FILE_H
#define KVREF_BASE_FILE_H

#include "base/base.h"
#include "kvref/file.h"

typedef struct kvref_part {
    char *path; /* one mapped file */
    kvref_map map;
} kvref_part;

struct kvref_file {
    kvref_part *part;
    size_t n_part, cap_part;
    kvref_tensor *tensor; /* by name once finished; names owned */
    int *part_of;         /* [n_tensor], moves with tensor      */
    size_t n_tensor, cap_tensor, cap_part_of;
    char **meta; /* [2*n_meta] key, value              */
    size_t n_meta, cap_meta;
    void **block; /* gathered tensors, owned            */
    size_t n_block, cap_block;
};

/* An empty file with no parts. */
kvref_status kvref_file_new(kvref_file **out, kvref_error *err);

/* Maps path as the next part; *index receives its number. */
kvref_status kvref_file_add_part(kvref_file *f, int *index, const char *path, kvref_error *err);

/* Adds a tensor of part `part`; the name (n_name bytes, no NUL inside) is copied. */
kvref_status kvref_file_add(kvref_file *f,
                            int part,
                            const char *name,
                            size_t n_name,
                            const kvref_tensor *tensor,
                            kvref_error *err);

/* Memory that lives as long as the file. */
kvref_status kvref_file_block(kvref_file *f, void **out, size_t n_byte, kvref_error *err);

kvref_status
kvref_file_add_meta(kvref_file *f, const char *key, const char *value, kvref_error *err);

/* Sorts by name; a name that occurs twice is FORMAT, naming both files. */
kvref_status kvref_file_finish(kvref_file *f, kvref_error *err);

/* Parse a mapped part and add its tensors. */
kvref_status kvref_safetensors_parse(kvref_file *f, int part, kvref_error *err);
kvref_status kvref_pth_parse(kvref_file *f, int part, const kvref_log *log, kvref_error *err);

#endif
