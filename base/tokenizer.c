/* SPDX-License-Identifier: MIT */
/* Text to token ids: added tokens first, then NFC, pieces and merging of every stretch between
 * them (spec 05 section 5). Reading the file is in tokenizer_load.c. */
#include "base/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

void kvref_ids_clear(kvref_ids *ids)
{
    free(ids->id);
    *ids = (kvref_ids){0};
}

kvref_status kvref_ids_append(kvref_ids *ids, int32_t id, kvref_error *err)
{
    void *p = ids->id;
    kvref_status status = kvref_grow(&p, &ids->cap, ids->n + 1, sizeof *ids->id, err);
    ids->id = p;
    KVREF_TRY(status);
    ids->id[ids->n++] = id;
    return KVREF_OK;
}

void kvref_scratch_clear(kvref_scratch *s)
{
    free(s->cp);
    free(s->run);
    free(s->node);
    free(s->heap);
    *s = (kvref_scratch){0};
}

/* A text that holds no added token. */
static kvref_status stretch(const kvref_tokenizer *tok,
                            kvref_scratch *s,
                            kvref_ids *ids,
                            const char *text,
                            size_t n_byte,
                            kvref_error *err)
{
    KVREF_TRY(kvref_nfc(s, text, n_byte, err));
    for (size_t at = 0, end; at < s->n_cp; at = end) {
        end = kvref_piece_end(s->cp, s->n_cp, at);
        KVREF_TRY(kvref_bpe(tok, s, ids, s->cp + at, end - at, err));
    }
    return KVREF_OK;
}

static kvref_status encode(const kvref_tokenizer *tok,
                           kvref_scratch *s,
                           kvref_ids *ids,
                           const char *text,
                           size_t n_byte,
                           kvref_control control,
                           kvref_error *err)
{
    size_t from = 0, at = 0;
    while (control == KVREF_CONTROL_HONOUR && at < n_byte) {
        const kvref_token *t = kvref_added_match(tok, text + at, n_byte - at);
        if (!t) {
            at++;
            continue;
        }
        KVREF_TRY(stretch(tok, s, ids, text + from, at - from, err));
        KVREF_TRY(kvref_ids_append(ids, t->id, err));
        at += t->n_name;
        from = at;
    }
    return stretch(tok, s, ids, text + from, n_byte - from, err);
}

kvref_status
kvref_text_check(const char *text, size_t n_byte, const char *name, kvref_error *err)
{
    const utf8proc_uint8_t *p = (const utf8proc_uint8_t *)text;
    if (n_byte > KVREF_TEXT_MAX)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "%s: expected at most %zu bytes, found %zu",
                          name,
                          KVREF_TEXT_MAX,
                          n_byte);
    for (size_t at = 0; at < n_byte;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t n = utf8proc_iterate(p + at, (utf8proc_ssize_t)(n_byte - at), &c);
        if (n <= 0)
            return kvref_fail(err,
                              KVREF_E_FORMAT,
                              "%s: byte %zu: expected UTF-8, found 0x%02x",
                              name,
                              at,
                              p[at]);
        at += (size_t)n;
    }
    return KVREF_OK;
}

kvref_status kvref_tokenize(const kvref_tokenizer *tok,
                            kvref_ids *ids,
                            const char *text,
                            size_t n_byte,
                            kvref_control control,
                            kvref_error *err)
{
    if (n_byte == 0) return KVREF_OK;
    KVREF_TRY(kvref_text_check(text, n_byte, "text", err));
    size_t n_before = ids->n;
    kvref_scratch s = {0};
    kvref_status status = encode(tok, &s, ids, text, n_byte, control, err);
    if (status != KVREF_OK) ids->n = n_before;
    kvref_scratch_clear(&s);
    return status;
}

int32_t kvref_tokenizer_id(const kvref_tokenizer *tok, const char *content)
{
    uint32_t i = kvref_token_find(tok, content, strlen(content));
    return i == KVREF_NO_TOKEN ? -1 : tok->token[i].id;
}

int32_t kvref_tokenizer_size(const kvref_tokenizer *tok)
{
    return tok->token[tok->n_token - 1].id + 1;
}

uint32_t kvref_token_index(const kvref_tokenizer *tok, int32_t id)
{
    uint32_t low = 0, high = (uint32_t)tok->n_token;
    if (id >= 0 && (uint32_t)id < high && tok->token[id].id == id) return (uint32_t)id;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (tok->token[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < tok->n_token && tok->token[low].id == id ? low : KVREF_NO_TOKEN;
}

const char *kvref_tokenizer_bytes(const kvref_tokenizer *tok, int32_t id, size_t *n_byte)
{
    uint32_t i = kvref_token_index(tok, id);
    *n_byte = i == KVREF_NO_TOKEN ? 0 : tok->token[i].n_byte;
    return i == KVREF_NO_TOKEN ? NULL : tok->token[i].byte;
}

void kvref_tokenizer_semantic(const kvref_tokenizer *tok,
                              int32_t *begin,
                              int32_t *end,
                              int *count)
{
    *begin = tok->semantic_begin;
    *end = tok->semantic_end;
    *count = tok->semantic_count;
}

void kvref_tokenizer_close(kvref_tokenizer **tok)
{
    kvref_tokenizer *t = *tok;
    if (!t) return;
    free(t->text);
    free(t->token);
    free(t->added);
    free(t->slot);
    free(t->merge);
    free(t->merge_start);
    free(t);
    *tok = NULL;
}
