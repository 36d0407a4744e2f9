/* SPDX-License-Identifier: MIT */
/* Which random numbers a generation uses, and the repetition rule. */
#include "base/random.h"
#include "tests/fake.h"
#include "tests/support.h"

#include <string.h>

/* ---- random numbers ---- */

START_TEST(a_frame_consumes_the_numbers_of_all_its_sets)
{
    enum { PER_FRAME = 2 * FAKE_V + (FAKE_N - 1) * FAKE_K };
    static const int ends[] = {3, 5, 0};
    for (int n = 1; n <= 3; n++) {
        kvref_noise *noise;
        kvref_mt19937 mt;
        float u;
        fake_begin();
        fake_script(ends, 3);
        fake.opts.max_new_tokens = n;
        must(kvref_noise_mt19937(&noise, 77, &fake.err), fake.err);
        must(fake_generate_from(noise), fake.err);
        const kvref_draw next = {.n_set = 1, .n = 1};
        must(kvref_noise_fill(noise, &u, &next, &fake.err), fake.err);
        kvref_noise_close(&noise);
        kvref_mt19937_seed(&mt, 77);
        kvref_mt19937_skip(&mt, n * PER_FRAME);
        ck_assert(u == (float)(kvref_mt19937_next(&mt) & 0xffffffu) * 0x1p-24f);
        kvref_generated_clear(&fake.made);
    }
}
END_TEST

/* Index drawn from logits of draw->n candidates with the numbers at an address. */
static int
choice(uint64_t seed, const kvref_draw *draw, const float *logits, const kvref_sampling *s)
{
    float p[FAKE_V], u[FAKE_V];
    int32_t scratch[2 * FAKE_V];
    kvref_noise *noise = fake_counter(seed);
    must(kvref_sample_probs(p, logits, draw->n, s, scratch, &fake.err), fake.err);
    must(kvref_noise_fill(noise, u, draw, &fake.err), fake.err);
    kvref_noise_close(&noise);
    return kvref_sample_draw(p, u, draw->n);
}

static const float flat[FAKE_V];

START_TEST(every_set_is_drawn_at_its_own_address)
{
    fake_begin();
    fake.decoder.lead = 0;
    fake.opts.sampling = (kvref_sampling){1, 1, 30};
    fake.opts.max_new_tokens = 6;
    fake.opts.sample = 4;
    fake.opts.frame_base = 100;
    must(fake_generate(8), fake.err);
    for (int f = 0; f < fake.made.frames.n_frame; f++)
        for (int b = 1; b < FAKE_N; b++) {
            kvref_draw draw = {
                .sample = 4, .frame = 100 + f, .set = 1 + b, .n_set = FAKE_K, .n = FAKE_K};
            ck_assert_int_eq(fake.made.frames.value[f * FAKE_ROW + 1 + b],
                             choice(8, &draw, flat, &fake.opts.sampling));
        }
    int32_t id[FAKE_A];
    ck_assert_int_eq(kvref_config_candidates(&fake.config, id, FAKE_A), FAKE_A);
    kvref_draw draw = {.sample = 4, .frame = 100, .n_set = FAKE_V, .index = id, .n = FAKE_A};
    ck_assert_int_eq(fake_token(0), id[choice(8, &draw, flat, &fake.opts.sampling)]);
}
END_TEST

START_TEST(the_seed_reaches_every_draw)
{
    enum { F = 30 };
    int32_t first[F * FAKE_ROW];
    fake_begin();
    fake.decoder.lead = 0;
    fake.opts.sampling = (kvref_sampling){1, 1, 30};
    fake.opts.max_new_tokens = fake.opts.min_frames = F;
    must(fake_generate(1), fake.err);
    memcpy(first, fake.made.frames.value, sizeof first);
    must(fake_generate(1), fake.err);
    ck_assert_mem_eq(first, fake.made.frames.value, sizeof first);
    must(fake_generate(2), fake.err);
    for (int r = 0; r < FAKE_ROW; r++) {
        int differ = 0;
        for (int f = 0; f < F; f++)
            differ += first[f * FAKE_ROW + r] != fake.made.frames.value[f * FAKE_ROW + r];
        ck_assert_int_gt(differ, F / 2);
    }
}
END_TEST

/* ---- the repetition rule ---- */

