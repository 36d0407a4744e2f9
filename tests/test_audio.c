/* SPDX-License-Identifier: MIT */
/* Sound files: what is written, and odd files of many kinds read or refused. */
#include "base/base.h"
#include "kvref/audio.h"
#include "tests/support.h"

#include <math.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kvref_error err;

/* ---- a WAV file by hand ---- */

typedef struct wav {
    const char *claim;          /* what the row is about                        */
    int tag, channels, bits;    /* 0: 1, 1, 16                                  */
    unsigned rate;              /* 0: 44100                                     */
    int frames;                 /* data really there; 0: 10                     */
    unsigned data_size;         /* claimed; 0: true                             */
    unsigned riff_size;         /* claimed; 0: true                             */
    int cut;                    /* bytes cut off the end                        */
    int junk;                   /* a chunk of this many bytes before the data   */
    int trailer;                /* bytes after the data                         */
    const char *magic;          /* "RIFF"                                       */
    int no_fmt, no_data, align; /* leave a chunk out; block align               */
    int want_n;                 /* samples expected, or 0: refused              */
    const char *want_text;      /* part of the message when refused             */
} wav;

static unsigned char buffer[1 << 16];
static size_t used;

static void bytes(const void *data, size_t n)
{
    memcpy(buffer + used, data, n);
    used += n;
}

static void number(unsigned x, int n)
{
    for (int i = 0; i < n; i++) buffer[used++] = (unsigned char)(x >> (8 * i));
}

static void build(const wav *w)
{
    int channels = w->channels > 0 ? w->channels : 1, bits = w->bits ? w->bits : 16;
    int frames = w->frames ? w->frames : 10, align = w->align ? w->align : channels * bits / 8;
    unsigned rate = w->rate ? w->rate : 44100, size = (unsigned)(frames * channels * bits / 8);
    used = 0;
    bytes(w->magic ? w->magic : "RIFF", 4);
    number(w->riff_size ? w->riff_size : 36 + size, 4);
    bytes("WAVE", 4);
    if (!w->no_fmt) {
        bytes("fmt ", 4);
        number(16, 4);
        number((unsigned)(w->tag ? w->tag : 1), 2);
        number((unsigned)channels, 2);
        number(rate, 4);
        number(rate * (unsigned)align, 4);
        number((unsigned)align, 2);
        number((unsigned)bits, 2);
    }
    if (w->junk) {
        bytes("junk", 4);
        number((unsigned)w->junk, 4);
        for (int i = 0; i < w->junk + (w->junk & 1); i++) buffer[used++] = 0x55;
    }
    if (!w->no_data) {
        bytes("data", 4);
        number(w->data_size ? w->data_size : size, 4);
        for (unsigned i = 0; i < size; i++) buffer[used++] = (unsigned char)(i * 7 % 64);
    }
    for (int i = 0; i < w->trailer; i++) buffer[used++] = 0xaa;
    used -= (size_t)w->cut;
}

