/* SPDX-License-Identifier: MIT */
/* JSON from untrusted files. jansson needs up to 80 times the text in memory, so large objects
 * are walked pair by pair here and only the single small values go through jansson. */
#ifndef KVREF_BASE_JSON_H
#define KVREF_BASE_JSON_H

#include "base/base.h"

#include <jansson.h>

/* Largest value handed to jansson, in bytes, and deepest nesting that is walked over. */
enum { KVREF_JSON_LEAF = 65536, KVREF_JSON_DEPTH = 32 };

/* Position inside one object. key and value are those of the current pair. */
typedef struct kvref_json_walk {
    const char *file; /* for messages; borrowed             */
    const char *begin, *at, *end;
    json_t *key; /* a string; NULL before the first    */
    const char *value;
    size_t n_value;
} kvref_json_walk;

/* Starts at the '{' of text; n_byte bytes hold one object and white space, checked on the way.
 */
kvref_status kvref_json_open(
    kvref_json_walk *w, const char *file, const char *text, size_t n_byte, kvref_error *err);

/* The next pair; *more false at the end of the object. The value is only delimited. */
kvref_status kvref_json_next(kvref_json_walk *w, bool *more, kvref_error *err);

/* The current key; valid until the next step. UTF-8, without NUL. */
const char *kvref_json_key(const kvref_json_walk *w);

/* Parses the current value whole; *out belongs to the caller. */
kvref_status kvref_json_leaf(json_t **out, const kvref_json_walk *w, kvref_error *err);

/* Frees the key; accepts a walk that was never opened but zeroed. */
void kvref_json_close(kvref_json_walk *w);

/* A value for a message: null, true, 12, "text", an array. Returns text. */
const char *kvref_json_show(char text[48], const json_t *value);

#endif
