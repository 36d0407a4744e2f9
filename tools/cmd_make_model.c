/* SPDX-License-Identifier: MIT */
/* kvref make-model: a synthetic checkpoint in an official file layout, weights by formula. */
#include "base/base.h"
#include "base/synth.h"
#include "kvref/synth.h"
#include "tools/commands.h"
#include "tools/make_codec.h"
#include "tools/presets.h"
#include "tools/term.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

typedef struct make_args {
    const char *dir, *config;
    cli_list set;
    int preset, layout, dtype, n_shard, codec;
    bool split_qkv, no_tokenizer, quiet;
} make_args;

enum { LAYOUT_AUTO, LAYOUT_NESTED, LAYOUT_FLAT };

#define AT(field) offsetof(make_args, field)
static const cli_option make_options[] = {
    {.kind = CLI_TEXT,
     .name = "DIR",
     .operand = true,
     .required = true,
     .at = AT(dir),
     .help = "folder to make; if it exists it must not hold a checkpoint"},
    {.kind = CLI_CHOICE,
     .name = "preset",
     .arg = "NAME",
     .at = AT(preset),
     .choices = PRESET_NAMES,
     .initial = "toy",
     .help = "a ready configuration"},
    {.kind = CLI_TEXT,
     .name = "config",
     .arg = "FILE",
     .at = AT(config),
     .help = "take the configuration from a config.json of either form instead"},
    {.kind = CLI_LIST,
     .name = "set",
     .arg = "KEY=VALUE",
     .at = AT(set),
     .help = "change one key of the configuration first, for example n_layer=1; "
             "text_config.n_layer=1 in a nested one"},
    {.kind = CLI_CHOICE,
     .name = "layout",
     .arg = "FORM",
     .at = AT(layout),
     .choices = "auto|nested|flat",
     .initial = "auto",
     .help = "form of config.json and of the tensor names; auto is nested where that form can "
             "say everything, and the form of --config"},
    {.kind = CLI_INT,
     .name = "shards",
     .arg = "N",
     .at = AT(n_shard),
     .min = 1,
     .max = 1000,
     .initial = "1",
     .help = "weight files; more than one come with an index"},
    {.kind = CLI_CHOICE,
     .name = "dtype",
     .arg = "TYPE",
     .at = AT(dtype),
     .choices = "bf16|f16|f32",
     .initial = "bf16",
     .help = "of the weights, which are exact in each"},
    {.kind = CLI_FLAG,
     .name = "split-qkv",
     .at = AT(split_qkv),
     .help = "write wq, wk and wv instead of wqkv, and biases so too"},
    {.kind = CLI_CHOICE,
     .name = "codec",
     .arg = "FORM",
     .at = AT(codec),
     .choices = MAKE_CODEC_NAMES,
     .initial = "safetensors",
     .help = "also a small codec with the model's books, as one or both file forms"},
    {.kind = CLI_FLAG,
     .name = "no-tokenizer",
     .at = AT(no_tokenizer),
     .help = "leave tokenizer.json out"},
    {.kind = CLI_FLAG, .name = "quiet", .at = AT(quiet), .help = "print nothing on success"},
    {.kind = CLI_END},
};

/* Free bytes where dir will lie: of the nearest folder from dir upwards that exists. */
static double free_bytes(const char *dir)
{
    struct statvfs fs;
    char *path = strdup(dir);
    bool found = false;
    while (path && !found) {
        found = statvfs(path, &fs) == 0;
        char *slash = strrchr(path, '/');
        if (!slash) break;
        *slash = 0;
    }
    free(path);
    if (!found) found = statvfs(dir[0] == '/' ? "/" : ".", &fs) == 0;
    return found ? (double)fs.f_bavail * (double)fs.f_frsize : -1;
}

static double weight_bytes(const kvref_config *config, kvref_dtype dtype)
{
    int n = kvref_config_tensors(config, NULL, 0);
    kvref_tensor_spec *spec = calloc((size_t)n, sizeof *spec);
    double sum = 0;
    if (spec) kvref_config_tensors(config, spec, n);
    for (int i = 0; spec && i < n; i++) {
        double element = 1;
        for (int d = 0; d < spec[i].n_dim; d++) element *= (double)spec[i].dim[d];
        sum += element * (double)kvref_dtype_size(dtype);
    }
    free(spec);
    return sum;
}

static int show(void *user, uint64_t done, uint64_t total)
{
    term_meter_show(user, done, total);
    return term_signal();
}

/* What synth is to write, and the checks that need no file. */
static kvref_status
plan(kvref_config *config, kvref_synth_opts *opts, const make_args *a, kvref_error *err)
{
    static const kvref_dtype dtype[] = {KVREF_BF16, KVREF_F16, KVREF_F32};
    bool nested;
    KVREF_TRY(preset_config(config, &nested, a->preset, a->config, a->set.item, a->set.n, err));
    bool can_nest = config->scale_codebook_embeddings && config->norm_fastlayer_input;
    opts->nested = a->layout == LAYOUT_NESTED ||
                   (a->layout == LAYOUT_AUTO && (a->config ? nested : can_nest));
    opts->dtype = dtype[a->dtype];
    opts->n_shard = a->n_shard;
    opts->split_qkv = a->split_qkv;
    opts->tokenizer = !a->no_tokenizer;
    double need = weight_bytes(config, opts->dtype) + 8e6, have = free_bytes(a->dir);
    if (have >= 0 && need > have)
        return kvref_fail(err,
                          KVREF_E_IO,
                          "%s: expected %s of free disk space, found %s",
                          a->dir,
                          term_bytes(need),
                          term_bytes(have));
    return KVREF_OK;
}

