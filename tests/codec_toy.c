/* SPDX-License-Identifier: MIT */
#include "tests/codec_toy.h"

#include "kvref/half.h"
#include "kvref/synth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

kvref_codec_dims toy_golden_dims(void)
{
    kvref_codec_dims d = kvref_codec_dims_real();
    d.encoder_dim = 8;
    d.decoder_dim = 48;
    d.latent_dim = 128;
    d.n_layer = d.n_encoder_layer = 2;
    d.d_ff = 160;
    d.encoder_d_ff = 384;
    d.n_semantic = 32;
    d.n_book = 3;
    d.n_code = 16;
    return d;
}

kvref_codec_dims toy_small_dims(void)
{
    kvref_codec_dims d = kvref_codec_dims_toy();
    d.encoder_dim = 2;
    d.decoder_dim = 16;
    d.latent_dim = 24;
    d.head_dim = 12;
    d.d_ff = d.encoder_d_ff = 20;
    d.n_layer = 2;
    d.encoder_strides[0] = d.decoder_strides[3] = 2;
    d.encoder_strides[1] = d.decoder_strides[2] = 2;
    d.encoder_strides[2] = d.decoder_strides[1] = 3;
    d.encoder_strides[3] = d.decoder_strides[0] = 4;
    d.window = 9;
    d.encoder_window = 20;
    return d;
}

/* A folder made in the temporary one; its path stays valid to the end. */
static const char *folder_of(const char *what, int n)
{
    enum { MOST = 256 };
    static char made[MOST][600];
    static int n_made;
    char name[32];
    ck_assert_int_lt(n_made, MOST);
    snprintf(name, sizeof name, "%s%d", what, n);
    const char *path = support_path(support_temp_dir(), name);
    ck_assert_uint_lt(strlen(path), sizeof made[0]);
    char *dir = memcpy(made[n_made++], path, strlen(path) + 1);
    ck_assert(mkdir(dir, 0777) == 0);
    return dir;
}

const char *toy_write(const kvref_codec_dims *dims, bool pth, int dead_rows)
{
    static int n;
    kvref_error err;
    kvref_synth_codec_opts o = {.pth = pth, .dead_rows = dead_rows};
    const char *dir = folder_of("codec", n++);
    must(kvref_synth_codec_write(dir, dims, &o, &err), err);
    return dir;
}

kvref_codec *toy_open(const kvref_codec_dims *dims, const kvref_codec_opts *opts)
{
    kvref_error err;
    kvref_codec *codec;
    must(kvref_codec_open(&codec, toy_write(dims, false, 0), opts, &err), err);
    return codec;
}

static void copy_json(const char *from, const char *to)
{
    char text[512];
    FILE *f = fopen(support_path(from, "codec.json"), "rb");
    if (!f) return;
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    support_write(support_path(to, "codec.json"), text, n);
}

static void put_values(kvref_writer *w, const float *x, size_t n, kvref_dtype dtype)
{
    kvref_error err;
    if (dtype == KVREF_F32) must(kvref_writer_put(w, x, n * sizeof *x, &err), err);
    for (size_t i = 0; dtype != KVREF_F32 && i < n; i++) {
        uint16_t h = dtype == KVREF_F16 ? kvref_f32_f16(x[i]) : kvref_f32_bf16(x[i]);
        must(kvref_writer_put(w, &h, sizeof h, &err), err);
    }
}

