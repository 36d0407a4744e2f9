/* SPDX-License-Identifier: MIT */
/* tokenizer.json files that must be refused, and the variations that must not be. */
#include "kvref/tokenizer.h"
#include "tests/small_tokenizer.h"
#include "tests/support.h"

#include <stdio.h>

static json_t *small;

static void open_small(void)
{
    small = small_json("small.json");
}

static void close_small(void)
{
    json_decref(small);
}

/* Sets the value at a path such as "a.b.2.c" (numbers index arrays); NULL removes it. Takes
 * the value. */
static void set_at(json_t *root, const char *path, json_t *value)
{
    char part[64];
    const char *dot;
    while ((dot = strchr(path, '.'))) {
        snprintf(part, sizeof part, "%.*s", (int)(dot - path), path);
        root = json_is_array(root) ? json_array_get(root, strtoul(part, NULL, 10))
                                   : json_object_get(root, part);
        ck_assert_msg(root != NULL, "no \"%s\"", part);
        path = dot + 1;
    }
    if (!value)
        ck_assert_int_eq(json_object_del(root, path), 0);
    else if (json_is_array(root))
        ck_assert_int_eq(json_array_set_new(root, strtoul(path, NULL, 10), value), 0);
    else
        ck_assert_int_eq(json_object_set_new(root, path, value), 0);
}

