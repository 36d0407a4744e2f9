/* SPDX-License-Identifier: MIT */
/* Token ids of a model, with and without a tokenizer; the tensor table against the real model
 * and the golden ones; .pth name rules. */
#include "base/file.h"
#include "base/names.h"
#include "tests/checkpoint.h"

#include <jansson.h>

static kvref_error err;

/* Config text with the vocabulary of golden/tokenizer/small.json: semantic ids 615..646. */
static checkpoint *with_ids(const char *ids)
{
    char text[1024];
    snprintf(text,
             sizeof text,
             "{\"model_type\":\"dual_ar\",\"n_layer\":1,\"n_head\":2,\"head_dim\":4,"
             "\"dim\":10,\"intermediate_size\":14,\"num_codebooks\":3,\"n_fast_layer\":1,%s}",
             ids);
    return checkpoint_new(text);
}

static json_t *load_tokenizer(void)
{
    json_t *top =
        json_load_file(support_source("golden/tokenizer/small.json"), JSON_ALLOW_NUL, NULL);
    ck_assert_ptr_nonnull(top);
    return top;
}

static void save_tokenizer(const checkpoint *c, json_t *top)
{
    ck_assert_int_eq(json_dump_file(top, support_path(c->dir, "tokenizer.json"), 0), 0);
    json_decref(top);
}

static json_t *added(json_t *top, const char *content)
{
    size_t i;
    json_t *token;
    json_array_foreach(json_object_get(top, "added_tokens"), i, token)
    {
        if (strcmp(json_string_value(json_object_get(token, "content")), content) == 0)
            return token;
    }
    ck_abort_msg("no token %s", content);
    return NULL;
}

static const char fitting[] = "\"vocab_size\":647,\"codebook_size\":32,\"eos_token_id\":5";

START_TEST(the_tokenizer_rules_over_the_ids_of_the_config)
{
    checkpoint *c = with_ids(fitting);
    kvref_model *m;
    save_tokenizer(c, load_tokenizer());
    must(checkpoint_open(c, &m, NULL, &err), err);
    const kvref_config *config = kvref_model_config(m);
    ck_assert_int_eq(config->semantic_begin, 615);
    ck_assert_int_eq(config->semantic_end, 646);
    ck_assert_int_eq(config->im_end, 602);
    ck_assert_int_eq(kvref_tokenizer_id(kvref_model_tokenizer(m), "<|im_end|>"), 602);
    kvref_model_close(&m);
}
END_TEST

START_TEST(a_tokenizer_that_does_not_fit_is_named)
{
    static const struct {
        const char *ids, *contains;
    } bad[] = {
        {"\"vocab_size\":646,\"codebook_size\":32",
         "tokenizer.json: ids up to 646, expected below vocab_size 646"},
        {"\"vocab_size\":700,\"codebook_size\":31",
         "32 tokens <|semantic:N|>, expected codebook_size 31"},
    };
    for (int i = 0; i < 2; i++) {
        checkpoint *c = with_ids(bad[i].ids);
        kvref_model *m;
        save_tokenizer(c, load_tokenizer());
        must_fail(checkpoint_open(c, &m, NULL, &err), KVREF_E_FORMAT, err, bad[i].contains);
        ck_assert_ptr_null(m);
    }
}
END_TEST

START_TEST(semantic_tokens_out_of_order_are_refused)
{
    checkpoint *c = with_ids(fitting);
    kvref_model *m;
    json_t *top = load_tokenizer();
    json_object_set_new(added(top, "<|semantic:4|>"), "content", json_string("x4"));
    json_object_set_new(added(top, "<|semantic:9|>"), "content", json_string("<|semantic:4|>"));
    json_object_set_new(added(top, "x4"), "content", json_string("<|semantic:9|>"));
    save_tokenizer(c, top);
    must_fail(checkpoint_open(c, &m, NULL, &err),
              KVREF_E_FORMAT,
              err,
              "<|semantic:4|>: expected id 619, found 624");
}
END_TEST

START_TEST(a_tokenizer_without_the_needed_tokens_is_refused)
{
    checkpoint *c = with_ids(fitting);
    kvref_model *m;
    json_t *top = load_tokenizer();
    json_object_set_new(added(top, "<|im_end|>"), "content", json_string("<|no_end|>"));
    save_tokenizer(c, top);
    must_fail(checkpoint_open(c, &m, NULL, &err), KVREF_E_MISSING, err, "no token <|im_end|>");
    top = load_tokenizer();
    for (int i = 0; i < 32; i++) {
        char from[32], to[32];
        snprintf(from, sizeof from, "<|semantic:%d|>", i);
        snprintf(to, sizeof to, "<|other:%d|>", i);
        json_object_set_new(added(top, from), "content", json_string(to));
    }
    save_tokenizer(c, top);
    must_fail(checkpoint_open(c, &m, NULL, &err), KVREF_E_FORMAT, err, "0 tokens <|semantic");
    support_write(support_path(c->dir, "tokenizer.json"), "{", 1);
    must_fail(checkpoint_open(c, &m, NULL, &err), KVREF_E_FORMAT, err, "tokenizer.json");
}
END_TEST

