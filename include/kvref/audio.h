/* SPDX-License-Identifier: MIT */
/* Sound files through libsndfile: anything it reads in, WAV and FLAC out (spec 06 sections 5
 * and 7). */
#ifndef KVREF_AUDIO_H
#define KVREF_AUDIO_H

#include "kvref/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sound in memory, mono. Start from {0}; free with kvref_sound_clear. */
typedef struct kvref_sound {
    float *x; /* [n] samples; integer PCM is scaled by 2^-(bits-1) to [-1, 1) */
    size_t n;
    int rate;      /* samples per second, as the file says   */
    int n_channel; /* of the file, before the mean was taken */
    /* Samples as the header of an MP3 or Ogg file states, often as an estimate; UINT64_MAX: it
     * does not, which in Ogg means that the end is lacking; 0: another format, where a number
     * that is not met is an error. */
    uint64_t n_stated;
} kvref_sound;

/* Longest sound that is read: 2^29 samples, 3.4 hours at 44100 per second (2 GiB). */
#define KVREF_SOUND_MAX ((size_t)1 << 29)

/* Reads a whole file of any format that libsndfile knows and takes the mean of its channels.
 * Memory follows what is decoded, never what a header claims. Errors: MISSING, IO (not a
 * regular file), FORMAT (unreadable, no samples, sample n is not finite, more than 64
 * channels, damaged within, shorter than its header states), UNSUPPORTED (longer than
 * KVREF_SOUND_MAX), MEMORY. */
kvref_status kvref_sound_read(kvref_sound *out, const char *path, kvref_error *err);

void kvref_sound_clear(kvref_sound *sound);

typedef enum kvref_audio_format {
    KVREF_AUDIO_PCM16, /* WAV, 16 bit: clamp(floor(x * 32768)), the default */
    KVREF_AUDIO_FLOAT, /* WAV, 32-bit float, as it is                       */
    KVREF_AUDIO_PCM24, /* WAV, 24 bit: clamp(floor(x * 2^23))               */
    KVREF_AUDIO_FLAC   /* FLAC, 16 bit, as PCM16                            */
} kvref_audio_format;

typedef struct kvref_audio_stats {
    uint64_t n;         /* samples put                 */
    uint64_t n_clipped; /* samples above 1 or below -1 */
    float peak;         /* largest magnitude           */
} kvref_audio_stats;

typedef struct kvref_audio kvref_audio;

/* Starts a mono file of rate samples per second. The bytes go to a file without a
 * name first, in folder (NULL: /tmp). n_expected, in samples, decides the container alone: data
 * that would pass 4 GiB becomes RF64 in place of WAV. *out is freed by save, send or abort.
 * Errors: ARG (format, rate), IO, MEMORY. */
kvref_status kvref_audio_open(kvref_audio **out,
                              kvref_audio_format format,
                              int rate,
                              uint64_t n_expected,
                              const char *folder,
                              kvref_error *err);

/* Appends samples x [n]. Errors: FORMAT (a sample that is not finite, named), ARG (a WAV that
 * was not opened for it would pass 4 GiB); nothing of this call is then written. IO: the disk
 * is full; the sound is then good for nothing but abort. */
kvref_status kvref_audio_put(kvref_audio *audio, const float *x, size_t n, kvref_error *err);

/* What has been put so far. */
kvref_audio_stats kvref_audio_about(const kvref_audio *audio);

/* Completes the file and puts it at path, through a temporary name. Frees *audio always. */
kvref_status kvref_audio_save(kvref_audio **audio, const char *path, kvref_error *err);

/* Completes the file and hands its bytes to sink in order. Frees *audio always. */
kvref_status kvref_audio_send(
    kvref_audio **audio,
    kvref_status (*sink)(void *user, const void *data, size_t n_byte, kvref_error *err),
    void *user,
    kvref_error *err);

/* Gives up. Accepts NULL; sets *audio to NULL. */
void kvref_audio_abort(kvref_audio **audio);

#ifdef __cplusplus
}
#endif
#endif
