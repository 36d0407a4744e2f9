/* SPDX-License-Identifier: MIT */
/* Inside of kvref_file: filled by safetensors.c and pth.c, read through kvref/file.h. */
#ifndef KVREF_BASE_FILE_H
#define KVREF_BASE_FILE_H

#include "base/base.h"
#include "kvref/file.h"

/* What one kvref_file may hold: far above any checkpoint, low enough that a hostile file
 * cannot ask for much memory. */
enum { KVREF_MAX_TENSOR = 16384, KVREF_MAX_NAME = 255 };

typedef struct kvref_part {
    char *path; /* one mapped file */
    kvref_map map;
} kvref_part;

/* Where the elements of a tensor lie that is not contiguous: number offset + sum_k i_k*stride_k
 * of the storage. */
typedef struct kvref_view {
    const uint8_t *storage;
    int64_t offset, stride[KVREF_MAX_DIM];
} kvref_view;

typedef struct kvref_entry {
    kvref_tensor tensor; /* first, so that a tensor's address is its entry's; name owned */
    int part;
    kvref_view *view; /* owned; NULL: contiguous                     */
    void *gathered;   /* owned; what a view was gathered into        */
} kvref_entry;

struct kvref_file {
    kvref_part *part;
    size_t n_part, cap_part;
    kvref_entry *entry; /* by name once finished    */
    size_t n_entry, cap_entry;
    char **meta; /* [2*n_meta] key, value    */
    size_t n_meta, cap_meta;
    size_t n_header; /* bytes of all safetensors headers */
    bool is_pth;     /* the names are a .pth's   */
};

/* An empty file with no parts. */
kvref_status kvref_file_new(kvref_file **out, kvref_error *err);

/* Maps path as the next part; *index receives its number. */
kvref_status kvref_file_add_part(kvref_file *f, int *index, const char *path, kvref_error *err);

/* The same with borrowed bytes in place of a file; path is used in messages. */
kvref_status kvref_file_add_memory(kvref_file *f,
                                   int *index,
                                   const char *path,
                                   const void *data,
                                   size_t n_byte,
                                   kvref_error *err);

/* Adds a tensor of part `part`; the name (n_name bytes, no NUL inside) is copied. */
kvref_status kvref_file_add(kvref_file *f,
                            int part,
                            const char *name,
                            size_t n_name,
                            const kvref_tensor *tensor,
                            kvref_error *err);

/* The same for a tensor that is not contiguous: its data stays NULL until it is loaded. */
kvref_status kvref_file_add_view(kvref_file *f,
                                 int part,
                                 const char *name,
                                 size_t n_name,
                                 const kvref_tensor *tensor,
                                 const kvref_view *view,
                                 kvref_error *err);

/* All elements of a view in row-major order; n_elem is their number. */
void kvref_view_gather(uint8_t *to,
                       const kvref_view *view,
                       const kvref_tensor *shape,
                       int64_t n_elem);

kvref_status
kvref_file_add_meta(kvref_file *f, const char *key, const char *value, kvref_error *err);

/* Frees what an entry owns. */
void kvref_entry_clear(kvref_entry *e);

/* Sorts by name; a name that occurs twice is FORMAT, naming both files. */
kvref_status kvref_file_finish(kvref_file *f, kvref_error *err);

/* Dtype of a name as safetensors spells it; false: none of ours. */
bool kvref_dtype_parse(kvref_dtype *out, const char *name);

/* Product of dim[0..n_dim-1] and the element size; false on overflow or a negative size. */
bool kvref_tensor_bytes(size_t *out, kvref_dtype dtype, int n_dim, const int64_t *dim);

/* Parse a mapped part and add its tensors. */
kvref_status kvref_safetensors_parse(kvref_file *f, int part, kvref_error *err);
kvref_status kvref_pth_parse(kvref_file *f, int part, const kvref_log *log, kvref_error *err);

/* Opens the shards that an index file names and checks them against it. */
kvref_status kvref_shards_open(kvref_file *f,
                               const char *dir,
                               const char *index_path,
                               const kvref_log *log,
                               kvref_error *err);

#endif
