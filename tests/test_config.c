/* SPDX-License-Identifier: MIT */
/* config.json: both forms, every default and rule, every refusal. A case is the S2-Pro config
 * (or its flat twin) with one key changed. */
#include "base/base.h"
#include "kvref/model.h"
#include "tests/support.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kvref_error err;

static const char nested_text[] =
    "{'model_type':'fish_qwen3_omni','dtype':'bfloat16','eos_token_id':151645,"
    "'semantic_start_token_id':151678,'semantic_end_token_id':155773,'pad_token_id':151669,"
    "'text_config':{'vocab_size':155776,'n_layer':36,'n_head':32,'n_local_heads':8,"
    "'head_dim':128,'dim':2560,'intermediate_size':9728,'rope_base':1000000,"
    "'norm_eps':1e-06,'max_seq_len':32768,'tie_word_embeddings':true,'use_moe':false,"
    "'attention_qkv_bias':false,'attention_o_bias':false,'attention_qk_norm':true},"
    "'audio_decoder_config':{'vocab_size':4096,'num_codebooks':10,'n_layer':4,'dim':2560,"
    "'n_head':32,'n_local_heads':8,'head_dim':128,'intermediate_size':9728,"
    "'attention_qk_norm':false,'attention_qkv_bias':false,'attention_o_bias':false,"
    "'rope_base':7,'norm_eps':0.5,'max_seq_len':11,'tie_word_embeddings':true,'text_dim':2560}"
    "}";

static const char flat_text[] =
    "{'model_type':'dual_ar','vocab_size':320,'n_layer':2,'n_head':4,'n_local_heads':2,"
    "'head_dim':8,'dim':24,'intermediate_size':40,'rope_base':1000000.0,'norm_eps':1e-06,"
    "'max_seq_len':64,'tie_word_embeddings':false,'attention_qk_norm':true,"
    "'attention_qkv_bias':true,'attention_o_bias':true,'codebook_size':32,'num_codebooks':4,"
    "'semantic_begin_id':256,'semantic_end_id':287,'scale_codebook_embeddings':true,"
    "'norm_fastlayer_input':false,'n_fast_layer':3,'fast_dim':16,'fast_n_head':2,"
    "'fast_n_local_heads':1,'fast_head_dim':6,'fast_intermediate_size':32,"
    "'fast_attention_qk_norm':false,'fast_attention_qkv_bias':false,"
    "'fast_attention_o_bias':false,'initializer_range':0.3}";

/* Single quotes become double ones. */
static json_t *load(const char *text)
{
    char *copy = strdup(text);
    for (char *p = copy; (p = strchr(p, '\''));) *p = '"';
    json_t *v = json_loads(copy, JSON_DECODE_ANY, NULL);
    ck_assert_msg(v != NULL, "test text is not JSON: %s", text);
    free(copy);
    return v;
}

/* The base config with `key` (t.x and a.x: inside the two sections) set to `value`, or
 * removed where value is NULL. */
static kvref_status parse(kvref_config *c, bool nested, const char *key, const char *value)
{
    json_t *top = load(nested ? nested_text : flat_text), *object = top;
    if (key && key[1] == '.') {
        object = json_object_get(top, *key == 't' ? "text_config" : "audio_decoder_config");
        key += 2;
    }
    if (key && value) json_object_set_new(object, key, load(value));
    if (key && !value) ck_assert_int_eq(json_object_del(object, key), 0);
    char *text = json_dumps(top, 0);
    kvref_status s = kvref_config_parse(c, text, strlen(text), "conf", &err);
    free(text);
    json_decref(top);
    return s;
}

static kvref_config with(bool nested, const char *key, const char *value)
{
    kvref_config c;
    must(parse(&c, nested, key, value), err);
    return c;
}

static bool same(kvref_stack a, kvref_stack b)
{
    return a.n_layer == b.n_layer && a.d_model == b.d_model && a.n_head == b.n_head &&
           a.n_kv_head == b.n_kv_head && a.d_head == b.d_head && a.d_ff == b.d_ff &&
           a.qkv_bias == b.qkv_bias && a.o_bias == b.o_bias && a.qk_norm == b.qk_norm;
}

START_TEST(the_nested_form_is_read)
{
    kvref_config c = with(true, NULL, NULL);
    ck_assert_str_eq(c.model_type, "fish_qwen3_omni");
    ck_assert(same(c.slow, (kvref_stack){36, 2560, 32, 8, 128, 9728, false, false, true}));
    ck_assert(same(c.fast, (kvref_stack){4, 2560, 32, 8, 128, 9728, false, false, false}));
    ck_assert(c.n_vocab == 155776 && c.n_codebook == 10 && c.n_code == 4096);
    ck_assert(c.max_seq_len == 32768 && c.tie_word_embeddings);
    ck_assert(c.semantic_begin == 151678 && c.semantic_end == 155773 && c.im_end == 151645);
}
END_TEST

