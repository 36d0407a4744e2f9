/* SPDX-License-Identifier: MIT */
/* config.json to kvref_config (spec 01 section 2): the model type chooses the form, unset sizes
 * are derived from the others (rules R2 to R5), and the sizes must fit together (R8).
 * The fast transformer takes rope_base and norm_eps from the slow one (R6). */
#include "base/config.h"
#include "kvref/model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A real file has 3 KB; jansson may need 80 times the text. */
enum { MAX_TEXT = 256 << 10, MAX_WIDTH = 1 << 20 };

/* R3: two thirds of 4 * dim, up to a multiple of 256. */
static int default_ff(int d_model)
{
    int n = 2 * (4 * d_model) / 3;
    return (n + 255) / 256 * 256;
}

static int set_or(int value, int otherwise)
{
    return value == KVREF_UNSET ? otherwise : value;
}

static kvref_stack slow_stack(const kvref_fields *f)
{
    const int *n = f->number;
    int head = n[KVREF_CFG_HEAD], dim = n[KVREF_CFG_DIM];
    return (kvref_stack){
        .n_layer = n[KVREF_CFG_LAYER],
        .d_model = dim,
        .n_head = head,
        .n_kv_head = n[KVREF_CFG_KV_HEAD] == -1 ? head : n[KVREF_CFG_KV_HEAD],
        .d_head = set_or(n[KVREF_CFG_HEAD_DIM], dim / head),
        .d_ff = set_or(n[KVREF_CFG_FF], default_ff(dim)),
        .qkv_bias = f->flag[KVREF_CFG_QKV_BIAS],
        .o_bias = f->flag[KVREF_CFG_O_BIAS],
        .qk_norm = f->flag[KVREF_CFG_QK_NORM],
    };
}

static kvref_stack fast_stack(const kvref_fields *f, const kvref_stack *slow)
{
    const int *n = f->number;
    int head = set_or(n[KVREF_CFG_FAST_HEAD], slow->n_head);
    int kv_head = set_or(n[KVREF_CFG_FAST_KV_HEAD], slow->n_kv_head);
    return (kvref_stack){
        .n_layer = n[KVREF_CFG_FAST_LAYER],
        .d_model = set_or(n[KVREF_CFG_FAST_DIM], slow->d_model),
        .n_head = head,
        .n_kv_head = kv_head == -1 ? head : kv_head,
        .d_head = set_or(n[KVREF_CFG_FAST_HEAD_DIM], slow->d_head),
        .d_ff = set_or(n[KVREF_CFG_FAST_FF], slow->d_ff),
        .qkv_bias = set_or(f->flag[KVREF_CFG_FAST_QKV_BIAS], slow->qkv_bias),
        .o_bias = set_or(f->flag[KVREF_CFG_FAST_O_BIAS], slow->o_bias),
        .qk_norm = set_or(f->flag[KVREF_CFG_FAST_QK_NORM], slow->qk_norm),
    };
}

static kvref_status
check_stack(const kvref_stack *s, const char *file, const char *side, kvref_error *err)
{
    if (s->n_kv_head < 1 || s->n_head % s->n_kv_head != 0)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: %s transformer: %d heads, expected a multiple of its %d "
                          "key/value heads",
                          file,
                          side,
                          s->n_head,
                          s->n_kv_head);
    if (s->d_model % s->n_head != 0)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: %s transformer: width %d, expected a multiple of its %d heads",
                          file,
                          side,
                          s->d_model,
                          s->n_head);
    if (s->d_head < 2 || s->d_head % 2 != 0)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: %s transformer: head width %d, expected an even number",
                          file,
                          side,
                          s->d_head);
    if (s->n_head > MAX_WIDTH / s->d_head || s->d_ff > MAX_WIDTH)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: %s transformer: %d heads of %d and %d feed-forward rows, "
                          "expected widths up to %d",
                          file,
                          side,
                          s->n_head,
                          s->d_head,
                          s->d_ff,
                          MAX_WIDTH);
    return KVREF_OK;
}

