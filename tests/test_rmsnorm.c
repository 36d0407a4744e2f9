/* SPDX-License-Identifier: MIT */
/* The row operations: norm, embedding, activation. */
#include "tests/support.h"
#include "tests/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Largest error of y against the formula in double, relative to the value itself. */
static double norm_error(const float *x, int n, const float *weight, float eps)
{
    ref_tools tools;
    world_tools(&tools, ref_simd_best(), 1, n, 0);
    kvref_weight w = {weight, KVREF_F32, 1, n};
    float *y = world_floats((size_t)n, 1e30f, 1);
    ref_rmsnorm(&tools, y, x, 1, n, &w, eps, true);
    double sum = 0, worst = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    for (int i = 0; i < n; i++) {
        double want = (double)x[i] / sqrt(sum / n + (double)eps) * (double)weight[i];
        double err = fabs((double)y[i] - want) / (fabs(want) + 1e-30);
        if (!(err <= worst)) worst = err;
    }
    free(y);
    world_tools_close(&tools);
    return worst;
}

START_TEST(norm_of_hard_rows_matches_the_formula)
{
    enum { N = 2560 };
    float x[N], *weight = world_floats(N, 1, 7), *noise = world_floats(N, 1, 9);
    struct {
        const char *name;
        float fill, spike;
    } row[] = {{"300s", 300, 300},
               {"one 60000", 0.01f, 60000},
               {"6s", 6, 6},
               {"zeros", 0, 0},
               {"1e-8s", 1e-8f, 1e-8f},
               {"65504s", 65504, 65504}};
    for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
        for (int i = 0; i < N; i++) x[i] = row[r].fill;
        x[1234] = row[r].spike;
        double err = norm_error(x, N, weight, 1e-6f);
        printf("%s: %.3g\n", row[r].name, err);
        ck_assert(err <= 4e-6);
    }
    ck_assert(norm_error(noise, N, weight, 1e-6f) <= 1e-6);
    for (int n = 1; n < 70; n++) ck_assert(norm_error(noise, n, weight, 1e-5f) <= 1e-6);
    free(weight);
    free(noise);
}
END_TEST

/* mean(x^2) + eps under the root: with 1e-8s and eps 1e-6 the result is 1e-8 / 1e-3. */
START_TEST(epsilon_is_inside_the_root)
{
    float x[16], y[16], one[16];
    for (int i = 0; i < 16; i++) x[i] = 1e-8f, one[i] = 1;
    ref_tools tools;
    world_tools(&tools, ref_simd_best(), 1, 16, 0);
    ref_rmsnorm(&tools, y, x, 1, 16, &(kvref_weight){one, KVREF_F32, 1, 16}, 1e-6f, true);
    ck_assert(fabs((double)y[0] - 1e-5) <= 1e-10);
    world_tools_close(&tools);
}
END_TEST

START_TEST(rows_are_normed_by_themselves_and_in_place)
{
    enum { N = 37, T = 5 };
    ref_tools tools;
    world_tools(&tools, ref_simd_best(), 1, N, 0);
    float *x = world_floats(N * T, 3, 1), *w = world_floats(N, 1, 2),
          *y = world_floats(N * T + 8, 1e30f, 3);
    float *guard = world_floats(N * T + 8, 1e30f, 3);
    kvref_weight weight = {w, KVREF_F32, 1, N};
    ref_rmsnorm(&tools, y, x, T, N, &weight, 1e-6f, true);
    ck_assert_uint_eq(world_differ(y + N * T, guard + N * T, 8), 0);
    for (int t = 0; t < T; t++)
        ref_rmsnorm(&tools, x + t * N, x + t * N, 1, N, &weight, 1e-6f, true);
    ck_assert_uint_eq(world_differ(x, y, N * T), 0);
    free(x), free(w), free(y), free(guard);
    world_tools_close(&tools);
}
END_TEST

static float at(const kvref_weight *w, int row, int i)
{
    uint16_t h;
    memcpy(&h, (const char *)w->data + 2 * ((size_t)row * (size_t)w->n_col + (size_t)i), 2);
    return kvref_bf16_f32(h);
}

/* Text positions are the bare row; audio positions the sum over sqrt(N+1), row by row. */
START_TEST(embedding_equals_a_hand_made_sum)
{
    kvref_config config = world_odd();
    for (int scaled = 0; scaled < 2; scaled++) {
        config.scale_codebook_embeddings = scaled;
        world w;
        world_open(&w, &config, KVREF_BF16, 1);
        ref_tools tools;
        world_tools(&tools, ref_simd_best(), 1, 80, 0);
        enum { T = 24, D = 40 };
        int32_t *frames = world_frames(&config, T, 5);
        float x[T * D], work[2 * D];
        int n_audio = 0;
        frames[0] = config.semantic_begin, frames[6] = config.semantic_end;
        frames[12] = config.semantic_begin - 1, frames[18] = config.semantic_end + 1;
        ref_embed(&tools, x, frames, T, &config, &w.weights, work);
        for (int t = 0; t < T; t++) {
            const int32_t *f = frames + t * 6;
            bool audio = f[0] >= config.semantic_begin && f[0] <= config.semantic_end;
            n_audio += audio;
            for (int i = 0; i < D; i++) {
                float sum = 0, want = at(&w.weights.embed, f[0], i);
                for (int b = 0; b < 5; b++)
                    sum += at(&w.weights.codebook_embed, b * 18 + f[1 + b], i);
                if (audio) want += sum;
                if (audio && scaled) want /= sqrtf(6.0f);
                ck_assert_msg(x[t * D + i] == want, "row %d", t);
            }
        }
        ck_assert(n_audio > 4 && n_audio < T - 4);
        free(frames);
        world_tools_close(&tools);
        world_close(&w);
    }
}
END_TEST

START_TEST(activation_matches_the_formula_and_does_not_overflow)
{
    float gate[1000], up[1000], g[1000];
    uint32_t state = 1;
    for (int i = 0; i < 1000; i++) {
        gate[i] = g[i] = world_noise(&state) * (i % 3 ? 10.0f : 60000.0f);
        up[i] = world_noise(&state) * (i % 2 ? 1.0f : 60000.0f);
    }
    ref_swiglu(gate, up, 999);
    for (int i = 0; i < 999; i++) {
        double want = (double)g[i] / (1 + exp(-(double)g[i])) * (double)up[i];
        ck_assert(fabs((double)gate[i] - want) <= 3e-7 * fabs(want) + 1e-37);
    }
    ck_assert(kvref_f32_bits(gate[999]) == kvref_f32_bits(g[999]));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rmsnorm");
    TCase *tc = tcase_create("rows");
    tcase_add_test(tc, norm_of_hard_rows_matches_the_formula);
    tcase_add_test(tc, epsilon_is_inside_the_root);
    tcase_add_test(tc, rows_are_normed_by_themselves_and_in_place);
    tcase_add_test(tc, embedding_equals_a_hand_made_sum);
    tcase_add_test(tc, activation_matches_the_formula_and_does_not_overflow);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
