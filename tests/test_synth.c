/* SPDX-License-Identifier: MIT */
#include "kvref/half.h"
#include "kvref/synth.h"
#include "tests/support.h"

START_TEST(formula_gives_the_documented_numbers)
{
    static const uint32_t mix[4] = {0xef35790f, 0x6a858e8e, 0x0c604b13, 0x028e0da7};
    static const struct {
        const char *name;
        int64_t dim[2];
        int n_dim, n;
        float x[6];
    } row[] = {{"embeddings.weight",
                {320, 24},
                2,
                6,
                {0.8671875f, -0.171875f, -0.90625f, -0.984375f, -0.4296875f, -0.46875f}},
               {"layers.0.attention_norm.weight",
                {24},
                1,
                4,
                {0.9609375f, 0.9609375f, 1.03125f, 1.1171875f}},
               {"layers.0.attention.wqkv.weight",
                {64, 24},
                2,
                4,
                {-0.025390625f, -0.095703125f, -0.158203125f, -0.138671875f}},
               {"decoder.model.6.conv.parametrizations.weight.original0",
                {1, 1},
                2,
                1,
                {0.0595703125f}}};
    ck_assert_uint_eq(kvref_synth_fnv("prompt"), 0xdfe6493b);
    ck_assert_uint_eq(kvref_synth_fnv("codes"), 0xcfcdd885);
    for (uint32_t i = 0; i < 4; i++)
        ck_assert_uint_eq(kvref_synth_mix(kvref_synth_fnv("embeddings.weight"), i), mix[i]);
    for (size_t r = 0; r < sizeof row / sizeof row[0]; r++) {
        float x[6];
        kvref_synth_fill(x, row[r].name, row[r].dim, row[r].n_dim, 0, (size_t)row[r].n);
        for (int i = 0; i < row[r].n; i++)
            ck_assert_msg(x[i] == row[r].x[i], "%s [%d]", row[r].name, i);
    }
}
END_TEST

/* Value of element i by the appendix: v of `bits` bits times scale, on a base. */
static float by_rule(const char *name, uint32_t i, bool five, float base, float scale)
{
    uint32_t x = kvref_synth_mix(kvref_synth_fnv(name), i);
    float v = five ? ((float)(x >> 27) - 16) / 16 : ((float)(x >> 24) - 128) / 128;
    return base + v * scale;
}

START_TEST(each_kind_of_name_has_its_rule)
{
    static const struct {
        const char *name;
        bool five;
        float base, scale;
    } row[] = {
        {"quantizer.alpha", true, 1, 1 / 8.0f},
        {"conv.weight_g", true, 1, 1 / 8.0f},
        {"conv.parametrizations.weight.original0", true, 1, 1 / 8.0f},
        {"decoder.model.6.alpha", true, 1 / 16.0f, 1 / 128.0f},
        {"layers.1.attention.q_norm.weight", true, 1, 1 / 8.0f},
        {"fast_norm.weight", true, 1, 1 / 8.0f},
        {"layers.0.attention_norm.bias", false, 0, 1 / 8.0f},
        {"upsample.0.1.gamma", false, 0, 1 / 4.0f},
        {"codebook_embeddings.weight", false, 0, 1},
        {"quantizer.codebook.weight", false, 0, 1},
        {"layers.0.feed_forward.w1.weight", false, 0, 1 / 8.0f}, /* rows of 100: e 6 */
        {"conv.parametrizations.weight.original1", false, 0, 1 / 8.0f},
    };
    static const int64_t dim[3] = {3, 50, 2};
    for (size_t r = 0; r < sizeof row / sizeof row[0]; r++) {
        float x[7];
        kvref_synth_fill(x, row[r].name, dim, 3, 1000, 7);
        for (uint32_t i = 0; i < 7; i++)
            ck_assert_msg(
                x[i] == by_rule(row[r].name, 1000 + i, row[r].five, row[r].base, row[r].scale),
                "%s [%u]",
                row[r].name,
                1000 + i);
    }
}
END_TEST

START_TEST(scale_is_the_power_of_two_below_the_root_of_the_row)
{
    static const struct {
        int64_t row;
        float scale;
    } row[] = {{1, 1},
               {3, 1},
               {4, 0.5f},
               {8, 0.5f},
               {15, 0.5f},
               {16, 0.25f},
               {2560, 1 / 32.0f},
               {9728, 1 / 64.0f}};
    for (size_t r = 0; r < sizeof row / sizeof row[0]; r++) {
        float x;
        kvref_synth_fill(&x, "a.weight", (const int64_t[2]){7, row[r].row}, 2, 5, 1);
        ck_assert(x == by_rule("a.weight", 5, false, 0, row[r].scale));
    }
}
END_TEST

START_TEST(every_value_is_exact_in_every_dtype)
{
    static const char *const name[] = {
        "a.weight", "norm.weight", "b.bias", "decoder.model.6.alpha"};
    static const int64_t dim[2] = {1, 9728};
    for (int k = 0; k < 4; k++) {
        float x[4096];
        kvref_synth_fill(x, name[k], dim, 2, 0, 4096);
        for (int i = 0; i < 4096; i++) {
            ck_assert(kvref_bf16_f32(kvref_f32_bf16(x[i])) == x[i]);
            ck_assert(kvref_f16_f32(kvref_f32_f16(x[i])) == x[i]);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("synth");
    TCase *tc = tcase_create("synth");
    tcase_add_test(tc, formula_gives_the_documented_numbers);
    tcase_add_test(tc, each_kind_of_name_has_its_rule);
    tcase_add_test(tc, scale_is_the_power_of_two_below_the_root_of_the_row);
    tcase_add_test(tc, every_value_is_exact_in_every_dtype);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
