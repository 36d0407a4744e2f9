/* SPDX-License-Identifier: MIT */
/* kvref inspect: a checkpoint against its own config, and what running it costs. */
#include "base/base.h"
#include "tools/commands.h"
#include "tools/inspect.h"
#include "tools/paths.h"
#include "tools/term.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct inspect_args {
    const char *dir;
    int capacity;
    bool json, no_scan;
} inspect_args;

#define AT(field) offsetof(inspect_args, field)
static const cli_option inspect_options[] = {
    {.kind = CLI_TEXT,
     .name = "DIR",
     .operand = true,
     .required = true,
     .at = AT(dir),
     .help = "checkpoint folder"},
    {.kind = CLI_INT,
     .name = "capacity",
     .arg = "N",
     .at = AT(capacity),
     .min = 0,
     .max = INT_MAX,
     .initial = "0",
     .help = "cache positions to reckon with; 0 is the model's max_seq_len"},
    {.kind = CLI_FLAG, .name = "json", .at = AT(json), .help = "print one JSON object"},
    {.kind = CLI_FLAG,
     .name = "no-scan",
     .at = AT(no_scan),
     .help = "do not read the weights themselves, only their headers"},
    {.kind = CLI_END},
};

static void describe_tokenizer(inspection *in, const kvref_tokenizer *tok)
{
    int32_t begin, end;
    kvref_tokenizer_semantic(tok, &begin, &end, &in->n_semantic);
    in->tokenizer = true;
    in->semantic_begin = begin;
    in->semantic_end = end;
    in->im_end = kvref_tokenizer_id(tok, "<|im_end|>");
    in->n_token = kvref_tokenizer_size(tok);
}

/* The tokenizer of a model that does not open. */
static kvref_status open_tokenizer(inspection *in, kvref_error *err)
{
    kvref_tokenizer *tok = NULL;
    kvref_status s = KVREF_OK;
    char *path = kvref_path_join(in->dir, "tokenizer.json");
    if (!path) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    struct stat st;
    if (lstat(path, &st) == 0) s = kvref_tokenizer_open(&tok, path, err);
    if (tok) describe_tokenizer(in, tok);
    kvref_tokenizer_close(&tok);
    free(path);
    return s;
}

/* What the loader adds to the comparison: rules about token ids, and the ids themselves. */
static kvref_status open_model(inspection *in, kvref_error *err)
{
    kvref_model *model;
    kvref_status s = kvref_model_open(&model, in->dir, NULL, err);
    bool said = in->n_problem && (s == KVREF_E_MISSING || s == KVREF_E_SHAPE);
    if (said) return open_tokenizer(in, err);
    if (s != KVREF_OK) return s;
    const kvref_tokenizer *tok = kvref_model_tokenizer(model);
    in->config = *kvref_model_config(model); /* token ids as the tokenizer has them */
    if (tok) describe_tokenizer(in, tok);
    kvref_model_close(&model);
    return KVREF_OK;
}

kvref_status inspect_range(inspection *in,
                           const char *what,
                           range_count *count,
                           char *worst,
                           const kvref_tensor *const *tensor,
                           int n,
                           kvref_error *err)
{
    range_scan *scan;
    term_meter meter;
    uint64_t done = 0, total = 0, most = 0;
    for (int i = 0; i < n; i++) KVREF_TRY(kvref_tensor_load(tensor[i], err));
    KVREF_TRY(range_scan_open(&scan, err));
    for (int i = 0; i < n; i++) total += tensor[i]->n_byte;
    term_meter_open(&meter, "scanning", "bytes");
    for (int i = 0; i < n; i++) {
        uint64_t before = count->overflow + count->flushed + count->inexact;
        range_scan_add(scan, count, tensor[i]);
        uint64_t lost = count->overflow + count->flushed + count->inexact - before;
        if (worst && lost > most) {
            most = lost;
            term_clean(worst, sizeof in->worst, tensor[i]->name);
        }
        done += tensor[i]->n_byte;
        term_meter_show(&meter, done, total);
    }
    term_meter_close(&meter);
    range_scan_close(&scan);
    if (count->nan || count->inf) {
        char text[100];
        snprintf(text,
                 sizeof text,
                 "%s: %llu NaN and %llu infinite values, expected none",
                 what,
                 (unsigned long long)count->nan,
                 (unsigned long long)count->inf);
        inspect_problem(in, text);
    }
    return KVREF_OK;
}

static kvref_status inspect(inspection *in, const inspect_args *a, kvref_error *err)
{
    kvref_file *file;
    in->dir = a->dir;
    KVREF_TRY(check_folder("DIR", a->dir, err));
    KVREF_TRY(kvref_config_read(&in->config, a->dir, err));
    in->capacity = a->capacity ? a->capacity : in->config.max_seq_len;
    KVREF_TRY(kvref_file_open_dir(&file, a->dir, NULL, err));
    kvref_status s = inspect_tensors(in, file, err);
    if (s == KVREF_OK) s = open_model(in, err);
    in->scanned = !a->no_scan;
    if (s == KVREF_OK && in->scanned)
        s = inspect_range(in, "weights", &in->range, in->worst, in->needed, in->n_found, err);
    kvref_file_close(&file);
    if (s == KVREF_OK) s = inspect_codec(in, in->scanned, err);
    kvref_decoder_opts opts = {.capacity = in->capacity};
    if (s == KVREF_OK) in->reserved = kvref_ref_bytes(&in->config, &opts);
    return s;
}

static int run_inspect(const cli_command *self, void *args, const cli_given *given)
{
    (void)given;
    const inspect_args *a = args;
    kvref_error err = {0};
    inspection *in = calloc(1, sizeof *in);
    kvref_status s =
        in ? inspect(in, a, &err) : kvref_fail(&err, KVREF_E_MEMORY, "out of memory");
    int status = 0;
    if (s != KVREF_OK) {
        status = term_error(self->name, &err);
    } else {
        if (a->json) {
            inspect_print_json(in);
        } else {
            inspect_print(in);
        }
        status = in->n_problem ? 1 : 0;
        if (status) {
            kvref_fail(&err,
                       KVREF_E_SHAPE,
                       "%s: does not fit: %s%s",
                       a->dir,
                       in->problem[0],
                       in->n_problem > 1 ? ", and more" : "");
            term_error(self->name, &err);
        }
    }
    if (in) free(in->needed);
    free(in);
    return status;
}

const cli_command cmd_inspect = {
    .name = "inspect",
    .summary = "Compare a checkpoint with its config and reckon its costs",
    .usage = "DIR [--capacity N] [--json] [--no-scan]",
    .text =
        "Prints the configuration with every default resolved, the tensors against it, the "
        "weights that one decoded frame reads, the size of the key/value cache, and what "
        "conversion to float16 would do to the weights. The codec of the folder, if there is "
        "one, is compared and reckoned too.",
    .option = inspect_options,
    .status =
        "0 config, tensors, codec and tokenizer fit and every weight is finite; 1 they can be "
        "read but a tensor is missing, has another shape or dtype, or weights are NaN or "
        "infinite; 2 a file is missing or malformed, or names something unsupported",
    .example = "kvref make-model toy        # once\n"
               "kvref inspect toy\n"
               "kvref inspect s2-pro --capacity 4096 --no-scan --json",
    .n_args = sizeof(inspect_args),
    .run = run_inspect,
};
