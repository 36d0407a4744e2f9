/* SPDX-License-Identifier: MIT */
/* Parsing a command line by a table of options. Numbers are read whole or refused: no trailing
 * text, no overflow, no NaN, no infinity, no other base. */
#include "tools/cli.h"

#include "base/base.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool cli_each(const cli_option *table,
              void *base,
              bool (*fn)(void *user, const cli_option *option, void *base),
              void *user)
{
    for (const cli_option *o = table; o->kind != CLI_END; o++) {
        bool more = o->kind == CLI_TABLE
                        ? cli_each(o->table, base ? (char *)base + o->at : NULL, fn, user)
                        : fn(user, o, base);
        if (!more) return false;
    }
    return true;
}

bool cli_was_given(const cli_given *given, const char *name)
{
    for (int i = 0; i < given->n; i++)
        if (strcmp(given->option[i]->name, name) == 0) return true;
    return false;
}

/* ---- values ---- */

/* How messages name an option: "--top-k" or "DIR". */
static const char *shown(const cli_option *o, char text[64])
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
                          shown(o, name),
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
    if (!digits || *end || end == value || !(x >= o->min && x <= o->max))
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "%s: expected a number from %g to %g, found \"%s\"",
                          shown(o, name),
                          o->min,
                          o->max,
                          value);
    *out = (float)x;
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
                          shown(o, name),
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
                      shown(o, name),
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

static kvref_status store(const cli_option *o, void *base, const char *value, kvref_error *err)
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

/* ---- names ---- */

typedef struct seeking {
    const char *name; /* n characters */
    size_t n;
    char letter;
    int operand; /* how many operands to pass by; -1: none wanted */
    const cli_option *found;
    void *base;
} seeking;

static bool seek(void *user, const cli_option *o, void *base)
{
    seeking *s = user;
    bool hit = o->kind != CLI_GROUP && (o->operand ? s->operand-- == 0
                                                   : (s->name && strlen(o->name) == s->n &&
                                                      memcmp(o->name, s->name, s->n) == 0) ||
                                                         (s->letter && o->letter == s->letter));
    if (hit) {
        s->found = o;
        s->base = base;
    }
    return !hit;
}

typedef struct nearing {
    const char *name;
    const char *best;
    int distance;
} nearing;

static bool near_option(void *user, const cli_option *o, void *base)
{
    (void)base;
    nearing *s = user;
    if (o->kind == CLI_GROUP || o->operand) return true;
    int d = cli_distance(s->name, o->name);
    if (strlen(s->name) >= 3 && strncmp(s->name, o->name, strlen(s->name)) == 0) d = 1;
    if (d < s->distance) {
        s->distance = d;
        s->best = o->name;
    }
    return true;
}

static kvref_status unknown_option(const cli_command *c, const char *typed, kvref_error *err)
{
    char name[64] = {0};
    size_t n = strcspn(typed, "=");
    memcpy(name, typed, n < sizeof name - 1 ? n : sizeof name - 1);
    const char *bare = name + strspn(name, "-");
    nearing s = {bare, NULL, strlen(bare) / 3 + 2 < 4 ? (int)(strlen(bare) / 3) + 2 : 4};
    cli_each(c->option, NULL, near_option, &s);
    if (s.best)
        return kvref_fail(
            err, KVREF_E_ARG, "%s: unknown option; did you mean --%s?", name, s.best);
    return kvref_fail(err, KVREF_E_ARG, "%s: unknown option", name);
}

/* ---- the line ---- */

typedef struct parser {
    const cli_command *c;
    void *args;
    cli_given *given;
    char **argv;
    int argc, next;
    int n_operand;
    kvref_error *err;
} parser;

static kvref_status note_given(parser *p, const cli_option *o)
{
    char name[64];
    bool before = cli_was_given(p->given, o->name);
    if (before && o->kind != CLI_LIST)
        return kvref_fail(p->err, KVREF_E_ARG, "%s: given twice", shown(o, name));
    assert(p->given->n < 64);
    if (!before) p->given->option[p->given->n++] = o;
    return KVREF_OK;
}

