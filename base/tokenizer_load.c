/* SPDX-License-Identifier: MIT */
/* tokenizer.json to kvref_tokenizer (spec 01 section 7): settings are checked first
 * (tokenizer_rules.c), then vocabulary, added tokens and merges (tokenizer_merges.c)
 * are read. Tokens are kept in the order of their ids and merges in the order of their parts,
 * so that every later lookup is a binary search whose cost no file can change. */
#include "base/tokenizer.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define MAX_FILE   ((size_t)1 << 28) /* bytes: 20 times the real file */
#define MAX_ID     ((json_int_t)1 << 24)
#define N_SEMANTIC 4096
#define N_SYMBOL   0x144 /* 256 + 68 */

typedef struct load {
    kvref_tokenizer *tok;
    const char *name; /* of the file, for messages       */
    const json_t *vocab, *added;
    size_t n_text; /* bytes used in tok->text         */
    char *join;    /* both parts of a merge           */
    size_t cap_join;
    kvref_error *err;
} load;

/* Bytes 21-7E, A1-AC and AE-FF stand for themselves. */
static bool is_plain(int byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}

/* Byte of every code point of the byte alphabet, -1: none. The other 68 bytes, in increasing
 * order, are U+0100 and on. */
static void byte_alphabet(short byte_of[N_SYMBOL])
{
    for (int cp = 0; cp < N_SYMBOL; cp++) byte_of[cp] = -1;
    int other = 0x100;
    for (int b = 0; b < 256; b++) byte_of[is_plain(b) ? b : other++] = (short)b;
}

static kvref_status out_of_memory(load *l)
{
    return kvref_fail(l->err, KVREF_E_MEMORY, "%s: out of memory", l->name);
}

/* calloc that also takes 0 elements. */
static void *array(size_t n, size_t size)
{
    return calloc(n ? n : 1, size);
}

/* Copies a name into tok->text, whose size was counted before. */
static const char *keep(load *l, const char *name, size_t n)
{
    char *to = l->tok->text + l->n_text;
    memcpy(to, name, n);
    to[n] = 0;
    l->n_text += n + 1;
    return to;
}

static kvref_status read_id(load *l, int32_t *id, const json_t *value, const char *of)
{
    json_int_t i = json_is_integer(value) ? json_integer_value(value) : -1;
    *id = (int32_t)i;
    if (i >= 0 && i < MAX_ID) return KVREF_OK;
    char found[32] = "no integer";
    if (json_is_integer(value)) snprintf(found, sizeof found, "%lld", (long long)i);
    return kvref_fail(l->err,
                      KVREF_E_FORMAT,
                      "%s: id of \"%.60s\": expected 0..%d, found %s",
                      l->name,
                      of,
                      (int)MAX_ID - 1,
                      found);
}

/* Turns a vocabulary entry, written in the byte alphabet, into its bytes. */
static kvref_status read_bytes(load *l, kvref_token *t, const short byte_of[N_SYMBOL])
{
    char *to = l->tok->text + l->n_text;
    const utf8proc_uint8_t *p = (const utf8proc_uint8_t *)t->name;
    utf8proc_ssize_t left = (utf8proc_ssize_t)strlen(t->name);
    uint32_t n = 0;
    while (left > 0) {
        utf8proc_int32_t cp;
        utf8proc_ssize_t step = utf8proc_iterate(p, left, &cp);
        int byte = step > 0 && cp < N_SYMBOL ? byte_of[cp] : -1;
        if (byte < 0)
            return kvref_fail(
                l->err,
                KVREF_E_FORMAT,
                "%s: vocab entry \"%.60s\": expected the byte alphabet, found U+%04X",
                l->name,
                t->name,
                (unsigned)cp);
        to[n++] = (char)byte;
        p += step;
        left -= step;
    }
    t->byte = to;
    t->n_byte = n;
    l->n_text += n;
    return KVREF_OK;
}

static kvref_status read_vocab(load *l)
{
    short byte_of[N_SYMBOL];
    byte_alphabet(byte_of);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)l->vocab, key, value)
    {
        kvref_token *t = &l->tok->token[l->tok->n_token];
        KVREF_TRY(read_id(l, &t->id, value, key));
        t->name = keep(l, key, strlen(key));
        KVREF_TRY(read_bytes(l, t, byte_of));
        l->tok->n_token++;
    }
    return KVREF_OK;
}

