/* SPDX-License-Identifier: MIT */
#include "tests/fake.h"

#include "base/base.h"

#include "tests/support.h"

#include <math.h>
#include <string.h>

fake_run fake;

static kvref_status
slow(kvref_decoder *d, float *logits, const int32_t *frames, int n_frame, kvref_error *err)
{
    if (d->length + n_frame > d->capacity)
        return kvref_fail(err, KVREF_E_CAPACITY, "fake: position %d", d->length + n_frame);
    if (d->call + 1 == d->fail_call)
        return kvref_fail(err, d->fail_status, "fake: call %d failed", d->call);
    memcpy(d->fed[d->length], frames, sizeof d->fed[0] * (size_t)n_frame);
    d->length += n_frame;
    for (int i = 0; i < FAKE_A; i++) logits[i] = 0;
    logits[d->call < d->n_script ? d->script[d->call] : 1 + d->call % (FAKE_A - 1)] = d->lead;
    if (d->nan_at && d->call == d->nan_at) logits[3] = NAN;
    d->call++;
    d->n_slow++;
    d->book = 0;
    return KVREF_OK;
}

static kvref_status
fast(kvref_decoder *d, float *logits, int book, int32_t code, kvref_error *err)
{
    if (book != d->book + 1)
        return kvref_fail(err, KVREF_E_ARG, "fake: book %d after %d", book, d->book);
    d->book = book;
    d->fast_code[d->n_fast++] = code;
    for (int i = 0; i < FAKE_K; i++) logits[i] = 0;
    return KVREF_OK;
}

static kvref_status rewind_to(kvref_decoder *d, int pos, kvref_error *err)
{
    if (pos > d->length) return kvref_fail(err, KVREF_E_ARG, "fake: rewind to %d", pos);
    d->length = pos;
    if (pos == 0) d->call = d->n_fast = 0;
    d->n_rewind++;
    return KVREF_OK;
}

static int length(const kvref_decoder *d)
{
    return d->length;
}

static int capacity(const kvref_decoder *d)
{
    return d->capacity;
}

static kvref_kv_count kv_count(const kvref_decoder *d, int layer)
{
    uint64_t rows = (uint64_t)d->length * FAKE_G;
    return (kvref_kv_count){
        .k_rows = rows, .v_rows = rows, .bytes = rows * 8 + (uint64_t)layer};
}

static const kvref_backend *fake_backend(void)
{
    static const kvref_backend backend = {.name = "fake",
                                          .slow = slow,
                                          .fast = fast,
                                          .rewind = rewind_to,
                                          .length = length,
                                          .capacity = capacity,
                                          .kv_count = kv_count};
    return &backend;
}

void fake_begin(void)
{
    kvref_generated_clear(&fake.made);
    memset(&fake, 0, sizeof fake);
    fake.decoder.capacity = 64;
    fake.decoder.lead = 9;
    fake.config = (kvref_config){.model_type = "dual_ar",
                                 .slow = {.n_layer = FAKE_L, .n_kv_head = FAKE_G},
                                 .n_vocab = FAKE_V,
                                 .n_codebook = FAKE_N,
                                 .n_code = FAKE_K,
                                 .max_seq_len = 7, /* no part of any rule here */
                                 .semantic_begin = FAKE_BEGIN,
                                 .semantic_end = FAKE_BEGIN + FAKE_K - 1,
                                 .im_end = FAKE_END};
    for (int i = 0; i < FAKE_MOST * FAKE_ROW; i++) fake.prompt_value[i] = i % FAKE_K;
    fake.prompt = (kvref_frames){.n_row = FAKE_ROW, .n_frame = 5, .value = fake.prompt_value};
    fake.opts = (kvref_generate_opts){.sampling = {0, 0.9f, 30}};
}

void fake_script(const int *candidate, int n)
{
    fake.decoder.script = candidate;
    fake.decoder.n_script = n;
}

kvref_status fake_generate_from(kvref_noise *noise)
{
    kvref_generated_clear(&fake.made);
    return kvref_generate(fake_backend(),
                          &fake.decoder,
                          &fake.config,
                          &fake.made,
                          &fake.prompt,
                          noise,
                          &fake.opts,
                          &fake.err);
}

kvref_noise *fake_counter(uint64_t seed)
{
    kvref_noise *noise;
    must(kvref_noise_counter(&noise, seed, &fake.err), fake.err);
    return noise;
}

kvref_status fake_generate(uint64_t seed)
{
    kvref_noise *noise = fake_counter(seed);
    kvref_status status = fake_generate_from(noise);
    kvref_noise_close(&noise);
    return status;
}

int32_t fake_token(int f)
{
    return fake.made.frames.value[(size_t)f * FAKE_ROW];
}

void fake_expect(int n_frame, int n_code, kvref_stop stop)
{
    const kvref_generated *made = &fake.made;
    ck_assert_int_eq(made->frames.n_frame, n_frame);
    ck_assert_int_eq(made->frames.n_row, FAKE_ROW);
    ck_assert_int_eq(made->codes.n_frame, n_code);
    ck_assert_int_eq(made->codes.n_book, FAKE_N);
    ck_assert_int_eq(made->stop, stop);
    for (int f = 0; f < n_code; f++)
        for (int b = 0; b < FAKE_N; b++)
            ck_assert_int_eq(made->codes.code[f * FAKE_N + b],
                             made->frames.value[f * FAKE_ROW + 1 + b]);
}
