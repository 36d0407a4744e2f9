/* SPDX-License-Identifier: MIT */
/* The search of the quantizer where the golden codes have nothing to say: ties, and vectors of
 * length zero (spec 06 section 4, step 6). */
#include "tests/codec_toy.h"

#include <stdlib.h>
#include <string.h>

#define BOOK "quantizer.semantic_quantizer.quantizers.0."

enum { SAMPLES = 192 * 20 };

/* The codes of book 0 [20] for the small codec as an editor has changed it. */
static void encode_edited(int32_t code[20], toy_editor *edit)
{
    kvref_error err;
    kvref_codec *codec;
    kvref_codes codes;
    kvref_codec_dims dims = toy_small_dims();
    kvref_codec_opts opts = {.n_thread = 1, .parts = KVREF_CODEC_ENCODE};
    const char *dir = toy_edit(toy_write(&dims, false, 0), edit, NULL, KVREF_F32);
    float *audio = toy_audio("books", SAMPLES);
    must(kvref_codec_open(&codec, dir, &opts, &err), err);
    must(kvref_codec_encode(codec, &codes, audio, SAMPLES, &err), err);
    ck_assert_int_eq(codes.n_frame, 20);
    for (int t = 0; t < 20; t++) code[t] = codes.code[t * codes.n_book];
    kvref_codes_clear(&codes);
    kvref_codec_close(&codec);
    free(audio);
}

/* Entries 2 k and 2 k + 1 become equal. */
static bool in_pairs(void *user, char *name, kvref_tensor *t, float *x, size_t n)
{
    (void)user;
    if (strcmp(name, BOOK "codebook.weight") != 0) return true;
    size_t width = (size_t)t->dim[1];
    for (size_t i = 0; i + width < n; i += 2 * width)
        memcpy(x + i + width, x + i, width * sizeof *x);
    return true;
}

START_TEST(the_first_of_equal_entries_is_taken)
{
    int32_t code[20];
    int n_kind = 0;
    encode_edited(code, in_pairs);
    for (int t = 0; t < 20; t++) {
        ck_assert_msg(code[t] % 2 == 0, "frame %d: code %d", t, (int)code[t]);
        n_kind += t > 0 && code[t] != code[0];
    }
    ck_assert_int_gt(n_kind, 0); /* otherwise it is no search */
}
END_TEST

/* The projection gives nothing but zeros, and so does entry 7. */
static bool all_zero(void *user, char *name, kvref_tensor *t, float *x, size_t n)
{
    (void)user;
    if (strcmp(name, BOOK "in_proj.bias") == 0 || strcmp(name, BOOK "in_proj.weight_g") == 0)
        memset(x, 0, n * sizeof *x);
    if (strcmp(name, BOOK "codebook.weight") == 0)
        memset(x + 7 * t->dim[1], 0, (size_t)t->dim[1] * sizeof *x);
    return true;
}

START_TEST(vectors_of_length_zero_stay_zero)
{
    int32_t code[20];
    encode_edited(code, all_zero);
    for (int t = 0; t < 20; t++)
        ck_assert_msg(code[t] == 7, "frame %d: code %d", t, (int)code[t]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("codec_books");
    TCase *tc = tcase_create("codec_books");
    tcase_add_test(tc, the_first_of_equal_entries_is_taken);
    tcase_add_test(tc, vectors_of_length_zero_stay_zero);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
