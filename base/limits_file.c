/* SPDX-License-Identifier: MIT */
/* Limits of one's own from a JSON file, sought before the built-in ones. */
#include "base/json.h"
#include "kvref/limits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 1 << 20, MAX_OWN = 1024 };

typedef struct own_limit {
    char *key; /* a tensor, a tap or "*" */
    kvref_tap_limit limit;
} own_limit;

struct kvref_limits {
    kvref_precision precision;
    own_limit *own;
    size_t n_own, cap_own;
};

/* A finite number of at least 0, or absent. */
static kvref_status take_number(double *out,
                                const kvref_json_walk *w,
                                const json_t *object,
                                const char *key,
                                kvref_error *err)
{
    char text[48];
    const json_t *v = json_object_get(object, key);
    if (!v) return KVREF_OK;
    *out = json_number_value(v);
    if (json_is_number(v) && isfinite(*out) && *out >= 0) return KVREF_OK;
    return kvref_fail(err,
                      KVREF_E_FORMAT,
                      "%s: taps: %s: %s: expected a number from 0 on, found %s",
                      w->file,
                      kvref_json_key(w),
                      key,
                      kvref_json_show(text, v));
}

/* T1 goes element by element, by sums that a trace does not hold. */
static kvref_status
take_rule(kvref_rule *out, const kvref_json_walk *w, const json_t *v, kvref_error *err)
{
    static const kvref_rule rules[] = {KVREF_T0, KVREF_T2, KVREF_T3, KVREF_T4, KVREF_UNJUDGED};
    char text[48];
    const char *name = json_string_value(v);
    for (int i = 0; name && i < 5; i++) {
        if (strcmp(name, kvref_rule_name(rules[i])) != 0) continue;
        *out = rules[i];
        return KVREF_OK;
    }
    return kvref_fail(err,
                      KVREF_E_FORMAT,
                      "%s: taps: %s: rule: expected T0, T2, T3, T4 or none, found %s",
                      w->file,
                      kvref_json_key(w),
                      v ? kvref_json_show(text, v) : "nothing");
}

static kvref_status
take_tap(kvref_tap_limit *out, const kvref_json_walk *w, const json_t *v, kvref_error *err)
{
    char text[48];
    if (!json_is_object(v))
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: taps: %s: expected an object, found %s",
                          w->file,
                          kvref_json_key(w),
                          kvref_json_show(text, v));
    KVREF_TRY(take_rule(&out->rule, w, json_object_get(v, "rule"), err));
    KVREF_TRY(take_number(&out->limit.rel, w, v, "rel", err));
    KVREF_TRY(take_number(&out->limit.abs, w, v, "abs", err));
    out->limit.exact = out->rule == KVREF_T0 || out->rule == KVREF_T3;
    return KVREF_OK;
}

static kvref_status add(kvref_limits *l, const kvref_json_walk *w, kvref_error *err)
{
    json_t *v;
    own_limit one = {0};
    if (l->n_own == MAX_OWN)
        return kvref_fail(err, KVREF_E_FORMAT, "%s: more than %d taps", w->file, MAX_OWN);
    KVREF_TRY(kvref_json_leaf(&v, w, err));
    kvref_status s = take_tap(&one.limit, w, v, err);
    json_decref(v);
    KVREF_TRY(s);
    KVREF_TRY(kvref_grow((void **)&l->own, &l->cap_own, l->n_own + 1, sizeof *l->own, err));
    one.key = strdup(kvref_json_key(w));
    if (!one.key) return kvref_fail(err, KVREF_E_MEMORY, "%s: out of memory", w->file);
    l->own[l->n_own++] = one;
    return KVREF_OK;
}

