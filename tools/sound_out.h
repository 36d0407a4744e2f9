/* SPDX-License-Identifier: MIT */
/* Codes to a sound file: decoded in pieces, so that memory does not grow with the length, and
 * put in place only when it is complete and is sound. */
#ifndef KVREF_TOOLS_SOUND_OUT_H
#define KVREF_TOOLS_SOUND_OUT_H

#include "kvref/audio.h"
#include "kvref/codec.h"
#include "tools/cli.h"
#include "tools/term.h"

#include <jansson.h>

typedef struct sound_args {
    int format;
} sound_args;

/* --format */
extern const cli_option sound_options[];

/* The format that --format or the suffix of the path asks for. */
kvref_status
sound_format(kvref_audio_format *out, const sound_args *a, const char *path, kvref_error *err);

typedef struct sound_job {
    const char *command; /* for notes                                 */
    kvref_codec *codec;
    const char *codec_name; /* for messages                              */
    const kvref_codes *codes;
    const char *codes_name; /* for messages                              */
    const char *path;       /* "-" is standard output                    */
    kvref_audio_format format;
    bool keep_partial; /* a signal ends the decoding, not the program */
} sound_job;

typedef struct sound_made {
    int rate, n_frame;
    uint64_t n_sample, n_clipped;
    uint64_t n_lowered; /* codes above their book's last, taken as the last   */
    float peak;
    uint64_t hash;  /* FNV-1a of the samples as float32, before any format */
    double decode;  /* seconds of decoding                                 */
    double compute; /* seconds of all that made it; set by the caller      */
    int stopped;    /* the signal that ended the decoding early; 0: none   */
} sound_made;

/* Errors: ARG (number of books, a negative code), FORMAT (a sample that is not finite; nothing
 * but silence), IO, MEMORY. After an error there is no file. */
kvref_status sound_make(sound_made *out, const sound_job *job, kvref_error *err);

/* One line for people, and the same as an object. */
void sound_print(FILE *to, const char *path, const sound_made *m);
json_t *sound_json(const char *path, const sound_made *m);

/* Progress: frames, seconds of audio, and how many seconds of computing one of them takes. */
void sound_meter(term_meter *m, uint64_t done, uint64_t total, double frame_seconds);

#endif
