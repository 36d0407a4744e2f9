/* SPDX-License-Identifier: MIT */
/* The float16 emulation of the decoder (ref/ compiled with REF_ROUND_F16): what gpu/ must give
 * to the bit, so it is judged here. */
#include "base/rope.h"
#include "tests/half_math.h"
#include "tests/narrowed.h"
#include "tests/run.h"
#include "tests/scene.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int pieces[] = {5, 1, 1, 4, 1, 0};

/* world_tiny or world_odd in bfloat16, and its copy in float16 in place of the weights. */
static void open_world(world *w, narrowed *n, int i)
{
    kvref_config config = i ? world_odd() : world_tiny();
    world_open(w, &config, KVREF_BF16, 1);
    narrowed_open(n, &config, &w->weights);
}

static void run_narrowed(run *out,
                         const world *w,
                         const narrowed *n,
                         const kvref_decoder_opts *opts,
                         const int32_t *frames,
                         int n_frame)
{
    world copy = {.config = w->config, .weights = n->weights};
    run_make(out, &copy, opts, frames, n_frame, pieces, NULL);
}

static void must_be_halves(void *user, const kvref_tap_data *t)
{
    long *n = user;
    for (int i = 0; i < t->n_row * t->width; i++, ++*n)
        ck_assert_msg(kvref_f32_bits(t->x[i]) ==
                          kvref_f32_bits(kvref_f16_f32(kvref_f32_f16(t->x[i]))),
                      "%s of layer %d, value %d: %a is no float16",
                      t->name,
                      t->layer,
                      i,
                      (double)t->x[i]);
}

/* The control that this program is not linked with the float32 reference. */
START_TEST(every_tapped_value_is_a_float16)
{
    long n_value = 0;
    world w;
    narrowed n;
    run r;
    open_world(&w, &n, _i);
    int32_t *frames = world_frames(&w.config, 24, 1);
    kvref_decoder_opts opts = {.n_thread = 1, .tap = {must_be_halves, &n_value, KVREF_TAP_OPS}};
    run_narrowed(&r, &w, &n, &opts, frames, 24);
    printf("%ld values\n", n_value);
    ck_assert(n_value > 50000);
    run_free(&r);
    free(frames);
    narrowed_close(&n);
    world_close(&w);
}
END_TEST

START_TEST(sums_are_formed_in_the_order_of_the_device)
{
    enum { N = 1100 };
    float *x = world_floats(N, 3, 1), *noise = world_floats(N, 1, 2);
    uint16_t w[N];
    int n_other = 0;
    for (int i = 0; i < N; i++) w[i] = kvref_f32_f16(noise[i]);
    for (int n = 1; n <= N; n += n < 300 ? 1 : 97) {
        float got, serial = 0;
        kvref_weight m = {w, KVREF_F16, 1, n};
        ref_simd_best()->product(&(ref_product){
            .y = &got, .x = x, .w = w, .dtype = KVREF_F16, .n_x = 1, .n_w = 1, .n_col = n});
        float want = half_dot(w, x, n), naive;
        ref_linear_naive(&naive, &m, NULL, x, 1);
        ck_assert(world_differ(&got, &want, 1) == 0);
        ck_assert(naive == kvref_f16_f32(kvref_f32_f16(want)));
        for (int i = 0; i < n; i++) serial += kvref_f16_f32(w[i]) * x[i];
        n_other += serial != want;
    }
    ck_assert(n_other > 100); /* the order is seen in the bits */
    free(x);
    free(noise);
}
END_TEST

START_TEST(prefix_equals_full_bit_for_bit)
{
    world w;
    narrowed n;
    run prefix, full;
    open_world(&w, &n, _i);
    int32_t *frames = world_frames(&w.config, 24, 1);
    kvref_decoder_opts opts = {.capacity = 32, .n_thread = 1};
    run_narrowed(&prefix, &w, &n, &opts, frames, 24);
    opts.attention = KVREF_ATTN_FULL;
    run_narrowed(&full, &w, &n, &opts, frames, 24);
    run_must_agree(&prefix, &full, &w.config, "full");
    run_free(&prefix);
    run_free(&full);
    free(frames);
    narrowed_close(&n);
    world_close(&w);
}
END_TEST

