/* SPDX-License-Identifier: MIT */
/* The float32 decoder against upstream's numbers (A, B, L), the oracle's (D), and all runs of
 * golden-lm.json. Case C, which is large, is test_golden_c. */
#include "kvref/compare.h"
#include "kvref/limits.h"
#include "kvref/synth.h"
#include "tests/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_case(const char *name, kvref_dtype dtype, const kvref_decoder_opts *opts)
{
    char json[32], tensors[32];
    golden_case g;
    snprintf(json, sizeof json, "golden/lm/%s.json", name);
    snprintf(tensors, sizeof tensors, "golden/lm/%s.safetensors", name);
    golden_open(&g, name, support_source(json), support_source(tensors));
    kvref_model *model = golden_model(&g.config, dtype);
    golden_check(&g, kvref_backend_ref(), model, opts);
    kvref_model_close(&model);
    golden_close(&g);
}

static const kvref_decoder_opts plain = {.n_thread = 1};

START_TEST(case_a_like_s2_pro_agrees_at_every_tap)
{
    check_case("A", KVREF_BF16, &plain);
}
END_TEST

START_TEST(case_b_like_s1_mini_agrees_at_every_tap)
{
    check_case("B", KVREF_F16, &plain);
}
END_TEST

START_TEST(case_l_with_long_context_agrees)
{
    check_case("L", KVREF_BF16, &plain);
}
END_TEST

START_TEST(case_d_with_no_two_sizes_equal_agrees_at_every_tap)
{
    check_case("D", KVREF_F32, &plain);
}
END_TEST

START_TEST(full_attention_and_blas_agree_as_well)
{
    const kvref_decoder_opts full = {.attention = KVREF_ATTN_FULL, .n_thread = 2};
    const kvref_decoder_opts blas = {.linear = KVREF_LINEAR_BLAS, .n_thread = 2};
    check_case("A", KVREF_F32, &full);
    check_case("D", KVREF_BF16, &full);
    check_case("B", KVREF_BF16, &blas);
    check_case("D", KVREF_F16, &blas);
}
END_TEST

/* A [row][column] matrix of JSON as frames, time-major. */
static kvref_frames matrix(const json_t *rows)
{
    kvref_frames f = {.n_row = (int)json_array_size(rows)};
    f.n_frame = f.cap = (int)json_array_size(json_array_get(rows, 0));
    f.value = calloc((size_t)f.n_row * (size_t)f.n_frame, sizeof *f.value);
    for (int t = 0; t < f.n_frame; t++) {
        for (int r = 0; r < f.n_row; r++) {
            const json_t *v = json_array_get(json_array_get(rows, (size_t)r), (size_t)t);
            ck_assert(json_is_integer(v));
            f.value[t * f.n_row + r] = (int32_t)json_integer_value(v);
        }
    }
    return f;
}

/* Returns how many. */
static size_t check_runs(const json_t *doc, const kvref_model *model)
{
    const char *name = json_string_value(json_object_get(doc, "case"));
    const json_t *runs = json_object_get(doc, "runs"), *one;
    kvref_frames prompt = matrix(json_object_get(doc, "prompt"));
    size_t i;
    json_array_foreach(runs, i, one)
    {
        golden_run run;
        golden_read_run(&run, one);
        kvref_frames want = matrix(json_object_get(one, "frames"));
        kvref_generated got =
            golden_generate(kvref_backend_ref(), model, &plain, &run, &prompt, NULL);
        ck_assert_msg(got.frames.n_frame == want.n_frame && got.frames.n_row == want.n_row,
                      "run %s %zu: %d frames, expected %d",
                      name,
                      i + 1,
                      got.frames.n_frame,
                      want.n_frame);
        size_t n = (size_t)want.n_frame * (size_t)want.n_row;
        kvref_difference d = kvref_compare_ints(got.frames.value, want.value, n);
        ck_assert_msg(d.pass,
                      "run %s %zu: frame %zu differs",
                      name,
                      i + 1,
                      d.first_bad / (size_t)want.n_row);
        /* The last column is dropped (spec 04 section 6). */
        ck_assert_int_eq(got.codes.n_frame, want.n_frame - 1);
        for (int t = 0; t < got.codes.n_frame; t++)
            for (int b = 0; b < got.codes.n_book; b++)
                ck_assert_int_eq(got.codes.code[t * got.codes.n_book + b],
                                 want.value[t * want.n_row + 1 + b]);
        kvref_generated_clear(&got);
        kvref_frames_clear(&want);
    }
    printf("case %s: %zu runs, frames identical\n", name, i);
    kvref_frames_clear(&prompt);
    return i;
}

