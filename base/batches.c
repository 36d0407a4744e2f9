/* SPDX-License-Identifier: MIT */
/* Text to batches (spec 05 section 1). A turn is a speaker tag, "<|speaker:" digits "|>", with
 * everything up to the next tag, less the white space at its end. A batch takes turns until it
 * holds five, or until the next would raise its turns above chunk_length bytes. Digits are
 * ASCII digits. */
#include "base/prompt.h"
#include "base/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define MAX_TURN 5

static const char tag_head[] = "<|speaker:", tag_tail[] = "|>";

const char *kvref_speaker_tag(size_t *n_tag, const char *text, size_t n_byte)
{
    if (n_byte == 0) return NULL;
    const char *end = text + n_byte, *at = text;
    const size_t n_head = sizeof tag_head - 1, n_tail = sizeof tag_tail - 1;
    while ((at = memmem(at, (size_t)(end - at), tag_head, n_head))) {
        const char *digit = at + n_head, *stop = digit;
        while (stop < end && *stop >= '0' && *stop <= '9') stop++;
        if (stop > digit && (size_t)(end - stop) >= n_tail && !memcmp(stop, tag_tail, n_tail)) {
            *n_tag = (size_t)(stop - at) + n_tail;
            return at;
        }
        at = stop;
    }
    return NULL;
}

/* White space as Python's str.strip knows it. */
static bool is_space(int32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

/* Length of valid UTF-8 without the white space at its end. */
static size_t stripped(const char *text, size_t n_byte)
{
    for (size_t end = n_byte; end > 0; end = n_byte) {
        utf8proc_int32_t c;
        do end--;
        while (((unsigned char)text[end] & 0xc0) == 0x80);
        utf8proc_iterate(
            (const utf8proc_uint8_t *)text + end, (utf8proc_ssize_t)(n_byte - end), &c);
        if (!is_space(c)) break;
        n_byte = end;
    }
    return n_byte;
}

/* The batch being filled and the list it goes to. */
typedef struct filler {
    kvref_texts *out;
    size_t cap_text, cap_size;
    kvref_bytes now;
    int n_turn;
    size_t n_turn_byte; /* of the turns, without the newlines between them */
} filler;

static kvref_status finish_batch(filler *f, kvref_error *err)
{
    kvref_texts *out = f->out;
    size_t need = (size_t)out->n + 1;
    void *text = out->text, *size = out->n_byte;
    kvref_status status = kvref_grow(&text, &f->cap_text, need, sizeof *out->text, err);
    if (status == KVREF_OK)
        status = kvref_grow(&size, &f->cap_size, need, sizeof *out->n_byte, err);
    out->text = text;
    out->n_byte = size;
    KVREF_TRY(status);
    out->text[out->n] = f->now.data;
    out->n_byte[out->n++] = f->now.n;
    f->now = (kvref_bytes){0};
    f->n_turn = 0;
    f->n_turn_byte = 0;
    return KVREF_OK;
}

static kvref_status
add_turn(filler *f, const char *text, size_t n_byte, int chunk_length, kvref_error *err)
{
    if (f->n_turn == MAX_TURN ||
        (f->n_turn > 0 && (int64_t)(f->n_turn_byte + n_byte) > chunk_length))
        KVREF_TRY(finish_batch(f, err));
    if (f->n_turn > 0) KVREF_TRY(kvref_bytes_append(&f->now, "\n", 1, err));
    f->n_turn++;
    f->n_turn_byte += n_byte;
    return kvref_bytes_append(&f->now, text, n_byte, err);
}

/* Cuts text, which begins with a tag of n_tag bytes. */
static kvref_status add_turns(filler *f,
                              const char *text,
                              size_t n_byte,
                              size_t n_tag,
                              int chunk_length,
                              kvref_error *err)
{
    const char *end = text + n_byte;
    while (text) {
        const char *body = text + n_tag;
        const char *next = kvref_speaker_tag(&n_tag, body, (size_t)(end - body));
        size_t n = stripped(text, (size_t)((next ? next : end) - text));
        KVREF_TRY(add_turn(f, text, n, chunk_length, err));
        text = next;
    }
    return KVREF_OK;
}

kvref_status kvref_prompt_split(kvref_texts *out,
                                size_t *dropped,
                                const char *text,
                                size_t n_byte,
                                int chunk_length,
                                kvref_error *err)
{
    *out = (kvref_texts){0};
    if (dropped) *dropped = 0;
    KVREF_TRY(kvref_text_check(text, n_byte, "text", err));
    size_t n_tag = 0;
    const char *tag = kvref_speaker_tag(&n_tag, text, n_byte);
    filler f = {.out = out};
    kvref_status status =
        tag ? add_turns(&f, tag, n_byte - (size_t)(tag - text), n_tag, chunk_length, err)
            : kvref_bytes_append(&f.now, text, n_byte, err);
    if (status == KVREF_OK) status = finish_batch(&f, err);
    if (status != KVREF_OK) {
        free(f.now.data);
        kvref_texts_clear(out);
    } else if (dropped && tag) {
        *dropped = (size_t)(tag - text);
    }
    return status;
}

void kvref_texts_clear(kvref_texts *texts)
{
    for (int i = 0; i < texts->n; i++) free(texts->text[i]);
    free(texts->text);
    free(texts->n_byte);
    *texts = (kvref_texts){0};
}
