/* SPDX-License-Identifier: MIT */
/* The convolutional stacks of a codec file: encoder, decoder, and the stages that change the
 * rate around them (spec 06 sections 3, 4 and 8). rate is the number of rows in one frame. */
#include "ref/codec.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_FRAME = 1 << 16 };

static kvref_status multiply(int *rate, int stride, kvref_error *err)
{
    if (*rate > MAX_FRAME / stride)
        return kvref_fail(
            err, KVREF_E_UNSUPPORTED, "codec: more than %d samples in a frame", MAX_FRAME);
    *rate *= stride;
    return KVREF_OK;
}

/* Stride of a kernel of per strides; stated: that of codec.json, 0 when there is none. */
static kvref_status
stride_of(int *stride, int k, int per, int stated, const char *name, kvref_error *err)
{
    *stride = k / per;
    if (k % per || k < 1 || k > 512)
        return kvref_fail(err,
                          KVREF_E_SHAPE,
                          "codec: %s: expected a kernel of %d strides, found %d",
                          name,
                          per,
                          k);
    if (stated && stated != *stride)
        return kvref_fail(err,
                          KVREF_E_SHAPE,
                          "codec: %s: a kernel of %d does not fit stride %d of codec.json",
                          name,
                          k,
                          stated);
    return KVREF_OK;
}

static kvref_status load_unit(kvref_codec *c,
                              ref_unit *unit,
                              const char *prefix,
                              int dilation,
                              int width,
                              int rate,
                              kvref_error *err)
{
    char name[192];
    int wide[3] = {width, width, 7}, narrow[3] = {width, width, 1};
    snprintf(name, sizeof name, "%s.block.0", prefix);
    KVREF_TRY(ref_codec_snake(c, &unit->before, name, width, err));
    snprintf(name, sizeof name, "%s.block.1.conv", prefix);
    KVREF_TRY(ref_codec_conv(c, &unit->wide, name, wide, 1, dilation, rate, err));
    snprintf(name, sizeof name, "%s.block.2", prefix);
    KVREF_TRY(ref_codec_snake(c, &unit->between, name, width, err));
    snprintf(name, sizeof name, "%s.block.3.conv", prefix);
    return ref_codec_conv(c, &unit->narrow, name, narrow, 1, 1, rate, err);
}

/* The three units named format with 0, 1, 2 plus first. */
static kvref_status load_units(kvref_codec *c,
                               ref_conv_block *block,
                               const char *format,
                               int index,
                               int first,
                               int rate,
                               kvref_error *err)
{
    for (int u = 0; u < 3; u++) {
        char name[128];
        snprintf(name, sizeof name, format, index, first + u);
        KVREF_TRY(
            load_unit(c, &block->unit[u], name, c->setup.dilation[u], block->width, rate, err));
    }
    return KVREF_OK;
}

static kvref_status load_convnext(
    kvref_codec *c, ref_convnext *next, const char *prefix, int rate, kvref_error *err)
{
    char name[128];
    int d = c->info.latent, dim[3] = {d, 1, 7};
    float *folded, *depth;
    snprintf(name, sizeof name, "%s.dwconv.conv", prefix);
    KVREF_TRY(ref_codec_block(c, &depth, (size_t)d * 7, err));
    KVREF_TRY(ref_codec_fold(c, &folded, name, dim, err));
    for (int i = 0; i < 7 * d; i++) depth[i % 7 * d + i / 7] = folded[i];
    free(folded);
    next->depth = depth;
    ref_span *span = &c->span[c->encoding];
    if (span->slack_floats < 6 * (size_t)d) span->slack_floats = 6 * (size_t)d;
    KVREF_TRY(ref_codec_vector(c, &next->depth_bias, name, "bias", d, err));
    KVREF_TRY(ref_codec_vector(c, &next->norm, prefix, "norm.weight", d, err));
    KVREF_TRY(ref_codec_vector(c, &next->norm_bias, prefix, "norm.bias", d, err));
    KVREF_TRY(ref_codec_vector(c, &next->gamma, prefix, "gamma", d, err));
    snprintf(name, sizeof name, "%s.pwconv1", prefix);
    KVREF_TRY(ref_codec_linear(c, &next->up, name, 4 * d, d, true, rate, err));
    snprintf(name, sizeof name, "%s.pwconv2", prefix);
    return ref_codec_linear(c, &next->down, name, d, 4 * d, true, rate, err);
}

/* Blocks and stages of one side. */
static kvref_status count_side(const kvref_codec *c, int n[2], bool encoder, kvref_error *err)
{
    const char *block = encoder ? "encoder.block.%d.block." : "decoder.model.%d.block.";
    const char *stage = encoder ? "quantizer.downsample.%d." : "quantizer.upsample.%d.";
    KVREF_TRY(ref_codec_count(c, &n[0], block, 1, REF_MAX_BLOCK, err));
    return ref_codec_count(c, &n[1], stage, 0, REF_MAX_BLOCK, err);
}

