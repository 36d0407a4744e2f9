/* SPDX-License-Identifier: MIT */
/* Cuts normalised text into pieces, as repeated search with the one known pattern would:
 *   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*
 *   |\s*[\r\n]+|\s+(?!\S)|\s+
 * (spec 05 section 5). Each alternative is tried in order at the current position; none needs
 * real backtracking, so a scan by hand is exact and linear, where a general matcher would need
 * limits. \s is White_Space, \p{L} and \p{N} are the categories L* and N* of utf8proc. */
#include "base/tokenizer.h"

#include <utf8proc.h>

typedef enum kind { LETTER, NUMBER, SPACE, OTHER } kind;

static bool is_white(int32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

static kind kind_of(int32_t c)
{
    if (is_white(c)) return SPACE;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return NUMBER;
    default:
        return OTHER;
    }
}

static bool is_line_end(int32_t c)
{
    return c == '\r' || c == '\n';
}

/* First position from `at` on that is not of kind k. */
static size_t run_end(const int32_t *cp, size_t n, size_t at, kind k)
{
    while (at < n && kind_of(cp[at]) == k) at++;
    return at;
}

/* Only U+017F folds to one of these letters from outside ASCII. */
static int32_t fold(int32_t c)
{
    if (c == 0x17f) return 's';
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

/* Length of 's 't 're 've 'm 'll 'd in any case, or 0. */
static size_t contraction(const int32_t *cp, size_t n)
{
    if (n < 2 || cp[0] != '\'') return 0;
    int32_t a = fold(cp[1]), b = n > 2 ? fold(cp[2]) : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    return ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* White space: up to the last line end of the run; else all but the last character of the run
 * if text follows; else the run. */
static size_t space_end(const int32_t *cp, size_t n, size_t at)
{
    size_t end = run_end(cp, n, at, SPACE), line = end;
    while (line > at && !is_line_end(cp[line - 1])) line--;
    if (line > at) return line;
    return end < n && end - at > 1 ? end - 1 : end;
}

size_t kvref_piece_end(const int32_t *cp, size_t n, size_t at)
{
    size_t short_form = contraction(cp + at, n - at);
    if (short_form) return at + short_form;
    kind first = kind_of(cp[at]), second = at + 1 < n ? kind_of(cp[at + 1]) : SPACE;
    if (first == LETTER) return run_end(cp, n, at, LETTER);
    if (first == NUMBER) return at + 1;
    if (second == LETTER && !is_line_end(cp[at])) return run_end(cp, n, at + 1, LETTER);
    if (first == OTHER || (cp[at] == ' ' && second == OTHER)) {
        at = run_end(cp, n, at + 1, OTHER);
        while (at < n && is_line_end(cp[at])) at++;
        return at;
    }
    return space_end(cp, n, at);
}
