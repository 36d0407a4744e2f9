/* SPDX-License-Identifier: MIT */
/* The float16 emulation against the decoder in double, on the same float16 weights: at every
 * tap it must be off by roundings of 2^-11 that add up like a random walk, no more. */
#include "tests/golden.h"
#include "tests/narrowed.h"
#include "tests/support.h"
#include "tests/tape.h"
#include "tests/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int pieces[] = {5, 1, 1, 4, 1, 0}, prompt_then_steps[] = {20, 1, 0};

/* One model in float16, what is fed to it, and what both decoders make of that. */
typedef struct trial {
    kvref_config config;
    kvref_rope_table table;
    narrowed n;
    int32_t *frames;
    int n_frame;
    const int *piece;
    tape exact;
} trial;

static tape half_tape(const trial *t, const kvref_config *config)
{
    tape out = {0};
    kvref_error err;
    kvref_decoder *d;
    kvref_decoder_opts o = {
        .n_thread = 1, .rope_table = t->table, .tap = tape_tap(&out, KVREF_TAP_OPS)};
    must(ref_decoder_open(&d, config, &t->n.weights, &o, &err), err);
    tape_play(kvref_backend_ref(), d, config, t->frames, t->n_frame, t->piece);
    ref_decoder_close(&d);
    return out;
}

static void open_trial(trial *t, const kvref_weights *weights)
{
    narrowed_open(&t->n, &t->config, weights);
    ref64_opts o = {.capacity = t->n_frame,
                    .rope_table = t->table,
                    .half_table = true,
                    .level = KVREF_TAP_OPS,
                    .fn = tape_listen,
                    .user = &t->exact};
    ref64 *r = ref64_open(&t->config, &t->n.weights, &o);
    tape_play64(r, &t->config, t->frames, t->n_frame, t->piece);
    ref64_close(r);
}

static void close_trial(trial *t)
{
    tape_clear(&t->exact);
    narrowed_close(&t->n);
    free(t->frames);
}

static void open_world_trial(trial *t, int i)
{
    world w;
    *t = (trial){.config = i ? world_odd() : world_tiny(), .n_frame = 24, .piece = pieces};
    world_open(&w, &t->config, KVREF_BF16, 1);
    t->frames = world_frames(&t->config, t->n_frame, 1);
    open_trial(t, &w.weights);
    world_close(&w);
}

/* Prompt and frames of a golden case, fed as they are. */
static void open_golden_trial(trial *t, const char *name, int n_most)
{
    char json[32], tensors[32];
    golden_case g;
    (void)snprintf(json, sizeof json, "golden/lm/%s.json", name);
    (void)snprintf(tensors, sizeof tensors, "golden/lm/%s.safetensors", name);
    golden_open(&g, name, support_source(json), support_source(tensors));
    kvref_model *model = golden_model(&g.config, KVREF_BF16);
    kvref_frames prompt = golden_frames(g.ref, "prompt"), said = golden_frames(g.ref, "frames");
    int n = prompt.n_frame + said.n_frame;
    *t = (trial){.config = g.config, .table = g.rope_table, .piece = prompt_then_steps};
    t->frames = malloc((size_t)n * (size_t)prompt.n_row * sizeof *t->frames);
    ck_assert_ptr_nonnull(t->frames);
    size_t n_prompt = (size_t)prompt.n_frame * (size_t)prompt.n_row;
    memcpy(t->frames, prompt.value, n_prompt * sizeof *t->frames);
    memcpy(t->frames + n_prompt,
           said.value,
           (size_t)said.n_frame * (size_t)said.n_row * sizeof *t->frames);
    t->n_frame = n < n_most ? n : n_most;
    open_trial(t, kvref_model_weights(model));
    kvref_frames_clear(&prompt);
    kvref_frames_clear(&said);
    kvref_model_close(&model);
    golden_close(&g);
}

static void check_trial(const char *what, trial *t)
{
    tape half = half_tape(t, &t->config);
    double used =
        tape_judge(what, &half, &t->exact, tape_walk, &(tape_walk_of){0x1p-11, &t->config});
    /* Not the float32 reference, which passes this (test_ref64). */
    double single =
        tape_judge(what, &half, &t->exact, tape_walk, &(tape_walk_of){0x1p-24, &t->config});
    printf("%s: %.2f of the limit; %.3g of that of float32\n", what, used, single);
    ck_assert_msg(used <= 1, "%s: %g of the limit", what, used);
    ck_assert(single > 100);
    tape_clear(&half);
}