START_TEST(the_flat_form_is_read)
{
    kvref_config c = with(false, NULL, NULL);
    ck_assert_str_eq(c.model_type, "dual_ar");
    ck_assert(same(c.slow, (kvref_stack){2, 24, 4, 2, 8, 40, true, true, true}));
    ck_assert(same(c.fast, (kvref_stack){3, 16, 2, 1, 6, 32, false, false, false}));
    ck_assert(c.n_vocab == 320 && c.n_codebook == 4 && c.n_code == 32 && c.max_seq_len == 64);
    ck_assert(!c.tie_word_embeddings && c.scale_codebook_embeddings && !c.norm_fastlayer_input);
    ck_assert(c.semantic_begin == 256 && c.semantic_end == 287 && c.im_end == -1);
    ck_assert(c.rope_base == 1e6f && c.norm_eps == 1e-6f);
}
END_TEST

START_TEST(an_empty_flat_config_has_every_default)
{
    kvref_config c;
    const char *text = "{\"model_type\":\"dual_ar\"}";
    must(kvref_config_parse(&c, text, strlen(text), "conf", &err), err);
    ck_assert(same(c.slow, (kvref_stack){32, 4096, 32, 32, 64, 11008, false, false, false}));
    ck_assert(same(c.fast, (kvref_stack){4, 4096, 32, 32, 64, 11008, false, false, false}));
    ck_assert(c.n_vocab == 32000 && c.n_codebook == 4 && c.n_code == 160);
    ck_assert(c.max_seq_len == 2048 && c.rope_base == 1e4f && c.norm_eps == 1e-5f);
    ck_assert(c.tie_word_embeddings);
    ck_assert(!c.scale_codebook_embeddings && !c.norm_fastlayer_input);
    ck_assert(c.semantic_begin == 0 && c.semantic_end == 0 && c.im_end == -1);
}
END_TEST

START_TEST(the_nested_form_forces_scaling_and_the_final_norm)
{
    kvref_config c = with(true, "scale_codebook_embeddings", "false");
    ck_assert(c.scale_codebook_embeddings && c.norm_fastlayer_input);
    c = with(true, "norm_fastlayer_input", "false");
    ck_assert(c.scale_codebook_embeddings && c.norm_fastlayer_input);
    ck_assert(!with(false, "scale_codebook_embeddings", NULL).scale_codebook_embeddings);
    ck_assert(!with(false, "norm_fastlayer_input", NULL).norm_fastlayer_input);
}
END_TEST

START_TEST(the_fast_transformer_takes_rope_base_and_eps_from_the_slow_one)
{
    kvref_config c = with(true, NULL, NULL);
    ck_assert(c.rope_base == 1e6f && c.norm_eps == 1e-6f && c.max_seq_len == 32768);
    ck_assert(with(true, "a.tie_word_embeddings", "false").tie_word_embeddings);
}
END_TEST

START_TEST(an_absent_head_width_is_64_and_a_flat_null_is_width_over_heads)
{
    ck_assert_int_eq(with(false, "head_dim", NULL).slow.d_head, 64);
    ck_assert_int_eq(with(true, "t.head_dim", NULL).slow.d_head, 64);
    ck_assert_int_eq(with(true, "t.head_dim", "null").slow.d_head, 64);
    ck_assert_int_eq(with(false, "head_dim", "null").slow.d_head, 24 / 4);
}
END_TEST

START_TEST(an_unset_feed_forward_width_is_two_thirds_of_four_widths)
{
    ck_assert_int_eq(with(false, "intermediate_size", NULL).slow.d_ff, 256);
    ck_assert_int_eq(with(false, "intermediate_size", "null").slow.d_ff, 256);
    ck_assert_int_eq(with(true, "t.intermediate_size", "null").slow.d_ff, 6912);
    ck_assert_int_eq(with(false, "intermediate_size", "null").fast.d_ff, 32);
    const char *text = "{\"model_type\":\"dual_ar\",\"dim\":512}";
    kvref_config c;
    must(kvref_config_parse(&c, text, strlen(text), "conf", &err), err);
    ck_assert(c.slow.d_ff == 1536 && c.fast.d_ff == 1536);
}
END_TEST

