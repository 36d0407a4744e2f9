/* SPDX-License-Identifier: MIT */
#include "kvref/prompt.h"
#include "tests/small_tokenizer.h"
#include "tests/support.h"

#include <limits.h>
#include <malloc.h>
#include <stdio.h>

#define N 3

static kvref_tokenizer *tok;
static kvref_config config;

static void open_small(void)
{
    int count;
    tok = small_tokenizer();
    config =
        (kvref_config){.n_vocab = kvref_tokenizer_size(tok), .n_codebook = N, .n_code = 32};
    kvref_tokenizer_semantic(tok, &config.semantic_begin, &config.semantic_end, &count);
}

static void close_small(void)
{
    kvref_tokenizer_close(&tok);
}

static int32_t code_a[2 * N] = {5, 1, 2, 31, 0, 7};
static const kvref_codes two_frames = {N, 2, code_a};

/* The batches of a prompt. */
static char copy[2][64], *text_of[2];
static size_t size_of[2];
static kvref_texts batches = {text_of, size_of, 0};

static kvref_prompt_in input(int n, const char *const *text)
{
    for (int i = 0; i < n; i++) {
        size_of[i] = strlen(text[i]);
        ck_assert_uint_lt(size_of[i], sizeof copy[i]);
        memcpy(copy[i], text[i], size_of[i] + 1);
        text_of[i] = copy[i];
    }
    batches.n = n;
    return (kvref_prompt_in){.tokenizer = tok, .config = &config, .batches = &batches};
}

/* A prompt with one reference and one earlier batch, of which one thing is wrong. */
static void check_refused(const kvref_reference *reference,
                          const kvref_codes *done,
                          const char *user,
                          kvref_status want,
                          const char *message)
{
    static const kvref_reference good = {"hi", 2, &two_frames};
    const char *const text[] = {"one", user ? user : "two"};
    kvref_prompt_in in = input(2, text);
    in.reference = reference ? reference : &good;
    in.n_reference = 1;
    in.done = done ? done : &two_frames;
    in.batch = 1;
    kvref_frames out = {.n_row = 1 + N};
    kvref_error err;
    const int32_t row[1 + N] = {1, 2, 3, 4};
    must(kvref_frames_append(&out, row, 1, &err), err);
    must_fail(kvref_prompt_build(&out, &in, &err), want, err, message);
    ck_assert(out.n_frame == 1 && !memcmp(out.value, row, sizeof row));
    kvref_frames_clear(&out);
}

START_TEST(codes_outside_the_codebook_are_refused_by_position)
{
    static const int32_t bad[] = {-1, 32, 4096, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (int at = 0; at < N; at++) {
            int32_t code[2 * N] = {0};
            char want[80];
            code[N + at] = bad[i];
            const kvref_codes codes = {N, 2, code};
            const kvref_reference reference = {"hi", 2, &codes};
            snprintf(want, sizeof want, "reference 0: code of book %d, frame 1", at);
            check_refused(&reference, NULL, NULL, KVREF_E_ARG, want);
            snprintf(want, sizeof want, "batch 0: code of book %d, frame 1", at);
            check_refused(NULL, &codes, NULL, KVREF_E_ARG, want);
        }
    }
}
END_TEST

START_TEST(references_that_cannot_be_used_are_refused)
{
    int32_t code[8] = {0};
    const kvref_codes narrow = {N - 1, 2, code}, wide = {N + 1, 2, code}, none = {N, 0, code};
    const kvref_reference no_codes = {"hi", 2, NULL}, empty = {"hi", 2, &none};
    const kvref_reference thin = {"hi", 2, &narrow}, thick = {"hi", 2, &wide};
    const kvref_reference bad = {"h\xff", 2, &two_frames};
    check_refused(&no_codes, NULL, NULL, KVREF_E_ARG, "reference 0: expected codes");
    check_refused(&empty, NULL, NULL, KVREF_E_ARG, "reference 0: expected codes");
    check_refused(
        &thin, NULL, NULL, KVREF_E_ARG, "reference 0: codes: expected 3 books, found 2");
    check_refused(&thick, NULL, NULL, KVREF_E_ARG, "expected 3 books, found 4");
    check_refused(NULL, &narrow, NULL, KVREF_E_ARG, "batch 0: codes: expected 3 books");
    check_refused(&bad, NULL, NULL, KVREF_E_FORMAT, "reference 0: byte 1: expected UTF-8");
    check_refused(NULL, NULL, "abc\x80", KVREF_E_FORMAT, "text: byte 3: expected UTF-8");
}
END_TEST

