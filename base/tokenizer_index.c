/* SPDX-License-Identifier: MIT */
/* Order in the tokens once they are read: by id, by byte, by name, added ones by first byte.
 * Names are found by hash (FNV-1a, 32 bits). The hash is fixed, so a file can be made to
 * collide; a name that finds MAX_PROBE slots taken is therefore refused. With half of the slots
 * free, an honest file never comes near. */
#include "base/tokenizer.h"

#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_SEMANTIC 4096
#define MAX_PROBE  400

static uint32_t hash_of(const char *name, size_t n)
{
    uint32_t h = kvref_fnv32(KVREF_FNV32, name, n);
    return h ^ h >> 15;
}

/* Slot of the name, or the free slot where it would be. */
static kvref_slot *probe(const kvref_tokenizer *tok, uint32_t hash, const char *name, size_t n)
{
    for (uint32_t k = 0; k < MAX_PROBE; k++) {
        kvref_slot *slot = &tok->slot[(hash + k) & tok->slot_mask];
        if (slot->index == KVREF_NO_TOKEN) return slot;
        const kvref_token *t = &tok->token[slot->index];
        if (slot->hash == hash && t->n_name == n && !memcmp(t->name, name, n)) return slot;
    }
    return NULL;
}

static kvref_status hash_names(kvref_tokenizer *tok, const char *name, kvref_error *err)
{
    size_t n_slot = 1024;
    while (n_slot < 2 * tok->n_token) n_slot *= 2;
    tok->slot_mask = (uint32_t)n_slot - 1;
    tok->slot = malloc(n_slot * sizeof *tok->slot);
    if (!tok->slot) return kvref_fail(err, KVREF_E_MEMORY, "%s: out of memory", name);
    memset(tok->slot, 0xff, n_slot * sizeof *tok->slot);
    for (uint32_t i = 0; i < tok->n_token; i++) {
        const kvref_token *t = &tok->token[i];
        uint32_t hash = hash_of(t->name, t->n_name);
        kvref_slot *slot = probe(tok, hash, t->name, t->n_name);
        if (!slot)
            return kvref_fail(err,
                              KVREF_E_FORMAT,
                              "%s: token \"%.60s\": expected names in general, found too many "
                              "with one hash",
                              name,
                              t->name);
        if (slot->index != KVREF_NO_TOKEN)
            return kvref_fail(err,
                              KVREF_E_FORMAT,
                              "%s: token \"%.60s\": expected one id, found %d and %d",
                              name,
                              t->name,
                              tok->token[slot->index].id,
                              t->id);
        *slot = (kvref_slot){hash, i};
    }
    return KVREF_OK;
}

uint32_t kvref_token_find(const kvref_tokenizer *tok, const char *name, size_t n)
{
    const kvref_slot *slot = probe(tok, hash_of(name, n), name, n);
    return slot ? slot->index : KVREF_NO_TOKEN;
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
static kvref_status sort_tokens(kvref_tokenizer *tok, const char *name, kvref_error *err)
{
    size_t n = 0;
    bool sorted = true; /* as files usually are */
    for (size_t i = 1; sorted && i < tok->n_token; i++)
        sorted = tok->token[i - 1].id < tok->token[i].id;
    if (sorted) return KVREF_OK;
    qsort(tok->token, tok->n_token, sizeof *tok->token, by_id);
    for (size_t i = 0; i < tok->n_token; i++) {
        kvref_token *t = &tok->token[i], *last = n > 0 ? &tok->token[n - 1] : NULL;
        if (!last || t->id != last->id) {
            tok->token[n++] = *t;
        } else if (!last->added && t->added && !strcmp(t->name, last->name)) {
            last->added = true;
        } else {
            return kvref_fail(err,
                              KVREF_E_FORMAT,
                              "%s: id %d: expected one token, found \"%.60s\" and \"%.60s\"",
                              name,
                              t->id,
                              last->name,
                              t->name);
        }
    }
    tok->n_token = n;
    return KVREF_OK;
}

/* Added tokens in order of their text, by first byte. */
static kvref_status index_added(kvref_tokenizer *tok, const char *name, kvref_error *err)
{
    tok->added = calloc(tok->n_token, sizeof(kvref_token *));
    if (!tok->added) return kvref_fail(err, KVREF_E_MEMORY, "%s: out of memory", name);
    for (uint32_t i = 0; i < tok->n_token; i++)
        if (tok->token[i].added) tok->added[tok->n_added++] = &tok->token[i];
    qsort(tok->added, tok->n_added, sizeof(kvref_token *), by_name);
    for (uint32_t i = 0; i < tok->n_added; i++)
        tok->added_start[(unsigned char)tok->added[i]->name[0] + 1] = i + 1;
    for (int b = 0; b < 256; b++)
        if (tok->added_start[b + 1] < tok->added_start[b])
            tok->added_start[b + 1] = tok->added_start[b];
    return KVREF_OK;
}

static kvref_status index_bytes(kvref_tokenizer *tok, const char *name, kvref_error *err)
{
    for (int b = 0; b < 256; b++) tok->byte_token[b] = KVREF_NO_TOKEN;
    for (uint32_t i = 0; i < tok->n_token; i++) {
        const kvref_token *t = &tok->token[i];
        if (t->byte != t->name && t->n_byte == 1)
            tok->byte_token[(unsigned char)t->byte[0]] = i;
    }
    for (int b = 0; b < 256; b++)
        if (tok->byte_token[b] == KVREF_NO_TOKEN)
            return kvref_fail(err,
                              KVREF_E_FORMAT,
                              "%s: model.vocab: expected all 256 bytes, found none for 0x%02x",
                              name,
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

kvref_status kvref_tokenizer_index(kvref_tokenizer *tok, const char *name, kvref_error *err)
{
    KVREF_TRY(sort_tokens(tok, name, err));
    KVREF_TRY(index_bytes(tok, name, err));
    KVREF_TRY(hash_names(tok, name, err));
    KVREF_TRY(index_added(tok, name, err));
    find_semantic(tok);
    return KVREF_OK;
}