/* A content that is also in the vocabulary must have the same id, and is one token. */
static kvref_status read_added(load *l, size_t i)
{
    const json_t *object = json_array_get(l->added, i);
    const char *content = json_string_value(json_object_get(object, "content"));
    size_t n = content ? strlen(content) : 0;
    if (n < 1 || n > KVREF_ADDED_MAX)
        return kvref_fail(
            l->err,
            KVREF_E_FORMAT,
            "%s: added_tokens[%zu].content: expected 1..%d bytes of text, found %zu",
            l->name,
            i,
            KVREF_ADDED_MAX,
            n);
    kvref_token *t = &l->tok->token[l->tok->n_token];
    KVREF_TRY(read_id(l, &t->id, json_object_get(object, "id"), content));
    const json_t *twin = json_object_get(l->vocab, content);
    if (twin && json_integer_value(twin) != t->id)
        return kvref_fail(l->err,
                          KVREF_E_FORMAT,
                          "%s: added_tokens[%zu] \"%.60s\": expected id %lld as in vocab, "
                          "found %d",
                          l->name,
                          i,
                          content,
                          (long long)json_integer_value(twin),
                          t->id);
    t->name = t->byte = keep(l, content, n);
    t->n_byte = (uint32_t)n;
    t->added = true;
    l->tok->n_token++;
    return KVREF_OK;
}

static int by_id(const void *a, const void *b)
{
    const kvref_token *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return (int)x->added - (int)y->added;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const kvref_token *const *)a)->name,
                  (*(const kvref_token *const *)b)->name);
}

/* Sorts by id; a vocabulary entry and an added token of the same name and id become one. */
static kvref_status sort_tokens(load *l)
{
    kvref_tokenizer *tok = l->tok;
    uint32_t n = 0;
    bool sorted = true; /* as files usually are */
    for (uint32_t i = 1; sorted && i < tok->n_token; i++)
        sorted = tok->token[i - 1].id < tok->token[i].id;
    if (sorted) return KVREF_OK;
    qsort(tok->token, tok->n_token, sizeof *tok->token, by_id);
    for (uint32_t i = 0; i < tok->n_token; i++) {
        kvref_token *t = &tok->token[i], *last = &tok->token[n - 1];
        if (n == 0 || t->id != last->id) {
            tok->token[n++] = *t;
        } else if (!last->added && t->added && !strcmp(t->name, last->name)) {
            last->added = true;
        } else {
            return kvref_fail(l->err,
                              KVREF_E_FORMAT,
                              "%s: id %d: expected one token, found \"%.60s\" and \"%.60s\"",
                              l->name,
                              t->id,
                              last->name,
                              t->name);
        }
    }
    tok->n_token = n;
    return KVREF_OK;
}

/* Added tokens in order of their text, by first byte. */
static kvref_status index_added(load *l)
{
    kvref_tokenizer *tok = l->tok;
    tok->added = array(json_array_size(l->added), sizeof *tok->added);
    if (!tok->added) return out_of_memory(l);
    for (uint32_t i = 0; i < tok->n_token; i++)
        if (tok->token[i].added) tok->added[tok->n_added++] = &tok->token[i];
    qsort(tok->added, tok->n_added, sizeof *tok->added, by_name);
    for (uint32_t i = 0; i < tok->n_added; i++) {
        const char *name = tok->added[i]->name;
        if (i > 0 && !strcmp(name, tok->added[i - 1]->name))
            return kvref_fail(l->err,
                              KVREF_E_FORMAT,
                              "%s: added token \"%.60s\": expected one id, found two",
                              l->name,
                              name);
        tok->added_start[(unsigned char)name[0] + 1] = i + 1;
    }
    for (int b = 0; b < 256; b++)
        if (tok->added_start[b + 1] < tok->added_start[b])
            tok->added_start[b + 1] = tok->added_start[b];
    return KVREF_OK;
}

static kvref_status index_bytes(load *l)
{
    kvref_tokenizer *tok = l->tok;
    for (int b = 0; b < 256; b++) tok->byte_token[b] = KVREF_NO_TOKEN;
    for (uint32_t i = 0; i < tok->n_token; i++) {
        const kvref_token *t = &tok->token[i];
        if (t->byte != t->name && t->n_byte == 1)
            tok->byte_token[(unsigned char)t->byte[0]] = i;
    }
    for (int b = 0; b < 256; b++)
        if (tok->byte_token[b] == KVREF_NO_TOKEN)
            return kvref_fail(l->err,
                              KVREF_E_FORMAT,
                              "%s: model.vocab: expected all 256 bytes, found none for 0x%02x",
                              l->name,
                              b);
    return KVREF_OK;
}

