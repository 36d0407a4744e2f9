/* SPDX-License-Identifier: MIT */
/* The decoder in double (ref64) and the float32 reference: they share no code, so that they
 * agree to float32's rounding vouches for both. */
#include "tests/support.h"
#include "tests/tape.h"
#include "tests/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 24 };
static const int pieces[] = {5, 1, 1, 4, 1, 0}, whole[] = {N, 0};

/* N frames; the first has the last of all ids. */
static int32_t *make_frames(const kvref_config *c)
{
    int32_t *frames = world_frames(c, N, 1);
    frames[0] = c->semantic_end;
    frames[1] = c->n_code - 1;
    return frames;
}

static tape double_tape(const kvref_config *c, const world *w, ref64_opts o, const int *piece)
{
    tape t = {0};
    int32_t *frames = make_frames(&w->config);
    o.capacity = N;
    o.fn = tape_listen;
    o.user = &t;
    ref64 *r = ref64_open(c, &w->weights, &o);
    tape_play64(r, c, frames, N, piece);
    ref64_close(r);
    free(frames);
    return t;
}

static tape single_tape(const world *w, kvref_rope_table table)
{
    tape t = {0};
    int32_t *frames = make_frames(&w->config);
    kvref_decoder *d = world_decoder(
        w, (kvref_decoder_opts){.rope_table = table, .tap = tape_tap(&t, KVREF_TAP_OPS)});
    tape_play(kvref_backend_ref(), d, &w->config, frames, N, pieces);
    ref_decoder_close(&d);
    free(frames);
    return t;
}

static double judge(const char *what, const tape *single, const tape *exact, const world *w)
{
    return tape_judge(what, single, exact, tape_walk, &(tape_walk_of){0x1p-24, &w->config});
}

START_TEST(float32_reference_is_within_its_rounding_of_double)
{
    kvref_config config = _i % 2 ? world_odd() : world_tiny();
    kvref_rope_table table = _i < 2 ? KVREF_ROPE_BF16 : KVREF_ROPE_F32;
    world w;
    world_open(&w, &config, KVREF_F32, 1);
    tape single = single_tape(&w, table);
    tape exact =
        double_tape(&config, &w, (ref64_opts){.rope_table = table, .level = 4}, pieces);
    double used = judge(_i % 2 ? "odd " : "tiny", &single, &exact, &w);
    printf("%.2f of the limit\n", used);
    ck_assert(used <= 1);
    ck_assert_int_eq(exact.n_track, 7 + 10 * (config.slow.n_layer + config.fast.n_layer));
    tape_clear(&single);
    tape_clear(&exact);
    world_close(&w);
}
END_TEST

/* What the limit must not let through: each of these is a decoder with one small thing wrong.
 */
static const char *spoil(kvref_config *c, ref64_opts *o, int kind)
{
    switch (kind) {
    case 0:
        c->norm_eps *= 1.5f;
        return "epsilon";
    case 1:
        c->slow.qk_norm = false;
        return "no norm of heads";
    case 2:
        c->scale_codebook_embeddings = !c->scale_codebook_embeddings;
        return "scale of embeddings";
    case 3:
        c->norm_fastlayer_input = !c->norm_fastlayer_input;
        return "hidden state";
    case 4:
        c->rope_base *= 1.0001f;
        return "rotation base";
    case 5:
        o->rope_table = KVREF_ROPE_F32;
        return "rotation table";
    case 6:
        c->semantic_end--;
        return "last semantic id";
    default:
        return NULL;
    }
}

START_TEST(a_decoder_with_one_thing_wrong_is_not_within_rounding)
{
    for (int i = 0; i < 2; i++) {
        kvref_config config = i ? world_odd() : world_tiny();
        world w;
        world_open(&w, &config, KVREF_F32, 0);
        tape single = single_tape(&w, KVREF_ROPE_BF16);
        for (int kind = 0;; kind++) {
            kvref_config wrong = config;
            ref64_opts o = {.level = KVREF_TAP_OPS};
            const char *what = spoil(&wrong, &o, kind);
            if (!what) break;
            tape exact = double_tape(&wrong, &w, o, pieces);
            double used = judge(what, &single, &exact, &w);
            printf("%s: %.3g of the limit\n", what, used);
            ck_assert_msg(!(used <= 1), "%s: %g", what, used);
            tape_clear(&exact);
        }
        tape_clear(&single);
        world_close(&w);
    }
}
END_TEST

