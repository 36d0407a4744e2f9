/* SPDX-License-Identifier: MIT */
/* Error records, notes, checked sizes and growing arrays. */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

const char *kvref_status_name(kvref_status status)
{
    static const char *const name[] = {"ok",
                                       "argument",
                                       "io",
                                       "format",
                                       "missing",
                                       "shape",
                                       "memory",
                                       "capacity",
                                       "device",
                                       "unsupported",
                                       "stopped"};
    size_t i = (size_t)status;
    return i < sizeof name / sizeof name[0] ? name[i] : "unknown";
}

/* Replaces what a terminal must not see, in place; cuts a sequence the buffer split. */
static void clean(char *text)
{
    utf8proc_uint8_t *p = (utf8proc_uint8_t *)text;
    utf8proc_ssize_t left = (utf8proc_ssize_t)strlen(text);
    while (left > 0) {
        utf8proc_int32_t c;
        utf8proc_ssize_t n = utf8proc_iterate(p, left, &c);
        if (n <= 0 || c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 ||
            (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069)) {
            n = n <= 0 ? 1 : n;
            memset(p, '?', (size_t)n);
        }
        p += n;
        left -= n;
    }
}

static void format_line(char *text, size_t cap, const char *format, va_list args)
{
    int n = vsnprintf(text, cap, format, args);
    if (n < 0) {
        snprintf(text, cap, "(message could not be formatted)");
    } else if ((size_t)n >= cap) {
        memcpy(text + cap - 4, "...", 4);
    }
    clean(text);
}

int kvref_report(kvref_error *err, kvref_status status, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        err->status = status;
        format_line(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    return 0;
}

void kvref_note(const kvref_log *log, const char *format, ...)
{
    if (!log || !log->line) return;
    char text[500];
    va_list args;
    va_start(args, format);
    format_line(text, sizeof text, format, args);
    va_end(args);
    log->line(log->user, text);
}

bool kvref_mul_size(size_t a, size_t b, size_t *out)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product)) return false;
    *out = product;
    return true;
}

bool kvref_add_size(size_t a, size_t b, size_t *out)
{
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return false;
    *out = sum;
    return true;
}

kvref_status kvref_grow(void **data, size_t *cap, size_t need, size_t size, kvref_error *err)
{
    if (need <= *cap) return KVREF_OK;
    size_t to = *cap < 8 ? 8 : *cap, n_byte;
    while (to < need && kvref_mul_size(to, 2, &to)) {
    }
    if (to < need || !kvref_mul_size(to, size, &n_byte))
        return kvref_fail(err, KVREF_E_MEMORY, "array of %zu elements: too large", need);
    void *p = realloc(*data, n_byte);
    if (!p) return kvref_fail(err, KVREF_E_MEMORY, "out of memory (%zu bytes)", n_byte);
    *data = p;
    *cap = to;
    return KVREF_OK;
}