/* The small tokenizer with one value changed; value is JSON, NULL removes. */
static char *changed(const char *path, const char *value)
{
    json_t *root = json_deep_copy(small);
    json_error_t where;
    json_t *json = value ? json_loads(value, JSON_DECODE_ANY, &where) : NULL;
    ck_assert_msg(json || !value, "%s: %s", value, where.text);
    set_at(root, path, json);
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

static kvref_status parse(kvref_tokenizer **tok, const char *text, kvref_error *err)
{
    return kvref_tokenizer_parse(tok, text, strlen(text), "t.json", err);
}

static void check_refused(const char *text, kvref_status want, const char *message)
{
    kvref_tokenizer *tok;
    kvref_error err;
    must_fail(parse(&tok, text, &err), want, err, message);
    ck_assert_msg(!strncmp(err.text, "t.json: ", 8), "%s", err.text);
    ck_assert_ptr_null(tok);
}

#define PRE    "pre_tokenizer.pretokenizers."
#define NO(x)  KVREF_E_UNSUPPORTED, x
#define ABSENT KVREF_E_MISSING
#define BAD    KVREF_E_FORMAT

static const struct {
    const char *path, *value;
    kvref_status status;
    const char *message;
} refused[] = {
    {"version", "\"2.0\"", NO("version: expected \"1.0\", found \"2.0\"")},
    {"truncation", "{\"max_length\":5}", NO("truncation: expected null, found an object")},
    {"padding", "1", NO("padding: expected null, found 1")},
    {"surprise", "[]", NO("surprise: expected no such key, found an array")},
    {"added_tokens", NULL, ABSENT, "no \"added_tokens\""},
    {"added_tokens", "{}", BAD, "added_tokens: byte 0: expected '[', found 0x7b"},
    {"normalizer", NULL, ABSENT, "no \"normalizer\""},
    {"normalizer", "null", NO("normalizer: expected an object, found null")},
    {"normalizer.type", "\"NFKC\"", NO("normalizer.type: expected \"NFC\", found \"NFKC\"")},
    {"normalizer.lowercase",
     "true",
     NO("normalizer.lowercase: expected no such key, found true")},
    {"pre_tokenizer.type", "\"ByteLevel\"", NO("pre_tokenizer.type: expected \"Sequence\"")},
    {"pre_tokenizer.pretokenizers", "[]", NO("pretokenizers: expected an array of 2, found 0")},
    {"pre_tokenizer.pretokenizers", "7", NO("pretokenizers: expected an array of 2, found 0")},
    {PRE "0", "\"Split\"", NO("pretokenizers[0]: expected an object, found \"Split\"")},
    {PRE "0.type",
     "\"Digits\"",
     NO("pretokenizers[0].type: expected \"Split\", found \"Digits\"")},
    {PRE "0.pattern", "{\"String\":\" \"}", ABSENT, "pretokenizers[0].pattern: no \"Regex\""},
    {PRE "0.pattern.Regex", "\"\\\\s+\"", NO("pattern.Regex: expected \"(?i:'s|")},
    {PRE "0.behavior",
     "\"Removed\"",
     NO("[0].behavior: expected \"Isolated\", found \"Removed\"")},
    {PRE "0.invert", "true", NO("[0].invert: expected false, found true")},
    {PRE "1.add_prefix_space", "true", NO("[1].add_prefix_space: expected false, found true")},
    {PRE "1.use_regex", NULL, ABSENT, "[1]: no \"use_regex\""},
    {PRE "1.trim_offsets", "0.5", NO("[1].trim_offsets: expected true or false, found 0.5")},
    {"post_processor.type",
     "\"TemplateProcessing\"",
     NO("post_processor.type: expected \"ByteLev")},
    {"decoder", "[]", NO("decoder: expected an object, found an array")},
    {"decoder.type", "\"WordPiece\"", NO("decoder.type: expected \"ByteLevel\"")},
    {"model", NULL, ABSENT, "no \"model\""},
    {"model.type", "\"Unigram\"", NO("model.type: expected \"BPE\", found \"Unigram\"")},
    {"model.type", NULL, ABSENT, "model: no \"type\""},
    {"model.dropout", "0.1", NO("model.dropout: expected null, found 0.1")},
    {"model.unk_token", "\"<unk>\"", NO("model.unk_token: expected null, found \"<unk>\"")},
    {"model.continuing_subword_prefix",
     "\"##\"",
     NO("prefix: expected null or \"\", found \"##\"")},
    {"model.end_of_word_suffix",
     "\"</w>\"",
     NO("suffix: expected null or \"\", found \"</w>\"")},
    {"model.end_of_word_suffix", "false", NO("suffix: expected null or \"\", found false")},
    {"model.fuse_unk", "true", NO("model.fuse_unk: expected false, found true")},
    {"model.byte_fallback", "true", NO("model.byte_fallback: expected false, found true")},
    {"model.ignore_merges", "true", NO("model.ignore_merges: expected false, found true")},
    {"model.ignore_merges", "null", NO("model.ignore_merges: expected false, found null")},
    {"model.vocab", "[]", BAD, "vocab"},
    {"model.merges", "{}", BAD, "merges"},
    {"model.vocab.the", "-1", BAD, "id of \"the\": expected 0..16777215, found -1"},
    {"model.vocab.the", "16777216", BAD, "id of \"the\": expected 0..16777215, found 16777216"},
    {"model.vocab.the", "1.0", BAD, "id of \"the\": expected 0..16777215, found no integer"},
    {"model.vocab.the", "\"5\"", BAD, "id of \"the\""},
    {"model.vocab.the", "5", BAD, "id 5: expected one token, found"},
    {"model.vocab.zzzz",
     "601",
     BAD,
     "id 601: expected one token, found \"zzzz\" and \"<|im_start|>\""},
    {"model.vocab.a b",
     "599",
     BAD,
     "vocab entry \"a b\": expected the byte alphabet, found U+0020"},
    {"model.vocab.\xc5\x84", "599", BAD, "expected the byte alphabet, found U+0144"},
    {"model.vocab.\xe4\xbd\xa0", "599", BAD, "expected the byte alphabet, found U+4F60"},
    {"model.vocab.Q", NULL, BAD, "model.vocab: expected all 256 bytes, found none for 0x51"},
    {"model.merges.0", "\"ab\"", BAD, "model.merges[0]: expected \"a b\""},
    {"model.merges.3", "\"a b c\"", BAD, "model.merges[3]: expected \"a b\""},
    {"model.merges.3", "\"a \"", BAD, "model.merges[3]: expected \"a b\""},
    {"model.merges.3", "\" a\"", BAD, "model.merges[3]: expected \"a b\""},
    {"model.merges.3", "[\"a\"]", BAD, "model.merges[3]: expected \"a b\""},
    {"model.merges.3", "[\"a\",\"b\",\"c\"]", BAD, "model.merges[3]: expected \"a b\""},
    {"model.merges.3", "[\"a\",1]", BAD, "model.merges[3]: expected \"a b\""},
    {"model.merges.3", "[1,\"a\"]", BAD, "model.merges[3]: expected \"a b\""},
    {"model.merges.3", "null", BAD, "model.merges[3]: expected \"a b\""},
    {"model.merges.3", "\"zzz a\"", BAD, "model.merges[3]: expected \"zzz\" in vocab"},
    {"model.merges.3", "[\"a\",\"zzz\"]", BAD, "model.merges[3]: expected \"zzz\" in vocab"},
    {"model.merges.3", "\"q z\"", BAD, "model.merges[3]: expected \"qz\" in vocab"},
    {"added_tokens.2", "\"<|im_end|>\"", NO("added_tokens[2]: expected an object")},
    {"added_tokens.2.id", NULL, ABSENT, "added_tokens[2]: no \"id\""},
    {"added_tokens.2.id", "601", BAD, "id 601: expected one token"},
    {"added_tokens.2.id", "4", BAD, "id 4: expected one token"},
    {"added_tokens.2.id", "-5", BAD, "id of \"<|im_end|>\": expected 0..16777215, found -5"},
    {"added_tokens.2.id", "9223372036854775807", BAD, "found 9223372036854775807"},
    {"added_tokens.2.content", "\"\"", BAD, "added_tokens[2].content: expected 1..256 bytes"},
    {"added_tokens.2.content", "5", BAD, "added_tokens[2].content: expected 1..256 bytes"},
    {"added_tokens.2.content", "\"<|im_start|>\"", BAD, "\"<|im_start|>\": expected one id"},
    {"added_tokens.2.content", "\"a\"", BAD, "token \"a\": expected one id, found 64 and 602"},
    {"added_tokens.2.lstrip", "true", NO("added_tokens[2].lstrip: expected false, found true")},
    {"added_tokens.2.rstrip", "true", NO("added_tokens[2].rstrip: expected false, found true")},
    {"added_tokens.2.single_word", "true", NO("added_tokens[2].single_word: expected false")},
    {"added_tokens.2.normalized", "true", NO("added_tokens[2].normalized: expected false")},
    {"added_tokens.2.special",
     "1",
     NO("added_tokens[2].special: expected true or false, found 1")},
    {"added_tokens.2.extra", "1", NO("added_tokens[2].extra: expected no such key, found 1")},
};

START_TEST(every_setting_that_would_change_the_ids_is_refused_by_name)
{
    char *text = changed(refused[_i].path, refused[_i].value);
    check_refused(text, refused[_i].status, refused[_i].message);
    free(text);
}
END_TEST

/* Ids of "<|im_end|>the voice" after a change that must not matter. */
START_TEST(settings_without_influence_are_accepted)
{
    static const struct {
        const char *path, *value;
    } fine[] = {
        {"version", "\"1.0\""},
        {"version", NULL},
        {"truncation", NULL},
        {"post_processor", "null"},
        {"post_processor", NULL},
        {"post_processor.trim_offsets", "true"},
        {"decoder", "null"},
        {"decoder.use_regex", "true"},
        {PRE "1.trim_offsets", "true"},
        {PRE "1.trim_offsets", NULL},
        {"model.continuing_subword_prefix", "null"},
        {"model.end_of_word_suffix", NULL},
        {"model.byte_fallback", NULL},
        {"model.ignore_merges", NULL},
        {"added_tokens.2.special", "false"},
        {"model.vocab.zzzz", "16777215"},
        {"model.vocab.<|im_end|>", "602"}, /* also an added token, with the same id */
    };
    static const char input[] = "<|im_end|>the voice";
    kvref_tokenizer *tok = small_tokenizer();
    kvref_ids want = {0};
    kvref_error err;
    must(kvref_tokenize(tok, &want, input, strlen(input), KVREF_CONTROL_HONOUR, &err), err);
    kvref_tokenizer_close(&tok);
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
        char *text = changed(fine[i].path, fine[i].value);
        kvref_ids ids = {0};
        must(parse(&tok, text, &err), err);
        must(kvref_tokenize(tok, &ids, input, strlen(input), KVREF_CONTROL_HONOUR, &err), err);
        ck_assert_uint_eq(ids.n, want.n);
        ck_assert_mem_eq(ids.id, want.id, ids.n * sizeof *ids.id);
        kvref_ids_clear(&ids);
        kvref_tokenizer_close(&tok);
        free(text);
    }
    kvref_ids_clear(&want);
}
END_TEST

