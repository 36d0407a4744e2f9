/* SPDX-License-Identifier: MIT */
/* Weights of convolutions and linear layers in the layout of ref/codec.h.
 *
 * Weight norm: w = g v / |v|, norm over all dimensions but the first, folded once. A
 * convolution may come as plain `weight`, as `weight_g` and `weight_v`, or as
 * `parametrizations.weight.original0` and `original1` (spec 06 section 8). */
#include "ref/codec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The tensors of one convolution's weight: plain, or gain and direction. */
typedef struct naming {
    const kvref_tensor *plain, *gain, *direction;
} naming;

static kvref_status
find_naming(const kvref_codec *c, naming *out, const char *prefix, kvref_error *err)
{
    static const char *const suffix[5] = {"weight",
                                          "weight_g",
                                          "weight_v",
                                          "parametrizations.weight.original0",
                                          "parametrizations.weight.original1"};
    const kvref_tensor *t[5];
    char name[160];
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "%s.%s", prefix, suffix[i]);
        KVREF_TRY(ref_codec_find(c, &t[i], name, err));
    }
    for (int i = 1; i < 5; i += 2)
        if (!t[i] != !t[i + 1])
            return kvref_fail(err,
                              KVREF_E_MISSING,
                              "codec: %s: %s without %s",
                              prefix,
                              suffix[t[i] ? i : i + 1],
                              suffix[t[i] ? i + 1 : i]);
    int ways = !!t[0] + !!t[1] + !!t[3];
    if (ways == 0)
        return kvref_fail(err, KVREF_E_MISSING, "codec: no tensor %s.weight", prefix);
    if (ways > 1)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "codec: %s: expected one form of the weight, found %s and %s",
                          prefix,
                          suffix[t[0] ? 0 : 1],
                          suffix[t[3] ? 3 : 1]);
    *out = (naming){t[0], t[1] ? t[1] : t[3], t[2] ? t[2] : t[4]};
    return KVREF_OK;
}

kvref_status
ref_codec_shape(const kvref_codec *c, const char *prefix, int dim[3], kvref_error *err)
{
    naming names;
    KVREF_TRY(find_naming(c, &names, prefix, err));
    return ref_codec_check(c, names.plain ? names.plain : names.direction, 3, dim, err);
}

static void scale_rows(float *w, const float *gain, int n_row, size_t n)
{
    for (int r = 0; r < n_row; r++, w += n) {
        double square = 0.0;
        for (size_t i = 0; i < n; i++) square += (double)w[i] * (double)w[i];
        double scale = (double)gain[r] / sqrt(square);
        for (size_t i = 0; i < n; i++) w[i] = (float)((double)w[i] * scale);
    }
}

kvref_status
ref_codec_fold(kvref_codec *c, float **out, const char *prefix, int dim[3], kvref_error *err)
{
    naming names;
    *out = NULL;
    KVREF_TRY(find_naming(c, &names, prefix, err));
    const kvref_tensor *t = names.plain ? names.plain : names.direction;
    KVREF_TRY(ref_codec_check(c, t, 3, dim, err));
    int gain_dim[3] = {dim[0], 1, 1};
    if (names.gain) KVREF_TRY(ref_codec_check(c, names.gain, 3, gain_dim, err));
    size_t n = t->n_byte / kvref_dtype_size(t->dtype);
    float *w = malloc(n * sizeof *w), *gain = calloc((size_t)dim[0], sizeof *gain);
    if (!w || !gain) {
        free(w);
        free(gain);
        return kvref_fail(err, KVREF_E_MEMORY, "codec: no memory for weights");
    }
    ref_codec_widen(w, t, n);
    if (names.gain) {
        ref_codec_widen(gain, names.gain, (size_t)dim[0]);
        scale_rows(w, gain, dim[0], n / (size_t)dim[0]);
    }
    free(gain);
    *out = w;
    return KVREF_OK;
}

