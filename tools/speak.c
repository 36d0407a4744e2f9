/* SPDX-License-Identifier: MIT */
/* Speaking a text sample by sample and batch by batch. */
#include "tools/speak.h"

#include "base/base.h"
#include "tools/replay.h"
#include "tools/sound_out.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT(field) offsetof(speak_args, field)
const cli_option speak_options[] = {
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
    {.kind = CLI_GROUP, .name = "Report"},
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

static int on_frame(void *user, int n_frame, int limit)
{
    speaker *k = user;
    if (n_frame == 1) k->meter.shown = k->meter.start = k->first = term_clock();
    uint64_t done = (uint64_t)n_frame, total = (uint64_t)limit;
    if (k->frame_seconds > 0) {
        sound_meter(&k->meter, done, total, k->frame_seconds);
    } else {
        term_meter_show(&k->meter, done, total);
    }
    if (k->keep_partial) k->stopped = term_take_signal();
    return k->stopped;
}

/* Refuses a file that is read. */
static kvref_status
check_read(const speak_args *a, const char *option, const char *path, kvref_error *err)
{
    const text_args *t = &a->text;
    const char *noise = a->sampling.noise;
    const named_path read[] = {{"--text-file", t->text_file},
                               {"--noise", strncmp(noise, "file:", 5) ? NULL : noise + 5}};
    KVREF_TRY(check_not_read(option, path, read, 2, err));
    for (int i = 0; i < t->reference.n; i++) {
        const named_path reference = {"a reference", t->reference.item[i]};
        KVREF_TRY(check_not_read(option, path, &reference, 1, err));
    }
    return KVREF_OK;
}

kvref_status speak_check_output(const speak_args *a,
                                const char *codec,
                                const char *option,
                                const char *path,
                                kvref_error *err)
{
    char numbered[4096];
    for (int i = 0; i < a->n_sample; i++) {
        const char *file = path;
        if (a->n_sample > 1) {
            KVREF_TRY(report_numbered(numbered, sizeof numbered, path, i, err));
            file = numbered;
            if (i > 0 && access(file, F_OK) != 0) continue; /* nothing that could be lost */
        }
        KVREF_TRY(check_read(a, option, file, err));
        KVREF_TRY(check_output_beside(option, file, a->decoder.model, err));
        if (codec) KVREF_TRY(check_output_beside(option, file, codec, err));
    }
    return KVREF_OK;
}

static kvref_status write_trace(
    speaker *k, kvref_trace *trace, const replay *run, int batch, int n_frame, kvref_error *err)
{
    char middle[4096], numbered[4096];
    const char *path = k->args->trace;
    KVREF_TRY(session_describe(&k->s, trace, err));
    KVREF_TRY(replay_describe(run, trace, err));
    if (k->args->n_sample > 1 || k->s.batches.n > 1) {
        KVREF_TRY(report_numbered(middle, sizeof middle, path, run->sample, err));
        KVREF_TRY(report_numbered(numbered, sizeof numbered, middle, batch, err));
        path = numbered;
    }
    KVREF_TRY(check_read(k->args, "--trace", path, err));
    term_writing(path);
    kvref_status s = kvref_trace_write(trace, path, n_frame, err);
    term_written();
    return s;
}

/* Decodes one batch into done[batch] and reports it. */
static kvref_status
decode(speaker *k, kvref_trace *trace, int sample, int batch, int *frame_base, kvref_error *err)
{
    kvref_frames prompt = {0};
    kvref_generated g = {0};
    kvref_generate_opts opts = session_generate_opts(&k->s);
    opts.sample = sample;
    opts.frame_base = *frame_base;
    opts.trace = trace;
    opts.progress = on_frame;
    opts.user = k;
    double start = term_clock();
    kvref_status s = session_prompt(&k->s, &prompt, k->done, batch, err);
    if (s == KVREF_OK) {
        char text[60];
        snprintf(text, sizeof text, "prefill of %d positions", prompt.n_frame);
        term_meter_open(&k->meter, "decoding", "frames");
        term_meter_text(&k->meter, text);
        k->first = start;
        s = kvref_generate(
            k->s.backend, k->s.decoder, k->s.config, &g, &prompt, k->s.noise, &opts, err);
        term_meter_close(&k->meter);
        if (s == KVREF_E_STOPPED && k->stopped) s = KVREF_OK; /* keep what is there */
    }
    if (s == KVREF_OK) {
        double now = term_clock();
        const char *stop = k->stopped ? "signal" : session_stop_name(g.stop);
        report_batch(k->report, prompt.n_frame, &g, stop, k->first - start, now - k->first);
        const replay run = {
            sample, *frame_base, k->n_drawn < INT_MAX ? (int)k->n_drawn : INT_MAX, NULL};
        *frame_base += g.frames.n_frame;
        k->n_drawn += g.frames.n_frame;
        if (trace) s = write_trace(k, trace, &run, batch, g.frames.n_frame, err);
        k->done[batch] = g.codes;
        g.codes = (kvref_codes){0};
    }
    kvref_frames_clear(&prompt);
    kvref_generated_clear(&g);
    return s;
}

static kvref_status
batch_with_trace(speaker *k, int sample, int batch, int *frame_base, kvref_error *err)
{
    kvref_trace *trace = NULL;
    if (!k->args->trace) return decode(k, NULL, sample, batch, frame_base, err);
    KVREF_TRY(kvref_trace_open(&trace, err));
    k->s.to = kvref_trace_tap(trace, (kvref_tap_level)(k->args->trace_level + KVREF_TAP_CODES));
    kvref_status s = decode(k, trace, sample, batch, frame_base, err);
    k->s.to = (kvref_tap){0};
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

static kvref_status
speak_once(speaker *k, int sample, speak_sink *sink, void *user, kvref_error *err)
{
    int frame_base = 0, n = k->s.batches.n;
    kvref_status s = KVREF_OK;
    k->sample_start = term_clock();
    k->all.n_book = k->s.config->n_codebook;
    for (int b = 0; b < n && s == KVREF_OK && !k->stopped; b++) {
        s = batch_with_trace(k, sample, b, &frame_base, err);
        if (s == KVREF_OK) s = append(&k->all, &k->done[b], err);
    }
    if (s == KVREF_OK && k->stopped && k->all.n_frame == 0)
        s = kvref_fail(
            err, KVREF_E_STOPPED, "stopped by a signal before a frame of sample %d", sample);
    if (s == KVREF_OK) s = sink(user, sample, &k->all, err);
    for (int b = 0; b < n; b++) kvref_codes_clear(&k->done[b]);
    kvref_codes_clear(&k->all);
    return s;
}

kvref_status speak_check(const speak_args *a, const char *out, kvref_error *err)
{
    KVREF_TRY(session_check_text(&a->text, err));
    KVREF_TRY(speak_check_output(a, NULL, "--output", out, err));
    if (a->trace) KVREF_TRY(check_read(a, "--trace", a->trace, err));
    if (a->trace) KVREF_TRY(check_output_beside("--trace", a->trace, a->decoder.model, err));
    if (a->trace && strcmp(output_or_dash(a->trace), "-") == 0)
        return kvref_fail(
            err, KVREF_E_ARG, "--trace: expected a file name, found \"%s\"", a->trace);
    const named_path path[] = {{"--output", out}, {"--trace", a->trace}};
    KVREF_TRY(check_distinct(path, 2, err));
    if (strcmp(out, "-") == 0 && a->n_sample > 1)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "--output -: expected one sample, found --samples %d",
                          a->n_sample);
    return KVREF_OK;
}

kvref_status
speak_open(speaker *k, const char *command, const speak_args *a, FILE *to, kvref_error *err)
{
    int level = a->trace ? a->trace_level + KVREF_TAP_CODES : KVREF_TAP_NONE;
    k->args = a;
    k->report = report_open(to, a->json);
    if (!k->report) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    KVREF_TRY(
        session_open(&k->s, command, &a->decoder, &a->sampling, (kvref_tap_level)level, err));
    k->s.encode = k->encode;
    k->s.encode_user = k->encode_user;
    KVREF_TRY(session_text(&k->s, &a->text, err));
    KVREF_TRY(session_check_fit(&k->s, err));
    k->done = calloc((size_t)k->s.batches.n + 1, sizeof *k->done);
    return k->done ? KVREF_OK : kvref_fail(err, KVREF_E_MEMORY, "out of memory");
}

kvref_status speak_run(speaker *k, speak_sink *sink, void *user, kvref_error *err)
{
    kvref_status s = KVREF_OK;
    if (k->keep_partial) term_hold();
    for (int i = 0; i < k->args->n_sample && s == KVREF_OK && !k->stopped; i++) {
        s = speak_once(k, i, sink, user, err);
        k->n_finished += s == KVREF_OK;
    }
    term_keep();
    if (k->keep_partial) term_release();
    return s;
}

int speak_close(speaker *k, kvref_status status, const kvref_error *err)
{
    bool good = status == KVREF_OK;
    if (good && k->args->json) report_session(k->report, &k->s);
    if (good) report_device(k->report, &k->s);
    int n_length = report_close(&k->report, good);
    const char *command = k->s.command ? k->s.command : "";
    int code = good ? 0 : term_error(command, err);
    if (!good && k->n_finished)
        fprintf(stderr,
                "kvref %s: the files of %d finished samples are kept\n",
                command,
                k->n_finished);
    if (good && k->stopped)
        fprintf(stderr, "kvref %s: stopped by a signal; what was finished is kept\n", command);
    if (good && k->args->require_end && n_length) code = 1;
    if (k->stopped) code = 128 + k->stopped;
    free(k->done);
    session_close(&k->s);
    return code;
}

kvref_status speak_path(const char **path,
                        char *out,
                        size_t cap,
                        const speaker *k,
                        const char *given,
                        int sample,
                        kvref_error *err)
{
    *path = k->args->n_sample > 1 ? out : given;
    if (k->args->n_sample == 1) return KVREF_OK;
    return report_numbered(out, cap, given, sample, err);
}