const char *toy_edit(const char *dir, toy_editor *edit, void *user, kvref_dtype dtype)
{
    static int n_edit;
    enum { MOST = 700 };
    static char name[MOST][160];
    static kvref_tensor list[MOST];
    static float *value[MOST];
    int n = 0;
    kvref_error err;
    kvref_file *file;
    kvref_writer *w;
    must(kvref_file_open(&file, support_path(dir, "codec.safetensors"), NULL, &err), err);
    for (int i = 0; i < kvref_file_count(file); i++) {
        const kvref_tensor *t = kvref_file_at(file, i);
        ck_assert(n < MOST && t->dtype == KVREF_F32);
        value[n] = malloc(t->n_byte);
        memcpy(value[n], t->data, t->n_byte);
        list[n] = *t;
        snprintf(name[n], sizeof name[n], "%s", t->name);
        list[n].name = name[n];
        list[n].dtype = dtype;
        if (edit(user, name[n], &list[n], value[n], t->n_byte / sizeof(float)))
            n++;
        else
            free(value[n]);
    }
    const char *out = folder_of("edited", n_edit++);
    copy_json(dir, out);
    const char *path = support_path(out, "codec.safetensors");
    must(kvref_writer_open(&w, path, list, n, NULL, 0, &err), err);
    for (int i = 0; i < n; i++) {
        size_t count = 1;
        for (int d = 0; d < list[i].n_dim; d++) count *= (size_t)list[i].dim[d];
        put_values(w, value[i], count, dtype);
        free(value[i]);
    }
    must(kvref_writer_commit(&w, &err), err);
    kvref_file_close(&file);
    return out;
}

int32_t *toy_codes(const char *name, int n_book, int n_frame)
{
    uint32_t fnv = kvref_synth_fnv(name);
    int32_t *code = malloc((size_t)(n_book * n_frame) * sizeof *code);
    ck_assert(code != NULL);
    for (int b = 0; b < n_book; b++)
        for (int t = 0; t < n_frame; t++)
            code[t * n_book + b] =
                (int32_t)(kvref_synth_mix(fnv, (uint32_t)(b * n_frame + t)) % 40);
    return code;
}

float *toy_audio(const char *name, size_t n)
{
    uint32_t fnv = kvref_synth_fnv(name);
    float *x = malloc(n * sizeof *x);
    ck_assert(x != NULL);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((int)(kvref_synth_mix(fnv, (uint32_t)i) >> 24) - 128) / 256.0f;
    return x;
}

float *toy_noise(size_t n, uint32_t seed)
{
    float *x = malloc(n * sizeof *x);
    ck_assert(x != NULL);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)seed * 0x1p-31f;
    }
    return x;
}

float *toy_decode(kvref_codec *codec, const int32_t *code, int n_frame)
{
    kvref_error err;
    size_t n = (size_t)n_frame * (size_t)kvref_codec_about(codec)->frame;
    float *pcm = malloc(n * sizeof *pcm);
    ck_assert(pcm != NULL);
    must(kvref_codec_decode(codec, pcm, code, n_frame, &err), err);
    return pcm;
}

void toy_collect(void *user, const kvref_tap_data *data)
{
    toy_taps *taps = user;
    toy_tap *tap = (toy_tap *)toy_find(taps, data->name);
    if (!tap) {
        taps->tap = realloc(taps->tap, (size_t)(taps->n + 1) * sizeof *taps->tap);
        ck_assert(taps->tap != NULL);
        tap = &taps->tap[taps->n++];
        *tap = (toy_tap){.width = data->width};
        snprintf(tap->name, sizeof tap->name, "%s", data->name);
    }
    ck_assert_msg(tap->n_row == data->first && tap->width == data->width,
                  "%s: rows from %d after %d",
                  data->name,
                  data->first,
                  tap->n_row);
    size_t had = (size_t)tap->n_row * (size_t)tap->width;
    size_t more = (size_t)data->n_row * (size_t)tap->width;
    tap->x = realloc(tap->x, (had + more) * sizeof *tap->x);
    ck_assert(tap->x != NULL);
    memcpy(tap->x + had, data->x, more * sizeof *tap->x);
    tap->n_row += data->n_row;
}

const toy_tap *toy_find(const toy_taps *taps, const char *name)
{
    for (int i = 0; i < taps->n; i++)
        if (strcmp(taps->tap[i].name, name) == 0) return &taps->tap[i];
    return NULL;
}

void toy_taps_clear(toy_taps *taps)
{
    for (int i = 0; i < taps->n; i++) free(taps->tap[i].x);
    free(taps->tap);
    *taps = (toy_taps){0};
}
