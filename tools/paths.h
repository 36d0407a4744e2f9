/* SPDX-License-Identifier: MIT */
/* Checks of paths from the command line, before any work is done. */
#ifndef KVREF_TOOLS_PATHS_H
#define KVREF_TOOLS_PATHS_H

#include "kvref/status.h"

#include <stdbool.h>

/* A path and the option that gave it. */
typedef struct named_path {
    const char *option, *path; /* path NULL: not given */
} named_path;

/* Refuses an output path that cannot be written: no name, a folder, or a folder above it in
 * which no file can be made (one is made and removed). "-" is accepted. */
kvref_status check_output(const char *option, const char *path, kvref_error *err);

/* The same, and refuses the files of a checkpoint. model: its folder, of which a name such as a
 * model's files have (.json, .safetensors, .pth) is refused in it and below it, and any file
 * there is in it but sounds and codes; or a codec file, refused with the codec.json beside it;
 * NULL: none. */
kvref_status
check_output_beside(const char *option, const char *path, const char *model, kvref_error *err);

/* Refuses an output that is one of the files to be read, under this name or another. */
kvref_status check_not_read(
    const char *option, const char *path, const named_path *read, int n, kvref_error *err);

/* Refuses a sound's name for codes. */
kvref_status check_codes_name(const char *option, const char *path, kvref_error *err);
bool is_sound_name(const char *name);

/* Refuses "-" where standard input is not read. */
kvref_status check_not_dash(const char *name, const char *path, kvref_error *err);

/* Where an output is gathered before it is complete: its own folder, or for standard output, a
 * device or a pipe that of $TMPDIR. In fresh memory; NULL when out of memory. */
char *output_folder(const char *path);

/* "-" for a path that is where standard output goes, such as /dev/stdout; or the path. */
const char *output_or_dash(const char *path);

/* Refuses two outputs that are one file. Devices such as /dev/null may be given twice. */
kvref_status check_distinct(const named_path *path, int n, kvref_error *err);

/* Refuses what is not a folder. */
kvref_status check_folder(const char *option, const char *path, kvref_error *err);

/* Passes a status on; of a failure the message becomes "name: message". */
kvref_status blame(const char *name, kvref_status status, kvref_error *err);

#endif