static const wav table[] = {
    {.claim = "plain 16 bit", .want_n = 10},
    {.claim = "8 bit", .bits = 8, .want_n = 10},
    {.claim = "24 bit", .bits = 24, .want_n = 10},
    {.claim = "32 bit", .bits = 32, .want_n = 10},
    {.claim = "stereo", .channels = 2, .want_n = 10},
    {.claim = "six channels", .channels = 6, .want_n = 10},
    {.claim = "64 channels", .channels = 64, .want_n = 10},
    {.claim = "65 channels", .channels = 65, .want_text = "channels"},
    {.claim = "1000 channels", .channels = 1000, .want_text = "channels"},
    {.claim = "one sample", .frames = 1, .want_n = 1},
    {.claim = "a-law", .tag = 6, .bits = 8, .want_n = 10},
    {.claim = "mu-law", .tag = 7, .bits = 8, .want_n = 10},
    {.claim = "rate 1", .rate = 1, .want_n = 10},
    {.claim = "rate 192000", .rate = 192000, .want_n = 10},
    {.claim = "rate 2^31", .rate = 0x80000000u, .want_text = ""},
    {.claim = "rate 2^32-1", .rate = 0xffffffffu, .want_text = ""},
    {.claim = "data size of a pipe", .data_size = 0xffffffffu, .want_n = 10},
    {.claim = "data size 2^31-1 claimed", .data_size = 0x7fffffffu, .want_n = 10},
    {.claim = "riff size of a pipe", .riff_size = 0xffffffffu, .want_n = 10},
    {.claim = "riff size too small", .riff_size = 4, .want_n = 10},
    {.claim = "data cut in half", .cut = 10, .want_text = "20 bytes of sound"},
    {.claim = "data cut inside a sample", .cut = 9, .want_text = "found 11"},
    {.claim = "no data at all", .cut = 20, .want_text = "found 0"},
    {.claim = "cut inside the data header", .cut = 24, .want_text = ""},
    {.claim = "cut inside fmt", .cut = 40, .want_text = ""},
    {.claim = "cut after WAVE", .cut = 52, .want_text = ""},
    {.claim = "cut inside the magic", .cut = 61, .want_text = ""},
    {.claim = "even chunk before the data", .junk = 8, .want_n = 10},
    {.claim = "odd chunk before the data", .junk = 9, .want_n = 10},
    {.claim = "bytes after the data", .trailer = 40, .want_n = 10},
    {.claim = "bad magic", .magic = "RIFG", .want_text = "not a sound file"},
    {.claim = "big-endian magic, little data", .magic = "RIFX", .want_text = ""},
    {.claim = "no fmt chunk", .no_fmt = 1, .want_text = ""},
    {.claim = "no data chunk", .no_data = 1, .want_text = ""},
    {.claim = "unknown codec", .tag = 0x1234, .want_text = ""},
    {.claim = "0 channels", .channels = -1, .want_text = ""},
    {.claim = "float of 16 bits", .tag = 3, .bits = 16, .want_text = ""},
};

START_TEST(hand_made_wav_files_are_read_or_refused)
{
    const wav *w = &table[_i];
    const char *path = support_path(support_temp_dir(), "odd.wav");
    wav fixed = *w;
    build(&fixed);
    if (w->channels == -1) buffer[22] = buffer[23] = 0;
    support_write(path, buffer, used);
    kvref_sound sound;
    kvref_status s = kvref_sound_read(&sound, path, &err);
    if (w->want_n) {
        ck_assert_msg(s == KVREF_OK, "%s: %s", w->claim, err.text);
        ck_assert_msg(sound.n == (size_t)w->want_n, "%s: %zu samples", w->claim, sound.n);
        ck_assert_int_eq(sound.n_channel, w->channels ? w->channels : 1);
        kvref_sound_clear(&sound);
    } else {
        ck_assert_msg(s == KVREF_E_FORMAT, "%s: %s", w->claim, kvref_status_name(s));
        ck_assert_msg(strstr(err.text, w->want_text) != NULL, "%s: %s", w->claim, err.text);
        ck_assert_ptr_null(sound.x);
    }
}
END_TEST

/* ---- formats that libsndfile writes ---- */

static const struct {
    const char *claim;
    int format;
    double tolerance;
} format[] = {
    {"AIFF", SF_FORMAT_AIFF | SF_FORMAT_PCM_16, 1e-4},
    {"AU", SF_FORMAT_AU | SF_FORMAT_PCM_24, 1e-6},
    {"W64", SF_FORMAT_W64 | SF_FORMAT_PCM_32, 1e-6},
    {"CAF", SF_FORMAT_CAF | SF_FORMAT_PCM_16, 1e-4},
    {"RF64", SF_FORMAT_RF64 | SF_FORMAT_PCM_16, 1e-4},
    {"RIFX", SF_FORMAT_WAV | SF_FORMAT_PCM_16 | SF_ENDIAN_BIG, 1e-4},
    {"extensible", SF_FORMAT_WAVEX | SF_FORMAT_PCM_24, 1e-6},
    {"float", SF_FORMAT_WAV | SF_FORMAT_FLOAT, 0},
    {"double", SF_FORMAT_WAV | SF_FORMAT_DOUBLE, 0},
    {"ADPCM", SF_FORMAT_WAV | SF_FORMAT_MS_ADPCM, 0.1},
    {"FLAC 16", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 1e-4},
    {"FLAC 24", SF_FORMAT_FLAC | SF_FORMAT_PCM_24, 1e-6},
    {"Vorbis", SF_FORMAT_OGG | SF_FORMAT_VORBIS, 0.2},
    {"Opus", SF_FORMAT_OGG | SF_FORMAT_OPUS, 0.2},
    {"MP3", 0x230082, 0.2}, /* named by the headers of libsndfile 1.1 and later only */
};

