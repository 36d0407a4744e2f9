/* SPDX-License-Identifier: MIT */
/* Opening a model with the options of the command line, and describing the run in a trace. */
#include "tools/session.h"

#include "base/base.h"
#include "base/tokenizer.h"
#include "config.h"
#include "tools/backends.h"
#include "tools/blas_core.h"
#include "tools/term.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const attention_name[] = {"prefix", "full"};
static const char *const linear_name[] = {"exact", "blas"};
static const char *const table_name[] = {"bf16", "f32"};
static const char *const exec_name[] = {"eager", "graph"};

const char *session_stop_name(kvref_stop stop)
{
    static const char *const name[] = {"end", "length", "forced"};
    return name[stop];
}

static void forward(void *user, const kvref_tap_data *data)
{
    const session *s = user;
    if (s->to.fn) s->to.fn(s->to.user, data);
}

static kvref_sampling sampling_of(const sampling_args *a)
{
    return (kvref_sampling){a->temperature, a->top_p, a->top_k};
}

kvref_generate_opts session_generate_opts(const session *s)
{
    const sampling_args *a = s->sampling_args;
    return (kvref_generate_opts){
        .sampling = sampling_of(a),
        .max_new_tokens = a->max_new_tokens,
        .min_frames = a->min_frames,
        .stop_at_first_end = a->stop_at_first_end,
        .keep_last_frame = a->keep_last_frame,
    };
}

static kvref_status open_noise(session *s, kvref_error *err)
{
    const char *noise = s->sampling_args->noise;
    uint64_t seed = s->sampling_args->seed;
    if (strcmp(noise, "mt19937") == 0) return kvref_noise_mt19937(&s->noise, seed, err);
    if (strcmp(noise, "counter") == 0) return kvref_noise_counter(&s->noise, seed, err);
    if (strncmp(noise, "file:", 5) == 0)
        return blame("--noise",
                     kvref_noise_file(&s->noise,
                                      noise + 5,
                                      kvref_config_candidates(s->config, NULL, 0),
                                      s->config->n_code,
                                      s->config->n_codebook,
                                      err),
                     err);
    return kvref_fail(err,
                      KVREF_E_ARG,
                      "--noise: expected mt19937, counter or file:PATH, found \"%s\"",
                      noise);
}

static void note_capacity(const session *s)
{
    kvref_log always = term_notes(s->command);
    if (s->decoder_args->capacity > s->config->max_seq_len)
        kvref_note(&always,
                   "--capacity %d is more than the max_seq_len of the model, %d; no model was "
                   "made to speak beyond that",
                   s->decoder_args->capacity,
                   s->config->max_seq_len);
}

/* Before the model is read: a missing device should not cost a minute of loading. */
static kvref_status choose_backend(session *s, kvref_error *err)
{
    const decoder_args *d = s->decoder_args;
    KVREF_TRY(backend_find(&s->backend, d->backend, err));
    if (s->backend->frame || d->exec == KVREF_EXEC_EAGER) return KVREF_OK;
    return kvref_fail(err,
                      KVREF_E_ARG,
                      "--exec graph: backend %s has no device; expected cudacpu or cuda",
                      s->backend->name);
}

kvref_status session_open(session *s,
                          const char *command,
                          const decoder_args *d,
                          const sampling_args *sampling,
                          kvref_tap_level level,
                          kvref_error *err)
{
    kvref_sampling filter = sampling_of(sampling);
    *s = (session){.command = command, .decoder_args = d, .sampling_args = sampling};
    KVREF_TRY(kvref_sampling_check(&filter, err));
    if (sampling->max_new_tokens && sampling->min_frames > sampling->max_new_tokens)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "--min-frames: expected at most --max-new-tokens, %d, found %d",
                          sampling->max_new_tokens,
                          sampling->min_frames);
    KVREF_TRY(check_folder("--model", d->model, err));
    KVREF_TRY(choose_backend(s, err));
    if (d->verbose) s->log = term_notes(command);
    if (d->linear == KVREF_LINEAR_BLAS) blas_core_use(&s->log);
    KVREF_TRY(kvref_model_open(&s->model, d->model, &s->log, err));
    s->config = kvref_model_config(s->model);
    kvref_decoder_opts opts = {
        .capacity = d->capacity,
        .n_thread = d->n_thread,
        .attention = (kvref_attention)d->attention,
        .linear = (kvref_linear)d->linear,
        .rope_table = (kvref_rope_table)d->rope_table,
        .exec = (kvref_exec)d->exec,
        .tap = {forward, s, level},
        .log = s->log,
    };
    note_capacity(s);
    KVREF_TRY(open_noise(s, err));
    return s->backend->open(&s->decoder, s->model, &opts, err);
}

