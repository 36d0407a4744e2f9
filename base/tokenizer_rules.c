/* SPDX-License-Identifier: MIT */
/* Every setting of tokenizer.json against the one value for which this tokenizer is exact
 * (spec 01 section 7). Keys that are not in these tables are refused too: what they change is
 * not known. vocab, merges and the ids of added tokens are read in tokenizer_load.c. */
#include "base/json.h"
#include "base/tokenizer.h"

#include <stdio.h>
#include <string.h>

#define SPLIT                                                                                  \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "                      \
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

typedef enum want {
    ANY,   /* no influence, or checked elsewhere */
    NUL,   /* null                               */
    FALSE, /* false                              */
    BOOL,  /* true or false                      */
    BLANK, /* null or an empty string            */
    TEXT   /* exactly rule.text                  */
} want;

typedef struct rule {
    const char *key;
    want want;
    bool required;
    const char *text;
} rule;

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const rule root_rule[] = {
    {"version", TEXT, false, "1.0"},
    {"truncation", NUL, false, NULL},
    {"padding", NUL, false, NULL},
    {"added_tokens", ANY, true, NULL},
    {"normalizer", ANY, true, NULL},
    {"pre_tokenizer", ANY, true, NULL},
    {"post_processor", ANY, false, NULL},
    {"decoder", ANY, false, NULL},
    {"model", ANY, true, NULL},
};
static const rule model_rule[] = {
    {"type", TEXT, true, "BPE"},
    {"vocab", ANY, true, NULL},
    {"merges", ANY, true, NULL},
    {"unk_token", NUL, false, NULL},
    {"dropout", NUL, false, NULL},
    {"continuing_subword_prefix", BLANK, false, NULL},
    {"end_of_word_suffix", BLANK, false, NULL},
    {"fuse_unk", FALSE, false, NULL},
    {"byte_fallback", FALSE, false, NULL},
    {"ignore_merges", FALSE, false, NULL},
};
static const rule normalizer_rule[] = {{"type", TEXT, true, "NFC"}};
static const rule sequence_rule[] = {
    {"type", TEXT, true, "Sequence"},
    {"pretokenizers", ANY, true, NULL},
};
static const rule split_rule[] = {
    {"type", TEXT, true, "Split"},
    {"pattern", ANY, true, NULL},
    {"behavior", TEXT, true, "Isolated"},
    {"invert", FALSE, true, NULL},
};
static const rule pattern_rule[] = {{"Regex", TEXT, true, SPLIT}};
static const rule byte_level_rule[] = {
    {"type", TEXT, true, "ByteLevel"},
    {"add_prefix_space", FALSE, true, NULL},
    {"use_regex", FALSE, true, NULL},
    {"trim_offsets", BOOL, false, NULL},
};
/* After encoding: moves offsets only. */
static const rule after_rule[] = {
    {"type", TEXT, true, "ByteLevel"},
    {"add_prefix_space", BOOL, false, NULL},
    {"use_regex", BOOL, false, NULL},
    {"trim_offsets", BOOL, false, NULL},
};
static const rule added_rule[] = {
    {"id", ANY, true, NULL},
    {"content", ANY, true, NULL},
    {"single_word", FALSE, true, NULL},
    {"lstrip", FALSE, true, NULL},
    {"rstrip", FALSE, true, NULL},
    {"normalized", FALSE, true, NULL},
    {"special", BOOL, true, NULL},
};

static bool meets(const rule *r, const json_t *value)
{
    switch (r->want) {
    case NUL:
        return json_is_null(value);
    case FALSE:
        return json_is_false(value);
    case BOOL:
        return json_is_boolean(value);
    case BLANK:
        return json_is_null(value) || (json_is_string(value) && json_string_length(value) == 0);
    case TEXT:
        return json_is_string(value) && !strcmp(json_string_value(value), r->text);
    default:
        return true;
    }
}

static void expected(char *buf, size_t cap, const rule *r)
{
    static const char *const what[] = {
        "", "null", "false", "true or false", "null or \"\"", ""};
    if (r->want == TEXT)
        snprintf(buf, cap, "\"%s\"", r->text);
    else
        snprintf(buf, cap, "%s", what[r->want]);
}