START_TEST(result_is_independent_of_capacity_and_threads)
{
    static const int capacity[] = {64, 4096, 32768};
    world w;
    narrowed n;
    run first, other;
    open_world(&w, &n, _i);
    int32_t *frames = world_frames(&w.config, 50, 2);
    kvref_decoder_opts opts = {.capacity = 50, .n_thread = 1};
    run_narrowed(&first, &w, &n, &opts, frames, 50);
    for (int i = 0; i < 3; i++) {
        opts.capacity = capacity[i];
        opts.n_thread = i + 1;
        run_narrowed(&other, &w, &n, &opts, frames, 50);
        run_must_agree(&first, &other, &w.config, "capacity");
        run_free(&other);
    }
    run_free(&first);
    free(frames);
    narrowed_close(&n);
    world_close(&w);
}
END_TEST

/* Of all tensors that a config demands. */
static uint64_t values_of(const kvref_config *config)
{
    kvref_tensor_spec spec[128];
    uint64_t n_value = 0;
    int n = kvref_config_tensors(config, spec, 128);
    ck_assert_int_le(n, 128);
    for (int i = 0; i < n; i++)
        n_value +=
            (uint64_t)spec[i].dim[0] * (spec[i].n_dim == 2 ? (uint64_t)spec[i].dim[1] : 1);
    return n_value;
}

/* The values of a world are exact in float16, so a copy is the same model and has lost nothing,
 * whatever dtype and address it was made from. */
START_TEST(narrowed_copies_of_equal_models_are_equal)
{
    static const kvref_dtype dtype[] = {KVREF_F16, KVREF_F32};
    kvref_config config = _i ? world_odd() : world_tiny();
    int32_t *frames = world_frames(&config, 12, 3);
    kvref_decoder_opts opts = {.n_thread = 1};
    run first, other;
    for (size_t i = 0; i < 2; i++) {
        world w;
        narrowed n;
        world_open(&w, &config, dtype[i], 2 * i + 1);
        narrowed_open(&n, &config, &w.weights);
        ck_assert(n.count.n == values_of(&config) && n.count.inexact == 0);
        ck_assert((n.weights.head.data == n.weights.embed.data) == config.tie_word_embeddings);
        if (i == 0) run_make(&first, &w, &opts, frames, 12, pieces, NULL);
        run_narrowed(&other, &w, &n, &opts, frames, 12);
        run_must_agree(&first, &other, &config, "narrowed");
        run_free(&other);
        narrowed_close(&n);
        world_close(&w);
    }
    run_free(&first);
    free(frames);
}
END_TEST

/* ---- one operation each, against the rounding points written out ---- */

START_TEST(heads_are_normed_with_one_rounding_and_rows_with_two)
{
    enum { N = 48 };
    ref_tools tools;
    world_tools(&tools, ref_simd_best(), 1, N, 0);
    float *x = world_floats(N, 3, 4), *w = world_floats(N, 1, 5), once[N], twice[N];
    int n_differ = 0;
    for (int i = 0; i < N; i++) x[i] = half_round(x[i]), w[i] = half_round(w[i]);
    kvref_weight weight = {w, KVREF_F32, 1, N};
    ref_rmsnorm(&tools, once, x, 1, N, &weight, 1e-6f, false);
    ref_rmsnorm(&tools, twice, x, 1, N, &weight, 1e-6f, true);
    float scale = 1.0f / sqrtf(ref_dot_naive(x, KVREF_F32, x, N) / (float)N + 1e-6f);
    for (int i = 0; i < N; i++) {
        ck_assert(once[i] == half_round(x[i] * scale * w[i]));
        ck_assert(twice[i] == half_round(half_round(x[i] * scale) * w[i]));
        n_differ += once[i] != twice[i];
    }
    ck_assert(n_differ > 5);
    free(x), free(w);
    world_tools_close(&tools);
}
END_TEST

/* The whole order, once more from gpu/gpu.h: q . k in float16, times c in float16, float32
 * exponentials, weights in float16, one sum in ascending rows. */
