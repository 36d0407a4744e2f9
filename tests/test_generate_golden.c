/* SPDX-License-Identifier: MIT */
/* Upstream's logits through our loop: with the same seed it must make upstream's frames. */
#include "base/base.h"
#include "kvref/generate.h"
#include "tests/support.h"

#include <string.h>

/* Runs of golden/lm: 4 books of 32 codes, semantic ids 256..287, end 250, vocabulary 320. */
enum { V = 320, N = 4, K = 32, BEGIN = 256, END = 250, A = 33, ROW = 1 + N };

static kvref_error err;

struct kvref_decoder {
    int capacity, length, frame;
    const kvref_tensor *slow, *fast; /* [F, V], [F, N-1, K] */
};

static void copy_floats(float *out, const kvref_tensor *t, int at, int n)
{
    ck_assert_uint_le((size_t)(at + n) * 4, t->n_byte);
    memcpy(out, (const char *)t->data + 4 * (size_t)at, sizeof *out * (size_t)n);
}

static kvref_status
slow(kvref_decoder *d, float *logits, const int32_t *frames, int n_frame, kvref_error *e)
{
    float all[V];
    (void)frames;
    (void)e;
    d->length += n_frame;
    copy_floats(all, d->slow, d->frame++ * V, V);
    logits[0] = all[END];
    memcpy(logits + 1, all + BEGIN, sizeof *all * K);
    return KVREF_OK;
}

static kvref_status
fast(kvref_decoder *d, float *logits, int book, int32_t code, kvref_error *e)
{
    (void)code;
    (void)e;
    copy_floats(logits, d->fast, ((d->frame - 1) * (N - 1) + book - 1) * K, K);
    return KVREF_OK;
}

static kvref_status rewind_to(kvref_decoder *d, int pos, kvref_error *e)
{
    (void)e;
    d->length = d->frame = pos;
    return KVREF_OK;
}

static int capacity(const kvref_decoder *d)
{
    return d->capacity;
}

static const struct {
    const char *file;
    int capacity, max_new_tokens;
    kvref_sampling sampling;
    uint64_t seed;
} runs[] = {{"golden/lm/A.safetensors", 64, 16, {0.9f, 0.95f, 8}, 42},
            {"golden/lm/B.safetensors", 64, 16, {0.9f, 0.95f, 8}, 42},
            {"golden/lm/L.safetensors", 640, 200, {0.8f, 0.8f, 30}, 15}};

START_TEST(upstreams_logits_and_seed_give_upstreams_frames)
{
    static const kvref_backend backend = {.name = "replay",
                                          .slow = slow,
                                          .fast = fast,
                                          .rewind = rewind_to,
                                          .capacity = capacity};
    const kvref_config config = {.slow = {.n_layer = 1, .n_kv_head = 1},
                                 .n_vocab = V,
                                 .n_codebook = N,
                                 .n_code = K,
                                 .semantic_begin = BEGIN,
                                 .semantic_end = BEGIN + K - 1,
                                 .im_end = END};
    kvref_file *file;
    kvref_generated made;
    kvref_noise *noise;
    must(kvref_file_open(&file, support_source(runs[_i].file), NULL, &err), err);
    kvref_decoder d = {.capacity = runs[_i].capacity,
                       .slow = kvref_file_find(file, "slow.logits"),
                       .fast = kvref_file_find(file, "fast.logits")};
    const kvref_tensor *prompt = kvref_file_find(file, "prompt");
    const kvref_tensor *want = kvref_file_find(file, "frames");
    ck_assert(d.slow && d.fast && prompt && want);

    int32_t column[300 * ROW];
    ck_assert_uint_le(prompt->n_byte, sizeof column);
    memcpy(column, prompt->data, prompt->n_byte);
    const kvref_frames in = {.n_row = ROW, .n_frame = (int)prompt->dim[0], .value = column};
    const kvref_generate_opts opts = {.sampling = runs[_i].sampling,
                                      .max_new_tokens = runs[_i].max_new_tokens};
    must(kvref_noise_mt19937(&noise, runs[_i].seed, &err), err);
    must(kvref_generate(&backend, &d, &config, &made, &in, noise, &opts, &err), err);
    ck_assert_int_eq(made.frames.n_frame, want->dim[0]);
    ck_assert_mem_eq(made.frames.value, want->data, want->n_byte);
    kvref_generated_clear(&made);
    kvref_noise_close(&noise);
    kvref_file_close(&file);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("generate_golden");
    TCase *tc = tcase_create("generate_golden");
    tcase_add_loop_test(tc,
                        upstreams_logits_and_seed_give_upstreams_frames,
                        0,
                        (int)(sizeof runs / sizeof runs[0]));
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
