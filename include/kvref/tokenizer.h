/* SPDX-License-Identifier: MIT */
/* Byte-level BPE from a Hugging Face tokenizer.json (spec 01 section 7, spec 05 section 5). */
#ifndef KVREF_TOKENIZER_H
#define KVREF_TOKENIZER_H

#include "kvref/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvref_tokenizer kvref_tokenizer;

/* A growing list of token ids. Start from {0}; free with kvref_ids_clear. */
typedef struct kvref_ids {
    int32_t *id;
    size_t n, cap;
} kvref_ids;

/* What control strings such as <|im_end|> mean inside a text: their single id (upstream's
 * behaviour), or plain text. */
typedef enum kvref_control { KVREF_CONTROL_HONOUR, KVREF_CONTROL_PLAIN } kvref_control;

/* Reads and checks tokenizer.json: BPE model, NFC normaliser, the one known split pattern,
 * byte-level pre-tokeniser; anything else is UNSUPPORTED, naming the key. So is
 * more than 24 MiB, 6 MiB of vocab and added_tokens, 262144 tokens or 524288 merges. */
kvref_status kvref_tokenizer_open(kvref_tokenizer **out, const char *path, kvref_error *err);

/* The same from memory; name is used in messages. */
kvref_status kvref_tokenizer_parse(
    kvref_tokenizer **out, const char *json, size_t n_byte, const char *name, kvref_error *err);

/* Appends the ids of a UTF-8 text of n_byte bytes (NUL bytes allowed). Invalid UTF-8: FORMAT,
 * with the byte offset; *ids is then unchanged. Time is O(n log n) in the text. */
kvref_status kvref_tokenize(const kvref_tokenizer *tok,
                            kvref_ids *ids,
                            const char *text,
                            size_t n_byte,
                            kvref_control control,
                            kvref_error *err);

/* Id of an added token or vocabulary entry given as it is written in the file; -1: none. */
int32_t kvref_tokenizer_id(const kvref_tokenizer *tok, const char *content);

/* Largest id + 1. */
int32_t kvref_tokenizer_size(const kvref_tokenizer *tok);

/* Bytes that the id stands for (an added token: its content). *n_byte may be 0; NULL only for
 * an id that does not exist. Owned by the tokenizer, not NUL-terminated. */
const char *kvref_tokenizer_bytes(const kvref_tokenizer *tok, int32_t id, size_t *n_byte);

/* Smallest and largest id among <|semantic:0|> .. <|semantic:4095|>, and how many exist; all
 * three 0 when there is none (spec 01 R7). */
void kvref_tokenizer_semantic(const kvref_tokenizer *tok,
                              int32_t *begin,
                              int32_t *end,
                              int *count);

void kvref_tokenizer_close(kvref_tokenizer **tok);

void kvref_ids_clear(kvref_ids *ids);

#ifdef __cplusplus
}
#endif
#endif
