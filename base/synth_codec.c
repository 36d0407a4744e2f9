/* SPDX-License-Identifier: MIT */
/* The tensor table of a codec (spec 06 section 8) for any sizes. */
#include "kvref/synth_codec.h"

#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CODE_DIM = 8 };

kvref_codec_dims kvref_codec_dims_real(void)
{
    return (kvref_codec_dims){.encoder_dim = 64,
                              .decoder_dim = 1536,
                              .latent_dim = 1024,
                              .encoder_strides = {2, 4, 8, 8},
                              .decoder_strides = {8, 8, 4, 2},
                              .n_layer = 8,
                              .n_encoder_layer = 4,
                              .d_ff = 3072,
                              .encoder_d_ff = 3072,
                              .n_semantic = 4096,
                              .n_book = 9,
                              .n_code = 1024,
                              .head_dim = 64,
                              .window = 128,
                              .encoder_window = 512};
}

kvref_codec_dims kvref_codec_dims_toy(void)
{
    kvref_codec_dims d = kvref_codec_dims_real();
    d.encoder_dim = 4;
    d.decoder_dim = 32;
    d.latent_dim = 64;
    d.n_layer = d.n_encoder_layer = 1;
    d.d_ff = d.encoder_d_ff = 96;
    d.n_semantic = 32;
    d.n_book = 3;
    d.n_code = 16;
    d.head_dim = 32;
    return d;
}

typedef struct maker {
    kvref_synth_codec_list *list;
    size_t cap_tensor, cap_name;
    kvref_status status; /* the first failure */
    kvref_error *err;
} maker;

/* Adds prefix.suffix with the dims, ended by 0. */
static void add(maker *m, kvref_dtype dtype, const char *prefix, const char *suffix, ...)
{
    if (m->status != KVREF_OK) return;
    kvref_synth_codec_list *l = m->list;
    size_t need = (size_t)l->n + 1;
    m->status =
        kvref_grow((void **)&l->tensor, &m->cap_tensor, need, sizeof *l->tensor, m->err);
    if (m->status == KVREF_OK)
        m->status = kvref_grow((void **)&l->name, &m->cap_name, need, sizeof *l->name, m->err);
    if (m->status != KVREF_OK) return;
    kvref_tensor t = {.dtype = dtype, .n_byte = kvref_dtype_size(dtype)};
    va_list dims;
    va_start(dims, suffix);
    for (int d = va_arg(dims, int); d; d = va_arg(dims, int)) {
        t.dim[t.n_dim++] = d;
        t.n_byte *= (size_t)d;
    }
    va_end(dims);
    if (asprintf(&l->name[l->n], "%s.%s", prefix, suffix) < 0) {
        m->status = kvref_fail(m->err, KVREF_E_MEMORY, "synthetic codec: out of memory");
        return;
    }
    t.name = l->name[l->n];
    l->tensor[l->n++] = t;
}

/* Weight norm: dim0 gains, and directions [dim0, dim1, k]; a bias of n. */
static void add_conv(maker *m, const char *prefix, int dim0, int dim1, int k, int n)
{
    add(m, KVREF_F32, prefix, "bias", n, 0);
    add(m, KVREF_F32, prefix, "parametrizations.weight.original0", dim0, 1, 1, 0);
    add(m, KVREF_F32, prefix, "parametrizations.weight.original1", dim0, dim1, k, 0);
}

static void add_unit(maker *m, const char *prefix, int c)
{
    char name[128];
    add(m, KVREF_F32, prefix, "block.0.alpha", 1, c, 1, 0);
    snprintf(name, sizeof name, "%s.block.1.conv", prefix);
    add_conv(m, name, c, c, 7, c);
    add(m, KVREF_F32, prefix, "block.2.alpha", 1, c, 1, 0);
    snprintf(name, sizeof name, "%s.block.3.conv", prefix);
    add_conv(m, name, c, c, 1, c);
}

