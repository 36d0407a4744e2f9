/* SPDX-License-Identifier: MIT */
/* Streaming and threads change no bit, with either variant of convolution; memory does not
 * grow with length; what is not a number is found. */
#include "kvref/compare.h"
#include "kvref/limits.h"
#include "tests/alloc.h"
#include "tests/codec_toy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Decodes in pieces of the given sizes, the last one repeated. */
static float *
in_pieces(kvref_codec *codec, const int32_t *code, int n_frame, int first, int piece)
{
    kvref_error err;
    kvref_codec_stream *stream;
    int frame = kvref_codec_about(codec)->frame, n_book = kvref_codec_about(codec)->n_book;
    float *pcm = malloc((size_t)(n_frame * frame) * sizeof *pcm);
    must(kvref_codec_stream_open(&stream, codec, &err), err);
    for (int t = 0, n = first; t < n_frame; t += n, n = piece) {
        if (n > n_frame - t) n = n_frame - t;
        must(kvref_codec_stream_push(stream, pcm + t * frame, code + t * n_book, n, &err), err);
    }
    kvref_codec_stream_close(&stream);
    return pcm;
}

static void check_pieces(const kvref_codec_dims *dims, kvref_conv conv, int n_frame)
{
    kvref_codec_opts opts = {.n_thread = 2, .conv = conv};
    kvref_codec *codec = toy_open(dims, &opts);
    int n_book = kvref_codec_about(codec)->n_book;
    size_t n = (size_t)(n_frame * kvref_codec_about(codec)->frame);
    int32_t *code = toy_codes("pieces", n_book, n_frame);
    float *whole = toy_decode(codec, code, n_frame);
    static const int cut[][2] = {{1, 1}, {7, 7}, {25, 25}, {3, 16}, {13, 31}};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        float *pcm = in_pieces(codec, code, n_frame, cut[i][0], cut[i][1]);
        kvref_difference d = kvref_compare(pcm, whole, n, &(kvref_limit){.exact = true});
        ck_assert_msg(d.pass, "pieces of %d: sample %zu", cut[i][1], d.first_bad);
        free(pcm);
    }
    free(code);
    free(whole);
    kvref_codec_close(&codec);
}

/* 60 frames reach behind the windows of 9 twice over, and behind every convolution. */
START_TEST(pieces_equal_the_whole_bit_for_bit)
{
    kvref_codec_dims dims = toy_small_dims();
    check_pieces(&dims, KVREF_CONV_BLAS, 60);
    check_pieces(&dims, KVREF_CONV_EXACT, 60);
}
END_TEST

/* 700 frames: the kept keys have to be moved, and are at other times than in the whole. */
START_TEST(long_pieces_equal_the_whole)
{
    kvref_codec_dims dims = toy_small_dims();
    check_pieces(&dims, KVREF_CONV_BLAS, 700);
}
END_TEST

START_TEST(pieces_equal_the_whole_at_the_golden_widths)
{
    kvref_codec_dims dims = toy_golden_dims();
    check_pieces(&dims, KVREF_CONV_BLAS, 34);
    check_pieces(&dims, KVREF_CONV_EXACT, 26);
}
END_TEST

/* Longer than one internal piece, so the encoder carries its state as well. */
START_TEST(thread_counts_change_no_bit)
{
    kvref_error err;
    kvref_codec_dims dims = toy_small_dims();
    for (int conv = KVREF_CONV_BLAS; conv <= (int)KVREF_CONV_EXACT; conv++) {
        static const int threads[] = {1, 2, 3, 8};
        float *first = NULL;
        kvref_codes first_codes = {0};
        const char *dir = toy_write(&dims, false, 0);
        int32_t *code = toy_codes("threads", 4, 40);
        size_t n_audio = 48 * 900 + 11;
        float *audio = toy_audio("threads", n_audio);
        for (int i = 0; i < 4; i++) {
            kvref_codec *codec;
            kvref_codes codes;
            kvref_codec_opts opts = {.n_thread = threads[i], .conv = (kvref_conv)conv};
            must(kvref_codec_open(&codec, dir, &opts, &err), err);
            float *pcm = toy_decode(codec, code, 40);
            must(kvref_codec_encode(codec, &codes, audio, n_audio, &err), err);
            if (i == 0) {
                first = pcm;
                first_codes = codes;
            } else {
                size_t n = (size_t)(40 * kvref_codec_about(codec)->frame);
                ck_assert(memcmp(pcm, first, n * sizeof *pcm) == 0);
                ck_assert_int_eq(codes.n_frame, first_codes.n_frame);
                ck_assert(memcmp(codes.code,
                                 first_codes.code,
                                 (size_t)(codes.n_frame * 4) * sizeof *codes.code) == 0);
                free(pcm);
                kvref_codes_clear(&codes);
            }
            kvref_codec_close(&codec);
        }
        free(first);
        free(code);
        free(audio);
        kvref_codes_clear(&first_codes);
    }
}
END_TEST

