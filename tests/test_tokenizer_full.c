/* SPDX-License-Identifier: MIT */
/* The tokenizer file of the real size against ids made by the Rust tokenizers library. Needs
 * ../shared/tokenizer; skipped without it. */
#include "kvref/prompt.h"
#include "kvref/tokenizer.h"
#include "tests/small_tokenizer.h"
#include "tests/support.h"

#include <stdio.h>

static kvref_tokenizer *tok;
static json_t *vectors;
static double load_s;

static void open_all(void)
{
    kvref_error err;
    json_error_t where;
    double from = support_cpu_s();
    must(kvref_tokenizer_open(&tok, support_shared("tokenizer/tokenizer.json"), &err), err);
    load_s = support_cpu_s() - from;
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

START_TEST(loading_takes_under_a_second_of_processor_time)
{
    printf("tokenizer.json loaded in %.3f s\n", load_s);
    ck_assert(!support_measures() || load_s < 1.0);
}
END_TEST

/* Texts whose length would show any quadratic step; processor time, usually 0.1 to 0.5 s each.
 */
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
    double from = support_cpu_s();
    must(kvref_tokenize(tok, &ids, text, total, KVREF_CONTROL_HONOUR, &err), err);
    double s = support_cpu_s() - from;
    printf("1 MB of \"%s\": %zu ids, %.3f s\n", *u == '\n' ? "\\n" : u, ids.n, s);
    ck_assert(ids.n > 0);
    ck_assert_msg(!support_measures() || s < 2.0, "%.2f s", s);
    kvref_ids_clear(&ids);
    free(text);
}
END_TEST

/* Whole prompts of spec 05 section 5. */
static const int32_t want_plain[] = {151644, 8948,   198,   14166,  279,   3897, 1467, 311,
                                     8806,   151645, 198,   151644, 872,   198,  27,   91,
                                     64476,  25,     15,    91,     29,    9707, 13,   151645,
                                     198,    151644, 77091, 198,    151673};
static const int32_t want_reference[] = {
    151644, 8948, 198,  14166,  279, 3897,   1467,   311,    8806,   5785, 311,    279,
    2701,   1447, 1178, 510,    27,  91,     64476,  25,     15,     91,   29,     15216,
    6556,   13,   271,  55625,  510, 151683, 155773, 151678, 151645, 198,  151644, 872,
    198,    9707, 13,   151645, 198, 151644, 77091,  198,    151673};
static const int32_t want_second[] = {
    151644, 8948,   198,    14166,  279,    3897,   1467,  311,    8806,   151645, 198,
    151644, 872,    198,    27,     91,     64476,  25,    15,     91,     29,     15216,
    6556,   13,     151645, 198,    151644, 77091,  198,   151673, 151685, 155773, 151645,
    198,    151644, 872,    198,    27,     91,     64476, 25,     16,     91,     29,
    15216,  11458,  13,     151645, 198,    151644, 77091, 198,    151673};

static void check_prompt(const kvref_prompt_in *in, const int32_t *want, int n)
{
    kvref_frames out = {0};
    kvref_error err;
    must(kvref_prompt_build(&out, in, &err), err);
    ck_assert_int_eq(out.n_row, 11);
    ck_assert_int_eq(out.n_frame, n);
    for (int t = 0; t < n; t++) {
        const int32_t *row = out.value + (size_t)t * 11;
        ck_assert_msg(row[0] == want[t], "position %d: %d, not %d", t, row[0], want[t]);
        if (row[0] < 151678)
            for (int k = 1; k < 11; k++) ck_assert_int_eq(row[k], 0);
        else
            ck_assert_int_eq(row[1], row[0] - 151678);
    }
    kvref_frames_clear(&out);
}

START_TEST(whole_prompts_are_those_of_the_specification)
{
    const kvref_config config = {.n_vocab = 155776,
                                 .n_codebook = 10,
                                 .n_code = 4096,
                                 .semantic_begin = 151678,
                                 .semantic_end = 155773};
    static const char hello[] = "<|speaker:0|>Hello.";
    static const char two[] = "<|speaker:0|>Good morning.\n<|speaker:1|>Good evening.";
    int32_t code[30] = {5, [10] = 4095, [20] = 0}, back[20] = {7, [10] = 4095};
    const kvref_codes codes = {10, 3, code}, done = {10, 2, back};
    const kvref_reference reference = {"Good morning.", 13, &codes};
    kvref_texts batches;
    kvref_error err;
    kvref_prompt_in in = {.tokenizer = tok, .config = &config, .batches = &batches};
    must(kvref_prompt_split(&batches, NULL, hello, strlen(hello), 300, &err), err);
    check_prompt(&in, want_plain, 29);
    kvref_texts_clear(&batches);

    in.reference = &reference;
    in.n_reference = 1;
    must(kvref_prompt_split(&batches, NULL, "Hello.", 6, 300, &err), err);
    check_prompt(&in, want_reference, 45);
    kvref_texts_clear(&batches);

    in.n_reference = 0;
    in.done = &done;
    in.batch = 1;
    must(kvref_prompt_split(&batches, NULL, two, strlen(two), 30, &err), err);
    ck_assert_int_eq(batches.n, 2);
    check_prompt(&in, want_second, 53);
    kvref_texts_clear(&batches);
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
    tcase_add_test(tc, whole_prompts_are_those_of_the_specification);
    tcase_add_test(tc, loading_takes_under_a_second_of_processor_time);
    tcase_add_loop_test(tc, a_megabyte_of_one_character_takes_linear_time, 0, 13);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
