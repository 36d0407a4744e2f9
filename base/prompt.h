/* SPDX-License-Identifier: MIT */
/* Shared by batches.c and prompt.c. */
#ifndef KVREF_BASE_PROMPT_H
#define KVREF_BASE_PROMPT_H

#include "base/base.h"
#include "base/pull.h"
#include "kvref/prompt.h"

/* First speaker tag of a text, NULL: none; *n_tag receives its length in bytes. */
const char *kvref_speaker_tag(size_t *n_tag, const char *text, size_t n_byte);

#endif
