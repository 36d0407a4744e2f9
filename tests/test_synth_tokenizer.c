/* SPDX-License-Identifier: MIT */
#include "kvref/synth.h"
#include "tests/support.h"

#include <stdio.h>
#include <string.h>

/* A model of next to no weights around a vocabulary. */
static kvref_config with_ids(int n_vocab, int n_code, int begin, int im_end)
{
    return (kvref_config){.model_type = "dual_ar",
                          .slow = {1, 2, 1, 1, 2, 1, false, false, false},
                          .fast = {1, 2, 1, 1, 2, 1, false, false, false},
                          .n_vocab = n_vocab,
                          .n_codebook = 2,
                          .n_code = n_code,
                          .max_seq_len = 64,
                          .rope_base = 10000,
                          .norm_eps = 1e-6f,
                          .semantic_begin = begin,
                          .semantic_end = begin + n_code - 1,
                          .im_end = im_end};
}

static kvref_model *make(const kvref_config *c)
{
    static int n;
    char name[32];
    kvref_error err;
    kvref_model *m;
    kvref_synth_opts o = {.dtype = KVREF_BF16, .n_shard = 1, .tokenizer = true};
    snprintf(name, sizeof name, "tok%d", n++);
    const char *dir = support_path(support_temp_dir(), name);
    must(kvref_synth_write(dir, c, &o, &err), err);
    must(kvref_model_open(&m, dir, NULL, &err), err);
    ck_assert(kvref_model_tokenizer(m) != NULL);
    return m;
}

/* Tokens of a text; their bytes joined are the text again. */
static size_t count(const kvref_tokenizer *t, const char *text)
{
    kvref_ids ids = {0};
    kvref_error err;
    char back[512];
    size_t n = 0;
    must(kvref_tokenize(t, &ids, text, strlen(text), KVREF_CONTROL_HONOUR, &err), err);
    for (size_t i = 0; i < ids.n; i++) {
        size_t n_byte;
        const char *bytes = kvref_tokenizer_bytes(t, ids.id[i], &n_byte);
        ck_assert(bytes && n + n_byte <= sizeof back);
        memcpy(back + n, bytes, n_byte);
        n += n_byte;
    }
    ck_assert_msg(n == strlen(text) && memcmp(back, text, n) == 0, "\"%s\"", text);
    n = ids.n;
    kvref_ids_clear(&ids);
    return n;
}

START_TEST(ids_are_those_of_the_config)
{
    static const struct {
        int n_vocab, n_code, begin, im_end;
    } row[] = {{320, 32, 256, 250},
               {320, 32, 0, 319},
               {600, 100, 500, 499},
               {8200, 4096, 4104, 4000},
               {400, 20, 100, 67},
               {291, 32, 10, 42}};
    for (size_t r = 0; r < sizeof row / sizeof row[0]; r++) {
        kvref_config c = with_ids(row[r].n_vocab, row[r].n_code, row[r].begin, row[r].im_end);
        kvref_model *m = make(&c);
        const kvref_config *got = kvref_model_config(m);
        const kvref_tokenizer *t = kvref_model_tokenizer(m);
        int32_t begin, end;
        int n;
        kvref_tokenizer_semantic(t, &begin, &end, &n);
        ck_assert(begin == c.semantic_begin && end == c.semantic_end && n == c.n_code);
        ck_assert(got->semantic_begin == begin && got->semantic_end == end);
        ck_assert(got->im_end == c.im_end);
        ck_assert_int_eq(kvref_tokenizer_id(t, "<|im_end|>"), c.im_end);
        ck_assert_int_ge(kvref_tokenizer_id(t, "<|im_start|>"), 0);
        ck_assert_int_ge(kvref_tokenizer_id(t, "<|voice|>"), 0);
        ck_assert_int_le(kvref_tokenizer_size(t), c.n_vocab);
        ck_assert_uint_eq(count(t, "<|im_start|><|voice|><|im_end|><|semantic:7|>"), 4);
        kvref_model_close(&m);
    }
}
END_TEST

