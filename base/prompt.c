/* SPDX-License-Identifier: MIT */
/* The prompt of one batch (spec 05 sections 2-4): a system message that may carry references,
 * the earlier batches with the codes they returned, the batch to be spoken, and the opening of
 * the answer. Every part is tokenized alone. A text position is (id, 0, ..., 0); a frame c is
 * (semantic_begin + c[0], c[0], ..., c[N-1]). */
#include "base/prompt.h"
#include "base/tokenizer.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define START "<|im_start|>"
#define END   "<|im_end|>"
#define VOICE "<|voice|>"

/* Makes room for n more rows. */
static kvref_status reserve(kvref_frames *frames, size_t n, kvref_error *err)
{
    size_t cap = (size_t)frames->cap, need = (size_t)frames->n_frame + n;
    if (n > INT_MAX || need > INT_MAX)
        return kvref_fail(err, KVREF_E_MEMORY, "too many positions: %zu more", n);
    void *p = frames->value;
    kvref_status status =
        kvref_grow(&p, &cap, need, (size_t)frames->n_row * sizeof *frames->value, err);
    frames->value = p;
    frames->cap = cap > INT_MAX ? INT_MAX : (int)cap;
    return status;
}

/* The next row, for which there is room. */
static int32_t *next_row(kvref_frames *frames)
{
    return frames->value + (size_t)frames->n_frame++ * (size_t)frames->n_row;
}

kvref_status
kvref_frames_append(kvref_frames *frames, const int32_t *value, int n, kvref_error *err)
{
    assert(frames->n_row >= 1 && n >= 0);
    KVREF_TRY(reserve(frames, (size_t)n, err));
    size_t n_row = (size_t)frames->n_row;
    for (int t = 0; t < n; t++)
        memcpy(next_row(frames), value + (size_t)t * n_row, n_row * sizeof *value);
    return KVREF_OK;
}

void kvref_frames_clear(kvref_frames *frames)
{
    free(frames->value);
    *frames = (kvref_frames){0};
}

int kvref_prompt_limit(int max_seq_len)
{
    return max_seq_len - (max_seq_len / 2 < 2048 ? max_seq_len / 2 : 2048);
}

typedef struct builder {
    const kvref_prompt_in *in;
    kvref_frames *out;
    kvref_ids ids; /* of the part at hand */
    kvref_error *err;
} builder;

static kvref_status put_text(builder *b, const char *text, size_t n_byte, kvref_control control)
{
    size_t n_row = (size_t)b->out->n_row;
    b->ids.n = 0;
    KVREF_TRY(kvref_tokenize(b->in->tokenizer, &b->ids, text, n_byte, control, b->err));
    KVREF_TRY(reserve(b->out, b->ids.n, b->err));
    for (size_t i = 0; i < b->ids.n; i++) {
        if (b->ids.id[i] >= b->in->config->n_vocab)
            return kvref_fail(
                b->err,
                KVREF_E_ARG,
                "tokenizer: token id %d: expected below the model's vocabulary, %d",
                b->ids.id[i],
                b->in->config->n_vocab);
        int32_t *row = next_row(b->out);
        memset(row, 0, n_row * sizeof *row);
        row[0] = b->ids.id[i];
    }
    return KVREF_OK;
}

/* A part of the prompt's own, whose control tokens always count. */
static kvref_status put(builder *b, const char *text)
{
    return put_text(b, text, strlen(text), KVREF_CONTROL_HONOUR);
}

static kvref_status put_codes(builder *b, const kvref_codes *codes, const char *name)
{
    const kvref_config *config = b->in->config;
    size_t n_book = (size_t)config->n_codebook;
    KVREF_TRY(kvref_codes_check(codes, config->n_codebook, config->n_code, name, b->err));
    KVREF_TRY(reserve(b->out, (size_t)codes->n_frame, b->err));
    for (int t = 0; t < codes->n_frame; t++) {
        const int32_t *code = codes->code + (size_t)t * n_book;
        int32_t *row = next_row(b->out);
        row[0] = config->semantic_begin + code[0];
        memcpy(row + 1, code, n_book * sizeof *code);
    }
    return KVREF_OK;
}

/* The prompt cannot be written without these as single tokens. */
static kvref_status check_control(builder *b)
{
    static const char *const control[] = {START, END, VOICE};
    for (size_t i = 0; i < sizeof control / sizeof *control; i++) {
        b->ids.n = 0;
        KVREF_TRY(kvref_tokenize(b->in->tokenizer,
                                 &b->ids,
                                 control[i],
                                 strlen(control[i]),
                                 KVREF_CONTROL_HONOUR,
                                 b->err));
        if (b->ids.n != 1)
            return kvref_fail(
                b->err, KVREF_E_MISSING, "tokenizer: no added token \"%s\"", control[i]);
    }
    return KVREF_OK;
}

