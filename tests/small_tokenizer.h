/* SPDX-License-Identifier: MIT */
/* golden/tokenizer/small.json for the tests of text. */
#ifndef KVREF_TESTS_SMALL_TOKENIZER_H
#define KVREF_TESTS_SMALL_TOKENIZER_H

#include "kvref/tokenizer.h"
#include "tests/support.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static inline kvref_tokenizer *small_tokenizer(void)
{
    kvref_tokenizer *tok;
    kvref_error err;
    must(kvref_tokenizer_open(&tok, support_source("golden/tokenizer/small.json"), &err), err);
    return tok;
}

/* A file under golden/tokenizer as JSON. */
static inline json_t *small_json(const char *name)
{
    json_error_t where;
    json_t *root = json_load_file(
        support_source(support_path("golden/tokenizer", name)), JSON_ALLOW_NUL, &where);
    ck_assert_msg(root != NULL, "%s: %s", name, where.text);
    return root;
}

/* Compares ids with a JSON array of integers. */
static inline bool same_ids(const kvref_ids *ids, const json_t *want)
{
    bool same = ids->n == json_array_size(want);
    for (size_t i = 0; same && i < ids->n; i++)
        same = ids->id[i] == json_integer_value(json_array_get(want, i));
    return same;
}

#endif
