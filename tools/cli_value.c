/* SPDX-License-Identifier: MIT */
/* Values of options. Numbers are read whole or refused: no trailing text, no overflow, no NaN,
 * no infinity, no other base. */
#include "tools/cli_value.h"

#include "base/base.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

const char *cli_shown(const cli_option *o, char text[64])
{
    snprintf(text, 64, "%s%s", o->operand ? "" : "--", o->name);
    return text;
}

static kvref_status
parse_int(int *out, const cli_option *o, const char *value, kvref_error *err)
{
    char name[64], *end = NULL;
    bool digits = value[strspn(value, "-0123456789")] == 0 && *value;
    errno = 0;
    long x = digits ? strtol(value, &end, 10) : 0;
    if (!digits || *end || errno || (double)x < o->min || (double)x > o->max)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "%s: expected a whole number from %.0f to %.0f, found \"%s\"",
                          cli_shown(o, name),
                          o->min,
                          o->max,
                          value);
    *out = (int)x;
    return KVREF_OK;
}

static kvref_status
parse_real(float *out, const cli_option *o, const char *value, kvref_error *err)
{
    char name[64], *end = NULL;
    bool digits = value[strspn(value, "+-.0123456789eE")] == 0 && *value;
    double x = digits ? strtod(value, &end) : 0;
    float y = (float)x; /* which may be a limit where x is not */
    bool inside = x >= o->min && x <= o->max && !(o->above && (double)y <= o->min) &&
                  !(o->below && (double)y >= o->max);
    if (!digits || *end || end == value || !inside)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "%s: expected a number %s %g %s %g, found \"%s\"",
                          cli_shown(o, name),
                          o->above ? "above" : "from",
                          o->min,
                          o->below   ? "to below"
                          : o->above ? "up to"
                                     : "to",
                          o->max,
                          value);
    *out = y;
    return KVREF_OK;
}

static kvref_status
parse_seed(uint64_t *out, const cli_option *o, const char *value, kvref_error *err)
{
    char name[64], *end = NULL;
    const char *rest = value + (*value == '-');
    bool digits = rest[strspn(rest, "0123456789")] == 0 && *rest;
    errno = 0;
    unsigned long long x = digits ? strtoull(rest, &end, 10) : 0;
    bool negative = rest != value;
    if (!digits || errno || (negative && x > (unsigned long long)LLONG_MAX + 1))
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "%s: expected a whole number from -2^63 to 2^64-1, found \"%s\"",
                          cli_shown(o, name),
                          value);
    *out = negative ? (uint64_t)0 - x : x;
    return KVREF_OK;
}

static kvref_status
parse_choice(int *out, const cli_option *o, const char *value, kvref_error *err)
{
    char name[64];
    size_t n = strlen(value);
    int i = 0;
    for (const char *word = o->choices; word; i++) {
        size_t len = strcspn(word, "|");
        if (len == n && memcmp(word, value, n) == 0) {
            *out = i;
            return KVREF_OK;
        }
        word = word[len] ? word + len + 1 : NULL;
    }
    return kvref_fail(err,
                      KVREF_E_ARG,
                      "%s: expected one of %s, found \"%s\"",
                      cli_shown(o, name),
                      o->choices,
                      value);
}

static kvref_status append(cli_list *list, const char *value, const char *by, kvref_error *err)
{
    size_t size = ((size_t)list->n + 1) * sizeof *list->item;
    const char **item = realloc(list->item, size);
    if (item) list->item = item;
    const char **names = item ? realloc(list->by, size) : NULL;
    if (!names) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    list->by = names;
    item[list->n] = value;
    names[list->n++] = by;
    return KVREF_OK;
}

kvref_status cli_put(const cli_option *o, void *base, const char *value, kvref_error *err)
{
    void *at = (char *)base + o->at;
    switch (o->kind) {
    case CLI_FLAG:
        *(bool *)at = true;
        return KVREF_OK;
    case CLI_INT:
        return parse_int(at, o, value, err);
    case CLI_REAL:
        return parse_real(at, o, value, err);
    case CLI_SEED:
        return parse_seed(at, o, value, err);
    case CLI_CHOICE:
        return parse_choice(at, o, value, err);
    case CLI_TEXT:
        *(const char **)at = value;
        return KVREF_OK;
    case CLI_LIST:
        return append(at, value, o->name, err);
    default:
        return kvref_fail(err, KVREF_E_ARG, "%s: not an option", o->name);
    }
}
