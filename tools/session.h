/* SPDX-License-Identifier: MIT */
/* What generate and trace share: options of the decoder, of sampling and of the text; opening a
 * model with them; prompts; and the description that a trace carries. */
#ifndef KVREF_TOOLS_SESSION_H
#define KVREF_TOOLS_SESSION_H

#include "kvref/generate.h"
#include "tools/cli.h"
#include "tools/paths.h"

typedef struct decoder_args {
    const char *model;
    int capacity, attention, linear, rope_table, n_thread, backend, exec;
    bool verbose;
} decoder_args;

typedef struct sampling_args {
    float temperature, top_p;
    int top_k, max_new_tokens, min_frames;
    uint64_t seed;
    const char *noise;
    bool stop_at_first_end, keep_last_frame;
} sampling_args;

typedef struct text_args {
    const char *text, *text_file;
    cli_list reference_text;
    cli_list reference; /* --reference-codes, and in some commands --reference */
    int chunk_length, control;
} text_args;

/* Tables to be put into the table of a command by CLI_TABLE. */
extern const cli_option decoder_options[], sampling_options[], text_options[];

/* Codes of a recording, for --reference. */
typedef kvref_status
session_encoder(void *user, kvref_codes *out, const char *path, kvref_error *err);

typedef struct session {
    const char *command; /* for messages */
    const decoder_args *decoder_args;
    const sampling_args *sampling_args;
    kvref_log log;
    kvref_model *model;
    const kvref_config *config;
    const kvref_backend *backend;
    kvref_decoder *decoder;
    kvref_noise *noise;
    kvref_tap to; /* where taps go now; fn NULL: nowhere */

    session_encoder *encode; /* NULL: the command has no --reference */
    void *encode_user;

    const text_args *text_args; /* this and the rest: set by session_text */
    char *text;
    kvref_texts batches;
    kvref_control control;
    kvref_reference *reference; /* [n_reference] */
    kvref_codes *reference_codes;
    int n_reference;
} session;

/* Checks what can be checked without a file, chooses the OpenBLAS core (which may start the
 * program again), opens model, decoder and noise. level: what the decoder reports to s->to. */
kvref_status session_open(session *s,
                          const char *command,
                          const decoder_args *d,
                          const sampling_args *sampling,
                          kvref_tap_level level,
                          kvref_error *err);

/* Rules between the text options, without reading anything. */
kvref_status session_check_text(const text_args *t, kvref_error *err);

/* Reads text and references and cuts the text into batches. */
kvref_status session_text(session *s, const text_args *t, kvref_error *err);

/* Refuses texts that cannot fit whatever codes the batches get: the prompt of every batch with
 * no code of the earlier ones. */
kvref_status session_check_fit(session *s, kvref_error *err);

/* The prompt of one batch; done [batch] are the codes of the earlier ones. CAPACITY when it is
 * longer than the model allows. */
kvref_status session_prompt(
    session *s, kvref_frames *out, const kvref_codes *done, int batch, kvref_error *err);

/* Generation options as the sampling options say, for one sample. */
kvref_generate_opts session_generate_opts(const session *s);

/* Metadata that lets a reader make the trace again. */
kvref_status session_describe(const session *s, kvref_trace *trace, kvref_error *err);

/* Accepts a session opened half. */
void session_close(session *s);

/* "end", "length", "forced". */
const char *session_stop_name(kvref_stop stop);

#endif