static const float wave[8] = {0, 0.5f, -0.5f, 0.25f, -0.25f, 0.75f, -0.75f, 0.125f};

static void write_with_libsndfile(const char *path, int kind, const float *x, int n)
{
    SF_INFO info = {.samplerate = 16000, .channels = 1, .format = kind};
    SNDFILE *f = sf_open(path, SFM_WRITE, &info);
    ck_assert_msg(f != NULL, "%s", sf_strerror(NULL));
    ck_assert_int_eq(sf_write_float(f, x, n), n);
    ck_assert_int_eq(sf_close(f), 0);
}

START_TEST(every_common_format_is_read)
{
    float x[800];
    for (int i = 0; i < 800; i++) x[i] = wave[i / 100];
    const char *path = support_path(support_temp_dir(), "some.file");
    SF_INFO info = {.samplerate = 16000, .channels = 1, .format = format[_i].format};
    if (!sf_format_check(&info)) {
        printf("skipped: this libsndfile does not write %s\n", format[_i].claim);
        return;
    }
    write_with_libsndfile(path, format[_i].format, x, 800);
    kvref_sound sound;
    must(kvref_sound_read(&sound, path, &err), err);
    ck_assert_int_eq(sound.rate, 16000);
    ck_assert_msg(sound.n >= 800, "%s: %zu samples", format[_i].claim, sound.n);
    for (int i = 50; i < 800; i += 100) { /* middles: lossy codecs ring at the steps */
        double off = fabs((double)sound.x[i] - (double)x[i]);
        ck_assert_msg(!!(off <= format[_i].tolerance),
                      "%s: sample %d off by %g",
                      format[_i].claim,
                      i,
                      off);
    }
    kvref_sound_clear(&sound);
}
END_TEST

START_TEST(a_flac_cut_or_damaged_anywhere_is_refused)
{
    float x[20000];
    for (int i = 0; i < 20000; i++) x[i] = (float)sin(i * i * 1e-4) * 0.5f;
    const char *path = support_path(support_temp_dir(), "a.flac");
    write_with_libsndfile(path, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, x, 20000);
    kvref_map map;
    must(kvref_map_open(&map, path, &err), err);
    const char *bad = support_path(support_temp_dir(), "bad.flac");
    unsigned char *data = malloc(map.n_byte);
    kvref_sound sound;
    for (size_t k = 0; k < 32; k++) {
        size_t at = map.n_byte * k / 32;
        support_write(bad, map.data, at);
        must_fail(kvref_sound_read(&sound, bad, &err), KVREF_E_FORMAT, err, "bad.flac");
        memcpy(data, map.data, map.n_byte);
        data[at] ^= 0x10;
        support_write(bad, data, map.n_byte);
        must_fail(kvref_sound_read(&sound, bad, &err), KVREF_E_FORMAT, err, "bad.flac");
    }
    free(data);
    kvref_map_close(&map);
}
END_TEST

START_TEST(samples_that_are_not_finite_are_refused_on_both_sides)
{
    float x[4] = {0, 0.5f, NAN, 0};
    const char *path = support_path(support_temp_dir(), "nan.wav");
    kvref_sound sound;
    for (int k = 0; k < 2; k++) {
        x[2] = k ? INFINITY : NAN;
        write_with_libsndfile(path, SF_FORMAT_WAV | SF_FORMAT_FLOAT, x, 4);
        must_fail(kvref_sound_read(&sound, path, &err), KVREF_E_FORMAT, err, "sample 2");
    }
    kvref_audio *a;
    must(kvref_audio_open(&a, KVREF_AUDIO_PCM16, 44100, 8, NULL, &err), err);
    must(kvref_audio_put(a, wave, 8, &err), err);
    must_fail(kvref_audio_put(a, x, 4, &err), KVREF_E_FORMAT, err, "sample 10");
    ck_assert_uint_eq(kvref_audio_about(a).n, 8);
    kvref_audio_abort(&a);
    kvref_audio_abort(&a);
}
END_TEST

