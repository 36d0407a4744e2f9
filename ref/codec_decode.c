/* SPDX-License-Identifier: MIT */
/* Codes to samples (spec 06 section 3), piece by piece:
 *   z = books -> window transformer -> up-sampling stages -> decoder -> tanh. */
#include "ref/codec.h"

#include <assert.h>
#include <cblas.h>
#include <math.h>

static void upsample(ref_flow *flow, int64_t *row0, int *n)
{
    kvref_codec *c = flow->c;
    for (int i = 0; i < c->n_stage; i++) {
        const ref_stage *stage = &c->up[i];
        ref_replace_run(flow, &stage->resample, *row0, *n);
        *row0 *= stage->stride;
        *n *= stage->stride;
        ref_flow_stage(flow, "upsample.%d.conv", i, *row0, *n, c->info.latent);
        ref_convnext_run(flow, &stage->next, *row0, *n);
        ref_flow_stage(flow, "upsample.%d", i, *row0, *n, c->info.latent);
    }
}

static void decoder(ref_flow *flow, int64_t *row0, int *n)
{
    kvref_codec *c = flow->c;
    ref_replace_run(flow, &c->dec_first, *row0, *n);
    ref_flow_stage(flow, "decoder.model.%d", 0, *row0, *n, c->dec_first.n_out);
    for (int i = 0; i < c->n_block; i++) {
        const ref_conv_block *block = &c->dec[i];
        ref_snake_run(c, flow->buf[0], flow->buf[0], &block->snake, *n);
        ref_replace_run(flow, &block->resample, *row0, *n);
        *row0 *= block->stride;
        *n *= block->stride;
        for (int u = 0; u < 3; u++) ref_unit_run(flow, &block->unit[u], *row0, *n);
        ref_flow_stage(flow, "decoder.model.%d", i + 1, *row0, *n, block->width);
    }
    ref_snake_run(c, flow->buf[0], flow->buf[0], &c->dec_snake, *n);
    ref_flow_stage(flow, "decoder.model.%d", c->n_block + 1, *row0, *n, c->dec_last.n_in);
    ref_replace_run(flow, &c->dec_last, *row0, *n);
    ref_flow_stage(flow, "decoder.model.%d", c->n_block + 2, *row0, *n, 1);
}

/* tanh would turn an infinity into 1, so samples are checked before. */
static kvref_status finish(ref_flow *flow, float *pcm, int64_t row0, int n, kvref_error *err)
{
    for (int i = 0; i < n; i++) {
        float x = flow->buf[0][i];
        if (!isfinite(x))
            return kvref_fail(
                err, KVREF_E_FORMAT, "codec: sample %lld is not finite", (long long)row0 + i);
        flow->buf[0][i] = pcm[i] = (float)tanh((double)x);
    }
    ref_flow_stage(flow, "decoder.model.%d", flow->c->n_block + 3, row0, n, 1);
    return KVREF_OK;
}

kvref_status
ref_decode_piece(ref_flow *flow, float *pcm, const int32_t *code, int n, kvref_error *err)
{
    kvref_codec *c = flow->c;
    int64_t row0 = flow->frame;
    int rows = n, n_blas = openblas_get_num_threads();
    openblas_set_num_threads(1);
    flow->cursor = 0;
    ref_books_decode(c, flow->buf[0], code, n);
    ref_flow_stage(flow, "z", 0, row0, rows, c->info.latent);
    ref_window_run(flow, &c->post, &flow->cache[0], flow->buf, n, "post_module");
    ref_flow_stage(flow, "post_module", 0, row0, rows, c->info.latent);
    upsample(flow, &row0, &rows);
    decoder(flow, &row0, &rows);
    assert(flow->cursor == flow->n_history);
    openblas_set_num_threads(n_blas);
    KVREF_TRY(finish(flow, pcm, row0, rows, err));
    flow->frame += n;
    return KVREF_OK;
}
