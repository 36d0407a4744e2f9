/* SPDX-License-Identifier: MIT */
/* Encoding a sound file (spec 06 sections 4 and 5). */
#include "tools/sound_in.h"

#include "base/base.h"
#include "tools/term.h"

#include <math.h>
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

/* Before it is resampled and encoded. */
static kvref_status check_frames(const kvref_sound *sound,
                                 const kvref_codec_info *info,
                                 int max_frame,
                                 kvref_error *err)
{
    double n_frame =
        ceil((double)sound->n / sound->rate * info->sample_rate / (double)info->frame);
    if (n_frame <= max_frame) return KVREF_OK;
    return kvref_fail(err,
                      KVREF_E_CAPACITY,
                      "expected at most %d frames (%.1f s), the prompt's limit less earlier "
                      "references, found %.0f (%.1f s)",
                      max_frame,
                      (double)max_frame * info->frame / info->sample_rate,
                      n_frame,
                      (double)sound->n / sound->rate);
}

static void note_count(const kvref_sound *sound, const char *path, const char *command)
{
    kvref_log log = term_notes(command);
    if (sound->n_stated == UINT64_MAX)
        kvref_note(&log, "%s: its end is lacking; taken as far as it goes", path);
    else if (sound->n_stated && sound->n_stated != sound->n)
        kvref_note(&log,
                   "%s: its header tells of %llu samples, found %zu; it may have been cut",
                   path,
                   (unsigned long long)sound->n_stated,
                   sound->n);
}

static kvref_status encode(kvref_codes *out,
                           sound_taken *t,
                           kvref_codec *codec,
                           kvref_sound *sound,
                           int max_frame,
                           kvref_error *err)
{
    const kvref_codec_info *info = kvref_codec_about(codec);
    int rate = info->sample_rate;
    float *x = NULL;
    kvref_status s = check_length(sound, rate, err);
    if (s == KVREF_OK && max_frame) s = check_frames(sound, info, max_frame, err);
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
                          const sound_take *take,
                          kvref_error *err)
{
    const char *path = take->path;
    kvref_sound sound;
    term_meter meter;
    char text[80];
    double start = term_clock();
    *out = (kvref_codes){0};
    term_mute(); /* the MP3 reader writes to standard error */
    kvref_status s = kvref_sound_read(&sound, path, err);
    term_unmute();
    KVREF_TRY(s);
    note_count(&sound, path, take->command);
    *taken = (sound_taken){.rate = sound.rate, .n_channel = sound.n_channel, .n = sound.n};
    snprintf(text, sizeof text, "%.1f s of sound", (double)sound.n / sound.rate);
    term_meter_open(&meter, "encoding", "frames");
    term_meter_text(&meter, text);
    s = encode(out, taken, codec, &sound, take->max_frame, err);
    term_meter_close(&meter);
    taken->compute = term_clock() - start;
    if (s == KVREF_OK) return KVREF_OK;
    kvref_error cause = *err;
    return kvref_fail(err, s, "%s: %s", path, cause.text);
}
