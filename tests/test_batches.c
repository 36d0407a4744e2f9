/* SPDX-License-Identifier: MIT */
#include "kvref/prompt.h"
#include "tests/support.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kvref_texts split(const char *text, int chunk_length)
{
    kvref_texts out;
    kvref_error err;
    must(kvref_prompt_split(&out, NULL, text, strlen(text), chunk_length, &err), err);
    return out;
}

/* Splits and compares with a list that ends in NULL. */
static void check_split(const char *text, int chunk_length, const char *const *want)
{
    kvref_texts out = split(text, chunk_length);
    int n = 0;
    while (want[n]) n++;
    ck_assert_msg(out.n == n, "\"%s\": %d batches, not %d", text, out.n, n);
    for (int i = 0; i < n; i++) {
        ck_assert_str_eq(out.text[i], want[i]);
        ck_assert_uint_eq(out.n_byte[i], strlen(want[i]));
    }
    kvref_texts_clear(&out);
    ck_assert(out.n == 0 && !out.text);
}

#define CHECK_SPLIT(text, chunk_length, ...)                                                   \
    check_split(text, chunk_length, (const char *const[]){__VA_ARGS__, NULL})

START_TEST(untagged_text_is_one_batch_unchanged)
{
    char big[5000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    CHECK_SPLIT("", 300, "");
    CHECK_SPLIT("  Hello \n", 300, "  Hello \n");
    CHECK_SPLIT(big, 300, big);
    CHECK_SPLIT("Hello", -1, "Hello");
}
END_TEST

START_TEST(turns_are_stripped_at_the_end_and_text_before_a_tag_is_dropped)
{
    CHECK_SPLIT("Hi <|speaker:0|> a <|speaker:1|>b\n", 300, "<|speaker:0|> a\n<|speaker:1|>b");
    CHECK_SPLIT("<|speaker:7|>", 300, "<|speaker:7|>");
    CHECK_SPLIT("<|speaker:0|> \n\t<|speaker:12|>", 300, "<|speaker:0|>\n<|speaker:12|>");
    CHECK_SPLIT("<|speaker:0|>a b  c\n\nd  ", 300, "<|speaker:0|>a b  c\n\nd");
    kvref_texts out;
    size_t dropped = 99;
    must(kvref_prompt_split(&out, &dropped, "Hi <|speaker:0|>a", 17, 300, NULL),
         (kvref_error){0});
    ck_assert_uint_eq(dropped, 3);
    kvref_texts_clear(&out);
    must(kvref_prompt_split(&out, &dropped, "Hi ", 3, 300, NULL), (kvref_error){0});
    ck_assert_uint_eq(dropped, 0);
    kvref_texts_clear(&out);
}
END_TEST

/* Every code point that Python's strip removes, and neighbours that it keeps. */
START_TEST(white_space_is_that_of_python)
{
    static const char *const space[] = {
        "\x09",         "\x0a",         "\x0b",         "\x0c",         "\x0d",
        "\x1c",         "\x1d",         "\x1e",         "\x1f",         " ",
        "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x8a",
        "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
    static const char *const other[] = {"\x08",
                                        "\x0e",
                                        "\x1b",
                                        "!",
                                        "\xc2\x84",
                                        "\xc2\x9f",
                                        "\xe1\x9a\x81",
                                        "\xe1\xa0\x8e",
                                        "\xe2\x80\x8b",
                                        "\xe2\x80\xa7",
                                        "\xe2\x80\xaa",
                                        "\xe2\x81\xa0",
                                        "\xe3\x80\x81",
                                        "\xef\xbb\xbf",
                                        "\xf0\x9f\x98\x80"};
    char text[64];
    for (size_t i = 0; i < sizeof space / sizeof *space; i++) {
        snprintf(text, sizeof text, "<|speaker:0|>a%s%s", space[i], space[i]);
        CHECK_SPLIT(text, 300, "<|speaker:0|>a");
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        snprintf(text, sizeof text, "<|speaker:0|>a%s", other[i]);
        CHECK_SPLIT(text, 300, text);
    }
}
END_TEST

START_TEST(only_complete_tags_count)
{
    static const char *const not_a_tag[] = {"<|speaker:|>",
                                            "<|speaker:1",
                                            "<|speaker:1|",
                                            "<|speaker:x|>",
                                            "<|speaker:-1|>",
                                            "<|speaker: 1|>",
                                            "<|Speaker:1|>",
                                            "<|speaker:1x|>",
                                            "<|speaker:",
                                            "<|speaker:\xd9\xa1|>"};
    for (size_t i = 0; i < sizeof not_a_tag / sizeof *not_a_tag; i++) {
        char text[64];
        snprintf(text, sizeof text, "a %s b ", not_a_tag[i]);
        CHECK_SPLIT(text, 300, text);
    }
    CHECK_SPLIT("a<|speaker:<|speaker:0|>b", 300, "<|speaker:0|>b");
    CHECK_SPLIT("a<|speaker:1<|speaker:00123456789012345678901|>b",
                300,
                "<|speaker:00123456789012345678901|>b");
}
END_TEST

/* Appends a turn of n bytes. */
static void add(char *text, int n)
{
    static const char tag[] = "<|speaker:0|>";
    size_t at = strlen(text);
    memcpy(text + at, tag, 13);
    memset(text + at + 13, 'x', (size_t)n - 13);
    text[at + (size_t)n] = 0;
}

START_TEST(a_batch_is_full_by_bytes_or_by_turns)
{
    char text[1000] = "";
    const int size[] = {200, 87, 13, 13, 13, 13, 13, 13, 13};
    for (size_t i = 0; i < 9; i++) add(text, size[i]);
    kvref_texts out = split(text, 300);
    ck_assert_int_eq(out.n, 3);
    ck_assert_uint_eq(out.n_byte[0], 200 + 87 + 13 + 2);
    ck_assert_uint_eq(out.n_byte[1], 5 * 13 + 4);
    ck_assert_uint_eq(out.n_byte[2], 13);
    kvref_texts_clear(&out);
    out = split(text, 299);
    ck_assert_uint_eq(out.n_byte[0], 200 + 87 + 1);
    kvref_texts_clear(&out);
    out = split(text, INT_MAX);
    ck_assert_int_eq(out.n, 2);
    kvref_texts_clear(&out);
    for (int chunk = -1; chunk < 14; chunk += 7) {
        out = split(text, chunk);
        ck_assert_int_eq(out.n, 9);
        kvref_texts_clear(&out);
    }
}
END_TEST

START_TEST(a_long_turn_is_never_split)
{
    char text[1000] = "";
    add(text, 13);
    add(text, 500);
    add(text, 13);
    kvref_texts out = split(text, 100);
    ck_assert_int_eq(out.n, 3);
    ck_assert_uint_eq(out.n_byte[1], 500);
    kvref_texts_clear(&out);
}
END_TEST

START_TEST(texts_may_hold_nul)
{
    static const char text[] = "<|speaker:0|>a\0b<|speaker:1|>c\0 ";
    kvref_texts out;
    kvref_error err;
    must(kvref_prompt_split(&out, NULL, text, sizeof text - 1, 10, &err), err);
    ck_assert_int_eq(out.n, 2);
    ck_assert(out.n_byte[0] == 16 && !memcmp(out.text[0], text, 16) && !out.text[0][16]);
    ck_assert(out.n_byte[1] == 15 && !memcmp(out.text[1], text + 16, 15));
    kvref_texts_clear(&out);
    must(kvref_prompt_split(&out, NULL, NULL, 0, 10, &err), err);
    ck_assert(out.n == 1 && out.n_byte[0] == 0 && out.text[0][0] == 0);
    kvref_texts_clear(&out);
}
END_TEST

START_TEST(bad_texts_are_refused)
{
    kvref_texts out;
    kvref_error err;
    size_t dropped = 5;
    must_fail(kvref_prompt_split(&out, &dropped, "<|speaker:0|>\xff", 14, 300, &err),
              KVREF_E_FORMAT,
              err,
              "text: byte 13: expected UTF-8, found 0xff");
    ck_assert(out.n == 0 && dropped == 0);
    must_fail(
        kvref_prompt_split(&out, NULL, "", SIZE_MAX, 300, &err), KVREF_E_ARG, err, "at most");
}
END_TEST

START_TEST(a_megabyte_of_tags_or_parts_of_tags_splits_in_linear_time)
{
    static const char *const unit[] = {"<|speaker:0|>", "<|speaker:", "<|speaker:1", "1", "<|"};
    for (size_t i = 0; i < sizeof unit / sizeof *unit; i++) {
        size_t n = strlen(unit[i]), total = 1000000 / n * n;
        char *text = malloc(total);
        for (size_t k = 0; k < total; k++) text[k] = unit[i][k % n];
        kvref_texts out;
        kvref_error err;
        must(kvref_prompt_split(&out, NULL, text, total, 300, &err), err);
        ck_assert_int_eq(out.n, i == 0 ? (int)(total / n + 4) / 5 : 1);
        kvref_texts_clear(&out);
        free(text);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("batches");
    TCase *tc = tcase_create("batches");
    tcase_set_timeout(tc, 20);
    tcase_add_test(tc, untagged_text_is_one_batch_unchanged);
    tcase_add_test(tc, turns_are_stripped_at_the_end_and_text_before_a_tag_is_dropped);
    tcase_add_test(tc, white_space_is_that_of_python);
    tcase_add_test(tc, only_complete_tags_count);
    tcase_add_test(tc, a_batch_is_full_by_bytes_or_by_turns);
    tcase_add_test(tc, a_long_turn_is_never_split);
    tcase_add_test(tc, texts_may_hold_nul);
    tcase_add_test(tc, bad_texts_are_refused);
    tcase_add_test(tc, a_megabyte_of_tags_or_parts_of_tags_splits_in_linear_time);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