START_TEST(unset_key_value_heads_are_all_heads)
{
    ck_assert_int_eq(with(false, "n_local_heads", NULL).slow.n_kv_head, 4);
    ck_assert_int_eq(with(false, "n_local_heads", "-1").slow.n_kv_head, 4);
    ck_assert_int_eq(with(true, "t.n_local_heads", "null").slow.n_kv_head, 32);
    ck_assert_int_eq(with(false, "fast_n_local_heads", "-1").fast.n_kv_head, 2);
    ck_assert_int_eq(with(true, "a.n_local_heads", "-1").fast.n_kv_head, 32);
}
END_TEST

START_TEST(fast_sizes_absent_null_or_0_are_the_slow_ones)
{
    static const char *const value[] = {NULL, "null", "0", "0.0"};
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(with(false, "fast_dim", value[i]).fast.d_model, 24);
        ck_assert_int_eq(with(false, "fast_n_head", value[i]).fast.n_head, 4);
        ck_assert_int_eq(with(false, "fast_n_local_heads", value[i]).fast.n_kv_head, 2);
        ck_assert_int_eq(with(false, "fast_head_dim", value[i]).fast.d_head, 8);
        ck_assert_int_eq(with(false, "fast_intermediate_size", value[i]).fast.d_ff, 40);
        ck_assert_int_eq(with(true, "a.dim", value[i]).fast.d_model, 2560);
        ck_assert_int_eq(with(true, "a.n_local_heads", value[i]).fast.n_kv_head, 8);
    }
}
END_TEST

START_TEST(fast_flags_absent_or_null_are_the_slow_ones_and_false_stays)
{
    ck_assert(with(false, "fast_attention_qkv_bias", NULL).fast.qkv_bias);
    ck_assert(with(false, "fast_attention_qkv_bias", "null").fast.qkv_bias);
    ck_assert(!with(false, "fast_attention_qkv_bias", "false").fast.qkv_bias);
    ck_assert(with(false, "fast_attention_o_bias", NULL).fast.o_bias);
    ck_assert(with(true, "a.attention_qk_norm", "null").fast.qk_norm);
    ck_assert(with(true, "a.attention_qk_norm", NULL).fast.qk_norm);
    ck_assert(!with(true, NULL, NULL).fast.qk_norm);
}
END_TEST

START_TEST(integers_may_be_written_as_floats)
{
    ck_assert_int_eq(with(false, "n_layer", "2.0").slow.n_layer, 2);
    ck_assert(with(true, "t.rope_base", "10000").rope_base == 1e4f);
    ck_assert(with(true, "t.rope_base", "1e4").rope_base == 1e4f);
}
END_TEST

START_TEST(unknown_keys_and_unused_values_do_not_matter)
{
    with(true, "zzz", "[1,{}]");
    with(true, "t.dropout", "'x'");
    with(true, "t.use_moe", "null");
    ck_assert_int_eq(with(true, "eos_token_id", "[1,2]").im_end, -1);
    ck_assert_int_eq(with(true, "eos_token_id", "null").im_end, -1);
    ck_assert_int_eq(with(false, "eos_token_id", "7").im_end, 7);
    ck_assert_int_eq(with(false, "max_seq_len", "63").max_seq_len, 63);
}
END_TEST

