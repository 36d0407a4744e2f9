/* SPDX-License-Identifier: MIT */
/* The golden codec and smaller toys for the codec tests: made in a temporary folder, opened,
 * with codes and audio by formula, and a collector of taps. */
#ifndef KVREF_TESTS_CODEC_TOY_H
#define KVREF_TESTS_CODEC_TOY_H

#include "kvref/codec.h"
#include "kvref/synth_codec.h"
#include "tests/support.h"

/* Sizes of golden-codec.json. */
kvref_codec_dims toy_golden_dims(void);

/* Widths of a few channels, windows of 9 and 20, so that a test of many frames is quick. */
kvref_codec_dims toy_small_dims(void);

/* A fresh folder with the codec of these dims. Not to be freed. */
const char *toy_write(const kvref_codec_dims *dims, bool pth, int dead_rows);

/* Writes and opens. */
kvref_codec *toy_open(const kvref_codec_dims *dims, const kvref_codec_opts *opts);

/* codes[b][t] = mix(name, b * T + t) mod 40, time-major [n_frame, n_book]; to be freed. */
int32_t *toy_codes(const char *name, int n_book, int n_frame);

/* sample[i] = ((mix(name, i) >> 24) - 128) / 256; to be freed. */
float *toy_audio(const char *name, size_t n);

/* n values in -1 .. 1; to be freed. */
float *toy_noise(size_t n, uint32_t seed);

/* Decodes into fresh memory. */
float *toy_decode(kvref_codec *codec, const int32_t *code, int n_frame);

/* Copies the codec.safetensors of dir to a fresh folder (with its codec.json); edit sees every
 * tensor as float32 values x [n], may change name [160], shape and values, and returns false to
 * leave it out. Written as dtype. */
typedef bool toy_editor(void *user, char *name, kvref_tensor *t, float *x, size_t n);
const char *toy_edit(const char *dir, toy_editor *edit, void *user, kvref_dtype dtype);

/* Rows of every tap, joined over pieces. */
typedef struct toy_tap {
    char name[64];
    int n_row, width;
    float *x; /* [n_row, width] */
} toy_tap;

typedef struct toy_taps {
    toy_tap *tap;
    int n;
} toy_taps;

/* kvref_tap.fn with a toy_taps as user. */
void toy_collect(void *user, const kvref_tap_data *data);
const toy_tap *toy_find(const toy_taps *taps, const char *name);
void toy_taps_clear(toy_taps *taps);

#endif
