/* SPDX-License-Identifier: MIT */
/* The tokenizer file of the real size against ids made by the Rust tokenizers library. Needs
 * ../shared/tokenizer; skipped without it. */
#include "kvref/tokenizer.h"
#include "tests/small_tokenizer.h"
#include "tests/support.h"

#include <stdio.h>
#include <time.h>

static kvref_tokenizer *tok;
static json_t *vectors;
static double load_s;

static void open_all(void)
{
    kvref_error err;
    json_error_t where;
    clock_t from = clock();
    must(kvref_tokenizer_open(&tok, support_shared("tokenizer/tokenizer.json"), &err), err);
    load_s = (double)(clock() - from) / CLOCKS_PER_SEC;
    vectors = json_load_file(support_shared("tokenizer/vectors.json"), JSON_ALLOW_NUL, &where);
    ck_assert_msg(json_is_array(vectors), "vectors.json: %s", where.text);
}

static void close_all(void)
{
    kvref_tokenizer_close(&tok);
    json_decref(vectors);
}

static void check_vector(size_t number, const json_t *vector)
{
    const json_t *text = json_object_get(vector, "text"),
                 *want = json_object_get(vector, "ids");
    kvref_ids ids = {0};
    kvref_error err;
    must(kvref_tokenize(tok,
                        &ids,
                        json_string_value(text),
                        json_string_length(text),
                        KVREF_CONTROL_HONOUR,
                        &err),
         err);
    ck_assert_msg(same_ids(&ids, want), "vector %zu: \"%s\"", number, json_string_value(text));
    kvref_ids_clear(&ids);
}

START_TEST(every_vector_gives_the_ids_of_the_original_library)
{
    ck_assert_uint_ge(json_array_size(vectors), 2062);
    for (size_t i = 0; i < json_array_size(vectors); i++)
        check_vector(i, json_array_get(vectors, i));
}
END_TEST

START_TEST(ids_of_the_special_tokens_are_those_of_the_specification)
{
    int32_t begin, end;
    int count;
    kvref_tokenizer_semantic(tok, &begin, &end, &count);
    ck_assert_int_eq(begin, 151678);
    ck_assert_int_eq(end, 155773);
    ck_assert_int_eq(count, 4096);
    ck_assert_int_eq(kvref_tokenizer_size(tok), 155774);
    ck_assert_int_eq(kvref_tokenizer_id(tok, "<|im_start|>"), 151644);
    ck_assert_int_eq(kvref_tokenizer_id(tok, "<|im_end|>"), 151645);
    ck_assert_int_eq(kvref_tokenizer_id(tok, "<|voice|>"), 151673);
    ck_assert_int_eq(kvref_tokenizer_id(tok, "<|speaker:0|>"), -1);
    ck_assert_int_eq(kvref_tokenizer_id(tok, "\xc4\xa0world"), 1879);
}
END_TEST

/* The time is processor time and twenty times the usual one. */
START_TEST(loading_takes_well_under_a_second)
{
    printf("tokenizer.json loaded in %.3f s\n", load_s);
    ck_assert(load_s < 8.0);
}
END_TEST

/* Texts whose length would show any quadratic step; usual time is 0.1 to 0.5 s each. */
START_TEST(a_megabyte_of_one_character_takes_linear_time)
{
    static const char *const unit[] = {"a",
                                       " ",
                                       "\n",
                                       "'",
                                       "1",
                                       "\xf0\x9f\x98\x80",
                                       "\xcc\x81",
                                       "\xcc\x81\xcc\xa3",
                                       " \n",
                                       "<|",
                                       "<|semantic:",
                                       "a\xcc\x81",
                                       "\xed\x95\x9c"};
    const char *u = unit[_i];
    size_t n = strlen(u), total = 1000000 / n * n;
    char *text = malloc(total);
    for (size_t i = 0; i < total; i++) text[i] = u[i % n];
    kvref_ids ids = {0};
    kvref_error err;
    clock_t from = clock();
    must(kvref_tokenize(tok, &ids, text, total, KVREF_CONTROL_HONOUR, &err), err);
    double s = (double)(clock() - from) / CLOCKS_PER_SEC;
    printf("1 MB of \"%s\": %zu ids, %.3f s\n", *u == '\n' ? "\\n" : u, ids.n, s);
    ck_assert(ids.n > 0 && s < 10.0);
    kvref_ids_clear(&ids);
    free(text);
}
END_TEST

int main(void)
{
    if (!support_shared("tokenizer/tokenizer.json") ||
        !support_shared("tokenizer/vectors.json")) {
        printf("no ../shared/tokenizer: skipped\n");
        return SUPPORT_SKIP;
    }
    Suite *suite = suite_create("tokenizer_full");
    TCase *tc = tcase_create("real size");
    tcase_set_timeout(tc, 60);
    tcase_add_unchecked_fixture(tc, open_all, close_all);
    tcase_add_test(tc, every_vector_gives_the_ids_of_the_original_library);
    tcase_add_test(tc, ids_of_the_special_tokens_are_those_of_the_specification);
    tcase_add_test(tc, loading_takes_well_under_a_second);
    tcase_add_loop_test(tc, a_megabyte_of_one_character_takes_linear_time, 0, 13);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