void session_close(session *s)
{
    kvref_noise_close(&s->noise);
    if (s->backend) s->backend->close(&s->decoder);
    for (int i = 0; i < s->n_reference; i++) kvref_codes_clear(&s->reference_codes[i]);
    free(s->reference_codes);
    free(s->reference);
    kvref_texts_clear(&s->batches);
    free(s->text);
    kvref_model_close(&s->model);
    *s = (session){0};
}

/* ---- the description of a trace ---- */

static kvref_status describe_config(const session *s, kvref_trace *trace, kvref_error *err)
{
    const kvref_config *c = s->config;
    const kvref_stack *a = &c->slow, *b = &c->fast;
    char text[700];
    snprintf(text,
             sizeof text,
             "vocab_size=%d n_layer=%d dim=%d n_head=%d n_local_heads=%d head_dim=%d "
             "intermediate_size=%d n_fast_layer=%d fast_dim=%d fast_n_head=%d "
             "fast_n_local_heads=%d fast_head_dim=%d fast_intermediate_size=%d "
             "codebook_size=%d num_codebooks=%d max_seq_len=%d rope_base=%.9g norm_eps=%.9g "
             "semantic_begin_id=%d semantic_end_id=%d im_end=%d",
             c->n_vocab,
             a->n_layer,
             a->d_model,
             a->n_head,
             a->n_kv_head,
             a->d_head,
             a->d_ff,
             b->n_layer,
             b->d_model,
             b->n_head,
             b->n_kv_head,
             b->d_head,
             b->d_ff,
             c->n_code,
             c->n_codebook,
             c->max_seq_len,
             (double)c->rope_base,
             (double)c->norm_eps,
             c->semantic_begin,
             c->semantic_end,
             c->im_end);
    return kvref_trace_meta(trace, "config", text, err);
}

/* A path in UTF-8, which metadata must be: in one that is not, other bytes than ASCII become
 * question marks. */
static void printable(char *out, size_t cap, const char *path)
{
    snprintf(out, cap, "%s", path);
    if (kvref_text_check(out, strlen(out), "path", NULL) == KVREF_OK) return;
    for (char *p = out; *p; p++)
        if (*p & 0x80) *p = '?';
}

kvref_status session_describe(const session *s, kvref_trace *trace, kvref_error *err)
{
    const decoder_args *d = s->decoder_args;
    const sampling_args *p = s->sampling_args;
    char number[7][40], noise[4200];
    printable(noise, sizeof noise, p->noise);
    snprintf(number[0], 40, "%d", s->backend->capacity(s->decoder));
    snprintf(number[1], 40, "%.9g", (double)p->temperature);
    snprintf(number[2], 40, "%.9g", (double)p->top_p);
    snprintf(number[3], 40, "%d", p->top_k);
    snprintf(number[4], 40, "%llu", (unsigned long long)p->seed);
    snprintf(number[5], 40, "%d", p->max_new_tokens);
    snprintf(number[6], 40, "%d", p->min_frames);
    const char *const pair[][2] = {
        {"program", "kvref " PACKAGE_VERSION},
        {"backend", s->backend->name},
        {"attention", attention_name[d->attention]},
        {"linear", linear_name[d->linear]},
        {"rope_table", table_name[d->rope_table]},
        {"exec", exec_name[d->exec]},
        {"capacity", number[0]},
        {"temperature", number[1]},
        {"top_p", number[2]},
        {"top_k", number[3]},
        {"seed", number[4]},
        {"noise", noise},
        {"max_new_tokens", number[5]},
        {"min_frames", number[6]},
        {"stop_at_first_end", p->stop_at_first_end ? "true" : "false"},
        {"keep_last_frame", p->keep_last_frame ? "true" : "false"},
    };
    for (size_t i = 0; i < sizeof pair / sizeof pair[0]; i++)
        KVREF_TRY(kvref_trace_meta(trace, pair[i][0], pair[i][1], err));
    return describe_config(s, trace, err);
}
