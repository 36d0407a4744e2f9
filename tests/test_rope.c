/* SPDX-License-Identifier: MIT */
#include "tests/support.h"
#include "tests/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
rope_open(ref_rope *rope, int d_head, float base, int capacity, kvref_rope_table table)
{
    size_t half = (size_t)d_head / 2;
    *rope = (ref_rope){.freq = calloc(half, 4),
                       .cosine = calloc(half * (size_t)capacity, 4),
                       .sine = calloc(half * (size_t)capacity, 4)};
    ck_assert(rope->freq && rope->cosine && rope->sine);
    ref_rope_init(rope, d_head, base, table);
}

static void rope_close(ref_rope *rope)
{
    free(rope->freq);
    free(rope->cosine);
    free(rope->sine);
}

/* Spec 02 section 4 and 06 section 2: bits of f_j. */
static const uint32_t freq_1e6_128[64] = {
    0x3f800000, 0x3f4e4bad, 0x3f263de0, 0x3f05f6ef, 0x3ed7e89b, 0x3eadfcff, 0x3e8c3504,
    0x3e61f835, 0x3e361887, 0x3e12bd91, 0x3dec7fd6, 0x3dbe94c6, 0x3d99940d, 0x3d778513,
    0x3d47763f, 0x3d20bc1d, 0x3d0186e3, 0x3cd0c1a8, 0x3ca8398b, 0x3c879008, 0x3c5a7bf2,
    0x3c301052, 0x3c0de12d, 0x3be4aa46, 0x3bb8449c, 0x3b947dae, 0x3b6f520e, 0x3b40dac5,
    0x3b1b690d, 0x3afa78f0, 0x3ac9d75c, 0x3aa2a6f7, 0x3a83126f, 0x3a533f28, 0x3a2a3b44,
    0x3a092e02, 0x39dd1725, 0x39b229fb, 0x398f9272, 0x39676492, 0x393a7753, 0x39164324,
    0x38f22ce2, 0x38c327b5, 0x389d43a4, 0x387d75d4, 0x384c3fbe, 0x382497ab, 0x3804a2b2,
    0x37d5c441, 0x37ac431d, 0x378ad0ed, 0x375fba4f, 0x37344a0e, 0x371148e3, 0x36ea2732,
    0x36bcb0c1, 0x36980e02, 0x36751070, 0x36457bab, 0x361f23e4, 0x36003dec, 0x35ceaf79,
    0x35a68e4c};

static const uint32_t freq_1e4_64[32] = {
    0x3f800000, 0x3f3ff911, 0x3f0ff59a, 0x3ed7e89b, 0x3ea1e89b, 0x3e72d423, 0x3e361887,
    0x3e088d77, 0x3dcccccd, 0x3d99940d, 0x3d6655c2, 0x3d2cba15, 0x3d0186e3, 0x3cc2434f,
    0x3c91ad39, 0x3c5a7bf2, 0x3c23d70a, 0x3bf5b9b0, 0x3bb8449c, 0x3b8a2e77, 0x3b4f3e38,
    0x3b1b690d, 0x3ae91528, 0x3aaec98e, 0x3a83126f, 0x3a44948c, 0x3a136a16, 0x39dd1725,
    0x39a5cb60, 0x3978a815, 0x393a7753, 0x390bd472};

START_TEST(frequencies_have_upstreams_bits)
{
    ref_rope rope;
    rope_open(&rope, 128, 1e6f, 1, KVREF_ROPE_BF16);
    for (int j = 0; j < 64; j++)
        ck_assert_msg(kvref_f32_bits(rope.freq[j]) == freq_1e6_128[j], "j %d", j);
    rope_close(&rope);
    rope_open(&rope, 64, 1e4f, 1, KVREF_ROPE_BF16);
    for (int j = 0; j < 32; j++)
        ck_assert_msg(kvref_f32_bits(rope.freq[j]) == freq_1e4_64[j], "j %d", j);
    rope_close(&rope);
}
END_TEST

typedef struct sample {
    int p, j;
    double cosine, sine;
} sample;

static void check_samples(const ref_rope *rope, const sample *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t at = (size_t)(s[i].p * rope->d_head / 2 + s[i].j);
        ck_assert_msg((double)rope->cosine[at] == s[i].cosine &&
                          (double)rope->sine[at] == s[i].sine,
                      "p %d j %d: %.10g %.10g",
                      s[i].p,
                      s[i].j,
                      (double)rope->cosine[at],
                      (double)rope->sine[at]);
    }
}

