/* SPDX-License-Identifier: MIT */
/* The FP16 decoder on a GPU against the same sources on the execution layer: IEEE arithmetic in
 * a written order has one result. Needs a GPU; skips without. */
#include "gpu/inside.h"
#include "tests/gpu_run.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>

enum { N_PROMPT = 70, N_NEW = 6 };

typedef struct scene {
    world w;
    int32_t *prompt, *forced;
} scene;

static void open_scene(scene *s, int i)
{
    kvref_config c = i ? world_odd() : world_tiny();
    world_open(&s->w, &c, i ? KVREF_F32 : KVREF_BF16, 0);
    s->prompt = world_frames(&c, N_PROMPT, 11);
    s->forced = world_frames(&c, N_NEW, 12);
}

static void close_scene(scene *s)
{
    world_close(&s->w);
    free(s->prompt);
    free(s->forced);
}

static gpu_job job_of(const scene *s, bool forced)
{
    return (gpu_job){.backend = kvref_backend_cuda(),
                     .open = kvref_cuda_open,
                     .config = &s->w.config,
                     .weights = &s->w.weights,
                     .opts = {.capacity = 128},
                     .level = KVREF_TAP_OPS,
                     .prompt = s->prompt,
                     .n_prompt = N_PROMPT,
                     .forced = forced ? s->forced : NULL,
                     .n_forced = N_NEW,
                     .max_new_tokens = forced ? 0 : N_NEW,
                     .min_frames = N_NEW,
                     .sampling = {0.9f, 0.9f, 12},
                     .seed = 7};
}

static void must_agree(const gpu_job *a, const gpu_job *b, const char *what)
{
    gpu_result x, y;
    gpu_run(&x, a);
    gpu_run(&y, b);
    gpu_must_agree(&x, &y, what);
    gpu_result_clear(&x);
    gpu_result_clear(&y);
}

/* Bit 0: the model; 1: attention; 2: graph; 3: forced or drawn. */
START_TEST(gpu_equals_the_execution_layer_bit_for_bit)
{
    scene s;
    open_scene(&s, _i & 1);
    gpu_job gpu = job_of(&s, _i & 8), cpu;
    gpu.opts.attention = _i & 2 ? KVREF_ATTN_FULL : KVREF_ATTN_PREFIX;
    gpu.opts.exec = _i & 4 ? KVREF_EXEC_GRAPH : KVREF_EXEC_EAGER;
    cpu = gpu;
    cpu.backend = kvref_backend_cudacpu();
    cpu.open = kvref_cudacpu_open;
    must_agree(&gpu, &cpu, "execution layer");
    close_scene(&s);
}
END_TEST

START_TEST(gpu_result_is_independent_of_capacity)
{
    static const int capacity[] = {76, 1024, 32768};
    scene s;
    open_scene(&s, 0);
    gpu_job first = job_of(&s, true), other = first;
    other.opts.capacity = capacity[_i];
    must_agree(&first, &other, "capacity");
    close_scene(&s);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("cuda");
    TCase *t = tcase_create("cuda");
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, gpu_equals_the_execution_layer_bit_for_bit, 0, 16);
    tcase_add_loop_test(t, gpu_result_is_independent_of_capacity, 0, 3);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    kvref_gpu gpu;
    kvref_error err;
    if (kvref_cuda_gpu(&gpu, &err) != KVREF_OK) {
        printf("skipped: %s\n", err.text);
        return SUPPORT_SKIP;
    }
    return support_run_in_one(suite()); /* a CUDA context does not survive a fork */
}
