/* SPDX-License-Identifier: MIT */
/* What the tensors of a codec cannot tell: upstream's values, or those of a codec.json in the
 * folder of the codec file. */
#include "base/json.h"
#include "ref/codec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In order of names. */
enum {
    DECODER_STRIDES,
    DILATIONS,
    ENCODER_STRIDES,
    ENCODER_WINDOW,
    HEAD_DIM,
    NORM_EPS,
    ROPE_BASE,
    SAMPLE_RATE,
    WINDOW,
    N_KEY
};

/* Integers low .. high into out [*n]; exactly want of them, or 1 .. -want when negative. */
static bool read_ints(const json_t *v, int *out, int *n, int want, int low, int high)
{
    size_t most = (size_t)abs(want), size = json_array_size(v);
    if (!json_is_array(v) || size < 1 || size > most || (want > 0 && size != most))
        return false;
    for (size_t i = 0; i < size; i++) {
        const json_t *e = json_array_get(v, i);
        if (!json_is_integer(e) || json_integer_value(e) < low || json_integer_value(e) > high)
            return false;
        out[i] = (int)json_integer_value(e);
    }
    *n = (int)size;
    return true;
}

static bool read_int(const json_t *v, int *out, int low, int high)
{
    if (!json_is_integer(v) || json_integer_value(v) < low || json_integer_value(v) > high)
        return false;
    *out = (int)json_integer_value(v);
    return true;
}

static bool read_float(const json_t *v, float *out, double low, double high)
{
    double x = json_number_value(v);
    if (!json_is_number(v) || !(x >= low && x <= high)) return false;
    *out = (float)x;
    return true;
}

/* One pair, of a key that is known; what is expected in *want when it returns false. */
static bool read_pair(ref_codec_setup *s, int key, const json_t *v, const char **want)
{
    int n = 0;
    switch (key) {
    case DECODER_STRIDES:
        *want = "1..8 integers, 1..256";
        return read_ints(v, s->dec_stride, &s->n_dec_stride, -REF_MAX_BLOCK, 1, 256);
    case DILATIONS:
        *want = "3 integers, 1..1024";
        return read_ints(v, s->dilation, &n, 3, 1, 1024);
    case ENCODER_STRIDES:
        *want = "1..8 integers, 1..256";
        return read_ints(v, s->enc_stride, &s->n_enc_stride, -REF_MAX_BLOCK, 1, 256);
    case ENCODER_WINDOW:
        *want = "an integer, 1..65536";
        return read_int(v, &s->encoder_window, 1, 65536);
    case HEAD_DIM:
        *want = "an even integer, 2..512";
        return read_int(v, &s->d_head, 2, 512) && s->d_head % 2 == 0;
    case NORM_EPS:
        *want = "a number, 1e-12..1";
        return read_float(v, &s->norm_eps, 1e-12, 1.0);
    case ROPE_BASE:
        *want = "a number, 1..1e12";
        return read_float(v, &s->rope_base, 1.0, 1e12);
    case SAMPLE_RATE:
        *want = "an integer, 1..1000000";
        return read_int(v, &s->sample_rate, 1, 1000000);
    case WINDOW:
        *want = "an integer, 1..65536";
        return read_int(v, &s->window, 1, 65536);
    default:
        *want = "a known key";
        return false;
    }
}

/* The number of a key, once in a file. */
static kvref_status
find_key(int *out, unsigned *seen, const char *path, const char *key, kvref_error *err)
{
    static const char *const name[N_KEY] = {"decoder_strides",
                                            "dilations",
                                            "encoder_strides",
                                            "encoder_window",
                                            "head_dim",
                                            "norm_eps",
                                            "rope_base",
                                            "sample_rate",
                                            "window"};
    for (*out = 0; *out < N_KEY && strcmp(key, name[*out]) != 0;) ++*out;
    if (*out == N_KEY)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: expected the keys decoder_strides, dilations, encoder_strides, "
                          "encoder_window, head_dim, norm_eps, rope_base, sample_rate and "
                          "window, found \"%s\"",
                          path,
                          key);
    if (*seen & 1u << *out)
        return kvref_fail(err, KVREF_E_FORMAT, "%s: %s: expected once, found twice", path, key);
    *seen |= 1u << *out;
    return KVREF_OK;
}

static kvref_status
read_object(ref_codec_setup *s, const char *path, const kvref_map *map, kvref_error *err)
{
    kvref_json_walk w = {0};
    bool more = false;
    unsigned seen = 0;
    kvref_status status = kvref_json_open(&w, path, (const char *)map->data, map->n_byte, err);
    while (status == KVREF_OK && (status = kvref_json_next(&w, &more, err)) == KVREF_OK &&
           more) {
        const char *want, *name = kvref_json_key(&w);
        json_t *value;
        char text[48];
        int key;
        status = find_key(&key, &seen, path, name, err);
        if (status == KVREF_OK) status = kvref_json_leaf(&value, &w, err);
        if (status != KVREF_OK) break;
        if (!read_pair(s, key, value, &want))
            status = kvref_fail(err,
                                KVREF_E_FORMAT,
                                "%s: %s: expected %s, found %s",
                                path,
                                name,
                                want,
                                kvref_json_show(text, value));
        json_decref(value);
    }
    kvref_json_close(&w);
    return status;
}

kvref_status
ref_codec_setup_read(ref_codec_setup *out, const char *codec_path, kvref_error *err)
{
    *out = (ref_codec_setup){.sample_rate = 44100,
                             .window = 128,
                             .encoder_window = 512,
                             .d_head = 64,
                             .dilation = {1, 3, 9},
                             .rope_base = 10000.0f,
                             .norm_eps = 1e-5f};
    const char *slash = strrchr(codec_path, '/');
    char *dir = slash ? strndup(codec_path, (size_t)(slash - codec_path) + 1) : strdup(".");
    char *path = dir ? kvref_path_join(dir, "codec.json") : NULL;
    free(dir);
    if (!path) return kvref_fail(err, KVREF_E_MEMORY, "codec: out of memory");
    kvref_status status = KVREF_OK;
    if (access(path, F_OK) == 0) {
        kvref_map map = {0};
        status = kvref_map_open(&map, path, err);
        if (status == KVREF_OK) status = read_object(out, path, &map, err);
        kvref_map_close(&map);
    }
    free(path);
    return status;
}
