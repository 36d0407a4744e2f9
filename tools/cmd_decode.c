/* SPDX-License-Identifier: MIT */
/* kvref decode: codes to sound. */
#include "base/base.h"
#include "tools/codec_args.h"
#include "tools/commands.h"
#include "tools/paths.h"
#include "tools/session.h"
#include "tools/sound_out.h"

#include <string.h>

/* 13 hours: as many samples as the largest .wav holds. */
enum { MAX_FRAME = 1 << 20 };

typedef struct decode_args {
    codec_args codec;
    sound_args sound;
    const char *in, *out;
    bool json;
} decode_args;

#define AT(field) offsetof(decode_args, field)
static const cli_option decode_options[] = {
    {.kind = CLI_TEXT,
     .name = "CODES",
     .operand = true,
     .required = true,
     .at = AT(in),
     .help = "codes as .npy, integers [books, frames]"},
    {.kind = CLI_TABLE, .name = "", .table = codec_alone_options, .at = AT(codec)},
    {.kind = CLI_GROUP, .name = "Output"},
    {.kind = CLI_TEXT,
     .name = "output",
     .letter = 'o',
     .arg = "FILE",
     .required = true,
     .at = AT(out),
     .help = "sound file; - is standard output"},
    {.kind = CLI_TABLE, .name = "", .table = sound_options, .at = AT(sound)},
    {.kind = CLI_FLAG,
     .name = "json",
     .at = AT(json),
     .help = "report as one JSON object instead of a line"},
    {.kind = CLI_END},
};

static kvref_status decode(sound_made *made,
                           const char *command,
                           const decode_args *a,
                           kvref_audio_format format,
                           kvref_error *err)
{
    kvref_codes codes = {0};
    kvref_codec *codec = NULL;
    sound_job job = {.command = command,
                     .codes = &codes,
                     .codes_name = a->in,
                     .path = a->out,
                     .format = format,
                     .codec_name = a->codec.codec ? a->codec.codec : a->codec.model};
    KVREF_TRY(codec_check(&a->codec, err));
    const named_path codes_file = {"CODES", a->in};
    const char *checkpoint = job.codec_name;
    KVREF_TRY(check_not_dash("CODES", a->in, err));
    KVREF_TRY(check_not_read("--output", a->out, &codes_file, 1, err));
    KVREF_TRY(check_output_beside("--output", a->out, checkpoint, err));
    kvref_map probe; /* a wrong path is told before the codec is loaded */
    KVREF_TRY(blame("CODES", kvref_map_open(&probe, a->in, err), err));
    kvref_map_close(&probe);
    kvref_status s = codec_start(&codec, command, &a->codec, KVREF_CODEC_DECODE, err);
    if (s == KVREF_OK) {
        int n_book = kvref_codec_about(codec)->n_book;
        s = blame("CODES", kvref_codes_read(&codes, a->in, n_book, MAX_FRAME, err), err);
    }
    job.codec = codec;
    if (s == KVREF_OK) s = sound_make(made, &job, err);
    kvref_codec_close(&codec);
    kvref_codes_clear(&codes);
    return s;
}

static int run_decode(const cli_command *self, void *args, const cli_given *given)
{
    (void)given;
    decode_args *a = args;
    kvref_error err = {0};
    sound_made made;
    kvref_audio_format format;
    kvref_status s = sound_format(&format, &a->sound, a->out, &err);
    a->out = output_or_dash(a->out);
    if (s == KVREF_OK) s = decode(&made, self->name, a, format, &err);
    if (s != KVREF_OK) return term_error(self->name, &err);
    FILE *to = strcmp(a->out, "-") == 0 ? stderr : stdout; /* the sound goes to the other */
    if (a->json) {
        json_t *o = sound_json(a->out, &made);
        json_dumpf(o, to, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        fputc('\n', to);
        json_decref(o);
    } else {
        sound_print(to, a->out, &made);
    }
    return 0;
}

const cli_command cmd_decode = {
    .name = "decode",
    .summary = "Turn codes into sound",
    .usage = "CODES (--codec PATH | --model DIR) -o FILE [options]",
    .text =
        "Decodes a few frames at a time, in memory that does not grow with the length; the "
        "samples do not depend on that. Codes above the last of their book count as the last, "
        "and are reported.\n"
        "The real-time factor is seconds of computing for one second of sound; the hash is "
        "FNV-1a of the samples in float32. At most 1048576 frames are taken. Nothing but "
        "silence, or samples that are not "
        "numbers, are an error, and no file is written.",
    .option = decode_options,
    .status = "0 decoded, 2 failed (bad option, codes or codec, no sound, no place to write)",
    .example = "kvref make-model toy        # once; codes by kvref generate\n"
               "kvref decode codes.npy --model toy -o out.wav\n"
               "kvref decode codes.npy --codec codec.pth --format float -o -",
    .n_args = sizeof(decode_args),
    .run = run_decode,
};