static void add_transformer(
    maker *m, const char *prefix, int n_layer, int d, int f, int dead_rows, int half)
{
    char name[128];
    for (int l = 0; l < n_layer; l++) {
        snprintf(name, sizeof name, "%s.layers.%d", prefix, l);
        add(m, KVREF_F32, name, "attention.wqkv.weight", 3 * d, d, 0);
        add(m, KVREF_F32, name, "attention.wo.weight", d, d, 0);
        add(m, KVREF_F32, name, "feed_forward.w1.weight", f, d, 0);
        add(m, KVREF_F32, name, "feed_forward.w3.weight", f, d, 0);
        add(m, KVREF_F32, name, "feed_forward.w2.weight", d, f, 0);
        add(m, KVREF_F32, name, "ffn_norm.weight", d, 0);
        add(m, KVREF_F32, name, "attention_norm.weight", d, 0);
        add(m, KVREF_F32, name, "attention_layer_scale.gamma", d, 0);
        add(m, KVREF_F32, name, "ffn_layer_scale.gamma", d, 0);
    }
    add(m, KVREF_F32, prefix, "norm.weight", d, 0);
    if (dead_rows == 0) return;
    add(m, KVREF_BF16, prefix, "freqs_cis", dead_rows, half, 2, 0);
    add(m, KVREF_BOOL, prefix, "causal_mask", dead_rows, dead_rows, 0);
}

static void add_stage(maker *m, const char *prefix, int d)
{
    char name[128];
    snprintf(name, sizeof name, "%s.0.conv", prefix);
    add(m, KVREF_F32, name, "weight", d, d, 2, 0);
    add(m, KVREF_F32, name, "bias", d, 0);
    snprintf(name, sizeof name, "%s.1", prefix);
    add(m, KVREF_F32, name, "gamma", d, 0);
    add(m, KVREF_F32, name, "dwconv.conv.weight", d, 1, 7, 0);
    add(m, KVREF_F32, name, "dwconv.conv.bias", d, 0);
    add(m, KVREF_F32, name, "norm.weight", d, 0);
    add(m, KVREF_F32, name, "norm.bias", d, 0);
    add(m, KVREF_F32, name, "pwconv1.weight", 4 * d, d, 0);
    add(m, KVREF_F32, name, "pwconv1.bias", 4 * d, 0);
    add(m, KVREF_F32, name, "pwconv2.weight", d, 4 * d, 0);
    add(m, KVREF_F32, name, "pwconv2.bias", d, 0);
}

static void add_book(maker *m, const char *prefix, int n_code, int d)
{
    add(m, KVREF_F32, prefix, "in_proj.bias", CODE_DIM, 0);
    add(m, KVREF_F32, prefix, "in_proj.weight_g", CODE_DIM, 1, 1, 0);
    add(m, KVREF_F32, prefix, "in_proj.weight_v", CODE_DIM, d, 1, 0);
    add(m, KVREF_F32, prefix, "out_proj.bias", d, 0);
    add(m, KVREF_F32, prefix, "out_proj.weight_g", d, 1, 1, 0);
    add(m, KVREF_F32, prefix, "out_proj.weight_v", d, CODE_DIM, 1, 0);
    add(m, KVREF_F32, prefix, "codebook.weight", n_code, CODE_DIM, 0);
}

static void add_encoder(maker *m, const kvref_codec_dims *d, int dead_rows)
{
    char name[64];
    int c = d->encoder_dim;
    add_conv(m, "encoder.block.0.conv", c, 1, 7, c);
    for (int i = 0; i < 4; i++, c *= 2) {
        int s = d->encoder_strides[i], to = i == 3 ? d->latent_dim : 2 * c;
        for (int u = 0; u < 3; u++) {
            snprintf(name, sizeof name, "encoder.block.%d.block.%d", i + 1, u);
            add_unit(m, name, c);
        }
        snprintf(name, sizeof name, "encoder.block.%d.block.3", i + 1);
        add(m, KVREF_F32, name, "alpha", 1, c, 1, 0);
        snprintf(name, sizeof name, "encoder.block.%d.block.4.conv", i + 1);
        add_conv(m, name, to, c, 2 * s, to);
    }
    int latent = d->latent_dim;
    add_transformer(m,
                    "encoder.block.4.block.5",
                    d->n_encoder_layer,
                    latent,
                    d->encoder_d_ff,
                    4 * dead_rows,
                    d->head_dim / 2);
    add(m, KVREF_F32, "encoder.block.5", "alpha", 1, latent, 1, 0);
    add_conv(m, "encoder.block.6.conv", latent, latent, 3, latent);
}