/* A key of the object that no rule knows. */
static const char *surplus(json_t *object, const rule *rules, size_t n_rule)
{
    const char *key = NULL;
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        key = json_object_iter_key(at);
        size_t i = 0;
        while (i < n_rule && strcmp(rules[i].key, key) != 0) i++;
        if (i == n_rule) break;
    }
    return key;
}

/* Checks one object; where is its path ("model."), name the file. */
static kvref_status check(const json_t *object,
                          const char *where,
                          const rule *rules,
                          size_t n_rule,
                          const char *name,
                          kvref_error *err)
{
    char found[48], need[200];
    if (!json_is_object(object))
        return kvref_fail(err,
                          KVREF_E_UNSUPPORTED,
                          "%s: %s: expected an object, found %s",
                          name,
                          where,
                          kvref_json_show(found, object));
    size_t n_known = 0;
    for (size_t i = 0; i < n_rule; i++) {
        const json_t *value = json_object_get(object, rules[i].key);
        if (value) n_known++;
        if (!value && rules[i].required)
            return kvref_fail(
                err, KVREF_E_MISSING, "%s: %s: no \"%s\"", name, where, rules[i].key);
        if (!value || meets(&rules[i], value)) continue;
        expected(need, sizeof need, &rules[i]);
        return kvref_fail(err,
                          KVREF_E_UNSUPPORTED,
                          "%s: %s.%s: expected %s, found %s",
                          name,
                          where,
                          rules[i].key,
                          need,
                          kvref_json_show(found, value));
    }
    if (n_known == json_object_size(object)) return KVREF_OK;
    const char *key = surplus((json_t *)object, rules, n_rule);
    return kvref_fail(err,
                      KVREF_E_UNSUPPORTED,
                      "%s: %s.%.60s: expected no such key, found %s",
                      name,
                      where,
                      key,
                      kvref_json_show(found, json_object_get(object, key)));
}

#define CHECK(object, where, rules)                                                            \
    KVREF_TRY(check(object, where, rules, COUNT(rules), name, err))

static kvref_status check_pre(const json_t *pre, const char *name, kvref_error *err)
{
    CHECK(pre, "pre_tokenizer", sequence_rule);
    const json_t *list = json_object_get(pre, "pretokenizers");
    if (json_array_size(list) != 2)
        return kvref_fail(err,
                          KVREF_E_UNSUPPORTED,
                          "%s: pre_tokenizer.pretokenizers: expected an array of 2, found %zu",
                          name,
                          json_array_size(list));
    const json_t *split = json_array_get(list, 0);
    CHECK(split, "pre_tokenizer.pretokenizers[0]", split_rule);
    CHECK(json_object_get(split, "pattern"),
          "pre_tokenizer.pretokenizers[0].pattern",
          pattern_rule);
    CHECK(json_array_get(list, 1), "pre_tokenizer.pretokenizers[1]", byte_level_rule);
    return KVREF_OK;
}

kvref_status kvref_tokenizer_rules(const json_t *root, const char *name, kvref_error *err)
{
    static const char *const after[] = {"post_processor", "decoder"};
    CHECK(root, "top level", root_rule);
    CHECK(json_object_get(root, "normalizer"), "normalizer", normalizer_rule);
    KVREF_TRY(check_pre(json_object_get(root, "pre_tokenizer"), name, err));
    for (size_t i = 0; i < COUNT(after); i++) {
        const json_t *value = json_object_get(root, after[i]);
        if (value && !json_is_null(value)) CHECK(value, after[i], after_rule);
    }
    CHECK(json_object_get(root, "model"), "model", model_rule);
    return KVREF_OK;
}

kvref_status
kvref_added_rules(const json_t *token, size_t i, const char *name, kvref_error *err)
{
    char where[40];
    snprintf(where, sizeof where, "added_tokens[%zu]", i);
    CHECK(token, where, added_rule);
    return KVREF_OK;
}