START_TEST(folders_pipes_and_empty_files_are_refused)
{
    kvref_sound sound;
    const char *dir = support_temp_dir(), *empty = support_path(dir, "empty");
    support_write(empty, "", 0);
    must_fail(kvref_sound_read(&sound, dir, &err), KVREF_E_IO, err, "directory");
    must_fail(kvref_sound_read(&sound, "/dev/null", &err), KVREF_E_IO, err, "device");
    must_fail(kvref_sound_read(&sound, empty, &err), KVREF_E_FORMAT, err, "empty");
    must_fail(
        kvref_sound_read(&sound, support_path(dir, "no"), &err), KVREF_E_MISSING, err, "no");
}
END_TEST

START_TEST(channels_are_averaged)
{
    const char *path = support_path(support_temp_dir(), "two.wav");
    float x[6] = {0.5f, 0.25f, -1, 1, 0.125f, 0};
    SF_INFO info = {
        .samplerate = 8000, .channels = 2, .format = SF_FORMAT_WAV | SF_FORMAT_FLOAT};
    SNDFILE *f = sf_open(path, SFM_WRITE, &info);
    ck_assert_int_eq(sf_writef_float(f, x, 3), 3);
    ck_assert_int_eq(sf_close(f), 0);
    kvref_sound sound;
    must(kvref_sound_read(&sound, path, &err), err);
    ck_assert(sound.n == 3 && sound.n_channel == 2);
    ck_assert(sound.x[0] == 0.375f && sound.x[1] == 0 && sound.x[2] == 0.0625f);
    kvref_sound_clear(&sound);
}
END_TEST

START_TEST(integers_are_floored_and_saturated)
{
    static const float x[] = {0, 1, -1, 2, -2, 0x1p-15f, -0x1p-15f, 0x1p-16f, -0x1p-16f, 0.5f};
    static const int pcm16[] = {0, 32767, -32768, 32767, -32768, 1, -1, 0, -1, 16384};
    const char *path = support_path(support_temp_dir(), "q.wav");
    for (int k = 0; k < 2; k++) { /* WAV and FLAC hold the same integers */
        kvref_audio *a;
        must(kvref_audio_open(
                 &a, k ? KVREF_AUDIO_FLAC : KVREF_AUDIO_PCM16, 44100, 10, NULL, &err),
             err);
        must(kvref_audio_put(a, x, 3, &err), err);
        must(kvref_audio_put(a, x + 3, 7, &err), err);
        kvref_audio_stats about = kvref_audio_about(a);
        ck_assert(about.n == 10 && about.n_clipped == 2);
        ck_assert(about.peak == 2);
        must(kvref_audio_save(&a, path, &err), err);
        kvref_sound sound;
        must(kvref_sound_read(&sound, path, &err), err);
        ck_assert_uint_eq(sound.n, 10);
        for (int i = 0; i < 10; i++) ck_assert(sound.x[i] * 32768 == (float)pcm16[i]);
        kvref_sound_clear(&sound);
    }
}
END_TEST

START_TEST(float_and_24_bit_files_keep_their_precision)
{
    const char *path = support_path(support_temp_dir(), "p.wav");
    for (int k = 0; k < 2; k++) {
        kvref_audio *a;
        kvref_audio_format kind = k ? KVREF_AUDIO_PCM24 : KVREF_AUDIO_FLOAT;
        float x[3] = {0x1p-23f, -0x1p-23f, 0.1f},
              y = k ? floorf(0.1f * 0x1p23f) / 0x1p23f : 0.1f;
        must(kvref_audio_open(&a, kind, 44100, 3, NULL, &err), err);
        must(kvref_audio_put(a, x, 3, &err), err);
        must(kvref_audio_save(&a, path, &err), err);
        kvref_sound sound;
        must(kvref_sound_read(&sound, path, &err), err);
        ck_assert(sound.x[0] == x[0] && sound.x[1] == x[1] && sound.x[2] == y);
        kvref_sound_clear(&sound);
    }
}
END_TEST

