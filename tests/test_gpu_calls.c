/* SPDX-License-Identifier: MIT */
/* Calls of the FP16 decoder on the execution layer: what they refuse, what they cost, and what
 * they never touch. */
#include "gpu/cudacpu/control.h"
#include "gpu/inside.h"
#include "tests/support.h"
#include "tests/world.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 9, CAPACITY = 40 };

static world w;
static kvref_decoder *d;
static int32_t *frames;
static const kvref_backend *backend;
static float *logits, *again;
static size_t n_logit;

static void open_one(kvref_decoder_opts opts)
{
    kvref_error err;
    kvref_config c = world_tiny();
    world_open(&w, &c, KVREF_BF16, 0);
    if (!opts.capacity) opts.capacity = CAPACITY;
    must(kvref_cudacpu_open(&d, &w.config, &w.weights, &opts, &err), err);
    frames = world_frames(&w.config, 2 * CAPACITY, 5);
    backend = kvref_backend_cudacpu();
    n_logit = (size_t)kvref_config_candidates(&w.config, NULL, 0);
    size_t n = n_logit > (size_t)c.n_code ? n_logit : (size_t)c.n_code;
    logits = calloc(n, sizeof *logits);
    again = calloc(n, sizeof *again);
}

static void close_one(void)
{
    backend->close(&d);
    world_close(&w);
    free(frames);
    free(logits);
    free(again);
    cudacpu_reset();
}

static const int32_t *frame_at(int i)
{
    return frames + i * (1 + w.config.n_codebook);
}

START_TEST(rewound_positions_are_written_over)
{
    kvref_error err;
    open_one((kvref_decoder_opts){.exec = _i ? KVREF_EXEC_GRAPH : KVREF_EXEC_EAGER});
    must(backend->slow(d, logits, frame_at(0), 4, &err), err);
    must(backend->slow(d, again, frame_at(30), 5, &err), err);
    must(backend->rewind(d, 4, &err), err);
    must_fail(backend->fast(d, again, 1, 0, &err), KVREF_E_ARG, err, "no slow step");
    ck_assert_int_eq(backend->length(d), 4);
    must(backend->slow(d, again, frame_at(4), 5, &err), err);
    must(backend->rewind(d, 0, &err), err);
    must(backend->slow(d, logits, frame_at(0), 9, &err), err);
    ck_assert(world_differ(logits, again, n_logit) == 0);
    must_fail(backend->rewind(d, 10, &err), KVREF_E_ARG, err, "0..9, found 10");
    must_fail(backend->rewind(d, -1, &err), KVREF_E_ARG, err, "found -1");
    close_one();
}
END_TEST

START_TEST(refused_calls_change_nothing)
{
    kvref_error err;
    int32_t bad[8] = {0};
    open_one((kvref_decoder_opts){0});
    must(backend->slow(d, logits, frame_at(0), N, &err), err);
    must_fail(backend->slow(d, again, frame_at(0), CAPACITY, &err),
              KVREF_E_CAPACITY,
              err,
              "capacity 40");
    must_fail(backend->slow(d, again, frame_at(0), 0, &err), KVREF_E_ARG, err, "at least 1");
    bad[0] = w.config.n_vocab;
    must_fail(backend->slow(d, again, bad, 1, &err), KVREF_E_ARG, err, "128");
    bad[0] = w.config.semantic_begin;
    bad[2] = w.config.n_code;
    must_fail(backend->slow(d, again, bad, 1, &err), KVREF_E_ARG, err, "32");
    must_fail(backend->fast(d, again, 2, 0, &err), KVREF_E_ARG, err, "expected 1");
    must_fail(backend->fast(d, again, 1, w.config.n_code, &err), KVREF_E_ARG, err, "found 32");
    must_fail(backend->fast(d, again, 1, -1, &err), KVREF_E_ARG, err, "found -1");
    ck_assert_int_eq(backend->length(d), N);
    must(backend->fast(d, logits, 1, 3, &err), err);
    must(backend->rewind(d, 0, &err), err);
    must(backend->slow(d, again, frame_at(0), N, &err), err);
    must(backend->fast(d, again, 1, 3, &err), err);
    ck_assert(world_differ(logits, again, (size_t)w.config.n_code) == 0);
    close_one();
}
END_TEST

