/* SPDX-License-Identifier: MIT */
/* Codec and sound files when memory runs out: the n-th allocation fails in the n-th try. The
 * call reports it and leaves nothing behind (leaks show under a sanitizer); with enough memory
 * it then succeeds. */
#include "kvref/audio.h"
#include "tests/alloc.h"
#include "tests/codec_toy.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FRAMES = 2, SAMPLES = 300 };

static kvref_error err;

/* Fails ever later allocations until the call succeeds; returns how many there were. */
static int starve(kvref_status (*call)(void *arg), void *arg)
{
    for (int n = 0; n < 100000; n++) {
        alloc_failed = false;
        alloc_left = n;
        err.text[0] = 0;
        kvref_status s = call(arg);
        bool spent = alloc_failed;
        alloc_left = -1;
        if (s == KVREF_OK && !spent) return n;
        ck_assert_msg(
            s == KVREF_E_MEMORY, "allocation %d: %s: %s", n, kvref_status_name(s), err.text);
        ck_assert_msg(err.text[0] != 0, "allocation %d: no message", n);
    }
    ck_abort_msg("never succeeds");
    return 0;
}

static kvref_codec_dims few_layers(void)
{
    kvref_codec_dims dims = toy_small_dims();
    dims.n_layer = dims.n_encoder_layer = dims.n_book = 1;
    return dims;
}

static unsigned parts;

static kvref_status open_codec(void *arg)
{
    kvref_codec *codec = (void *)&err;
    kvref_codec_opts opts = {.n_thread = 2, .parts = parts};
    kvref_status s = kvref_codec_open(&codec, arg, &opts, &err);
    if (s != KVREF_OK && codec) ck_abort_msg("a codec remains");
    kvref_codec_close(&codec);
    return s;
}

START_TEST(a_codec_that_cannot_be_allocated_is_reported)
{
    kvref_codec_dims dims = few_layers();
    parts = KVREF_CODEC_ENCODE;
    ck_assert_int_gt(starve(open_codec, (void *)toy_write(&dims, false, 0)), 100);
    parts = KVREF_CODEC_DECODE;
    ck_assert_int_gt(starve(open_codec, (void *)toy_write(&dims, true, 0)), 100);
}
END_TEST

static kvref_status decode(void *arg)
{
    static const int32_t code[FRAMES * 4] = {1, 2, 3, 4, 5, 6, 7, 8};
    static float pcm[FRAMES * 192];
    return kvref_codec_decode(arg, pcm, code, FRAMES, &err);
}

static kvref_status encode(void *arg)
{
    static const float pcm[SAMPLES] = {0.5f, -0.25f};
    kvref_codes codes = {.n_frame = -1};
    kvref_status s = kvref_codec_encode(arg, &codes, pcm, SAMPLES, &err);
    if (s != KVREF_OK && codes.code) ck_abort_msg("codes remain");
    kvref_codes_clear(&codes);
    return s;
}

START_TEST(decoding_and_encoding_without_memory_are_reported)
{
    kvref_codec_dims dims = toy_small_dims();
    kvref_codec *codec = toy_open(&dims, &(kvref_codec_opts){.n_thread = 1});
    ck_assert_int_gt(starve(decode, codec), 2);
    ck_assert_int_gt(starve(encode, codec), 3);
    kvref_codec_close(&codec);
}
END_TEST

static kvref_status resample(void *arg)
{
    float x[SAMPLES] = {1}, *y = x;
    size_t n;
    (void)arg;
    kvref_status s = kvref_resample(&y, &n, x, SAMPLES, 24000, 44100, &err);
    if (s != KVREF_OK && y) ck_abort_msg("samples remain");
    free(y);
    return s;
}

START_TEST(resampling_without_memory_is_reported)
{
    ck_assert_int_gt(starve(resample, NULL), 1);
}
END_TEST

static kvref_status write_sound(void *arg)
{
    static const float x[SAMPLES] = {0.5f};
    kvref_audio *a = (void *)&err;
    kvref_status s = kvref_audio_open(&a, KVREF_AUDIO_PCM16, 44100, SAMPLES, NULL, &err);
    if (s != KVREF_OK && a) ck_abort_msg("a sound remains");
    if (s == KVREF_OK) s = kvref_audio_put(a, x, SAMPLES, &err);
    if (s == KVREF_OK) {
        s = kvref_audio_save(&a, arg, &err);
        if (a) ck_abort_msg("a sound remains after it was to be saved");
    }
    kvref_audio_abort(&a);
    return s;
}

static kvref_status read_sound(void *arg)
{
    kvref_sound sound;
    kvref_status s = kvref_sound_read(&sound, arg, &err);
    if (s != KVREF_OK && sound.x) ck_abort_msg("samples remain");
    kvref_sound_clear(&sound);
    return s;
}

START_TEST(sound_files_without_memory_are_reported_and_not_half_written)
{
    const char *dir = support_path(support_temp_dir(), "sound");
    ck_assert_int_eq(mkdir(dir, 0777), 0);
    const char *path = support_path(dir, "x.wav");
    ck_assert_int_gt(starve(write_sound, (void *)path), 1);
    ck_assert_int_gt(starve(read_sound, (void *)path), 1);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_msg(rmdir(dir) == 0, "temporary files remain");
}
END_TEST

static kvref_status write_codec(void *arg)
{
    kvref_codec_dims dims = few_layers();
    kvref_synth_codec_opts opts = {0};
    return kvref_synth_codec_write(arg, &dims, &opts, &err);
}

START_TEST(a_synthetic_codec_that_cannot_be_allocated_is_reported)
{
    ck_assert_int_gt(starve(write_codec, (void *)support_temp_dir()), 20);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("codec_memory");
    TCase *tc = tcase_create("codec_memory");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_codec_that_cannot_be_allocated_is_reported);
    tcase_add_test(tc, decoding_and_encoding_without_memory_are_reported);
    tcase_add_test(tc, resampling_without_memory_is_reported);
    tcase_add_test(tc, sound_files_without_memory_are_reported_and_not_half_written);
    tcase_add_test(tc, a_synthetic_codec_that_cannot_be_allocated_is_reported);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