START_TEST(fast_attention_rounds_scores_and_weights)
{
    enum { E = 24, N = 9 };
    scene s;
    scene_open(&s, 4, 2, E, 12, N - 1, 1, SCENE_NORMAL);
    for (int i = 0; i < 4 * E; i++) s.q[i] = half_round(4 * s.q[i]);
    for (int i = 0; i < N * 2 * E; i++)
        s.k[i] = half_round(s.k[i]), s.v[i] = half_round(s.v[i]);
    ref_kv_append(&s.kv, 0, 0, s.k, s.v, N);
    float *plain = scene_copy(scene_run(&s, ref_attention_prefix), scene_size(&s));
    const float *out = scene_run(&s, ref_attention_books), c = 1.0f / sqrtf((float)E);
    ck_assert(world_differ(plain, out, scene_size(&s)) > 10);
    for (int h = 0; h < 4; h++) {
        float p[N], largest = -INFINITY, total = 0;
        for (int r = 0; r < N; r++) {
            const float *k = s.k + (r * 2 + h / 2) * E;
            p[r] = half_round(half_round(ref_dot_naive(k, KVREF_F32, s.q + h * E, E)) * c);
            largest = p[r] > largest ? p[r] : largest;
        }
        for (int r = 0; r < N; r++) total += kvref_expf(p[r] - largest);
        for (int r = 0; r < N; r++) p[r] = half_round(kvref_expf(p[r] - largest) / total);
        for (int e = 0; e < E; e++) {
            float sum = 0;
            for (int r = 0; r < N; r++) sum += p[r] * s.v[(r * 2 + h / 2) * E + e];
            ck_assert(out[h * E + e] == half_round(sum));
        }
    }
    free(plain);
    scene_close(&s);
}
END_TEST

START_TEST(both_forms_have_the_bits_of_their_definitions_and_of_the_full_form)
{
    ref_attention *form[][3] = {
        {ref_attention_naive, ref_attention_prefix, ref_attention_full},
        {ref_attention_books_naive, ref_attention_books, ref_attention_books_full}};
    for (int i = 0; i < 2; i++)
        for (int n_past = 0; n_past < 150; n_past += 49) {
            scene s;
            scene_open(&s, 6, 3, 10, 160, n_past, 2, SCENE_NORMAL);
            float *want = scene_copy(scene_run(&s, form[i][0]), scene_size(&s));
            for (int f = 1; f < 3; f++)
                ck_assert_uint_eq(world_differ(want, scene_run(&s, form[i][f]), scene_size(&s)),
                                  0);
            free(want);
            scene_close(&s);
        }
}
END_TEST

START_TEST(rotation_table_is_float16_of_bfloat16_or_plain_float32)
{
    float freq[32], c[2][32], s[2][32], table[4][40 * 32];
    int n_lost = 0;
    for (int kind = 0; kind < 2; kind++) {
        kvref_rope_table t = kind ? KVREF_ROPE_F32 : KVREF_ROPE_BF16;
        ref_rope rope = {.freq = freq, .cosine = table[2 * kind], .sine = table[2 * kind + 1]};
        ref_rope_init(&rope, 64, 1e6f, t);
        ref_rope_reach(&rope, 40);
        for (int p = 0; p < 40; p++) {
            kvref_rope_row(c[kind], s[kind], freq, 32, p, t);
            for (int j = 0; j < 32; j++) {
                float cosine = kind ? c[1][j] : half_round(c[0][j]);
                float sine = kind ? s[1][j] : half_round(s[0][j]);
                ck_assert(rope.cosine[p * 32 + j] == cosine && rope.sine[p * 32 + j] == sine);
                n_lost += !kind && sine != s[0][j];
            }
        }
    }
    ck_assert(n_lost > 3); /* small sines have no float16 */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("half_ref");
    TCase *tc = tcase_create("half_ref");
    tcase_add_loop_test(tc, every_tapped_value_is_a_float16, 0, 2);
    tcase_add_test(tc, sums_are_formed_in_the_order_of_the_device);
    tcase_add_loop_test(tc, prefix_equals_full_bit_for_bit, 0, 2);
    tcase_add_loop_test(tc, result_is_independent_of_capacity_and_threads, 0, 2);
    tcase_add_loop_test(tc, narrowed_copies_of_equal_models_are_equal, 0, 2);
    tcase_add_test(tc, heads_are_normed_with_one_rounding_and_rows_with_two);
    tcase_add_test(tc, fast_attention_rounds_scores_and_weights);
    tcase_add_test(tc, both_forms_have_the_bits_of_their_definitions_and_of_the_full_form);
    tcase_add_test(tc, rotation_table_is_float16_of_bfloat16_or_plain_float32);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
