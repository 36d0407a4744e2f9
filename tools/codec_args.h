/* SPDX-License-Identifier: MIT */
/* Options that say which codec to open and how, and opening it. */
#ifndef KVREF_TOOLS_CODEC_ARGS_H
#define KVREF_TOOLS_CODEC_ARGS_H

#include "kvref/codec.h"
#include "tools/cli.h"

typedef struct codec_args {
    const char *codec, *model;
    int conv, n_thread;
    bool verbose;
} codec_args;

/* --codec and --conv; and with them --model, --threads and --verbose, for commands that open
 * nothing else. */
extern const cli_option codec_options[], codec_alone_options[];

/* Rules between the options: a file or folder is named, once. */
kvref_status codec_check(const codec_args *a, kvref_error *err);

/* Chooses the OpenBLAS core (which may start the program again), then opens --codec or the one
 * in the folder --model. parts: KVREF_CODEC_*. */
kvref_status codec_start(kvref_codec **out,
                         const char *command,
                         const codec_args *a,
                         unsigned parts,
                         kvref_error *err);

#endif
