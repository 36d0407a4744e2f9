/* SPDX-License-Identifier: MIT */
/* Named tensors in files: safetensors (one file or several shards with an index) and torch
 * .pth archives behind one interface. Files are mapped read-only; tensors are views into the
 * mapping. Format: spec 01 sections 4 and 5. */
#ifndef KVREF_FILE_H
#define KVREF_FILE_H

#include "kvref/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVREF_MAX_DIM 8

typedef enum kvref_dtype {
    KVREF_F32,
    KVREF_F16,
    KVREF_BF16,
    KVREF_F64,
    KVREF_I64,
    KVREF_I32,
    KVREF_I16,
    KVREF_I8,
    KVREF_U8,
    KVREF_BOOL /* one byte, true unless zero */
} kvref_dtype;

/* Bytes of one element, 1..8. */
size_t kvref_dtype_size(kvref_dtype dtype);

/* "F32", "BF16", ... as safetensors spells it. */
const char *kvref_dtype_name(kvref_dtype dtype);

/* A tensor, row-major, last axis contiguous. data may have any alignment: read it through
 * memcpy or unaligned vector loads. */
typedef struct kvref_tensor {
    const char *name; /* owned by the file                          */
    kvref_dtype dtype;
    int n_dim; /* 0 for a scalar                             */
    int64_t dim[KVREF_MAX_DIM];
    const void *data; /* borrowed from the file; see kvref_tensor_load */
    size_t n_byte;    /* product of dim times the element size      */
} kvref_tensor;

typedef struct kvref_file kvref_file;

/* Opens one file and checks it completely before any tensor is visible. A zip signature at the
 * start means .pth; so does a name that ends in .pth, unless the ninth byte is '{', with which
 * a safetensors header begins; anything else is safetensors. log (may be NULL) hears of ignored
 * content. Errors: IO, MISSING, FORMAT, UNSUPPORTED, MEMORY. On failure *out is NULL.
 *
 * Limits, far above any checkpoint, so that a hostile file cannot ask for much memory: 16384
 * tensors with names of 1 to 255 bytes; safetensors headers of 8 MiB over all shards, of which
 * 1 MiB and 1024 pairs are metadata; a data.pkl of 16 MiB in an archive of 131072 entries; an
 * index of 8 MiB that names 256 shards. Beyond is FORMAT or UNSUPPORTED. */
kvref_status
kvref_file_open(kvref_file **out, const char *path, const kvref_log *log, kvref_error *err);

/* Opens the weights of a checkpoint directory, first that exists:
 * model.safetensors.index.json with its shards, model.safetensors, model.pth.
 * Errors as above, and MISSING when none exists. */
kvref_status
kvref_file_open_dir(kvref_file **out, const char *dir, const kvref_log *log, kvref_error *err);

/* Number of tensors, and tensor i in order of name (byte order). */
int kvref_file_count(const kvref_file *file);
const kvref_tensor *kvref_file_at(const kvref_file *file, int i);

/* The tensor of that name, or NULL. */
const kvref_tensor *kvref_file_find(const kvref_file *file, const char *name);

/* Makes data valid. It is NULL in a .pth tensor that is not contiguous in the archive, until
 * this gathers it once, in its own dtype; all others have their data from the start. So what
 * nobody asks for costs nothing. Not for one file from two threads at a time. Errors: MEMORY.
 */
kvref_status kvref_tensor_load(const kvref_tensor *tensor, kvref_error *err);

/* Value of a metadata key (safetensors __metadata__; of shards, that of the first file
 * in order of name), or NULL. */
const char *kvref_file_meta(const kvref_file *file, const char *key);

/* Path of the file that holds the tensor, for messages. Never NULL. The pointer must be one
 * that kvref_file_at or kvref_file_find of this file returned; a copy of a tensor has no path.
 */
const char *kvref_file_path_of(const kvref_file *file, const kvref_tensor *tensor);

/* Unmaps and frees; sets *file to NULL. Accepts NULL and half-open files. */
void kvref_file_close(kvref_file **file);

/* ---- writing safetensors ---- */

typedef struct kvref_writer kvref_writer;

/* Declares every tensor (name, dtype, dims; data and n_byte are ignored) and n_meta key-value
 * pairs (meta[2*i], meta[2*i+1]), then writes the header to a temporary name beside path. The
 * limits of names and number are those of reading. */
kvref_status kvref_writer_open(kvref_writer **out,
                               const char *path,
                               const kvref_tensor *tensor,
                               int n_tensor,
                               const char *const *meta,
                               int n_meta,
                               kvref_error *err);

/* Appends bytes of the data area, in declared order, in pieces of any size. */
kvref_status
kvref_writer_put(kvref_writer *w, const void *data, size_t n_byte, kvref_error *err);

/* Checks that exactly the declared bytes were put, flushes, and renames to the final path. */
kvref_status kvref_writer_commit(kvref_writer **w, kvref_error *err);

/* Gives up: removes the temporary file. Accepts NULL. Sets *w to NULL. */
void kvref_writer_abort(kvref_writer **w);

/* ---- codes as .npy (spec 05 section 7) ---- */

/* Codes of audio frames, time-major: code[t * n_book + b]. */
typedef struct kvref_codes {
    int n_book;
    int n_frame;
    int32_t *code; /* [n_frame, n_book], owned, freed by kvref_codes_clear */
} kvref_codes;

/* Reads an integer array [n_book, n_frame] of any integer dtype, C or Fortran order; values
 * outside int32, other ranks, no book, truncation and trailing bytes are errors. So are more
 * than max_book books or max_frame frames (0: any number), seen before any memory is taken: a
 * file with holes may claim far more than it holds. No frame is none: a generation of one frame
 * writes such a file. Who needs a frame refuses it (kvref_prompt_build for a reference,
 * kvref_codec_decode). Range against a codebook is the caller's check: kvref_codes_check. */
kvref_status kvref_codes_read(
    kvref_codes *out, const char *path, int max_book, int max_frame, kvref_error *err);

/* The same from memory; name is used in messages. */
kvref_status kvref_codes_parse(kvref_codes *out,
                               const void *data,
                               size_t n_byte,
                               const char *name,
                               int max_book,
                               int max_frame,
                               kvref_error *err);

/* Requires n_book rows and 0 <= code < n_code; names the first bad position. No frame is good.
 */
kvref_status kvref_codes_check(
    const kvref_codes *codes, int n_book, int n_code, const char *name, kvref_error *err);

/* Writes <i8, C order, [n_book, n_frame], through a temporary name. "-" is standard output. */
kvref_status kvref_codes_write(const kvref_codes *codes, const char *path, kvref_error *err);

void kvref_codes_clear(kvref_codes *codes);

#ifdef __cplusplus
}
#endif
#endif
