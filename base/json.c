/* SPDX-License-Identifier: MIT */
/* Walks one JSON object without building it. Memory: one key and one value at a time.
 * The walk splits at the structural characters; jansson judges every key, and every value that
 * is asked for, so an accepted file is valid JSON. */
#include "base/json.h"

#include <stdio.h>
#include <string.h>

static kvref_status bad(const kvref_json_walk *w, const char *want, kvref_error *err)
{
    char found[16] = "the end";
    if (w->at < w->end) snprintf(found, sizeof found, "0x%02x", (unsigned char)*w->at);
    return kvref_fail(err,
                      KVREF_E_FORMAT,
                      "%s: JSON byte %zu: expected %s, found %s",
                      w->file,
                      (size_t)(w->at - w->begin),
                      want,
                      found);
}

static bool is_one_of(char c, const char *set)
{
    return c && strchr(set, c);
}

static void skip_space(kvref_json_walk *w)
{
    while (w->at < w->end && is_one_of(*w->at, " \t\r\n")) w->at++;
}

static bool next_is(const kvref_json_walk *w, char c)
{
    return w->at < w->end && *w->at == c;
}

kvref_status kvref_json_open(
    kvref_json_walk *w, const char *file, const char *text, size_t n_byte, kvref_error *err)
{
    *w = (kvref_json_walk){.file = file, .begin = text, .at = text, .end = text + n_byte};
    skip_space(w);
    return next_is(w, '{') ? KVREF_OK : bad(w, "'{'", err);
}

/* Over a string; the cursor is at its opening quote. */
static kvref_status skip_string(kvref_json_walk *w, kvref_error *err)
{
    for (w->at++; w->at < w->end; w->at++) {
        if (*w->at == '"') {
            w->at++;
            return KVREF_OK;
        }
        if (*w->at == '\\' && w->at + 1 < w->end) w->at++;
    }
    return bad(w, "a closing quote", err);
}

/* Over one value: a bracketed one with everything inside, or up to the next separator. */
static kvref_status skip_value(kvref_json_walk *w, kvref_error *err)
{
    int depth = 0;
    do {
        if (w->at == w->end) return bad(w, "a value", err);
        char c = *w->at;
        if (c == '"') {
            KVREF_TRY(skip_string(w, err));
            continue;
        }
        if (c == '{' || c == '[') {
            if (++depth > KVREF_JSON_DEPTH) return bad(w, "at most 32 levels of nesting", err);
        } else if (c == '}' || c == ']') {
            if (depth-- == 0) return bad(w, "a value", err);
        } else if (depth == 0) {
            size_t n = 0, left = (size_t)(w->end - w->at);
            while (n < left && !is_one_of(w->at[n], " \t\r\n,:[]{}\"")) n++;
            if (n == 0) return bad(w, "a value", err);
            w->at += n;
            return KVREF_OK;
        }
        w->at++;
    } while (depth > 0);
    return KVREF_OK;
}

static kvref_status
load(json_t **out, const kvref_json_walk *w, const char *text, size_t n_byte, kvref_error *err)
{
    if (n_byte > KVREF_JSON_LEAF)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: JSON byte %zu: value of %zu bytes, expected at most %d",
                          w->file,
                          (size_t)(text - w->begin),
                          n_byte,
                          KVREF_JSON_LEAF);
    json_error_t fault;
    *out = json_loadb(text, n_byte, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &fault);
    if (*out) return KVREF_OK;
    bool utf8 = json_error_code(&fault) == json_error_invalid_utf8;
    return kvref_fail(err,
                      KVREF_E_FORMAT,
                      "%s: JSON byte %zu: %s",
                      w->file,
                      (size_t)(text - w->begin),
                      utf8 ? "text is not valid UTF-8" : fault.text);
}

kvref_status kvref_json_next(kvref_json_walk *w, bool *more, kvref_error *err)
{
    bool first = w->key == NULL;
    *more = false;
    json_decref(w->key);
    w->key = NULL;
    if (first) w->at++; /* the opening brace */
    skip_space(w);
    if (next_is(w, '}')) {
        w->at++;
        skip_space(w);
        return w->at == w->end ? KVREF_OK : bad(w, "nothing after the object", err);
    }
    if (!first) {
        if (!next_is(w, ',')) return bad(w, "',' or '}'", err);
        w->at++;
        skip_space(w);
    }
    if (!next_is(w, '"')) return bad(w, "a key", err);
    const char *key = w->at;
    KVREF_TRY(skip_string(w, err));
    KVREF_TRY(load(&w->key, w, key, (size_t)(w->at - key), err));
    skip_space(w);
    if (!next_is(w, ':')) return bad(w, "':'", err);
    w->at++;
    skip_space(w);
    w->value = w->at;
    KVREF_TRY(skip_value(w, err));
    w->n_value = (size_t)(w->at - w->value);
    *more = true;
    return KVREF_OK;
}

const char *kvref_json_key(const kvref_json_walk *w)
{
    return json_string_value(w->key);
}

kvref_status kvref_json_leaf(json_t **out, const kvref_json_walk *w, kvref_error *err)
{
    return load(out, w, w->value, w->n_value, err);
}

void kvref_json_close(kvref_json_walk *w)
{
    json_decref(w->key);
    w->key = NULL;
}

const char *kvref_json_show(char text[48], const json_t *value)
{
    static const char *const kind[] = {
        "an object", "an array", "", "", "", "true", "false", "null"};
    switch (json_typeof(value)) {
    case JSON_STRING:
        snprintf(text, 48, "\"%.40s\"", json_string_value(value));
        break;
    case JSON_INTEGER:
        snprintf(text, 48, "%lld", (long long)json_integer_value(value));
        break;
    case JSON_REAL:
        snprintf(text, 48, "%.17g", json_real_value(value));
        break;
    default:
        snprintf(text, 48, "%s", kind[json_typeof(value)]);
    }
    return text;
}