/* A file may lack the blocks of a side that is not asked for, and then its stages too. */
kvref_status ref_codec_sides(kvref_codec *c, kvref_error *err)
{
    int dec[2], enc[2];
    KVREF_TRY(count_side(c, dec, false, err));
    KVREF_TRY(count_side(c, enc, true, err));
    bool decode = c->info.parts & KVREF_CODEC_DECODE,
         encode = c->info.parts & KVREF_CODEC_ENCODE;
    if ((decode && !dec[0]) || (encode && !enc[0]))
        return kvref_fail(err,
                          KVREF_E_MISSING,
                          "codec: expected %s, found no tensor of one",
                          decode && !dec[0] ? "a decoder (decoder.model.1.block...)"
                                            : "an encoder (encoder.block.1.block...)");
    if ((dec[0] && enc[0] && dec[0] != enc[0]) ||
        ((dec[0] + dec[1]) && (enc[0] + enc[1]) && dec[1] != enc[1]))
        return kvref_fail(err,
                          KVREF_E_SHAPE,
                          "codec: encoder of %d blocks and %d stages, decoder of %d and %d",
                          enc[0],
                          enc[1],
                          dec[0],
                          dec[1]);
    c->n_block = decode ? dec[0] : enc[0];
    c->n_stage = decode ? dec[1] : enc[1];
    return KVREF_OK;
}

/* quantizer.upsample: multiplies the rate by the strides, which are the kernel sizes. */
static kvref_status load_up(kvref_codec *c, int *rate, kvref_error *err)
{
    char name[96];
    for (int i = 0; i < c->n_stage; i++) {
        ref_stage *stage = &c->up[i];
        int dim[3] = {c->info.latent, c->info.latent, 0};
        snprintf(name, sizeof name, "quantizer.upsample.%d.0.conv", i);
        KVREF_TRY(ref_codec_shape(c, name, dim, err));
        KVREF_TRY(stride_of(&stage->stride, dim[2], 1, 0, name, err));
        KVREF_TRY(
            ref_codec_transposed(c, &stage->resample, name, dim, stage->stride, *rate, err));
        KVREF_TRY(multiply(rate, stage->stride, err));
        snprintf(name, sizeof name, "quantizer.upsample.%d.1", i);
        KVREF_TRY(load_convnext(c, &stage->next, name, *rate, err));
    }
    return KVREF_OK;
}

static kvref_status
load_dec_block(kvref_codec *c, int i, int width_in, int *rate, kvref_error *err)
{
    ref_conv_block *block = &c->dec[i];
    char name[96];
    int dim[3] = {width_in, 0, 0};
    snprintf(name, sizeof name, "decoder.model.%d.block.0", i + 1);
    KVREF_TRY(ref_codec_snake(c, &block->snake, name, width_in, err));
    snprintf(name, sizeof name, "decoder.model.%d.block.1.conv", i + 1);
    KVREF_TRY(ref_codec_shape(c, name, dim, err));
    KVREF_TRY(stride_of(&block->stride, dim[2], 2, c->setup.dec_stride[i], name, err));
    KVREF_TRY(ref_codec_transposed(c, &block->resample, name, dim, block->stride, *rate, err));
    KVREF_TRY(multiply(rate, block->stride, err));
    block->width = dim[1];
    return load_units(c, block, "decoder.model.%d.block.%d", i + 1, 2, *rate, err);
}

kvref_status ref_codec_load_decoder(kvref_codec *c, kvref_error *err)
{
    int rate = 1, first[3] = {0, c->info.latent, 7}, last[3] = {1, 0, 7};
    char name[96];
    KVREF_TRY(ref_codec_load_window(
        c, &c->post, "quantizer.post_module", c->setup.window, rate, err));
    KVREF_TRY(load_up(c, &rate, err));
    KVREF_TRY(ref_codec_conv(c, &c->dec_first, "decoder.model.0.conv", first, 1, 1, rate, err));
    int width = first[0];
    for (int i = 0; i < c->n_block; i++) {
        KVREF_TRY(load_dec_block(c, i, width, &rate, err));
        width = c->dec[i].width;
    }
    snprintf(name, sizeof name, "decoder.model.%d", c->n_block + 1);
    KVREF_TRY(ref_codec_snake(c, &c->dec_snake, name, width, err));
    snprintf(name, sizeof name, "decoder.model.%d.conv", c->n_block + 2);
    last[1] = width;
    KVREF_TRY(ref_codec_conv(c, &c->dec_last, name, last, 1, 1, rate, err));
    c->info.frame = rate;
    return KVREF_OK;
}

