/* SPDX-License-Identifier: MIT */
/* Opening codecs: both file forms, the namings of weight norm, prefixes, dtypes, codec.json,
 * what is refused and how. */
#include "tests/codec_toy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = 3 };

static const kvref_codec_opts quick = {.n_thread = 1};
static const kvref_codec_opts decoding = {.n_thread = 1, .parts = KVREF_CODEC_DECODE};

/* Decodes and encodes with the codec in a folder; returns the samples, codes in *codes. */
static float *use(const char *path, kvref_codes *codes)
{
    kvref_error err;
    kvref_codec *codec;
    must(kvref_codec_open(&codec, path, &quick, &err), err);
    int n_book = kvref_codec_about(codec)->n_book;
    int32_t *code = toy_codes("load", n_book, FRAMES);
    float *pcm = toy_decode(codec, code, FRAMES), *audio = toy_audio("load", 500);
    must(kvref_codec_encode(codec, codes, audio, 500, &err), err);
    free(code);
    free(audio);
    kvref_codec_close(&codec);
    return pcm;
}

static void same(const char *a, const char *b)
{
    kvref_codes x, y;
    float *p = use(a, &x), *q = use(b, &y);
    ck_assert(memcmp(p, q, FRAMES * 192 * sizeof *p) == 0);
    ck_assert(x.n_frame == y.n_frame && x.n_book == y.n_book);
    ck_assert(memcmp(x.code, y.code, (size_t)(x.n_frame * x.n_book) * sizeof *x.code) == 0);
    free(p);
    free(q);
    kvref_codes_clear(&x);
    kvref_codes_clear(&y);
}

static const char *plain_toy(void)
{
    kvref_codec_dims dims = toy_small_dims();
    return toy_write(&dims, false, 0);
}

START_TEST(torch_archive_and_safetensors_give_the_same)
{
    kvref_codec_dims dims = toy_small_dims();
    const char *pth = toy_write(&dims, true, 5);
    same(pth, plain_toy());
    same(support_path(pth, "codec.pth"), pth);
    kvref_error err;
    kvref_file *file;
    must(kvref_file_open(&file, support_path(pth, "codec.pth"), NULL, &err), err);
    for (int i = 0; i < kvref_file_count(file); i++)
        ck_assert_uint_eq((uintptr_t)kvref_file_at(file, i)->data % 64, 0);
    kvref_file_close(&file);
}
END_TEST

/* Replaces the end of a name. */
static bool swap_end(char *name, const char *from, const char *to)
{
    size_t n = strlen(name), m = strlen(from);
    if (n < m || strcmp(name + n - m, from) != 0) return false;
    snprintf(name + n - m, 160 - (n - m), "%s", to);
    return true;
}

static bool old_names(void *user, char *name, kvref_tensor *t, float *x, size_t n)
{
    (void)user, (void)t, (void)x, (void)n;
    if (!swap_end(name, "parametrizations.weight.original0", "weight_g"))
        swap_end(name, "parametrizations.weight.original1", "weight_v");
    return true;
}

static bool new_names(void *user, char *name, kvref_tensor *t, float *x, size_t n)
{
    (void)user, (void)t, (void)x, (void)n;
    if (!swap_end(name, "weight_g", "parametrizations.weight.original0"))
        swap_end(name, "weight_v", "parametrizations.weight.original1");
    return true;
}

/* Folds: gains come before directions in order of names. */
static bool plain_names(void *user, char *name, kvref_tensor *t, float *x, size_t n)
{
    float *gain = user;
    if (strstr(name, "original0") || strstr(name, "weight_g")) {
        memcpy(gain, x, n * sizeof *x);
        return false;
    }
    if (!swap_end(name, "parametrizations.weight.original1", "weight") &&
        !swap_end(name, "weight_v", "weight"))
        return true;
    size_t row = n / (size_t)t->dim[0];
    for (int64_t r = 0; r < t->dim[0]; r++) {
        double sum = 0.0;
        float *w = x + (size_t)r * row;
        for (size_t i = 0; i < row; i++) sum += (double)w[i] * (double)w[i];
        double scale = (double)gain[r] / sqrt(sum);
        for (size_t i = 0; i < row; i++) w[i] = (float)((double)w[i] * scale);
    }
    return true;
}

