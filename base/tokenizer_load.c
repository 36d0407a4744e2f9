/* SPDX-License-Identifier: MIT */
/* tokenizer.json to kvref_tokenizer (spec 01 section 7). The small settings become a tree and
 * are checked (tokenizer_rules.c); the three large parts, vocabulary, added tokens and merges
 * (tokenizer_merges.c), are read in one pass each without a tree, so memory and time stay near
 * the size of the file.  */
#include "base/json.h"
#include "base/tokenizer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* Bytes: above twice the real file and vocabulary, and little enough for 64 MB of memory. */
#define MAX_FILE  ((size_t)24 << 20)
#define MAX_VOCAB ((size_t)6 << 20)
#define MAX_TOKEN ((size_t)1 << 18)

#define MAX_ID   (1 << 24)
#define N_SYMBOL 0x144 /* 256 + 68 */

/* A value of the file that is read on its own. */
typedef struct span {
    const char *data;
    size_t n_byte;
} span;

typedef struct load {
    kvref_tokenizer *tok;
    const char *name;          /* of the file, for messages    */
    span vocab, merges, added; /* data NULL: not in the file   */
    size_t n_text, cap_text;   /* bytes in tok->text           */
    kvref_error *err;
} load;

static kvref_status out_of_memory(const load *l)
{
    return kvref_fail(l->err, KVREF_E_MEMORY, "%s: out of memory", l->name);
}

static kvref_status walk(load *l, json_t *into, span text, bool in_model);

/* Puts the current pair of a walk into the tree, large values as null. */
static kvref_status take(load *l, json_t *into, const kvref_json_walk *w, bool in_model)
{
    const char *key = kvref_json_key(w);
    span here = {w->value, w->n_value};
    json_t *value = NULL;
    kvref_status status = KVREF_OK;
    if (json_object_get(into, key))
        return kvref_fail(
            l->err, KVREF_E_FORMAT, "%s: expected one \"%.60s\", found two", l->name, key);
    bool vocab = in_model && !strcmp(key, "vocab"), merges = in_model && !strcmp(key, "merges");
    bool added = !in_model && !strcmp(key, "added_tokens");
    if (vocab) l->vocab = here;
    if (merges) l->merges = here;
    if (added) l->added = here;
    if (vocab || merges || added) {
        value = json_null();
    } else if (!in_model && !strcmp(key, "model")) {
        value = json_object();
        if (value) status = walk(l, value, here, true);
    } else {
        status = kvref_json_leaf(&value, w, l->err);
    }
    if (status != KVREF_OK) {
        json_decref(value);
        return status;
    }
    return json_object_set_new(into, key, value) == 0 ? KVREF_OK : out_of_memory(l);
}

static kvref_status walk(load *l, json_t *into, span text, bool in_model)
{
    kvref_json_walk w = {0};
    bool more = true;
    kvref_status status = kvref_json_open(&w, l->name, text.data, text.n_byte, l->err);
    while (status == KVREF_OK) {
        status = kvref_json_next(&w, &more, l->err);
        if (status != KVREF_OK || !more) break;
        status = take(l, into, &w, in_model);
    }
    kvref_json_close(&w);
    return status;
}

/* Checks the settings and finds the three large parts. */
static kvref_status read_settings(load *l, span text)
{
    json_t *root = json_object();
    if (!root) return out_of_memory(l);
    kvref_status status = walk(l, root, text, false);
    if (status == KVREF_OK) status = kvref_tokenizer_rules(root, l->name, l->err);
    json_decref(root);
    return status;
}

static kvref_pull pull_of(const load *l, span text, const char *what)
{
    return (kvref_pull){
        l->name, what, text.data, text.data, text.data + text.n_byte, true, l->err};
}

static kvref_status bad_id(const load *l, const char *of, const char *found)
{
    return kvref_fail(l->err,
                      KVREF_E_FORMAT,
                      "%s: id of \"%.60s\": expected 0..%d, found %s",
                      l->name,
                      of,
                      MAX_ID - 1,
                      found);
}

static kvref_status check_id(const load *l, int32_t *id, int64_t value, const char *of)
{
    char found[32];
    snprintf(found, sizeof found, "%lld", (long long)value);
    if (value < 0 || value >= MAX_ID) return bad_id(l, of, found);
    *id = (int32_t)value;
    return KVREF_OK;
}

/* Adds a token of that name; its bytes are the name itself. */
static kvref_status add_token(load *l, kvref_token **out, const char *name, size_t n_name)
{
    kvref_tokenizer *tok = l->tok;
    char *to = tok->text + l->n_text;
    void *p = tok->token;
    if (tok->n_token == MAX_TOKEN)
        return kvref_fail(l->err,
                          KVREF_E_UNSUPPORTED,
                          "%s: expected at most %zu tokens, found more",
                          l->name,
                          MAX_TOKEN);
    kvref_status status =
        kvref_grow(&p, &tok->cap_token, tok->n_token + 1, sizeof *tok->token, l->err);
    tok->token = p;
    KVREF_TRY(status);
    assert(l->n_text + n_name < l->cap_text);
    memcpy(to, name, n_name);
    to[n_name] = 0;
    l->n_text += n_name + 1;
    *out = &tok->token[tok->n_token++];
    **out = (kvref_token){
        .name = to, .byte = to, .n_name = (uint32_t)n_name, .n_byte = (uint32_t)n_name};
    return KVREF_OK;
}

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

