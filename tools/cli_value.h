/* SPDX-License-Identifier: MIT */
/* Reading the value of one option, for the parser. */
#ifndef KVREF_TOOLS_CLI_VALUE_H
#define KVREF_TOOLS_CLI_VALUE_H

#include "tools/cli.h"

/* How messages name an option: "--top-k" or "DIR". */
const char *cli_shown(const cli_option *o, char text[64]);

/* Parses a value and stores it where the option says, in the structure at base. */
kvref_status cli_put(const cli_option *o, void *base, const char *value, kvref_error *err);

#endif
