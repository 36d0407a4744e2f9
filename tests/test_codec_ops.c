/* SPDX-License-Identifier: MIT */
/* The codec's operations but for convolutions (test_codec_conv) against their definitions in
 * double: snake, the norm and ConvNeXt, the window, the rotation's frequencies. */
#include "ref/codec.h"
#include "tests/codec_toy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ref(x) = x + sin^2(alpha x) / (alpha + 1e-9), alpha x and the divisor rounded to float32. */
static void check_snake(float alpha, double scale, int width)
{
    enum { ROWS = 50 };
    float a[64], inverse[64], *x = toy_noise(ROWS * 64, 3), y[ROWS * 64];
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
    float *x = toy_noise(N, 9), *w = toy_noise(N, 10), *b = toy_noise(N, 11), y[N];
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
    tcase_add_test(tc, snake_is_right_from_tiny_to_huge);
    tcase_add_test(tc, gelu_is_the_exact_one);
    tcase_add_test(tc, layer_norm_takes_off_the_mean_over_channels);
    tcase_add_test(tc, convnext_follows_its_definition);
    tcase_add_test(tc, window_ends_where_it_should);
    tcase_add_test(tc, rotation_frequencies_are_upstreams);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