kvref_status ref_codec_linear(kvref_codec *c,
                              ref_conv *out,
                              const char *prefix,
                              int n_out,
                              int n_in,
                              bool bias,
                              int rate,
                              kvref_error *err)
{
    char name[160];
    int dim[2] = {n_out, n_in};
    *out = (ref_conv){.n_out = n_out, .n_in = n_in, .n_tap = 1, .step = 1};
    snprintf(name, sizeof name, "%s.weight", prefix);
    KVREF_TRY(ref_codec_floats(c, &out->w, name, 2, dim, err));
    if (bias) KVREF_TRY(ref_codec_vector(c, &out->bias, prefix, "bias", n_out, err));
    ref_codec_plan(c, out, rate);
    return KVREF_OK;
}

/* Memory for the weights of a planned convolution. The product runs across outputs where BLAS
 * makes it, which would otherwise turn every panel of weights round again and again. */
static kvref_status start_weights(kvref_codec *c, ref_conv *v, float **w, kvref_error *err)
{
    size_t n = (size_t)v->n_out * (size_t)v->n_tap * (size_t)v->n_in;
    KVREF_TRY(ref_codec_block(c, w, n, err));
    v->across = v->blas;
    v->w = *w;
    return KVREF_OK;
}

/* Where the weight from element k of all taps' inputs to output o goes. */
static size_t place(const ref_conv *v, size_t o, size_t k)
{
    return v->across ? k * (size_t)v->n_out + o : o * (size_t)v->n_tap * (size_t)v->n_in + k;
}

/* [O, I, k] to [O, k, I]. */
kvref_status ref_codec_conv(kvref_codec *c,
                            ref_conv *out,
                            const char *prefix,
                            int dim[3],
                            int stride,
                            int step,
                            int rate,
                            kvref_error *err)
{
    float *folded, *w;
    KVREF_TRY(ref_codec_fold(c, &folded, prefix, dim, err));
    size_t n_out = (size_t)dim[0], n_in = (size_t)dim[1], n_tap = (size_t)dim[2];
    *out = (ref_conv){.n_out = dim[0], .n_in = dim[1] * stride, .step = step};
    out->n_tap = dim[2] / stride;
    ref_codec_plan(c, out, rate);
    kvref_status status = start_weights(c, out, &w, err);
    /* 16 outputs at a time, which are one line of memory where they lie side by side. */
    for (size_t first = 0; status == KVREF_OK && first < n_out; first += 16)
        for (size_t k = 0; k < n_in * n_tap; k++)
            for (size_t o = first; o < first + 16 && o < n_out; o++)
                w[place(out, o, k % n_tap * n_in + k / n_tap)] = folded[o * n_in * n_tap + k];
    free(folded);
    KVREF_TRY(status);
    return ref_codec_vector(c, &out->bias, prefix, "bias", dim[0], err);
}

/* [I, O, k] to [(r, O), tap, I]: sample r of an output row takes element r of the present
 * input row (the last tap) and element r + s of the row before. */
kvref_status ref_codec_transposed(kvref_codec *c,
                                  ref_conv *out,
                                  const char *prefix,
                                  int dim[3],
                                  int stride,
                                  int rate,
                                  kvref_error *err)
{
    float *folded, *w, *spread;
    const float *bias;
    KVREF_TRY(ref_codec_fold(c, &folded, prefix, dim, err));
    size_t n_in = (size_t)dim[0], n_out = (size_t)dim[1], k = (size_t)dim[2];
    size_t s = (size_t)stride, n_tap = k / s;
    *out = (ref_conv){.n_out = dim[1] * stride, .n_in = dim[0], .step = 1};
    out->n_tap = (int)n_tap;
    ref_codec_plan(c, out, rate);
    kvref_status status = start_weights(c, out, &w, err);
    for (size_t i = 0; status == KVREF_OK && i < n_in; i++)
        for (size_t j = 0; j < k; j++)
            for (size_t o = 0; o < n_out; o++)
                w[place(out, j % s * n_out + o, (n_tap - 1 - j / s) * n_in + i)] =
                    folded[(i * n_out + o) * k + j];
    free(folded);
    KVREF_TRY(status);
    KVREF_TRY(ref_codec_vector(c, &bias, prefix, "bias", dim[1], err));
    KVREF_TRY(ref_codec_block(c, &spread, n_out * s, err));
    for (size_t i = 0; i < n_out * s; i++) spread[i] = bias[i % n_out];
    out->bias = spread;
    return KVREF_OK;
}