START_TEST(three_namings_of_weights_are_interchangeable)
{
    const char *dir = plain_toy();
    same(toy_edit(dir, old_names, NULL, KVREF_F32), dir);
    same(toy_edit(dir, new_names, NULL, KVREF_F32), dir);
}
END_TEST

/* In.proj's gain stands between its bias and its direction, so one gain at a time is kept. */
START_TEST(folded_weights_equal_gain_and_direction)
{
    const char *dir = plain_toy();
    float gain[256];
    same(toy_edit(dir, plain_names, gain, KVREF_F32), dir);
}
END_TEST

/* Formula weights are exact in 16 bits. */
START_TEST(files_of_16_bits_are_widened)
{
    const char *dir = plain_toy();
    toy_editor *none = new_names;
    same(toy_edit(dir, none, NULL, KVREF_BF16), dir);
    same(toy_edit(dir, none, NULL, KVREF_F16), dir);
}
END_TEST

static bool add_generator(void *user, char *name, kvref_tensor *t, float *x, size_t n)
{
    char old[140];
    const char *twice = user;
    (void)t, (void)x, (void)n;
    snprintf(old, sizeof old, "%s", name);
    if (twice && strcmp(name, "encoder.block.0.conv.bias") == 0)
        snprintf(name, 160, "generator.generator.%s", twice);
    else
        snprintf(name, 160, "generator.%s", old);
    return true;
}

static bool one_generator(void *user, char *name, kvref_tensor *t, float *x, size_t n)
{
    (void)user, (void)t, (void)x, (void)n;
    if (strcmp(name, "encoder.block.0.conv.bias") == 0) snprintf(name, 160, "generator.x");
    return true;
}

START_TEST(generator_prefix_is_taken_off)
{
    kvref_error err;
    kvref_codec *codec;
    const char *dir = plain_toy();
    same(toy_edit(dir, add_generator, NULL, KVREF_F32), dir);
    char twice[] = "decoder.model.0.conv.bias";
    const char *bad = toy_edit(dir, add_generator, twice, KVREF_F32);
    must_fail(
        kvref_codec_open(&codec, bad, &decoding, &err), KVREF_E_FORMAT, err, "also present");
    ck_assert(codec == NULL);
    bad = toy_edit(dir, one_generator, NULL, KVREF_F32); /* the others then do not count */
    must_fail(
        kvref_codec_open(&codec, bad, &decoding, &err), KVREF_E_MISSING, err, "no tensor");
}
END_TEST

typedef struct change {
    const char *name, *rename; /* rename NULL: leave out; name itself: keep */
    int dim, size;             /* dim >= 0: set this extent              */
} change;

static bool apply(void *user, char *name, kvref_tensor *t, float *x, size_t n)
{
    const change *c = user;
    (void)x, (void)n;
    if (strcmp(name, c->name) != 0) return true;
    if (!c->rename) return false;
    snprintf(name, 160, "%s", c->rename);
    if (c->dim >= 0) t->dim[c->dim] = c->size;
    return true;
}

