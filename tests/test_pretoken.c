/* SPDX-License-Identifier: MIT */
/* The split by hand against PCRE2 searching the pattern itself. PCRE2's \s takes U+180E too,
 * so its white space is written out. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "base/tokenizer.h"
#include "tests/support.h"

#include <pcre2.h>
#include <string.h>
#include <utf8proc.h>

#define S                                                                                      \
    "\\x{9}-\\x{d} "                                                                           \
    "\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

static pcre2_code *pattern, *unassigned;
static pcre2_match_data *match;

static pcre2_code *compile(const char *text)
{
    int code;
    size_t offset;
    pcre2_code *re = pcre2_compile(
        (PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &offset, NULL);
    ck_assert_msg(re != NULL, "pattern: error %d at %zu", code, offset);
    (void)pcre2_jit_compile(re, PCRE2_JIT_COMPLETE); /* for speed, where there is one */
    return re;
}

static void open_pattern(void)
{
    pattern = compile("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
                      "?[^" S "\\p{L}\\p{N}]+[\\r\\n]*|[" S "]*[\\r\\n]+|[" S "]+(?![^" S
                      "])|[" S "]+");
    unassigned = compile("^\\p{Cn}");
    match = pcre2_match_data_create(1, NULL);
}

static void close_pattern(void)
{
    pcre2_match_data_free(match);
    pcre2_code_free(pattern);
    pcre2_code_free(unassigned);
}

static size_t encode(char *text, const int32_t *cp, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        at += (size_t)utf8proc_encode_char(cp[i], (utf8proc_uint8_t *)text + at);
    return at;
}

/* Compares every border of the pieces of cp[0..n-1]. */
static void check_split(const int32_t *cp, size_t n)
{
    char text[64];
    size_t n_byte = encode(text, cp, n), byte = 0;
    for (size_t at = 0, end; at < n; at = end) {
        end = kvref_piece_end(cp, n, at);
        ck_assert(end > at && end <= n);
        int found = pcre2_match(
            pattern, (PCRE2_SPTR)text, n_byte, byte, PCRE2_NO_UTF_CHECK, match, NULL);
        const size_t *range = pcre2_get_ovector_pointer(match);
        size_t here = byte + encode((char[64]){0}, cp + at, end - at);
        ck_assert_msg(found == 1 && range[0] == byte && range[1] == here,
                      "U+%04X U+%04X U+%04X U+%04X U+%04X (%zu): piece at %zu ends at %zu",
                      (unsigned)cp[0],
                      n > 1 ? (unsigned)cp[1] : 0,
                      n > 2 ? (unsigned)cp[2] : 0,
                      n > 3 ? (unsigned)cp[3] : 0,
                      n > 4 ? (unsigned)cp[4] : 0,
                      n,
                      at,
                      end);
        byte = here;
    }
}

/* One of every kind that the pattern tells apart. */
static const int32_t kind[] = {'\'',
                               's',
                               'E',
                               'r',
                               'V',
                               'l',
                               0x17f,
                               0x4f60,
                               '1',
                               0xbd,
                               ' ',
                               '\t',
                               '\r',
                               '\n',
                               0x2029,
                               '!',
                               0x301};
#define N_KIND (sizeof kind / sizeof *kind)

START_TEST(every_string_of_four_kinds_splits_as_the_pattern_does)
{
    for (size_t n = 1; n <= 4; n++) {
        size_t total = 1;
        for (size_t i = 0; i < n; i++) total *= N_KIND;
        for (size_t number = 0; number < total; number++) {
            int32_t cp[4];
            size_t rest = number;
            for (size_t i = 0; i < n; i++, rest /= N_KIND) cp[i] = kind[rest % N_KIND];
            check_split(cp, n);
        }
    }
}
END_TEST

START_TEST(random_strings_of_twelve_split_as_the_pattern_does)
{
    uint32_t state = 1;
    for (int k = 0; k < 50000; k++) {
        int32_t cp[12];
        for (int i = 0; i < 12; i++) {
            state = state * 1664525u + 1013904223u;
            cp[i] = kind[(state >> 16) % N_KIND];
        }
        check_split(cp, 12);
    }
}
END_TEST

/* Tab, c, line end: one piece of white space, or two pieces around a letter, or others. */
START_TEST(every_assigned_code_point_has_the_kind_of_the_pattern)
{
    for (int32_t c = 1; c < 0x20000; c++) {
        if (c >= 0xd800 && c <= 0xdfff) continue;
        const int32_t cp[3] = {'\t', c, '\n'};
        char text[4];
        size_t n = encode(text, cp + 1, 1);
        /* The two libraries may know different versions of Unicode. */
        if (pcre2_match(unassigned, (PCRE2_SPTR)text, n, 0, 0, match, NULL) < 0)
            check_split(cp, 3);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pretoken");
    TCase *tc = tcase_create("pretoken");
    tcase_set_timeout(tc, 60);
    tcase_add_unchecked_fixture(tc, open_pattern, close_pattern);
    tcase_add_test(tc, every_string_of_four_kinds_splits_as_the_pattern_does);
    tcase_add_test(tc, random_strings_of_twelve_split_as_the_pattern_does);
    tcase_add_test(tc, every_assigned_code_point_has_the_kind_of_the_pattern);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
