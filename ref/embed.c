/* SPDX-License-Identifier: MIT */
/* A frame becomes one vector of the slow transformer (spec 02 section 2).
 *
 *     s = sum over books b of codebook_embed[b*K + code_b]      audio positions only
 *     x = embed[token] + s
 *     x = x / sqrt(N + 1)                                       audio positions only
 *
 * A position is audio when its TOKEN is a semantic id, wherever it came from: prompt, reference
 * voice and decode steps are embedded alike. At text positions the codes are not looked at. */
#include "ref/ref.h"

#include <math.h>
#include <string.h>

/* x [D] += codes [N] looked up in table [N*K, D]: book b has rows b*K .. b*K+K-1. work [2, D].
 */
static void add_codes(const ref_tools *tools,
                      float *x,
                      const int32_t *code,
                      const kvref_config *config,
                      const kvref_weight *table,
                      float *work)
{
    size_t width = (size_t)table->n_col;
    float *sum = work, *row = work + width;
    memset(sum, 0, width * sizeof *sum);
    for (int b = 0; b < config->n_codebook; b++) {
        ref_row(tools, row, table, b * config->n_code + code[b]);
        for (size_t i = 0; i < width; i++) sum[i] += row[i];
    }
    float divisor = sqrtf((float)(config->n_codebook + 1));
    for (size_t i = 0; i < width; i++) {
        x[i] = ref_round(x[i] + ref_round(sum[i]));
        if (config->scale_codebook_embeddings) x[i] = ref_round(x[i] / divisor);
    }
}

void ref_embed(const ref_tools *tools,
               float *x,
               const int32_t *frames,
               int n_row,
               const kvref_config *config,
               const kvref_weights *weights,
               float *work)
{
    for (int t = 0; t < n_row; t++) {
        const int32_t *frame = frames + (size_t)t * (size_t)(1 + config->n_codebook);
        float *to = x + (size_t)t * (size_t)weights->embed.n_col;
        ref_row(tools, to, &weights->embed, frame[0]);
        if (frame[0] >= config->semantic_begin && frame[0] <= config->semantic_end)
            add_codes(tools, to, frame + 1, config, &weights->codebook_embed, work);
    }
}
