/* SPDX-License-Identifier: MIT */
/* The subcommands, one file cmd_NAME.c each. */
#ifndef KVREF_TOOLS_COMMANDS_H
#define KVREF_TOOLS_COMMANDS_H

#include "tools/cli.h"

extern const cli_command cmd_bench;
extern const cli_command cmd_compare;
extern const cli_command cmd_decode;
extern const cli_command cmd_doctor;
extern const cli_command cmd_encode;
extern const cli_command cmd_generate;
extern const cli_command cmd_inspect;
extern const cli_command cmd_make_model;
extern const cli_command cmd_say;
extern const cli_command cmd_trace;

#endif
