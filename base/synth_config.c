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

/* Sizes and flags of one transformer; prefix is "fast_" or "". Keys that the two forms share.
 */
static void put_stack(json_t *o, const kvref_stack *s, const char *prefix)
{
    const struct {
        const char *key;
        json_t *value;
    } row[] = {
        {"dim", json_integer(s->d_model)},
        {"n_head", json_integer(s->n_head)},
        {"n_local_heads", json_integer(s->n_kv_head)},
        {"head_dim", json_integer(s->d_head)},
        {"intermediate_size", json_integer(s->d_ff)},
        {"attention_qkv_bias", json_boolean(s->qkv_bias)},
        {"attention_o_bias", json_boolean(s->o_bias)},
        {"attention_qk_norm", json_boolean(s->qk_norm)},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s%s", prefix, row[i].key);
        json_object_set_new(o, key, row[i].value);
    }
}

static void put_text(json_t *o, const kvref_config *c)
{
    json_object_set_new(o, "vocab_size", json_integer(c->n_vocab));
    json_object_set_new(o, "n_layer", json_integer(c->slow.n_layer));
    put_stack(o, &c->slow, "");
    json_object_set_new(o, "rope_base", real(c->rope_base));
    json_object_set_new(o, "norm_eps", real(c->norm_eps));
    json_object_set_new(o, "max_seq_len", json_integer(c->max_seq_len));
    json_object_set_new(o, "tie_word_embeddings", json_boolean(c->tie_word_embeddings));
}

static json_t *flat_config(const kvref_config *c)
{
    json_t *o = json_object();
    json_object_set_new(o, "model_type", json_string("dual_ar"));
    put_text(o, c);
    json_object_set_new(o, "codebook_size", json_integer(c->n_code));
    json_object_set_new(o, "num_codebooks", json_integer(c->n_codebook));
    json_object_set_new(o, "n_fast_layer", json_integer(c->fast.n_layer));
    put_stack(o, &c->fast, "fast_");
    json_object_set_new(
        o, "scale_codebook_embeddings", json_boolean(c->scale_codebook_embeddings));
    json_object_set_new(o, "norm_fastlayer_input", json_boolean(c->norm_fastlayer_input));
    json_object_set_new(o, "semantic_begin_id", json_integer(c->semantic_begin));
    json_object_set_new(o, "semantic_end_id", json_integer(c->semantic_end));
    return o;
}

static json_t *nested_config(const kvref_config *c)
{
    json_t *o = json_object(), *text = json_object(), *audio = json_object();
    json_object_set_new(o, "model_type", json_string("fish_qwen3_omni"));
    put_text(text, c);
    json_object_set_new(audio, "vocab_size", json_integer(c->n_code));
    json_object_set_new(audio, "num_codebooks", json_integer(c->n_codebook));
    json_object_set_new(audio, "n_layer", json_integer(c->fast.n_layer));
    put_stack(audio, &c->fast, "");
    json_object_set_new(o, "text_config", text);
    json_object_set_new(o, "audio_decoder_config", audio);
    json_object_set_new(o, "semantic_start_token_id", json_integer(c->semantic_begin));
    json_object_set_new(o, "semantic_end_token_id", json_integer(c->semantic_end));
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
    json_t *o = nested ? nested_config(config) : flat_config(config);
    if (config->im_end >= 0)
        json_object_set_new(o, "eos_token_id", json_integer(config->im_end));
    *text = json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(o);
    return *text ? KVREF_OK : kvref_fail(err, KVREF_E_MEMORY, "config: out of memory");
}