START_TEST(batch_numbers_and_row_sizes_are_checked)
{
    static const char *const text[] = {"one"};
    kvref_prompt_in in = input(1, text);
    kvref_frames out = {.n_row = 7};
    kvref_error err;
    in.batch = 1;
    must_fail(kvref_prompt_build(&out, &in, &err),
              KVREF_E_ARG,
              err,
              "batch: expected 0 to 0, found 1");
    in.batch = -1;
    must_fail(kvref_prompt_build(&out, &in, &err), KVREF_E_ARG, err, "found -1");
    in.batch = 0;
    const int32_t row[7] = {0};
    must(kvref_frames_append(&out, row, 1, &err), err);
    must_fail(
        kvref_prompt_build(&out, &in, &err), KVREF_E_ARG, err, "expected 4 rows, found 7");
    ck_assert(out.n_row == 7 && out.n_frame == 1);
    kvref_frames_clear(&out);
    out.n_row = 1; /* room for rows of 1 is no room for rows of 4 */
    must(kvref_frames_append(&out, (const int32_t[64]){0}, 64, &err), err);
    out.n_frame = 0;
    must(kvref_prompt_build(&out, &in, &err), err);
    ck_assert_int_eq(out.n_row, 4);
    ck_assert_uint_ge(malloc_usable_size(out.value), (size_t)out.cap * 4 * sizeof(int32_t));
    int n = out.n_frame;
    must(kvref_prompt_build(&out, &in, &err), err); /* appends */
    ck_assert_int_eq(out.n_frame - n, n);
    ck_assert_mem_eq(out.value, out.value + (size_t)n * 4, (size_t)n * 4 * sizeof(int32_t));
    kvref_frames_clear(&out);
}
END_TEST

START_TEST(ids_beyond_the_vocabulary_of_the_model_are_refused)
{
    static const char *const text[] = {"one"};
    kvref_prompt_in in = input(1, text);
    kvref_config small = config;
    kvref_frames out = {0};
    kvref_error err;
    small.n_vocab = kvref_tokenizer_id(tok, "<|im_start|>");
    in.config = &small;
    must_fail(
        kvref_prompt_build(&out, &in, &err), KVREF_E_ARG, err, "token id 601: expected below");
    ck_assert_int_eq(out.n_frame, 0);
    kvref_frames_clear(&out);
}
END_TEST

/* The small tokenizer, one of whose added tokens has another name. */
static kvref_tokenizer *without(const char *content)
{
    json_t *root = small_json("small.json"), *added = json_object_get(root, "added_tokens"), *t;
    size_t i;
    kvref_tokenizer *out;
    kvref_error err;
    json_array_foreach(added, i, t)
    {
        if (!strcmp(json_string_value(json_object_get(t, "content")), content))
            json_object_set_new(t, "content", json_string("<|other|>"));
    }
    char *text = json_dumps(root, 0);
    must(kvref_tokenizer_parse(&out, text, strlen(text), "changed", &err), err);
    free(text);
    json_decref(root);
    return out;
}

START_TEST(a_tokenizer_without_a_control_token_is_refused)
{
    static const char *const control[] = {"<|im_start|>", "<|im_end|>", "<|voice|>"};
    static const char *const text[] = {"one"};
    for (size_t i = 0; i < 3; i++) {
        kvref_prompt_in in = input(1, text);
        kvref_tokenizer *other = without(control[i]);
        kvref_frames out = {0};
        kvref_error err;
        in.tokenizer = other;
        must_fail(kvref_prompt_build(&out, &in, &err), KVREF_E_MISSING, err, control[i]);
        ck_assert_int_eq(out.n_frame, 0);
        kvref_frames_clear(&out);
        kvref_tokenizer_close(&other);
    }
}
END_TEST

START_TEST(frames_grow_and_keep_their_rows)
{
    kvref_frames frames = {.n_row = 2};
    kvref_error err;
    for (int32_t t = 0; t < 1000; t += 2) {
        const int32_t rows[4] = {t, -t, t + 1, -t - 1};
        must(kvref_frames_append(&frames, rows, 2, &err), err);
    }
    must(kvref_frames_append(&frames, NULL, 0, &err), err);
    ck_assert_int_eq(frames.n_frame, 1000);
    for (ptrdiff_t t = 0; t < 1000; t++)
        ck_assert(frames.value[2 * t] == t && frames.value[2 * t + 1] == -t);
    frames.n_frame = INT_MAX;
    must_fail(kvref_frames_append(&frames, (const int32_t[2]){0}, 1, &err),
              KVREF_E_MEMORY,
              err,
              "too many");
    frames.n_frame = 1000;
    kvref_frames_clear(&frames);
    ck_assert(!frames.value && !frames.cap);
}
END_TEST

START_TEST(the_limit_leaves_room_for_new_frames)
{
    ck_assert_int_eq(kvref_prompt_limit(32768), 30720);
    ck_assert_int_eq(kvref_prompt_limit(4096), 2048);
    ck_assert_int_eq(kvref_prompt_limit(4097), 2049);
    ck_assert_int_eq(kvref_prompt_limit(4095), 2048);
    ck_assert_int_eq(kvref_prompt_limit(300), 150);
    ck_assert_int_eq(kvref_prompt_limit(1), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("prompt_refused");
    TCase *tc = tcase_create("prompt_refused");
    tcase_add_unchecked_fixture(tc, open_small, close_small);
    tcase_add_test(tc, codes_outside_the_codebook_are_refused_by_position);
    tcase_add_test(tc, references_that_cannot_be_used_are_refused);
    tcase_add_test(tc, batch_numbers_and_row_sizes_are_checked);
    tcase_add_test(tc, ids_beyond_the_vocabulary_of_the_model_are_refused);
    tcase_add_test(tc, a_tokenizer_without_a_control_token_is_refused);
    tcase_add_test(tc, frames_grow_and_keep_their_rows);
    tcase_add_test(tc, the_limit_leaves_room_for_new_frames);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
