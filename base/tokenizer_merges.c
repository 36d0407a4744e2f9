/* SPDX-License-Identifier: MIT */
/* The merges of tokenizer.json: pairs of tokens whose names together are a name too, in order
 * of rank. Entries are "a b" or ["a", "b"] (spec 01 section 7). */
#include "base/tokenizer.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_MERGE = 1 << 19 };

typedef struct reader {
    kvref_tokenizer *tok;
    const char *name; /* of the file, for messages */
    kvref_pull pull;
    kvref_bytes both; /* the two parts of one merge, together */
    size_t cap_merge;
    kvref_error *err;
} reader;

static kvref_status bad_merge(reader *r, const char *found)
{
    return kvref_fail(r->err,
                      KVREF_E_FORMAT,
                      "%s: model.merges[%u]: expected \"a b\" or [\"a\", \"b\"], found %s",
                      r->name,
                      r->tok->n_merge,
                      found);
}

/* ["a", "b"] */
static kvref_status read_pair(reader *r, size_t *n_left)
{
    KVREF_TRY(kvref_pull_expect(&r->pull, '['));
    KVREF_TRY(kvref_pull_string(&r->pull, &r->both));
    *n_left = r->both.n;
    KVREF_TRY(kvref_pull_expect(&r->pull, ','));
    KVREF_TRY(kvref_pull_string(&r->pull, &r->both));
    return kvref_pull_expect(&r->pull, ']');
}

/* "a b"; the space is taken out. */
static kvref_status read_spaced(reader *r, size_t *n_left)
{
    kvref_bytes *both = &r->both;
    KVREF_TRY(kvref_pull_string(&r->pull, both));
    char *space = memchr(both->data, ' ', both->n);
    size_t at = space ? (size_t)(space - both->data) : both->n;
    if (!space || memchr(space + 1, ' ', both->n - at - 1))
        return bad_merge(r, "not one space");
    memmove(space, space + 1, both->n - at);
    both->n--;
    *n_left = at;
    return KVREF_OK;
}

/* Index of a name, which must exist. */
static kvref_status find(reader *r, uint32_t *index, const char *name, size_t n)
{
    *index = kvref_token_find(r->tok, name, n);
    if (*index != KVREF_NO_TOKEN && r->tok->token[*index].byte != r->tok->token[*index].name)
        return KVREF_OK;
    return kvref_fail(r->err,
                      KVREF_E_FORMAT,
                      "%s: model.merges[%u]: expected \"%.*s\" in vocab, found none",
                      r->name,
                      r->tok->n_merge,
                      n < 60 ? (int)n : 60,
                      name);
}

static kvref_status read_merge(reader *r)
{
    kvref_tokenizer *tok = r->tok;
    kvref_merge m = {.rank = tok->n_merge};
    size_t n_left = 0;
    if (tok->n_merge == MAX_MERGE)
        return kvref_fail(r->err,
                          KVREF_E_UNSUPPORTED,
                          "%s: expected at most %d merges, found more",
                          r->name,
                          MAX_MERGE);
    r->both.n = 0;
    kvref_status status =
        kvref_pull_peek(&r->pull) == '"' ? read_spaced(r, &n_left) : read_pair(r, &n_left);
    if (status == KVREF_E_MEMORY) return status;
    if (status != KVREF_OK) return bad_merge(r, "something else");
    const char *both = r->both.data;
    if (n_left == 0 || n_left == r->both.n) return bad_merge(r, "an empty part");
    KVREF_TRY(find(r, &m.left, both, n_left));
    KVREF_TRY(find(r, &m.right, both + n_left, r->both.n - n_left));
    KVREF_TRY(find(r, &m.result, both, r->both.n));
    void *p = tok->merge;
    status = kvref_grow(&p, &r->cap_merge, tok->n_merge + (size_t)1, sizeof m, r->err);
    tok->merge = p;
    KVREF_TRY(status);
    tok->merge[tok->n_merge++] = m;
    return KVREF_OK;
}

static int by_parts(const void *a, const void *b)
{
    const kvref_merge *x = a, *y = b;
    if (x->left != y->left) return x->left < y->left ? -1 : 1;
    if (x->right != y->right) return x->right < y->right ? -1 : 1;
    return 0;
}

/* Ranks become ranges: the merges that begin with one token lie together. */
static kvref_status sort_merges(reader *r)
{
    kvref_tokenizer *tok = r->tok;
    kvref_merge *m = tok->merge;
    tok->merge_start = calloc(tok->n_token + 1, sizeof *tok->merge_start);
    if (!tok->merge_start)
        return kvref_fail(r->err, KVREF_E_MEMORY, "%s: out of memory", r->name);
    if (tok->n_merge > 0) qsort(m, tok->n_merge, sizeof *m, by_parts);
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
    for (size_t i = 0; i < tok->n_token; i++) tok->merge_start[i + 1] += tok->merge_start[i];
    return KVREF_OK;
}

kvref_status kvref_tokenizer_merges(
    kvref_tokenizer *tok, const char *json, size_t n_byte, const char *name, kvref_error *err)
{
    reader r = {.tok = tok, .name = name, .err = err};
    r.pull = (kvref_pull){name, "model.merges", json, json, json + n_byte, true, err};
    bool more = true;
    kvref_status status = kvref_pull_open(&r.pull, '[');
    while (status == KVREF_OK) {
        status = kvref_pull_more(&r.pull, &more, ']');
        if (status != KVREF_OK || !more) break;
        status = read_merge(&r);
    }
    free(r.both.data);
    return status == KVREF_OK ? sort_merges(&r) : status;
}
