/* SPDX-License-Identifier: MIT */
/* Sound files that end before what their header states, and files that are sound by name alone.
 */
#include "base/audio_stated.h"
#include "base/base.h"
#include "kvref/audio.h"
#include "tests/support.h"

#include <sndfile.h>
#include <stdio.h>
#include <string.h>

enum { N = 40000 };

static kvref_error err;

static const struct {
    const char *claim;
    int format;
    bool lossy;
} format[] = {
    {"WAV", SF_FORMAT_WAV | SF_FORMAT_PCM_16, false},
    {"WAV of 24 bits", SF_FORMAT_WAV | SF_FORMAT_PCM_24, false},
    {"extensible", SF_FORMAT_WAVEX | SF_FORMAT_FLOAT, false},
    {"ADPCM", SF_FORMAT_WAV | SF_FORMAT_MS_ADPCM, false},
    {"RIFX", SF_FORMAT_WAV | SF_FORMAT_PCM_16 | SF_ENDIAN_BIG, false},
    {"RF64", SF_FORMAT_RF64 | SF_FORMAT_PCM_16, false},
    {"W64", SF_FORMAT_W64 | SF_FORMAT_PCM_16, false},
    {"AIFF", SF_FORMAT_AIFF | SF_FORMAT_PCM_16, false},
    {"AU", SF_FORMAT_AU | SF_FORMAT_PCM_16, false},
    {"CAF", SF_FORMAT_CAF | SF_FORMAT_PCM_16, false},
    {"FLAC", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, false},
    {"Vorbis", SF_FORMAT_OGG | SF_FORMAT_VORBIS, true},
    {"Opus", SF_FORMAT_OGG | SF_FORMAT_OPUS, true},
    {"MP3", 0x230082, true}, /* named by the headers of libsndfile 1.1 and later only */
};
enum { N_FORMAT = sizeof format / sizeof format[0] };

static bool make(const char *path, int kind)
{
    static float x[N];
    uint32_t seed = 1;
    for (int i = 0; i < N; i++) {
        seed = seed * 1664525 + 1013904223;
        x[i] = (float)(seed >> 8) * 0x1p-25f - 0.25f;
    }
    SF_INFO info = {.samplerate = 48000, .channels = 1, .format = kind};
    if (!sf_format_check(&info)) return false;
    SNDFILE *f = sf_open(path, SFM_WRITE, &info);
    ck_assert_msg(f != NULL, "%s", sf_strerror(NULL));
    ck_assert_int_eq(sf_write_float(f, x, N), N);
    ck_assert_int_eq(sf_close(f), 0);
    return true;
}

START_TEST(a_file_that_was_cut_is_refused_or_said_to_be)
{
    const char *whole = support_path(support_temp_dir(), "whole.file");
    const char *cut = support_path(support_temp_dir(), "cut.file");
    const char *claim = format[_i].claim;
    kvref_map map;
    kvref_sound sound;
    if (!make(whole, format[_i].format)) {
        printf("skipped: this libsndfile does not write %s\n", claim);
        return;
    }
    must(kvref_sound_read(&sound, whole, &err), err);
    ck_assert_msg(sound.n >= N, "%s: %zu samples", claim, sound.n);
    ck_assert_msg(sound.n_stated == (format[_i].lossy ? sound.n : 0),
                  "%s: states %llu of %zu",
                  claim,
                  (unsigned long long)sound.n_stated,
                  sound.n);
    kvref_sound_clear(&sound);
    must(kvref_map_open(&map, whole, &err), err);
    for (size_t part = 50; part < 100; part += 7) {
        support_write(cut, map.data, map.n_byte * part / 100);
        kvref_status s = kvref_sound_read(&sound, cut, &err);
        if (s == KVREF_OK)
            ck_assert_msg(format[_i].lossy && sound.n_stated != sound.n,
                          "%s at %zu %%: %zu samples and no word",
                          claim,
                          part,
                          sound.n);
        else
            ck_assert_msg(
                s == KVREF_E_FORMAT && strstr(err.text, "cut.file"), "%s: %s", claim, err.text);
        if (s != KVREF_OK && !format[_i].lossy)
            ck_assert_msg(strstr(err.text, "cut short: expected") ||
                              strstr(err.text, "damaged"),
                          "%s: %s",
                          claim,
                          err.text);
        kvref_sound_clear(&sound);
    }
    kvref_map_close(&map);
}
END_TEST