START_TEST(without_a_tokenizer_the_ids_of_the_config_must_agree)
{
    static const struct {
        const char *ids, *contains;
    } bad[] = {
        {"\"vocab_size\":100,\"codebook_size\":16", "semantic ids 0..0, expected"},
        {"\"vocab_size\":100,\"codebook_size\":16,\"semantic_begin_id\":40,"
         "\"semantic_end_id\":56",
         "semantic ids 40..56, expected codebook_size 16 ids below vocab_size 100"},
        {"\"vocab_size\":100,\"codebook_size\":16,\"semantic_begin_id\":56,"
         "\"semantic_end_id\":40",
         "semantic ids 56..40"},
        {"\"vocab_size\":100,\"codebook_size\":16,\"semantic_begin_id\":85,"
         "\"semantic_end_id\":100",
         "semantic ids 85..100"},
        {"\"vocab_size\":100,\"codebook_size\":16,\"semantic_begin_id\":84,"
         "\"semantic_end_id\":99,\"eos_token_id\":100",
         "end id 100, expected below vocab_size 100"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        checkpoint *c = with_ids(bad[i].ids);
        kvref_model *m;
        must_fail(checkpoint_open(c, &m, NULL, &err), KVREF_E_FORMAT, err, bad[i].contains);
    }
    checkpoint *c = with_ids("\"vocab_size\":100,\"codebook_size\":16,\"eos_token_id\":99,"
                             "\"semantic_begin_id\":84,\"semantic_end_id\":99");
    kvref_model *m;
    must(checkpoint_open(c, &m, NULL, &err), err);
    kvref_model_close(&m);
}
END_TEST

START_TEST(a_folder_or_a_file_may_be_given)
{
    kvref_config c;
    const char *dir = support_temp_dir(), *path = support_path(dir, "config.json");
    must_fail(kvref_config_read(&c, dir, &err), KVREF_E_MISSING, err, "config.json");
    support_write(path, "{\"model_type\":\"dual_ar\"}", 24);
    must(kvref_config_read(&c, dir, &err), err);
    must(kvref_config_read(&c, path, &err), err);
    support_write(path, "{", 1);
    must_fail(kvref_config_read(&c, dir, &err), KVREF_E_FORMAT, err, path);
    must_fail(kvref_config_read(&c, "/dev/null", &err), KVREF_E_IO, err, "device");
}
END_TEST

START_TEST(candidates_ascend_without_repetition)
{
    kvref_config c = {.semantic_begin = 5, .semantic_end = 8, .im_end = 3};
    static const struct {
        int im_end, n, id[5];
    } want[] = {{3, 5, {3, 5, 6, 7, 8}},
                {9, 5, {5, 6, 7, 8, 9}},
                {7, 4, {5, 6, 7, 8, -9}},
                {-1, 4, {5, 6, 7, 8, -9}}};
    for (int i = 0; i < 4; i++) {
        c.im_end = want[i].im_end;
        for (int max = 0; max <= 5; max++) {
            int32_t id[5] = {-9, -9, -9, -9, -9};
            ck_assert_int_eq(kvref_config_candidates(&c, id, max), want[i].n);
            for (int j = 0; j < 5; j++) ck_assert_int_eq(id[j], j < max ? want[i].id[j] : -9);
        }
    }
}
END_TEST

/* S2-Pro's sizes, flat. */
static const char s2_pro[] =
    "{\"model_type\":\"dual_ar\",\"vocab_size\":155776,\"n_layer\":36,\"n_head\":32,"
    "\"n_local_heads\":8,\"head_dim\":128,\"dim\":2560,\"intermediate_size\":9728,"
    "\"attention_qk_norm\":true,\"fast_attention_qk_norm\":false,\"codebook_size\":4096,"
    "\"num_codebooks\":10,\"n_fast_layer\":4}";

START_TEST(the_table_of_s2_pro_has_358_tensors_of_4561852416_parameters)
{
    kvref_config c;
    kvref_tensor_spec spec[400], few[3];
    must(kvref_config_parse(&c, s2_pro, strlen(s2_pro), "s2", &err), err);
    ck_assert_int_eq(kvref_config_tensors(&c, NULL, 0), 358);
    ck_assert_int_eq(kvref_config_tensors(&c, few, 3), 358);
    ck_assert_int_eq(kvref_config_tensors(&c, spec, 400), 358);
    ck_assert_str_eq(few[2].name, spec[2].name);
    int64_t sum = 0;
    for (int i = 0; i < 358; i++) {
        int64_t n = 1;
        for (int d = 0; d < spec[i].n_dim; d++) n *= spec[i].dim[d];
        sum += n;
    }
    ck_assert_int_eq(sum, 4561852416);
}
END_TEST

/* Every tensor of the golden models and no other, with its shape. */
START_TEST(the_table_agrees_with_the_tensors_of_upstream)
{
    static const char *const file[] = {
        "golden/lm/A.json", "golden/lm/B.json", "golden/lm/C.json", "golden/lm/L.json"};
    json_t *top = json_load_file(support_source(file[_i]), 0, NULL);
    json_t *tensors = json_object_get(top, "tensors");
    char *text = json_dumps(json_object_get(top, "config"), 0);
    kvref_config c;
    kvref_tensor_spec spec[80];
    must(kvref_config_parse(&c, text, strlen(text), "config", &err), err);
    int n = kvref_config_tensors(&c, spec, 80);
    ck_assert_int_eq(n, (int)json_object_size(tensors));
    for (int i = 0; i < n; i++) {
        json_t *shape = json_object_get(tensors, spec[i].name);
        ck_assert_msg(shape != NULL, "%s", spec[i].name);
        ck_assert_int_eq(spec[i].n_dim, (int)json_array_size(shape));
        for (int d = 0; d < spec[i].n_dim; d++)
            ck_assert_int_eq(spec[i].dim[d],
                             json_integer_value(json_array_get(shape, (size_t)d)));
    }
    free(text);
    json_decref(top);
}
END_TEST

/* The internal names of a .pth with these keys, joined by spaces; dropped ones not. */
static void pth_names(char out[256], const char *const *key, int n)
{
    kvref_file *f;
    kvref_names names;
    int part;
    kvref_tensor t = {.dtype = KVREF_F32};
    must(kvref_file_new(&f, &err), err);
    must(kvref_file_add_memory(f, &part, "x.pth", "", 0, &err), err);
    for (int i = 0; i < n; i++)
        must(kvref_file_add(f, part, key[i], strlen(key[i]), &t, &err), err);
    must(kvref_file_finish(f, &err), err);
    f->is_pth = true;
    must(kvref_names_map(&names, f, &err), err);
    out[0] = 0;
    for (size_t i = 0, at = 0; i < names.n_kept; i++)
        at += (size_t)snprintf(out + at, 256 - at, "%s ", names.named[i].name);
    ck_assert_uint_eq(names.n, (size_t)n);
    kvref_names_clear(&names);
    kvref_file_close(&f);
}

START_TEST(pth_names_lose_their_prefix_and_audio_inputs)
{
    char got[256];
    pth_names(got, (const char *const[]){"model.a", "model.b.model.c", "model.audio_x.w"}, 3);
    ck_assert_str_eq(got, "a b.c ");
    pth_names(got, (const char *const[]){"a", "b.model.c", "x.audio_y", "audio_z"}, 4);
    ck_assert_str_eq(got, "a b.model.c ");
    pth_names(got, (const char *const[]){"text_model.model.a", "text_model.lm_head.weight"}, 2);
    ck_assert_str_eq(got, "text_model.lm_head.weight text_model.model.a ");
    pth_names(got, NULL, 0);
    ck_assert_str_eq(got, "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model_ids");
    TCase *tc = tcase_create("model_ids");
    tcase_add_test(tc, the_tokenizer_rules_over_the_ids_of_the_config);
    tcase_add_test(tc, a_tokenizer_that_does_not_fit_is_named);
    tcase_add_test(tc, semantic_tokens_out_of_order_are_refused);
    tcase_add_test(tc, a_tokenizer_without_the_needed_tokens_is_refused);
    tcase_add_test(tc, without_a_tokenizer_the_ids_of_the_config_must_agree);
    tcase_add_test(tc, a_folder_or_a_file_may_be_given);
    tcase_add_test(tc, candidates_ascend_without_repetition);
    tcase_add_test(tc, the_table_of_s2_pro_has_358_tensors_of_4561852416_parameters);
    tcase_add_loop_test(tc, the_table_agrees_with_the_tensors_of_upstream, 0, 4);
    tcase_add_test(tc, pth_names_lose_their_prefix_and_audio_inputs);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
