/* SPDX-License-Identifier: MIT */
/* config.json of a synthetic checkpoint, flat (dual_ar) or nested (fish_qwen3_omni), spec 01
 * section 2. Every key is written even where a default would serve, so that the file can be
 * read without knowing the defaults. */
#include "base/base.h"
#include "base/synth.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

/* The shortest decimal that reads back as the same float32: 1e-06, not 9.99999997e-07. */
static json_t *real(float x)
{
    char text[32];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)x);
        if (strtof(text, NULL) == x) break;
    }
    return json_real(strtod(text, NULL));
}

/* A JSON object being filled; lost: memory ran out and some key is missing. */
typedef struct object {
    json_t *json;
    bool lost;
} object;

static void put(object *o, const char *key, json_t *value)
{
    o->lost |= json_object_set_new(o->json, key, value) != 0;
}

static void put_int(object *o, const char *key, int value)
{
    put(o, key, json_integer(value));
}

static void put_bool(object *o, const char *key, bool value)
{
    put(o, key, json_boolean(value));
}

/* Sizes and flags of one transformer; prefix is "fast_" or "". Keys that the two forms share.
 */
static void put_stack(object *o, const kvref_stack *s, const char *prefix)
{
    const struct {
        const char *key;
        int size;
    } size[] = {{"dim", s->d_model},
                {"n_head", s->n_head},
                {"n_local_heads", s->n_kv_head},
                {"head_dim", s->d_head},
                {"intermediate_size", s->d_ff}};
    const struct {
        const char *key;
        bool set;
    } flag[] = {{"attention_qkv_bias", s->qkv_bias},
                {"attention_o_bias", s->o_bias},
                {"attention_qk_norm", s->qk_norm}};
    char key[64];
    for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
        snprintf(key, sizeof key, "%s%s", prefix, size[i].key);
        put_int(o, key, size[i].size);
    }
    for (size_t i = 0; i < sizeof flag / sizeof flag[0]; i++) {
        snprintf(key, sizeof key, "%s%s", prefix, flag[i].key);
        put_bool(o, key, flag[i].set);
    }
}

static void put_text(object *o, const kvref_config *c)
{
    put_int(o, "vocab_size", c->n_vocab);
    put_int(o, "n_layer", c->slow.n_layer);
    put_stack(o, &c->slow, "");
    put(o, "rope_base", real(c->rope_base));
    put(o, "norm_eps", real(c->norm_eps));
    put_int(o, "max_seq_len", c->max_seq_len);
    put_bool(o, "tie_word_embeddings", c->tie_word_embeddings);
}

static object flat_config(const kvref_config *c)
{
    object o = {.json = json_object()};
    put(&o, "model_type", json_string("dual_ar"));
    put_text(&o, c);
    put_int(&o, "codebook_size", c->n_code);
    put_int(&o, "num_codebooks", c->n_codebook);
    put_int(&o, "n_fast_layer", c->fast.n_layer);
    put_stack(&o, &c->fast, "fast_");
    put_bool(&o, "scale_codebook_embeddings", c->scale_codebook_embeddings);
    put_bool(&o, "norm_fastlayer_input", c->norm_fastlayer_input);
    put_int(&o, "semantic_begin_id", c->semantic_begin);
    put_int(&o, "semantic_end_id", c->semantic_end);
    return o;
}

static object nested_config(const kvref_config *c)
{
    object o = {.json = json_object()}, text = {.json = json_object()};
    object audio = {.json = json_object()};
    put(&o, "model_type", json_string("fish_qwen3_omni"));
    put_text(&text, c);
    put_int(&audio, "vocab_size", c->n_code);
    put_int(&audio, "num_codebooks", c->n_codebook);
    put_int(&audio, "n_layer", c->fast.n_layer);
    put_stack(&audio, &c->fast, "");
    put(&o, "text_config", text.json);
    put(&o, "audio_decoder_config", audio.json);
    put_int(&o, "semantic_start_token_id", c->semantic_begin);
    put_int(&o, "semantic_end_token_id", c->semantic_end);
    o.lost |= text.lost || audio.lost;
    return o;
}

kvref_status
kvref_synth_config(char **text, const kvref_config *config, bool nested, kvref_error *err)
{
    *text = NULL;
    if (nested && !(config->scale_codebook_embeddings && config->norm_fastlayer_input))
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "config: fish_qwen3_omni implies scale_codebook_embeddings and "
                          "norm_fastlayer_input; expected both true, found %s and %s",
                          config->scale_codebook_embeddings ? "true" : "false",
                          config->norm_fastlayer_input ? "true" : "false");
    object o = nested ? nested_config(config) : flat_config(config);
    if (config->im_end >= 0) put_int(&o, "eos_token_id", config->im_end);
    if (!o.lost) *text = json_dumps(o.json, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(o.json);
    return *text ? KVREF_OK : kvref_fail(err, KVREF_E_MEMORY, "config: out of memory");
}
