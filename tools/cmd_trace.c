/* SPDX-License-Identifier: MIT */
/* kvref trace: one batch decoded, everything on the way recorded. Frames are forced, so that
 * two decoders see the same inputs at every step, or drawn. */
#include "base/base.h"
#include "tools/commands.h"
#include "tools/frames_io.h"
#include "tools/replay.h"
#include "tools/term.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct trace_args {
    decoder_args decoder;
    sampling_args sampling;
    text_args text;
    const char *prompt, *from, *forced, *out;
    int level, sample;
    bool free_running, hash;
} trace_args;

#define AT(field) offsetof(trace_args, field)
static const cli_option trace_options[] = {
    {.kind = CLI_TABLE, .name = "", .table = decoder_options, .at = AT(decoder)},
    {.kind = CLI_GROUP, .name = "What is decoded"},
    {.kind = CLI_TEXT,
     .name = "prompt",
     .arg = "FILE",
     .at = AT(prompt),
     .help = "positions: tensor \"prompt\" of a trace; an integer .npy [1+books, positions], "
             "row 0 the token ids and the others the codes, 0 where there is no sound; or an "
             ".npy [books, positions] of codes alone, whose tokens follow from the first row"},
    {.kind = CLI_TEXT,
     .name = "forced",
     .arg = "FILE",
     .at = AT(forced),
     .help = "frames to feed instead of those drawn: tensor \"frames\" of a trace, or an "
             "integer .npy of tokens and codes, or of codes alone"},
    {.kind = CLI_TEXT,
     .name = "from",
     .arg = "TRACE",
     .at = AT(from),
     .help = "prompt, forced frames and (where recorded) settings of another trace: sampling, "
             "noise, limits, rope table, linear; options given here come first"},
    {.kind = CLI_FLAG,
     .name = "free",
     .at = AT(free_running),
     .help = "with --from: draw the frames, and tell by the status whether they are the same"},
    {.kind = CLI_TABLE, .name = "", .table = text_options, .at = AT(text)},
    {.kind = CLI_TABLE, .name = "", .table = sampling_options, .at = AT(sampling)},
    {.kind = CLI_INT,
     .name = "sample",
     .arg = "N",
     .at = AT(sample),
     .min = 0,
     .max = 1000000,
     .initial = "0",
     .help = "which sample's numbers to take from counter and file noise"},
    {.kind = CLI_GROUP, .name = "Output"},
    {.kind = CLI_CHOICE,
     .name = "level",
     .arg = "LEVEL",
     .at = AT(level),
     .choices = "codes|logits|layers|ops",
     .initial = "layers",
     .help = "how much is recorded; each includes the ones before"},
    {.kind = CLI_TEXT,
     .name = "output",
     .letter = 'o',
     .arg = "FILE",
     .at = AT(out),
     .help = "the trace, as safetensors; a file, as - is not possible"},
    {.kind = CLI_FLAG,
     .name = "hash",
     .at = AT(hash),
     .help = "print only the hash of names, shapes and bits; equal traces have equal hashes "
             "whatever compiler, thread count or capacity made them"},
    {.kind = CLI_END},
};

typedef struct job {
    trace_args *args;
    session s;
    replay run;
    kvref_trace *trace;
    kvref_frames prompt, forced, expected;
    kvref_generated g;
    term_meter meter;
} job;

static int on_frame(void *user, int n_frame, int limit)
{
    term_meter_show(user, (uint64_t)n_frame, (uint64_t)limit);
    return 0;
}

