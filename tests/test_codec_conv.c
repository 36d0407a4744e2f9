/* SPDX-License-Identifier: MIT */
/* Convolutions of every kind, read from files and run in pieces, against their definition in
 * double: |y - ref| <= 2 sqrt(n) 2^-24 S + 2^-23 |ref|, S the sum of the magnitudes of the
 * products: the rule for dot products, plus the roundings of result and bias. */
#include "ref/codec.h"
#include "tests/codec_toy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A convolution as a file has it. */
typedef struct shape {
    int c_in, c_out, k, stride, dilation;
    bool transposed, plain;
} shape;

typedef struct weights {
    float *w, *gain, *bias; /* w [dim0, dim1, k] */
    double *folded;
} weights;

static weights make_weights(const shape *s, uint32_t seed)
{
    int dim0 = s->transposed ? s->c_in : s->c_out, row = s->c_in * s->c_out / dim0 * s->k;
    weights w = {.w = toy_noise((size_t)(dim0 * row), seed),
                 .gain = toy_noise((size_t)dim0, seed + 1),
                 .bias = toy_noise((size_t)s->c_out, seed + 2),
                 .folded = malloc((size_t)(dim0 * row) * sizeof(double))};
    for (int r = 0; r < dim0; r++) {
        double square = 0;
        for (int i = 0; i < row; i++) square += pow((double)w.w[r * row + i], 2);
        double scale = s->plain ? 1.0 : (double)w.gain[r] / sqrt(square);
        for (int i = 0; i < row; i++) w.folded[r * row + i] = (double)w.w[r * row + i] * scale;
    }
    return w;
}

static void free_weights(weights *w)
{
    free(w->w);
    free(w->gain);
    free(w->bias);
    free(w->folded);
}

/* Writes c.weight (or its two halves) and c.bias; returns the open file. */
static kvref_file *write_weights(const shape *s, const weights *w)
{
    kvref_error err;
    kvref_writer *out;
    kvref_file *file;
    int64_t dim0 = s->transposed ? s->c_in : s->c_out,
            dim1 = s->transposed ? s->c_out : s->c_in;
    kvref_tensor t[3] = {
        {.name = "c.bias", .n_dim = 1, .dim = {s->c_out}},
        {.name = s->plain ? "c.weight" : "c.weight_v", .n_dim = 3, .dim = {dim0, dim1, s->k}},
        {.name = "c.weight_g", .n_dim = 3, .dim = {dim0, 1, 1}}};
    const char *path = support_path(support_temp_dir(), "conv.safetensors");
    must(kvref_writer_open(&out, path, t, s->plain ? 2 : 3, NULL, 0, &err), err);
    must(kvref_writer_put(out, w->bias, (size_t)s->c_out * 4, &err), err);
    must(kvref_writer_put(out, w->w, (size_t)(dim0 * dim1 * s->k) * 4, &err), err);
    if (!s->plain) must(kvref_writer_put(out, w->gain, (size_t)dim0 * 4, &err), err);
    must(kvref_writer_commit(&out, &err), err);
    must(kvref_file_open(&file, path, NULL, &err), err);
    return file;
}

/* Sum and sum of magnitudes of output o at time t of x [n, c_in], by the text of the spec. */
static double
define(const shape *s, const weights *w, const float *x, int t, int o, double *size)
{
    double sum = (double)w->bias[o];
    *size = fabs(sum);
    for (int j = 0; j < s->k; j++) {
        int at;
        if (s->transposed) {
            if (t < j || (t - j) % s->stride) continue;
            at = (t - j) / s->stride;
        } else {
            at = t * s->stride + j * s->dilation - ((s->k - 1) * s->dilation + 1 - s->stride);
        }
        if (at < 0) continue;
        for (int i = 0; i < s->c_in; i++) {
            int row = s->transposed ? i * s->c_out + o : o * s->c_in + i;
            double p = w->folded[row * s->k + j] * (double)x[at * s->c_in + i];
            sum += p;
            *size += fabs(p);
        }
    }
    return sum;
}

/* A codec with nothing but what convolutions need. */
static kvref_codec *bare_codec(kvref_conv conv, int n_thread)
{
    kvref_error err;
    kvref_codec *c = calloc(1, sizeof *c);
    c->opts.conv = conv;
    c->simd = ref_simd_best();
    must(kvref_pool_open(&c->pool, n_thread, &err), err);
    return c;
}

