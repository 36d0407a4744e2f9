/* SPDX-License-Identifier: MIT */
/* The FP16 decoder on the execution layer, judged by the FP16 emulation of the reference and
 * by itself: what may not change a bit. */
#include "gpu/cudacpu/control.h"
#include "gpu/inside.h"
#include "tests/gpu_run.h"
#include "tests/narrowed.h"
#include "tests/support.h"

#include <stdlib.h>
#include <string.h>

enum { N_PROMPT = 13, N_NEW = 6 };

/* A model, narrowed, and a prompt with frames to force. */
typedef struct scene16 {
    world w;
    narrowed n;
    int32_t *prompt, *forced;
} scene16;

/* 0: like S2-Pro, 1: no two sizes equal, 2: odd head counts and widths. */
static kvref_config config_of(int i)
{
    kvref_config c = i == 0 ? world_tiny() : world_odd();
    if (i < 2) return c;
    c.slow = (kvref_stack){2, 50, 5, 1, 6, 74, false, true, true};
    c.fast = (kvref_stack){2, 50, 9, 3, 14, 66, true, false, false};
    c.tie_word_embeddings = true;
    c.scale_codebook_embeddings = true;
    return c;
}

static void open_scene(scene16 *s, int i)
{
    kvref_config c = config_of(i);
    world_open(&s->w, &c, i == 1 ? KVREF_F32 : KVREF_BF16, 0);
    narrowed_open(&s->n, &c, &s->w.weights);
    s->prompt = world_frames(&c, N_PROMPT, 11);
    s->forced = world_frames(&c, N_NEW, 12);
}

static void close_scene(scene16 *s)
{
    narrowed_close(&s->n);
    world_close(&s->w);
    free(s->prompt);
    free(s->forced);
}

static gpu_job forced_job(const scene16 *s)
{
    return (gpu_job){.backend = kvref_backend_cudacpu(),
                     .open = kvref_cudacpu_open,
                     .config = &s->w.config,
                     .weights = &s->w.weights,
                     .opts = {.capacity = 32},
                     .level = KVREF_TAP_OPS,
                     .prompt = s->prompt,
                     .n_prompt = N_PROMPT,
                     .forced = s->forced,
                     .n_forced = N_NEW};
}