START_TEST(table_has_upstreams_values_at_every_sample)
{
    static const sample wide[] = {{0, 0, 1, 0},
                                  {0, 63, 1, 0},
                                  {1, 0, 0.5390625, 0.83984375},
                                  {1, 1, 0.69140625, 0.72265625},
                                  {1, 5, 0.94140625, 0.333984375},
                                  {1, 63, 1, 1.2442469596862793e-06},
                                  {7, 0, 0.75390625, 0.65625},
                                  {7, 1, 0.80078125, -0.59765625},
                                  {7, 5, -0.72265625, 0.69140625},
                                  {7, 63, 1, 8.702278137207031e-06},
                                  {599, 0, -0.50390625, 0.86328125},
                                  {599, 1, 0.44921875, -0.89453125},
                                  {599, 5, -0.796875, 0.60546875},
                                  {599, 63, 1, 0.000743865966796875},
                                  {64, 0, 0.392578125, 0.921875},
                                  {8191, 1, -0.984375, -0.1669921875},
                                  {30000, 4, -0.95703125, 0.29296875},
                                  {30000, 6, -1, 0.005035400390625},
                                  {32767, 1, -1, 0.054931640625},
                                  {32767, 6, 0.828125, 0.55859375},
                                  {32767, 10, 0.1728515625, 0.984375}};
    static const sample narrow[] = {{1, 0, 0.5390625, 0.83984375},
                                    {1, 1, 0.73046875, 0.6796875},
                                    {1, 5, 0.97265625, 0.2353515625},
                                    {1, 31, 1, 0.000133514404296875},
                                    {7, 1, 0.51171875, -0.859375},
                                    {7, 5, -0.0888671875, 0.99609375},
                                    {7, 31, 1, 0.000934600830078125},
                                    {599, 1, -1, 0.06103515625},
                                    {599, 5, -0.78125, -0.625},
                                    {599, 31, 0.99609375, 0.07958984375}};
    ref_rope rope;
    rope_open(&rope, 128, 1e6f, 32768, KVREF_ROPE_BF16);
    ref_rope_reach(&rope, 32768);
    check_samples(&rope, wide, sizeof wide / sizeof *wide);
    rope_close(&rope);
    rope_open(&rope, 64, 1e4f, 600, KVREF_ROPE_BF16);
    ref_rope_reach(&rope, 600);
    check_samples(&rope, narrow, sizeof narrow / sizeof *narrow);
    rope_close(&rope);
}
END_TEST

START_TEST(rows_are_filled_only_as_far_as_asked)
{
    ref_rope some, all;
    rope_open(&some, 16, 1e6f, 40, KVREF_ROPE_BF16);
    rope_open(&all, 16, 1e6f, 40, KVREF_ROPE_BF16);
    for (int i = 0; i < 40 * 8; i++) some.cosine[i] = NAN;
    ref_rope_reach(&some, 7);
    ref_rope_reach(&some, 3);
    ref_rope_reach(&some, 11);
    ref_rope_reach(&all, 40);
    ck_assert_int_eq(some.n_row, 11);
    ck_assert_uint_eq(world_differ(some.cosine, all.cosine, 11 * 8), 0);
    ck_assert_uint_eq(world_differ(some.sine, all.sine, 11 * 8), 0);
    for (int i = 11 * 8; i < 40 * 8; i++) ck_assert(isnan(some.cosine[i]));
    rope_close(&some);
    rope_close(&all);
}
END_TEST

/* Against the angle in double; half-split pairs would be far off. */
START_TEST(neighbouring_elements_turn_together)
{
    enum { E = 10, HEAD = 3, T = 4, FIRST = 5 };
    ref_rope rope;
    rope_open(&rope, E, 1e4f, 16, KVREF_ROPE_F32);
    ref_rope_reach(&rope, 16);
    float *x = world_floats(T * HEAD * E + 1, 1, 2), *y = world_floats(T * HEAD * E + 1, 1, 2);
    ref_rope_apply(&rope, y, T, HEAD, FIRST);
    for (int t = 0; t < T; t++)
        for (int h = 0; h < HEAD; h++)
            for (int j = 0; j < E / 2; j++) {
                double angle = (FIRST + t) * pow(1e4, -2.0 * j / E);
                const float *a = x + (t * HEAD + h) * E + 2 * j,
                            *b = y + (t * HEAD + h) * E + 2 * j;
                double re = (double)a[0] * cos(angle) - (double)a[1] * sin(angle);
                double im = (double)a[1] * cos(angle) + (double)a[0] * sin(angle);
                ck_assert(fabs((double)b[0] - re) <= 4e-6 && fabs((double)b[1] - im) <= 4e-6);
            }
    ck_assert_uint_eq(world_differ(x + T * HEAD * E, y + T * HEAD * E, 1), 0);
    rope_close(&rope);
    free(x);
    free(y);
}
END_TEST

START_TEST(table_kinds_agree_at_0_and_part_by_a_bf16_rounding_at_30000)
{
    float x[2][128], y[2][128];
    for (int kind = 0; kind < 2; kind++) {
        ref_rope rope;
        rope_open(&rope, 128, 1e6f, 30001, kind ? KVREF_ROPE_F32 : KVREF_ROPE_BF16);
        ref_rope_reach(&rope, 30001);
        for (int i = 0; i < 128; i++) x[kind][i] = y[kind][i] = 1.0f;
        ref_rope_apply(&rope, x[kind], 1, 1, 0);
        ref_rope_apply(&rope, y[kind], 1, 1, 30000);
        rope_close(&rope);
    }
    ck_assert_uint_eq(world_differ(x[0], x[1], 128), 0);
    double worst = 0;
    for (int i = 0; i < 128; i++) {
        double gap = fabs((double)y[0][i] - (double)y[1][i]);
        if (!(gap <= worst)) worst = gap;
    }
    printf("largest gap at 30000: %.5f\n", worst);
    ck_assert(worst >= 1e-3 && worst <= 2 * 0x1p-8);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rope");
    TCase *tc = tcase_create("rope");
    tcase_add_test(tc, frequencies_have_upstreams_bits);
    tcase_add_test(tc, table_has_upstreams_values_at_every_sample);
    tcase_add_test(tc, rows_are_filled_only_as_far_as_asked);
    tcase_add_test(tc, neighbouring_elements_turn_together);
    tcase_add_test(tc, table_kinds_agree_at_0_and_part_by_a_bf16_rounding_at_30000);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