/* The encoder takes 256 frames at a time; frames before a cut do not know what follows. */
START_TEST(encoding_a_prefix_gives_a_prefix)
{
    kvref_error err;
    kvref_codec_dims dims = toy_small_dims();
    toy_taps taps = {0}; /* collecting them checks that rows are numbered on */
    kvref_codec_opts opts = {.n_thread = 1, .tap = {toy_collect, &taps, KVREF_TAP_LAYERS}};
    kvref_codec *codec = toy_open(&dims, &opts);
    int frame = kvref_codec_about(codec)->frame;
    size_t n = (size_t)(400 * frame);
    float *audio = toy_audio("prefix", n);
    kvref_codes all, part;
    must(kvref_codec_encode(codec, &all, audio, n, &err), err);
    ck_assert_int_eq(all.n_frame, 400);
    static const int length[] = {1, 255, 256, 257, 343};
    for (int i = 0; i < 5; i++) {
        toy_taps_clear(&taps);
        must(kvref_codec_encode(codec, &part, audio, (size_t)(length[i] * frame), &err), err);
        ck_assert_int_eq(part.n_frame, length[i]);
        ck_assert(memcmp(part.code, all.code, (size_t)(4 * length[i]) * sizeof(int32_t)) == 0);
        kvref_codes_clear(&part);
    }
    toy_taps_clear(&taps);
    kvref_codes_clear(&all);
    free(audio);
    kvref_codec_close(&codec);
}
END_TEST

/* 3000 frames, 23 at a time: what a stream needs, and states, it has from the start. */
START_TEST(memory_is_as_stated_and_does_not_grow_with_length)
{
    kvref_error err;
    kvref_codec_stream *stream;
    kvref_codec_dims dims = toy_small_dims();
    kvref_codec_opts opts = {.n_thread = 1, .parts = KVREF_CODEC_DECODE};
    kvref_codec *codec = toy_open(&dims, &opts);
    int frame = kvref_codec_about(codec)->frame;
    float *pcm = malloc((size_t)(23 * frame) * sizeof *pcm);
    int32_t *code = toy_codes("long", 4, 3000);
    alloc_count = 0;
    alloc_bytes = 0;
    kvref_status status = kvref_codec_stream_open(&stream, codec, &err);
    size_t n_byte = alloc_bytes; /* Check allocates in its assertions: none before here */
    must(status, err);
    ck_assert_int_ge(alloc_count, 1); /* the counter works */
    ck_assert_uint_eq(n_byte, kvref_codec_stream_bytes(codec));
    alloc_count = 0;
    for (int t = 0; t < 3000 && status == KVREF_OK; t += 23) {
        int n = 3000 - t < 23 ? 3000 - t : 23;
        status = kvref_codec_stream_push(stream, pcm, code + 4 * t, n, &err);
    }
    int n_push = alloc_count;
    must(status, err);
    ck_assert_int_eq(n_push, 0);
    kvref_codec_stream_close(&stream);
    free(pcm);
    free(code);
    kvref_codec_close(&codec);
}
END_TEST

