/* SPDX-License-Identifier: MIT */
/* Sound files in: libsndfile decodes, the channels are averaged in float32 (spec 06 section
 * 4). Nothing a header claims is believed: memory grows with the samples that arrive. */
#include "base/audio_stated.h"
#include "kvref/audio.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sndfile.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1 << 14, MAX_CHANNEL = 64 };

/* Mean over the channels of frames x [n, n_channel], appended to the sound. */
static kvref_status append(
    kvref_sound *out, size_t *cap, const float *x, size_t n, const char *path, kvref_error *err)
{
    void *data = out->x;
    kvref_status s = kvref_grow(&data, cap, out->n + n, sizeof *out->x, err);
    out->x = data;
    KVREF_TRY(s);
    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        for (int c = 0; c < out->n_channel; c++)
            sum += x[i * (size_t)out->n_channel + (size_t)c];
        float mean = out->n_channel == 1 ? sum : sum / (float)out->n_channel;
        if (!isfinite(mean))
            return kvref_fail(
                err, KVREF_E_FORMAT, "%s: sample %zu is not finite", path, out->n + i);
        out->x[out->n + i] = mean;
    }
    out->n += n;
    return KVREF_OK;
}

static kvref_status
read_all(kvref_sound *out, SNDFILE *file, const char *path, kvref_error *err)
{
    float *block = malloc(sizeof *block * BLOCK * (size_t)out->n_channel);
    if (!block) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    kvref_status s = KVREF_OK;
    size_t cap = 0;
    for (;;) {
        sf_count_t n = sf_readf_float(file, block, BLOCK);
        if (sf_error(file) != SF_ERR_NO_ERROR)
            s = kvref_fail(err,
                           KVREF_E_FORMAT,
                           "%s: damaged after sample %zu: %s",
                           path,
                           out->n,
                           sf_strerror(file));
        if (s != KVREF_OK || n <= 0) break;
        if ((size_t)n > KVREF_SOUND_MAX - out->n)
            s = kvref_fail(
                err, KVREF_E_UNSUPPORTED, "%s: longer than %zu samples", path, KVREF_SOUND_MAX);
        else
            s = append(out, &cap, block, (size_t)n, path, err);
        if (s != KVREF_OK) break;
    }
    free(block);
    if (s == KVREF_OK && out->n == 0)
        s = kvref_fail(err, KVREF_E_FORMAT, "%s: holds no samples", path);
    return s;
}

/* The same refusals as for every other input, and of a file that ends too early. */
static kvref_status check_file(const char *path, kvref_error *err)
{
    kvref_map map;
    uint64_t stated, found;
    KVREF_TRY(kvref_map_open(&map, path, err));
    bool empty = map.n_byte == 0;
    bool cut = kvref_audio_short(&stated, &found, map.data, map.n_byte);
    kvref_map_close(&map);
    if (empty) return kvref_fail(err, KVREF_E_FORMAT, "%s: the file is empty", path);
    if (!cut) return KVREF_OK;
    return kvref_fail(
        err,
        KVREF_E_FORMAT,
        "%s: cut short: expected %llu bytes of sound, as its header states, found "
        "%llu",
        path,
        (unsigned long long)stated,
        (unsigned long long)found);
}

static kvref_status check_info(const SF_INFO *info, const char *path, kvref_error *err)
{
    if (info->channels < 1 || info->channels > MAX_CHANNEL)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: channels: expected 1..%d, found %d",
                          path,
                          MAX_CHANNEL,
                          info->channels);
    if (info->samplerate < 1)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: sample rate: expected at least 1, found %d",
                          path,
                          info->samplerate);
    return KVREF_OK;
}

/* Samples read against those stated. Of MP3 the number is an estimate, and an Ogg file without
 * its last page has none: these are left to the caller. */
static kvref_status
check_count(kvref_sound *out, const SF_INFO *info, const char *path, kvref_error *err)
{
    int major = info->format & SF_FORMAT_TYPEMASK;
    bool known = info->frames > 0 && info->frames < SF_COUNT_MAX;
    if (major == SF_FORMAT_OGG || major == SF_FORMAT_MPEG) {
        out->n_stated = known ? (uint64_t)info->frames : UINT64_MAX;
    } else if (known && (uint64_t)info->frames > out->n) {
        return kvref_fail(
            err,
            KVREF_E_FORMAT,
            "%s: cut short: expected %lld samples, as its header states, found %zu",
            path,
            (long long)info->frames,
            out->n);
    }
    return KVREF_OK;
}

/* Opened by number, not by name, from which libsndfile would guess what has no header. */
static kvref_status read_open(kvref_sound *out, int fd, const char *path, kvref_error *err)
{
    SF_INFO info = {0};
    SNDFILE *file = sf_open_fd(fd, SFM_READ, &info, SF_FALSE);
    if (!file)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: not a sound file that can be read: %s",
                          path,
                          sf_strerror(NULL));
    kvref_status s = check_info(&info, path, err);
    if (s == KVREF_OK) {
        out->n_channel = info.channels;
        out->rate = info.samplerate;
        s = read_all(out, file, path, err);
    }
    if (s == KVREF_OK) s = check_count(out, &info, path, err);
    (void)sf_close(file);
    return s;
}

kvref_status kvref_sound_read(kvref_sound *out, const char *path, kvref_error *err)
{
    *out = (kvref_sound){0};
    KVREF_TRY(check_file(path, err));
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return kvref_fail(err, KVREF_E_IO, "%s: %s", path, strerror(errno));
    kvref_status s = read_open(out, fd, path, err);
    (void)close(fd);
    if (s != KVREF_OK) kvref_sound_clear(out);
    return s;
}

void kvref_sound_clear(kvref_sound *sound)
{
    free(sound->x);
    *sound = (kvref_sound){0};
}
