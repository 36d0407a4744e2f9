/* SPDX-License-Identifier: MIT */
/* The JSON of tokenizer.json, where it is read without a tree: spellings that mean the same,
 * spellings that are wrong, names made to collide. */
#include "base/pull.h"
#include "kvref/tokenizer.h"
#include "tests/small_tokenizer.h"
#include "tests/support.h"

#include <stdio.h>

static json_t *small;
static char *text; /* the small tokenizer, compact, in ASCII */

static void open_small(void)
{
    small = small_json("small.json");
    text = json_dumps(small, JSON_COMPACT | JSON_ENSURE_ASCII);
}

static void close_small(void)
{
    free(text);
    json_decref(small);
}

/* The text with its first `from` replaced. */
static char *spliced(const char *from, const char *to)
{
    const char *at = strstr(text, from);
    ck_assert_msg(at != NULL, "no %s", from);
    size_t need = strlen(text) + strlen(to) + 1;
    char *out = malloc(need);
    snprintf(out, need, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

/* Both give the same ids. */
static void check_same(const char *json)
{
    static const char input[] =
        "they the <|im_end|> 12 caf\xc3\xa9 \xe4\xbd\xa0\xe5\xa5\xbd \n\n aaaa";
    kvref_tokenizer *tok, *want = small_tokenizer();
    kvref_ids a = {0}, b = {0};
    kvref_error err;
    must(kvref_tokenizer_parse(&tok, json, strlen(json), "t.json", &err), err);
    must(kvref_tokenize(tok, &a, input, strlen(input), KVREF_CONTROL_HONOUR, &err), err);
    must(kvref_tokenize(want, &b, input, strlen(input), KVREF_CONTROL_HONOUR, &err), err);
    ck_assert(a.n == b.n && !memcmp(a.id, b.id, a.n * sizeof *a.id));
    ck_assert_int_eq(kvref_tokenizer_size(tok), kvref_tokenizer_size(want));
    for (int32_t id = 0; id < kvref_tokenizer_size(tok); id++) {
        size_t n_a, n_b;
        const char *x = kvref_tokenizer_bytes(tok, id, &n_a);
        const char *y = kvref_tokenizer_bytes(want, id, &n_b);
        ck_assert(!x == !y && n_a == n_b && (!x || !memcmp(x, y, n_a)));
    }
    kvref_ids_clear(&a);
    kvref_ids_clear(&b);
    kvref_tokenizer_close(&tok);
    kvref_tokenizer_close(&want);
}

START_TEST(spellings_that_mean_the_same_give_the_same_tokenizer)
{
    static const char *const same[][2] = {
        {"\"the\":", "\"\\u0074h\\u0065\":"},
        {"\"\\\\\":", "\"\\u005C\" : \t"},
        {"\"\\\"\":", "\"\\u0022\"\r\n:"},
        {"\"/\":", "\"\\/\":"},
        {"\"!\":0", "\"!\":-0"},
    };
    char *wide = json_dumps(small, JSON_INDENT(4));
    check_same(text);
    check_same(wide);
    free(wide);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char *changed = spliced(same[i][0], same[i][1]);
        check_same(changed);
        free(changed);
    }
}
END_TEST

/* Merges may all be texts or all be pairs. */
START_TEST(merges_may_be_written_in_either_form)
{
    for (int pairs = 0; pairs < 2; pairs++) {
        json_t *root = json_deep_copy(small);
        json_t *merges = json_object_get(json_object_get(root, "model"), "merges"), *m;
        size_t i;
        json_array_foreach(merges, i, m)
        {
            char both[100], *space;
            if (json_is_string(m))
                snprintf(both, sizeof both, "%s", json_string_value(m));
            else
                snprintf(both,
                         sizeof both,
                         "%s %s",
                         json_string_value(json_array_get(m, 0)),
                         json_string_value(json_array_get(m, 1)));
            space = strchr(both, ' ');
            if (pairs) *space = 0;
            json_array_set_new(
                merges, i, pairs ? json_pack("[ss]", both, space + 1) : json_string(both));
        }
        char *json = json_dumps(root, 0);
        check_same(json);
        free(json);
        json_decref(root);
    }
}
END_TEST

START_TEST(wrong_json_in_the_large_parts_is_refused)
{
    static const char *const wrong[][3] = {
        {"\"the\":", "\"the\\u0000\":", "expected no NUL"},
        {"\"the\":", "\"\\ud83d\":", "expected both halves of a pair"},
        {"\"the\":", "\"\\ud83dxude00\":", "expected both halves of a pair"},
        {"\"the\":", "\"\\ud83d\\u0041\":", "expected both halves of a pair"},
        {"\"the\":", "\"\\ude00\\ud83d\":", "expected both halves of a pair"},
        {"\"the\":", "\"\\ude00\\ude00\":", "expected both halves of a pair"},
        {"\"the\":", "\"\\ud83d\\ude00\":", "expected the byte alphabet, found U+1F600"},
        {"\"the\":", "\"\\b\\f\\t\":", "expected the byte alphabet, found U+0008"},
        {"\"the\":", "\"\\u00g0\":", "expected a hexadecimal digit, found 0x67"},
        {"\"the\":", "\"\\q\":", "expected an escape, found 0x71"},
        {"\"the\":", "\"th\ne\":", "expected no control character, found 0x0a"},
        {"\"the\":", "\"th\xff\":", "expected the byte alphabet, found U+FFFD"},
        {"\"the\":", "\"the\" ", "expected ':'"},
        {"\"the\":", "the:", "expected a text, found 0x74"},
        {"\"the\":", "\"the\":0", "id of \"the\": expected 0..16777215, found no integer"},
        {"\"the\":", "\"the\":-", "id of \"the\": expected 0..16777215, found -"},
        {"\"the\":", "\"the\":x", "found no integer"},
        {"\"the\":", "\"the\":1e", "found no integer"},
        {"\"the\":", "\"the\":99999999999999999999", "found 9223372036854775807"},
        {"\"the\":", ",\"the\":", "expected a text, found 0x2c"},
        {"\"the\":", "\"the\":7 \"x\":", "expected ','"},
        {"\"vocab\":{", "\"vocab\":{,", "expected a text"},
        {"\"vocab\":{", "\"merges\":{},\"merges\":{", "expected one \"merges\", found two"},
        {"\"vocab\":{", "\"vocab\":{},\"vocab\":{", "expected one \"vocab\", found two"},
        {"\"merges\":[", "\"merges\":[,", "model.merges[0]: expected \"a b\""},
        {"\"merges\":[", "\"merges\":[[\"a\" \"b\"],", "model.merges[0]: expected \"a b\""},
        {"\"merges\":[", "\"merges\":[[\"a\",\"b\"},", "expected"},
        {"\"merges\":[", "\"merges\":[\"\\ud800\",", "model.merges[0]: expected \"a b\""},
        {"\"merges\":[", "\"merges\":[[\"\",\"a\"],", "found an empty part"},
        {"\"merges\":[", "\"merges\":[[\"a\",\"\"],", "found an empty part"},
        {"\"merges\":[",
         "\"merges\":[[\"<|im_end|>\",\"a\"],",
         "expected \"<|im_end|>\" in vocab"},
        {"\"added_tokens\":[", "\"added_tokens\":[,", "added_tokens[0]"},
        {"\"added_tokens\":[", "\"added_tokens\":[{\"id\":}", "added_tokens[0]"},
        {"\"added_tokens\":[", "\"added_tokens\":[{} {}", "added_tokens[0]: no \"id\""},
        {"\"added_tokens\":[",
         "\"added_tokens\":[{\"id\":1,\"id\":1},",
         "duplicate object key"},
        {"\"added_tokens\":[", "\"padding\":[", "expected one \"padding\", found two"},
        {"{\"version\"", "{\"alpha\":1,\"version\"", "alpha: expected no such key, found 1"},
        {"<|im_end|>", "<|im\xff|>", "added_tokens[2]: "},
    };
    kvref_tokenizer *tok;
    kvref_error err;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *changed = spliced(wrong[i][0], wrong[i][1]);
        kvref_status status =
            kvref_tokenizer_parse(&tok, changed, strlen(changed), "t.json", &err);
        ck_assert_msg(status != KVREF_OK && status != KVREF_E_MEMORY, "%s", wrong[i][1]);
        ck_assert_msg(strstr(err.text, wrong[i][2]), "%s: %s", wrong[i][1], err.text);
        ck_assert_msg(!strncmp(err.text, "t.json: ", 8), "%s", err.text);
        free(changed);
    }
}
END_TEST

