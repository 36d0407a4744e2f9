/* SPDX-License-Identifier: MIT */
/* The library's calls of malloc, calloc, realloc, strdup and strndup, counted and made to fail.
 * A program that links alloc.c needs $(ALLOC_WRAP), by which the linker sends them here;
 * calls that shared libraries make go past. */
#ifndef KVREF_TESTS_ALLOC_H
#define KVREF_TESTS_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

extern int alloc_count;    /* calls so far                                       */
extern size_t alloc_bytes; /* asked for by malloc, calloc and realloc so far    */
extern long alloc_left;    /* calls until one fails; negative, as at start: none */
extern bool alloc_failed;  /* one did, since this was last set to false          */

#endif
