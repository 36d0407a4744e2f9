/* SPDX-License-Identifier: MIT */
/* The kvref program: finds the subcommand, reads its options by its table, runs it. */
#include "base/base.h"
#include "config.h"
#include "tools/blas_core.h"
#include "tools/cli.h"
#include "tools/commands.h"
#include "tools/term.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const cli_command *const cli_commands[] = {
    &cmd_say,
    &cmd_generate,
    &cmd_decode,
    &cmd_encode,
    &cmd_trace,
    &cmd_compare,
    &cmd_bench,
    &cmd_make_model,
    &cmd_inspect,
    &cmd_doctor,
    NULL,
};

static int usage_error(const char *command, const kvref_error *err)
{
    int status = term_error(command, err);
    fprintf(stderr, "try 'kvref%s%s --help'\n", *command ? " " : "", command);
    return status;
}

static int unknown_command(const char *name)
{
    kvref_error err;
    const char *near = cli_nearest_command(name);
    if (near) {
        kvref_fail(&err, KVREF_E_ARG, "unknown command \"%s\"; did you mean %s?", name, near);
    } else {
        kvref_fail(&err, KVREF_E_ARG, "unknown command \"%s\"", name);
    }
    return usage_error("", &err);
}

static int run(const cli_command *c, int argc, char **argv)
{
    kvref_error err = {0};
    cli_given given;
    bool help;
    void *args = calloc(1, c->n_args);
    int status;
    if (!args) {
        kvref_fail(&err, KVREF_E_MEMORY, "out of memory");
        return term_error(c->name, &err);
    }
    if (cli_parse(c, args, &given, &help, argc, argv, &err) != KVREF_OK) {
        status = usage_error(c->name, &err);
    } else if (help) {
        cli_help(stdout, c);
        status = 0;
    } else {
        status = c->run(c, args, &given);
    }
    cli_clear(c, args);
    free(args);
    return status;
}

static int help(int argc, char **argv)
{
    if (argc == 0) {
        cli_overview(stdout);
        return 0;
    }
    const cli_command *c = cli_find(argv[0]);
    if (!c) return unknown_command(argv[0]);
    cli_help(stdout, c);
    return 0;
}

int main(int argc, char **argv)
{
    term_start();
    blas_core_argv = argv;
    const char *name = argc > 1 ? argv[1] : "";
    const cli_command *c = cli_find(name);
    int status;
    if (argc < 2) {
        cli_overview(stderr);
        status = 2;
    } else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        status = help(0, NULL);
    } else if (strcmp(name, "help") == 0) {
        status = help(argc - 2, argv + 2);
    } else if (strcmp(name, "--version") == 0) {
        printf("kvref %s\n", PACKAGE_VERSION);
        status = 0;
    } else if (c) {
        status = run(c, argc - 2, argv + 2);
    } else {
        status = unknown_command(name);
    }
    return term_finish(c ? c->name : "", status);
}