START_TEST(text_after_a_large_part_is_refused)
{
    static const char *const wrong[][2] = {{"],\"normalizer\"", "],\"x\":1]\"normalizer\""},
                                           {"],\"normalizer\"", "]],\"normalizer\""},
                                           {"],\"normalizer\"", "] 1,\"normalizer\""}};
    kvref_tokenizer *tok;
    kvref_error err;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *changed = spliced(wrong[i][0], wrong[i][1]);
        must_fail(kvref_tokenizer_parse(&tok, changed, strlen(changed), "t.json", &err),
                  KVREF_E_FORMAT,
                  err,
                  "t.json: ");
        free(changed);
    }
}
END_TEST

START_TEST(a_value_must_end_where_its_text_ends)
{
    static const char array[] = "[1 , -20] x";
    kvref_error err;
    kvref_pull p = {"f", "v", array, array, array + sizeof array - 1, true, &err};
    int64_t x;
    bool more;
    must(kvref_pull_open(&p, '['), err);
    for (int i = 0; i < 2; i++) {
        must(kvref_pull_more(&p, &more, ']'), err);
        must(kvref_pull_int(&p, &x), err);
        ck_assert(more && x == (i ? -20 : 1));
    }
    must_fail(kvref_pull_more(&p, &more, ']'),
              KVREF_E_FORMAT,
              err,
              "f: v: byte 10: expected nothing more, found 0x78");
}
END_TEST

