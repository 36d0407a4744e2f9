/* SPDX-License-Identifier: MIT */
/* Text to batches, and batches to the matrix of positions a decoder is fed (spec 05). */
#ifndef KVREF_PROMPT_H
#define KVREF_PROMPT_H

#include "kvref/file.h"
#include "kvref/model.h"
#include "kvref/status.h"
#include "kvref/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Input positions, time-major: value[t * n_row + r], row 0 the token id, rows 1..N the codes.
 * The same layout holds generated frames. Start from {0}; free with kvref_frames_clear. */
typedef struct kvref_frames {
    int n_row; /* 1 + N */
    int n_frame;
    int cap;
    int32_t *value; /* [n_frame, n_row] */
} kvref_frames;

/* Appends n rows; grows as needed. Errors: MEMORY. */
kvref_status
kvref_frames_append(kvref_frames *frames, const int32_t *value, int n, kvref_error *err);
void kvref_frames_clear(kvref_frames *frames);

/* A list of UTF-8 strings, each NUL-terminated as well. */
typedef struct kvref_texts {
    char **text;
    size_t *n_byte;
    int n;
} kvref_texts;

/* Cuts a text into batches by speaker tags: at most 5 turns, at most chunk_length bytes;
 * untagged text is one batch, unchanged (spec 05 section 1). A tag's digits are ASCII. dropped
 * (may be NULL) receives the number of bytes before the first tag that are left out. *out is
 * overwritten. Errors: FORMAT (UTF-8), ARG (over 256 MB), MEMORY. */
kvref_status kvref_prompt_split(kvref_texts *out,
                                size_t *dropped,
                                const char *text,
                                size_t n_byte,
                                int chunk_length,
                                kvref_error *err);
void kvref_texts_clear(kvref_texts *texts);

typedef struct kvref_reference {
    const char *text;
    size_t n_byte;
    const kvref_codes *codes; /* [n_frame, N] */
} kvref_reference;

typedef struct kvref_prompt_in {
    const kvref_tokenizer *tokenizer;
    const kvref_config *config;
    const kvref_reference *reference;
    int n_reference;
    const kvref_texts *batches; /* all batches of the text                              */
    const kvref_codes *done;    /* [batch]: codes that batches 0..batch-1 returned      */
    int batch;                  /* the batch to be spoken next                          */
    kvref_control control;      /* for user and reference text; the frame of the prompt
                                   always uses its control tokens                       */
} kvref_prompt_in;

/* Builds the whole prompt of one batch (spec 05 sections 2-4). Appends to *out, whose n_row is
 * set; on failure *out keeps its frames. Errors: FORMAT (UTF-8), ARG (codes out of range, wrong
 * number of books, a reference without frames, an id beyond the model's vocabulary), MISSING (a
 * control token the tokenizer does not have), MEMORY. */
kvref_status kvref_prompt_build(kvref_frames *out, const kvref_prompt_in *in, kvref_error *err);

/* Longest prompt allowed for max_seq_len: max_seq_len - min(2048, max_seq_len / 2)
 * (spec 07 no. 44). */
int kvref_prompt_limit(int max_seq_len);

#ifdef __cplusplus
}
#endif
#endif
