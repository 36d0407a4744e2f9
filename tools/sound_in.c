/* SPDX-License-Identifier: MIT */
/* Encoding a sound file (spec 06 sections 4 and 5). */
#include "tools/sound_in.h"

#include "base/base.h"
#include "tools/term.h"

#include <stdio.h>
#include <stdlib.h>

/* A small file of a low rate may be hours of sound. */
static kvref_status check_length(const kvref_sound *sound, int rate, kvref_error *err)
{
    if ((uint64_t)sound->n * (uint64_t)rate <= KVREF_SOUND_MAX * (uint64_t)sound->rate)
        return KVREF_OK;
    return kvref_fail(err,
                      KVREF_E_UNSUPPORTED,
                      "expected at most %zu samples at %d Hz, found %.0f s of sound",
                      KVREF_SOUND_MAX,
                      rate,
                      (double)sound->n / sound->rate);
}

static kvref_status encode(
    kvref_codes *out, sound_taken *t, kvref_codec *codec, kvref_sound *sound, kvref_error *err)
{
    int rate = kvref_codec_about(codec)->sample_rate;
    float *x = NULL;
    kvref_status s = check_length(sound, rate, err);
    if (s == KVREF_OK)
        s = kvref_resample(&x, &t->n_resampled, sound->x, sound->n, sound->rate, rate, err);
    kvref_sound_clear(sound); /* a long sound need not be held twice */
    if (s == KVREF_OK) s = kvref_codec_encode(codec, out, x, t->n_resampled, err);
    free(x);
    return s;
}

kvref_status sound_encode(kvref_codes *out,
                          sound_taken *taken,
                          kvref_codec *codec,
                          const char *path,
                          kvref_error *err)
{
    kvref_sound sound;
    term_meter meter;
    char text[80];
    double start = term_clock();
    *out = (kvref_codes){0};
    KVREF_TRY(kvref_sound_read(&sound, path, err));
    *taken = (sound_taken){.rate = sound.rate, .n_channel = sound.n_channel, .n = sound.n};
    snprintf(text, sizeof text, "%.1f s of sound", (double)sound.n / sound.rate);
    term_meter_open(&meter, "encoding", "frames");
    term_meter_text(&meter, text);
    kvref_status s = encode(out, taken, codec, &sound, err);
    term_meter_close(&meter);
    taken->compute = term_clock() - start;
    if (s == KVREF_OK) return KVREF_OK;
    kvref_error cause = *err;
    return kvref_fail(err, s, "%s: %s", path, cause.text);
}