/* The tapped slow.logits and slow.hidden of the last prompt position. */
typedef struct outputs {
    float logits[512], hidden[64];
    int n_logits, n_hidden;
} outputs;

static void keep(void *user, const kvref_tap_data *t)
{
    outputs *o = user;
    if (strcmp(t->name, "slow.logits") == 0) {
        ck_assert(t->width <= 512 && t->n_row == 1);
        memcpy(o->logits, t->x, (size_t)t->width * sizeof(float));
        o->n_logits = t->width;
    } else if (strcmp(t->name, "slow.hidden") == 0) {
        ck_assert(t->width <= 64 && t->n_row == 1);
        memcpy(o->hidden, t->x, (size_t)t->width * sizeof(float));
        o->n_hidden = t->width;
    }
}

static void near(const char *what, const float *x, int n, const json_t *list)
{
    float want[512];
    ck_assert_msg((size_t)n == json_array_size(list) && n <= 512, "%s: %d values", what, n);
    for (int i = 0; i < n; i++)
        want[i] = (float)json_number_value(json_array_get(list, (size_t)i));
    const kvref_limit limit = kvref_limit_of(KVREF_STORE_F32, "slow.logits").limit;
    kvref_difference d = kvref_compare(x, want, (size_t)n, &limit);
    ck_assert_msg(
        d.pass, "%s: %.2e of the largest at %zu", what, kvref_difference_rel(&d), d.at);
    printf("%s: worst %.2e of the largest\n", what, kvref_difference_rel(&d));
}

static void check_outputs(const json_t *doc, const kvref_model *model)
{
    kvref_error err;
    kvref_decoder *d;
    outputs o = {.n_logits = 0};
    float logits[512], fast[512];
    int32_t id[512];
    const kvref_backend *b = kvref_backend_ref();
    const kvref_config *c = kvref_model_config(model);
    const kvref_decoder_opts opts = {.n_thread = 1, .tap = {keep, &o, KVREF_TAP_LOGITS}};
    kvref_frames prompt = matrix(json_object_get(doc, "prompt"));
    must(b->open(&d, model, &opts, &err), err);
    must(b->slow(d, logits, prompt.value, prompt.n_frame, &err), err);
    must(b->fast(d, fast, 1, 7, &err), err);
    near("logits_last", o.logits, o.n_logits, json_object_get(doc, "logits_last"));
    near("hidden_last", o.hidden, o.n_hidden, json_object_get(doc, "hidden_last"));
    near("fast_logits_pos1_code7",
         fast,
         c->n_code,
         json_object_get(doc, "fast_logits_pos1_code7"));
    int n = kvref_config_candidates(c, id, 512);
    for (int i = 0; i < n; i++) ck_assert(logits[i] == o.logits[id[i]]);
    b->close(&d);
    kvref_frames_clear(&prompt);
}

START_TEST(all_runs_of_golden_lm_json_give_upstreams_frames)
{
    json_error_t bad;
    json_t *cases = json_load_file(support_source("golden/lm/golden-lm.json"), 0, &bad), *doc;
    size_t i, n_run = 0;
    ck_assert_msg(json_array_size(cases) == 2, "%s", bad.text);
    json_array_foreach(cases, i, doc)
    {
        kvref_config config;
        golden_read_config(
            &config, json_object_get(doc, "config"), json_object_get(doc, "im_end"));
        kvref_model *model = golden_model(&config, KVREF_F32);
        check_outputs(doc, model);
        n_run += check_runs(doc, model);
        kvref_model_close(&model);
    }
    ck_assert_uint_eq(n_run, 10);
    json_decref(cases);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("golden_lm");
    TCase *tc = tcase_create("golden_lm");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, case_a_like_s2_pro_agrees_at_every_tap);
    tcase_add_test(tc, case_b_like_s1_mini_agrees_at_every_tap);
    tcase_add_test(tc, case_l_with_long_context_agrees);
    tcase_add_test(tc, case_d_with_no_two_sizes_equal_agrees_at_every_tap);
    tcase_add_test(tc, full_attention_and_blas_agree_as_well);
    tcase_add_test(tc, all_runs_of_golden_lm_json_give_upstreams_frames);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