static kvref_status check_reference(builder *b, char name[32], int i)
{
    const kvref_reference *r = &b->in->reference[i];
    snprintf(name, 32, "reference %d", i);
    if (!r->codes || r->codes->n_frame < 1)
        return kvref_fail(b->err, KVREF_E_ARG, "%s: expected codes, found no frame", name);
    return kvref_text_check(r->text, r->n_byte, name, b->err);
}

/* All reference texts as one, each with a tag: its own anywhere, or one with its number. */
static kvref_status join_texts(builder *b, kvref_bytes *text)
{
    for (int i = 0; i < b->in->n_reference; i++) {
        const kvref_reference *r = &b->in->reference[i];
        char name[32], tag[32];
        size_t n_tag;
        KVREF_TRY(check_reference(b, name, i));
        if (i > 0) KVREF_TRY(kvref_bytes_append(text, "\n", 1, b->err));
        if (!kvref_speaker_tag(&n_tag, r->text, r->n_byte)) {
            snprintf(tag, sizeof tag, "<|speaker:%d|>", i);
            KVREF_TRY(kvref_bytes_append(text, tag, strlen(tag), b->err));
        }
        KVREF_TRY(kvref_bytes_append(text, r->text, r->n_byte, b->err));
    }
    return KVREF_OK;
}

static kvref_status put_references(builder *b)
{
    kvref_bytes text = {0};
    kvref_status status = join_texts(b, &text);
    if (status == KVREF_OK) status = put_text(b, text.data, text.n, b->in->control);
    free(text.data);
    KVREF_TRY(status);
    KVREF_TRY(put(b, "\n\nSpeech:\n"));
    for (int i = 0; i < b->in->n_reference; i++) {
        char name[32];
        snprintf(name, sizeof name, "reference %d", i);
        KVREF_TRY(put_codes(b, b->in->reference[i].codes, name));
    }
    return KVREF_OK;
}

static kvref_status put_system(builder *b)
{
    KVREF_TRY(put(b, START "system\n"));
    if (b->in->n_reference > 0) {
        KVREF_TRY(put(b,
                      "convert the provided text to speech reference to the following:"
                      "\n\nText:\n"));
        KVREF_TRY(put_references(b));
    } else {
        KVREF_TRY(put(b, "convert the provided text to speech"));
    }
    return put(b, END "\n");
}

static kvref_status put_user(builder *b, int batch)
{
    const kvref_texts *batches = b->in->batches;
    KVREF_TRY(put(b, START "user\n"));
    KVREF_TRY(put_text(b, batches->text[batch], batches->n_byte[batch], b->in->control));
    return put(b, END "\n");
}

static kvref_status build(builder *b)
{
    KVREF_TRY(check_control(b));
    KVREF_TRY(put_system(b));
    for (int i = 0; i < b->in->batch; i++) {
        char name[32];
        snprintf(name, sizeof name, "batch %d", i);
        KVREF_TRY(put_user(b, i));
        KVREF_TRY(put(b, START "assistant\n" VOICE));
        KVREF_TRY(put_codes(b, &b->in->done[i], name));
        KVREF_TRY(put(b, END "\n"));
    }
    KVREF_TRY(put_user(b, b->in->batch));
    return put(b, START "assistant\n" VOICE);
}

kvref_status kvref_prompt_build(kvref_frames *out, const kvref_prompt_in *in, kvref_error *err)
{
    int n_row = 1 + in->config->n_codebook, n_before = out->n_frame;
    if (in->batch < 0 || in->batch >= in->batches->n)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "batch: expected 0 to %d, found %d",
                          in->batches->n - 1,
                          in->batch);
    if (n_before > 0 && out->n_row != n_row)
        return kvref_fail(
            err, KVREF_E_ARG, "positions: expected %d rows, found %d", n_row, out->n_row);
    if (n_before == 0) {
        if (out->n_row != n_row) kvref_frames_clear(out); /* its room is for other rows */
        out->n_row = n_row;
    }
    builder b = {.in = in, .out = out, .err = err};
    kvref_status status = build(&b);
    if (status != KVREF_OK) out->n_frame = n_before;
    kvref_ids_clear(&b.ids);
    return status;
}