static gpu_job drawn_job(const scene16 *s, uint64_t seed)
{
    gpu_job job = forced_job(s);
    job.forced = NULL;
    job.max_new_tokens = N_NEW;
    job.min_frames = N_NEW;
    job.sampling = (kvref_sampling){0.9f, 0.9f, 12};
    job.seed = seed;
    return job;
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

static gpu_job emulated(const gpu_job *job, const scene16 *s)
{
    gpu_job same = *job;
    same.backend = kvref_backend_ref();
    same.open = ref_decoder_open;
    same.weights = &s->n.weights;
    same.opts.exec = KVREF_EXEC_EAGER;
    return same;
}

START_TEST(every_tap_equals_the_fp16_emulation_bit_for_bit)
{
    scene16 s;
    open_scene(&s, _i % 3);
    gpu_job job = forced_job(&s);
    job.opts.attention = _i < 3 ? KVREF_ATTN_PREFIX : KVREF_ATTN_FULL;
    job.opts.rope_table = _i < 3 ? KVREF_ROPE_BF16 : KVREF_ROPE_F32;
    gpu_job judge = emulated(&job, &s);
    must_agree(&job, &judge, "emulation");
    close_scene(&s);
}
END_TEST

START_TEST(drawn_codes_equal_those_of_the_fp16_emulation)
{
    scene16 s;
    open_scene(&s, _i % 3);
    gpu_job job = drawn_job(&s, (uint64_t)_i), judge = emulated(&job, &s);
    must_agree(&job, &judge, "emulation");
    close_scene(&s);
}
END_TEST

START_TEST(prefix_equals_full_bit_for_bit)
{
    scene16 s;
    open_scene(&s, _i);
    gpu_job prefix = forced_job(&s), full = prefix;
    full.opts.attention = KVREF_ATTN_FULL;
    must_agree(&prefix, &full, "full");
    close_scene(&s);
}
END_TEST

START_TEST(result_is_independent_of_capacity)
{
    static const int capacity[] = {19, 64, 1024, 32768};
    scene16 s;
    open_scene(&s, 0);
    gpu_job first = forced_job(&s), other = first;
    other.opts.capacity = capacity[_i];
    must_agree(&first, &other, "capacity");
    close_scene(&s);
}
END_TEST

/* Forced frames with every tap, so that slow and fast passes, states and caches are compared.
 */
START_TEST(graph_equals_eager_at_every_tap)
{
    scene16 s;
    open_scene(&s, _i % 3);
    gpu_job eager = forced_job(&s), graph;
    eager.opts.attention = _i < 3 ? KVREF_ATTN_PREFIX : KVREF_ATTN_FULL;
    graph = eager;
    graph.opts.exec = KVREF_EXEC_GRAPH;
    must_agree(&eager, &graph, "graph");
    close_scene(&s);
}
END_TEST

/* Eager draws on the host, graph on the device, from the same numbers. */
START_TEST(device_sampling_equals_host_sampling)
{
    static const kvref_sampling setting[] = {
        {0.9f, 0.9f, 12}, {0, 0.9f, 30}, {1.5f, 1, 1000}, {0.7f, 0.5f, 0}};
    scene16 s;
    open_scene(&s, _i % 3);
    gpu_job eager = drawn_job(&s, (uint64_t)_i), graph;
    eager.sampling = setting[_i % 4];
    eager.max_new_tokens = 15;
    eager.min_frames = _i % 2 ? 0 : 15;
    graph = eager;
    graph.opts.exec = KVREF_EXEC_GRAPH;
    must_agree(&eager, &graph, "device sampling");
    close_scene(&s);
}
END_TEST

START_TEST(result_is_independent_of_thread_and_block_order)
{
    scene16 s;
    gpu_result first, other;
    open_scene(&s, 1);
    gpu_job job = drawn_job(&s, 3);
    job.max_new_tokens = 2;
    job.opts.exec = _i % 2 ? KVREF_EXEC_GRAPH : KVREF_EXEC_EAGER;
    gpu_run(&first, &job);
    cudacpu_set_order(_i == 0 ? CUDACPU_DESCENDING : CUDACPU_SEEDED, (uint64_t)_i);
    gpu_run(&other, &job);
    gpu_must_agree(&first, &other, "order");
    gpu_result_clear(&first);
    gpu_result_clear(&other);
    cudacpu_reset();
    close_scene(&s);
}
END_TEST

START_TEST(deferred_streams_change_nothing)
{
    scene16 s;
    gpu_result first, other;
    open_scene(&s, 0);
    gpu_job job = drawn_job(&s, 4);
    job.opts.exec = _i ? KVREF_EXEC_GRAPH : KVREF_EXEC_EAGER;
    gpu_run(&first, &job);
    cudacpu_set_deferred(1);
    gpu_run(&other, &job);
    gpu_must_agree(&first, &other, "deferred streams");
    gpu_result_clear(&first);
    gpu_result_clear(&other);
    cudacpu_reset();
    close_scene(&s);
}
END_TEST

static void ten_passes(kvref_decoder *d)
{
    kvref_cudacpu_ten_passes(d, true);
}

START_TEST(two_row_pass_equals_ten_passes)
{
    scene16 s;
    open_scene(&s, _i);
    gpu_job nine = drawn_job(&s, 5), ten;
    nine.level = KVREF_TAP_LOGITS; /* what follows position 0 is tapped in other pieces */
    ten = nine;
    ten.before = ten_passes;
    must_agree(&nine, &ten, "ten passes");
    close_scene(&s);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("gpu_decoder");
    TCase *t = tcase_create("gpu_decoder");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, every_tap_equals_the_fp16_emulation_bit_for_bit, 0, 6);
    tcase_add_loop_test(t, drawn_codes_equal_those_of_the_fp16_emulation, 0, 6);
    tcase_add_loop_test(t, prefix_equals_full_bit_for_bit, 0, 3);
    tcase_add_loop_test(t, result_is_independent_of_capacity, 0, 4);
    tcase_add_loop_test(t, graph_equals_eager_at_every_tap, 0, 6);
    tcase_add_loop_test(t, device_sampling_equals_host_sampling, 0, 8);
    tcase_add_loop_test(t, result_is_independent_of_thread_and_block_order, 0, 20);
    tcase_add_loop_test(t, deferred_streams_change_nothing, 0, 2);
    tcase_add_loop_test(t, two_row_pass_equals_ten_passes, 0, 3);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return support_run(suite());
}
