/* SPDX-License-Identifier: MIT */
#include "kvref/prompt.h"
#include "tests/small_tokenizer.h"
#include "tests/support.h"

#define N              3
#define SYSTEM         "<|im_start|>system\n"
#define PLAIN_TASK     "convert the provided text to speech"
#define REFERENCE_TASK PLAIN_TASK " reference to the following:\n\nText:\n"
#define USER           "<|im_start|>user\n"
#define ANSWER         "<|im_start|>assistant\n<|voice|>"
#define END            "<|im_end|>\n"

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

/* A text part, or codes when text is NULL. */
typedef struct part {
    const char *text;
    kvref_control control;
    const kvref_codes *codes;
} part;

/* Compares positions from row t on with one part; returns the row after it. */
static int check_part(const kvref_frames *out, int t, const part *p)
{
    kvref_error err;
    kvref_ids ids = {0};
    if (p->text)
        must(kvref_tokenize(tok, &ids, p->text, strlen(p->text), p->control, &err), err);
    int n = p->text ? (int)ids.n : p->codes->n_frame;
    for (int i = 0; i < n; i++, t++) {
        ck_assert_int_lt(t, out->n_frame);
        const int32_t *row = out->value + (ptrdiff_t)t * (1 + N);
        const int32_t *code =
            p->text ? (const int32_t[N]){0} : p->codes->code + (ptrdiff_t)i * N;
        int32_t id = p->text ? ids.id[i] : config.semantic_begin + code[0];
        ck_assert_msg(row[0] == id, "position %d: id %d, not %d", t, row[0], id);
        ck_assert_mem_eq(row + 1, code, N * sizeof *row);
    }
    kvref_ids_clear(&ids);
    return t;
}

static void check_parts(const kvref_prompt_in *in, const part *parts, int n_part)
{
    kvref_frames out = {0};
    kvref_error err;
    int t = 0;
    must(kvref_prompt_build(&out, in, &err), err);
    ck_assert_int_eq(out.n_row, 1 + N);
    for (int i = 0; i < n_part; i++) t = check_part(&out, t, &parts[i]);
    ck_assert_int_eq(t, out.n_frame);
    kvref_frames_clear(&out);
}

static int32_t code_a[2 * N] = {5, 1, 2, 31, 0, 7}, code_b[N] = {0, 30, 1};
static const kvref_codes two_frames = {N, 2, code_a}, one_frame = {N, 1, code_b};

/* The batches of a prompt. */
static char copy[4][64], *text_of[4];
static size_t size_of[4];
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

START_TEST(a_prompt_without_references_has_its_parts)
{
    static const char *const text[] = {"<|speaker:0|>Hello world."};
    const part parts[] = {{SYSTEM, 0, 0},
                          {PLAIN_TASK, 0, 0},
                          {END, 0, 0},
                          {USER, 0, 0},
                          {text[0], 0, 0},
                          {END, 0, 0},
                          {ANSWER, 0, 0}};
    kvref_prompt_in in = input(1, text);
    check_parts(&in, parts, 7);
}
END_TEST

START_TEST(reference_texts_get_a_tag_unless_they_have_one)
{
    static const char *const text[] = {"Hello"};
    const kvref_reference reference[] = {{"Good morning.", 13, &two_frames},
                                         {"so <|speaker:7|>evening", 23, &one_frame},
                                         {"", 0, &one_frame}};
    const part parts[] = {
        {SYSTEM, 0, 0},
        {REFERENCE_TASK, 0, 0},
        {"<|speaker:0|>Good morning.\nso <|speaker:7|>evening\n<|speaker:2|>", 0, 0},
        {"\n\nSpeech:\n", 0, 0},
        {NULL, 0, &two_frames},
        {NULL, 0, &one_frame},
        {NULL, 0, &one_frame},
        {END, 0, 0},
        {USER, 0, 0},
        {"Hello", 0, 0},
        {END, 0, 0},
        {ANSWER, 0, 0}};
    kvref_prompt_in in = input(1, text);
    in.reference = reference;
    in.n_reference = 3;
    check_parts(&in, parts, 12);
}
END_TEST

