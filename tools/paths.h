/* SPDX-License-Identifier: MIT */
/* Checks of paths from the command line, before any work is done. */
#ifndef KVREF_TOOLS_PATHS_H
#define KVREF_TOOLS_PATHS_H

#include "kvref/status.h"

/* A path and the option that gave it. */
typedef struct named_path {
    const char *option, *path; /* path NULL: not given */
} named_path;

/* Refuses an output path that cannot be written: no name, a folder, or a folder above it in
 * which no file can be made (one is made and removed). "-" is accepted. */
kvref_status check_output(const char *option, const char *path, kvref_error *err);

/* The same, and refuses a name such as a model's files have (.json, .safetensors, .pth) in the
 * model's own folder. */
kvref_status
check_output_beside(const char *option, const char *path, const char *model, kvref_error *err);

/* Refuses two outputs of one name. Devices such as /dev/null may be given twice. */
kvref_status check_distinct(const named_path *path, int n, kvref_error *err);

/* Refuses what is not a folder. */
kvref_status check_folder(const char *option, const char *path, kvref_error *err);

/* Passes a status on; of a failure the message becomes "name: message". */
kvref_status blame(const char *name, kvref_status status, kvref_error *err);

#endif
