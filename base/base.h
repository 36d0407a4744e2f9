/* SPDX-License-Identifier: MIT */
/* Private helpers shared by base, ref and tools: errors, checked sizes, small containers. */
#ifndef KVREF_BASE_H
#define KVREF_BASE_H

#include "kvref/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fills *err (if not NULL). Control bytes and invalid UTF-8 in the formatted text are replaced
 * by '?', so that names taken from hostile files cannot reach a terminal. Over-long texts end
 * in "...". Returns 0. */
int kvref_report(kvref_error *err, kvref_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Reports and has the value status, for `return kvref_fail(err, status, format, ...)`. A macro,
 * because a checker must see that the value is the status and never KVREF_OK. */
#define kvref_fail(err, status, ...)                                                           \
    kvref_failed(status, kvref_report(err, status, __VA_ARGS__))
static inline kvref_status kvref_failed(kvref_status status, int reported)
{
    (void)reported;
    return status;
}

/* Sends one formatted line to a log; does nothing when log or log->line is NULL. */
void kvref_note(const kvref_log *log, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* a * b and a + b; false on overflow, *out then unchanged. */
bool kvref_mul_size(size_t a, size_t b, size_t *out);
bool kvref_add_size(size_t a, size_t b, size_t *out);

/* Grows *data (elements of `size` bytes, *cap of them) to hold at least `need`, doubling. */
kvref_status kvref_grow(void **data, size_t *cap, size_t need, size_t size, kvref_error *err);

/* A file read or mapped whole, read-only. */
typedef struct kvref_map {
    const uint8_t *data; /* n_byte bytes; not NULL even for an empty file */
    size_t n_byte;
    void *base; /* what to unmap; NULL: nothing                  */
} kvref_map;

/* Maps a regular file; anything else (directory, device, pipe) is an error. */
kvref_status kvref_map_open(kvref_map *out, const char *path, kvref_error *err);
void kvref_map_close(kvref_map *map);

/* dir + "/" + name in fresh memory; NULL when out of memory. */
char *kvref_path_join(const char *dir, const char *name);

/* Where a file written at path would lie: links are followed, be it to nothing, and the folder
 * is the real one. In fresh memory; NULL when out of memory. */
char *kvref_path_target(const char *path);

/* A file that appears complete or not at all: written under a temporary name in the same
 * folder, then renamed. A device or a pipe is written straight; a folder is refused. */
typedef struct kvref_out kvref_out;
kvref_status kvref_out_open(kvref_out **out, const char *path, kvref_error *err);
kvref_status kvref_out_put(kvref_out *o, const void *data, size_t n_byte, kvref_error *err);
kvref_status kvref_out_commit(kvref_out **o, kvref_error *err);
void kvref_out_abort(kvref_out **o);

#ifdef __cplusplus
}
#endif
#endif