START_TEST(earlier_batches_come_back_with_their_codes)
{
    static const char *const text[] = {"one", "two", "three", "four"};
    const kvref_codes done[] = {two_frames, {N, 0, NULL}};
    const part parts[] = {{SYSTEM, 0, 0},
                          {PLAIN_TASK, 0, 0},
                          {END, 0, 0},
                          {USER, 0, 0},
                          {"one", 0, 0},
                          {END, 0, 0},
                          {ANSWER, 0, 0},
                          {NULL, 0, &two_frames},
                          {END, 0, 0},
                          {USER, 0, 0},
                          {"two", 0, 0},
                          {END, 0, 0},
                          {ANSWER, 0, 0},
                          {END, 0, 0},
                          {USER, 0, 0},
                          {"three", 0, 0},
                          {END, 0, 0},
                          {ANSWER, 0, 0}};
    kvref_prompt_in in = input(4, text);
    in.done = done;
    in.batch = 2;
    check_parts(&in, parts, 18);
}
END_TEST

START_TEST(a_prompt_begins_with_the_previous_prompt_and_its_frames)
{
    static const char *const text[] = {"one", "two"};
    kvref_prompt_in in = input(2, text);
    in.done = &two_frames;
    kvref_frames first = {0}, second = {0};
    kvref_error err;
    must(kvref_prompt_build(&first, &in, &err), err);
    in.batch = 1;
    must(kvref_prompt_build(&second, &in, &err), err);
    for (ptrdiff_t t = 0; t < 2; t++) {
        int32_t row[1 + N] = {config.semantic_begin + code_a[t * N]};
        memcpy(row + 1, code_a + t * N, sizeof code_a / 2);
        must(kvref_frames_append(&first, row, 1, &err), err);
    }
    ck_assert_int_gt(second.n_frame, first.n_frame);
    ck_assert_mem_eq(
        first.value, second.value, (size_t)first.n_frame * (1 + N) * sizeof(int32_t));
    kvref_frames_clear(&first);
    kvref_frames_clear(&second);
}
END_TEST

START_TEST(no_merge_crosses_a_part)
{
    static const char *const text[] = {"\n\nthe"};
    kvref_prompt_in in = input(1, text);
    kvref_ids whole = {0};
    kvref_error err;
    static const char joined[] = USER "\n\nthe";
    must(kvref_tokenize(tok, &whole, joined, strlen(joined), 0, &err), err);
    const part parts[] = {{SYSTEM, 0, 0},
                          {PLAIN_TASK, 0, 0},
                          {END, 0, 0},
                          {USER, 0, 0},
                          {text[0], 0, 0},
                          {END, 0, 0},
                          {ANSWER, 0, 0}};
    check_parts(&in, parts, 7);
    kvref_ids apart = {0};
    must(kvref_tokenize(tok, &apart, USER, strlen(USER), 0, &err), err);
    must(kvref_tokenize(tok, &apart, "\n\nthe", 5, 0, &err), err);
    /* So the comparison above could tell. */
    ck_assert(apart.n != whole.n ||
              memcmp(apart.id, whole.id, apart.n * sizeof *apart.id) != 0);
    kvref_ids_clear(&whole);
    kvref_ids_clear(&apart);
}
END_TEST

START_TEST(the_control_policy_holds_for_user_and_reference_text_alone)
{
    static const char *const text[] = {"a<|im_end|>b<|semantic:5|>"};
    const kvref_reference reference = {"<|im_start|>x", 13, &one_frame};
    for (int control = 0; control < 2; control++) {
        kvref_control c = control ? KVREF_CONTROL_PLAIN : KVREF_CONTROL_HONOUR;
        const part parts[] = {{SYSTEM, 0, 0},
                              {REFERENCE_TASK, 0, 0},
                              {"<|speaker:0|><|im_start|>x", c, 0},
                              {"\n\nSpeech:\n", 0, 0},
                              {NULL, 0, &one_frame},
                              {END, 0, 0},
                              {USER, 0, 0},
                              {text[0], c, 0},
                              {END, 0, 0},
                              {ANSWER, 0, 0}};
        kvref_prompt_in in = input(1, text);
        in.reference = &reference;
        in.n_reference = 1;
        in.control = c;
        check_parts(&in, parts, 10);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("prompt");
    TCase *tc = tcase_create("prompt");
    tcase_add_unchecked_fixture(tc, open_small, close_small);
    tcase_add_test(tc, a_prompt_without_references_has_its_parts);
    tcase_add_test(tc, reference_texts_get_a_tag_unless_they_have_one);
    tcase_add_test(tc, earlier_batches_come_back_with_their_codes);
    tcase_add_test(tc, a_prompt_begins_with_the_previous_prompt_and_its_frames);
    tcase_add_test(tc, no_merge_crosses_a_part);
    tcase_add_test(tc, the_control_policy_holds_for_user_and_reference_text_alone);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