/* An argument that starts with a dash: name, then a value attached or in the next argument. */
static kvref_status parse_option(parser *p, const char *arg)
{
    seeking s = {.operand = -1};
    const char *value = NULL;
    if (arg[1] == '-') {
        s.name = arg + 2;
        s.n = strcspn(s.name, "=");
        if (s.name[s.n]) value = s.name + s.n + 1;
    } else {
        s.letter = arg[1];
        if (arg[2]) value = arg + 2;
    }
    cli_each(p->c->option, p->args, seek, &s);
    if (!s.found) return unknown_option(p->c, arg, p->err);
    const cli_option *o = s.found;
    char name[64];
    if (o->kind == CLI_FLAG && value)
        return kvref_fail(
            p->err, KVREF_E_ARG, "%s: takes no value, found \"%s\"", shown(o, name), value);
    if (o->kind != CLI_FLAG && !value) {
        if (p->next == p->argc)
            return kvref_fail(
                p->err, KVREF_E_ARG, "%s: expected %s after it", shown(o, name), o->arg);
        value = p->argv[p->next++];
    }
    KVREF_TRY(note_given(p, o));
    return store(o, s.base, value, p->err);
}

static kvref_status parse_operand(parser *p, const char *arg)
{
    seeking s = {.operand = p->n_operand};
    cli_each(p->c->option, p->args, seek, &s);
    if (!s.found)
        return kvref_fail(p->err,
                          KVREF_E_ARG,
                          "\"%s\": expected an option%s",
                          arg,
                          p->n_operand ? ", found one operand too many" : "");
    if (s.found->kind != CLI_LIST) p->n_operand++;
    KVREF_TRY(note_given(p, s.found));
    return store(s.found, s.base, arg, p->err);
}

kvref_status cli_store(
    const cli_option *table, void *base, const char *name, const char *value, kvref_error *err)
{
    seeking s = {.name = name, .n = strlen(name), .operand = -1};
    cli_each(table, base, seek, &s);
    if (!s.found) return kvref_fail(err, KVREF_E_ARG, "--%s: unknown option", name);
    return store(s.found, s.base, value, err);
}

static bool put_initial(void *user, const cli_option *o, void *base)
{
    return !o->initial || store(o, base, o->initial, user) == KVREF_OK;
}

static bool is_present(void *user, const cli_option *o, void *base)
{
    (void)base;
    parser *p = user;
    char name[64];
    if (!o->required || cli_was_given(p->given, o->name)) return true;
    kvref_fail(p->err, KVREF_E_ARG, "%s: required, but not given", shown(o, name));
    return false;
}

kvref_status cli_parse(const cli_command *c,
                       void *args,
                       cli_given *given,
                       bool *help,
                       int argc,
                       char **argv,
                       kvref_error *err)
{
    *given = (cli_given){0};
    *help = false;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) *help = true;
    if (*help) return KVREF_OK;
    parser p = {c, args, given, argv, argc, 0, 0, err};
    if (!cli_each(c->option, args, put_initial, err)) return err->status;
    bool options = true;
    while (p.next < argc) {
        const char *arg = argv[p.next++];
        if (options && strcmp(arg, "--") == 0) {
            options = false;
        } else if (options && arg[0] == '-' && arg[1]) {
            KVREF_TRY(parse_option(&p, arg));
        } else {
            KVREF_TRY(parse_operand(&p, arg));
        }
    }
    return cli_each(c->option, args, is_present, &p) ? KVREF_OK : err->status;
}

static bool clear_list(void *user, const cli_option *o, void *base)
{
    (void)user;
    if (base && o->kind == CLI_LIST) {
        cli_list *list = (cli_list *)((char *)base + o->at);
        free(list->item);
        free(list->by);
        *list = (cli_list){0};
    }
    return true;
}

void cli_clear(const cli_command *c, void *args)
{
    cli_each(c->option, args, clear_list, NULL);
}