/* Runs x [n_in] in pieces of `piece` rows of the convolution, over slack filled with NaN. */
static float *run_conv(kvref_codec *c, const ref_conv *v, const float *x, int n_row, int piece)
{
    size_t back = (size_t)((v->n_tap - 1) * v->step), edge = back + (size_t)v->panel;
    size_t n_in = (size_t)v->n_in, n = (2 * edge + (size_t)n_row) * n_in;
    float *mem = malloc(n * sizeof *mem);
    float *y = calloc((size_t)n_row * (size_t)v->n_out, sizeof *y);
    for (int t = 0; t < n_row; t += piece) {
        int m = n_row - t < piece ? n_row - t : piece;
        float *at = mem + edge * n_in;
        for (size_t i = 0; i < n; i++) mem[i] = NAN;
        for (int r = -(int)back; r < m; r++)
            for (int i = 0; i < v->n_in; i++)
                at[r * v->n_in + i] = t + r < 0 ? 0.0f : x[(t + r) * v->n_in + i];
        ref_after store = {REF_STORE, y + (size_t)t * (size_t)v->n_out, NULL, NULL};
        ref_conv_run(c, v, at, t, m, store);
    }
    free(mem);
    return y;
}

static void check_shape(const shape *s, kvref_conv conv, double *used)
{
    kvref_error err;
    kvref_codec *c = bare_codec(conv, 2);
    weights w = make_weights(s, 77);
    ref_conv v;
    c->file = write_weights(s, &w);
    int dim[3] = {0, 0, 0}, rate = 32;
    if (s->transposed)
        must(ref_codec_transposed(c, &v, "c", dim, s->stride, rate, &err), err);
    else
        must(ref_codec_conv(c, &v, "c", dim, s->stride, s->dilation, rate, &err), err);
    must(ref_codec_block(c, &c->work, c->work_floats * 2, &err), err);
    int n_row = 131, n_in = s->transposed ? n_row : n_row * s->stride;
    int n_out = s->transposed ? n_row * s->stride : n_row;
    float *x = toy_noise((size_t)(n_in * s->c_in), 5);
    float *y = run_conv(c, &v, x, n_row, n_row), *z = run_conv(c, &v, x, n_row, 9);
    ck_assert_msg(memcmp(y, z, (size_t)(n_out * s->c_out) * sizeof *y) == 0, "pieces of 9");
    for (int t = 0; t < n_out; t++) {
        for (int o = 0; o < s->c_out; o++) {
            double size, want = define(s, &w, x, t, o, &size);
            double limit =
                2 * sqrt((double)(s->c_in * s->k)) * 0x1p-24 * size + 0x1p-23 * fabs(want);
            double e = fabs((double)y[t * s->c_out + o] - want) / limit;
            ck_assert_msg(e <= 1.0, "k %d, time %d, channel %d: %.2f", s->k, t, o, e);
            if (e > *used) *used = e;
        }
    }
    free(x);
    free(y);
    free(z);
    free_weights(&w);
    kvref_codec_close(&c);
}

START_TEST(convolutions_of_all_kinds_follow_their_definition)
{
    static const shape s[] = {{5, 7, 7, 1, 1, false, false},
                              {6, 6, 7, 1, 3, false, false},
                              {40, 24, 7, 1, 9, false, false},
                              {33, 530, 1, 1, 1, false, false}, /* two chunks */
                              {1, 20, 7, 1, 1, false, false},
                              {96, 1, 7, 1, 1, false, false},
                              {12, 24, 4, 2, 1, false, false},
                              {8, 40, 16, 8, 1, false, false},
                              {16, 18, 2, 2, 1, false, true},
                              {20, 33, 3, 1, 1, false, false},
                              {16, 18, 2, 2, 1, true, true},
                              {24, 12, 16, 8, 1, true, false},
                              {48, 20, 8, 4, 1, true, false},
                              {6, 3, 4, 2, 1, true, false}};
    double used[2] = {0, 0};
    for (size_t i = 0; i < sizeof s / sizeof *s; i++) {
        check_shape(&s[i], KVREF_CONV_EXACT, &used[0]);
        check_shape(&s[i], KVREF_CONV_BLAS, &used[1]);
    }
    printf("convolutions: exact used %.2f of the limit, blas %.2f\n", used[0], used[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("codec_conv");
    TCase *tc = tcase_create("codec_conv");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, convolutions_of_all_kinds_follow_their_definition);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
