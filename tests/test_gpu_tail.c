/* SPDX-License-Identifier: MIT */
/* Rows of the caches from kv_len on, in the race build: exactly those are forbidden for every
 * layer and head of both transformers, call by call, and nothing may notice; and whatever they
 * hold, the bits are the same. Controls: one row less, and the full form, are noticed. */
#include "gpu/cudacpu/control.h"
#include "gpu/inside.h"
#include "tests/support.h"
#include "tests/world.h"

#include <stdlib.h>
#include <string.h>

enum { N_HELD = 70, N_BOOK = 10 };

static world w;
static kvref_decoder *d;
static int32_t *frames;
static const kvref_backend *backend;
static float *logits;

/* 0: no width needs padding. 1: every one does, biases, untied head, projection. */
static kvref_config config_of(int i)
{
    kvref_config c = world_tiny();
    c.n_codebook = N_BOOK;
    if (i == 0) return c;
    c.slow = (kvref_stack){2, 52, 6, 3, 10, 74, true, true, true};
    c.fast = (kvref_stack){2, 44, 6, 2, 14, 60, true, true, true};
    c.tie_word_embeddings = false;
    return c;
}

static void open_on(kvref_decoder_opts opts)
{
    kvref_error err;
    must(kvref_cudacpu_open(&d, &w.config, &w.weights, &opts, &err), err);
}

static void open_world(int i)
{
    kvref_config c = config_of(i);
    world_open(&w, &c, KVREF_BF16, 0);
    frames = world_frames(&c, 2 * N_HELD, 5);
    backend = kvref_backend_cudacpu();
    logits = calloc((size_t)c.n_vocab, sizeof *logits);
    for (int t = N_HELD; t < 2 * N_HELD; t++) { /* steps are audio */
        int32_t *frame = frames + t * (1 + N_BOOK);
        frame[1] = t % c.n_code;
        frame[0] = c.semantic_begin + frame[1];
    }
}

static void close_world(void)
{
    world_close(&w);
    free(frames);
    free(logits);
    cudacpu_reset();
}

static void slow(int from, int n)
{
    kvref_error err;
    must(backend->slow(d, logits, frames + from * (1 + N_BOOK), n, &err), err);
}

static void fast(int book)
{
    kvref_error err;
    must(backend->fast(d, logits, book, (book * 7) % w.config.n_code, &err), err);
}

/* Rows from n on of every layer and head of both caches of a transformer. */
static void forbid_from(bool of_fast, int n)
{
    const kvref_stack *s = of_fast ? &w.config.fast : &w.config.slow;
    size_t capacity = (size_t)(of_fast ? N_BOOK : backend->capacity(d)), n_byte;
    size_t stride = (size_t)((s->d_head + 7) / 8 * 8) * sizeof(uint16_t),
           heads = (size_t)(s->n_layer * s->n_kv_head);
    for (int value = 0; value < 2; value++) {
        char *at = (char *)kvref_cudacpu_cache(d, of_fast, value, &n_byte);
        ck_assert_uint_eq(n_byte, heads * capacity * stride);
        for (size_t i = 0; i < heads; i++)
            if ((size_t)n < capacity)
                cudacpu_forbid(at + (i * capacity + (size_t)n) * stride,
                               (capacity - (size_t)n) * stride);
    }
}

START_TEST(rows_from_kv_len_on_are_neither_read_nor_written)
{
    open_world(_i);
    open_on((kvref_decoder_opts){.capacity = 1024});
    forbid_from(false, N_HELD);
    slow(0, N_HELD); /* in two pieces and 12 rounds; a report would abort */
    for (int t = 0; t < 3; t++) {
        cudacpu_allow_all();
        forbid_from(false, N_HELD + t + 1);
        forbid_from(true, 0);
        slow(N_HELD + t, 1);
        for (int book = 1; book < N_BOOK; book++) {
            cudacpu_allow_all();
            forbid_from(false, 0);
            forbid_from(true, book + 1);
            fast(book);
        }
    }
    cudacpu_allow_all();
    backend->close(&d);
    close_world();
}
END_TEST

/* Controls: the newest row is within the prefix; the full form goes over everything. */
START_TEST(forbidden_rows_are_noticed)
{
    kvref_error err;
    open_world(0);
    open_on((kvref_decoder_opts){.capacity = 256,
                                 .attention = _i == 2 ? KVREF_ATTN_FULL : KVREF_ATTN_PREFIX});
    slow(0, N_HELD);
    if (_i != 1) slow(N_HELD, 1);
    forbid_from(_i == 1, _i == 1 ? 1 : _i == 0 ? N_HELD + 1 : N_HELD + 2);
    cudacpu_set_recording(1);
    if (_i == 1)
        must_fail(backend->fast(d, logits, 1, 0, &err), KVREF_E_DEVICE, err, "fast step");
    else
        must_fail(backend->slow(d, logits, frames, 1, &err), KVREF_E_DEVICE, err, "slow step");
    ck_assert_int_ge(cudacpu_n_report_of(CUDACPU_FORBIDDEN), 1);
    const char *kernel = _i == 2 ? "expand_kernel" : "append_kernel";
    ck_assert_ptr_nonnull(strstr(cudacpu_report_at(0)->text, kernel));
    cudacpu_clear_reports();
    cudacpu_allow_all();
    cudacpu_set_recording(0);
    backend->close(&d);
    close_world();
}
END_TEST

/* Everything that a few steps give, after the caches were filled with a pattern. */
static uint64_t hash_over(int pattern)
{
    static const uint16_t value[] = {0, 0xffff, 0x7c00, 0xfc00, 0x7bff, 0xfbff};
    uint64_t hash = 14695981039346656037u;
    uint32_t seed = 7;
    open_on((kvref_decoder_opts){.capacity = 1024});
    for (int cache = 0; cache < 4; cache++) {
        size_t n_byte;
        uint16_t *at = kvref_cudacpu_cache(d, cache / 2, cache % 2, &n_byte);
        for (size_t i = 0; i < n_byte / 2; i++) {
            seed = seed * 1664525u + 1013904223u;
            at[i] = pattern < 6 ? value[pattern] : (uint16_t)(seed >> 16);
        }
    }
    slow(0, N_HELD);
    for (int t = 0; t < 2; t++)
        for (int book = 0; book < N_BOOK; book++) {
            if (book == 0) slow(N_HELD + t, 1);
            if (book > 0) fast(book);
            for (int i = 0; i < w.config.n_code; i++)
                hash = (hash ^ kvref_f32_bits(logits[i])) * 1099511628211u;
        }
    backend->close(&d);
    return hash;
}

START_TEST(bits_do_not_depend_on_what_lies_beyond_the_prefix)
{
    open_world(_i);
    uint64_t zeros = hash_over(0);
    for (int pattern = 1; pattern < 7; pattern++) ck_assert_uint_eq(hash_over(pattern), zeros);
    close_world();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("gpu_tail");
    TCase *t = tcase_create("gpu_tail");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, rows_from_kv_len_on_are_neither_read_nor_written, 0, 2);
    tcase_add_loop_test(t, forbidden_rows_are_noticed, 0, 3);
    tcase_add_loop_test(t, bits_do_not_depend_on_what_lies_beyond_the_prefix, 0, 2);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return support_run(suite());
}