/* Strides of encoder blocks and down-sampling stages, hence the samples of a frame. */
static kvref_status encoder_strides(kvref_codec *c, int *frame, kvref_error *err)
{
    char name[96];
    for (int i = 0; i < c->n_block; i++) {
        int dim[3] = {0, 0, 0}, *stride = &c->enc[i].stride;
        snprintf(name, sizeof name, "encoder.block.%d.block.4.conv", i + 1);
        KVREF_TRY(ref_codec_shape(c, name, dim, err));
        KVREF_TRY(stride_of(stride, dim[2], 2, c->setup.enc_stride[i], name, err));
        KVREF_TRY(multiply(frame, *stride, err));
        c->enc[i].width = dim[1];
    }
    for (int i = 0; i < c->n_stage; i++) {
        int dim[3] = {c->info.latent, c->info.latent, 0};
        snprintf(name, sizeof name, "quantizer.downsample.%d.0.conv", i);
        KVREF_TRY(ref_codec_shape(c, name, dim, err));
        KVREF_TRY(stride_of(&c->down[i].stride, dim[2], 1, 0, name, err));
        KVREF_TRY(multiply(frame, c->down[i].stride, err));
    }
    return KVREF_OK;
}

/* encoder.block.<m>: units, snake, strided convolution. */
static kvref_status load_enc_block(kvref_codec *c, int i, int *rate, kvref_error *err)
{
    ref_conv_block *block = &c->enc[i];
    char name[96];
    int last = i + 1 == c->n_block;
    int dim[3] = {last ? c->info.latent : c->enc[i + 1].width, block->width, 2 * block->stride};
    KVREF_TRY(load_units(c, block, "encoder.block.%d.block.%d", i + 1, 0, *rate, err));
    snprintf(name, sizeof name, "encoder.block.%d.block.3", i + 1);
    KVREF_TRY(ref_codec_snake(c, &block->snake, name, block->width, err));
    *rate /= block->stride;
    snprintf(name, sizeof name, "encoder.block.%d.block.4.conv", i + 1);
    return ref_codec_conv(c, &block->resample, name, dim, block->stride, 1, *rate, err);
}

static kvref_status load_down(kvref_codec *c, int *rate, kvref_error *err)
{
    char name[96];
    for (int i = 0; i < c->n_stage; i++) {
        ref_stage *stage = &c->down[i];
        int dim[3] = {c->info.latent, c->info.latent, stage->stride};
        snprintf(name, sizeof name, "quantizer.downsample.%d.0.conv", i);
        *rate /= stage->stride;
        KVREF_TRY(ref_codec_conv(c, &stage->resample, name, dim, stage->stride, 1, *rate, err));
        snprintf(name, sizeof name, "quantizer.downsample.%d.1", i);
        KVREF_TRY(load_convnext(c, &stage->next, name, *rate, err));
    }
    return KVREF_OK;
}

kvref_status ref_codec_load_encoder(kvref_codec *c, kvref_error *err)
{
    int frame = 1, latent = c->info.latent;
    char name[96];
    c->encoding = true;
    KVREF_TRY(encoder_strides(c, &frame, err));
    if ((c->info.parts & KVREF_CODEC_DECODE) && frame != c->info.frame)
        return kvref_fail(err,
                          KVREF_E_SHAPE,
                          "codec: a frame is %d samples for the encoder, %d for the decoder",
                          frame,
                          c->info.frame);
    c->info.frame = frame;
    int rate = frame, first[3] = {c->enc[0].width, 1, 7}, last[3] = {latent, latent, 3};
    KVREF_TRY(ref_codec_conv(c, &c->enc_first, "encoder.block.0.conv", first, 1, 1, rate, err));
    for (int i = 0; i < c->n_block; i++) KVREF_TRY(load_enc_block(c, i, &rate, err));
    snprintf(name, sizeof name, "encoder.block.%d.block.5", c->n_block);
    KVREF_TRY(
        ref_codec_load_window(c, &c->enc_window, name, c->setup.encoder_window, rate, err));
    snprintf(name, sizeof name, "encoder.block.%d", c->n_block + 1);
    KVREF_TRY(ref_codec_snake(c, &c->enc_snake, name, latent, err));
    snprintf(name, sizeof name, "encoder.block.%d.conv", c->n_block + 2);
    KVREF_TRY(ref_codec_conv(c, &c->enc_last, name, last, 1, 1, rate, err));
    KVREF_TRY(load_down(c, &rate, err));
    return ref_codec_load_window(c, &c->pre, "quantizer.pre_module", c->setup.window, 1, err);
}
