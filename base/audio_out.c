/* SPDX-License-Identifier: MIT */
/* Sound files out. Conversion to integers is ours (spec 06 section 7: floor, then saturate);
 * libsndfile writes the container into an anonymous file, which is copied to its place when it
 * is complete. Equal samples give equal bytes: no time stamps (libsndfile's PEAK chunk is
 * switched off). */
#include "base/base.h"
#include "kvref/audio.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1 << 14 };

struct kvref_audio {
    char *folder;
    FILE *temp; /* in folder, without a name */
    SNDFILE *file;
    kvref_audio_format format;
    uint64_t most; /* samples that the container can count */
    kvref_audio_stats stats;
};

/* The libsndfile format for n samples; how many it may hold into *most. */
static int container(uint64_t *most, kvref_audio_format format, uint64_t n)
{
    static const uint64_t size[] = {2, 4, 3, 2};
    static const int subtype[] = {
        SF_FORMAT_PCM_16, SF_FORMAT_FLOAT, SF_FORMAT_PCM_24, SF_FORMAT_PCM_16};
    uint64_t wav = (UINT32_MAX - 4096u) / size[format];
    int major = format == KVREF_AUDIO_FLAC ? SF_FORMAT_FLAC
                : n > wav                  ? SF_FORMAT_RF64
                                           : SF_FORMAT_WAV;
    *most = major == SF_FORMAT_WAV ? wav : UINT64_MAX;
    return major | subtype[format];
}

/* A file without a name, which nothing can leave behind. */
static kvref_status open_temp(kvref_audio *a, const char *folder, kvref_error *err)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) { /* not every file system has such */
        char *name = kvref_path_join(folder, ".kvref-XXXXXX");
        if (!name) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
        fd = mkostemp(name, O_CLOEXEC);
        if (fd >= 0) unlink(name);
        free(name);
    }
    if (fd < 0)
        return kvref_fail(err,
                          KVREF_E_IO,
                          "%s: cannot make a temporary file there: %s",
                          folder,
                          strerror(errno));
    a->temp = fdopen(fd, "w+b");
    if (a->temp) return KVREF_OK;
    close(fd);
    return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
}

static kvref_status
start(kvref_audio *a, int rate, uint64_t n_expected, const char *folder, kvref_error *err)
{
    a->folder = strdup(folder);
    if (!a->folder) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    KVREF_TRY(open_temp(a, folder, err));
    SF_INFO info = {.samplerate = rate, .channels = 1};
    info.format = container(&a->most, a->format, n_expected);
    a->file = sf_open_fd(fileno(a->temp), SFM_WRITE, &info, SF_FALSE);
    if (!a->file)
        return kvref_fail(
            err, KVREF_E_ARG, "cannot write sound of %d Hz: %s", rate, sf_strerror(NULL));
    (void)sf_command(a->file, SFC_SET_ADD_PEAK_CHUNK, NULL, SF_FALSE);
    return KVREF_OK;
}

kvref_status kvref_audio_open(kvref_audio **out,
                              kvref_audio_format format,
                              int rate,
                              uint64_t n_expected,
                              const char *folder,
                              kvref_error *err)
{
    *out = NULL;
    if ((unsigned)format > KVREF_AUDIO_FLAC)
        return kvref_fail(err, KVREF_E_ARG, "audio format: unknown (%d)", (int)format);
    kvref_audio *a = calloc(1, sizeof *a);
    if (!a) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    a->format = format;
    kvref_status s = start(a, rate, n_expected, folder ? folder : "/tmp", err);
    if (s == KVREF_OK)
        *out = a;
    else
        kvref_audio_abort(&a);
    return s;
}

/* clamp(floor(x * scale), -scale, scale - 1); the product is exact, scale a power of two. */
static int quantise(float x, float scale)
{
    float y = floorf(x * scale);
    if (y >= scale) return (int)scale - 1;
    return y < -scale ? -(int)scale : (int)y;
}