START_TEST(ids_may_come_in_any_order_and_far_apart)
{
    json_t *root = json_deep_copy(small),
           *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    const char *key;
    json_t *value;
    json_object_foreach(vocab, key, value)
        json_integer_set(value, 9000 - 7 * json_integer_value(value));
    char *text = json_dumps(root, 0);
    kvref_tokenizer *tok, *plain = small_tokenizer();
    kvref_error err;
    kvref_ids a = {0}, b = {0};
    static const char input[] = "they speak, \xe4\xbd\xa0\xe5\xa5\xbd<|voice|>";
    must(parse(&tok, text, &err), err);
    must(kvref_tokenize(tok, &a, input, strlen(input), 0, &err), err);
    must(kvref_tokenize(plain, &b, input, strlen(input), 0, &err), err);
    ck_assert_uint_eq(a.n, b.n);
    for (size_t i = 0; i + 1 < a.n; i++) ck_assert_int_eq(a.id[i], 9000 - 7 * b.id[i]);
    size_t n_a, n_b;
    const char *byte = kvref_tokenizer_bytes(tok, a.id[0], &n_a);
    ck_assert_mem_eq(byte, kvref_tokenizer_bytes(plain, b.id[0], &n_b), n_a);
    ck_assert_uint_eq(n_a, n_b);
    ck_assert_ptr_null(kvref_tokenizer_bytes(tok, 9001, &n_a));
    ck_assert_int_eq(kvref_tokenizer_size(tok), 9001);
    kvref_ids_clear(&a);
    kvref_ids_clear(&b);
    kvref_tokenizer_close(&tok);
    kvref_tokenizer_close(&plain);
    free(text);
    json_decref(root);
}
END_TEST