START_TEST(added_tokens_may_be_256_bytes_long)
{
    char content[400];
    kvref_tokenizer *tok;
    kvref_error err;
    for (int n = 256; n <= 257; n++) {
        memset(content, 'y', sizeof content);
        content[n] = 0;
        char *json = spliced("<|im_end|>", content);
        kvref_status status = kvref_tokenizer_parse(&tok, json, strlen(json), "t.json", &err);
        free(json);
        if (n > 256) {
            ck_assert_int_eq(status, KVREF_E_FORMAT);
            ck_assert_msg(strstr(err.text, "1..256 bytes of text, found 257"), "%s", err.text);
            break;
        }
        kvref_ids ids = {0};
        must(kvref_tokenize(tok, &ids, content, 256, KVREF_CONTROL_HONOUR, &err), err);
        ck_assert(ids.n == 1 && ids.id[0] == 602);
        kvref_ids_clear(&ids);
        kvref_tokenizer_close(&tok);
    }
}
END_TEST

START_TEST(an_added_token_of_one_byte_does_not_replace_the_byte)
{
    char *json = spliced("<|im_end|>", " ");
    kvref_tokenizer *tok;
    kvref_error err;
    kvref_ids ids = {0};
    must(kvref_tokenizer_parse(&tok, json, strlen(json), "t.json", &err), err);
    must(kvref_tokenize(tok, &ids, " ", 1, KVREF_CONTROL_HONOUR, &err), err);
    must(kvref_tokenize(tok, &ids, " ", 1, KVREF_CONTROL_PLAIN, &err), err);
    ck_assert(ids.n == 2 && ids.id[0] == 602);
    ck_assert_int_eq(ids.id[1], kvref_tokenizer_id(tok, "\xc4\xa0"));
    kvref_ids_clear(&ids);
    kvref_tokenizer_close(&tok);
    free(json);
}
END_TEST

/* The hash of base/tokenizer_index.c. */
static uint32_t hash_of(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 16777619u;
    return h ^ h >> 15;
}

/* Adds n names whose hashes agree in the low 12 bits; the table then has 4096 slots. */
static kvref_status parse_colliding(int n, kvref_error *err)
{
    json_t *root = json_deep_copy(small);
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    kvref_tokenizer *tok;
    for (int k = 0, found = 0; k < n || found < 1100; k++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", k);
        bool wanted = found < n ? (hash_of(name) & 4095) == 77 : found < 1100;
        if (wanted) json_object_set_new(vocab, name, json_integer(5000 + found++));
    }
    char *json = json_dumps(root, 0);
    kvref_status status = kvref_tokenizer_parse(&tok, json, strlen(json), "t.json", err);
    kvref_tokenizer_close(&tok);
    free(json);
    json_decref(root);
    return status;
}

START_TEST(names_made_to_collide_are_refused)
{
    kvref_error err;
    must(parse_colliding(0, &err), err);
    must(parse_colliding(100, &err), err);
    must_fail(parse_colliding(500, &err), KVREF_E_FORMAT, err, "too many with one hash");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tokenizer_json");
    TCase *tc = tcase_create("tokenizer_json");
    tcase_set_timeout(tc, 20);
    tcase_add_unchecked_fixture(tc, open_small, close_small);
    tcase_add_test(tc, spellings_that_mean_the_same_give_the_same_tokenizer);
    tcase_add_test(tc, merges_may_be_written_in_either_form);
    tcase_add_test(tc, wrong_json_in_the_large_parts_is_refused);
    tcase_add_test(tc, text_after_a_large_part_is_refused);
    tcase_add_test(tc, a_value_must_end_where_its_text_ends);
    tcase_add_test(tc, added_tokens_may_be_256_bytes_long);
    tcase_add_test(tc, an_added_token_of_one_byte_does_not_replace_the_byte);
    tcase_add_test(tc, names_made_to_collide_are_refused);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
