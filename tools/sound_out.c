/* SPDX-License-Identifier: MIT */
/* Decoding codes into a sound file (spec 06 sections 3 and 7), piece by piece. */
#include "tools/sound_out.h"

#include "base/base.h"
#include "base/hash.h"
#include "tools/paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { PIECE = 25 /* frames decoded at a time */ };

/* A peak below one step of 16 bits is silence, whatever the format. */
#define SILENCE 0x1p-15f

const cli_option sound_options[] = {
    {.kind = CLI_CHOICE,
     .name = "format",
     .arg = "TYPE",
     .at = offsetof(sound_args, format),
     .choices = "auto|pcm16|float|pcm24|flac",
     .initial = "auto",
     .help = "WAV of 16-bit, float or 24-bit samples, or FLAC; auto is flac for a name that "
             "ends in .flac and pcm16 otherwise. WAV data past 4 GiB becomes RF64"},
    {.kind = CLI_END},
};

kvref_status
sound_format(kvref_audio_format *out, const sound_args *a, const char *path, kvref_error *err)
{
    static const char *const other[] = {
        ".mp3", ".ogg", ".oga", ".opus", ".aiff", ".aif", ".m4a", ".au", ".caf", ".npy"};
    const char *dot = strrchr(path, '.');
    *out = (kvref_audio_format)(a->format - 1);
    bool flac = dot && strcasecmp(dot, ".flac") == 0, wav = dot && strcasecmp(dot, ".wav") == 0;
    if (a->format && (*out == KVREF_AUDIO_FLAC ? wav : flac))
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "--format: expected one of %s for a name in %s, found %s",
                          flac ? "auto|flac" : "auto|pcm16|float|pcm24",
                          dot,
                          flac ? "a format of WAV" : "flac");
    if (a->format) return KVREF_OK;
    *out = flac ? KVREF_AUDIO_FLAC : KVREF_AUDIO_PCM16;
    for (size_t i = 0; dot && i < sizeof other / sizeof other[0]; i++)
        if (strcasecmp(dot, other[i]) == 0)
            return kvref_fail(err,
                              KVREF_E_ARG,
                              "--output: %s: expected a name in .wav or .flac, or --format",
                              path);
    return KVREF_OK;
}

/* The number of books, and no code below 0; counts those above the last of their book. */
static kvref_status check_codes(sound_made *out, const sound_job *job, kvref_error *err)
{
    const kvref_codec_info *info = kvref_codec_about(job->codec);
    const kvref_codes *codes = job->codes;
    if (codes->n_book != info->n_book)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "%s: codes: the codec has %d books, found %d",
                          job->codes_name,
                          info->n_book,
                          codes->n_book);
    const int32_t *code = codes->code;
    for (int t = 0; t < codes->n_frame; t++)
        for (int b = 0; b < info->n_book; b++, code++) {
            if (*code < 0)
                return kvref_fail(err,
                                  KVREF_E_ARG,
                                  "%s: code of book %d, frame %d: expected 0 to %d, found %d",
                                  job->codes_name,
                                  b,
                                  t,
                                  info->n_code[b] - 1,
                                  *code);
            out->n_lowered += *code >= info->n_code[b];
        }
    if (out->n_lowered) {
        kvref_log log = term_notes(job->command);
        kvref_note(&log,
                   "%s: %llu codes above the last of their book are taken as the last",
                   job->codes_name,
                   (unsigned long long)out->n_lowered);
    }
    return KVREF_OK;
}

static kvref_status decode(sound_made *out,
                           kvref_audio *audio,
                           kvref_codec_stream *stream,
                           float *pcm,
                           const sound_job *job,
                           kvref_error *err)
{
    const kvref_codes *codes = job->codes;
    const kvref_codec_info *info = kvref_codec_about(job->codec);
    double frame_seconds = (double)info->frame / info->sample_rate;
    term_meter meter;
    kvref_status s = KVREF_OK;
    term_meter_open(&meter, "sound", "frames");
    out->hash = KVREF_FNV64;
    while (s == KVREF_OK && out->n_frame < codes->n_frame && !out->stopped) {
        int rest = codes->n_frame - out->n_frame, n = rest < PIECE ? rest : PIECE;
        size_t n_pcm = (size_t)n * (size_t)info->frame;
        const int32_t *code = codes->code + (size_t)out->n_frame * (size_t)codes->n_book;
        s = kvref_codec_stream_push(stream, pcm, code, n, err);
        if (s == KVREF_OK) s = kvref_audio_put(audio, pcm, n_pcm, err);
        if (s == KVREF_E_FORMAT) {
            kvref_error cause = *err;
            s = kvref_fail(err,
                           s,
                           "decoding %s with %s: %s",
                           job->codes_name,
                           job->codec_name,
                           cause.text);
        }
        if (s == KVREF_OK) {
            out->hash = kvref_fnv64(out->hash, pcm, n_pcm * sizeof *pcm);
            out->n_frame += n;
            sound_meter(
                &meter, (uint64_t)out->n_frame, (uint64_t)codes->n_frame, frame_seconds);
            if (job->keep_partial) out->stopped = term_take_signal();
        }
    }
    out->decode = out->compute = term_clock() - meter.start;
    term_meter_close(&meter);
    return s;
}