START_TEST(a_pair_that_occurs_twice_is_refused)
{
    json_t *root = json_deep_copy(small),
           *merges = json_object_get(json_object_get(root, "model"), "merges");
    json_array_append(merges, json_array_get(merges, 4));
    char *text = json_dumps(root, 0), message[80];
    snprintf(message, sizeof message, "entries 4 and %zu alike", json_array_size(merges) - 1);
    kvref_tokenizer *tok;
    kvref_error err;
    must_fail(parse(&tok, text, &err), KVREF_E_FORMAT, err, message);
    free(text);
    json_decref(root);
}
END_TEST

START_TEST(semantic_names_count_in_their_only_spelling)
{
    static const char *const other[] = {"<|semantic:+5|>",
                                        "<|semantic: 5|>",
                                        "<|semantic:05|>",
                                        "<|semantic:5|>x",
                                        "<|semantic:4096|>",
                                        "<|semantic:-5|>",
                                        "<|semantic:99999999999999999999|>",
                                        "<|semantic:|>"};
    int32_t begin, end;
    int count;
    kvref_error err;
    kvref_tokenizer *tok;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        char value[64];
        snprintf(value, sizeof value, "\"%s\"", other[i]);
        char *text = changed("added_tokens.20.content", value); /* was <|semantic:5|> */
        must(parse(&tok, text, &err), err);
        kvref_tokenizer_semantic(tok, &begin, &end, &count);
        ck_assert_msg(count == 31 && end - begin == 31, "%s: %d", other[i], count);
        kvref_tokenizer_close(&tok);
        free(text);
    }
    char *text = changed("added_tokens", "[]");
    must(parse(&tok, text, &err), err);
    kvref_tokenizer_semantic(tok, &begin, &end, &count);
    ck_assert(begin == 0 && end == 0 && count == 0);
    kvref_tokenizer_close(&tok);
    free(text);
}
END_TEST