/* The main token that frame f gets when its first choice is a repetition: drawn at set 1 from
 * the same logits (favourite ahead by the lead), temperature 1, top_p 0.9, the user's top_k. */
static int32_t fallback(uint64_t seed, int f, int favourite, int top_k)
{
    float logits[FAKE_A] = {0};
    int32_t id[FAKE_A];
    const kvref_sampling high = {1, 0.9f, top_k};
    const kvref_draw draw = {.frame = f, .set = 1, .n_set = FAKE_V, .index = id, .n = FAKE_A};
    kvref_config_candidates(&fake.config, id, FAKE_A);
    logits[favourite] = fake.decoder.lead;
    return id[choice(seed, &draw, logits, &high)];
}

static const uint64_t seeds[] = {1, 2, 3, 4, 5, 6, 7, 8};
enum { SEEDS = sizeof seeds / sizeof seeds[0] };

/* Candidate 9 favoured in decode frames `first` and first + distance, others in between. With
 * a lead of 2 the first choice is the favourite (temperature 0), the fallback mostly another.
 * Returns for how many seeds the second one was replaced by another. */
static int replaced_at(int first, int distance, int top_k)
{
    int line[32], f = first + distance, replaced = 0;
    for (int i = 0; i < 32; i++) line[i] = 10 + i % 20;
    line[first] = line[f] = 9;
    for (int i = 0; i < SEEDS; i++) {
        fake_begin();
        fake_script(line, 32);
        fake.decoder.lead = 2;
        fake.opts.sampling.top_k = top_k;
        fake.opts.max_new_tokens = f + 1;
        must(fake_generate(seeds[i]), fake.err);
        int32_t want = distance > 10 ? FAKE_BEGIN + 8 : fallback(seeds[i], f, 9, top_k);
        ck_assert_int_eq(fake_token(f), want);
        replaced += want != FAKE_BEGIN + 8;
    }
    return replaced;
}

START_TEST(a_repetition_within_ten_frames_is_drawn_again)
{
    static const int near[] = {1, 2, 9, 10};
    for (int i = 0; i < 4; i++)
        for (int first = 1; first <= 11; first++)
            ck_assert_int_gt(replaced_at(first, near[i], 30), 0);
}
END_TEST

START_TEST(a_repetition_at_distance_11_stays)
{
    for (int first = 1; first <= 11; first++) replaced_at(first, 11, 30);
}
END_TEST

START_TEST(the_fallback_uses_the_top_k_of_the_user)
{
    ck_assert_int_eq(replaced_at(1, 3, 1), 0);
    ck_assert_int_eq(replaced_at(1, 3, 0), 0);
    ck_assert_int_gt(replaced_at(1, 3, 4), 0);
}
END_TEST

/* Every first choice repeats, so every token from frame 2 on is a fallback, end included. */
START_TEST(the_fallback_is_drawn_from_unfiltered_logits)
{
    static int line[20];
    for (int f = 0; f < 20; f++) line[f] = 9;
    int other = 0;
    for (int i = 0; i < SEEDS; i++) {
        fake_begin();
        fake_script(line, 20);
        fake.decoder.lead = 3;
        fake.opts.sampling = (kvref_sampling){0.1f, 1e-6f, 30}; /* one candidate stays */
        fake.opts.max_new_tokens = 20;
        must(fake_generate(seeds[i]), fake.err);
        ck_assert_int_eq(fake_token(0), FAKE_BEGIN + 8);
        ck_assert_int_eq(fake_token(1), FAKE_BEGIN + 8); /* the prefill does not count */
        for (int f = 2; f < fake.made.frames.n_frame; f++) {
            /* The first fallback that is another token pushes 9 on; 9 leaves after ten. */
            int32_t want = fallback(seeds[i], f, 9, 30);
            int held = 0;
            for (int d = 1; d <= 10 && f - d >= 1; d++)
                held |= fake_token(f - d) == FAKE_BEGIN + 8;
            ck_assert_int_eq(fake_token(f), held ? want : FAKE_BEGIN + 8);
            other += fake_token(f) != FAKE_BEGIN + 8;
        }
    }
    ck_assert_int_gt(other, SEEDS);
}
END_TEST

