/* SPDX-License-Identifier: MIT */
/* Every allocation of tokenizer and prompt made to fail, one at a time: an error, nothing lost,
 * nothing changed. The linker sends the library's calls of malloc, calloc and realloc here. */
#include "kvref/prompt.h"
#include "tests/alloc.h"
#include "tests/small_tokenizer.h"
#include "tests/support.h"

#include <stdio.h>

typedef kvref_status call(void *arg, kvref_error *err);

/* Runs fn with the first allocation failing, then the second, until none fails. Returns how
 * many there were. */
static long fail_each(call *fn, void *arg)
{
    for (long k = 0;; k++) {
        kvref_error err = {0};
        alloc_failed = false;
        alloc_left = k;
        kvref_status status = fn(arg, &err);
        bool reached = alloc_failed;
        alloc_left = -1;
        if (!reached) {
            ck_assert_int_eq(status, KVREF_OK);
            return k;
        }
        ck_assert_msg(status == KVREF_E_MEMORY && err.text[0],
                      "allocation %ld: %s: %s",
                      k,
                      kvref_status_name(status),
                      err.text);
    }
}

static kvref_tokenizer *tok;
static char *json;

static void open_small(void)
{
    json_t *root = small_json("small.json");
    json = json_dumps(root, 0);
    json_decref(root);
    tok = small_tokenizer();
}

static void close_small(void)
{
    free(json);
    kvref_tokenizer_close(&tok);
}

static kvref_status parse(void *arg, kvref_error *err)
{
    kvref_tokenizer *t;
    (void)arg;
    kvref_status status = kvref_tokenizer_parse(&t, json, strlen(json), "t.json", err);
    alloc_left = -1;
    ck_assert((t != NULL) == (status == KVREF_OK));
    kvref_tokenizer_close(&t);
    return status;
}

START_TEST(a_tokenizer_file_needs_every_allocation)
{
    ck_assert_int_gt(fail_each(parse, NULL), 20);
}
END_TEST

static kvref_status tokenize(void *arg, kvref_error *err)
{
    static const char text[] =
        "the voice e\xcc\xa3\xcc\x81 <|im_end|> aaaaaaaaaaaa 1 2 3 4 5 6 7";
    kvref_ids ids = {0};
    (void)arg;
    kvref_status status = kvref_tokenize(tok, &ids, "a", 1, KVREF_CONTROL_PLAIN, err);
    if (status == KVREF_OK) {
        status = kvref_tokenize(tok, &ids, text, strlen(text), KVREF_CONTROL_HONOUR, err);
        alloc_left = -1;
        ck_assert(status == KVREF_OK ? ids.n > 20 : ids.n == 1);
    }
    kvref_ids_clear(&ids);
    return status;
}

START_TEST(a_text_needs_every_allocation_and_leaves_the_ids_alone)
{
    ck_assert_int_gt(fail_each(tokenize, NULL), 6);
}
END_TEST

static kvref_status split(void *arg, kvref_error *err)
{
    kvref_texts out;
    kvref_status status = kvref_prompt_split(&out, NULL, arg, strlen(arg), 20, err);
    alloc_left = -1;
    ck_assert(status == KVREF_OK || (!out.text && !out.n_byte && out.n == 0));
    kvref_texts_clear(&out);
    return status;
}

START_TEST(a_split_needs_every_allocation)
{
    char tagged[2000] = "";
    for (int i = 0; i < 60; i++) strncat(tagged, "<|speaker:0|>voice ", 30);
    char plain[] = "no tag at all";
    ck_assert_int_gt(fail_each(split, tagged), 60);
    ck_assert_int_ge(fail_each(split, plain), 3);
}
END_TEST

static kvref_status build(void *arg, kvref_error *err)
{
    int32_t code[6] = {1, 2, 3, 4, 5, 6};
    const kvref_codes codes = {3, 2, code};
    const kvref_reference reference[] = {{"first", 5, &codes}, {"second", 6, &codes}};
    const kvref_config config = {.n_vocab = 700, .n_codebook = 3, .n_code = 32};
    char one[] = "one", two[] = "two";
    char *text[] = {one, two};
    size_t size[] = {3, 3};
    const kvref_texts batches = {text, size, 2};
    const kvref_prompt_in in = {.tokenizer = tok,
                                .config = &config,
                                .reference = reference,
                                .n_reference = 2,
                                .batches = &batches,
                                .done = &codes,
                                .batch = 1};
    kvref_frames out = {0};
    (void)arg;
    kvref_status status = kvref_prompt_build(&out, &in, err);
    alloc_left = -1;
    ck_assert((out.n_frame > 0) == (status == KVREF_OK));
    kvref_frames_clear(&out);
    return status;
}

START_TEST(a_prompt_needs_every_allocation)
{
    ck_assert_int_gt(fail_each(build, NULL), 30);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text_memory");
    TCase *tc = tcase_create("text_memory");
    tcase_set_timeout(tc, 30);
    tcase_add_unchecked_fixture(tc, open_small, close_small);
    tcase_add_test(tc, a_tokenizer_file_needs_every_allocation);
    tcase_add_test(tc, a_text_needs_every_allocation_and_leaves_the_ids_alone);
    tcase_add_test(tc, a_split_needs_every_allocation);
    tcase_add_test(tc, a_prompt_needs_every_allocation);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