START_TEST(every_byte_has_a_token_and_every_text_comes_back)
{
    kvref_config c = with_ids(291, 32, 100, 7); /* the smallest vocabulary */
    kvref_model *m = make(&c);
    const kvref_tokenizer *t = kvref_model_tokenizer(m);
    char all[256] = {0};
    for (int b = 1; b < 0x80; b++) all[b - 1] = (char)b;
    ck_assert_uint_eq(count(t, all), 127);
    count(t, "convert the provided text to speech");
    count(t, "caf\xc3\xa9 \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80\r\n\t x");
    kvref_model_close(&m);
}
END_TEST

START_TEST(words_of_every_prompt_are_single_tokens_where_there_is_room)
{
    kvref_config c = with_ids(600, 32, 512, 500);
    kvref_model *m = make(&c);
    const kvref_tokenizer *t = kvref_model_tokenizer(m);
    ck_assert_uint_eq(count(t, "convert the provided text to speech"), 6);
    ck_assert_uint_eq(count(t, "<|im_start|>system\n"), 3);
    ck_assert_uint_eq(count(t, "<|im_start|>assistant\n<|voice|>"), 4);
    ck_assert_uint_eq(count(t, "<|speaker:0|>"), 5);
    ck_assert_int_eq(kvref_tokenizer_id(t, "\xc4\x8a"), 198); /* newline, as in S2-Pro */
    kvref_model_close(&m);
}
END_TEST

START_TEST(s2_pro_vocabulary_has_the_official_ids)
{
    static const struct {
        const char *name;
        int id;
    } row[] = {{"<|endoftext|>", 151643},
               {"<|im_start|>", 151644},
               {"<|im_end|>", 151645},
               {"<|object_ref_start|>", 151646},
               {"<tool_call>", 151657},
               {"</think>", 151668},
               {"<|pad|>", 151669},
               {"<|phoneme_end|>", 151671},
               {"<|voice|>", 151673},
               {"<|audio_pad|>", 151677},
               {"<|semantic:0|>", 151678},
               {"<|semantic:4095|>", 155773},
               {"\xc4\x8a", 198}};
    kvref_config c = with_ids(155776, 4096, 151678, 151645);
    kvref_model *m = make(&c);
    const kvref_tokenizer *t = kvref_model_tokenizer(m);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        ck_assert_msg(kvref_tokenizer_id(t, row[i].name) == row[i].id, "%s", row[i].name);
    ck_assert_int_eq(kvref_tokenizer_size(t), 155774);
    ck_assert_int_eq(kvref_tokenizer_id(t, "<|speaker:0|>"), -1);
    kvref_model_close(&m);
}
END_TEST

START_TEST(vocabularies_without_room_are_refused)
{
    kvref_error err;
    kvref_synth_opts o = {.dtype = KVREF_BF16, .n_shard = 1, .tokenizer = true};
    const char *dir = support_path(support_temp_dir(), "none");
    kvref_config c = with_ids(290, 32, 100, 7);
    must_fail(kvref_synth_write(dir, &c, &o, &err), KVREF_E_ARG, err, "at least 291");
    c = with_ids(320, 32, 256, -1);
    must_fail(kvref_synth_write(dir, &c, &o, &err), KVREF_E_ARG, err, "im_end");
    c = with_ids(9000, 4097, 500, 499);
    must_fail(kvref_synth_write(dir, &c, &o, &err), KVREF_E_ARG, err, "found 4097");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("synth_tokenizer");
    TCase *tc = tcase_create("synth_tokenizer");
    tcase_add_test(tc, ids_are_those_of_the_config);
    tcase_add_test(tc, every_byte_has_a_token_and_every_text_comes_back);
    tcase_add_test(tc, words_of_every_prompt_are_single_tokens_where_there_is_room);
    tcase_add_test(tc, s2_pro_vocabulary_has_the_official_ids);
    tcase_add_test(tc, vocabularies_without_room_are_refused);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