/* Turns a vocabulary entry, written in the byte alphabet, into its bytes. */
static kvref_status read_bytes(load *l, kvref_token *t, const short byte_of[N_SYMBOL])
{
    char *to = l->tok->text + l->n_text;
    const utf8proc_uint8_t *p = (const utf8proc_uint8_t *)t->name;
    utf8proc_ssize_t left = (utf8proc_ssize_t)t->n_name;
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
                step > 0 ? (unsigned)cp : 0xfffd);
        to[n++] = (char)byte;
        p += step;
        left -= step;
    }
    t->byte = to;
    t->n_byte = n;
    l->n_text += n;
    return KVREF_OK;
}

/* "name": id */
static kvref_status read_entry(load *l, kvref_pull *p, kvref_bytes *name, const short *byte_of)
{
    kvref_token *t;
    int64_t id;
    name->n = 0;
    KVREF_TRY(kvref_pull_string(p, name));
    KVREF_TRY(kvref_pull_expect(p, ':'));
    if (kvref_pull_int(p, &id) != KVREF_OK) return bad_id(l, name->data, "no integer");
    KVREF_TRY(add_token(l, &t, name->data, name->n));
    KVREF_TRY(check_id(l, &t->id, id, t->name));
    return read_bytes(l, t, byte_of);
}

static kvref_status read_vocab(load *l)
{
    short byte_of[N_SYMBOL];
    kvref_pull p = pull_of(l, l->vocab, "model.vocab");
    kvref_bytes name = {0};
    bool more = true;
    byte_alphabet(byte_of);
    kvref_status status = kvref_pull_open(&p, '{');
    while (status == KVREF_OK) {
        status = kvref_pull_more(&p, &more, '}');
        if (status != KVREF_OK || !more) break;
        status = read_entry(l, &p, &name, byte_of);
    }
    free(name.data);
    return status;
}

static kvref_status read_added(load *l, const json_t *object, size_t i)
{
    KVREF_TRY(kvref_added_rules(object, i, l->name, l->err));
    const json_t *content = json_object_get(object, "content"),
                 *id = json_object_get(object, "id");
    const char *text = json_string_value(content);
    size_t n = json_string_length(content);
    if (n < 1 || n > KVREF_ADDED_MAX)
        return kvref_fail(
            l->err,
            KVREF_E_FORMAT,
            "%s: added_tokens[%zu].content: expected 1..%d bytes of text, found %zu",
            l->name,
            i,
            KVREF_ADDED_MAX,
            n);
    kvref_token *t;
    KVREF_TRY(add_token(l, &t, text, n));
    t->added = true;
    if (!json_is_integer(id)) return bad_id(l, text, "no integer");
    return check_id(l, &t->id, json_integer_value(id), text);
}

/* Elements go through jansson one by one; none is large. */
static kvref_status read_added_tokens(load *l)
{
    kvref_pull p = pull_of(l, l->added, "added_tokens");
    bool more = true;
    KVREF_TRY(kvref_pull_open(&p, '['));
    for (size_t i = 0;; i++) {
        KVREF_TRY(kvref_pull_more(&p, &more, ']'));
        if (!more) return KVREF_OK;
        kvref_pull_peek(&p);
        size_t left = (size_t)(p.end - p.at);
        json_error_t where;
        json_t *object =
            json_loadb(p.at,
                       left < KVREF_JSON_LEAF ? left : KVREF_JSON_LEAF,
                       JSON_DISABLE_EOF_CHECK | JSON_DECODE_ANY | JSON_REJECT_DUPLICATES,
                       &where);
        if (!object)
            return kvref_fail(l->err,
                              json_error_code(&where) == json_error_out_of_memory
                                  ? KVREF_E_MEMORY
                                  : KVREF_E_FORMAT,
                              "%s: added_tokens[%zu]: %s",
                              l->name,
                              i,
                              where.text);
        kvref_status status = read_added(l, object, i);
        json_decref(object);
        KVREF_TRY(status);
        p.at += where.position;
    }
}

static kvref_status build(load *l, span text)
{
    kvref_tokenizer *tok = l->tok;
    KVREF_TRY(read_settings(l, text));
    if (l->vocab.n_byte + l->added.n_byte > MAX_VOCAB)
        return kvref_fail(l->err,
                          KVREF_E_UNSUPPORTED,
                          "%s: vocab and added_tokens: expected at most %zu bytes, found %zu",
                          l->name,
                          MAX_VOCAB,
                          l->vocab.n_byte + l->added.n_byte);
    /* An entry of n bytes takes n + 1, and as many again for its bytes, but at least n + 4 in
     * the file with quotes, colon and id. */
    l->cap_text = 2 * (l->vocab.n_byte + l->added.n_byte) + 1;
    tok->text = malloc(l->cap_text);
    if (!tok->text) return out_of_memory(l);
    KVREF_TRY(read_vocab(l));
    KVREF_TRY(read_added_tokens(l));
    KVREF_TRY(kvref_tokenizer_index(tok, l->name, l->err));
    return kvref_tokenizer_merges(tok, l->merges.data, l->merges.n_byte, l->name, l->err);
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
    load l = {.tok = calloc(1, sizeof *l.tok), .name = name, .err = err};
    kvref_status status = l.tok ? build(&l, (span){json, n_byte}) : out_of_memory(&l);
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
