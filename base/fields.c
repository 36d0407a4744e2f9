/* SPDX-License-Identifier: MIT */
/* The fields of config.json by two tables (spec 01 section 2.1): what a key is called in the
 * flat form "dual_ar" and in the nested form "fish_qwen3_omni", its default, its range, and
 * whether null may stand for absence (rules R1, R1', R2, R4, R9). */
#include "base/config.h"

#include <math.h>
#include <stdio.h>

typedef enum section { TEXT, AUDIO, TOP } section;

static const char *const section_key[] = {"text_config", "audio_decoder_config"};

enum { REQUIRED = 1, NULL_OK = 2, ZERO_IS_UNSET = 4 };

/* Limits: far above any model, low enough that no product of sizes overflows. */
enum { W = 1 << 20, V = 1 << 24, M = 4096 };

static const struct int_field {
    const char *flat, *nested;
    section where;
    int rule; /* REQUIRED in the nested form, NULL_OK in the flat one */
    int absent, min, max;
} int_field[KVREF_CFG_N_INT] = {
    [KVREF_CFG_VOCAB] = {"vocab_size", "vocab_size", TEXT, REQUIRED, 32000, 1, V},
    [KVREF_CFG_LAYER] = {"n_layer", "n_layer", TEXT, REQUIRED, 32, 1, 1024},
    [KVREF_CFG_HEAD] = {"n_head", "n_head", TEXT, REQUIRED, 32, 1, M},
    [KVREF_CFG_KV_HEAD] = {"n_local_heads", "n_local_heads", TEXT, 0, -1, -1, M},
    [KVREF_CFG_HEAD_DIM] = {"head_dim", "head_dim", TEXT, NULL_OK, 64, 1, W},
    [KVREF_CFG_DIM] = {"dim", "dim", TEXT, REQUIRED, 4096, 1, W},
    [KVREF_CFG_FF] =
        {"intermediate_size", "intermediate_size", TEXT, NULL_OK, KVREF_UNSET, 1, W},
    [KVREF_CFG_SEQ] = {"max_seq_len", "max_seq_len", TEXT, 0, 2048, 1, V},
    [KVREF_CFG_CODE] = {"codebook_size", "vocab_size", AUDIO, REQUIRED, 160, 1, W},
    [KVREF_CFG_BOOK] = {"num_codebooks", "num_codebooks", AUDIO, REQUIRED, 4, 1, 1024},
    [KVREF_CFG_FAST_LAYER] = {"n_fast_layer", "n_layer", AUDIO, REQUIRED, 4, 1, 1024},
    [KVREF_CFG_FAST_DIM] =
        {"fast_dim", "dim", AUDIO, NULL_OK | ZERO_IS_UNSET, KVREF_UNSET, 0, W},
    [KVREF_CFG_FAST_HEAD] =
        {"fast_n_head", "n_head", AUDIO, NULL_OK | ZERO_IS_UNSET, KVREF_UNSET, 0, M},
    [KVREF_CFG_FAST_KV_HEAD] = {"fast_n_local_heads",
                                "n_local_heads",
                                AUDIO,
                                NULL_OK | ZERO_IS_UNSET,
                                KVREF_UNSET,
                                -1,
                                M},
    [KVREF_CFG_FAST_HEAD_DIM] =
        {"fast_head_dim", "head_dim", AUDIO, NULL_OK | ZERO_IS_UNSET, KVREF_UNSET, 0, W},
    [KVREF_CFG_FAST_FF] = {"fast_intermediate_size",
                           "intermediate_size",
                           AUDIO,
                           NULL_OK | ZERO_IS_UNSET,
                           KVREF_UNSET,
                           0,
                           W},
    [KVREF_CFG_SEM_BEGIN] = {"semantic_begin_id", "semantic_start_token_id", TOP, 0, 0, 0, V},
    [KVREF_CFG_SEM_END] = {"semantic_end_id", "semantic_end_token_id", TOP, 0, 0, 0, V},
};

static const struct flag_field {
    const char *flat, *nested; /* nested NULL: forced true there */
    section where;
    int absent, null_ok;
} flag_field[KVREF_CFG_N_FLAG] = {
    [KVREF_CFG_TIED] = {"tie_word_embeddings", "tie_word_embeddings", TEXT, true, false},
    [KVREF_CFG_QKV_BIAS] = {"attention_qkv_bias", "attention_qkv_bias", TEXT, false, false},
    [KVREF_CFG_O_BIAS] = {"attention_o_bias", "attention_o_bias", TEXT, false, false},
    [KVREF_CFG_QK_NORM] = {"attention_qk_norm", "attention_qk_norm", TEXT, false, false},
    [KVREF_CFG_FAST_QKV_BIAS] =
        {"fast_attention_qkv_bias", "attention_qkv_bias", AUDIO, KVREF_UNSET, true},
    [KVREF_CFG_FAST_O_BIAS] =
        {"fast_attention_o_bias", "attention_o_bias", AUDIO, KVREF_UNSET, true},
    [KVREF_CFG_FAST_QK_NORM] =
        {"fast_attention_qk_norm", "attention_qk_norm", AUDIO, KVREF_UNSET, true},
    [KVREF_CFG_SCALE] = {"scale_codebook_embeddings", NULL, TOP, false, false},
    [KVREF_CFG_FAST_NORM] = {"norm_fastlayer_input", NULL, TOP, false, false},
};

/* Where a key is looked up, and how a message spells it. */
typedef struct place {
    const kvref_fields *s;
    const json_t *object;
    const char *section, *dot, *key;
} place;

static place place_of(const kvref_fields *s, section where, const char *key)
{
    if (!s->nested || where == TOP) return (place){s, s->top, "", "", key};
    const char *name = section_key[where];
    return (place){s, json_object_get(s->top, name), name, ".", key};
}

