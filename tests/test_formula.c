/* SPDX-License-Identifier: MIT */
/* Both transformers against their formulas (spec 02 and 03) evaluated in double by plain loops
 * that share nothing with ref/ but the weights. */
#include "tests/support.h"
#include "tests/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_T = 24, MAX_WIDTH = 160 };

/* Weight [o, i] of a BF16 matrix. */
static double at(const kvref_weight *w, int o, int i)
{
    uint16_t h;
    size_t index = (size_t)o * (size_t)w->n_col + (size_t)i;
    memcpy(&h, (const char *)w->data + 2 * index, sizeof h);
    return (double)kvref_bf16_f32(h);
}

static void matrix(double *y, const kvref_weight *w, const kvref_weight *bias, const double *x)
{
    for (int o = 0; o < w->n_row; o++) {
        y[o] = bias && bias->data ? at(bias, 0, o) : 0;
        for (int i = 0; i < w->n_col; i++) y[o] += at(w, o, i) * x[i];
    }
}

static void norm(double *y, const double *x, const kvref_weight *w, double eps)
{
    double sum = 0;
    for (int i = 0; i < w->n_col; i++) sum += x[i] * x[i];
    for (int i = 0; i < w->n_col; i++) y[i] = x[i] / sqrt(sum / w->n_col + eps) * at(w, 0, i);
}

/* One head: norm if w is present, then the rotation for position p with a bfloat16 table. */
static void turn(double *u, const kvref_weight *w, const kvref_config *c, int width, int p)
{
    if (w->data) norm(u, u, w, (double)c->norm_eps);
    for (int j = 0; j < width / 2; j++) {
        float freq =
            1 / (float)pow((double)c->rope_base, (double)((float)(2 * j) / (float)width));
        double angle = (double)((float)p * freq), re = u[2 * j], im = u[2 * j + 1];
        double cosine = (double)kvref_bf16_f32(kvref_f32_bf16((float)cos(angle)));
        double sine = (double)kvref_bf16_f32(kvref_f32_bf16((float)sin(angle)));
        u[2 * j] = re * cosine - im * sine;
        u[2 * j + 1] = im * cosine + re * sine;
    }
}

static double keys[MAX_T][MAX_WIDTH], values[MAX_T][MAX_WIDTH];

/* out [H*E] of query q at position p over keys and values 0..p. */
static void attend(double *out, const double *q, const kvref_stack *s, int p)
{
    int e = s->d_head, group = s->n_head / s->n_kv_head;
    for (int h = 0; h < s->n_head; h++) {
        double weight[MAX_T] = {0}, total = 0;
        for (int r = 0; r <= p; r++) {
            double dot = 0;
            for (int i = 0; i < e; i++) dot += q[h * e + i] * keys[r][h / group * e + i];
            total += weight[r] = exp(dot / sqrt(e));
        }
        for (int i = 0; i < e; i++) {
            out[h * e + i] = 0;
            for (int r = 0; r <= p; r++)
                out[h * e + i] += weight[r] / total * values[r][h / group * e + i];
        }
    }
}

/* x [n, D] through all layers, positions 0..n-1 (keys of one layer are needed at a time). */
static void stack(double x[][MAX_WIDTH],
                  int n,
                  const kvref_stack *s,
                  const kvref_layer *w,
                  const kvref_config *c)
{
    double a[MAX_WIDTH] = {0}, q[MAX_WIDTH] = {0}, b[MAX_WIDTH] = {0};
    double gate[MAX_WIDTH] = {0}, up[MAX_WIDTH] = {0};
    for (int l = 0; l < s->n_layer; l++, w++)
        for (int t = 0; t < n; t++) {
            norm(a, x[t], &w->attn_norm, (double)c->norm_eps);
            matrix(q, &w->wq, &w->bq, a);
            matrix(keys[t], &w->wk, &w->bk, a);
            matrix(values[t], &w->wv, &w->bv, a);
            for (int h = 0; h < s->n_head; h++)
                turn(q + h * s->d_head, &w->q_norm, c, s->d_head, t);
            for (int g = 0; g < s->n_kv_head; g++)
                turn(keys[t] + g * s->d_head, &w->k_norm, c, s->d_head, t);
            attend(b, q, s, t);
            matrix(a, &w->wo, &w->bo, b);
            for (int i = 0; i < s->d_model; i++) x[t][i] += a[i];
            norm(a, x[t], &w->ffn_norm, (double)c->norm_eps);
            matrix(gate, &w->w1, NULL, a);
            matrix(up, &w->w3, NULL, a);
            for (int i = 0; i < s->d_ff; i++) gate[i] *= up[i] / (1 + exp(-gate[i]));
            matrix(a, &w->w2, NULL, gate);
            for (int i = 0; i < s->d_model; i++) x[t][i] += a[i];
        }
}

