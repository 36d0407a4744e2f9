/* SPDX-License-Identifier: MIT */
/* The layers of a codec from the tensors of its file (names: spec 06 section 8). Numbers of
 * layers, blocks, stages and books are what the file has; sizes are read from the first tensor
 * that shows them and every other is checked against them. */
#include "ref/codec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

kvref_status ref_codec_count(
    const kvref_codec *c, int *n, const char *format, int first, int max, kvref_error *err)
{
    *n = 0;
    for (int i = 0; i < kvref_file_count(c->file); i++) {
        const char *name = kvref_file_at(c->file, i)->name;
        int k = ref_codec_number(c, name, format) - first + 1;
        if (k > max)
            return kvref_fail(
                err, KVREF_E_UNSUPPORTED, "codec: %s: more than %d of %s", name, max, format);
        if (k > *n) *n = k;
    }
    return KVREF_OK;
}

static kvref_status check_entries(const ref_book *book, int b, kvref_error *err)
{
    size_t w = (size_t)book->width, n = (size_t)book->n_code * w;
    for (size_t i = 0; i < n; i++)
        if (!isfinite(book->entry[i]))
            return kvref_fail(
                err, KVREF_E_FORMAT, "codec: book %d, entry %zu is not finite", b, i / w);
    return KVREF_OK;
}

/* Rows of length 1 and their squared lengths, for the search. */
static kvref_status unit_rows(kvref_codec *c, ref_book *book, kvref_error *err)
{
    float *unit, *unit2;
    size_t w = (size_t)book->width;
    KVREF_TRY(ref_codec_block(c, &unit, (size_t)book->n_code * w, err));
    KVREF_TRY(ref_codec_block(c, &unit2, (size_t)book->n_code, err));
    for (size_t k = 0; k < (size_t)book->n_code; k++) {
        const float *row = book->entry + k * w;
        float sum = 0.0f;
        for (size_t i = 0; i < w; i++) sum += row[i] * row[i];
        float length = sqrtf(sum);
        for (size_t i = 0; i < w; i++) {
            unit[k * w + i] = row[i] / (length > 1e-12f ? length : 1e-12f);
            unit2[k] += unit[k * w + i] * unit[k * w + i];
        }
    }
    book->unit = unit;
    book->unit2 = unit2;
    return KVREF_OK;
}

static kvref_status
load_out(kvref_codec *c, ref_book *book, const char *prefix, kvref_error *err)
{
    char name[128];
    int dim[3] = {c->info.latent, book->width, 1};
    float *folded, *out;
    snprintf(name, sizeof name, "%s.out_proj", prefix);
    KVREF_TRY(ref_codec_fold(c, &folded, name, dim, err));
    size_t latent = (size_t)dim[0], width = (size_t)book->width;
    kvref_status status = ref_codec_block(c, &out, latent * width, err);
    for (size_t i = 0; status == KVREF_OK && i < width; i++)
        for (size_t o = 0; o < latent; o++) out[i * latent + o] = folded[o * width + i];
    free(folded);
    KVREF_TRY(status);
    book->out = out;
    c->info.latent = dim[0];
    return ref_codec_vector(c, &book->bias, name, "bias", dim[0], err);
}

static kvref_status load_book(kvref_codec *c, int b, kvref_error *err)
{
    ref_book *book = &c->book[b];
    char prefix[96], name[128];
    int dim[2] = {0, 0};
    if (b == 0)
        snprintf(prefix, sizeof prefix, "quantizer.semantic_quantizer.quantizers.0");
    else
        snprintf(prefix, sizeof prefix, "quantizer.quantizer.quantizers.%d", b - 1);
    snprintf(name, sizeof name, "%s.codebook.weight", prefix);
    KVREF_TRY(ref_codec_floats(c, &book->entry, name, 2, dim, err));
    book->n_code = c->info.n_code[b] = dim[0];
    book->width = dim[1];
    if (book->width > 64)
        return kvref_fail(
            err, KVREF_E_UNSUPPORTED, "codec: %s: expected at most 64 columns", name);
    KVREF_TRY(check_entries(book, b, err));
    KVREF_TRY(load_out(c, book, prefix, err));
    if (!(c->info.parts & KVREF_CODEC_ENCODE)) return KVREF_OK;
    int in_dim[3] = {book->width, c->info.latent, 1};
    snprintf(name, sizeof name, "%s.in_proj", prefix);
    KVREF_TRY(ref_codec_conv(c, &book->in, name, in_dim, 1, 1, 1, err));
    return unit_rows(c, book, err);
}