/* The count of a FLAC file is exact: 36 bits that end in byte 25. */
START_TEST(a_count_that_is_not_met_is_refused)
{
    const char *path = support_path(support_temp_dir(), "count.flac");
    char data[256 * 1024];
    kvref_map map;
    kvref_sound sound;
    ck_assert(make(path, SF_FORMAT_FLAC | SF_FORMAT_PCM_16));
    must(kvref_map_open(&map, path, &err), err);
    ck_assert_uint_le(map.n_byte, sizeof data);
    size_t n = map.n_byte;
    memcpy(data, map.data, n);
    kvref_map_close(&map);
    data[25]++;
    support_write(path, data, n);
    must_fail(
        kvref_sound_read(&sound, path, &err), KVREF_E_FORMAT, err, "expected 40001 samples");
}
END_TEST

/* Bytes of a header, then more. */
static bool is_short(const char *bytes, size_t n, uint64_t *stated, uint64_t *found)
{
    return kvref_audio_short(stated, found, (const uint8_t *)bytes, n);
}
#define SHORT(text) is_short(text, sizeof(text) - 1, &stated, &found)

START_TEST(sizes_are_believed_as_far_as_they_are_numbers)
{
    uint64_t stated = 0, found = 0;
#define W "RIFF....WAVE"
    ck_assert(SHORT(W "data\5\0\0\0abcd") && stated == 5 && found == 4);
    ck_assert(!SHORT(W "data\4\0\0\0abcd"));
    ck_assert(!SHORT(W "data\3\0\0\0abcd"));
    ck_assert(SHORT(W "odd.\3\0\0\0abc.data\5\0\0\0abcd"));
    ck_assert(!SHORT(W "long\377\0\0\0abc.data\5\0\0\0abcd"));
    ck_assert(!SHORT(W "data\377\377\377\377abcd"));
    ck_assert(!SHORT(W "data\0\0\0\200abcd"));
    ck_assert(!SHORT(W "data\0\360\377\177abcd"));
    ck_assert(SHORT(W "data\0\357\377\177abcd"));
    ck_assert(!SHORT(W "data\5\0"));
    ck_assert(SHORT("RIFX....WAVEdata\0\0\0\5abcd"));
    ck_assert(SHORT("FORM....AIFFSSND\0\0\0\5abcd"));
    ck_assert(SHORT(".snd\0\0\0\30\0\0\0\5............abcd") && found == 4);
    ck_assert(!SHORT(".snd\0\0\0\30\377\377\377\377............abcd"));
    ck_assert(!SHORT(".snd\0\0\1\0\0\0\0\5............abcd"));
    ck_assert(!SHORT("caff....data\377\377\377\377\377\377\377\377abcd"));
    ck_assert(SHORT("caff....data\0\0\0\0\0\0\0\5abcd"));
    for (size_t n = 0; n < 20; n++) ck_assert(!is_short(W "data\0\0\0\0", n, &stated, &found));
}
END_TEST

START_TEST(a_name_alone_makes_no_sound)
{
    static const char *const name[] = {
        "x.vox", "x.gsm", "x.raw", "x.snd", "x.sds", "x.sd2", "x.mp3", "x.vox8", "x.wav"};
    char text[4000];
    kvref_sound sound;
    for (size_t i = 0; i < sizeof text; i++) text[i] = "no sound at all\n"[i % 16];
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        const char *path = support_path(support_temp_dir(), name[i]);
        support_write(path, text, sizeof text);
        must_fail(
            kvref_sound_read(&sound, path, &err), KVREF_E_FORMAT, err, "not a sound file");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("audio_cut");
    TCase *tc = tcase_create("audio_cut");
    tcase_add_loop_test(tc, a_file_that_was_cut_is_refused_or_said_to_be, 0, N_FORMAT);
    tcase_add_test(tc, a_count_that_is_not_met_is_refused);
    tcase_add_test(tc, sizes_are_believed_as_far_as_they_are_numbers);
    tcase_add_test(tc, a_name_alone_makes_no_sound);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
