/* SPDX-License-Identifier: MIT */
/* The codec against upstream's numbers: every case of golden-codec.json, and every stage that
 * codec.safetensors holds (golden/README.md). The uncut tensors are used where they are at
 * hand. Limits are the written ones: samples 1e-4, encoder output 1e-4 of the largest, stages
 * 3e-5 of the largest, latent 1e-5; a wrong norm eps passes none of the last two. */
#include "kvref/compare.h"
#include "kvref/limits.h"
#include "tests/codec_toy.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *golden_json(void)
{
    json_error_t bad;
    json_t *doc = json_load_file(support_source("golden/codec/golden-codec.json"), 0, &bad);
    ck_assert_msg(doc != NULL, "golden-codec.json: %s", bad.text);
    return doc;
}

static kvref_file *golden_file(void)
{
    kvref_error err;
    kvref_file *file;
    const char *path = support_shared("golden/upstream-codec.safetensors");
    if (!path) path = support_source("golden/codec/codec.safetensors");
    must(kvref_file_open(&file, path, NULL, &err), err);
    return file;
}

static kvref_codec *open_golden(kvref_conv conv, toy_taps *taps)
{
    kvref_codec_dims dims = toy_golden_dims();
    kvref_codec_opts opts = {.n_thread = 2, .conv = conv};
    if (taps) opts.tap = (kvref_tap){toy_collect, taps, KVREF_TAP_OPS};
    return toy_open(&dims, &opts);
}

static double number(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    ck_assert_msg(json_is_number(v), "no number %s", key);
    return json_number_value(v);
}

static double item(const json_t *object, const char *key, size_t i)
{
    return json_number_value(json_array_get(json_object_get(object, key), i));
}

/* The four channels of a column that the JSON holds. */
static void check_column(const json_t *c, const char *key, const float *row, double limit)
{
    for (size_t i = 0; i < 4; i++) {
        double want = item(c, key, i), err = fabs((double)row[i] - want);
        ck_assert_msg(err <= limit, "%s[%zu]: %g, expected %g", key, i, (double)row[i], want);
    }
}

static void check_decode(kvref_codec *codec, toy_taps *taps, const json_t *c)
{
    int n_frame = (int)number(c, "T"), n = n_frame * 2048;
    int32_t *code = toy_codes(json_string_value(json_object_get(c, "codes_name")), 4, n_frame);
    ck_assert_int_eq(n, (int)number(c, "samples"));
    toy_taps_clear(taps);
    float *pcm = toy_decode(codec, code, n_frame);
    const kvref_limit sound = kvref_limit_of(KVREF_STORE_F32, "decode.audio").limit;
    double worst = 0.0, square = 0.0;
    for (size_t i = 0; i < json_array_size(json_object_get(c, "index")); i++) {
        double err = fabs((double)pcm[(int)item(c, "index", i)] - item(c, "value", i));
        ck_assert_msg(err <= sound.abs, "T %d: sample %g", n_frame, item(c, "index", i));
        worst = err > worst ? err : worst;
    }
    for (int i = 0; i < n; i++) square += (double)pcm[i] * (double)pcm[i];
    ck_assert(fabs(sqrt(square / n) - number(c, "rms")) <= 1e-5);
    const toy_tap *latent = toy_find(taps, "upsample.1");
    ck_assert(latent && latent->n_row == 4 * n_frame && latent->width == 128);
    check_column(c, "latent_first", latent->x, 1e-5);
    check_column(c, "latent_last", latent->x + (4 * n_frame - 1) * 128, 1e-5);
    printf("decode %3d frames: worst sample %.1e\n", n_frame, worst);
    free(code);
    free(pcm);
}

static void check_encode(kvref_codec *codec, toy_taps *taps, const json_t *c)
{
    kvref_error err;
    kvref_codes codes;
    size_t n = (size_t)number(c, "L");
    float *pcm = toy_audio(json_string_value(json_object_get(c, "audio_name")), n);
    toy_taps_clear(taps);
    must(kvref_codec_encode(codec, &codes, pcm, n, &err), err);
    ck_assert_int_eq(codes.n_frame, (int)number(c, "frames"));
    ck_assert_int_eq(codes.n_book, 4);
    for (int b = 0; b < 4; b++) {
        const json_t *row = json_array_get(json_object_get(c, "codes"), (size_t)b);
        ck_assert_int_eq((int)json_array_size(row), codes.n_frame);
        for (int t = 0; t < codes.n_frame; t++)
            ck_assert_msg(codes.code[t * 4 + b] ==
                              json_integer_value(json_array_get(row, (size_t)t)),
                          "L %zu: frame %d, book %d",
                          n,
                          t,
                          b);
    }
    const toy_tap *out = toy_find(taps, "encoder.block.6");
    ck_assert(out && out->n_row == 4 * codes.n_frame && out->width == 128);
    float largest = 0.0f;
    for (int i = 0; i < out->n_row * 128; i++) largest = fmaxf(largest, fabsf(out->x[i]));
    check_column(c, "encoder_first", out->x, 1e-4 * (double)largest);
    check_column(c, "encoder_last", out->x + (out->n_row - 1) * 128, 1e-4 * (double)largest);
    printf("encode %6zu samples: %d frames, codes identical\n", n, codes.n_frame);
    kvref_codes_clear(&codes);
    free(pcm);
}

