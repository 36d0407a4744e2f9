/* SPDX-License-Identifier: MIT */
/* ConvNeXt and residual units on a piece (spec 06 section 2); x and the result are buf[0].
 *   convnext: x + gamma * down(gelu(up(norm(depth(x)))))
 *   unit:     x + narrow(snake(wide(snake(x)))) */
#include "ref/codec.h"

#include <string.h>

typedef struct next_job {
    const ref_convnext *next;
    const float *x; /* with 6 rows before it */
    float *y;
    int width;
} next_job;

/* Depth-wise convolution of 7 taps, then the norm over channels; one task per row. */
static void depth_task(void *arg, int worker, int first, int last)
{
    const next_job *job = arg;
    const ref_convnext *next = job->next;
    ptrdiff_t d = job->width;
    (void)worker;
    for (int r = first; r < last; r++) {
        float *y = job->y + r * d;
        memset(y, 0, (size_t)d * sizeof *y);
        for (int j = 0; j < 7; j++) {
            const float *x = job->x + (r + j - 6) * d, *w = next->depth + j * d;
            for (ptrdiff_t i = 0; i < d; i++) y[i] += w[i] * x[i];
        }
        for (ptrdiff_t i = 0; i < d; i++) y[i] += next->depth_bias[i];
        ref_codec_layer_norm(y, y, next->norm, next->norm_bias, job->width);
    }
}

void ref_convnext_run(ref_flow *flow, const ref_convnext *next, int64_t row0, int n)
{
    kvref_codec *c = flow->c;
    next_job job = {next, flow->buf[0], flow->buf[1], next->up.n_in};
    ref_flow_look_back(flow, flow->buf[0], n, job.width, 6);
    ref_share_run(c, depth_task, &job, n);
    ref_after gelu = {REF_GELU, flow->buf[2], NULL, NULL};
    ref_conv_run(c, &next->up, flow->buf[1], row0, n, gelu);
    ref_after add = {REF_ADD, flow->buf[0], NULL, next->gamma};
    ref_conv_run(c, &next->down, flow->buf[2], row0, n, add);
}

void ref_unit_run(ref_flow *flow, const ref_unit *unit, int64_t row0, int n)
{
    kvref_codec *c = flow->c;
    const ref_conv *wide = &unit->wide;
    float *x = flow->buf[0], *s = flow->buf[1], *h = flow->buf[2];
    ref_snake_run(c, s, x, &unit->before, n);
    ref_flow_look_back(flow, s, n, wide->n_in, (wide->n_tap - 1) * wide->step);
    ref_conv_run(c, wide, s, row0, n, (ref_after){REF_SNAKE, h, &unit->between, NULL});
    ref_conv_run(c, &unit->narrow, h, row0, n, (ref_after){REF_ADD, x, NULL, NULL});
}

void ref_replace_run(ref_flow *flow, const ref_conv *conv, int64_t row0, int n)
{
    float *x = flow->buf[0], *y = flow->buf[1];
    ref_flow_look_back(flow, x, n, conv->n_in, (conv->n_tap - 1) * conv->step);
    ref_conv_run(flow->c, conv, x, row0, n, (ref_after){REF_STORE, y, NULL, NULL});
    flow->buf[0] = y;
    flow->buf[1] = x;
}