/* A vocabulary without room for 256 bytes and the control tokens gets no tokenizer. */
static void probe_tokenizer(kvref_synth_opts *opts, const kvref_config *config)
{
    kvref_error err;
    kvref_log log = term_notes("make-model");
    char *text = NULL;
    if (opts->tokenizer && kvref_synth_tokenizer(&text, config, &err) == KVREF_E_ARG) {
        kvref_note(&log, "tokenizer.json left out: %s", err.text);
        opts->tokenizer = false;
    }
    free(text);
}

/* The books of some models have no codec: an error only when one was asked for. */
static kvref_status plan_codec(kvref_codec_dims *dims,
                               unsigned *files,
                               const make_args *a,
                               const kvref_config *config,
                               bool asked,
                               kvref_error *err)
{
    kvref_log log = term_notes("make-model");
    *files = (unsigned)a->codec;
    if (*files == 0 || make_codec_dims(dims, config, err) == KVREF_OK) return KVREF_OK;
    if (asked) return err->status;
    kvref_note(&log, "codec left out: %s", err->text);
    *files = 0;
    return KVREF_OK;
}

/* Codec and model, or nothing. */
static kvref_status write_all(const make_args *a,
                              const kvref_config *config,
                              kvref_synth_opts *opts,
                              const kvref_codec_dims *dims,
                              unsigned files,
                              kvref_error *err)
{
    term_meter meter;
    made_codec made;
    kvref_synth_codec_opts codec = {.progress = show, .user = &meter};
    term_meter_open(&meter, "weights", "bytes");
    opts->progress = show;
    opts->user = &meter;
    term_hold(); /* from here files exist that a signal must not leave half made */
    kvref_status s = make_codec_write(&made, a->dir, dims, files, &codec, err);
    if (s == KVREF_OK) {
        s = kvref_synth_write(a->dir, config, opts, err);
        if (s != KVREF_OK) make_codec_undo(&made, a->dir);
    }
    term_meter_close(&meter);
    opts->user = NULL;
    return s;
}

static int run_make_model(const cli_command *self, void *args, const cli_given *given)
{
    const make_args *a = args;
    kvref_error err = {0};
    kvref_config config;
    kvref_codec_dims dims;
    unsigned files;
    kvref_synth_opts opts = {0};
    if (a->config && cli_was_given(given, "preset")) {
        kvref_fail(&err, KVREF_E_ARG, "--preset and --config: expected one of them");
        return term_error(self->name, &err);
    }
    if (plan(&config, &opts, a, &err) != KVREF_OK ||
        plan_codec(&dims, &files, a, &config, cli_was_given(given, "codec"), &err) != KVREF_OK)
        return term_error(self->name, &err);
    probe_tokenizer(&opts, &config);
    if (write_all(a, &config, &opts, &dims, files, &err) != KVREF_OK)
        return term_error(self->name, &err);
    char name[400];
    if (!a->quiet)
        printf("%s: %s config.json, %s of %s weights in %d file%s, %s, %s%s%s\n",
               term_clean(name, sizeof name, a->dir),
               opts.nested ? "nested" : "flat",
               term_bytes(weight_bytes(&config, opts.dtype)),
               kvref_dtype_name(opts.dtype),
               opts.n_shard,
               opts.n_shard == 1 ? "" : "s",
               opts.tokenizer ? "tokenizer.json" : "no tokenizer",
               files & MAKE_CODEC_SAFETENSORS ? "codec.safetensors" : "",
               files == (MAKE_CODEC_SAFETENSORS | MAKE_CODEC_PTH) ? " and " : "",
               files & MAKE_CODEC_PTH ? "codec.pth"
               : files                ? ""
                                      : "no codec");
    return 0;
}

const cli_command cmd_make_model = {
    .name = "make-model",
    .summary = "Make a synthetic checkpoint whose weights follow from a formula",
    .usage = "DIR [--preset NAME | --config FILE] [options]",
    .text =
        "Every weight is a function of its tensor's name and its index, exact in bfloat16, "
        "float16 and float32, so that anybody can make the same model again.\n"
        "Presets, with their positions: toy (2048) speaks in the demonstration, 2.4 MB; tiny "
        "(32) is for edge cases; a, b, c (64) and l (640) are the golden cases, c with the "
        "true widths, 0.9 GB; s2-2layer (32768) is c with room; s2-pro (32768) has the sizes "
        "of the real model, 9.1 GB.\n"
        "Texts are read by toy, s2-2layer, s2-pro and, short ones, by l. The prompts of a, b "
        "and c do not fit their 64 positions, of which half is kept for speech, and tiny has "
        "no tokenizer: give these to kvref trace --prompt, or --set max_seq_len=640.\n"
        "The codec has the strides and windows of the real one and few channels; a model of "
        "one "
        "book, or of more than 32, gets none.\n"
        "A failure or Ctrl-C leaves nothing behind.",
    .option = make_options,
    .status = "0 made, 2 not made (bad option or configuration, folder taken, no disk space)",
    .example = "kvref make-model toy\n"
               "kvref make-model flat --layout flat --dtype f32\n"
               "kvref make-model big --preset s2-pro --shards 2 --codec pth\n"
               "kvref make-model long --config toy/config.json \\\n"
               "    --set text_config.max_seq_len=4096",
    .n_args = sizeof(make_args),
    .run = run_make_model,
};