static kvref_status put_standard(void *user, const void *data, size_t n_byte, kvref_error *err)
{
    (void)user;
    const char *at = data;
    while (n_byte) {
        ssize_t n = write(STDOUT_FILENO, at, n_byte);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return kvref_fail(
                err, KVREF_E_IO, "standard output: cannot write: %s", strerror(errno));
        at += n;
        n_byte -= (size_t)n;
    }
    return KVREF_OK;
}

/* Refuses silence, then puts the sound in its place. */
static kvref_status
finish(sound_made *out, kvref_audio **audio, const sound_job *job, kvref_error *err)
{
    kvref_audio_stats stats = kvref_audio_about(*audio);
    out->n_sample = stats.n;
    out->n_clipped = stats.n_clipped;
    out->peak = stats.peak;
    if (!(stats.peak >= SILENCE))
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: expected sound, found %d frames of silence (peak %g)",
                          job->path,
                          out->n_frame,
                          (double)stats.peak);
    if (strcmp(job->path, "-") == 0) {
        term_writing(job->path);
        kvref_status sent = kvref_audio_send(audio, put_standard, NULL, err);
        term_written();
        return sent;
    }
    term_writing(job->path);
    kvref_status s = kvref_audio_save(audio, job->path, err);
    term_written();
    return s;
}

kvref_status sound_make(sound_made *out, const sound_job *job, kvref_error *err)
{
    const kvref_codec_info *info = kvref_codec_about(job->codec);
    kvref_audio *audio = NULL;
    kvref_codec_stream *stream = NULL;
    *out = (sound_made){.rate = info->sample_rate};
    if (job->codes->n_frame == 0)
        return kvref_fail(
            err, KVREF_E_ARG, "%s: no audio: there is not one frame", job->codes_name);
    KVREF_TRY(check_codes(out, job, err));
    float *pcm = calloc((size_t)PIECE * (size_t)info->frame, sizeof *pcm);
    if (!pcm) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    uint64_t n_sample = (uint64_t)job->codes->n_frame * (uint64_t)info->frame;
    char *folder = output_folder(job->path);
    term_hold();
    kvref_status s =
        folder ? kvref_audio_open(&audio, job->format, info->sample_rate, n_sample, folder, err)
               : kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    term_release();
    free(folder);
    if (s == KVREF_OK) s = kvref_codec_stream_open(&stream, job->codec, err);
    if (s == KVREF_OK) s = decode(out, audio, stream, pcm, job, err);
    kvref_codec_stream_close(&stream);
    if (s == KVREF_OK) s = finish(out, &audio, job, err);
    kvref_audio_abort(&audio);
    free(pcm);
    return s;
}

/* ---- saying so ---- */

static double seconds(const sound_made *m)
{
    return (double)m->n_sample / m->rate;
}

void sound_print(FILE *to, const char *path, const sound_made *m)
{
    char name[400];
    fprintf(to,
            "%s: %d frames%s, %llu samples, %.3f s at %d Hz, peak %.3f, %llu clipped, hash "
            "%016llx; real-time factor %.3f\n",
            term_clean(name, sizeof name, path),
            m->n_frame,
            m->stopped ? " (stopped by a signal)" : "",
            (unsigned long long)m->n_sample,
            seconds(m),
            m->rate,
            (double)m->peak,
            (unsigned long long)m->n_clipped,
            (unsigned long long)m->hash,
            m->compute / seconds(m));
}

json_t *sound_json(const char *path, const sound_made *m)
{
    char hash[20], name[400];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)m->hash);
    return json_pack("{s:s,s:i,s:i,s:I,s:f,s:I,s:I,s:f,s:s,s:f,s:f,s:b}",
                     "file",
                     term_clean(name, sizeof name, path),
                     "sample_rate",
                     m->rate,
                     "frames",
                     m->n_frame,
                     "samples",
                     (json_int_t)m->n_sample,
                     "seconds",
                     seconds(m),
                     "clipped",
                     (json_int_t)m->n_clipped,
                     "codes_lowered",
                     (json_int_t)m->n_lowered,
                     "peak",
                     (double)m->peak,
                     "hash",
                     hash,
                     "decode_seconds",
                     m->decode,
                     "real_time_factor",
                     m->compute / seconds(m),
                     "partial",
                     m->stopped != 0);
}

void sound_meter(term_meter *m, uint64_t done, uint64_t total, double frame_seconds)
{
    char text[120];
    double audio = (double)done * frame_seconds;
    if (!term_meter_due(m)) return;
    snprintf(text,
             sizeof text,
             "%llu of at most %llu frames, %.1f s of audio, real-time factor %.3f",
             (unsigned long long)done,
             (unsigned long long)total,
             audio,
             audio > 0 ? (m->shown - m->start) / audio : 0);
    term_meter_text(m, text);
}