START_TEST(wrong_files_are_refused_by_name)
{
#define V     "decoder.model.0.conv.parametrizations.weight.original1"
#define G     "decoder.model.0.conv.parametrizations.weight.original0"
#define SPARE "encoder.block.0.conv.bias"
    static const struct {
        change change;
        kvref_status status;
        const char *text;
    } row[] = {
        {{V, NULL, -1, 0},
         KVREF_E_MISSING,
         "original0 without parametrizations.weight.original1"},
        {{G, NULL, -1, 0},
         KVREF_E_MISSING,
         "original1 without parametrizations.weight.original0"},
        {{SPARE, "decoder.model.0.conv.weight", -1, 0}, KVREF_E_FORMAT, "weight and param"},
        {{SPARE, "decoder.model.0.conv.weight_g", -1, 0}, KVREF_E_MISSING, "weight_g without"},
        {{V, "decoder.model.0.conv.weight", -1, 0}, KVREF_E_MISSING, "original0 without"},
        {{"decoder.model.0.conv.bias", NULL, -1, 0},
         KVREF_E_MISSING,
         "decoder.model.0.conv.bias"},
        {{G, G, 0, 15},
         KVREF_E_SHAPE,
         "expected F32, F16 or BF16 [16, 1, 1], found F32 [15, 1, 1]"},
        {{V, V, 2, 6}, KVREF_E_SHAPE, "decoder.model.0.conv"},
        {{"decoder.model.2.block.1.conv.parametrizations.weight.original1",
          "decoder.model.2.block.1.conv.parametrizations.weight.original1",
          2,
          5},
         KVREF_E_SHAPE,
         "kernel of 2 strides, found 5"},
        {{"quantizer.post_module.layers.1.ffn_norm.weight", NULL, -1, 0},
         KVREF_E_MISSING,
         "quantizer.post_module.layers.1.ffn_norm.weight"},
        {{"quantizer.semantic_quantizer.quantizers.0.codebook.weight", NULL, -1, 0},
         KVREF_E_MISSING,
         "semantic_quantizer.quantizers.0.codebook.weight"},
    };
    kvref_error err;
    const char *dir = plain_toy();
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        kvref_codec *codec;
        change c = row[i].change;
        const char *bad = toy_edit(dir, apply, &c, KVREF_F32);
        must_fail(
            kvref_codec_open(&codec, bad, &decoding, &err), row[i].status, err, row[i].text);
        ck_assert(codec == NULL);
    }
}
END_TEST

static bool no_encoder(void *user, char *name, kvref_tensor *t, float *x, size_t n)
{
    (void)user, (void)t, (void)x, (void)n;
    return strncmp(name, "encoder.", 8) != 0;
}

START_TEST(parts_are_loaded_as_asked)
{
    kvref_error err;
    kvref_codec *codec;
    kvref_codes codes;
    kvref_codec_stream *stream;
    kvref_codec_opts encoding = quick, none = quick;
    const char *dir = plain_toy(), *half = toy_edit(dir, no_encoder, NULL, KVREF_F32);
    float x[64] = {0};
    must_fail(kvref_codec_open(&codec, half, &quick, &err), KVREF_E_MISSING, err, "an encoder");
    must(kvref_codec_open(&codec, half, &decoding, &err), err);
    ck_assert_uint_eq(kvref_codec_about(codec)->parts, KVREF_CODEC_DECODE);
    ck_assert_int_eq(kvref_codec_about(codec)->frame, 192);
    must_fail(kvref_codec_encode(codec, &codes, x, 64, &err), KVREF_E_ARG, err, "encoding");
    kvref_codec_close(&codec);
    encoding.parts = KVREF_CODEC_ENCODE;
    must(kvref_codec_open(&codec, dir, &encoding, &err), err);
    ck_assert_int_eq(kvref_codec_about(codec)->frame, 192);
    must(kvref_codec_encode(codec, &codes, x, 64, &err), err);
    kvref_codes_clear(&codes);
    must_fail(kvref_codec_stream_open(&stream, codec, &err), KVREF_E_ARG, err, "decoding");
    kvref_codec_close(&codec);
    none.parts = 4;
    must_fail(kvref_codec_open(&codec, dir, &none, &err), KVREF_E_ARG, err, "parts");
    must_fail(kvref_codec_open(&codec, support_temp_dir(), &quick, &err),
              KVREF_E_MISSING,
              err,
              "codec.pth or codec.safetensors");
    must_fail(kvref_codec_open(&codec, support_path(dir, "none.pth"), &quick, &err),
              KVREF_E_MISSING,
              err,
              "none.pth");
}
END_TEST

