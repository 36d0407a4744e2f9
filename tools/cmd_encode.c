/* SPDX-License-Identifier: MIT */
/* kvref encode: sound to codes. */
#include "base/base.h"
#include "tools/codec_args.h"
#include "tools/commands.h"
#include "tools/paths.h"
#include "tools/report.h"
#include "tools/session.h"
#include "tools/sound_in.h"
#include "tools/term.h"

#include <jansson.h>
#include <string.h>

typedef struct encode_args {
    codec_args codec;
    const char *in, *out;
    bool json;
} encode_args;

#define AT(field) offsetof(encode_args, field)
static const cli_option encode_options[] = {
    {.kind = CLI_TEXT,
     .name = "SOUND",
     .operand = true,
     .required = true,
     .at = AT(in),
     .help = "sound file of any format that libsndfile reads: WAV, FLAC, Ogg, MP3 and more"},
    {.kind = CLI_TABLE, .name = "", .table = codec_alone_options, .at = AT(codec)},
    {.kind = CLI_GROUP, .name = "Output"},
    {.kind = CLI_TEXT,
     .name = "output",
     .letter = 'o',
     .arg = "FILE",
     .required = true,
     .at = AT(out),
     .help = "codes as .npy, int64 [books, frames]; - is standard output"},
    {.kind = CLI_FLAG,
     .name = "json",
     .at = AT(json),
     .help = "report as one JSON object instead of a line"},
    {.kind = CLI_END},
};

static void print(const encode_args *a, const sound_taken *t, const kvref_codes *codes)
{
    FILE *to = strcmp(a->out, "-") == 0 ? stderr : stdout; /* the codes go to the other */
    double seconds = (double)t->n / t->rate;
    char hash[20], in[400], out[400];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)report_hash_codes(codes));
    if (!a->json) {
        fprintf(to,
                "%s: %d Hz, %d channels, %zu samples, %.3f s\n"
                "%s: %d books, %d frames, hash %s; real-time factor %.3f\n",
                term_clean(in, sizeof in, a->in),
                t->rate,
                t->n_channel,
                t->n,
                seconds,
                term_clean(out, sizeof out, a->out),
                codes->n_book,
                codes->n_frame,
                hash,
                t->compute / seconds);
        return;
    }
    json_t *o = json_pack("{s:s,s:i,s:i,s:I,s:f,s:I,s:s,s:i,s:i,s:s,s:f}",
                          "sound",
                          term_clean(in, sizeof in, a->in),
                          "sample_rate",
                          t->rate,
                          "channels",
                          t->n_channel,
                          "samples",
                          (json_int_t)t->n,
                          "seconds",
                          seconds,
                          "resampled",
                          (json_int_t)t->n_resampled,
                          "file",
                          term_clean(out, sizeof out, a->out),
                          "books",
                          codes->n_book,
                          "frames",
                          codes->n_frame,
                          "hash",
                          hash,
                          "real_time_factor",
                          t->compute / seconds);
    json_dumpf(o, to, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    fputc('\n', to);
    json_decref(o);
}

static kvref_status encode(const char *command, const encode_args *a, kvref_error *err)
{
    kvref_codes codes = {0};
    kvref_codec *codec = NULL;
    sound_taken taken;
    const sound_take take = {.path = a->in, .command = command};
    KVREF_TRY(codec_check(&a->codec, err));
    const named_path sound = {"SOUND", a->in};
    const char *checkpoint = a->codec.codec ? a->codec.codec : a->codec.model;
    KVREF_TRY(check_not_dash("SOUND", a->in, err));
    KVREF_TRY(check_codes_name("--output", a->out, err));
    KVREF_TRY(check_not_read("--output", a->out, &sound, 1, err));
    KVREF_TRY(check_output_beside("--output", a->out, checkpoint, err));
    kvref_map probe; /* a wrong path is told before the codec is loaded */
    KVREF_TRY(blame("SOUND", kvref_map_open(&probe, a->in, err), err));
    kvref_map_close(&probe);
    kvref_status s = codec_start(&codec, command, &a->codec, KVREF_CODEC_ENCODE, err);
    if (s == KVREF_OK) s = blame("SOUND", sound_encode(&codes, &taken, codec, &take, err), err);
    if (s == KVREF_OK) {
        term_writing(a->out);
        s = kvref_codes_write(&codes, a->out, err);
        term_written();
    }
    if (s == KVREF_OK) print(a, &taken, &codes);
    kvref_codes_clear(&codes);
    kvref_codec_close(&codec);
    return s;
}

static int run_encode(const cli_command *self, void *args, const cli_given *given)
{
    (void)given;
    encode_args *a = args;
    kvref_error err = {0};
    a->out = output_or_dash(a->out);
    return encode(self->name, a, &err) == KVREF_OK ? 0 : term_error(self->name, &err);
}

const cli_command cmd_encode = {
    .name = "encode",
    .summary = "Turn a recording into codes",
    .usage = "SOUND (--codec PATH | --model DIR) -o FILE [options]",
    .text = "Takes the mean of the channels, resamples to the rate of the codec, and encodes. "
            "Neither loudness nor length is changed; the last frame is filled up with zeros.\n"
            "The sound is held in memory, 4 bytes for each sample of the file and 4 for each "
            "at the "
            "rate of the codec. At most 536870912 samples are taken, 3.4 hours at 44100 Hz.\n"
            "The real-time factor is seconds of computing for one second of sound; the hash is "
            "FNV-1a of the codes as 32-bit integers in the order of time.",
    .option = encode_options,
    .status = "0 encoded, 2 failed (bad option, sound or codec, no place to write)",
    .example = "kvref make-model toy        # once; any recording will do\n"
               "kvref encode voice.wav --model toy -o voice.npy\n"
               "kvref encode voice.mp3 --codec codec.pth -o -",
    .n_args = sizeof(encode_args),
    .run = run_encode,
};