START_TEST(bytes_that_are_not_json_are_refused)
{
    static const char *const bad[] = {"",
                                      " ",
                                      "{",
                                      "[]",
                                      "null",
                                      "{}}",
                                      "{\"a\":1,\"a\":2}",
                                      "{\"a\":\"\\u0000\"}",
                                      "{'a':1}",
                                      "{\"a\":\"\xff\"}",
                                      "{\"a\":NaN}",
                                      "\xef\xbb\xbf{}",
                                      "{\"a\":\"\\ud800\"}",
                                      "{\"a\":1e999}"};
    kvref_tokenizer *tok;
    kvref_error err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(parse(&tok, bad[i], &err) != KVREF_OK, "%s", bad[i]);
        ck_assert_msg(!strncmp(err.text, "t.json: ", 8), "%s", err.text);
    }
    must_fail(kvref_tokenizer_parse(&tok, "", SIZE_MAX, "t.json", &err),
              KVREF_E_UNSUPPORTED,
              err,
              "expected at most 25165824 bytes");
    must_fail(kvref_tokenizer_open(&tok, "/nonexistent/tokenizer.json", &err),
              KVREF_E_MISSING,
              err,
              "/nonexistent/tokenizer.json");
    must_fail(kvref_tokenizer_open(&tok, "/", &err), KVREF_E_IO, err, "directory");
}
END_TEST

START_TEST(files_cut_anywhere_are_refused)
{
    char *text = json_dumps(small, 0);
    size_t n = strlen(text);
    kvref_tokenizer *tok;
    kvref_error err;
    for (size_t i = 0; i < 64; i++) {
        size_t cut = n * i / 64;
        must_fail(
            kvref_tokenizer_parse(&tok, text, cut, "t.json", &err), KVREF_E_FORMAT, err, "");
    }
    free(text);
}
END_TEST

START_TEST(deep_nesting_is_refused)
{
    static const char *const open[] = {"[", "{\"a\":", "{\"model\":{\"vocab\":["};
    for (size_t k = 0; k < 3; k++) {
        size_t n = strlen(open[k]), total = 200000 / n * n;
        char *text = malloc(total);
        kvref_tokenizer *tok;
        kvref_error err;
        for (size_t i = 0; i < total; i++) text[i] = open[k][i % n];
        must_fail(
            kvref_tokenizer_parse(&tok, text, total, "t.json", &err), KVREF_E_FORMAT, err, "");
        free(text);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokenizer_file");
    TCase *tc = tcase_create("tokenizer_file");
    tcase_add_unchecked_fixture(tc, open_small, close_small);
    tcase_add_loop_test(tc,
                        every_setting_that_would_change_the_ids_is_refused_by_name,
                        0,
                        (int)(sizeof refused / sizeof *refused));
    tcase_add_test(tc, settings_without_influence_are_accepted);
    tcase_add_test(tc, ids_may_come_in_any_order_and_far_apart);
    tcase_add_test(tc, a_pair_that_occurs_twice_is_refused);
    tcase_add_test(tc, semantic_names_count_in_their_only_spelling);
    tcase_add_test(tc, bytes_that_are_not_json_are_refused);
    tcase_add_test(tc, files_cut_anywhere_are_refused);
    tcase_add_test(tc, deep_nesting_is_refused);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