static kvref_status read_taps(kvref_limits *l, const kvref_json_walk *top, kvref_error *err)
{
    kvref_json_walk w = {0};
    bool more = true;
    kvref_status s = kvref_json_open(&w, top->file, top->value, top->n_value, err);
    while (s == KVREF_OK) {
        s = kvref_json_next(&w, &more, err);
        if (s != KVREF_OK || !more) break;
        s = add(l, &w, err);
    }
    kvref_json_close(&w);
    return s;
}

static kvref_status check_format(const kvref_json_walk *w, kvref_error *err)
{
    char text[48];
    json_t *v;
    KVREF_TRY(kvref_json_leaf(&v, w, err));
    const char *name = json_string_value(v);
    kvref_status s = KVREF_OK;
    if (!name || strcmp(name, "kvref-limits-1") != 0)
        s = kvref_fail(err,
                       KVREF_E_FORMAT,
                       "%s: format: expected \"kvref-limits-1\", found %s",
                       w->file,
                       kvref_json_show(text, v));
    json_decref(v);
    return s;
}

static kvref_status read_pairs(kvref_limits *l, kvref_json_walk *w, kvref_error *err)
{
    bool more, format = false, taps = false;
    while (true) {
        KVREF_TRY(kvref_json_next(w, &more, err));
        if (!more) break;
        if (strcmp(kvref_json_key(w), "format") == 0) {
            KVREF_TRY(check_format(w, err));
            format = true;
        } else if (strcmp(kvref_json_key(w), "taps") == 0) {
            KVREF_TRY(read_taps(l, w, err));
            taps = true;
        }
    }
    if (format && taps) return KVREF_OK;
    return kvref_fail(err,
                      KVREF_E_FORMAT,
                      "%s: expected the keys \"format\" and \"taps\", found no \"%s\"",
                      w->file,
                      format ? "taps" : "format");
}

static kvref_status read_file(kvref_limits *l, const char *path, kvref_error *err)
{
    kvref_map map;
    kvref_json_walk w = {0};
    KVREF_TRY(kvref_map_open(&map, path, err));
    kvref_status s = map.n_byte <= MAX_FILE
                         ? kvref_json_open(&w, path, (const char *)map.data, map.n_byte, err)
                         : kvref_fail(err,
                                      KVREF_E_FORMAT,
                                      "%s: expected at most %d bytes, found %zu",
                                      path,
                                      MAX_FILE,
                                      map.n_byte);
    if (s == KVREF_OK) s = read_pairs(l, &w, err);
    kvref_json_close(&w);
    kvref_map_close(&map);
    return s;
}

kvref_status kvref_limits_open(kvref_limits **out,
                               kvref_precision precision,
                               const char *path,
                               kvref_error *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out) return kvref_fail(err, KVREF_E_MEMORY, "limits: out of memory");
    (*out)->precision = precision;
    kvref_status s = path ? read_file(*out, path, err) : KVREF_OK;
    if (s != KVREF_OK) kvref_limits_close(out);
    return s;
}

void kvref_limits_close(kvref_limits **limits)
{
    kvref_limits *l = *limits;
    if (!l) return;
    for (size_t i = 0; i < l->n_own; i++) free(l->own[i].key);
    free(l->own);
    free(l);
    *limits = NULL;
}

kvref_precision kvref_limits_precision(const kvref_limits *limits)
{
    return limits->precision;
}

static const own_limit *seek(const kvref_limits *l, const char *key)
{
    for (size_t i = l->n_own; i > 0; i--)
        if (strcmp(l->own[i - 1].key, key) == 0) return &l->own[i - 1];
    return NULL;
}

kvref_tap_limit kvref_limits_find(const kvref_limits *limits, const char *tensor)
{
    char tap[64];
    kvref_tap_of(tap, tensor);
    kvref_tap_limit built_in = kvref_limit_of(limits->precision, tensor);
    const own_limit *own = seek(limits, tensor);
    if (!own) own = seek(limits, tap);
    if (!own && !built_in.limit.exact && built_in.rule != KVREF_UNJUDGED)
        own = seek(limits, "*");
    return own ? own->limit : built_in;
}