static void check_cases(kvref_conv conv)
{
    toy_taps taps = {0};
    json_t *doc = golden_json(), *c;
    kvref_codec *codec = open_golden(conv, &taps);
    size_t i;
    json_array_foreach(json_object_get(doc, "decode"), i, c) check_decode(codec, &taps, c);
    ck_assert_uint_eq(i, 3);
    json_array_foreach(json_object_get(doc, "encode"), i, c) check_encode(codec, &taps, c);
    ck_assert_uint_eq(i, 4);
    toy_taps_clear(&taps);
    kvref_codec_close(&codec);
    json_decref(doc);
}

START_TEST(every_case_of_the_json_agrees_with_blas)
{
    check_cases(KVREF_CONV_BLAS);
}
END_TEST

START_TEST(every_case_of_the_json_agrees_exactly_summed)
{
    check_cases(KVREF_CONV_EXACT);
}
END_TEST

/* Element of a stored tensor, [channel, time] or [time, channel], as [time, channel]; stored
 * columns may be the first and last ones of n_time only. */
static float *lay_out(const kvref_tensor *t, const toy_tap *tap, float *mine, bool rows)
{
    int64_t n_time = rows ? t->dim[0] : t->dim[t->n_dim - 1];
    int64_t n_chan = rows ? t->dim[1] : t->n_dim == 1 ? 1 : t->dim[0];
    float *ref = malloc(t->n_byte), v;
    ck_assert(ref && n_chan == tap->width && n_time <= tap->n_row);
    for (int64_t i = 0; i < n_time; i++) {
        int64_t at = n_time == tap->n_row || i < n_time / 2 ? i : tap->n_row - n_time + i;
        for (int64_t ch = 0; ch < n_chan; ch++) {
            int64_t from = rows ? i * n_chan + ch : ch * n_time + i;
            memcpy(&v, (const char *)t->data + from * (int64_t)sizeof v, sizeof v);
            ref[i * n_chan + ch] = v;
            mine[i * n_chan + ch] = tap->x[at * n_chan + ch];
        }
    }
    return ref;
}

/* Compares all taps of one case; returns how many there were. */
static int check_stages(const kvref_file *file, const char *prefix, const toy_taps *taps)
{
    int n = 0;
    double worst = 0.0;
    char where[96] = "";
    for (int i = 0; i < kvref_file_count(file); i++) {
        const kvref_tensor *t = kvref_file_at(file, i);
        size_t skip = strlen(prefix);
        if (strncmp(t->name, prefix, skip) != 0 || t->dtype != KVREF_F32) continue;
        const char *name = t->name + skip;
        if (strcmp(name, "audio") == 0) {
            if (*prefix == 'e') continue;
            name = "decoder.model.7";
        }
        const toy_tap *tap = toy_find(taps, name);
        ck_assert_msg(tap != NULL, "no tap %s", name);
        const char *dot = strrchr(name, '.');
        bool rows = dot && (dot[1] == 'L' || strcmp(dot, ".attn") == 0);
        float *mine = malloc(t->n_byte), *ref = lay_out(t, tap, mine, rows);
        kvref_limit limit = kvref_limit_of(KVREF_STORE_F32, "decode.z").limit; /* any stage's */
        kvref_difference d = kvref_compare(mine, ref, t->n_byte / sizeof(float), &limit);
        double rel = kvref_difference_rel(&d);
        ck_assert_msg(d.pass, "%s: %.2e of the largest at %zu", t->name, rel, d.at);
        if (rel > worst) {
            worst = rel;
            snprintf(where, sizeof where, "%s", t->name);
        }
        n++;
        free(mine);
        free(ref);
    }
    printf("%s: %d tensors, worst %.2e of the largest (%s)\n", prefix, n, worst, where);
    return n;
}

