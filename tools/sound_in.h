/* SPDX-License-Identifier: MIT */
/* A sound file to codes: any format libsndfile reads, mixed to one channel, resampled. */
#ifndef KVREF_TOOLS_SOUND_IN_H
#define KVREF_TOOLS_SOUND_IN_H

#include "kvref/audio.h"
#include "kvref/codec.h"

typedef struct sound_taken {
    int rate, n_channel; /* of the file          */
    size_t n;            /* samples in the file  */
    size_t n_resampled;  /* at the codec's rate  */
    double compute;      /* seconds of computing */
} sound_taken;

typedef struct sound_take {
    const char *path, *command; /* the command for notes                       */
    int max_frame;              /* more are refused before encoding; 0: no limit */
} sound_take;

/* Codes of the whole file; free by kvref_codes_clear. */
kvref_status sound_encode(kvref_codes *out,
                          sound_taken *taken,
                          kvref_codec *codec,
                          const sound_take *take,
                          kvref_error *err);

#endif
