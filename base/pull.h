/* SPDX-License-Identifier: MIT */
/* Reads one large JSON value from left to right without building it. Strict (RFC 8259), apart
 * from UTF-8 inside strings, which the caller checks by what it accepts. */
#ifndef KVREF_BASE_PULL_H
#define KVREF_BASE_PULL_H

#include "base/base.h"

/* A growing buffer; data [n] and a NUL after it. Start from {0}; free data. */
typedef struct kvref_bytes {
    char *data;
    size_t n, cap;
} kvref_bytes;

kvref_status
kvref_bytes_append(kvref_bytes *b, const char *data, size_t n_byte, kvref_error *err);

typedef struct kvref_pull {
    const char *file, *what; /* for messages: which file, which value of it */
    const char *begin, *at, *end;
    bool first; /* no element of the open bracket was read  */
    kvref_error *err;
} kvref_pull;

/* Over white space and then exactly this character. */
kvref_status kvref_pull_expect(kvref_pull *p, char c);

/* The next character after white space, which stays; 0 at the end. */
char kvref_pull_peek(kvref_pull *p);

/* Opens the bracket of the value. */
kvref_status kvref_pull_open(kvref_pull *p, char bracket);

/* Before each element: over the comma, or over the closing bracket and what must be the end of
 * the value; *more tells which. */
kvref_status kvref_pull_more(kvref_pull *p, bool *more, char bracket);

/* Appends a string without its escapes. A NUL inside is refused. */
kvref_status kvref_pull_string(kvref_pull *p, kvref_bytes *to);

/* An integer; one beyond int64_t becomes its limit. */
kvref_status kvref_pull_int(kvref_pull *p, int64_t *value);

#endif