START_TEST(codec_json_is_read_strictly)
{
    static const struct {
        const char *json, *text; /* text NULL: fine */
    } row[] = {
        {"{}", "not a multiple of head_dim 64"},
        {"{\"head_dim\": 12, \"window\": 9, \"encoder_window\": 20}", NULL},
        {"{\"window\": 9, \"strides\": [1]}", "sample_rate and window, found \"strides\""},
        {"{\"window\": 9, \"head_dim\": 12, \"window\": 8}",
         "window: expected once, found twice"},
        {"{\"head_dim\": 12, \"dilations\": [1, 3, 9], \"rope_base\": 1e4, \"norm_eps\": 1e-5, "
         "\"sample_rate\": 44100, \"decoder_strides\": [4, 3, 2, 2], "
         "\"encoder_strides\": [2, 2, 3, 4]}",
         NULL},
        {"{\"head_dim\": 5}", "head_dim: expected an even integer, 2..512, found 5"},
        {"{\"window\": 0}", "window: expected an integer, 1..65536, found 0"},
        {"{\"window\": \"9\"}", "found \"9\""},
        {"{\"dilations\": [1, 3]}", "dilations: expected 3 integers"},
        {"{\"rope_base\": -1}", "rope_base"},
        {"{\"norm_eps\": 0}", "norm_eps"},
        {"{\"head_dim\": 12, \"decoder_strides\": [8, 8, 4, 2]}", "does not fit stride 8"},
        {"{\"encoder_strides\": []}", "1..8 integers"},
        {"{\"head_dim\": 12, \"decoder_strides\": [4, 3, 2]}",
         "decoder_strides of codec.json: expected 4, as the file has, found 3"},
        {"{\"head_dim\": 12, \"encoder_strides\": [2, 2, 3, 4, 1]}",
         "encoder_strides of codec.json: expected 4, as the file has, found 5"},
        {"[1]", "codec.json"},
        {"{\"window\": 9", "codec.json"},
    };
    kvref_error err;
    const char *dir = plain_toy(), *path = support_path(dir, "codec.json");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        kvref_codec *codec;
        support_write(path, row[i].json, strlen(row[i].json));
        if (row[i].text) {
            kvref_status status = kvref_codec_open(&codec, dir, &quick, &err);
            ck_assert_msg(status != KVREF_OK && strstr(err.text, row[i].text),
                          "%s: %s",
                          row[i].json,
                          status == KVREF_OK ? "opened" : err.text);
        } else {
            must(kvref_codec_open(&codec, dir, &quick, &err), err);
            kvref_codec_close(&codec);
        }
    }
}
END_TEST

START_TEST(codec_json_takes_effect)
{
    static const char *const json[] = {"{\"head_dim\": 12}",
                                       "{\"head_dim\": 12, \"dilations\": [1, 3, 8]}",
                                       "{\"head_dim\": 12, \"rope_base\": 5000}",
                                       "{\"head_dim\": 12, \"norm_eps\": 0.5}",
                                       "{\"head_dim\": 12, \"sample_rate\": 16000}"};
    enum { N = sizeof json / sizeof *json, LONG = 12 };
    kvref_error err;
    float *pcm[N];
    const char *dir = plain_toy(), *path = support_path(dir, "codec.json");
    int32_t *code = toy_codes("json", 4, LONG);
    for (int i = 0; i < N; i++) {
        kvref_codec *codec;
        support_write(path, json[i], strlen(json[i]));
        must(kvref_codec_open(&codec, dir, &decoding, &err), err);
        int rate = kvref_codec_about(codec)->sample_rate;
        ck_assert_int_eq(rate, i == N - 1 ? 16000 : 44100);
        pcm[i] = toy_decode(codec, code, LONG);
        bool same = memcmp(pcm[i], pcm[0], LONG * 192 * sizeof(float)) == 0;
        ck_assert_msg(same == (i == 0 || i == N - 1), "%s", json[i]);
        kvref_codec_close(&codec);
    }
    for (int i = 0; i < N; i++) free(pcm[i]);
    free(code);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("codec_load");
    TCase *tc = tcase_create("codec_load");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, torch_archive_and_safetensors_give_the_same);
    tcase_add_test(tc, three_namings_of_weights_are_interchangeable);
    tcase_add_test(tc, folded_weights_equal_gain_and_direction);
    tcase_add_test(tc, files_of_16_bits_are_widened);
    tcase_add_test(tc, generator_prefix_is_taken_off);
    tcase_add_test(tc, wrong_files_are_refused_by_name);
    tcase_add_test(tc, parts_are_loaded_as_asked);
    tcase_add_test(tc, codec_json_is_read_strictly);
    tcase_add_test(tc, codec_json_takes_effect);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