START_TEST(a_token_of_0_999_may_repeat_for_ever)
{
    static int line[13];
    for (int f = 0; f < 13; f++) line[f] = 9;
    fake_begin();
    fake_script(line, 13);
    fake.decoder.lead = 10.4f; /* 0.999 of the mass: the fallback has one candidate */
    fake.opts.sampling.temperature = 0.8f;
    fake.opts.max_new_tokens = 13;
    must(fake_generate(1), fake.err);
    fake_expect(13, 12, KVREF_STOP_LENGTH);
    for (int f = 0; f < 13; f++) ck_assert_int_eq(fake_token(f), FAKE_BEGIN + 8);
}
END_TEST

/* Frame 2 repeats 9 and gets another token; frame 3 favours that one: a repetition. */
START_TEST(the_window_holds_the_replacement)
{
    int checked = 0;
    for (int i = 0; i < SEEDS; i++) {
        int line[4] = {1, 9, 9, 0};
        fake_begin();
        fake.decoder.lead = 2;
        line[3] = fallback(seeds[i], 2, 9, 30) - FAKE_BEGIN + 1;
        if (line[3] < 1 || line[3] == 9) continue;
        fake_script(line, 4);
        fake.opts.max_new_tokens = 4;
        must(fake_generate(seeds[i]), fake.err);
        ck_assert_int_eq(fake_token(2), FAKE_BEGIN + line[3] - 1);
        ck_assert_int_eq(fake_token(3), fallback(seeds[i], 3, line[3], 30));
        checked++;
    }
    ck_assert_int_gt(checked, SEEDS / 2);
}
END_TEST

/* Ten zeros fill the window at the start, in every generation anew. */
START_TEST(token_0_counts_as_repeated_at_the_start)
{
    static const int zero[3] = {0, 0, 0};
    int other = 0;
    for (int i = 0; i < SEEDS; i++) {
        fake_begin();
        fake_script(zero, 3);
        fake.decoder.lead = 2;
        fake.config.semantic_begin = 0;
        fake.config.semantic_end = FAKE_K - 1;
        fake.config.im_end = FAKE_V - 1;
        fake.opts.max_new_tokens = 2;
        must(fake_generate(seeds[i]), fake.err);
        ck_assert_int_eq(fake_token(0), 0);
        ck_assert_int_eq(fake_token(1), fallback(seeds[i], 1, 0, 30));
        other += fake_token(1) != 0;
    }
    ck_assert_int_gt(other, SEEDS / 2);
}
END_TEST

START_TEST(only_semantic_tokens_fall_back)
{
    static const int end[2] = {1, 0};
    for (int i = 0; i < SEEDS; i++) {
        fake_begin();
        fake_script(end, 2);
        fake.decoder.lead = 2;
        fake.config.im_end = 0; /* held by the window, yet not semantic */
        must(fake_generate(seeds[i]), fake.err);
        fake_expect(2, 1, KVREF_STOP_END);
    }
}
END_TEST

START_TEST(the_window_starts_anew_with_every_generation)
{
    static const int line[2] = {1, 9};
    fake_begin();
    fake_script(line, 2);
    fake.decoder.lead = 2;
    fake.opts.max_new_tokens = 2;
    for (int i = 0; i < SEEDS; i++) {
        must(fake_generate(seeds[i]), fake.err);
        ck_assert_int_eq(fake_token(1), FAKE_BEGIN + 8);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("generate_draws");
    TCase *tc = tcase_create("generate_draws");
    tcase_add_test(tc, a_frame_consumes_the_numbers_of_all_its_sets);
    tcase_add_test(tc, every_set_is_drawn_at_its_own_address);
    tcase_add_test(tc, the_seed_reaches_every_draw);
    tcase_add_test(tc, a_repetition_within_ten_frames_is_drawn_again);
    tcase_add_test(tc, a_repetition_at_distance_11_stays);
    tcase_add_test(tc, the_fallback_uses_the_top_k_of_the_user);
    tcase_add_test(tc, the_fallback_is_drawn_from_unfiltered_logits);
    tcase_add_test(tc, a_token_of_0_999_may_repeat_for_ever);
    tcase_add_test(tc, the_window_holds_the_replacement);
    tcase_add_test(tc, token_0_counts_as_repeated_at_the_start);
    tcase_add_test(tc, only_semantic_tokens_fall_back);
    tcase_add_test(tc, the_window_starts_anew_with_every_generation);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
