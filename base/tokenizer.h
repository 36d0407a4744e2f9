/* SPDX-License-Identifier: MIT */
/* Inside of kvref_tokenizer: filled by tokenizer_load.c, read by added.c, nfc.c, pretoken.c
 * and bpe.c, which are the steps of spec 05 section 5 in that order. */
#ifndef KVREF_BASE_TOKENIZER_H
#define KVREF_BASE_TOKENIZER_H

#include "base/base.h"
#include "base/pull.h"
#include "kvref/tokenizer.h"

/* Longest text taken in one call; keeps every index below 2^32 with room for NFC growth. */
#define KVREF_TEXT_MAX ((size_t)1 << 28)

/* Longest added token, so that looking for one costs a bounded time per position. */
#define KVREF_ADDED_MAX 256

#define KVREF_NO_TOKEN UINT32_MAX

typedef struct kvref_token {
    const char *name; /* as written in the file; of an added token the text itself */
    const char *byte; /* [n_byte] what it stands for                                */
    uint32_t n_name, n_byte;
    int32_t id;
    bool added;
} kvref_token;

/* Names by hash: open addressing, the next free slot after a taken one. */
typedef struct kvref_slot {
    uint32_t hash, index; /* KVREF_NO_TOKEN: free */
} kvref_slot;

/* left + right -> result; tokens by index, not by id. */
typedef struct kvref_merge {
    uint32_t left, right, rank, result;
} kvref_merge;

struct kvref_tokenizer {
    char *text;         /* all names and bytes                                  */
    kvref_token *token; /* [n_token], ascending id                              */
    size_t n_token, cap_token;
    kvref_slot *slot; /* [slot_mask + 1] */
    uint32_t slot_mask;
    const kvref_token **added; /* [n_added], strcmp order of name */
    uint32_t n_added;
    uint32_t added_start[257]; /* added[start[b] .. start[b+1]-1] begin with byte b    */
    uint32_t byte_token[256];  /* index of the token of every single byte              */
    kvref_merge *merge;        /* [n_merge], by left, then right                       */
    uint32_t n_merge;
    uint32_t *merge_start; /* [n_token+1]: merge[start[l] .. start[l+1]-1] have left l */
    int32_t semantic_begin, semantic_end;
    int semantic_count;
};

/* Working memory of one kvref_tokenize call. Start from {0}. */
typedef struct kvref_node {
    uint32_t token, prev, next; /* a list in the order of the text       */
    uint32_t rank;              /* of this symbol and the next, if merged */
} kvref_node;

typedef struct kvref_scratch {
    int32_t *cp; /* [n_cp] code points of one stretch, in NFC */
    size_t n_cp, cap_cp;
    int32_t *run; /* one run of combining marks                */
    size_t cap_run;
    kvref_node *node; /* the symbols of one piece                  */
    size_t cap_node;
    uint64_t *heap; /* [n_heap] rank << 32 | node                */
    size_t n_heap, cap_heap;
} kvref_scratch;

void kvref_scratch_clear(kvref_scratch *s);

/* Refuses every setting that would change the encoding (spec 01 section 7). root is the file
 * with null in place of vocab, merges and added_tokens; name is for messages. */
struct json_t;
kvref_status
kvref_tokenizer_rules(const struct json_t *root, const char *name, kvref_error *err);

/* The same for added token i. */
kvref_status
kvref_added_rules(const struct json_t *token, size_t i, const char *name, kvref_error *err);

/* Reads the n_byte bytes of the merges array once the tokens are in order and hashed. */
kvref_status kvref_tokenizer_merges(
    kvref_tokenizer *tok, const char *json, size_t n_byte, const char *name, kvref_error *err);

/* Sorts the tokens and makes every index but that of merges. An id or a name that occurs twice,
 * a byte without token and names made to collide are FORMAT. */
kvref_status kvref_tokenizer_index(kvref_tokenizer *tok, const char *name, kvref_error *err);

/* Index of the token of that name; KVREF_NO_TOKEN: none. */
uint32_t kvref_token_find(const kvref_tokenizer *tok, const char *name, size_t n);

/* Index of the token with that id; KVREF_NO_TOKEN: none. */
uint32_t kvref_token_index(const kvref_tokenizer *tok, int32_t id);

/* Refuses text that is too long or not UTF-8, with the offset of the first bad byte; name says
 * which text in the message. */
kvref_status
kvref_text_check(const char *text, size_t n_byte, const char *name, kvref_error *err);

kvref_status kvref_ids_append(kvref_ids *ids, int32_t id, kvref_error *err);

/* Longest added token that text begins with, or NULL. */
const kvref_token *
kvref_added_match(const kvref_tokenizer *tok, const char *text, size_t n_byte);

/* Fills s->cp with the NFC form of valid UTF-8. Linear in n_byte. */
kvref_status kvref_nfc(kvref_scratch *s, const char *text, size_t n_byte, kvref_error *err);

/* End of the piece of cp[0..n-1] that begins at `at` < n; always > at. */
size_t kvref_piece_end(const int32_t *cp, size_t n, size_t at);

/* Appends the ids of one piece. O(n log n). */
kvref_status kvref_bpe(const kvref_tokenizer *tok,
                       kvref_scratch *s,
                       kvref_ids *ids,
                       const int32_t *cp,
                       size_t n,
                       kvref_error *err);

#endif
