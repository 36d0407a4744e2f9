/* SPDX-License-Identifier: MIT */
#include "kvref/tokenizer.h"
#include "tests/small_tokenizer.h"
#include "tests/support.h"

#include <stdio.h>
#include <utf8proc.h>

static kvref_tokenizer *tok;

static void open_small(void)
{
    tok = small_tokenizer();
}

static void close_small(void)
{
    kvref_tokenizer_close(&tok);
    ck_assert_ptr_null(tok);
    kvref_tokenizer_close(&tok);
}

static kvref_ids encode(const char *text, size_t n_byte, kvref_control control)
{
    kvref_ids ids = {0};
    kvref_error err;
    must(kvref_tokenize(tok, &ids, text, n_byte, control, &err), err);
    return ids;
}

/* The bytes that ids stand for, one after another. */
static char *decode(const kvref_ids *ids, size_t *n_byte)
{
    size_t n = 0, part;
    for (size_t i = 0; i < ids->n; i++, n += part)
        ck_assert_ptr_nonnull(kvref_tokenizer_bytes(tok, ids->id[i], &part));
    char *text = malloc(n + 1);
    *n_byte = n;
    n = 0;
    for (size_t i = 0; i < ids->n; i++, n += part) {
        const char *byte = kvref_tokenizer_bytes(tok, ids->id[i], &part);
        memcpy(text + n, byte, part);
    }
    return text;
}

START_TEST(every_small_vector_gives_the_ids_of_the_slow_encoder)
{
    json_t *vectors = small_json("small-vectors.json"), *vector;
    size_t i, n_plain = 0;
    ck_assert_uint_ge(json_array_size(vectors), 200);
    json_array_foreach(vectors, i, vector)
    {
        const json_t *text = json_object_get(vector, "text");
        const json_t *want = json_object_get(vector, "ids");
        const json_t *plain = json_object_get(vector, "plain");
        kvref_ids honour =
            encode(json_string_value(text), json_string_length(text), KVREF_CONTROL_HONOUR);
        kvref_ids skip =
            encode(json_string_value(text), json_string_length(text), KVREF_CONTROL_PLAIN);
        ck_assert_msg(same_ids(&honour, want), "vector %zu, control tokens honoured", i);
        ck_assert_msg(same_ids(&skip, plain ? plain : want), "vector %zu, plain", i);
        n_plain += plain != NULL;
        kvref_ids_clear(&honour);
        kvref_ids_clear(&skip);
    }
    ck_assert_uint_ge(n_plain, 30);
    json_decref(vectors);
}
END_TEST

START_TEST(plain_ids_spell_the_normalised_text)
{
    json_t *vectors = small_json("small-vectors.json"), *vector;
    size_t i;
    json_array_foreach(vectors, i, vector)
    {
        const json_t *text = json_object_get(vector, "text");
        size_t n = json_string_length(text), n_back;
        kvref_ids ids = encode(json_string_value(text), n, KVREF_CONTROL_PLAIN);
        utf8proc_uint8_t *want = NULL;
        utf8proc_ssize_t n_want =
            utf8proc_map((const utf8proc_uint8_t *)json_string_value(text),
                         (utf8proc_ssize_t)n,
                         &want,
                         UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        char *back = decode(&ids, &n_back);
        ck_assert_msg(n_want >= 0 && n_back == (size_t)n_want && !memcmp(back, want, n_back),
                      "vector %zu",
                      i);
        free(back);
        free(want);
        kvref_ids_clear(&ids);
    }
    json_decref(vectors);
}
END_TEST

START_TEST(control_strings_in_a_text_follow_the_policy)
{
    static const char *const control[] = {
        "<|im_end|>", "<|semantic:5|>", "<|voice|>", "<think>"};
    for (size_t i = 0; i < sizeof control / sizeof *control; i++) {
        size_t n = strlen(control[i]), n_back;
        kvref_ids honour = encode(control[i], n, KVREF_CONTROL_HONOUR);
        kvref_ids plain = encode(control[i], n, KVREF_CONTROL_PLAIN);
        ck_assert_uint_eq(honour.n, 1);
        ck_assert_int_eq(honour.id[0], kvref_tokenizer_id(tok, control[i]));
        ck_assert_uint_gt(plain.n, 1);
        for (size_t k = 0; k < plain.n; k++) ck_assert_int_lt(plain.id[k], 600);
        char *back = decode(&plain, &n_back);
        ck_assert(n_back == n && !memcmp(back, control[i], n));
        free(back);
        kvref_ids_clear(&honour);
        kvref_ids_clear(&plain);
    }
}
END_TEST

START_TEST(invalid_utf8_is_refused_with_its_offset_and_changes_nothing)
{
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"\x80", "byte 0: expected UTF-8, found 0x80"},
        {"ab\xbf", "byte 2"},
        {"\xc3", "byte 0"},
        {"a\xe2\x82", "byte 1"},
        {"\xc0\xaf", "byte 0"},
        {"\xe0\x80\x80", "byte 0"},
        {"\xed\xa0\x80", "byte 0"},
        {"\xf4\x90\x80\x80", "byte 0"},
        {"<|im_end|>\xff", "byte 10: expected UTF-8, found 0xff"},
        {"caf\xe9 latin", "byte 3"},
    };
    kvref_ids ids = encode("kept", 4, KVREF_CONTROL_PLAIN);
    size_t n = ids.n;
    kvref_error err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        must_fail(kvref_tokenize(
                      tok, &ids, bad[i].text, strlen(bad[i].text), KVREF_CONTROL_HONOUR, &err),
                  KVREF_E_FORMAT,
                  err,
                  bad[i].message);
        ck_assert_uint_eq(ids.n, n);
    }
    must_fail(kvref_tokenize(tok, &ids, "", SIZE_MAX, KVREF_CONTROL_PLAIN, &err),
              KVREF_E_ARG,
              err,
              "expected at most");
    kvref_ids_clear(&ids);
}
END_TEST