static kvref_status check(const trace_args *a, const cli_given *given, kvref_error *err)
{
    bool text = a->text.text || a->text.text_file;
    if (!!a->prompt + !!a->from + text != 1 && !(a->from && !text))
        return kvref_fail(
            err, KVREF_E_ARG, "--prompt, --from, --text and --text-file: expected one of them");
    if (text) KVREF_TRY(session_check_text(&a->text, err));
    if (!text && a->text.reference_text.n + a->text.reference.n)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "--reference-text and --reference-codes: expected a text with them");
    if (a->free_running && (!a->from || a->forced))
        return kvref_fail(
            err, KVREF_E_ARG, "--free: expected --from, and no --forced, with it");
    if (!a->out && !a->hash)
        return kvref_fail(err, KVREF_E_ARG, "--output and --hash: expected one of them");
    if (a->out && strcmp(output_or_dash(a->out), "-") == 0)
        return kvref_fail(err, KVREF_E_ARG, "--output: expected a file name, found \"-\"");
    (void)given;
    if (!a->out) return KVREF_OK;
    const char *noise = a->sampling.noise;
    const named_path read[] = {{"--prompt", a->prompt},
                               {"--from", a->from},
                               {"--forced", a->forced},
                               {"--text-file", a->text.text_file},
                               {"--noise", strncmp(noise, "file:", 5) ? NULL : noise + 5}};
    KVREF_TRY(check_not_read("--output", a->out, read, 5, err));
    for (int i = 0; i < a->text.reference.n; i++) {
        const named_path reference = {"a reference", a->text.reference.item[i]};
        KVREF_TRY(check_not_read("--output", a->out, &reference, 1, err));
    }
    return check_output_beside("--output", a->out, a->decoder.model, err);
}

static kvref_status read_inputs(job *j, kvref_error *err)
{
    const trace_args *a = j->args;
    const char *prompt = a->prompt ? a->prompt : a->from;
    const char *forced = a->forced ? a->forced : a->from;
    if (prompt) {
        KVREF_TRY(blame(a->prompt ? "--prompt" : "--from",
                        frames_read(&j->prompt, prompt, "prompt", j->s.config, err),
                        err));
    } else {
        KVREF_TRY(session_text(&j->s, &a->text, err));
        if (j->s.batches.n != 1)
            return kvref_fail(err,
                              KVREF_E_ARG,
                              "--text: expected one batch to trace, found %d; a larger "
                              "--chunk-length, or generate --trace, helps",
                              j->s.batches.n);
        KVREF_TRY(session_prompt(&j->s, &j->prompt, NULL, 0, err));
    }
    kvref_frames *to = a->free_running ? &j->expected : &j->forced;
    if (!forced) return KVREF_OK;
    return blame(a->forced ? "--forced" : "--from",
                 frames_read(to, forced, "frames", j->s.config, err),
                 err);
}

/* The ids that can be drawn, ascending; slow.logits has a column for every id, drawn or not. */
static kvref_status put_candidates(job *j, kvref_error *err)
{
    int n = kvref_config_candidates(j->s.config, NULL, 0);
    int32_t *id = malloc((size_t)n * sizeof *id);
    if (!id) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    kvref_config_candidates(j->s.config, id, n);
    kvref_status s = kvref_trace_ints(j->trace, "candidates", id, n, 0, err);
    free(id);
    return s;
}

static kvref_status decode(job *j, kvref_error *err)
{
    kvref_generate_opts opts = session_generate_opts(&j->s);
    opts.sample = j->run.sample;
    opts.frame_base = j->run.frame_base;
    opts.trace = j->trace;
    opts.forced = j->forced.n_frame ? &j->forced : NULL;
    opts.progress = on_frame;
    opts.user = &j->meter;
    if (opts.forced || j->args->free_running) {
        int n = opts.forced ? j->forced.n_frame : j->expected.n_frame;
        if (opts.max_new_tokens == 0 || opts.forced) opts.max_new_tokens = n;
    }
    term_meter_open(&j->meter, "tracing", "frames");
    kvref_status s = kvref_generate(
        j->s.backend, j->s.decoder, j->s.config, &j->g, &j->prompt, j->s.noise, &opts, err);
    term_meter_close(&j->meter);
    return s;
}

static kvref_status write_trace(job *j, kvref_error *err)
{
    KVREF_TRY(session_describe(&j->s, j->trace, err));
    KVREF_TRY(replay_describe(&j->run, j->trace, err));
    KVREF_TRY(kvref_trace_meta(j->trace, "stop", session_stop_name(j->g.stop), err));
    if (j->s.text) KVREF_TRY(kvref_trace_meta(j->trace, "text", j->s.text, err));
    if (!j->args->out) return KVREF_OK;
    term_writing(j->args->out);
    kvref_status s = kvref_trace_write(j->trace, j->args->out, j->g.frames.n_frame, err);
    term_written();
    return s;
}

