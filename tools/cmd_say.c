/* SPDX-License-Identifier: MIT */
/* kvref say: text to sound. The codes of all batches of a sample are decoded together, as the
 * upstream command line does (spec 05 section 7). */
#include "base/base.h"
#include "tools/codec_args.h"
#include "tools/commands.h"
#include "tools/sound_in.h"
#include "tools/sound_out.h"
#include "tools/speak.h"

#include <string.h>

typedef struct say_args {
    speak_args speak;
    codec_args codec;
    sound_args sound;
    const char *out, *codes_out;
    bool keep_partial;
} say_args;

#define AT(field) offsetof(say_args, field)
static const cli_option say_options[] = {
    {.kind = CLI_TABLE, .name = "", .table = speak_options, .at = AT(speak)},
    {.kind = CLI_TABLE, .name = "", .table = codec_options, .at = AT(codec)},
    {.kind = CLI_LIST,
     .name = "reference",
     .arg = "SOUND",
     .at = AT(speak.text.reference),
     .help = "recording of a voice to speak with, of any format that libsndfile reads; may be "
             "mixed with --reference-codes"},
    {.kind = CLI_GROUP, .name = "Output"},
    {.kind = CLI_TEXT,
     .name = "output",
     .letter = 'o',
     .arg = "FILE",
     .required = true,
     .at = AT(out),
     .help = "sound file; - is standard output. With several samples out.wav becomes "
             "out_0.wav, out_1.wav, ..."},
    {.kind = CLI_TABLE, .name = "", .table = sound_options, .at = AT(sound)},
    {.kind = CLI_TEXT,
     .name = "codes-out",
     .arg = "FILE",
     .at = AT(codes_out),
     .help = "also write the codes as .npy, numbered in the same way"},
    {.kind = CLI_FLAG,
     .name = "keep-partial",
     .at = AT(keep_partial),
     .help = "Ctrl-C ends the speaking, and what was spoken is decoded and kept; a second one "
             "ends the decoding too. The status is 128 + the signal all the same. Without it "
             "Ctrl-C removes what this run has finished, earlier samples included"},
    {.kind = CLI_END},
};

typedef struct job {
    const say_args *args;
    speaker k;
    kvref_codec *codec;
    kvref_audio_format format;
    int n_frame; /* of the recordings encoded so far */
} job;

static kvref_status check_books(const job *j, kvref_error *err)
{
    int want = j->k.s.config->n_codebook, found = kvref_codec_about(j->codec)->n_book;
    if (want == found) return KVREF_OK;
    return kvref_fail(
        err, KVREF_E_ARG, "codec: expected %d books as in the model, found %d", want, found);
}

static kvref_status
encode_reference(void *user, kvref_codes *out, const char *path, kvref_error *err)
{
    job *j = user;
    sound_taken taken;
    KVREF_TRY(check_books(j, err));
    int limit = kvref_prompt_limit(j->k.s.config->max_seq_len);
    int room = limit > j->n_frame ? limit - j->n_frame : 1;
    const sound_take take = {.path = path, .command = j->k.s.command, .max_frame = room};
    KVREF_TRY(sound_encode(out, &taken, j->codec, &take, err));
    j->n_frame += out->n_frame;
    kvref_note(&j->k.s.log,
               "%s: %.3f s at %d Hz, %d channels: %d frames",
               path,
               (double)taken.n / taken.rate,
               taken.rate,
               taken.n_channel,
               out->n_frame);
    return KVREF_OK;
}

/* The sound is in place already. */
static kvref_status write_codes(
    job *j, const kvref_codes *codes, const char *path, const char *sound, kvref_error *err)
{
    term_writing(path);
    kvref_status s = kvref_codes_write(codes, path, err);
    term_written();
    if (s == KVREF_OK && !j->args->keep_partial) term_undo(path);
    if (s == KVREF_OK) return s;
    kvref_error cause = *err;
    return kvref_fail(err, s, "--codes-out: %s; the sound %s is kept", cause.text, sound);
}

static kvref_status
write_sound(void *user, int sample, const kvref_codes *codes, kvref_error *err)
{
    job *j = user;
    const say_args *a = j->args;
    char out[4096], codes_out[4096];
    const char *path, *codes_path = NULL;
    sound_made made;
    KVREF_TRY(speak_path(&path, out, sizeof out, &j->k, a->out, sample, err));
    if (a->codes_out)
        KVREF_TRY(speak_path(
            &codes_path, codes_out, sizeof codes_out, &j->k, a->codes_out, sample, err));
    const named_path both[] = {{"--output", path}, {"--codes-out", codes_path}};
    KVREF_TRY(check_distinct(both, 2, err));
    sound_job to = {.command = j->k.s.command,
                    .codec = j->codec,
                    .codec_name = a->codec.codec ? a->codec.codec : a->speak.decoder.model,
                    .codes = codes,
                    .codes_name = path,
                    .path = path,
                    .format = j->format,
                    .keep_partial = a->keep_partial};
    KVREF_TRY(sound_make(&made, &to, err));
    if (made.stopped) j->k.stopped = made.stopped;
    made.compute = term_clock() - j->k.sample_start;
    if (!a->keep_partial) term_undo(path);
    kvref_status s = codes_path ? write_codes(j, codes, codes_path, path, err) : KVREF_OK;
    if (s == KVREF_OK) report_sample(j->k.report, codes_path, codes, path, &made);
    return s;
}

