/* SPDX-License-Identifier: MIT */
/* The merges of tokenizer.json: pairs of vocabulary entries whose concatenation is one too,
 * in order of rank. Entries are "a b" or ["a", "b"] (spec 01 section 7). */
#include "base/tokenizer.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    kvref_tokenizer *tok;
    const json_t *vocab, *merges;
    const char *name; /* of the file, for messages */
    char *join;       /* the parts of one merge    */
    size_t cap_join;
    kvref_error *err;
} reader;

static kvref_status bad_merge(reader *r, size_t i, const char *found)
{
    return kvref_fail(r->err,
                      KVREF_E_FORMAT,
                      "%s: model.merges[%zu]: expected \"a b\" or [\"a\", \"b\"], %s",
                      r->name,
                      i,
                      found);
}

/* Puts the parts of merge i, each with a NUL, into r->join; at[1] and at[2] receive where the
 * second part and the two together begin. */
static kvref_status read_parts(reader *r, size_t at[3], size_t i)
{
    const json_t *value = json_array_get(r->merges, i);
    const char *left = json_string_value(value), *right = NULL;
    size_t n_left = 0, n_right = 0;
    if (left) {
        const char *space = strchr(left, ' ');
        if (!space || strchr(space + 1, ' ')) return bad_merge(r, i, "not one space");
        n_left = (size_t)(space - left);
        right = space + 1;
    } else if (json_array_size(value) == 2) {
        left = json_string_value(json_array_get(value, 0));
        right = json_string_value(json_array_get(value, 1));
        n_left = left ? strlen(left) : 0;
    }
    n_right = right ? strlen(right) : 0;
    if (!n_left || !n_right) return bad_merge(r, i, "not two texts");
    void *p = r->join;
    kvref_status status = kvref_grow(&p, &r->cap_join, 2 * (n_left + n_right) + 3, 1, r->err);
    r->join = p;
    KVREF_TRY(status);
    at[0] = 0;
    at[1] = n_left + 1;
    at[2] = at[1] + n_right + 1;
    memcpy(r->join, left, n_left);
    r->join[n_left] = 0;
    memcpy(r->join + at[1], right, n_right + 1);
    memcpy(r->join + at[2], left, n_left);
    memcpy(r->join + at[2] + n_left, right, n_right + 1);
    return KVREF_OK;
}

static int by_parts(const void *a, const void *b)
{
    const kvref_merge *x = a, *y = b;
    if (x->left != y->left) return x->left < y->left ? -1 : 1;
    if (x->right != y->right) return x->right < y->right ? -1 : 1;
    return 0;
}

static kvref_status read_merge(reader *r, size_t i)
{
    size_t at[3];
    uint32_t index[3];
    KVREF_TRY(read_parts(r, at, i));
    for (int k = 0; k < 3; k++) {
        const json_t *id = json_object_get(r->vocab, r->join + at[k]);
        if (!id)
            return kvref_fail(r->err,
                              KVREF_E_FORMAT,
                              "%s: model.merges[%zu]: expected \"%.60s\" in vocab, found none",
                              r->name,
                              i,
                              r->join + at[k]);
        index[k] = kvref_token_index(r->tok, (int32_t)json_integer_value(id));
    }
    r->tok->merge[i] = (kvref_merge){index[0], index[1], (uint32_t)i, index[2]};
    return KVREF_OK;
}

/* Ranks become ranges: the merges that begin with one token lie together. */
static kvref_status sort_merges(reader *r)
{
    kvref_tokenizer *tok = r->tok;
    kvref_merge *m = tok->merge;
    qsort(m, tok->n_merge, sizeof *m, by_parts);
    for (uint32_t i = 0; i < tok->n_merge; i++) {
        if (i > 0 && by_parts(&m[i - 1], &m[i]) == 0)
            return kvref_fail(r->err,
                              KVREF_E_FORMAT,
                              "%s: model.merges: expected different pairs, found entries "
                              "%u and %u alike",
                              r->name,
                              m[i - 1].rank,
                              m[i].rank);
        tok->merge_start[m[i].left + 1]++;
    }
    for (uint32_t i = 0; i < tok->n_token; i++) tok->merge_start[i + 1] += tok->merge_start[i];
    return KVREF_OK;
}

kvref_status kvref_tokenizer_merges(kvref_tokenizer *tok,
                                    const json_t *vocab,
                                    const json_t *merges,
                                    const char *name,
                                    kvref_error *err)
{
    reader r = {tok, vocab, merges, name, NULL, 0, err};
    size_t n = json_array_size(merges);
    tok->merge = calloc(n + 1, sizeof *tok->merge);
    tok->merge_start = calloc(tok->n_token + (size_t)1, sizeof *tok->merge_start);
    if (!tok->merge || !tok->merge_start)
        return kvref_fail(err, KVREF_E_MEMORY, "%s: out of memory", name);
    kvref_status status = KVREF_OK;
    for (size_t i = 0; status == KVREF_OK && i < n; i++) status = read_merge(&r, i);
    free(r.join);
    KVREF_TRY(status);
    tok->n_merge = (uint32_t)n;
    return sort_merges(&r);
}
