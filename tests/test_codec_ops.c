/* SPDX-License-Identifier: MIT */
/* The codec's operations against their definitions in double: convolutions of every kind from
 * files, snake, the norm and ConvNeXt, the window, the rotation's frequencies, resampling.
 *
 * Sums: |y - ref| <= 2 sqrt(n) 2^-24 S + 2^-23 |ref|, S the sum of the magnitudes of the
 * products: the rule for dot products, plus the roundings of result and bias. */
#include "ref/codec.h"
#include "tests/codec_toy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (double)(int32_t)*seed * 0x1p-31;
}

static float *noise_array(size_t n, uint32_t seed)
{
    float *x = malloc(n * sizeof *x);
    ck_assert(x != NULL);
    for (size_t i = 0; i < n; i++) x[i] = (float)noise(&seed);
    return x;
}

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
    weights w = {.w = noise_array((size_t)(dim0 * row), seed),
                 .gain = noise_array((size_t)dim0, seed + 1),
                 .bias = noise_array((size_t)s->c_out, seed + 2),
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
        for (size_t r = 0; r < back + (size_t)m; r++) {
            ptrdiff_t from = t + (ptrdiff_t)r - (ptrdiff_t)back;
            for (size_t i = 0; i < n_in; i++)
                at[(r - back) * n_in + i] = from < 0 ? 0.0f : x[(size_t)from * n_in + i];
        }
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
    float *x = noise_array((size_t)(n_in * s->c_in), 5);
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

/* ref(x) = x + sin^2(alpha x) / (alpha + 1e-9), alpha x and the divisor rounded to float32. */
static void check_snake(float alpha, double scale, int width)
{
    enum { ROWS = 50 };
    float a[64], inverse[64], *x = noise_array(ROWS * 64, 3), y[ROWS * 64];
    for (int i = 0; i < width; i++) {
        a[i] = alpha;
        inverse[i] = 1.0f / (alpha + 1e-9f);
    }
    for (int i = 0; i < ROWS * width; i++) x[i] *= (float)scale;
    ref_snake snake = {a, inverse, width};
    ref_snake_rows(y, x, &snake, ROWS);
    for (int i = 0; i < ROWS * width; i++) {
        double s = sin((double)(alpha * x[i])), add = s * s * (double)inverse[0];
        double want = (double)x[i] + add;
        double limit = 0x1p-23 * fabs(add) + 0x1p-24 * fabs(want) + 1e-44;
        ck_assert_msg(fabs((double)y[i] - want) <= limit,
                      "alpha %g, x %g: %.9g, expected %.9g",
                      (double)alpha,
                      (double)x[i],
                      (double)y[i],
                      want);
    }
    free(x);
}

START_TEST(snake_is_right_from_tiny_to_huge)
{
    static const float alpha[] = {1e-8f, 0.0f, 0.01f, 1.0f, -0.7f, 17.0f, 1e4f};
    static const double scale[] = {1e-30, 1e-3, 1.0, 100.0, 1e6, 1e20};
    for (int i = 0; i < 7; i++)
        for (int k = 0; k < 6; k++)
            for (int width = 1; width <= 64; width += width < 33 ? 8 : 31)
                check_snake(alpha[i], scale[k], width);
    float a[3] = {1, 1, 1}, x[3] = {NAN, INFINITY, 2}, y[3];
    ref_snake snake = {a, a, 3};
    ref_snake_rows(y, x, &snake, 1);
    ck_assert(isnan(y[0]) && !isfinite(y[1]) && isfinite(y[2]));
}
END_TEST

START_TEST(gelu_is_the_exact_one)
{
    float x[2001];
    for (int i = 0; i <= 2000; i++) x[i] = (float)(i - 1000) * 0.0123f;
    ref_gelu(x, 2001);
    for (int i = 0; i <= 2000; i++) {
        double v = (double)((float)(i - 1000) * 0.0123f), want = 0.5 * v * erfc(-v * sqrt(0.5));
        ck_assert(fabs((double)x[i] - want) <= 0x1p-23 * fabs(want) + 1e-15);
    }
}
END_TEST

START_TEST(layer_norm_takes_off_the_mean_over_channels)
{
    enum { N = 37 };
    float *x = noise_array(N, 9), *w = noise_array(N, 10), *b = noise_array(N, 11), y[N];
    for (int i = 0; i < N; i++) x[i] = x[i] * 1e-3f + 5.0f;
    double mean = 0, var = 0;
    for (int i = 0; i < N; i++) mean += (double)x[i] / N;
    for (int i = 0; i < N; i++) var += pow((double)x[i] - mean, 2) / N;
    ref_codec_layer_norm(y, x, w, b, N);
    for (int i = 0; i < N; i++) {
        /* eps 1e-6 is three times the variance here */
        double want = ((double)x[i] - mean) / sqrt(var + 1e-6) * (double)w[i] + (double)b[i];
        ck_assert_msg(fabs((double)y[i] - want) <= 1e-3, "%d: %g %g", i, (double)y[i], want);
    }
    free(x);
    free(w);
    free(b);
}
END_TEST

/* Depth-wise convolution, norm, two linears and gamma of the toy's first stage, by definition
 * from the tap before it. */
static const float *values(kvref_codec *c, const char *name)
{
    kvref_error err;
    const kvref_tensor *t;
    must(ref_codec_find(c, &t, name, &err), err);
    ck_assert_msg(t != NULL, "%s", name);
    return t->data;
}

static void next_row(kvref_codec *c, const float *x, int t, int d, double *out)
{
#define VALUES(name) values(c, "quantizer.upsample.0.1." name)
    const float *w = VALUES("dwconv.conv.weight"), *b = VALUES("dwconv.conv.bias");
    const float *nw = VALUES("norm.weight"), *nb = VALUES("norm.bias"), *g = VALUES("gamma");
    const float *w1 = VALUES("pwconv1.weight"), *b1 = VALUES("pwconv1.bias");
    const float *w2 = VALUES("pwconv2.weight"), *b2 = VALUES("pwconv2.bias");
    double h[64], mid[256], mean = 0, var = 0;
    ck_assert(d <= 64);
    for (int i = 0; i < d; i++) {
        h[i] = (double)b[i];
        for (int j = 0; j < 7; j++)
            if (t + j - 6 >= 0) h[i] += (double)w[i * 7 + j] * (double)x[(t + j - 6) * d + i];
        mean += h[i] / d;
    }
    for (int i = 0; i < d; i++) var += pow(h[i] - mean, 2) / d;
    for (int i = 0; i < d; i++)
        h[i] = (h[i] - mean) / sqrt(var + 1e-6) * (double)nw[i] + (double)nb[i];
    for (int o = 0; o < 4 * d; o++) {
        mid[o] = (double)b1[o];
        for (int i = 0; i < d; i++) mid[o] += (double)w1[o * d + i] * h[i];
        mid[o] *= 0.5 * erfc(-mid[o] * sqrt(0.5));
    }
    for (int o = 0; o < d; o++) {
        double y = (double)b2[o];
        for (int i = 0; i < 4 * d; i++) y += (double)w2[o * 4 * d + i] * mid[i];
        out[o] = (double)x[t * d + o] + (double)g[o] * y;
    }
}

START_TEST(convnext_follows_its_definition)
{
    toy_taps taps = {0};
    kvref_codec_dims dims = toy_small_dims();
    kvref_codec_opts opts = {.n_thread = 1, .tap = {toy_collect, &taps, KVREF_TAP_LAYERS}};
    kvref_codec *c = toy_open(&dims, &opts);
    int32_t *code = toy_codes("next", 4, 20);
    free(toy_decode(c, code, 20));
    const toy_tap *in = toy_find(&taps, "upsample.0.conv"),
                  *out = toy_find(&taps, "upsample.0");
    ck_assert(in && out && in->n_row == 40 && in->width == 24);
    for (int t = 0; t < 40; t++) {
        double want[64];
        next_row(c, in->x, t, 24, want);
        for (int i = 0; i < 24; i++)
            ck_assert_msg(fabs((double)out->x[t * 24 + i] - want[i]) <= 1e-5,
                          "row %d, channel %d: %g, expected %g",
                          t,
                          i,
                          (double)out->x[t * 24 + i],
                          want[i]);
    }
    free(code);
    toy_taps_clear(&taps);
    kvref_codec_close(&c);
}
END_TEST

/* One layer, window 9: a change of frame 0 reaches frames 0 .. 8 and not one bit of frame 9. */
START_TEST(window_ends_where_it_should)
{
    toy_taps a = {0}, b = {0};
    kvref_codec_dims dims = toy_small_dims();
    dims.n_layer = 1;
    for (dims.window = 1; dims.window <= 9; dims.window += 4) {
        kvref_codec_opts opts = {.n_thread = 1, .tap = {toy_collect, &a, KVREF_TAP_LAYERS}};
        kvref_codec *c = toy_open(&dims, &opts);
        int32_t *code = toy_codes("window", 4, 20);
        free(toy_decode(c, code, 20));
        kvref_codec_close(&c);
        opts.tap.user = &b;
        c = toy_open(&dims, &opts);
        code[0] = (code[0] + 1) % 32;
        free(toy_decode(c, code, 20));
        kvref_codec_close(&c);
        const toy_tap *x = toy_find(&a, "post_module"), *y = toy_find(&b, "post_module");
        ck_assert(x && y && x->n_row == 20 && y->n_row == 20);
        for (int t = 0; t < 20; t++) {
            bool equal = memcmp(x->x + t * 24, y->x + t * 24, 24 * sizeof(float)) == 0;
            ck_assert_msg(equal == (t >= dims.window), "window %d, frame %d", dims.window, t);
        }
        free(code);
        toy_taps_clear(&a);
        toy_taps_clear(&b);
    }
}
END_TEST

START_TEST(rotation_frequencies_are_upstreams)
{
    static const uint32_t want[32] = {
        0x3f800000, 0x3f3ff911, 0x3f0ff59a, 0x3ed7e89b, 0x3ea1e89b, 0x3e72d423, 0x3e361887,
        0x3e088d77, 0x3dcccccd, 0x3d99940d, 0x3d6655c2, 0x3d2cba15, 0x3d0186e3, 0x3cc2434f,
        0x3c91ad39, 0x3c5a7bf2, 0x3c23d70a, 0x3bf5b9b0, 0x3bb8449c, 0x3b8a2e77, 0x3b4f3e38,
        0x3b1b690d, 0x3ae91528, 0x3aaec98e, 0x3a83126f, 0x3a44948c, 0x3a136a16, 0x39dd1725,
        0x39a5cb60, 0x3978a815, 0x393a7753, 0x390bd472};
    kvref_codec_dims dims = toy_golden_dims();
    kvref_codec_opts opts = {.n_thread = 1, .parts = KVREF_CODEC_DECODE};
    kvref_codec *c = toy_open(&dims, &opts);
    for (int j = 0; j < 32; j++)
        ck_assert_msg(kvref_f32_bits(c->rope[j]) == want[j], "frequency %d", j);
    kvref_codec_close(&c);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("codec_ops");
    TCase *tc = tcase_create("codec_ops");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, convolutions_of_all_kinds_follow_their_definition);
    tcase_add_test(tc, snake_is_right_from_tiny_to_huge);
    tcase_add_test(tc, gelu_is_the_exact_one);
    tcase_add_test(tc, layer_norm_takes_off_the_mean_over_channels);
    tcase_add_test(tc, convnext_follows_its_definition);
    tcase_add_test(tc, window_ends_where_it_should);
    tcase_add_test(tc, rotation_frequencies_are_upstreams);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