static const struct {
    int nested; /* the form */
    kvref_status status;
    const char *key, *value, *contains;
} bad[] = {
    {true, KVREF_E_MISSING, "model_type", NULL, "conf: model_type"},
    {true, KVREF_E_FORMAT, "model_type", "3", "found 3"},
    {true, KVREF_E_UNSUPPORTED, "model_type", "'naive'", "found \"naive\""},
    {true, KVREF_E_UNSUPPORTED, "model_type", "'llama'", "found \"llama\""},
    {true, KVREF_E_UNSUPPORTED, "model_type", "'dual_ar\\u0007'", "dual_ar?"},
    {true, KVREF_E_MISSING, "text_config", NULL, "conf: text_config: expected an object"},
    {true, KVREF_E_FORMAT, "text_config", "null", "found null"},
    {true, KVREF_E_MISSING, "audio_decoder_config", NULL, "audio_decoder_config"},
    {true, KVREF_E_FORMAT, "audio_decoder_config", "[]", "found an array"},
    {true, KVREF_E_MISSING, "t.vocab_size", NULL, "text_config.vocab_size: expected a number"},
    {true, KVREF_E_FORMAT, "t.vocab_size", "null", "text_config.vocab_size: expected a value"},
    {true, KVREF_E_MISSING, "t.n_layer", NULL, "text_config.n_layer"},
    {true, KVREF_E_FORMAT, "t.n_head", "null", "text_config.n_head"},
    {true, KVREF_E_MISSING, "t.dim", NULL, "text_config.dim"},
    {true, KVREF_E_MISSING, "a.vocab_size", NULL, "audio_decoder_config.vocab_size"},
    {true, KVREF_E_FORMAT, "a.num_codebooks", "null", "audio_decoder_config.num_codebooks"},
    {true, KVREF_E_MISSING, "a.n_layer", NULL, "audio_decoder_config.n_layer"},
    {false, KVREF_E_FORMAT, "n_layer", "null", "conf: n_layer: expected a value, found null"},
    {false, KVREF_E_FORMAT, "rope_base", "null", "rope_base"},
    {false, KVREF_E_FORMAT, "tie_word_embeddings", "null", "tie_word_embeddings"},
    {false, KVREF_E_FORMAT, "n_fast_layer", "null", "n_fast_layer"},
    {false, KVREF_E_FORMAT, "n_layer", "0", "expected an integer 1..1024, found 0"},
    {false, KVREF_E_FORMAT, "n_layer", "-1", "found -1"},
    {false, KVREF_E_FORMAT, "n_layer", "1025", "1..1024"},
    {false, KVREF_E_FORMAT, "n_layer", "2.5", "found 2.5"},
    {false, KVREF_E_FORMAT, "n_layer", "'2'", "found \"2\""},
    {false, KVREF_E_FORMAT, "n_layer", "true", "found true"},
    {false, KVREF_E_FORMAT, "n_layer", "1e300", "found 1"},
    {false, KVREF_E_FORMAT, "n_layer", "9223372036854775807", "found 9223372036854775807"},
    {false,
     KVREF_E_FORMAT,
     "vocab_size",
     "16777217",
     "vocab_size: expected an integer 1..16777216"},
    {false, KVREF_E_FORMAT, "max_seq_len", "16777217", "max_seq_len"},
    {false, KVREF_E_FORMAT, "max_seq_len", "0", "max_seq_len"},
    {false, KVREF_E_FORMAT, "dim", "1048577", "dim: expected an integer 1..1048576"},
    {false, KVREF_E_FORMAT, "intermediate_size", "1048577", "intermediate_size"},
    {false, KVREF_E_FORMAT, "intermediate_size", "0", "intermediate_size"},
    {false, KVREF_E_FORMAT, "codebook_size", "0", "codebook_size"},
    {false, KVREF_E_FORMAT, "num_codebooks", "1025", "num_codebooks"},
    {false, KVREF_E_FORMAT, "n_head", "5", "slow transformer: 5 heads, expected a multiple"},
    {false, KVREF_E_FORMAT, "n_local_heads", "3", "4 heads, expected a multiple of its 3"},
    {false, KVREF_E_FORMAT, "n_local_heads", "8", "4 heads, expected a multiple of its 8"},
    {false, KVREF_E_FORMAT, "n_local_heads", "0", "multiple of its 0"},
    {false, KVREF_E_FORMAT, "n_local_heads", "-2", "found -2"},
    {false, KVREF_E_FORMAT, "dim", "26", "slow transformer: width 26"},
    {false, KVREF_E_FORMAT, "fast_dim", "17", "fast transformer: width 17"},
    {false, KVREF_E_FORMAT, "fast_n_head", "3", "fast transformer: width 16"},
    {false, KVREF_E_FORMAT, "fast_dim", "-1", "fast_dim"},
    {false,
     KVREF_E_FORMAT,
     "head_dim",
     "7",
     "slow transformer: head width 7, expected an even"},
    {false, KVREF_E_FORMAT, "fast_head_dim", "5", "fast transformer: head width 5"},
    {false, KVREF_E_FORMAT, "head_dim", "1048576", "4 heads of 1048576"},
    {false, KVREF_E_FORMAT, "rope_base", "0", "rope_base: expected a finite number above 0"},
    {false, KVREF_E_FORMAT, "rope_base", "-1.5", "found -1.5"},
    {false, KVREF_E_FORMAT, "rope_base", "1e39", "rope_base"},
    {false, KVREF_E_FORMAT, "norm_eps", "1e-60", "norm_eps"},
    {false, KVREF_E_FORMAT, "norm_eps", "'x'", "norm_eps"},
    {false, KVREF_E_FORMAT, "attention_qk_norm", "1", "expected true or false, found 1"},
    {true, KVREF_E_FORMAT, "a.attention_o_bias", "'no'", "found \"no\""},
    {true, KVREF_E_UNSUPPORTED, "t.use_moe", "true", "text_config.use_moe: expected false"},
    {true, KVREF_E_UNSUPPORTED, "use_moe", "true", "use_moe"},
    {true, KVREF_E_UNSUPPORTED, "a.use_moe", "1", "audio_decoder_config.use_moe"},
    {false, KVREF_E_UNSUPPORTED, "is_reward_model", "true", "is_reward_model"},
    {false, KVREF_E_FORMAT, "semantic_begin_id", "-1", "semantic_begin_id"},
    {true, KVREF_E_FORMAT, "semantic_end_token_id", "99999999", "semantic_end_token_id"},
    {true, KVREF_E_FORMAT, "eos_token_id", "-3", "eos_token_id"},
};