static kvref_status
check_type(bool *nested, const json_t *top, const char *name, kvref_error *err)
{
    const json_t *v = json_object_get(top, "model_type");
    const char *type = json_string_value(v);
    char text[48];
    if (!v)
        return kvref_fail(err, KVREF_E_MISSING, "%s: model_type: expected, not found", name);
    *nested = type && strcmp(type, "fish_qwen3_omni") == 0;
    if (*nested || (type && strcmp(type, "dual_ar") == 0)) return KVREF_OK;
    return kvref_fail(err,
                      type ? KVREF_E_UNSUPPORTED : KVREF_E_FORMAT,
                      "%s: model_type: expected \"fish_qwen3_omni\" or \"dual_ar\", found %s",
                      name,
                      kvref_json_show(text, v));
}

static kvref_status
from_json(kvref_config *out, const json_t *top, const char *name, kvref_error *err)
{
    kvref_fields f = {.file = name, .top = top};
    if (!json_is_object(top))
        return kvref_fail(err, KVREF_E_FORMAT, "%s: expected an object", name);
    KVREF_TRY(check_type(&f.nested, top, name, err));
    KVREF_TRY(kvref_fields_read(&f, err));
    kvref_config c = {
        .n_vocab = f.number[KVREF_CFG_VOCAB],
        .n_codebook = f.number[KVREF_CFG_BOOK],
        .n_code = f.number[KVREF_CFG_CODE],
        .max_seq_len = f.number[KVREF_CFG_SEQ],
        .rope_base = f.rope_base,
        .norm_eps = f.norm_eps,
        .tie_word_embeddings = f.flag[KVREF_CFG_TIED],
        .scale_codebook_embeddings = f.flag[KVREF_CFG_SCALE],
        .norm_fastlayer_input = f.flag[KVREF_CFG_FAST_NORM],
        .semantic_begin = f.number[KVREF_CFG_SEM_BEGIN],
        .semantic_end = f.number[KVREF_CFG_SEM_END],
        .im_end = f.eos,
    };
    snprintf(c.model_type, sizeof c.model_type, "%s", f.nested ? "fish_qwen3_omni" : "dual_ar");
    c.slow = slow_stack(&f);
    c.fast = fast_stack(&f, &c.slow);
    KVREF_TRY(check_stack(&c.slow, name, "slow", err));
    KVREF_TRY(check_stack(&c.fast, name, "fast", err));
    if (c.n_code > (1 << 24) / c.n_codebook)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: %d codebooks of %d codes, expected up to %d rows",
                          name,
                          c.n_codebook,
                          c.n_code,
                          1 << 24);
    *out = c;
    return KVREF_OK;
}

kvref_status kvref_config_parse(
    kvref_config *out, const char *json, size_t n_byte, const char *name, kvref_error *err)
{
    json_error_t fault;
    if (n_byte > MAX_TEXT)
        return kvref_fail(
            err, KVREF_E_FORMAT, "%s: %zu bytes, expected at most %d", name, n_byte, MAX_TEXT);
    json_t *top = json_loadb(json, n_byte, JSON_REJECT_DUPLICATES, &fault);
    if (!top)
        return kvref_fail(
            err, KVREF_E_FORMAT, "%s: JSON line %d: %s", name, fault.line, fault.text);
    kvref_status s = from_json(out, top, name, err);
    json_decref(top);
    return s;
}

kvref_status kvref_config_read(kvref_config *out, const char *path, kvref_error *err)
{
    struct stat st;
    bool is_dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    char *file = is_dir ? kvref_path_join(path, "config.json") : strdup(path);
    if (!file) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    kvref_map map;
    kvref_status s = kvref_map_open(&map, file, err);
    if (s == KVREF_OK) {
        s = kvref_config_parse(out, (const char *)map.data, map.n_byte, file, err);
        kvref_map_close(&map);
    }
    free(file);
    return s;
}

int kvref_config_candidates(const kvref_config *config, int32_t *id, int max)
{
    int n = 0, end = config->im_end, last = config->semantic_end;
    if (end >= 0 && end < config->semantic_begin && n++ < max) id[0] = end;
    for (int i = config->semantic_begin; i <= last; i++, n++) {
        if (n < max) id[n] = i;
    }
    if (end > last && n++ < max) id[n - 1] = end;
    return n;
}