kvref_status ref_codec_load_books(kvref_codec *c, kvref_error *err)
{
    int n;
    KVREF_TRY(ref_codec_count(c, &n, "quantizer.semantic_quantizer.quantizers.%d.", 0, 1, err));
    KVREF_TRY(
        ref_codec_count(c, &n, "quantizer.quantizer.quantizers.%d.", 0, REF_MAX_BOOK - 1, err));
    c->info.n_book = n + 1;
    for (int b = 0; b <= n; b++) KVREF_TRY(load_book(c, b, err));
    return KVREF_OK;
}

static kvref_status load_window_layer(kvref_codec *c,
                                      const ref_window *w,
                                      ref_window_layer *layer,
                                      const char *prefix,
                                      int rate,
                                      kvref_error *err)
{
    struct {
        ref_conv *conv;
        const char *name;
        int n_out, n_in;
    } linear[] = {{&layer->qkv, "attention.wqkv", 3 * w->width, w->width},
                  {&layer->out, "attention.wo", w->width, w->width},
                  {&layer->gate, "feed_forward.w1", w->d_ff, w->width},
                  {&layer->up, "feed_forward.w3", w->d_ff, w->width},
                  {&layer->down, "feed_forward.w2", w->width, w->d_ff}};
    struct {
        const float **out;
        const char *name;
    } vector[] = {{&layer->attn_norm, "attention_norm.weight"},
                  {&layer->ffn_norm, "ffn_norm.weight"},
                  {&layer->attn_scale, "attention_layer_scale.gamma"},
                  {&layer->ffn_scale, "ffn_layer_scale.gamma"}};
    for (size_t i = 0; i < sizeof linear / sizeof *linear; i++) {
        char name[192];
        snprintf(name, sizeof name, "%s.%s", prefix, linear[i].name);
        KVREF_TRY(ref_codec_linear(
            c, linear[i].conv, name, linear[i].n_out, linear[i].n_in, false, rate, err));
    }
    for (size_t i = 0; i < sizeof vector / sizeof *vector; i++)
        KVREF_TRY(ref_codec_vector(c, vector[i].out, prefix, vector[i].name, w->width, err));
    return KVREF_OK;
}

kvref_status ref_codec_load_window(
    kvref_codec *c, ref_window *w, const char *prefix, int window, int rate, kvref_error *err)
{
    char text[128];
    const float *unused;
    int dim[2] = {0, c->info.latent};
    float *layers;
    w->width = c->info.latent;
    w->window = window;
    w->d_head = c->setup.d_head;
    if (w->width % w->d_head)
        return kvref_fail(err,
                          KVREF_E_SHAPE,
                          "codec: %s: width %d is not a multiple of head_dim %d",
                          prefix,
                          w->width,
                          w->d_head);
    snprintf(text, sizeof text, "%s.layers.%%d.", prefix);
    KVREF_TRY(ref_codec_count(c, &w->n_layer, text, 0, REF_MAX_LAYER, err));
    snprintf(text, sizeof text, "%s.layers.0.feed_forward.w1.weight", prefix);
    KVREF_TRY(ref_codec_floats(c, &unused, text, 2, dim, err));
    w->d_ff = dim[0];
    ref_codec_need(c, rate, 2 * w->d_ff);
    size_t n_float = (size_t)w->n_layer * sizeof(ref_window_layer) / sizeof(float) + 1;
    KVREF_TRY(ref_codec_block(c, &layers, n_float, err));
    w->layer = (void *)layers;
    for (int l = 0; l < w->n_layer; l++) {
        snprintf(text, sizeof text, "%s.layers.%d", prefix, l);
        KVREF_TRY(load_window_layer(c, w, &w->layer[l], text, rate, err));
    }
    if (c->work_floats < (size_t)window) c->work_floats = (size_t)window;
    return ref_codec_vector(c, &w->norm, prefix, "norm.weight", w->width, err);
}