static kvref_status keep(void *user, const void *data, size_t n, kvref_error *e)
{
    (void)user;
    (void)e;
    bytes(data, n);
    return KVREF_OK;
}

START_TEST(a_sound_over_4_gib_becomes_rf64_or_is_refused)
{
    for (int k = 0; k < 2; k++) {
        kvref_audio *a;
        used = 0;
        must(kvref_audio_open(&a, KVREF_AUDIO_PCM16, 44100, k ? 1ull << 31 : 8, NULL, &err),
             err);
        must(kvref_audio_put(a, wave, 8, &err), err);
        must(kvref_audio_send(&a, keep, NULL, &err), err);
        ck_assert_mem_eq(buffer, k ? "RF64" : "RIFF", 4);
    }
    kvref_audio *a;
    must(kvref_audio_open(&a, KVREF_AUDIO_PCM16, 44100, 8, NULL, &err), err);
    must(kvref_audio_put(a, wave, 8, &err), err);
    must_fail(kvref_audio_put(a, wave, (size_t)1 << 31, &err), KVREF_E_ARG, err, "after 8");
    ck_assert_uint_eq(kvref_audio_about(a).n, 8);
    kvref_audio_abort(&a);
}
END_TEST

START_TEST(equal_samples_give_equal_bytes_and_nothing_is_left_on_failure)
{
    unsigned char first[4096];
    size_t n_first = 0;
    for (int k = 0; k < 2; k++) {
        kvref_audio *a;
        used = 0;
        must(kvref_audio_open(&a, KVREF_AUDIO_FLOAT, 44100, 8, NULL, &err), err);
        must(kvref_audio_put(a, wave, 8, &err), err);
        must(kvref_audio_send(&a, keep, NULL, &err), err);
        ck_assert(a == NULL && used > 40 && used < sizeof first);
        ck_assert(k == 0 || (used == n_first && memcmp(first, buffer, used) == 0));
        memcpy(first, buffer, used);
        n_first = used;
    }
    ck_assert_msg(memmem(first, n_first, "PEAK", 4) == NULL, "a time stamp is in the file");
    kvref_audio *a;
    must(kvref_audio_open(&a, KVREF_AUDIO_PCM16, 44100, 8, NULL, &err), err);
    must_fail(
        kvref_audio_save(&a, "/nonexistent/x.wav", &err), KVREF_E_IO, err, "/nonexistent");
    ck_assert_ptr_null(a);
    must_fail(kvref_audio_open(&a, (kvref_audio_format)9, 44100, 1, NULL, &err),
              KVREF_E_ARG,
              err,
              "9");
    must_fail(
        kvref_audio_open(&a, KVREF_AUDIO_PCM16, -5, 1, NULL, &err), KVREF_E_ARG, err, "-5");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("audio");
    TCase *tc = tcase_create("audio");
    tcase_add_loop_test(
        tc, hand_made_wav_files_are_read_or_refused, 0, (int)(sizeof table / sizeof table[0]));
    tcase_add_loop_test(
        tc, every_common_format_is_read, 0, (int)(sizeof format / sizeof format[0]));
    tcase_add_test(tc, a_flac_cut_or_damaged_anywhere_is_refused);
    tcase_add_test(tc, samples_that_are_not_finite_are_refused_on_both_sides);
    tcase_add_test(tc, folders_pipes_and_empty_files_are_refused);
    tcase_add_test(tc, channels_are_averaged);
    tcase_add_test(tc, integers_are_floored_and_saturated);
    tcase_add_test(tc, float_and_24_bit_files_keep_their_precision);
    tcase_add_test(tc, a_sound_over_4_gib_becomes_rf64_or_is_refused);
    tcase_add_test(tc, equal_samples_give_equal_bytes_and_nothing_is_left_on_failure);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