static kvref_status check(job *j, kvref_error *err)
{
    const say_args *a = j->args;
    KVREF_TRY(speak_check(&a->speak, a->out, err));
    KVREF_TRY(speak_check_output(&a->speak, a->codec.codec, "--output", a->out, err));
    if (a->speak.trace && a->codec.codec)
        KVREF_TRY(check_output_beside("--trace", a->speak.trace, a->codec.codec, err));
    if (!a->codes_out) return KVREF_OK;
    if (strcmp(output_or_dash(a->codes_out), "-") == 0)
        return kvref_fail(
            err, KVREF_E_ARG, "--codes-out: expected a file name, found \"%s\"", a->codes_out);
    const named_path path[] = {
        {"--output", a->out}, {"--trace", a->speak.trace}, {"--codes-out", a->codes_out}};
    KVREF_TRY(check_distinct(path, 3, err));
    KVREF_TRY(check_codes_name("--codes-out", a->codes_out, err));
    return speak_check_output(&a->speak, a->codec.codec, "--codes-out", a->codes_out, err);
}

/* The codec, the parts that are needed. Before the text is read: this may start the program
 * again. */
static kvref_status open_codec(job *j, const char *command, kvref_error *err)
{
    const say_args *a = j->args;
    const decoder_args *d = &a->speak.decoder;
    const cli_list *reference = &a->speak.text.reference;
    codec_args c = a->codec;
    unsigned parts = KVREF_CODEC_DECODE;
    c.model = d->model;
    c.n_thread = d->n_thread;
    c.verbose = d->verbose;
    for (int i = 0; i < reference->n; i++)
        if (strcmp(reference->by[i], "reference") == 0) parts |= KVREF_CODEC_ENCODE;
    KVREF_TRY(codec_start(&j->codec, command, &c, parts, err));
    const kvref_codec_info *info = kvref_codec_about(j->codec);
    j->k.frame_seconds = (double)info->frame / info->sample_rate;
    return KVREF_OK;
}

static int run_say(const cli_command *self, void *args, const cli_given *given)
{
    (void)given;
    say_args *a = args;
    kvref_error err = {0};
    job j = {.args = a};
    kvref_status s = sound_format(&j.format, &a->sound, a->out, &err);
    a->out = output_or_dash(a->out);
    FILE *to = strcmp(a->out, "-") == 0 ? stderr : stdout; /* the sound goes to the other */
    if (s == KVREF_OK) s = check(&j, &err);
    if (s == KVREF_OK) s = open_codec(&j, self->name, &err);
    if (s != KVREF_OK) return term_error(self->name, &err);
    j.k.keep_partial = a->keep_partial;
    j.k.encode = encode_reference;
    j.k.encode_user = &j;
    s = speak_open(&j.k, self->name, &a->speak, to, &err);
    if (s == KVREF_OK) s = check_books(&j, &err); /* without a reference not yet done */
    if (s == KVREF_OK) s = speak_run(&j.k, write_sound, &j, &err);
    if (j.k.report) report_setting(j.k.report, "conv", a->codec.conv ? "exact" : "blas");
    kvref_codec_close(&j.codec);
    return speak_close(&j.k, s, &err);
}

const cli_command cmd_say = {
    .name = "say",
    .summary = "Speak a text: sound",
    .usage = "--model DIR (--text TEXT | --text-file FILE) -o FILE [options]",
    .text =
        "Speaks as generate does, then decodes the codes of all batches of a sample together. "
        "With the same seed, --linear exact and --conv exact the file has the same bits on "
        "every machine.\n"
        "The real-time factor is seconds of computing, from the prompt on, for one second of "
        "sound; the hash is FNV-1a of the samples in float32. Speech without one frame, "
        "silence, "
        "or samples that are not numbers are an error, and no file is written; Ctrl-C leaves "
        "no "
        "partial file unless it is asked to.",
    .option = say_options,
    .status = "0 spoken, 1 with --require-end: stopped by length, 2 failed (bad option, text, "
              "model or codec, a prompt or budget that does not fit, no sound)",
    .example = "kvref make-model toy        # once, for the others\n"
               "kvref say --model toy --text 'Hello.' -o hello.wav\n"
               "kvref say --model toy --text-file talk.txt --samples 3 -o talk.flac\n"
               "kvref say --model toy --text Hi --reference a.wav --reference-text A -o b.wav",
    .n_args = sizeof(say_args),
    .run = run_say,
};
