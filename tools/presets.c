/* SPDX-License-Identifier: MIT */
/* Ready configurations, as the JSON text that the one config reader understands. a, b, c and l
 * are the configurations of the golden cases; c has the true widths of S2-Pro. */
#include "tools/presets.h"
#include "tools/paths.h"

#include "base/base.h"
#include "tools/cli.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* What a, c, l and the S2 presets share: tied head, hidden after the norm, q/k norm in the
 * slow transformer only. */
#define LIKE_S2                                                                                \
    "\"model_type\":\"dual_ar\",\"rope_base\":1000000,\"norm_eps\":1e-6,"                      \
    "\"tie_word_embeddings\":true,\"attention_qk_norm\":true,"                                 \
    "\"fast_attention_qk_norm\":false,\"scale_codebook_embeddings\":true,"                     \
    "\"norm_fastlayer_input\":true,"
#define S2_WIDTHS                                                                              \
    "\"n_head\":32,\"n_local_heads\":8,\"head_dim\":128,\"dim\":2560,"                         \
    "\"intermediate_size\":9728,\"codebook_size\":4096,\"num_codebooks\":10,"

static const char *const preset_text[] = {
    /* toy: speaks in a demonstration; every inequality of the real model is kept */
    "{" LIKE_S2 "\"vocab_size\":1200,\"n_layer\":3,\"n_head\":8,\"n_local_heads\":2,"
    "\"head_dim\":24,\"dim\":128,\"intermediate_size\":320,\"max_seq_len\":2048,"
    "\"codebook_size\":128,\"num_codebooks\":10,\"n_fast_layer\":2,\"fast_head_dim\":16,"
    "\"fast_intermediate_size\":256,\"semantic_begin_id\":1056,\"semantic_end_id\":1183,"
    "\"eos_token_id\":1023}",
    /* tiny: a few hundred kilobytes, for hostile inputs and edge cases */
    "{" LIKE_S2 "\"vocab_size\":128,\"n_layer\":2,\"n_head\":4,\"n_local_heads\":2,"
    "\"head_dim\":16,\"dim\":64,\"intermediate_size\":96,\"max_seq_len\":32,"
    "\"codebook_size\":32,\"num_codebooks\":3,\"n_fast_layer\":1,\"semantic_begin_id\":80,"
    "\"semantic_end_id\":111,\"eos_token_id\":70}",
    /* a */
    "{" LIKE_S2 "\"vocab_size\":320,\"n_layer\":2,\"n_head\":4,\"n_local_heads\":2,"
    "\"head_dim\":8,\"dim\":24,\"intermediate_size\":40,\"max_seq_len\":64,"
    "\"codebook_size\":32,\"num_codebooks\":4,\"n_fast_layer\":2,\"semantic_begin_id\":256,"
    "\"semantic_end_id\":287,\"eos_token_id\":250}",
    /* b: untied, biases, projection, hidden before the norm, q/k norm in both */
    "{\"model_type\":\"dual_ar\",\"vocab_size\":320,\"n_layer\":2,\"n_head\":4,"
    "\"n_local_heads\":4,\"head_dim\":6,\"dim\":24,\"intermediate_size\":40,"
    "\"rope_base\":10000,\"norm_eps\":1e-6,\"max_seq_len\":64,\"tie_word_embeddings\":false,"
    "\"attention_qk_norm\":true,\"attention_qkv_bias\":true,\"attention_o_bias\":true,"
    "\"codebook_size\":32,\"num_codebooks\":4,\"semantic_begin_id\":256,"
    "\"semantic_end_id\":287,\"scale_codebook_embeddings\":true,"
    "\"norm_fastlayer_input\":false,\"n_fast_layer\":2,\"fast_dim\":16,\"fast_n_head\":2,"
    "\"fast_n_local_heads\":1,\"fast_head_dim\":8,\"fast_intermediate_size\":32,"
    "\"fast_attention_qk_norm\":true,\"fast_attention_qkv_bias\":false,"
    "\"fast_attention_o_bias\":false,\"eos_token_id\":250}",
    /* c */
    "{" LIKE_S2 S2_WIDTHS "\"vocab_size\":8200,\"n_layer\":2,\"max_seq_len\":64,"
    "\"n_fast_layer\":1,\"semantic_begin_id\":4104,\"semantic_end_id\":8199,"
    "\"eos_token_id\":4000}",
    /* l: long context */
    "{" LIKE_S2 "\"vocab_size\":320,\"n_layer\":3,\"n_head\":6,\"n_local_heads\":2,"
    "\"head_dim\":16,\"dim\":48,\"intermediate_size\":56,\"max_seq_len\":640,"
    "\"codebook_size\":32,\"num_codebooks\":4,\"n_fast_layer\":2,\"fast_head_dim\":8,"
    "\"fast_intermediate_size\":40,\"semantic_begin_id\":256,\"semantic_end_id\":287,"
    "\"eos_token_id\":250}",
    /* s2-2layer: c with the full context length */
    "{" LIKE_S2 S2_WIDTHS "\"vocab_size\":8200,\"n_layer\":2,\"max_seq_len\":32768,"
    "\"n_fast_layer\":1,\"semantic_begin_id\":4104,\"semantic_end_id\":8199,"
    "\"eos_token_id\":4000}",
    /* s2-pro */
    "{" LIKE_S2 S2_WIDTHS "\"vocab_size\":155776,\"n_layer\":36,\"max_seq_len\":32768,"
    "\"n_fast_layer\":4,\"semantic_begin_id\":151678,\"semantic_end_id\":155773,"
    "\"eos_token_id\":151645}",
};