START_TEST(emulation_is_within_rounding_of_double_on_small_worlds)
{
    trial t;
    open_world_trial(&t, _i);
    check_trial(_i ? "odd" : "tiny", &t);
    close_trial(&t);
}
END_TEST

START_TEST(emulation_is_within_rounding_of_double_on_golden_shapes)
{
    static const char *const name[] = {"A", "B", "D"};
    trial t;
    open_golden_trial(&t, name[_i], 36);
    check_trial(name[_i], &t);
    close_trial(&t);
}
END_TEST

/* The emulation with all of its errors stretched. */
static double stretched(const tape *plain, const tape *exact, double by)
{
    tape other = {0};
    for (int i = 0; i < exact->n_track; i++) {
        const tape_track *e = &exact->track[i], *p = &plain->track[i];
        double *x = malloc(e->n * sizeof *x);
        ck_assert(x && strcmp(p->name, e->name) == 0 && p->n == e->n);
        for (size_t j = 0; j < e->n; j++) x[j] = e->x[j] + by * (p->x[j] - e->x[j]);
        tape_listen(&other, &(ref64_data){e->name, e->layer, 0, 1, 0, (int)e->n, x});
        free(x);
    }
    for (int i = 0; i < exact->n_track; i++) other.track[i].width = exact->track[i].width;
    double used = tape_judge("T2", &other, exact, tape_twice, &(tape_twice_of){plain});
    tape_clear(&other);
    return used;
}

START_TEST(rule_t2_allows_twice_the_error_of_the_emulation_and_one_rounding)
{
    trial t;
    open_world_trial(&t, 1);
    tape plain = half_tape(&t, &t.config);
    ck_assert(stretched(&plain, &t.exact, 0) == 0);
    ck_assert(stretched(&plain, &t.exact, 2) <= 1);
    ck_assert(!(stretched(&plain, &t.exact, 4) <= 1));
    ck_assert(isnan(stretched(&plain, &t.exact, (double)NAN)));
    tape_clear(&plain);
    close_trial(&t);
}
END_TEST

/* And what neither rule may let through, however coarse float16 is. */
static const char *spoil(kvref_config *c, int kind)
{
    switch (kind) {
    case 0:
        c->slow.qk_norm = false;
        return "no norm of heads";
    case 1:
        c->scale_codebook_embeddings = !c->scale_codebook_embeddings;
        return "scale of embeddings";
    case 2:
        c->norm_fastlayer_input = !c->norm_fastlayer_input;
        return "hidden state";
    case 3:
        c->rope_base *= 1.1f;
        return "rotation base";
    case 4:
        c->norm_eps = 1e-2f;
        return "epsilon";
    default:
        return NULL;
    }
}

START_TEST(an_emulation_with_one_thing_wrong_breaks_both_rules)
{
    trial t;
    open_world_trial(&t, _i);
    tape plain = half_tape(&t, &t.config);
    tape_walk_of walk = {0x1p-11, &t.config};
    for (int kind = 0;; kind++) {
        kvref_config wrong = t.config;
        const char *what = spoil(&wrong, kind);
        if (!what) break;
        tape other = half_tape(&t, &wrong);
        double used = tape_judge(what, &other, &t.exact, tape_walk, &walk);
        double twice = tape_judge(what, &other, &t.exact, tape_twice, &(tape_twice_of){&plain});
        printf("%s: %.3g of the limit, %.3g by rule T2\n", what, used, twice);
        ck_assert_msg(!(used <= 1) && !(twice <= 1), "%s: %g, %g", what, used, twice);
        tape_clear(&other);
    }
    tape_clear(&plain);
    close_trial(&t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("half_f64");
    TCase *tc = tcase_create("half_f64");
    tcase_add_loop_test(tc, emulation_is_within_rounding_of_double_on_small_worlds, 0, 2);
    tcase_add_loop_test(tc, emulation_is_within_rounding_of_double_on_golden_shapes, 0, 3);
    tcase_add_test(tc, rule_t2_allows_twice_the_error_of_the_emulation_and_one_rounding);
    tcase_add_loop_test(tc, an_emulation_with_one_thing_wrong_breaks_both_rules, 0, 2);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