static kvref_status
refuse(place p, kvref_status status, const char *want, const json_t *found, kvref_error *err)
{
    char text[48];
    return kvref_fail(err,
                      status,
                      "%s: %s%s%s: expected %s, found %s",
                      p.s->file,
                      p.section,
                      p.dot,
                      p.key,
                      want,
                      found ? kvref_json_show(text, found) : "nothing");
}

/* The value of a key; *out NULL when it counts as absent (rules R1 and R1'). */
static kvref_status
look_up(const json_t **out, place p, bool required, bool null_ok, kvref_error *err)
{
    const json_t *v = json_object_get(p.object, p.key);
    *out = v;
    if (!v && required && p.s->nested) return refuse(p, KVREF_E_MISSING, "a number", v, err);
    if (!json_is_null(v)) return KVREF_OK;
    if (p.s->nested ? required : !null_ok) return refuse(p, KVREF_E_FORMAT, "a value", v, err);
    *out = NULL;
    return KVREF_OK;
}

/* An integer, or a float without a fraction (rule R9), in min..max. */
static kvref_status
to_int(int *out, place p, const json_t *v, int min, int max, kvref_error *err)
{
    char want[48];
    double x = json_is_number(v) ? json_number_value(v) : (double)NAN;
    if (x >= min && x <= max && x == floor(x)) {
        *out = (int)x;
        return KVREF_OK;
    }
    snprintf(want, sizeof want, "an integer %d..%d", min, max);
    return refuse(p, KVREF_E_FORMAT, want, v, err);
}

static kvref_status read_int(kvref_fields *s, int i, kvref_error *err)
{
    const struct int_field *f = &int_field[i];
    place p = place_of(s, f->where, s->nested ? f->nested : f->flat);
    const json_t *v;
    KVREF_TRY(look_up(&v, p, f->rule & REQUIRED, f->rule & NULL_OK, err));
    if (v) KVREF_TRY(to_int(&s->number[i], p, v, f->min, f->max, err));
    if (!v) {
        /* R2: a head_dim that is absent is 64; null in the flat form is dim / n_head. */
        bool is_null =
            i == KVREF_CFG_HEAD_DIM && !s->nested && json_object_get(p.object, p.key);
        s->number[i] = is_null ? KVREF_UNSET : f->absent;
    }
    if (f->rule & ZERO_IS_UNSET && s->number[i] == 0) s->number[i] = KVREF_UNSET;
    return KVREF_OK;
}

static kvref_status read_flag(kvref_fields *s, int i, kvref_error *err)
{
    const struct flag_field *f = &flag_field[i];
    s->flag[i] = f->absent;
    if (s->nested && !f->nested) {
        s->flag[i] = true;
        return KVREF_OK;
    }
    place p = place_of(s, f->where, s->nested ? f->nested : f->flat);
    const json_t *v;
    KVREF_TRY(look_up(&v, p, false, f->null_ok, err));
    if (v && !json_is_boolean(v)) return refuse(p, KVREF_E_FORMAT, "true or false", v, err);
    if (v) s->flag[i] = json_is_true(v);
    return KVREF_OK;
}

static kvref_status
read_real(float *out, const kvref_fields *s, const char *key, double absent, kvref_error *err)
{
    place p = place_of(s, TEXT, key);
    const json_t *v;
    KVREF_TRY(look_up(&v, p, false, false, err));
    double x = !v ? absent : json_is_number(v) ? json_number_value(v) : (double)NAN;
    *out = (float)x;
    if (isfinite(*out) && *out > 0.0f) return KVREF_OK;
    return refuse(p, KVREF_E_FORMAT, "a finite number above 0", v, err);
}

/* Flags that ask for something this program has not. */
static kvref_status refuse_true(const kvref_fields *s, const char *key, kvref_error *err)
{
    for (int i = 0; i < 3; i++) {
        place p = place_of(s, (section)i, key);
        const json_t *v = json_object_get(p.object, key);
        if (v && !json_is_false(v) && !json_is_null(v))
            return refuse(p, KVREF_E_UNSUPPORTED, "false", v, err);
    }
    return KVREF_OK;
}

/* The end id for a checkpoint without a tokenizer; a list, as some files have, says nothing. */
static kvref_status read_eos(kvref_fields *s, kvref_error *err)
{
    place p = place_of(s, TOP, "eos_token_id");
    const json_t *v = json_object_get(s->top, p.key);
    s->eos = -1;
    if (!json_is_number(v)) return KVREF_OK;
    return to_int(&s->eos, p, v, 0, V, err);
}

kvref_status kvref_fields_read(kvref_fields *f, kvref_error *err)
{
    for (int i = 0; f->nested && i < 2; i++) {
        place p = {f, f->top, "", "", section_key[i]};
        const json_t *v = json_object_get(f->top, section_key[i]);
        if (!json_is_object(v))
            return refuse(p, v ? KVREF_E_FORMAT : KVREF_E_MISSING, "an object", v, err);
    }
    for (int i = 0; i < KVREF_CFG_N_INT; i++) KVREF_TRY(read_int(f, i, err));
    for (int i = 0; i < KVREF_CFG_N_FLAG; i++) KVREF_TRY(read_flag(f, i, err));
    KVREF_TRY(read_real(&f->rope_base, f, "rope_base", 10000.0, err));
    KVREF_TRY(read_real(&f->norm_eps, f, "norm_eps", 1e-5, err));
    KVREF_TRY(read_eos(f, err));
    KVREF_TRY(refuse_true(f, "use_moe", err));
    return refuse_true(f, "is_reward_model", err);
}
