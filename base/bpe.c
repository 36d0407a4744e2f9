/* SPDX-License-Identifier: MIT */
/* Byte-pair merging of one piece: while any adjacent pair is in the table, merge the pair of
 * lowest rank, the leftmost among equals (spec 05 section 5, step 5). The symbols form a list,
 * the candidates a binary heap of (rank, position); an entry is out of date when its position
 * no longer has that rank, and is then skipped. */
#include "base/tokenizer.h"

#include <assert.h>
#include <stdlib.h>
#include <utf8proc.h>

#define NONE UINT32_MAX

/* The merge of two tokens, or NULL. */
static const kvref_merge *find(const kvref_tokenizer *tok, uint32_t left, uint32_t right)
{
    uint32_t low = tok->merge_start[left], high = tok->merge_start[left + 1];
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (tok->merge[mid].right < right)
            low = mid + 1;
        else
            high = mid;
    }
    return low < tok->merge_start[left + 1] && tok->merge[low].right == right ? &tok->merge[low]
                                                                              : NULL;
}

static kvref_status push(kvref_scratch *s, uint64_t key, kvref_error *err)
{
    void *p = s->heap;
    kvref_status status = kvref_grow(&p, &s->cap_heap, s->n_heap + 1, sizeof *s->heap, err);
    s->heap = p;
    KVREF_TRY(status);
    size_t i = s->n_heap++;
    for (; i > 0 && s->heap[(i - 1) / 2] > key; i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = key;
    return KVREF_OK;
}

static uint64_t pop(kvref_scratch *s)
{
    uint64_t top = s->heap[0], last = s->heap[--s->n_heap];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < s->n_heap) {
        if (child + 1 < s->n_heap && s->heap[child + 1] < s->heap[child]) child++;
        if (last <= s->heap[child]) break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return top;
}

/* Looks up the pair that begins at node i and makes it a candidate. */
static kvref_status
consider(const kvref_tokenizer *tok, kvref_scratch *s, uint32_t i, kvref_error *err)
{
    kvref_node *a = &s->node[i];
    const kvref_merge *m = a->next == NONE ? NULL : find(tok, a->token, s->node[a->next].token);
    a->rank = m ? m->rank : NONE;
    return m ? push(s, (uint64_t)m->rank << 32 | i, err) : KVREF_OK;
}

/* Joins node i with the one after it, which drops out of the list. */
static kvref_status
join(const kvref_tokenizer *tok, kvref_scratch *s, uint32_t i, kvref_error *err)
{
    kvref_node *a = &s->node[i], *b = &s->node[a->next];
    a->token = find(tok, a->token, b->token)->result;
    a->next = b->next;
    b->rank = NONE;
    if (a->next != NONE) s->node[a->next].prev = i;
    KVREF_TRY(consider(tok, s, i, err));
    return a->prev == NONE ? KVREF_OK : consider(tok, s, a->prev, err);
}

static size_t utf8_size(const int32_t *cp, size_t n)
{
    size_t n_byte = 0;
    for (size_t i = 0; i < n; i++)
        n_byte += cp[i] < 0x80 ? 1 : cp[i] < 0x800 ? 2 : cp[i] < 0x10000 ? 3 : 4;
    return n_byte;
}

/* One node per byte of the piece. */
static kvref_status fill(const kvref_tokenizer *tok,
                         kvref_scratch *s,
                         uint32_t *n_node,
                         const int32_t *cp,
                         size_t n,
                         kvref_error *err)
{
    void *p = s->node;
    kvref_status status = kvref_grow(&p, &s->cap_node, utf8_size(cp, n), sizeof *s->node, err);
    s->node = p;
    KVREF_TRY(status);
    uint32_t k = 0;
    for (size_t i = 0; i < n; i++) {
        utf8proc_uint8_t byte[4];
        utf8proc_ssize_t n_byte = utf8proc_encode_char(cp[i], byte);
        for (utf8proc_ssize_t b = 0; b < n_byte; b++, k++)
            s->node[k] = (kvref_node){tok->byte_token[byte[b]], k - 1, k + 1, NONE};
    }
    s->node[0].prev = NONE;
    s->node[k - 1].next = NONE;
    *n_node = k;
    return KVREF_OK;
}

kvref_status kvref_bpe(const kvref_tokenizer *tok,
                       kvref_scratch *s,
                       kvref_ids *ids,
                       const int32_t *cp,
                       size_t n,
                       kvref_error *err)
{
    assert(n > 0);
    uint32_t n_node;
    KVREF_TRY(fill(tok, s, &n_node, cp, n, err));
    s->n_heap = 0;
    for (uint32_t i = 0; i + 1 < n_node; i++) KVREF_TRY(consider(tok, s, i, err));
    while (s->n_heap > 0) {
        uint64_t key = pop(s);
        uint32_t i = (uint32_t)key;
        if (s->node[i].rank == (uint32_t)(key >> 32)) KVREF_TRY(join(tok, s, i, err));
    }
    for (uint32_t i = 0; i != NONE; i = s->node[i].next)
        KVREF_TRY(kvref_ids_append(ids, tok->token[s->node[i].token].id, err));
    return KVREF_OK;
}
