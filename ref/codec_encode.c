/* SPDX-License-Identifier: MIT */
/* Samples to codes (spec 06 section 4), piece by piece:
 *   encoder -> window transformer -> convolution -> down-sampling stages -> window
 *   transformer -> books. */
#include "ref/codec.h"

#include <assert.h>
#include <cblas.h>
#include <string.h>

static void encoder(ref_flow *flow, int64_t *row0, int *n)
{
    kvref_codec *c = flow->c;
    ref_replace_run(flow, &c->enc_first, *row0, *n);
    ref_flow_stage(flow, "encoder.block.%d", 0, *row0, *n, c->enc_first.n_out);
    for (int i = 0; i < c->n_block; i++) {
        const ref_conv_block *block = &c->enc[i];
        for (int u = 0; u < 3; u++) ref_unit_run(flow, &block->unit[u], *row0, *n);
        ref_snake_run(c, flow->buf[0], flow->buf[0], &block->snake, *n);
        *row0 /= block->stride;
        *n /= block->stride;
        ref_replace_run(flow, &block->resample, *row0, *n);
        if (i + 1 == c->n_block)
            ref_window_run(
                flow, &c->enc_window, &flow->cache[0], flow->buf, *n, "encoder.transformer");
        ref_flow_stage(flow, "encoder.block.%d", i + 1, *row0, *n, block->resample.n_out);
    }
    ref_snake_run(c, flow->buf[0], flow->buf[0], &c->enc_snake, *n);
    ref_flow_stage(flow, "encoder.block.%d", c->n_block + 1, *row0, *n, c->info.latent);
    ref_replace_run(flow, &c->enc_last, *row0, *n);
    ref_flow_stage(flow, "encoder.block.%d", c->n_block + 2, *row0, *n, c->info.latent);
}

static void downsample(ref_flow *flow, int64_t *row0, int *n)
{
    kvref_codec *c = flow->c;
    for (int i = 0; i < c->n_stage; i++) {
        const ref_stage *stage = &c->down[i];
        *row0 /= stage->stride;
        *n /= stage->stride;
        ref_replace_run(flow, &stage->resample, *row0, *n);
        ref_flow_stage(flow, "downsample.%d.conv", i, *row0, *n, c->info.latent);
        ref_convnext_run(flow, &stage->next, *row0, *n);
        ref_flow_stage(flow, "downsample.%d", i, *row0, *n, c->info.latent);
    }
}

kvref_status
ref_encode_piece(ref_flow *flow, int32_t *code, const float *pcm, int n, kvref_error *err)
{
    kvref_codec *c = flow->c;
    int rows = n * c->info.frame, n_blas = openblas_get_num_threads();
    int64_t row0 = flow->frame * c->info.frame;
    openblas_set_num_threads(1);
    flow->cursor = 0;
    memcpy(flow->buf[0], pcm, (size_t)rows * sizeof *pcm);
    encoder(flow, &row0, &rows);
    downsample(flow, &row0, &rows);
    assert(flow->cursor == flow->n_history);
    ref_window_run(flow, &c->pre, &flow->cache[1], flow->buf, n, "pre_module");
    ref_flow_stage(flow, "pre_module", 0, row0, rows, c->info.latent);
    kvref_status status = ref_books_encode(flow, code, flow->buf[0], n, err);
    openblas_set_num_threads(n_blas);
    flow->frame += n;
    return status;
}
