/* SPDX-License-Identifier: MIT */
/* One table per subcommand: names, kinds, ranges, defaults and help of its options. Parsing,
 * --help, and whatever else describes the program are made from these tables alone. */
#ifndef KVREF_TOOLS_CLI_H
#define KVREF_TOOLS_CLI_H

#include "kvref/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum cli_kind {
    CLI_END,    /* last entry of a table                                       */
    CLI_GROUP,  /* a heading in the help; name is its text                     */
    CLI_TABLE,  /* the options of another table, stored from `at` on           */
    CLI_FLAG,   /* bool; takes no value                                        */
    CLI_INT,    /* int, min..max                                               */
    CLI_REAL,   /* float, min..max, never NaN                                  */
    CLI_SEED,   /* uint64_t; a negative number is taken as two's complement    */
    CLI_TEXT,   /* const char *, any text                                      */
    CLI_CHOICE, /* int: which word of `choices`                                */
    CLI_LIST    /* cli_list: may be given often, every value is kept in order  */
} cli_kind;

typedef struct cli_list {
    const char **item; /* borrowed from argv                          */
    const char **by;   /* names of the options that gave them: options
                          may share a list, and keep their order      */
    int n;
} cli_list;

typedef struct cli_option cli_option;
struct cli_option {
    cli_kind kind;
    char letter;  /* 'o' for -o; 0: none                                     */
    bool operand; /* given without a name, in the order of the table         */
    bool required;
    const char *name;        /* without dashes                                          */
    const char *arg;         /* what the help calls the value                           */
    size_t at;               /* offsetof the field in the command's arguments           */
    double min, max;         /* INT, REAL: inclusive                                    */
    bool above, below;       /* REAL: but for min itself, max itself                    */
    const char *choices;     /* CHOICE: "exact|blas"                                    */
    const char *initial;     /* value when not given, parsed like one; NULL: all zero   */
    const cli_option *table; /* TABLE                                                   */
    const char *help;
};

/* Which options were given, for rules between options. */
typedef struct cli_given {
    const cli_option *option[64];
    int n;
} cli_given;

typedef struct cli_command {
    const char *name;
    const char *summary; /* one line, no full stop                    */
    const char *usage;   /* after the name: "DIR [options]"           */
    const char *text;    /* paragraphs separated by an empty line     */
    const cli_option *option;
    const char *status;  /* what exit status 0, 1 and 2 mean          */
    const char *example; /* command lines, one per line               */
    size_t n_args;       /* bytes of the arguments structure          */
    int (*run)(const struct cli_command *self, void *args, const cli_given *given);
} cli_command;

/* Every subcommand in the order of the overview, NULL at the end. */
extern const cli_command *const cli_commands[];

/* Fills args (n_args zero bytes before) with defaults and then argv[0..argc-1]. *help becomes
 * true, and nothing else is checked, when -h or --help is seen before "--", but not where the
 * value of an option is expected. A text in an argument of its own that looks like an option
 * is refused as a value: --text=-h is clear. */
kvref_status cli_parse(const cli_command *c,
                       void *args,
                       cli_given *given,
                       bool *help,
                       int argc,
                       char **argv,
                       kvref_error *err);

/* Frees the lists inside args. */
void cli_clear(const cli_command *c, void *args);

/* True when the option of that name was given. */
bool cli_was_given(const cli_given *given, const char *name);

/* Parses a value for one option of a table and stores it. */
kvref_status cli_store(
    const cli_option *table, void *base, const char *name, const char *value, kvref_error *err);

/* Calls fn for every option of a table, tables inside it included, with the structure that
 * the option's `at` refers to (NULL when base is NULL). Stops at false. */
bool cli_each(const cli_option *table,
              void *base,
              bool (*fn)(void *user, const cli_option *option, void *base),
              void *user);

/* The help of one command, and the overview. */
void cli_help(FILE *to, const cli_command *c);
void cli_overview(FILE *to);

/* The command of that name, or NULL. */
const cli_command *cli_find(const char *name);

/* The command whose name is nearest to a mistyped one, or NULL when none is near. */
const char *cli_nearest_command(const char *typed);

/* Edits (insert, delete, replace, swap neighbours) that turn a into b; 99 when a is very
 * long. */
int cli_distance(const char *a, const char *b);

#endif