/* k of "<|semantic:k|>" in its only spelling, -1: another name. */
static int semantic_number(const char *name)
{
    static const char prefix[] = "<|semantic:";
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return -1;
    char spelt[32];
    long k = strtol(name + sizeof prefix - 1, NULL, 10);
    if (k < 0 || k >= N_SEMANTIC) return -1;
    snprintf(spelt, sizeof spelt, "%s%ld|>", prefix, k);
    return strcmp(name, spelt) == 0 ? (int)k : -1;
}

/* Tokens are in order of id. */
static void find_semantic(kvref_tokenizer *tok)
{
    for (uint32_t i = 0; i < tok->n_token; i++) {
        if (semantic_number(tok->token[i].name) < 0) continue;
        tok->semantic_end = tok->token[i].id;
        if (tok->semantic_count++ == 0) tok->semantic_begin = tok->token[i].id;
    }
}

/* Room for every name and its bytes, and for every token. */
static kvref_status reserve(load *l)
{
    size_t n_text = 1, n_added = json_array_size(l->added);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)l->vocab, key, value) n_text += 2 * strlen(key) + 1;
    for (size_t i = 0; i < n_added; i++)
        n_text +=
            json_string_length(json_object_get(json_array_get(l->added, i), "content")) + 1;
    l->tok->text = malloc(n_text);
    l->tok->token = array(json_object_size(l->vocab) + n_added, sizeof *l->tok->token);
    return l->tok->text && l->tok->token ? KVREF_OK : out_of_memory(l);
}

static kvref_status build(load *l, const json_t *root)
{
    const json_t *model = json_object_get(root, "model");
    const json_t *merges = json_object_get(model, "merges");
    KVREF_TRY(kvref_tokenizer_rules(root, l->name, l->err));
    l->vocab = json_object_get(model, "vocab");
    l->added = json_object_get(root, "added_tokens");
    if (!json_is_object(l->vocab) || !json_is_array(merges))
        return kvref_fail(l->err,
                          KVREF_E_FORMAT,
                          "%s: model: expected an object vocab and an array merges",
                          l->name);
    KVREF_TRY(reserve(l));
    KVREF_TRY(read_vocab(l));
    for (size_t i = 0; i < json_array_size(l->added); i++) KVREF_TRY(read_added(l, i));
    KVREF_TRY(sort_tokens(l));
    KVREF_TRY(index_bytes(l));
    KVREF_TRY(index_added(l));
    KVREF_TRY(kvref_tokenizer_merges(l->tok, l->vocab, merges, l->name, l->err));
    find_semantic(l->tok);
    return KVREF_OK;
}

kvref_status kvref_tokenizer_parse(
    kvref_tokenizer **out, const char *json, size_t n_byte, const char *name, kvref_error *err)
{
    *out = NULL;
    if (n_byte > MAX_FILE)
        return kvref_fail(err,
                          KVREF_E_UNSUPPORTED,
                          "%s: expected at most %zu bytes, found %zu",
                          name,
                          MAX_FILE,
                          n_byte);
    json_error_t where;
    json_t *root = json_loadb(json, n_byte, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        return kvref_fail(err,
                          json_error_code(&where) == json_error_out_of_memory ? KVREF_E_MEMORY
                                                                              : KVREF_E_FORMAT,
                          "%s: line %d, column %d: expected JSON, found %s",
                          name,
                          where.line,
                          where.column,
                          where.text);
    load l = {.tok = calloc(1, sizeof *l.tok), .name = name, .err = err};
    kvref_status status = l.tok ? build(&l, root) : out_of_memory(&l);
    json_decref(root);
    if (status != KVREF_OK) kvref_tokenizer_close(&l.tok);
    *out = l.tok;
    return status;
}

kvref_status kvref_tokenizer_open(kvref_tokenizer **out, const char *path, kvref_error *err)
{
    kvref_map map;
    *out = NULL;
    KVREF_TRY(kvref_map_open(&map, path, err));
    kvref_status status =
        kvref_tokenizer_parse(out, (const char *)map.data, map.n_byte, path, err);
    kvref_map_close(&map);
    return status;
}
