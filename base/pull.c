/* SPDX-License-Identifier: MIT */
/* Punctuation, strings and integers of JSON, taken one after another from a text. */
#include "base/pull.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

kvref_status
kvref_bytes_append(kvref_bytes *b, const char *data, size_t n_byte, kvref_error *err)
{
    void *p = b->data;
    kvref_status status = kvref_grow(&p, &b->cap, b->n + n_byte + 1, 1, err);
    b->data = p;
    KVREF_TRY(status);
    if (n_byte) memcpy(b->data + b->n, data, n_byte);
    b->n += n_byte;
    b->data[b->n] = 0;
    return KVREF_OK;
}

static kvref_status bad(const kvref_pull *p, const char *want)
{
    char found[16] = "the end";
    if (p->at < p->end) snprintf(found, sizeof found, "0x%02x", (unsigned char)*p->at);
    return kvref_fail(p->err,
                      KVREF_E_FORMAT,
                      "%s: %s: byte %zu: expected %s, found %s",
                      p->file,
                      p->what,
                      (size_t)(p->at - p->begin),
                      want,
                      found);
}

char kvref_pull_peek(kvref_pull *p)
{
    while (p->at < p->end &&
           (*p->at == ' ' || *p->at == '\n' || *p->at == '\t' || *p->at == '\r'))
        p->at++;
    if (p->at == p->end) return 0;
    return *p->at;
}

kvref_status kvref_pull_expect(kvref_pull *p, char c)
{
    const char want[] = {'\'', c, '\'', 0};
    if (kvref_pull_peek(p) != c) return bad(p, want);
    p->at++;
    return KVREF_OK;
}

kvref_status kvref_pull_open(kvref_pull *p, char bracket)
{
    p->first = true;
    return kvref_pull_expect(p, bracket);
}

kvref_status kvref_pull_more(kvref_pull *p, bool *more, char bracket)
{
    *more = kvref_pull_peek(p) != bracket;
    if (*more) {
        if (!p->first) KVREF_TRY(kvref_pull_expect(p, ','));
        p->first = false;
        return KVREF_OK;
    }
    p->at++;
    kvref_pull_peek(p);
    return p->at == p->end ? KVREF_OK : bad(p, "nothing more");
}

/* Four hexadecimal digits. */
static kvref_status read_hex(kvref_pull *p, int32_t *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++, p->at++) {
        static const char digit[] = "0123456789abcdefABCDEF";
        const char *d = p->at < p->end && *p->at ? strchr(digit, *p->at) : NULL;
        if (!d) return bad(p, "a hexadecimal digit");
        int k = (int)(d - digit);
        *value = *value * 16 + (k < 16 ? k : k - 6);
    }
    return KVREF_OK;
}

/* What follows backslash u: a code point, of two halves above U+FFFF. */
static kvref_status read_code_point(kvref_pull *p, int32_t *cp)
{
    int32_t low;
    KVREF_TRY(read_hex(p, cp));
    if (*cp == 0) return bad(p, "no NUL");
    if (*cp < 0xd800 || *cp > 0xdfff) return KVREF_OK;
    if (*cp > 0xdbff || p->end - p->at < 6 || p->at[0] != '\\' || p->at[1] != 'u')
        return bad(p, "both halves of a pair");
    p->at += 2;
    KVREF_TRY(read_hex(p, &low));
    if (low < 0xdc00 || low > 0xdfff) return bad(p, "both halves of a pair");
    *cp = 0x10000 + ((*cp - 0xd800) << 10) + (low - 0xdc00);
    return KVREF_OK;
}

/* After a backslash, which is followed by something. */
static kvref_status read_escape(kvref_pull *p, kvref_bytes *to)
{
    static const char name[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    int32_t cp;
    const char *k = *p->at ? strchr(name, *p->at) : NULL;
    if (k) {
        to->data[to->n++] = meaning[k - name];
        p->at++;
        return KVREF_OK;
    }
    if (*p->at != 'u') return bad(p, "an escape");
    p->at++;
    KVREF_TRY(read_code_point(p, &cp));
    to->n += (size_t)utf8proc_encode_char(cp, (utf8proc_uint8_t *)to->data + to->n);
    return KVREF_OK;
}

/* Bytes up to the closing quote; the text without its escapes is never longer. */
static size_t raw_length(const kvref_pull *p)
{
    size_t n = 0, left = (size_t)(p->end - p->at);
    while (n < left && p->at[n] != '"') n += p->at[n] == '\\' ? 2 : 1;
    return n < left ? n : left;
}

kvref_status kvref_pull_string(kvref_pull *p, kvref_bytes *to)
{
    if (kvref_pull_peek(p) != '"') return bad(p, "a text");
    p->at++;
    void *data = to->data;
    kvref_status status = kvref_grow(&data, &to->cap, to->n + raw_length(p) + 1, 1, p->err);
    to->data = data;
    KVREF_TRY(status);
    while (p->at < p->end && *p->at != '"') {
        if ((unsigned char)*p->at < 0x20) return bad(p, "no control character");
        if (*p->at != '\\')
            to->data[to->n++] = *p->at++;
        else if (++p->at < p->end)
            KVREF_TRY(read_escape(p, to));
    }
    if (p->at == p->end) return bad(p, "a closing quote");
    p->at++;
    to->data[to->n] = 0;
    return KVREF_OK;
}

kvref_status kvref_pull_int(kvref_pull *p, int64_t *value)
{
    bool minus = kvref_pull_peek(p) == '-';
    if (minus) p->at++;
    const char *digit = p->at;
    int64_t x = 0;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
        if (__builtin_mul_overflow(x, 10, &x) || __builtin_add_overflow(x, *p->at - '0', &x))
            x = INT64_MAX;
    if (p->at == digit || (*digit == '0' && p->at - digit > 1)) return bad(p, "an integer");
    if (p->at < p->end && (*p->at == '.' || *p->at == 'e' || *p->at == 'E'))
        return bad(p, "an integer");
    *value = minus ? -x : x;
    return KVREF_OK;
}