/* Converting the table to float16 moves only sines below 2^-14 or so: it is seen in bits. */
START_TEST(table_in_float16_is_another_one)
{
    kvref_config config = world_tiny();
    world w;
    world_open(&w, &config, KVREF_F32, 0);
    ref64_opts o = {.level = KVREF_TAP_LAYERS};
    tape plain = double_tape(&config, &w, o, whole);
    o.half_table = true;
    tape half = double_tape(&config, &w, o, whole);
    ck_assert(tape_differ(&half, &plain) > 0);
    o.rope_table = KVREF_ROPE_F32; /* which is never converted */
    tape_clear(&half);
    tape_clear(&plain);
    half = double_tape(&config, &w, o, whole);
    o.half_table = false;
    plain = double_tape(&config, &w, o, whole);
    ck_assert_uint_eq(tape_differ(&half, &plain), 0);
    tape_clear(&half);
    tape_clear(&plain);
    world_close(&w);
}
END_TEST

/* In double too: each row by itself but in attention, and there it sees the cache. */
START_TEST(calls_may_be_cut_anywhere)
{
    kvref_config config = world_odd();
    world w;
    world_open(&w, &config, KVREF_F32, 0);
    tape once = {0}, cut = {0};
    int32_t *frames = make_frames(&config);
    ref64_opts o = {.capacity = N, .level = KVREF_TAP_LAYERS, .fn = tape_listen};
    for (int i = 0; i < 2; i++) {
        o.user = i ? &cut : &once;
        ref64 *r = ref64_open(&config, &w.weights, &o);
        for (int t = 0; t < N; t += i ? 4 : N) ref64_slow(r, frames + 6 * t, i ? 4 : N);
        ref64_close(r);
    }
    for (int i = 0; i < once.n_track; i++)
        if (once.track[i].layer >= 0) {
            tape_error e = tape_compare(&cut.track[i], &once.track[i]);
            ck_assert_str_eq(cut.track[i].name, once.track[i].name);
            ck_assert(e.max == 0);
        }
    tape_clear(&once);
    tape_clear(&cut);
    free(frames);
    world_close(&w);
}
END_TEST

/* As each_tap_level_reports_what_it_promises of test_taps. */
START_TEST(levels_are_those_of_the_decoder)
{
    kvref_config config = world_tiny();
    world w;
    world_open(&w, &config, KVREF_F32, 0);
    for (int level = 0; level <= 4; level++) {
        tape single = {0};
        int32_t *frames = make_frames(&config);
        kvref_decoder *d = world_decoder(
            &w, (kvref_decoder_opts){.tap = tape_tap(&single, (kvref_tap_level)level)});
        tape_play(kvref_backend_ref(), d, &config, frames, N, whole);
        tape exact =
            double_tape(&config, &w, (ref64_opts){.level = (kvref_tap_level)level}, whole);
        ck_assert_int_eq(single.n_track, exact.n_track);
        for (int i = 0; i < single.n_track; i++) { /* in the same order */
            ck_assert_str_eq(single.track[i].name, exact.track[i].name);
            ck_assert_int_eq(single.track[i].layer, exact.track[i].layer);
            ck_assert_uint_eq(single.track[i].n, exact.track[i].n);
        }
        ref_decoder_close(&d);
        tape_clear(&single);
        tape_clear(&exact);
        free(frames);
    }
    world_close(&w);
}
END_TEST

START_TEST(nan_on_either_side_is_no_agreement)
{
    double good[] = {1, 2, 3}, bad[] = {1, (double)NAN, 3};
    tape_track a = {"slow.out", 0, 3, 3, good}, b = {"slow.out", 0, 3, 3, bad};
    ck_assert(tape_compare(&a, &a).max == 0 && tape_compare(&a, &a).rms == 0);
    ck_assert(isnan(tape_compare(&b, &a).max) && isnan(tape_compare(&b, &a).rms));
    ck_assert(isnan(tape_compare(&a, &b).max) && isnan(tape_compare(&a, &b).rms));
    kvref_config config = world_tiny();
    tape x = {&b, 1}, ref = {&a, 1};
    ck_assert(isnan(tape_judge("nan", &x, &ref, tape_walk, &(tape_walk_of){1, &config})));
    ck_assert(tape_judge("nan", &ref, &ref, tape_walk, &(tape_walk_of){1, &config}) == 0);
    ck_assert_uint_eq(tape_differ(&x, &ref), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ref64");
    TCase *tc = tcase_create("ref64");
    tcase_add_loop_test(tc, float32_reference_is_within_its_rounding_of_double, 0, 4);
    tcase_add_test(tc, a_decoder_with_one_thing_wrong_is_not_within_rounding);
    tcase_add_test(tc, table_in_float16_is_another_one);
    tcase_add_test(tc, calls_may_be_cut_anywhere);
    tcase_add_test(tc, levels_are_those_of_the_decoder);
    tcase_add_test(tc, nan_on_either_side_is_no_agreement);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