START_TEST(bad_options_are_refused)
{
    kvref_error err;
    kvref_config c = world_tiny();
    world_open(&w, &c, KVREF_BF16, 0);
    const struct {
        kvref_decoder_opts opts;
        kvref_status status;
        const char *text;
    } row[] = {
        {{.capacity = -1}, KVREF_E_ARG, "found -1"},
        {{.capacity = (1 << 20) + 1}, KVREF_E_ARG, "1048577"},
        {{.capacity = 40, .attention = (kvref_attention)7}, KVREF_E_ARG, "attention"},
        {{.capacity = 40, .exec = (kvref_exec)7}, KVREF_E_ARG, "exec"},
        {{.capacity = 40, .rope_table = (kvref_rope_table)7}, KVREF_E_ARG, "rope table"},
        {{.capacity = 40, .linear = KVREF_LINEAR_BLAS}, KVREF_E_UNSUPPORTED, "exact only"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        must_fail(kvref_cudacpu_open(&d, &c, &w.weights, &row[i].opts, &err),
                  row[i].status,
                  err,
                  row[i].text);
        ck_assert_ptr_null(d);
    }
    ck_assert_uint_eq(cudacpu_get_counts().live_byte, 0);
    world_close(&w);
}
END_TEST

/* A config file may ask for them; the reference has no such limits. */
START_TEST(sizes_beyond_the_kernels_are_refused)
{
    kvref_error err;
    kvref_config row[7];
    static const char *const text[] = {"num_codebooks: this backend has up to 64, found 65",
                                       "codebook_size: this backend has up to 65536, found",
                                       "candidates: this backend has up to 65536, found",
                                       "head_dim: this backend has up to 256, found 258",
                                       "fast_head_dim: this backend has up to 256, found 258",
                                       "n_head: this backend has up to 65535, found 65536",
                                       "fast_n_head: this backend has up to 65535, found"};
    const kvref_decoder_opts opts = {.capacity = CAPACITY};
    for (int i = 0; i < 7; i++) row[i] = world_tiny();
    row[0].n_codebook = 65;
    row[1].n_code = 65537;
    row[2].semantic_end = row[2].semantic_begin + 65536;
    row[3].slow.d_head = 258;
    row[4].fast.d_head = 258;
    row[5].slow.n_head = 65536;
    row[6].fast.n_head = 65536;
    world_open(&w, &row[0], KVREF_BF16, 0);
    for (int i = 0; i < 7; i++) {
        must_fail(kvref_cudacpu_open(&d, &row[i], &w.weights, &opts, &err),
                  KVREF_E_UNSUPPORTED,
                  err,
                  text[i]);
        ck_assert_ptr_null(d);
    }
    world_close(&w);
}
END_TEST

/* Every size of device memory below what is needed. */
START_TEST(memory_that_does_not_fit_is_named_before_anything_runs)
{
    kvref_error err;
    kvref_decoder_opts opts = {.capacity = CAPACITY, .attention = KVREF_ATTN_FULL};
    open_one(opts);
    size_t need = backend->device_bytes(d);
    ck_assert_uint_le(need, cudacpu_get_counts().peak_byte);
    backend->close(&d);
    ck_assert_uint_eq(cudacpu_get_counts().live_byte, 0);
    cudacpu_reset_counts();
    for (int i = 1; i < 40; i++) {
        cudacpu_set_memory_limit(need * (size_t)i / 40);
        must_fail(kvref_cudacpu_open(&d, &w.config, &w.weights, &opts, &err),
                  KVREF_E_MEMORY,
                  err,
                  "needed in all");
        ck_assert_ptr_null(d);
        ck_assert_ptr_nonnull(strstr(err.text, "device memory: "));
    }
    ck_assert_uint_eq(cudacpu_get_counts().n_launch, 0);
    ck_assert_uint_eq(cudacpu_get_counts().live_byte, 0);
    close_one();
}
END_TEST

static kvref_status make_frame(int32_t *frame, const int32_t *in, int n_in, kvref_error *err)
{
    static float noise[4096];
    for (size_t i = 0; i < 4096; i++) noise[i] = (float)(i * 2654435761u % 1000u) * 1e-3f;
    kvref_frame_call call = {.frames = in,
                             .n_frame = n_in,
                             .noise = noise,
                             .sampling = {0.8f, 0.9f, 20},
                             .remember = in == NULL};
    return backend->frame(d, frame, logits, &call, err);
}

START_TEST(frame_is_one_graph_captured_once_and_waited_for_once)
{
    kvref_error err;
    int32_t frame[8];
    open_one((kvref_decoder_opts){.exec = KVREF_EXEC_GRAPH});
    must(make_frame(frame, frame_at(0), N, &err), err);
    cudacpu_reset_counts();
    for (int i = 0; i < 6; i++) must(make_frame(frame, NULL, 1, &err), err);
    must(backend->rewind(d, 0, &err), err);
    must(make_frame(frame, frame_at(0), N, &err), err);
    cudacpu_counts before = cudacpu_get_counts();
    for (int i = 0; i < 6; i++) must(make_frame(frame, NULL, 1, &err), err);
    cudacpu_counts after = cudacpu_get_counts();
    ck_assert_uint_eq(after.n_capture, 1);
    ck_assert_uint_eq(after.n_instantiate, 1);
    ck_assert_uint_eq(after.n_graph_launch, 12);
    ck_assert_uint_eq(after.n_synchronise - before.n_synchronise, 6);
    ck_assert_uint_eq(after.n_alloc, 0);
    close_one();
}
END_TEST

START_TEST(frame_without_a_frame_before_it_is_refused)
{
    kvref_error err;
    int32_t frame[8];
    open_one((kvref_decoder_opts){.exec = KVREF_EXEC_GRAPH});
    must_fail(make_frame(frame, NULL, 1, &err), KVREF_E_ARG, err, "found none");
    must(make_frame(frame, frame_at(0), N, &err), err);
    must(backend->rewind(d, N - 1, &err), err);
    must_fail(make_frame(frame, NULL, 1, &err), KVREF_E_ARG, err, "found none");
    must(make_frame(frame, frame_at(0), CAPACITY - N + 1, &err), err);
    must_fail(make_frame(frame, NULL, 1, &err), KVREF_E_CAPACITY, err, "capacity 40");
    close_one();
}
END_TEST

/* Fresh device memory is all NaN here, so the caches are as well. */
START_TEST(prefix_runs_over_a_cache_of_nan_and_full_does_not)
{
    kvref_error err;
    open_one((kvref_decoder_opts){.attention = _i ? KVREF_ATTN_FULL : KVREF_ATTN_PREFIX});
    for (int value = 0; value < 2; value++) {
        size_t n_byte;
        uint16_t *cache = kvref_cudacpu_cache(d, false, value, &n_byte);
        memset(cache, 0xff, n_byte);
    }
    must(backend->slow(d, logits, frame_at(0), N, &err), err);
    bool finite = true;
    for (size_t i = 0; i < n_logit; i++) finite = finite && isfinite(logits[i]);
    ck_assert(finite == (_i == 0));
    close_one();
}
END_TEST

START_TEST(logits_that_are_no_numbers_are_reported)
{
    kvref_error err;
    int32_t frame[8];
    open_one((kvref_decoder_opts){.exec = KVREF_EXEC_GRAPH, .attention = KVREF_ATTN_FULL});
    size_t n_byte;
    uint16_t *cache = kvref_cudacpu_cache(d, false, true, &n_byte);
    memset(cache, 0xff, n_byte);
    must_fail(make_frame(frame, frame_at(0), N, &err), KVREF_E_FORMAT, err, "main logits");
    close_one();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("gpu_calls");
    TCase *t = tcase_create("gpu_calls");
    tcase_add_loop_test(t, rewound_positions_are_written_over, 0, 2);
    tcase_add_test(t, refused_calls_change_nothing);
    tcase_add_test(t, bad_options_are_refused);
    tcase_add_test(t, sizes_beyond_the_kernels_are_refused);
    tcase_add_test(t, memory_that_does_not_fit_is_named_before_anything_runs);
    tcase_add_test(t, frame_is_one_graph_captured_once_and_waited_for_once);
    tcase_add_test(t, frame_without_a_frame_before_it_is_refused);
    tcase_add_loop_test(t, prefix_runs_over_a_cache_of_nan_and_full_does_not, 0, 2);
    tcase_add_test(t, logits_that_are_no_numbers_are_reported);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return support_run(suite());
}