START_TEST(bad_calls_are_refused_and_change_nothing)
{
    kvref_error err;
    kvref_codec_stream *stream;
    kvref_codec_dims dims = toy_small_dims();
    kvref_codec_opts opts = {.n_thread = 1};
    kvref_codec *codec = toy_open(&dims, &opts);
    int frame = kvref_codec_about(codec)->frame;
    int32_t *code = toy_codes("bad", 4, 6);
    float *whole = toy_decode(codec, code, 6), pcm[6 * 192];
    ck_assert_int_eq(frame, 192);
    must_fail(kvref_codec_decode(codec, pcm, code, 0, &err), KVREF_E_ARG, err, "at least one");
    must_fail(kvref_codec_decode(codec, pcm, code, -3, &err), KVREF_E_ARG, err, "found -3");
    must(kvref_codec_stream_open(&stream, codec, &err), err);
    must(kvref_codec_stream_push(stream, pcm, code, 2, &err), err);
    code[4 * 4 + 2] = -1;
    must_fail(kvref_codec_stream_push(stream, pcm + 2 * frame, code + 8, 4, &err),
              KVREF_E_ARG,
              err,
              "frame 2, book 2: expected a code of 0 or more, found -1");
    must_fail(
        kvref_codec_stream_push(stream, pcm, code, -1, &err), KVREF_E_ARG, err, "found -1");
    must(kvref_codec_stream_push(stream, pcm, code, 0, &err), err);
    int32_t *again = toy_codes("bad", 4, 6);
    must(kvref_codec_stream_push(stream, pcm + 2 * frame, again + 8, 4, &err), err);
    ck_assert(memcmp(pcm, whole, sizeof pcm) == 0);
    kvref_codec_stream_close(&stream);
    kvref_codes codes;
    must_fail(kvref_codec_encode(codec, &codes, pcm, 0, &err), KVREF_E_ARG, err, "no samples");
    must_fail(kvref_codec_encode(codec, &codes, pcm, (size_t)1 << 31, &err),
              KVREF_E_ARG,
              err,
              "expected at most 2147483520 samples, found 2147483648");
    pcm[17] = NAN;
    must_fail(
        kvref_codec_encode(codec, &codes, pcm, 300, &err), KVREF_E_ARG, err, "sample 17 ");
    free(code);
    free(again);
    free(whole);
    kvref_codec_close(&codec);
}
END_TEST

/* Codes above the tables are the last entry, up to the largest integer. */
START_TEST(codes_above_the_tables_are_clamped)
{
    kvref_codec_dims dims = toy_small_dims();
    kvref_codec_opts opts = {.n_thread = 1};
    kvref_codec *codec = toy_open(&dims, &opts);
    const int32_t over[8] = {32, 16, 4096, INT32_MAX, INT32_MAX, 1024, 17, 4095};
    const int32_t last[8] = {31, 15, 15, 15, 31, 15, 15, 15};
    float *a = toy_decode(codec, over, 2), *b = toy_decode(codec, last, 2);
    ck_assert(memcmp(a, b, 2 * 192 * sizeof *a) == 0);
    free(a);
    free(b);
    kvref_codec_close(&codec);
}
END_TEST

/* The two variants differ by rounding alone: the golden limit on samples holds between them. */
START_TEST(variants_agree_and_are_not_the_same)
{
    kvref_codec_dims dims = toy_golden_dims();
    kvref_codec_opts blas = {.n_thread = 2}, exact = {.n_thread = 2, .conv = KVREF_CONV_EXACT};
    kvref_codec *a = toy_open(&dims, &blas), *b = toy_open(&dims, &exact);
    int32_t *code = toy_codes("variants", 4, 20);
    float *x = toy_decode(a, code, 20), *y = toy_decode(b, code, 20);
    const kvref_limit limit = kvref_limit_of(KVREF_STORE_F32, "decode.audio").limit;
    kvref_difference d = kvref_compare(x, y, 20 * 2048, &limit);
    ck_assert_msg(d.pass && d.max_err > 0, "%.2e at %zu", d.max_err, d.at);
    printf("blas against exact: worst sample %.1e\n", d.max_err);
    free(x);
    free(y);
    free(code);
    kvref_codec_close(&a);
    kvref_codec_close(&b);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("codec_stream");
    TCase *tc = tcase_create("codec_stream");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, pieces_equal_the_whole_bit_for_bit);
    tcase_add_test(tc, long_pieces_equal_the_whole);
    tcase_add_test(tc, pieces_equal_the_whole_at_the_golden_widths);
    tcase_add_test(tc, thread_counts_change_no_bit);
    tcase_add_test(tc, encoding_a_prefix_gives_a_prefix);
    tcase_add_test(tc, memory_is_as_stated_and_does_not_grow_with_length);
    tcase_add_test(tc, bad_calls_are_refused_and_change_nothing);
    tcase_add_test(tc, codes_above_the_tables_are_clamped);
    tcase_add_test(tc, variants_agree_and_are_not_the_same);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
