/* SPDX-License-Identifier: MIT */
/* Which codec to open and how. */
#include "tools/codec_args.h"
#include "tools/paths.h"

#include "base/base.h"
#include "tools/blas_core.h"
#include "tools/term.h"

#define AT(field) offsetof(codec_args, field)
const cli_option codec_options[] = {
    {.kind = CLI_GROUP, .name = "Codec"},
    {.kind = CLI_TEXT,
     .name = "codec",
     .arg = "PATH",
     .at = AT(codec),
     .help = "codec.pth or codec.safetensors, or a folder that holds one; without it, that of "
             "the folder --model"},
    {.kind = CLI_CHOICE,
     .name = "conv",
     .arg = "HOW",
     .at = AT(conv),
     .choices = "blas|exact",
     .initial = "blas",
     .help = "convolutions by OpenBLAS, or in one written summation order with the same bits "
             "on every machine"},
    {.kind = CLI_END},
};

const cli_option codec_alone_options[] = {
    {.kind = CLI_TABLE, .name = "", .table = codec_options, .at = 0},
    {.kind = CLI_TEXT,
     .name = "model",
     .arg = "DIR",
     .at = AT(model),
     .help = "checkpoint folder that holds the codec, instead of --codec"},
    {.kind = CLI_INT,
     .name = "threads",
     .arg = "N",
     .at = AT(n_thread),
     .min = 0,
     .max = 64,
     .initial = "0",
     .help = "0 is one per processor; the result does not depend on it"},
    {.kind = CLI_FLAG,
     .name = "verbose",
     .at = AT(verbose),
     .help = "say what was ignored or chosen on the way"},
    {.kind = CLI_END},
};

kvref_status codec_check(const codec_args *a, kvref_error *err)
{
    if (!a->codec == !a->model)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "--codec and --model: expected exactly one of them, found %s",
                          a->codec ? "both" : "neither");
    return KVREF_OK;
}

kvref_status codec_start(kvref_codec **out,
                         const char *command,
                         const codec_args *a,
                         unsigned parts,
                         kvref_error *err)
{
    kvref_codec_opts opts = {
        .parts = parts, .n_thread = a->n_thread, .conv = (kvref_conv)a->conv};
    if (a->verbose) opts.log = term_notes(command);
    if (opts.conv == KVREF_CONV_BLAS) blas_core_use(&opts.log);
    if (a->codec) return blame("--codec", kvref_codec_open(out, a->codec, &opts, err), err);
    KVREF_TRY(check_folder("--model", a->model, err));
    return blame("--model", kvref_codec_open(out, a->model, &opts, err), err);
}
