/* SPDX-License-Identifier: MIT */
/* kvref generate: text to codes. Batches are decoded one after the other, each over the whole
 * prompt with the codes of the earlier ones (spec 05); several samples start afresh each. */
#include "base/base.h"
#include "tools/commands.h"
#include "tools/report.h"
#include "tools/session.h"
#include "tools/term.h"

#include <stdlib.h>
#include <string.h>

typedef struct generate_args {
    decoder_args decoder;
    sampling_args sampling;
    text_args text;
    const char *out, *trace;
    int n_sample, trace_level;
    bool require_end, json;
} generate_args;

#define AT(field) offsetof(generate_args, field)
static const cli_option generate_options[] = {
    {.kind = CLI_TABLE, .name = "", .table = decoder_options, .at = AT(decoder)},
    {.kind = CLI_TABLE, .name = "", .table = text_options, .at = AT(text)},
    {.kind = CLI_TABLE, .name = "", .table = sampling_options, .at = AT(sampling)},
    {.kind = CLI_INT,
     .name = "samples",
     .arg = "N",
     .at = AT(n_sample),
     .min = 1,
     .max = 1000000,
     .initial = "1",
     .help = "how often to speak the text, the random numbers running on"},
    {.kind = CLI_GROUP, .name = "Output"},
    {.kind = CLI_TEXT,
     .name = "output",
     .letter = 'o',
     .arg = "FILE",
     .required = true,
     .at = AT(out),
     .help = "codes as .npy, int64 [books, frames]; - is standard output. With several samples "
             "codes.npy becomes codes_0.npy, codes_1.npy, ..."},
    {.kind = CLI_FLAG,
     .name = "json",
     .at = AT(json),
     .help = "report as one JSON object instead of lines"},
    {.kind = CLI_FLAG,
     .name = "require-end",
     .at = AT(require_end),
     .help = "status 1 when a batch was stopped by its length, not by the end token"},
    {.kind = CLI_TEXT,
     .name = "trace",
     .arg = "FILE",
     .at = AT(trace),
     .help = "also record what the decoder computes, as safetensors; with several samples or "
             "batches the file name gets _SAMPLE_BATCH"},
    {.kind = CLI_CHOICE,
     .name = "trace-level",
     .arg = "LEVEL",
     .at = AT(trace_level),
     .choices = "codes|logits|layers|ops",
     .initial = "logits",
     .help = "how much of it"},
    {.kind = CLI_END},
};

typedef struct job {
    const generate_args *args;
    session s;
    report *report;
    term_meter meter;
    double first;      /* time of the first frame of the batch */
    kvref_codes *done; /* [batches.n] of the present sample */
    kvref_codes all;   /* of the present sample             */
} job;

static int on_frame(void *user, int n_frame, int limit)
{
    job *j = user;
    if (n_frame == 1) j->meter.shown = j->meter.start = j->first = term_clock();
    term_meter_show(&j->meter, (uint64_t)n_frame, (uint64_t)limit);
    return 0;
}

static kvref_status
write_trace(job *j, kvref_trace *trace, int sample, int batch, int n_frame, kvref_error *err)
{
    char middle[4096], numbered[4096];
    const char *path = j->args->trace;
    KVREF_TRY(session_describe(&j->s, trace, err));
    if (j->args->n_sample > 1 || j->s.batches.n > 1) {
        KVREF_TRY(report_numbered(middle, sizeof middle, path, sample, err));
        KVREF_TRY(report_numbered(numbered, sizeof numbered, middle, batch, err));
        path = numbered;
    }
    term_hold();
    kvref_status s = kvref_trace_write(trace, path, n_frame, err);
    term_release();
    return s;
}

/* Decodes one batch into done[batch] and reports it. */
static kvref_status
decode(job *j, kvref_trace *trace, int sample, int batch, int *frame_base, kvref_error *err)
{
    kvref_frames prompt = {0};
    kvref_generated g = {0};
    kvref_generate_opts opts = session_generate_opts(&j->s);
    opts.sample = sample;
    opts.frame_base = *frame_base;
    opts.trace = trace;
    opts.progress = on_frame;
    opts.user = j;
    double start = term_clock();
    kvref_status s = session_prompt(&j->s, &prompt, j->done, batch, err);
    if (s == KVREF_OK) {
        char text[60];
        snprintf(text, sizeof text, "prefill of %d positions", prompt.n_frame);
        term_meter_open(&j->meter, "decoding", "frames");
        term_meter_text(&j->meter, text);
        j->first = start;
        s = kvref_generate(
            j->s.backend, j->s.decoder, j->s.config, &g, &prompt, j->s.noise, &opts, err);
        term_meter_close(&j->meter);
    }
    if (s == KVREF_OK) {
        double now = term_clock();
        report_batch(j->report, prompt.n_frame, &g, j->first - start, now - j->first);
        *frame_base += g.frames.n_frame;
        if (trace) s = write_trace(j, trace, sample, batch, g.frames.n_frame, err);
        j->done[batch] = g.codes;
        g.codes = (kvref_codes){0};
    }
    kvref_frames_clear(&prompt);
    kvref_generated_clear(&g);
    return s;
}

