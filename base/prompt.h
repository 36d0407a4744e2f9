/* SPDX-License-Identifier: MIT */
/* Shared by batches.c and prompt.c. */
#ifndef KVREF_BASE_PROMPT_H
#define KVREF_BASE_PROMPT_H

#include "base/base.h"
#include "kvref/prompt.h"

/* First speaker tag of a text, NULL: none; *n_tag receives its length in bytes. */
const char *kvref_speaker_tag(size_t *n_tag, const char *text, size_t n_byte);

/* Appends bytes to a growing buffer. */
typedef struct kvref_bytes {
    char *data; /* [n] and room for a NUL */
    size_t n, cap;
} kvref_bytes;

kvref_status
kvref_bytes_append(kvref_bytes *b, const char *data, size_t n_byte, kvref_error *err);

#endif