/* Keys that --set accepts, after an optional text_config. or audio_decoder_config. */
static const char *const known_key[] = {
    "vocab_size",
    "n_layer",
    "n_head",
    "n_local_heads",
    "head_dim",
    "dim",
    "intermediate_size",
    "rope_base",
    "norm_eps",
    "max_seq_len",
    "tie_word_embeddings",
    "attention_qkv_bias",
    "attention_o_bias",
    "attention_qk_norm",
    "codebook_size",
    "num_codebooks",
    "n_fast_layer",
    "fast_dim",
    "fast_n_head",
    "fast_n_local_heads",
    "fast_head_dim",
    "fast_intermediate_size",
    "fast_attention_qkv_bias",
    "fast_attention_qk_norm",
    "fast_attention_o_bias",
    "scale_codebook_embeddings",
    "norm_fastlayer_input",
    "semantic_begin_id",
    "semantic_end_id",
    "semantic_start_token_id",
    "semantic_end_token_id",
    "eos_token_id",
};

static kvref_status check_key(const char *key, kvref_error *err)
{
    const char *dot = strrchr(key, '.'), *leaf = dot ? dot + 1 : key, *best = NULL;
    int distance = 5;
    for (size_t i = 0; i < sizeof known_key / sizeof known_key[0]; i++) {
        int d = cli_distance(leaf, known_key[i]);
        if (d == 0) return KVREF_OK;
        if (d < distance) {
            distance = d;
            best = known_key[i];
        }
    }
    return kvref_fail(err,
                      KVREF_E_ARG,
                      "--set: unknown key \"%s\"%s%s%s",
                      key,
                      best ? "; did you mean " : "",
                      best ? best : "",
                      best ? "?" : "");
}

/* Puts one key=value into the object; a dot in the key goes one object deeper. */
static kvref_status put(json_t *object, const char *text, kvref_error *err)
{
    const char *equal = strchr(text, '=');
    if (!equal || equal == text)
        return kvref_fail(err, KVREF_E_ARG, "--set: expected KEY=VALUE, found \"%s\"", text);
    char *key = strndup(text, (size_t)(equal - text));
    if (!key) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    kvref_status s = check_key(key, err);
    json_t *value = s == KVREF_OK ? json_loads(equal + 1, JSON_DECODE_ANY, NULL) : NULL;
    char *dot = strchr(key, '.');
    json_t *into = object;
    if (dot) {
        *dot = 0;
        into = json_object_get(object, key);
    }
    if (s != KVREF_OK) {
        /* said already */
    } else if (!value || json_is_object(value) || json_is_array(value)) {
        s = kvref_fail(err,
                       KVREF_E_ARG,
                       "--set: %s: expected a number, true, false or null, found \"%s\"",
                       key,
                       equal + 1);
    } else if (!json_is_object(into)) {
        s = kvref_fail(err, KVREF_E_ARG, "--set: the configuration has no object \"%s\"", key);
    } else if (json_object_set(into, dot ? dot + 1 : key, value) != 0) {
        s = kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    }
    json_decref(value);
    free(key);
    return s;
}

static kvref_status load_object(json_t **out, int preset, const char *file, kvref_error *err)
{
    json_error_t where;
    *out = NULL;
    if (!file) {
        *out = json_loads(preset_text[preset], 0, &where);
        return *out ? KVREF_OK : kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    }
    kvref_config check; /* the strict reader first: it limits size and depth */
    KVREF_TRY(blame("--config", kvref_config_read(&check, file, err), err));
    *out = json_load_file(file, 0, &where);
    if (json_is_object(*out)) return KVREF_OK;
    json_decref(*out);
    *out = NULL;
    return kvref_fail(err, KVREF_E_FORMAT, "%s: expected a configuration file", file);
}

kvref_status preset_config(kvref_config *out,
                           bool *nested,
                           int preset,
                           const char *file,
                           const char *const *set,
                           int n_set,
                           kvref_error *err)
{
    json_t *object;
    KVREF_TRY(load_object(&object, preset, file, err));
    kvref_status s = KVREF_OK;
    for (int i = 0; i < n_set && s == KVREF_OK; i++) s = put(object, set[i], err);
    *nested = json_object_get(object, "text_config") != NULL;
    char *text = s == KVREF_OK ? json_dumps(object, 0) : NULL;
    if (text) {
        s = kvref_config_parse(out, text, strlen(text), file ? file : "the configuration", err);
    } else if (s == KVREF_OK) {
        s = kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    }
    free(text);
    json_decref(object);
    return s;
}
