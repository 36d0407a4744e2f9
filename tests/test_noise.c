/* SPDX-License-Identifier: MIT */
#include "base/random.h"
#include "kvref/sample.h"
#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static kvref_error err;

/* Outputs of torch's CPU generator for seed 42 (spec 04 section 5.1). */
static const uint32_t torch_42[12] = {0x5fe1dc66,
                                      0xcbea3db3,
                                      0xf362035c,
                                      0x2ef5950e,
                                      0xbb63f46a,
                                      0xc799d447,
                                      0x9941aebc,
                                      0x98cb2c14,
                                      0x27f0d666,
                                      0x72221879,
                                      0x27ef41d2,
                                      0x1997f4d6};

START_TEST(mt19937_gives_the_outputs_of_torch)
{
    kvref_mt19937 mt;
    kvref_mt19937_seed(&mt, 42);
    for (int i = 0; i < 155775; i++) {
        uint32_t word = kvref_mt19937_next(&mt);
        if (i < 12) ck_assert_uint_eq(word, torch_42[i]);
    }
    ck_assert_uint_eq(kvref_mt19937_next(&mt), 0x596da122);
    ck_assert_uint_eq(kvref_mt19937_next(&mt), 0x36716d6c);
}
END_TEST

START_TEST(mt19937_skips_to_where_it_would_have_stepped)
{
    static const int hop[] = {0, 1, 622, 1, 1, 623, 624, 625, 3000, 0};
    kvref_mt19937 skip, step;
    kvref_mt19937_seed(&skip, 7);
    kvref_mt19937_seed(&step, 7);
    for (size_t h = 0; h < sizeof hop / sizeof hop[0]; h++) {
        kvref_mt19937_skip(&skip, hop[h]);
        for (int i = 0; i < hop[h]; i++) kvref_mt19937_next(&step);
        ck_assert_uint_eq(kvref_mt19937_next(&skip), kvref_mt19937_next(&step));
    }
}
END_TEST