START_TEST(every_bad_value_is_named)
{
    kvref_config c;
    must_fail(parse(&c, bad[_i].nested, bad[_i].key, bad[_i].value),
              bad[_i].status,
              err,
              bad[_i].contains);
}
END_TEST

START_TEST(sizes_whose_product_is_too_large_are_refused)
{
    kvref_config c;
    const char *text = "{\"model_type\":\"dual_ar\",\"codebook_size\":1048576,"
                       "\"num_codebooks\":17}";
    must_fail(kvref_config_parse(&c, text, strlen(text), "conf", &err),
              KVREF_E_FORMAT,
              err,
              "17 codebooks of 1048576 codes");
    text = "{\"model_type\":\"dual_ar\",\"dim\":1048576}";
    must_fail(kvref_config_parse(&c, text, strlen(text), "conf", &err),
              KVREF_E_FORMAT,
              err,
              "feed-forward rows");
}
END_TEST

static const struct {
    const char *text, *contains;
} bad_json[] = {
    {"", "JSON"},
    {"[]", "expected an object"},
    {"3", "JSON"},
    {"{\"model_type\":\"dual_ar\"", "JSON line 1"},
    {"{\"model_type\":\"dual_ar\"}x", "JSON"},
    {"{\"dim\":1,\"dim\":1}", "duplicate"},
    {"{\"model_type\":\"dual_ar\",\"rope_base\":NaN}", "JSON"},
    {"{\"model_type\":\"dual_ar\",\"rope_base\":1e999}", "overflow"},
    {"{\"model_type\":\"dual_ar\xff\"}", "decode"},
    {"{\"a\\u0000b\":1}", "JSON"},
};

START_TEST(text_that_is_not_strict_json_is_refused)
{
    kvref_config c;
    must_fail(
        kvref_config_parse(&c, bad_json[_i].text, strlen(bad_json[_i].text), "conf", &err),
        KVREF_E_FORMAT,
        err,
        bad_json[_i].contains);
}
END_TEST

START_TEST(long_or_deep_text_is_refused)
{
    kvref_config c;
    size_t n = 256 << 10;
    char *text = malloc(n + 1);
    memset(text, '[', n + 1);
    must_fail(kvref_config_parse(&c, text, n, "conf", &err), KVREF_E_FORMAT, err, "depth");
    must_fail(kvref_config_parse(&c, text, n + 1, "conf", &err),
              KVREF_E_FORMAT,
              err,
              "262145 bytes, expected at most 262144");
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *tc = tcase_create("config");
    tcase_add_test(tc, the_nested_form_is_read);
    tcase_add_test(tc, the_flat_form_is_read);
    tcase_add_test(tc, an_empty_flat_config_has_every_default);
    tcase_add_test(tc, the_nested_form_forces_scaling_and_the_final_norm);
    tcase_add_test(tc, the_fast_transformer_takes_rope_base_and_eps_from_the_slow_one);
    tcase_add_test(tc, an_absent_head_width_is_64_and_a_flat_null_is_width_over_heads);
    tcase_add_test(tc, an_unset_feed_forward_width_is_two_thirds_of_four_widths);
    tcase_add_test(tc, unset_key_value_heads_are_all_heads);
    tcase_add_test(tc, fast_sizes_absent_null_or_0_are_the_slow_ones);
    tcase_add_test(tc, fast_flags_absent_or_null_are_the_slow_ones_and_false_stays);
    tcase_add_test(tc, integers_may_be_written_as_floats);
    tcase_add_test(tc, unknown_keys_and_unused_values_do_not_matter);
    tcase_add_loop_test(tc, every_bad_value_is_named, 0, (int)(sizeof bad / sizeof bad[0]));
    tcase_add_test(tc, sizes_whose_product_is_too_large_are_refused);
    tcase_add_loop_test(tc,
                        text_that_is_not_strict_json_is_refused,
                        0,
                        (int)(sizeof bad_json / sizeof bad_json[0]));
    tcase_add_test(tc, long_or_deep_text_is_refused);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
