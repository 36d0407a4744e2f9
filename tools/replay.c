/* SPDX-License-Identifier: MIT */
/* Reading and writing the settings of a run. Values are recorded as they are given on the
 * command line and parsed by the same code, so that a trace cannot say what an option cannot.
 */
#include "tools/replay.h"

#include "base/base.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(replay, field)
/* Where the numbers begin, read like options. */
static const cli_option address_options[] = {
    {.kind = CLI_INT, .name = "sample", .at = AT(sample), .max = INT_MAX},
    {.kind = CLI_INT, .name = "frame_base", .at = AT(frame_base), .max = INT_MAX},
    {.kind = CLI_INT, .name = "frames_before", .at = AT(n_before), .max = INT_MAX},
    {.kind = CLI_END},
};
#undef AT

enum { MAX_BEFORE = 1000000 }; /* frames to pass over: some minutes at the real sizes */

typedef struct reader {
    const kvref_file *file;
    const char *path;
    const cli_given *given;
    kvref_error *err;
} reader;

/* The value recorded under a key, put where the option of that table stores it. */
static kvref_status
take(const reader *r, const char *key, const cli_option *table, void *base, const char *option)
{
    kvref_error why;
    const char *value = kvref_file_meta(r->file, key);
    if (!value || cli_was_given(r->given, option)) return KVREF_OK;
    kvref_status s = cli_store(table, base, option, value, &why);
    if (s == KVREF_OK) return s;
    return kvref_fail(r->err, s, "%s: setting %s: %s", r->path, key, why.text);
}

/* A flag counts when it is given or recorded. */
static kvref_status take_flag(const reader *r, const char *key, bool *flag)
{
    const char *value = kvref_file_meta(r->file, key);
    if (!value || strcmp(value, "false") == 0) return KVREF_OK;
    if (strcmp(value, "true") != 0)
        return kvref_fail(r->err,
                          KVREF_E_FORMAT,
                          "%s: setting %s: expected true or false, found \"%s\"",
                          r->path,
                          key,
                          value);
    *flag = true;
    return KVREF_OK;
}

static kvref_status take_noise(const reader *r, char **copy, sampling_args *sampling)
{
    const char *value = kvref_file_meta(r->file, "noise");
    if (!value || cli_was_given(r->given, "noise")) return KVREF_OK;
    *copy = strdup(value);
    if (!*copy) return kvref_fail(r->err, KVREF_E_MEMORY, "out of memory");
    sampling->noise = *copy;
    return KVREF_OK;
}

static kvref_status
take_all(const reader *r, replay *to, decoder_args *decoder, sampling_args *sampling)
{
    static const char *const draws[][2] = {
        {"temperature", "temperature"},
        {"top_p", "top-p"},
        {"top_k", "top-k"},
        {"seed", "seed"},
        {"max_new_tokens", "max-new-tokens"},
        {"min_frames", "min-frames"},
    };
    for (size_t i = 0; i < sizeof draws / sizeof draws[0]; i++)
        KVREF_TRY(take(r, draws[i][0], sampling_options, sampling, draws[i][1]));
    KVREF_TRY(take_noise(r, &to->noise, sampling));
    KVREF_TRY(take_flag(r, "stop_at_first_end", &sampling->stop_at_first_end));
    KVREF_TRY(take_flag(r, "keep_last_frame", &sampling->keep_last_frame));
    KVREF_TRY(take(r, "rope_table", decoder_options, decoder, "rope-table"));
    KVREF_TRY(take(r, "linear", decoder_options, decoder, "linear"));
    for (const cli_option *o = address_options; o->kind != CLI_END; o++)
        KVREF_TRY(take(r, o->name, address_options, to, o->name));
    return KVREF_OK;
}

kvref_status replay_read(replay *r,
                         decoder_args *decoder,
                         sampling_args *sampling,
                         const char *path,
                         const cli_given *given,
                         kvref_error *err)
{
    kvref_file *file;
    KVREF_TRY(blame("--from", kvref_file_open(&file, path, NULL, err), err));
    const reader from = {file, path, given, err};
    kvref_status s = take_all(&from, r, decoder, sampling);
    kvref_file_close(&file);
    return s;
}

kvref_status replay_describe(const replay *r, kvref_trace *trace, kvref_error *err)
{
    const int value[] = {r->sample, r->frame_base, r->n_before};
    char text[16];
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "%d", value[i]);
        KVREF_TRY(kvref_trace_meta(trace, address_options[i].name, text, err));
    }
    return KVREF_OK;
}

/* Only torch's stream has a place; the other sources go by address. A frame draws from two sets
 * of V numbers and from one of K for each code but the first. */
kvref_status replay_pass_over(const replay *r, const session *s, kvref_error *err)
{
    const kvref_config *c = s->config;
    if (strcmp(s->sampling_args->noise, "mt19937") != 0) return KVREF_OK;
    if (r->n_before > MAX_BEFORE)
        return kvref_fail(err,
                          KVREF_E_UNSUPPORTED,
                          "--free: expected at most %d frames drawn earlier, found %d",
                          MAX_BEFORE,
                          r->n_before);
    for (int f = 0; f < r->n_before; f++)
        for (int set = 0; set <= c->n_codebook; set++) {
            const kvref_draw draw = {.set = set, .n_set = set < 2 ? c->n_vocab : c->n_code};
            KVREF_TRY(kvref_noise_fill(s->noise, NULL, &draw, err));
        }
    return KVREF_OK;
}

void replay_clear(replay *r)
{
    free(r->noise);
    *r = (replay){0};
}