static kvref_status record(job *j, const cli_given *given, kvref_error *err)
{
    trace_args *a = j->args;
    kvref_tap_level level = (kvref_tap_level)(a->level + KVREF_TAP_CODES);
    KVREF_TRY(check(a, given, err));
    j->run.sample = a->sample;
    if (a->from)
        KVREF_TRY(replay_read(&j->run, &a->decoder, &a->sampling, a->from, given, err));
    KVREF_TRY(session_open(&j->s, "trace", &a->decoder, &a->sampling, level, err));
    KVREF_TRY(read_inputs(j, err));
    if (a->free_running) KVREF_TRY(replay_pass_over(&j->run, &j->s, err));
    KVREF_TRY(kvref_trace_open(&j->trace, err));
    j->s.to = kvref_trace_tap(j->trace, level);
    if (level >= KVREF_TAP_LOGITS) KVREF_TRY(put_candidates(j, err));
    KVREF_TRY(decode(j, err));
    return write_trace(j, err);
}

/* The first column where drawn and expected frames part; -1: none. */
static int first_difference(const kvref_frames *a, const kvref_frames *b)
{
    int n = a->n_frame < b->n_frame ? a->n_frame : b->n_frame;
    size_t n_row = (size_t)a->n_row;
    for (int t = 0; t < n; t++)
        if (memcmp(a->value + (size_t)t * n_row,
                   b->value + (size_t)t * n_row,
                   n_row * sizeof *a->value) != 0)
            return t;
    return a->n_frame == b->n_frame ? -1 : n;
}

/* A trace of numbers that are none is written, but must not pass for a good one. */
static int check_finite(const job *j)
{
    int row;
    const char *name = kvref_trace_not_finite(j->trace, &row);
    if (!name) return 0;
    fprintf(stderr, "kvref trace: %s: row %d holds a NaN or an infinity\n", name, row);
    return 1;
}

static int conclude(job *j)
{
    int status = check_finite(j);
    uint64_t hash = kvref_trace_hash(j->trace);
    char name[400];
    if (j->args->hash) {
        printf("%016" PRIx64 "\n", hash);
    } else {
        printf("%s: %d positions, then %d frames, stopped by %s; hash %016" PRIx64 "\n",
               term_clean(name, sizeof name, j->args->out),
               j->prompt.n_frame,
               j->g.frames.n_frame,
               session_stop_name(j->g.stop),
               hash);
    }
    if (!j->args->free_running) return status;
    int at = first_difference(&j->g.frames, &j->expected);
    if (at < 0) {
        fprintf(
            stderr, "frames equal those of %s\n", term_clean(name, sizeof name, j->args->from));
    } else {
        fprintf(stderr,
                "frames differ from those of %s at frame %d\n",
                term_clean(name, sizeof name, j->args->from),
                at);
    }
    return at < 0 ? status : 1;
}

static int run_trace(const cli_command *self, void *args, const cli_given *given)
{
    kvref_error err = {0};
    job j = {.args = args};
    kvref_status s = record(&j, given, &err);
    int status = s == KVREF_OK ? conclude(&j) : term_error(self->name, &err);
    kvref_trace_close(&j.trace);
    kvref_generated_clear(&j.g);
    kvref_frames_clear(&j.prompt);
    kvref_frames_clear(&j.forced);
    kvref_frames_clear(&j.expected);
    session_close(&j.s);
    replay_clear(&j.run);
    return status;
}

const cli_command cmd_trace = {
    .name = "trace",
    .summary = "Decode one batch and record what every layer computes",
    .usage = "--model DIR (--text TEXT | --prompt FILE | --from TRACE) (-o FILE | --hash) "
             "[options]",
    .text =
        "Tensors and axes: slow.* have positions first, slow.norm, slow.logits and slow.hidden "
        "frames, fast.* [frame, codebook position]; slow.logits has one column per id of the "
        "vocabulary; \"candidates\" lists the ids that can be drawn.\n"
        "Forced frames keep two decoders on the same inputs, so that traces can be compared to "
        "the end.",
    .option = trace_options,
    .status =
        "0 recorded; 1 recorded, but a value is NaN or infinite, or with --free the frames "
        "are other than those of --from; 2 failed",
    .example = "kvref make-model toy        # once, for the others\n"
               "kvref trace --model toy --text Hello -o hello.st\n"
               "kvref trace --model toy --from hello.st --level ops -o again.st\n"
               "kvref trace --model toy --from hello.st --free --hash",
    .n_args = sizeof(trace_args),
    .run = run_trace,
};