static void embed(double *x, const world *w, const int32_t *frame)
{
    const kvref_config *c = &w->config;
    bool audio = frame[0] >= c->semantic_begin && frame[0] <= c->semantic_end;
    for (int i = 0; i < c->slow.d_model; i++) {
        x[i] = at(&w->weights.embed, frame[0], i);
        for (int b = 0; audio && b < c->n_codebook; b++)
            x[i] += at(&w->weights.codebook_embed, b * c->n_code + frame[1 + b], i);
        if (audio && c->scale_codebook_embeddings) x[i] /= sqrt(c->n_codebook + 1);
    }
}

static void must_match(const float *got, const double *want, int n, const char *what)
{
    double size = 0, worst = 0;
    for (int i = 0; i < n; i++) {
        double err = fabs((double)got[i] - want[i]);
        if (!(err <= worst)) worst = err;
        if (fabs(want[i]) > size) size = fabs(want[i]);
    }
    printf("%s: %.2g of the largest\n", what, worst / size);
    ck_assert_msg(worst <= 5e-6 * size, "%s: %g of the largest", what, worst / size);
}

START_TEST(decoder_matches_the_formulas_in_double)
{
    kvref_config c = _i % 2 ? world_odd() : world_tiny();
    if (_i > 1) { /* each flag the other way round */
        c.norm_fastlayer_input = !c.norm_fastlayer_input;
        c.scale_codebook_embeddings = !c.scale_codebook_embeddings;
        c.slow.qk_norm = !c.slow.qk_norm;
        c.fast.qk_norm = !c.fast.qk_norm;
    }
    world w;
    world_open(&w, &c, KVREF_BF16, 1);
    kvref_decoder *d = world_decoder(&w, (kvref_decoder_opts){.capacity = MAX_T});
    int32_t *frames = world_frames(&c, MAX_T, 3), id[64];
    static double x[MAX_T][MAX_WIDTH];
    double z[MAX_WIDTH] = {0}, hidden[MAX_WIDTH] = {0}, logits[MAX_WIDTH] = {0},
           chosen[64] = {0};
    float got[64];
    kvref_error err;
    must(ref_slow(d, got, frames, MAX_T, &err), err);
    for (int t = 0; t < MAX_T; t++) embed(x[t], &w, frames + t * (1 + c.n_codebook));
    stack(x, MAX_T, &c.slow, w.weights.slow, &c);
    norm(z, x[MAX_T - 1], &w.weights.norm, (double)c.norm_eps);
    matrix(logits, &w.weights.head, NULL, z);
    int n = kvref_config_candidates(&c, id, 64);
    for (int i = 0; i < n; i++) chosen[i] = logits[id[i]];
    must_match(got, chosen, n, "slow logits");
    const double *from = c.norm_fastlayer_input ? z : x[MAX_T - 1];
    if (w.weights.fast_in.data)
        matrix(hidden, &w.weights.fast_in, &w.weights.fast_in_bias, from);
    else
        memcpy(hidden, from, sizeof hidden);
    must_match(d->hidden, hidden, c.fast.d_model, "hidden");
    for (int book = 1; book < c.n_codebook; book++) {
        must(ref_fast(d, got, book, 3 * book, &err), err);
        memcpy(x[0], hidden, sizeof hidden);
        for (int p = 1; p <= book; p++)
            for (int i = 0; i < c.fast.d_model; i++)
                x[p][i] = at(&w.weights.fast_embed, 3 * p, i);
        stack(x, book + 1, &c.fast, w.weights.fast, &c);
        norm(z, x[book], &w.weights.fast_norm, (double)c.norm_eps);
        matrix(logits, &w.weights.fast_head, NULL, z);
        must_match(got, logits, c.n_code, "fast logits");
    }
    ref_decoder_close(&d);
    free(frames);
    world_close(&w);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("formula");
    TCase *tc = tcase_create("formula");
    tcase_add_loop_test(tc, decoder_matches_the_formulas_in_double, 0, 4);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