START_TEST(ids_are_appended)
{
    kvref_ids ids = {0}, both = encode("Hello world", 11, KVREF_CONTROL_PLAIN);
    kvref_error err;
    must(kvref_tokenize(tok, &ids, "Hello", 5, KVREF_CONTROL_PLAIN, &err), err);
    must(kvref_tokenize(tok, &ids, "", 0, KVREF_CONTROL_PLAIN, &err), err);
    must(kvref_tokenize(tok, &ids, " world", 6, KVREF_CONTROL_PLAIN, NULL), err);
    ck_assert_uint_eq(ids.n, both.n);
    ck_assert(!memcmp(ids.id, both.id, ids.n * sizeof *ids.id));
    kvref_ids_clear(&ids);
    kvref_ids_clear(&ids);
    kvref_ids_clear(&both);
}
END_TEST

START_TEST(names_ids_and_bytes_agree)
{
    size_t n;
    int32_t size = kvref_tokenizer_size(tok), n_id = 0;
    ck_assert_int_eq(kvref_tokenizer_id(tok, "<|semantic:31|>") + 1, size);
    for (int32_t id = 0; id < size; id++) n_id += kvref_tokenizer_bytes(tok, id, &n) != NULL;
    ck_assert_int_lt(n_id, size); /* ids have a gap before the added tokens */
    ck_assert_ptr_null(kvref_tokenizer_bytes(tok, -1, &n));
    ck_assert_ptr_null(kvref_tokenizer_bytes(tok, size, &n));
    ck_assert_ptr_null(kvref_tokenizer_bytes(tok, 599, &n));
    ck_assert_uint_eq(n, 0);
    int32_t the = kvref_tokenizer_id(tok, "\xc4\xa0the");
    ck_assert_int_ge(the, 256);
    ck_assert(!memcmp(kvref_tokenizer_bytes(tok, the, &n), " the", 4) && n == 4);
    ck_assert_int_eq(kvref_tokenizer_id(tok, " the"), -1);
    ck_assert_int_eq(kvref_tokenizer_id(tok, ""), -1);
    ck_assert_int_eq(kvref_tokenizer_id(tok, "<|im_end|>x"), -1);
    int32_t end = kvref_tokenizer_id(tok, "<|im_end|>");
    ck_assert(!memcmp(kvref_tokenizer_bytes(tok, end, &n), "<|im_end|>", 10) && n == 10);
}
END_TEST

START_TEST(semantic_ids_are_found)
{
    int32_t begin, end;
    int count;
    kvref_tokenizer_semantic(tok, &begin, &end, &count);
    ck_assert_int_eq(begin, kvref_tokenizer_id(tok, "<|semantic:0|>"));
    ck_assert_int_eq(end, kvref_tokenizer_id(tok, "<|semantic:31|>"));
    ck_assert_int_eq(count, 32);
}
END_TEST

/* Usual processor time is 0.05 to 0.3 s; a quadratic step would take minutes. */
START_TEST(a_megabyte_of_one_pattern_takes_linear_time)
{
    static const char *const unit[] = {"a",
                                       " ",
                                       "\n",
                                       " \n",
                                       "'",
                                       "7",
                                       "\xf0\x9f\x98\x80",
                                       "\xcc\x81\xcc\xa3",
                                       "<tool",
                                       "<|semantic:",
                                       "the voice "};
    const char *u = unit[_i];
    size_t n = strlen(u), total = 1000000 / n * n;
    char *text = malloc(total);
    for (size_t i = 0; i < total; i++) text[i] = u[i % n];
    double from = support_cpu_s();
    kvref_ids ids = encode(text, total, KVREF_CONTROL_HONOUR);
    double used = support_cpu_s() - from;
    ck_assert(ids.n > 0);
    ck_assert_msg(!support_measures() || used < 2.0, "%.2f s", used);
    kvref_ids_clear(&ids);
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokenizer");
    TCase *tc = tcase_create("small tokenizer");
    tcase_set_timeout(tc, 30);
    tcase_add_unchecked_fixture(tc, open_small, close_small);
    tcase_add_test(tc, every_small_vector_gives_the_ids_of_the_slow_encoder);
    tcase_add_test(tc, plain_ids_spell_the_normalised_text);
    tcase_add_test(tc, control_strings_in_a_text_follow_the_policy);
    tcase_add_test(tc, invalid_utf8_is_refused_with_its_offset_and_changes_nothing);
    tcase_add_test(tc, ids_are_appended);
    tcase_add_test(tc, names_ids_and_bytes_agree);
    tcase_add_test(tc, semantic_ids_are_found);
    tcase_add_loop_test(tc, a_megabyte_of_one_pattern_takes_linear_time, 0, 11);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