START_TEST(philox_gives_its_published_answers)
{
    static const struct {
        uint32_t counter[4], key[2], word[4];
    } row[] = {
        {{0}, {0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        uint32_t word[4];
        kvref_philox(word, row[i].counter, row[i].key);
        ck_assert_mem_eq(word, row[i].word, sizeof word);
    }
}
END_TEST

/* torch on a GPU: element i is subsequence i, counter = (offset / 4, subsequence). */
START_TEST(philox_gives_the_uniforms_of_torch_on_a_gpu)
{
    static const struct {
        uint32_t seed, offset;
        int n;
        double u[6];
    } row[] = {
        {0, 0, 6, {.3990465, .5166792, .0249304, .9400794, .9458541, .7967312}},
        {0, 4, 3, {.9722412, .7909693, .4690408}},
        {42, 0, 6, {.6129599, .0100588, .3984137, .0403084, .1562667, .4824731}},
        {42, 4, 3, {.9877186, .1288996, .5621042}},
    };
    for (size_t r = 0; r < sizeof row / sizeof row[0]; r++) {
        for (int i = 0; i < row[r].n; i++) {
            const uint32_t counter[4] = {row[r].offset / 4, 0, (uint32_t)i, 0};
            const uint32_t key[2] = {row[r].seed, 0};
            uint32_t word[4];
            kvref_philox(word, counter, key);
            double u = (double)((float)word[0] * 0x1p-32f + 0x1p-33f);
            ck_assert(fabs(u - row[r].u[i]) <= 5.1e-8);
        }
    }
}
END_TEST

static kvref_noise *mt19937(uint64_t seed)
{
    kvref_noise *noise;
    must(kvref_noise_mt19937(&noise, seed, &err), err);
    return noise;
}

static kvref_noise *counter(uint64_t seed)
{
    kvref_noise *noise;
    must(kvref_noise_counter(&noise, seed, &err), err);
    return noise;
}

/* n numbers, all of a set, at (sample, frame, set); closes the noise. */
static void fill_once(kvref_noise *noise, float *u, int n, int sample, int frame, int set)
{
    kvref_draw draw = {
        .sample = sample, .frame = frame, .set = set, .n_set = n, .index = NULL, .n = n};
    must(kvref_noise_fill(noise, u, &draw, &err), err);
    kvref_noise_close(&noise);
    ck_assert_ptr_null(noise);
}

START_TEST(mt19937_noise_gives_the_float32_uniforms_of_torch)
{
    static const double want[8] = {0.8822692632675171,
                                   0.9150039553642273,
                                   0.38286375999450684,
                                   0.9593056440353394,
                                   0.3904482126235962,
                                   0.600895345211029,
                                   0.2565724849700928,
                                   0.7936413288116455};
    float u[8];
    fill_once(mt19937(42), u, 8, 0, 0, 0);
    for (int i = 0; i < 8; i++) ck_assert(u[i] == (float)want[i]);
}
END_TEST

START_TEST(mt19937_noise_takes_the_low_32_bits_of_the_seed)
{
    float u[4], v[4], w[4];
    fill_once(mt19937(123456789012u), u, 4, 0, 0, 0);
    fill_once(mt19937(123456789012u % 4294967296u), v, 4, 0, 0, 0);
    ck_assert_mem_eq(u, v, sizeof u);
    fill_once(mt19937(UINT64_MAX), u, 4, 0, 0, 0);
    fill_once(mt19937(0xffffffffu), v, 4, 0, 0, 0);
    ck_assert_mem_eq(u, v, sizeof u);
    fill_once(mt19937(0xfffffffeu), w, 4, 0, 0, 0);
    ck_assert_mem_ne(u, w, sizeof u);
}
END_TEST

START_TEST(mt19937_noise_passes_over_the_whole_set)
{
    enum { SET = 3000 };
    static float all[2 * SET];
    static const int32_t index[] = {3, 4, 640, 2000};
    fill_once(mt19937(9), all, 2 * SET, 0, 0, 0);

    kvref_noise *noise = mt19937(9);
    kvref_draw draw = {.n_set = SET, .index = index, .n = 4};
    for (int set = 0; set < 2; set++) {
        float u[4];
        must(kvref_noise_fill(noise, u, &draw, &err), err);
        for (int i = 0; i < 4; i++) ck_assert(u[i] == all[set * SET + index[i]]);
    }
    kvref_noise_close(&noise);
}
END_TEST

START_TEST(every_source_gives_k_over_two_to_the_24)
{
    enum { SET = 20000 };
    static float u[SET];
    for (int kind = 0; kind < 2; kind++) {
        double sum = 0;
        fill_once(kind ? counter(5) : mt19937(5), u, SET, 0, 0, 0);
        for (int i = 0; i < SET; i++) {
            float k = u[i] * 0x1p24f;
            ck_assert(u[i] >= 0 && u[i] < 1 && k == floorf(k));
            sum += (double)u[i];
        }
        ck_assert(fabs(sum / SET - 0.5) <= 0.01);
    }
}
END_TEST

START_TEST(counter_noise_follows_its_written_formula)
{
    static const int32_t index[] = {0, 17, 4000};
    kvref_draw draw = {
        .sample = 3, .frame = 70, .set = 5, .n_set = 4096, .index = index, .n = 3};
    kvref_noise *noise = counter(0x0123456789abcdefu);
    float u[3];
    must(kvref_noise_fill(noise, u, &draw, &err), err);
    kvref_noise_close(&noise);
    for (int i = 0; i < 3; i++) {
        const uint32_t at[4] = {(uint32_t)index[i], 5, 70, 3},
                       key[2] = {0x89abcdef, 0x01234567};
        uint32_t word[4];
        kvref_philox(word, at, key);
        ck_assert(u[i] == (float)(word[0] >> 8) / 16777216.0f);
    }
}
END_TEST

START_TEST(counter_noise_depends_on_the_address_alone)
{
    float here[6], there[6], again[6];
    kvref_noise *noise = counter(1);
    kvref_draw draw = {.n_set = 6, .n = 6};
    must(kvref_noise_fill(noise, here, &draw, &err), err);
    int *part[] = {&draw.sample, &draw.frame, &draw.set};
    for (int i = 0; i < 3; i++) {
        *part[i] = 1;
        must(kvref_noise_fill(noise, there, &draw, &err), err);
        ck_assert_mem_ne(here, there, sizeof here);
        *part[i] = 0;
        must(kvref_noise_fill(noise, again, &draw, &err), err);
        ck_assert_mem_eq(here, again, sizeof here);
    }
    kvref_noise_close(&noise);
    fill_once(counter(2), there, 6, 0, 0, 0);
    ck_assert_mem_ne(here, there, sizeof here);
    fill_once(counter(1 | (uint64_t)1 << 32), there, 6, 0, 0, 0);
    ck_assert_mem_ne(here, there, sizeof here);
}
END_TEST

START_TEST(draws_that_make_no_sense_are_refused)
{
    static const int32_t twice[] = {1, 1}, falling[] = {2, 1}, outside[] = {0, 4},
                         below[] = {-1, 0};
    static const kvref_draw bad[] = {
        {.sample = -1, .n_set = 4, .n = 1},
        {.frame = -1, .n_set = 4, .n = 1},
        {.set = -1, .n_set = 4, .n = 1},
        {.n_set = 4, .n = 5},
        {.n_set = 4, .n = -1},
        {.n_set = 4, .index = twice, .n = 2},
        {.n_set = 4, .index = falling, .n = 2},
        {.n_set = 4, .index = outside, .n = 2},
        {.n_set = 4, .index = below, .n = 2},
        {.n_set = -1, .n = 0},
    };
    kvref_noise *noise = mt19937(0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        float u[8];
        must_fail(kvref_noise_fill(noise, u, &bad[i], &err), KVREF_E_ARG, err, "draw: ");
    }
    kvref_noise_close(&noise);
    kvref_noise_close(&noise);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("noise");
    TCase *tc = tcase_create("noise");
    tcase_add_test(tc, mt19937_gives_the_outputs_of_torch);
    tcase_add_test(tc, mt19937_skips_to_where_it_would_have_stepped);
    tcase_add_test(tc, philox_gives_its_published_answers);
    tcase_add_test(tc, philox_gives_the_uniforms_of_torch_on_a_gpu);
    tcase_add_test(tc, mt19937_noise_gives_the_float32_uniforms_of_torch);
    tcase_add_test(tc, mt19937_noise_takes_the_low_32_bits_of_the_seed);
    tcase_add_test(tc, mt19937_noise_passes_over_the_whole_set);
    tcase_add_test(tc, every_source_gives_k_over_two_to_the_24);
    tcase_add_test(tc, counter_noise_follows_its_written_formula);
    tcase_add_test(tc, counter_noise_depends_on_the_address_alone);
    tcase_add_test(tc, draws_that_make_no_sense_are_refused);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
