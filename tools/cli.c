/* SPDX-License-Identifier: MIT */
/* Parsing a command line by a table of options: names, operands, and which were given. */
#include "tools/cli.h"

#include "base/base.h"
#include "tools/cli_value.h"

#include <assert.h>
#include <ctype.h>
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
        return kvref_fail(p->err, KVREF_E_ARG, "%s: given twice", cli_shown(o, name));
    assert(p->given->n < 64);
    if (!before) p->given->option[p->given->n++] = o;
    return KVREF_OK;
}

/* The option that an argument with a dash names, and the value attached to it. */
static seeking
named_option(const cli_command *c, void *args, const char **value, const char *arg)
{
    seeking s = {.operand = -1};
    *value = NULL;
    if (arg[1] == '-') {
        s.name = arg + 2;
        s.n = strcspn(s.name, "=");
        if (s.name[s.n]) *value = s.name + s.n + 1;
    } else {
        s.letter = arg[1];
        if (arg[2]) *value = arg + 2;
    }
    cli_each(c->option, args, seek, &s);
    return s;
}

/* The value of an option in the next argument. */
static kvref_status next_value(const char **value, parser *p, const cli_option *o)
{
    char name[64];
    if (p->next == p->argc)
        return kvref_fail(
            p->err, KVREF_E_ARG, "%s: expected %s after it", cli_shown(o, name), o->arg);
    *value = p->argv[p->next++];
    const char *v = *value;
    bool number = o->kind == CLI_INT || o->kind == CLI_REAL || o->kind == CLI_SEED;
    if (!number && v[0] == '-' && (v[1] == '-' || isalpha((unsigned char)v[1])))
        return kvref_fail(
            p->err,
            KVREF_E_ARG,
            "%s: expected %s after it, found \"%s\"; write %s=%s if that is meant",
            cli_shown(o, name),
            o->arg,
            v,
            name,
            v);
    return KVREF_OK;
}

/* An argument that starts with a dash: name, then a value attached or in the next argument. */
static kvref_status parse_option(parser *p, const char *arg)
{
    const char *value;
    seeking s = named_option(p->c, p->args, &value, arg);
    if (!s.found) return unknown_option(p->c, arg, p->err);
    const cli_option *o = s.found;
    char name[64];
    if (o->kind == CLI_FLAG && value)
        return kvref_fail(
            p->err, KVREF_E_ARG, "%s: takes no value, found \"%s\"", cli_shown(o, name), value);
    if (o->kind != CLI_FLAG && !value) KVREF_TRY(next_value(&value, p, o));
    KVREF_TRY(note_given(p, o));
    return cli_put(o, s.base, value, p->err);
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
    return cli_put(s.found, s.base, arg, p->err);
}

kvref_status cli_store(
    const cli_option *table, void *base, const char *name, const char *value, kvref_error *err)
{
    seeking s = {.name = name, .n = strlen(name), .operand = -1};
    cli_each(table, base, seek, &s);
    if (!s.found) return kvref_fail(err, KVREF_E_ARG, "--%s: unknown option", name);
    return cli_put(s.found, s.base, value, err);
}

static bool put_initial(void *user, const cli_option *o, void *base)
{
    return !o->initial || cli_put(o, base, o->initial, user) == KVREF_OK;
}

static bool is_present(void *user, const cli_option *o, void *base)
{
    (void)base;
    parser *p = user;
    char name[64];
    if (!o->required || cli_was_given(p->given, o->name)) return true;
    kvref_fail(p->err, KVREF_E_ARG, "%s: required, but not given", cli_shown(o, name));
    return false;
}

static bool wants_help(const cli_command *c, int argc, char **argv)
{
    bool value_next = false;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *arg = argv[i], *value;
        if (!value_next && (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)) return true;
        bool dash = !value_next && arg[0] == '-' && arg[1];
        seeking s = dash ? named_option(c, NULL, &value, arg) : (seeking){0};
        value_next = s.found && s.found->kind != CLI_FLAG && !value;
    }
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
    *help = wants_help(c, argc, argv);
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
