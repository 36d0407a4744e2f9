/* SPDX-License-Identifier: MIT */
/* Speaking a text: what generate and say share. Batches are decoded one after the other, each
 * over the whole prompt with the codes of the earlier ones (spec 05); several samples start
 * afresh each. */
#ifndef KVREF_TOOLS_SPEAK_H
#define KVREF_TOOLS_SPEAK_H

#include "tools/report.h"
#include "tools/session.h"
#include "tools/term.h"

typedef struct speak_args {
    decoder_args decoder;
    sampling_args sampling;
    text_args text;
    const char *trace;
    int n_sample, trace_level;
    bool require_end, json;
} speak_args;

/* All options but those of the output. */
extern const cli_option speak_options[];

typedef struct speaker {
    const speak_args *args;
    session s;
    report *report;
    session_encoder *encode; /* for --reference; set by the caller before speak_open */
    void *encode_user;
    double frame_seconds; /* of audio, shown by the progress line; 0: not known    */
    bool keep_partial;    /* a signal ends the speaking, not the program           */
    int n_finished;       /* samples whose files are in place                      */
    int stopped;          /* that signal; may also be set by the sink              */

    double sample_start; /* time at which the present sample was begun */
    term_meter meter;
    double first;      /* time of the first frame of the batch */
    kvref_codes *done; /* [batches.n] of the present sample */
    kvref_codes all;   /* of the present sample             */
    int64_t n_drawn;   /* frames of all batches and samples */
} speaker;

/* Rules between the options and the output path, without reading anything. */
kvref_status speak_check(const speak_args *a, const char *out, kvref_error *err);

/* Refuses an output, under any number it may get, that is a file of the model or the codec
 * (NULL: none given) or one that is read. */
kvref_status speak_check_output(const speak_args *a,
                                const char *codec,
                                const char *option,
                                const char *path,
                                kvref_error *err);

/* Opens the model and reads text and references. Reports go to `to`. */
kvref_status
speak_open(speaker *k, const char *command, const speak_args *a, FILE *to, kvref_error *err);

/* Speaks every sample and hands its codes on. */
typedef kvref_status
speak_sink(void *user, int sample, const kvref_codes *codes, kvref_error *err);
kvref_status speak_run(speaker *k, speak_sink *sink, void *user, kvref_error *err);

/* Ends the report, frees all, prints the error of a failure. Returns the exit status. */
int speak_close(speaker *k, kvref_status status, const kvref_error *err);

/* The path itself, or out [cap] with the number of the sample when there are several. */
kvref_status speak_path(const char **path,
                        char *out,
                        size_t cap,
                        const speaker *k,
                        const char *given,
                        int sample,
                        kvref_error *err);

#endif
