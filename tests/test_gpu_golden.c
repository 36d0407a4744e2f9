/* SPDX-License-Identifier: MIT */
/* The FP16 decoder on the execution layer over whole golden cases and one layer of the true
 * widths, against the FP16 emulation, which test_half_f64 judges against float64. The hashes of
 * golden/lm/hashes.txt are those that every compiler, optimisation, thread order and, with one,
 * a GPU must give. */
#include "gpu/inside.h"
#include "tests/golden.h"
#include "tests/gpu_run.h"
#include "tests/narrowed.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runs the job on both and compares; returns the hash. */
static uint64_t check(gpu_job *job, const kvref_weights *narrow, const char *what)
{
    gpu_result gpu, judge;
    gpu_run(&gpu, job);
    gpu_job same = *job;
    same.backend = kvref_backend_ref();
    same.open = ref_decoder_open;
    same.weights = narrow;
    gpu_run(&judge, &same);
    gpu_must_agree(&gpu, &judge, what);
    uint64_t hash = gpu.hash;
    gpu_result_clear(&gpu);
    gpu_result_clear(&judge);
    return hash;
}

static const char *const name[] = {"A", "B", "D"};

/* Forced by the frames of upstream (A, B) or the oracle (D), every tap; then drawn. */
START_TEST(golden_case_equals_the_fp16_emulation_and_its_hash)
{
    char json[40], tensors[40], key[8];
    golden_case g;
    snprintf(json, sizeof json, "golden/lm/%s.json", name[_i]);
    snprintf(tensors, sizeof tensors, "golden/lm/%s.safetensors", name[_i]);
    golden_open(&g, name[_i], support_source(json), support_source(tensors));
    kvref_model *model = golden_model(&g.config, KVREF_BF16);
    narrowed n;
    narrowed_open(&n, &g.config, kvref_model_weights(model));
    ck_assert_uint_eq(n.count.overflow, 0);
    kvref_frames prompt = golden_frames(g.ref, "prompt"),
                 frames = golden_frames(g.ref, "frames");
    gpu_job job = {.backend = kvref_backend_cudacpu(),
                   .open = kvref_cudacpu_open,
                   .config = &g.config,
                   .weights = kvref_model_weights(model),
                   .opts = {.capacity = 64, .rope_table = g.rope_table},
                   .level = KVREF_TAP_OPS,
                   .prompt = prompt.value,
                   .n_prompt = prompt.n_frame,
                   .forced = frames.value,
                   .n_forced = frames.n_frame};
    uint64_t hash = check(&job, &n.weights, "forced");
    snprintf(key, sizeof key, "%s.f16", name[_i]);
    printf("%s %016llx\n", key, (unsigned long long)hash);
    ck_assert_msg(hash == golden_hash(key), "%s: found %016llx", key, (unsigned long long)hash);
    job.forced = NULL;
    job.max_new_tokens = frames.n_frame;
    job.sampling = g.run.sampling;
    job.seed = g.run.seed;
    check(&job, &n.weights, "drawn");
    kvref_frames_clear(&prompt);
    kvref_frames_clear(&frames);
    narrowed_close(&n);
    kvref_model_close(&model);
    golden_close(&g);
}
END_TEST

START_TEST(layers_of_the_true_widths_equal_the_fp16_emulation)
{
    kvref_config c = world_tiny();
    c.slow = (kvref_stack){1, 2560, 32, 8, 128, 9728, false, false, true};
    c.fast = (kvref_stack){1, 2560, 32, 8, 128, 9728, false, false, false};
    world w;
    narrowed n;
    world_open(&w, &c, KVREF_BF16, 0);
    narrowed_open(&n, &c, &w.weights);
    int32_t *prompt = world_frames(&c, 2, 21), *forced = world_frames(&c, 2, 22);
    gpu_job job = {.backend = kvref_backend_cudacpu(),
                   .open = kvref_cudacpu_open,
                   .config = &c,
                   .weights = &w.weights,
                   .opts = {.capacity = 256},
                   .level = KVREF_TAP_OPS,
                   .prompt = prompt,
                   .n_prompt = 2,
                   .forced = forced,
                   .n_forced = 2};
    uint64_t hash = check(&job, &n.weights, "true widths");
    ck_assert_msg(
        hash == golden_hash("wide.f16"), "wide.f16: found %016llx", (unsigned long long)hash);
    free(prompt);
    free(forced);
    narrowed_close(&n);
    world_close(&w);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("gpu_golden");
    TCase *t = tcase_create("gpu_golden");
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, golden_case_equals_the_fp16_emulation_and_its_hash, 0, 3);
    tcase_add_test(t, layers_of_the_true_widths_equal_the_fp16_emulation);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return support_run(suite());
}