static void
check_codes(const kvref_file *file, const char *name, const int32_t *code, int n_frame)
{
    const kvref_tensor *t = kvref_file_find(file, name);
    ck_assert(t && t->dtype == KVREF_I32 && t->dim[0] == 4 && t->dim[1] == n_frame);
    for (int b = 0; b < 4; b++) {
        for (int f = 0; f < n_frame; f++) {
            int32_t v;
            memcpy(&v, (const char *)t->data + (b * n_frame + f) * 4, sizeof v);
            ck_assert_msg(v == code[f * 4 + b], "%s: book %d, frame %d", name, b, f);
        }
    }
}

static void decode_stages(const kvref_file *file, kvref_conv conv, int n_frame, int n_tensor)
{
    char name[32];
    toy_taps taps = {0};
    kvref_codec *codec = open_golden(conv, &taps);
    snprintf(name, sizeof name, "codes%d", n_frame);
    int32_t *code = toy_codes(name, 4, n_frame);
    snprintf(name, sizeof name, "decode%d.codes", n_frame);
    check_codes(file, name, code, n_frame);
    free(toy_decode(codec, code, n_frame));
    snprintf(name, sizeof name, "decode%d.", n_frame);
    ck_assert_int_eq(check_stages(file, name, &taps), n_tensor);
    toy_taps_clear(&taps);
    kvref_codec_close(&codec);
    free(code);
}

static void encode_stages(const kvref_file *file, kvref_conv conv, size_t n, int n_tensor)
{
    char name[32];
    kvref_error err;
    kvref_codes codes;
    toy_taps taps = {0};
    kvref_codec *codec = open_golden(conv, &taps);
    snprintf(name, sizeof name, "audio%zu", n);
    float *pcm = toy_audio(name, n);
    must(kvref_codec_encode(codec, &codes, pcm, n, &err), err);
    snprintf(name, sizeof name, "encode%zu.codes", n);
    check_codes(file, name, codes.code, codes.n_frame);
    snprintf(name, sizeof name, "encode%zu.", n);
    if (n_tensor) ck_assert_int_eq(check_stages(file, name, &taps), n_tensor);
    toy_taps_clear(&taps);
    kvref_codec_close(&codec);
    kvref_codes_clear(&codes);
    free(pcm);
}

START_TEST(every_stage_agrees_with_both_variants)
{
    kvref_file *file = golden_file();
    for (int conv = KVREF_CONV_BLAS; conv <= (int)KVREF_CONV_EXACT; conv++) {
        decode_stages(file, (kvref_conv)conv, 1, 17);
        decode_stages(file, (kvref_conv)conv, 5, 17);
        decode_stages(file, (kvref_conv)conv, 7, 1);
        encode_stages(file, (kvref_conv)conv, 2048, 0);
        encode_stages(file, (kvref_conv)conv, 5000, 28);
    }
    kvref_file_close(&file);
}
END_TEST

/* Positions 508 .. 519 and 599 of the encoder's first attention, whose window is 512. */
START_TEST(encoder_window_is_pinned_by_its_attention)
{
    kvref_error err;
    kvref_codes codes;
    toy_taps taps = {0};
    kvref_file *file = golden_file();
    kvref_codec *codec = open_golden(KVREF_CONV_BLAS, &taps);
    float *pcm = toy_audio("audio307193", 307193);
    must(kvref_codec_encode(codec, &codes, pcm, 307193, &err), err);
    check_codes(file, "encode307193.codes", codes.code, codes.n_frame);
    const kvref_tensor *t = kvref_file_find(file, "encode307193.encoder.transformer.L00.attn");
    const toy_tap *tap = toy_find(&taps, "encoder.transformer.L00.attn");
    ck_assert(t && tap && tap->n_row == 600 && tap->width == 128 && t->n_byte == 13 * 128 * 4);
    float ref[13 * 128], mine[13 * 128];
    memcpy(ref, t->data, sizeof ref);
    memcpy(mine, tap->x + 508 * 128, 12 * 128 * sizeof *mine);
    memcpy(mine + 12 * 128, tap->x + 599 * 128, 128 * sizeof *mine);
    const kvref_limit limit = kvref_limit_of(KVREF_STORE_F32, t->name).limit;
    kvref_difference d = kvref_compare(mine, ref, 13 * 128, &limit);
    ck_assert_msg(d.pass, "%.2e at %zu", kvref_difference_rel(&d), d.at);
    toy_taps_clear(&taps);
    kvref_codec_close(&codec);
    kvref_codes_clear(&codes);
    kvref_file_close(&file);
    free(pcm);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("codec_golden");
    TCase *tc = tcase_create("codec_golden");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, every_case_of_the_json_agrees_with_blas);
    tcase_add_test(tc, every_case_of_the_json_agrees_exactly_summed);
    tcase_add_test(tc, every_stage_agrees_with_both_variants);
    tcase_add_test(tc, encoder_window_is_pinned_by_its_attention);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
