/* SPDX-License-Identifier: MIT */
/* UTF-8 to code points in normalisation form C (Unicode Standard Annex 15): decompose, put
 * combining marks in order of their class, compose. Ordering is a counting sort per run of
 * marks, because the usual exchange sort takes quadratic time on a long run; decomposition
 * and composition are utf8proc's. Unassigned code points pass unchanged. */
#include "base/tokenizer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* Below U+0300 every string is its own NFC. */
#define FIRST_MARK 0x300

/* Longest canonical decomposition of one code point is 4; utf8proc's tables stay below this. */
#define MAX_PART 16

static kvref_status
reserve(int32_t **data, size_t *cap, size_t need, size_t size, kvref_error *err)
{
    void *p = *data;
    kvref_status status = kvref_grow(&p, cap, need, size, err);
    *data = p;
    return status;
}

/* Appends the code points of a text; *plain: none needs normalising. */
static kvref_status
decode(kvref_scratch *s, bool *plain, const char *text, size_t n_byte, kvref_error *err)
{
    const utf8proc_uint8_t *p = (const utf8proc_uint8_t *)text;
    *plain = true;
    KVREF_TRY(reserve(&s->cp, &s->cap_cp, n_byte, sizeof *s->cp, err));
    for (size_t at = 0; at < n_byte;) {
        utf8proc_ssize_t n =
            utf8proc_iterate(p + at, (utf8proc_ssize_t)(n_byte - at), &s->cp[s->n_cp]);
        assert(n > 0);
        if (s->cp[s->n_cp++] >= FIRST_MARK) *plain = false;
        at += (size_t)n;
    }
    return KVREF_OK;
}

/* Replaces every code point by its full canonical decomposition. */
static kvref_status decompose(kvref_scratch *s, kvref_error *err)
{
    size_t n_in = s->n_cp, n = 0;
    KVREF_TRY(reserve(&s->run, &s->cap_run, n_in, sizeof *s->run, err));
    memcpy(s->run, s->cp, n_in * sizeof *s->run);
    for (size_t i = 0; i < n_in; i++) {
        int boundary = 0;
        KVREF_TRY(reserve(&s->cp, &s->cap_cp, n + MAX_PART, sizeof *s->cp, err));
        utf8proc_ssize_t part = utf8proc_decompose_char(
            s->run[i], s->cp + n, MAX_PART, UTF8PROC_STABLE | UTF8PROC_COMPOSE, &boundary);
        assert(part > 0 && part <= MAX_PART);
        n += (size_t)part;
    }
    s->n_cp = n;
    return KVREF_OK;
}

static uint8_t mark_class(int32_t c)
{
    return (uint8_t)utf8proc_get_property(c)->combining_class;
}

/* Stable sort of cp[0..n-1] by class; temp [n]. */
static void sort_marks(int32_t *cp, int32_t *temp, size_t n)
{
    size_t start[257] = {0};
    for (size_t i = 0; i < n; i++) start[mark_class(cp[i]) + 1]++;
    for (int k = 0; k < 256; k++) start[k + 1] += start[k];
    for (size_t i = 0; i < n; i++) temp[start[mark_class(cp[i])]++] = cp[i];
    memcpy(cp, temp, n * sizeof *cp);
}

/* Sorts every run of marks (class above 0) that is out of order. */
static kvref_status order(kvref_scratch *s, kvref_error *err)
{
    KVREF_TRY(reserve(&s->run, &s->cap_run, s->n_cp, sizeof *s->run, err));
    for (size_t at = 0; at < s->n_cp;) {
        size_t from = at;
        bool sorted = true;
        int last = 0, k;
        while (at < s->n_cp && (k = mark_class(s->cp[at])) > 0) {
            if (k < last) sorted = false;
            last = k;
            at++;
        }
        if (!sorted) sort_marks(s->cp + from, s->run, at - from);
        if (at == from) at++;
    }
    return KVREF_OK;
}

kvref_status kvref_nfc(kvref_scratch *s, const char *text, size_t n_byte, kvref_error *err)
{
    bool plain;
    s->n_cp = 0;
    KVREF_TRY(decode(s, &plain, text, n_byte, err));
    if (plain) return KVREF_OK;
    KVREF_TRY(decompose(s, err));
    KVREF_TRY(order(s, err));
    utf8proc_ssize_t n = utf8proc_normalize_utf32(
        s->cp, (utf8proc_ssize_t)s->n_cp, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    assert(n >= 0);
    s->n_cp = (size_t)n;
    return KVREF_OK;
}
