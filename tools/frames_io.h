/* SPDX-License-Identifier: MIT */
/* Prompts and frames from files: tensors of a trace, or an integer .npy. */
#ifndef KVREF_TOOLS_FRAMES_IO_H
#define KVREF_TOOLS_FRAMES_IO_H

#include "kvref/file.h"
#include "kvref/prompt.h"

/* Reads tensor `name` (integers [position, 1+N]) of a safetensors file, or a .npy [1+N,
 * positions]. A .npy of N rows is taken as codes: the token of a column is then semantic_begin
 * plus its first code. Every value is checked against the config, naming the first bad one. */
kvref_status frames_read(kvref_frames *out,
                         const char *path,
                         const char *name,
                         const kvref_config *config,
                         kvref_error *err);

#endif
