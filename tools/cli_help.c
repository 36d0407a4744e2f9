/* SPDX-License-Identifier: MIT */
/* What the tables say to a reader: the overview, the help of a command, and guesses at what a
 * mistyped name was meant to be. */
#include "tools/cli.h"

#include <string.h>

enum { WIDTH = 80, COLUMN = 27 };

/* Prints words of text from column `at`, going on at column `indent` of the next line before
 * WIDTH would be passed. Ends the line. */
static void wrapped(FILE *to, const char *text, size_t at, size_t indent)
{
    bool first = true;
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, " ");
        if (!first && at + 1 + n > WIDTH) {
            fprintf(to, "\n%*s", (int)indent, "");
            at = indent;
            first = true;
        }
        fprintf(to, "%s%.*s", first ? "" : " ", (int)n, p);
        at += n + !first;
        first = false;
        p += n;
        p += strspn(p, " ");
    }
    fputc('\n', to);
}

/* Paragraphs: one per line of text. */
static void paragraphs(FILE *to, const char *text, size_t indent)
{
    for (const char *p = text; p && *p;) {
        size_t n = strcspn(p, "\n");
        char line[1000];
        snprintf(line, sizeof line, "%.*s", (int)n, p);
        if (n) fprintf(to, "%*s", (int)indent, "");
        wrapped(to, line, indent, indent);
        p += n + (p[n] == '\n');
    }
}

static bool print_option(void *user, const cli_option *o, void *base)
{
    (void)base;
    FILE *to = user;
    if (o->kind == CLI_GROUP) {
        fprintf(to, "\n%s:\n", o->name);
        return true;
    }
    char left[100], right[900];
    char letter[5] = {'-', o->letter, ',', ' ', 0};
    snprintf(left,
             sizeof left,
             "  %s%s%s%s%s",
             o->letter ? letter : "",
             o->operand ? "" : "--",
             o->name,
             o->arg && !o->operand ? " " : "",
             o->arg && !o->operand ? o->arg : "");
    int n = snprintf(right, sizeof right, "%s", o->help);
    if (o->kind == CLI_CHOICE)
        n += snprintf(right + n, sizeof right - (size_t)n, ": %s", o->choices);
    if (o->kind == CLI_LIST && !o->operand)
        n += snprintf(right + n, sizeof right - (size_t)n, "; may be given often");
    if (o->initial) snprintf(right + n, sizeof right - (size_t)n, " (default %s)", o->initial);
    size_t used = strlen(left);
    if (used + 2 > COLUMN) {
        fprintf(to, "%s\n%*s", left, COLUMN, "");
    } else {
        fprintf(to, "%-*s", COLUMN, left);
    }
    wrapped(to, right, COLUMN, COLUMN);
    return true;
}

void cli_help(FILE *to, const cli_command *c)
{
    fputs("Usage: ", to);
    char line[600];
    snprintf(line, sizeof line, "kvref %s %s", c->name, c->usage);
    wrapped(to, line, 7, 9);
    snprintf(line, sizeof line, "%s.", c->summary);
    fputc('\n', to);
    wrapped(to, line, 0, 0);
    if (c->text) {
        fputc('\n', to);
        paragraphs(to, c->text, 0);
    }
    if (c->option->kind != CLI_GROUP) fputs("\nOptions:\n", to);
    cli_each(c->option, NULL, print_option, to);
    fprintf(to, "  %-*s%s\n", COLUMN - 2, "-h, --help", "print this and leave");
    fputs("\nExit status:\n", to);
    paragraphs(to, c->status, 2);
    paragraphs(to, "128 + N ended by signal N: 130 Ctrl-C, 143 SIGTERM", 2);
    if (c->example) {
        fputs("\nExamples:\n", to);
        for (const char *p = c->example; *p;) {
            size_t n = strcspn(p, "\n");
            fprintf(to, "  %.*s\n", (int)n, p);
            p += n + (p[n] == '\n');
        }
    }
}

void cli_overview(FILE *to)
{
    fputs("Usage: kvref COMMAND [options]\n\n"
          "A reference decoder for S2-Pro speech models whose attention reads only the filled\n"
          "part of the key/value cache, and the tools to check that it does.\n\n"
          "Commands:\n",
          to);
    for (const cli_command *const *c = cli_commands; *c; c++)
        fprintf(to, "  %-12s %s\n", (*c)->name, (*c)->summary);
    fputs("\n'kvref help COMMAND' or 'kvref COMMAND --help' describes one command,\n"
          "'kvref --version' prints the version.\n\n"
          "Exit status: 0 yes, 1 no, 2 could not tell (bad input, missing file or device),\n"
          "128 + N ended by signal N (130: Ctrl-C).\n",
          to);
}

const cli_command *cli_find(const char *name)
{
    for (const cli_command *const *c = cli_commands; *c; c++)
        if (strcmp((*c)->name, name) == 0) return *c;
    return NULL;
}

static int least(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

int cli_distance(const char *a, const char *b)
{
    enum { MAX = 40 };
    size_t n = strlen(a), m = strlen(b);
    if (n > MAX || m > MAX) return 99;
    int d[MAX + 1][MAX + 1];
    for (size_t i = 0; i <= n; i++) d[i][0] = (int)i;
    for (size_t j = 0; j <= m; j++) d[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        for (size_t j = 1; j <= m; j++) {
            int change = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            d[i][j] = least(d[i - 1][j] + 1, d[i][j - 1] + 1, change);
            bool swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swap && d[i - 2][j - 2] + 1 < d[i][j]) d[i][j] = d[i - 2][j - 2] + 1;
        }
    }
    return d[n][m];
}

const char *cli_nearest_command(const char *typed)
{
    const char *best = NULL;
    int distance = 4;
    for (const cli_command *const *c = cli_commands; *c; c++) {
        int d = cli_distance(typed, (*c)->name);
        bool prefix = strlen(typed) >= 2 && strncmp(typed, (*c)->name, strlen(typed)) == 0;
        if (prefix) d = 1;
        if (d < distance) {
            distance = d;
            best = (*c)->name;
        }
    }
    return best;
}