static void add_quantizer(maker *m, const kvref_codec_dims *d, int dead_rows)
{
    char name[64];
    add_book(m, "quantizer.semantic_quantizer.quantizers.0", d->n_semantic, d->latent_dim);
    for (int b = 0; b < d->n_book; b++) {
        snprintf(name, sizeof name, "quantizer.quantizer.quantizers.%d", b);
        add_book(m, name, d->n_code, d->latent_dim);
    }
    for (int i = 0; i < 4; i++) {
        snprintf(
            name, sizeof name, "quantizer.%s.%d", i < 2 ? "downsample" : "upsample", i % 2);
        add_stage(m, name, d->latent_dim);
    }
    for (int i = 0; i < 2; i++)
        add_transformer(m,
                        i ? "quantizer.post_module" : "quantizer.pre_module",
                        d->n_layer,
                        d->latent_dim,
                        d->d_ff,
                        dead_rows,
                        d->head_dim / 2);
}

static void add_decoder(maker *m, const kvref_codec_dims *d)
{
    char name[64];
    int c = d->decoder_dim;
    add_conv(m, "decoder.model.0.conv", c, d->latent_dim, 7, c);
    for (int i = 0; i < 4; i++, c /= 2) {
        snprintf(name, sizeof name, "decoder.model.%d.block.0", i + 1);
        add(m, KVREF_F32, name, "alpha", 1, c, 1, 0);
        snprintf(name, sizeof name, "decoder.model.%d.block.1.conv", i + 1);
        add_conv(m, name, c, c / 2, 2 * d->decoder_strides[i], c / 2);
        for (int u = 0; u < 3; u++) {
            snprintf(name, sizeof name, "decoder.model.%d.block.%d", i + 1, u + 2);
            add_unit(m, name, c / 2);
        }
    }
    add(m, KVREF_F32, "decoder.model.5", "alpha", 1, c, 1, 0);
    add_conv(m, "decoder.model.6.conv", 1, c, 7, 1);
}

/* Every size at least 1, small enough that no product overflows, and divisible as needed. */
static kvref_status check(const kvref_codec_dims *d, int dead_rows, kvref_error *err)
{
    const int size[] = {d->encoder_dim,
                        d->decoder_dim,
                        d->latent_dim,
                        d->n_layer,
                        d->n_encoder_layer,
                        d->d_ff,
                        d->encoder_d_ff,
                        d->n_semantic,
                        d->n_book,
                        d->n_code,
                        d->head_dim,
                        d->window,
                        d->encoder_window};
    bool ok = dead_rows >= 0 && dead_rows <= 1 << 14;
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        ok = ok && size[i] >= 1 && size[i] <= 1 << 16;
    for (int i = 0; i < 4; i++)
        ok = ok && d->encoder_strides[i] >= 1 && d->encoder_strides[i] <= 256 &&
             d->decoder_strides[i] >= 1 && d->decoder_strides[i] <= 256;
    ok = ok && d->n_layer <= 64 && d->n_encoder_layer <= 64 && d->n_book <= 31;
    if (!ok || d->decoder_dim % 16 || d->latent_dim % d->head_dim || d->head_dim % 2)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "synthetic codec: sizes out of range, decoder_dim not a multiple of "
                          "16, or latent_dim not one of an even head_dim");
    return KVREF_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const kvref_tensor *)a)->name, ((const kvref_tensor *)b)->name);
}

kvref_status kvref_synth_codec_tensors(kvref_synth_codec_list *out,
                                       const kvref_codec_dims *dims,
                                       int dead_rows,
                                       kvref_error *err)
{
    *out = (kvref_synth_codec_list){0};
    KVREF_TRY(check(dims, dead_rows, err));
    maker m = {.list = out, .err = err};
    add_encoder(&m, dims, dead_rows);
    add_quantizer(&m, dims, dead_rows);
    add_decoder(&m, dims);
    if (m.status != KVREF_OK) {
        kvref_synth_codec_free(out);
        return m.status;
    }
    qsort(out->tensor, (size_t)out->n, sizeof *out->tensor, by_name);
    return KVREF_OK;
}

void kvref_synth_codec_free(kvref_synth_codec_list *list)
{
    for (int i = 0; i < list->n; i++) free(list->name[i]);
    free(list->name);
    free(list->tensor);
    *list = (kvref_synth_codec_list){0};
}
