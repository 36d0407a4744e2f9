/* SPDX-License-Identifier: MIT */
/* Sizes that a codec file may have: counted and measured on its tensors, and refused where they
 * do not go together or pass what is supported. */
#include "tests/codec_toy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAMES = 3 };

static kvref_error err;

/* The last block of the decoder goes; what stood behind it moves up, in the widths of the
 * third, with values from tensors that decoding does not use. The encoder, of four blocks, goes
 * too. */
static bool three_blocks(void *user, char *name, kvref_tensor *t, float *x, size_t n)
{
    static const char *const move[][2] = {
        {"decoder.model.4.block.0.alpha", "decoder.model.4.alpha"},
        {"decoder.model.6.conv.bias", "decoder.model.5.conv.bias"},
        {"encoder.block.0.conv.parametrizations.weight.original1",
         "decoder.model.5.conv.weight"}};
    (void)user, (void)x, (void)n;
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, move[i][0]) != 0) continue;
        snprintf(name, 160, "%s", move[i][1]);
        if (i == 2) memcpy(t->dim, (int64_t[]){1, 2, 7}, 3 * sizeof t->dim[0]);
        return true;
    }
    return strncmp(name, "decoder.model.4.", 16) != 0 &&
           strncmp(name, "decoder.model.5.", 16) && strncmp(name, "decoder.model.6.", 16) &&
           strncmp(name, "encoder.", 8);
}

START_TEST(blocks_are_as_many_as_the_file_has)
{
    kvref_codec *codec;
    toy_taps taps = {0};
    kvref_codec_opts opts = {.n_thread = 1, .parts = KVREF_CODEC_DECODE};
    opts.tap = (kvref_tap){toy_collect, &taps, KVREF_TAP_LAYERS};
    kvref_codec_dims dims = toy_small_dims();
    const char *dir = toy_edit(toy_write(&dims, false, 0), three_blocks, NULL, KVREF_F32);
    int32_t *code = toy_codes("blocks", 4, FRAMES);
    must(kvref_codec_open(&codec, dir, &opts, &err), err);
    ck_assert_int_eq(kvref_codec_about(codec)->frame, 96);
    float *pcm = toy_decode(codec, code, FRAMES);
    const toy_tap *last = toy_find(&taps, "decoder.model.6");
    ck_assert(last && last->n_row == FRAMES * 96 && last->width == 1);
    ck_assert(memcmp(last->x, pcm, FRAMES * 96 * sizeof *pcm) == 0);
    ck_assert(toy_find(&taps, "decoder.model.5") && !toy_find(&taps, "decoder.model.7"));
    toy_taps_clear(&taps);
    kvref_codec_close(&codec);
    free(pcm);
    free(code);
}
END_TEST

static void refuse(const char *dir, unsigned parts, kvref_status status, const char *text)
{
    kvref_codec *codec = (void *)&err;
    kvref_codec_opts opts = {.n_thread = 1, .parts = parts};
    must_fail(kvref_codec_open(&codec, dir, &opts, &err), status, err, text);
    ck_assert_ptr_null(codec);
}

START_TEST(encoder_and_decoder_must_have_one_frame)
{
    kvref_codec_dims dims = toy_small_dims();
    dims.encoder_strides[0] = 4;
    refuse(toy_write(&dims, false, 0),
           0,
           KVREF_E_SHAPE,
           "a frame is 384 samples for the encoder, 192 for the decoder");
}
END_TEST

START_TEST(frames_of_more_than_65536_samples_are_refused)
{
    kvref_codec_dims dims = toy_small_dims();
    dims.encoder_strides[0] = dims.encoder_strides[1] = 256;
    dims.decoder_strides[0] = dims.decoder_strides[1] = 256;
    const char *dir = toy_write(&dims, false, 0);
    refuse(dir, KVREF_CODEC_DECODE, KVREF_E_UNSUPPORTED, "more than 65536 samples in a frame");
    refuse(dir, KVREF_CODEC_ENCODE, KVREF_E_UNSUPPORTED, "more than 65536 samples in a frame");
}
END_TEST

static bool wide_entries(void *user, char *name, kvref_tensor *t, float *x, size_t n)
{
    (void)user, (void)x, (void)n;
    if (strcmp(name, "quantizer.semantic_quantizer.quantizers.0.codebook.weight") == 0)
        memcpy(t->dim, (int64_t[]){3, 65}, 2 * sizeof t->dim[0]);
    return true;
}

START_TEST(entries_of_more_than_64_columns_are_refused)
{
    kvref_codec_dims dims = toy_small_dims();
    const char *dir = toy_edit(toy_write(&dims, false, 0), wide_entries, NULL, KVREF_F32);
    refuse(dir, 0, KVREF_E_UNSUPPORTED, "expected at most 64 columns");
}
END_TEST

/* Tensors of the encoder become books behind the three that there are. */
static bool many_books(void *user, char *name, kvref_tensor *t, float *x, size_t n)
{
    int *n_book = user;
    (void)t, (void)x, (void)n;
    if (strncmp(name, "encoder.", 8) == 0 && *n_book < 40)
        snprintf(name, 160, "quantizer.quantizer.quantizers.%d.codebook.weight", (*n_book)++);
    return true;
}

START_TEST(more_than_32_books_are_refused)
{
    int n_book = 3;
    kvref_codec_dims dims = toy_small_dims();
    const char *dir = toy_edit(toy_write(&dims, false, 0), many_books, &n_book, KVREF_F32);
    ck_assert_int_eq(n_book, 40);
    refuse(dir, KVREF_CODEC_DECODE, KVREF_E_UNSUPPORTED, "more than 31 of");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("codec_sizes");
    TCase *tc = tcase_create("codec_sizes");
    tcase_add_test(tc, blocks_are_as_many_as_the_file_has);
    tcase_add_test(tc, encoder_and_decoder_must_have_one_frame);
    tcase_add_test(tc, frames_of_more_than_65536_samples_are_refused);
    tcase_add_test(tc, entries_of_more_than_64_columns_are_refused);
    tcase_add_test(tc, more_than_32_books_are_refused);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