static sf_count_t write_block(kvref_audio *a, const float *x, int n)
{
    int sample[BLOCK];
    if (a->format == KVREF_AUDIO_FLOAT) return sf_write_float(a->file, x, n);
    int bits = a->format == KVREF_AUDIO_PCM24 ? 24 : 16;
    float scale = bits == 24 ? 0x1p23f : 0x1p15f;
    for (int i = 0; i < n; i++) {
        int q = quantise(x[i], scale);
        sample[i] = (int)((unsigned)q << (32 - bits)); /* libsndfile keeps the top bits */
    }
    return sf_write_int(a->file, sample, n);
}

kvref_status kvref_audio_put(kvref_audio *a, const float *x, size_t n, kvref_error *err)
{
    if (n > a->most - a->stats.n)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "sound: expected at most %llu samples in a WAV file not opened for "
                          "more, found %zu after %llu",
                          (unsigned long long)a->most,
                          n,
                          (unsigned long long)a->stats.n);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return kvref_fail(err,
                              KVREF_E_FORMAT,
                              "sample %llu is not finite",
                              (unsigned long long)(a->stats.n + i));
    for (size_t done = 0; done < n;) {
        int part = n - done < BLOCK ? (int)(n - done) : BLOCK;
        errno = 0;
        if (write_block(a, x + done, part) != part)
            return kvref_fail(err,
                              KVREF_E_IO,
                              "%s: cannot write sound to a temporary file there: %s",
                              a->folder,
                              errno ? strerror(errno) : sf_strerror(a->file));
        done += (size_t)part;
    }
    for (size_t i = 0; i < n; i++) {
        float size = fabsf(x[i]);
        if (size > a->stats.peak) a->stats.peak = size;
        a->stats.n_clipped += size > 1;
    }
    a->stats.n += n;
    return KVREF_OK;
}

kvref_audio_stats kvref_audio_about(const kvref_audio *audio)
{
    return audio->stats;
}

kvref_status kvref_audio_send(
    kvref_audio **audio,
    kvref_status (*sink)(void *user, const void *data, size_t n_byte, kvref_error *err),
    void *user,
    kvref_error *err)
{
    kvref_audio *a = *audio;
    static const char lost[] = "%s: cannot complete the sound in a temporary file there";
    kvref_status s = KVREF_OK;
    int bad = sf_close(a->file);
    a->file = NULL;
    if (bad || fseek(a->temp, 0, SEEK_SET) != 0)
        s = kvref_fail(err, KVREF_E_IO, lost, a->folder);
    unsigned char block[1 << 14];
    size_t n;
    while (s == KVREF_OK && (n = fread(block, 1, sizeof block, a->temp)) > 0)
        s = sink(user, block, n, err);
    if (s == KVREF_OK && ferror(a->temp)) s = kvref_fail(err, KVREF_E_IO, lost, a->folder);
    kvref_audio_abort(audio);
    return s;
}

static kvref_status to_file(void *user, const void *data, size_t n_byte, kvref_error *err)
{
    return kvref_out_put(user, data, n_byte, err);
}

kvref_status kvref_audio_save(kvref_audio **audio, const char *path, kvref_error *err)
{
    kvref_out *o;
    kvref_status s = kvref_out_open(&o, path, err);
    if (s != KVREF_OK) {
        kvref_audio_abort(audio);
        return s;
    }
    s = kvref_audio_send(audio, to_file, o, err);
    if (s == KVREF_OK) return kvref_out_commit(&o, err);
    kvref_out_abort(&o);
    return s;
}

void kvref_audio_abort(kvref_audio **audio)
{
    kvref_audio *a = *audio;
    if (!a) return;
    if (a->file) (void)sf_close(a->file);
    if (a->temp) (void)fclose(a->temp);
    free(a->folder);
    free(a);
    *audio = NULL;
}