static kvref_status
batch_with_trace(job *j, int sample, int batch, int *frame_base, kvref_error *err)
{
    kvref_trace *trace = NULL;
    if (!j->args->trace) return decode(j, NULL, sample, batch, frame_base, err);
    KVREF_TRY(kvref_trace_open(&trace, err));
    j->s.to = kvref_trace_tap(trace, (kvref_tap_level)(j->args->trace_level + KVREF_TAP_CODES));
    kvref_status s = decode(j, trace, sample, batch, frame_base, err);
    j->s.to = (kvref_tap){0};
    kvref_trace_close(&trace);
    return s;
}

static kvref_status append(kvref_codes *to, const kvref_codes *from, kvref_error *err)
{
    size_t n = (size_t)to->n_frame * (size_t)from->n_book;
    size_t more = (size_t)from->n_frame * (size_t)from->n_book;
    to->n_book = from->n_book;
    if (more == 0) return KVREF_OK;
    int32_t *code = realloc(to->code, (n + more) * sizeof *code);
    if (!code) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    memcpy(code + n, from->code, more * sizeof *code);
    to->code = code;
    to->n_frame += from->n_frame;
    return KVREF_OK;
}

static kvref_status write_codes(job *j, int sample, kvref_error *err)
{
    char numbered[4096];
    const char *path = j->args->out;
    if (j->args->n_sample > 1) {
        KVREF_TRY(report_numbered(numbered, sizeof numbered, path, sample, err));
        path = numbered;
    }
    term_hold();
    kvref_status s = kvref_codes_write(&j->all, path, err);
    term_release();
    if (s == KVREF_OK) report_sample(j->report, path, &j->all);
    return s;
}

static kvref_status speak_once(job *j, int sample, kvref_error *err)
{
    int frame_base = 0, n = j->s.batches.n;
    kvref_status s = KVREF_OK;
    j->all.n_book = j->s.config->n_codebook;
    for (int b = 0; b < n && s == KVREF_OK; b++) {
        s = batch_with_trace(j, sample, b, &frame_base, err);
        if (s == KVREF_OK) s = append(&j->all, &j->done[b], err);
    }
    if (s == KVREF_OK) s = write_codes(j, sample, err);
    for (int b = 0; b < n; b++) kvref_codes_clear(&j->done[b]);
    kvref_codes_clear(&j->all);
    return s;
}

static kvref_status check(const generate_args *a, kvref_error *err)
{
    KVREF_TRY(session_check_text(&a->text, err));
    KVREF_TRY(check_output("--output", a->out, err));
    if (a->trace) KVREF_TRY(check_output("--trace", a->trace, err));
    if (a->trace && strcmp(a->trace, "-") == 0)
        return kvref_fail(err, KVREF_E_ARG, "--trace: expected a file name, found \"-\"");
    if (strcmp(a->out, "-") == 0 && a->n_sample > 1)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "--output -: expected one sample, found --samples %d",
                          a->n_sample);
    return KVREF_OK;
}

static kvref_status speak(job *j, kvref_error *err)
{
    const generate_args *a = j->args;
    int level = a->trace ? a->trace_level + KVREF_TAP_CODES : KVREF_TAP_NONE;
    KVREF_TRY(check(a, err));
    KVREF_TRY(session_open(
        &j->s, "generate", &a->decoder, &a->sampling, (kvref_tap_level)level, err));
    KVREF_TRY(session_text(&j->s, &a->text, err));
    j->done = calloc((size_t)j->s.batches.n + 1, sizeof *j->done);
    if (!j->done) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    for (int i = 0; i < a->n_sample; i++) KVREF_TRY(speak_once(j, i, err));
    return KVREF_OK;
}

static int run_generate(const cli_command *self, void *args, const cli_given *given)
{
    (void)given;
    kvref_error err = {0};
    job j = {.args = args};
    bool to_stderr = strcmp(j.args->out, "-") == 0; /* standard output carries the codes */
    j.report = report_open(to_stderr ? stderr : stdout, j.args->json);
    kvref_status s =
        j.report ? speak(&j, &err) : kvref_fail(&err, KVREF_E_MEMORY, "out of memory");
    if (s == KVREF_OK && j.args->json) report_session(j.report, &j.s);
    int n_length = report_close(&j.report, s == KVREF_OK);
    free(j.done);
    session_close(&j.s);
    if (s != KVREF_OK) return term_error(self->name, &err);
    return j.args->require_end && n_length ? 1 : 0;
}

const cli_command cmd_generate = {
    .name = "generate",
    .summary = "Speak a text: codes of a speech model as .npy",
    .usage = "--model DIR (--text TEXT | --text-file FILE) -o FILE [options]",
    .text =
        "With the same seed the tokens are those of the upstream program run in float32 on a "
        "CPU. Text with speaker tags is cut into batches; each is decoded after all earlier "
        "text and codes.\n"
        "Nothing is written before a sample is complete; Ctrl-C leaves no partial file.",
    .option = generate_options,
    .status = "0 spoken, 1 with --require-end: stopped by length, 2 failed (bad option, text, "
              "model, a prompt or budget that does not fit)",
    .example = "kvref generate --model toy --text 'Hello.' -o codes.npy\n"
               "kvref generate --model toy --text-file dialogue.txt --samples 3 -o codes.npy\n"
               "kvref generate --model toy --text Hi --seed -1 --temperature 0.8 -o -",
    .n_args = sizeof(generate_args),
    .run = run_generate,
};
