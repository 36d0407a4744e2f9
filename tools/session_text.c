/* SPDX-License-Identifier: MIT */
/* Text and references of the command line, and the prompts made of them (spec 05). */
#include "base/base.h"
#include "tools/session.h"
#include "tools/term.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Far above any text that fits a context, and small enough for any machine. */
enum { MAX_TEXT = 64 << 20 };

kvref_status session_check_text(const text_args *t, kvref_error *err)
{
    if (!t->text == !t->text_file)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "--text and --text-file: expected exactly one of them, found %s",
                          t->text ? "both" : "neither");
    if (t->reference_text.n != t->reference.n)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "--reference-text: expected one for each reference, found %d for %d",
                          t->reference_text.n,
                          t->reference.n);
    return KVREF_OK;
}

/* All bytes up to the end of the file, and a NUL after them. */
static kvref_status
read_all(char **out, size_t *n_byte, int fd, const char *name, kvref_error *err)
{
    void *data = NULL;
    size_t cap = 0, n = 0;
    kvref_status s = KVREF_OK;
    ssize_t got = 1;
    while (s == KVREF_OK && got != 0) {
        s = kvref_grow(&data, &cap, n + 65536, 1, err);
        got = s == KVREF_OK ? read(fd, (char *)data + n, cap - n - 1) : 0;
        if (got < 0 && errno != EINTR)
            s = kvref_fail(err, KVREF_E_IO, "%s: cannot read: %s", name, strerror(errno));
        if (got > 0) n += (size_t)got;
        if (n > MAX_TEXT)
            s = kvref_fail(err,
                           KVREF_E_ARG,
                           "%s: expected a text of at most %d bytes, found more",
                           name,
                           MAX_TEXT);
    }
    if (s != KVREF_OK) {
        free(data);
        return s;
    }
    ((char *)data)[n] = 0;
    *out = data;
    *n_byte = n;
    return KVREF_OK;
}

static kvref_status read_text(char **out, size_t *n_byte, const text_args *t, kvref_error *err)
{
    if (t->text) {
        *out = strdup(t->text);
        *n_byte = strlen(t->text);
        return *out ? KVREF_OK : kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    }
    if (strcmp(t->text_file, "-") == 0)
        return read_all(out, n_byte, STDIN_FILENO, "standard input", err);
    int fd = open(t->text_file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kvref_fail(
            err, KVREF_E_IO, "--text-file: \"%s\": %s", t->text_file, strerror(errno));
    kvref_status s = read_all(out, n_byte, fd, t->text_file, err);
    close(fd);
    return s;
}

static kvref_status read_references(session *s, const text_args *t, kvref_error *err)
{
    size_t n = (size_t)t->reference_text.n;
    if (n == 0) return KVREF_OK;
    s->reference = calloc(n, sizeof *s->reference);
    s->reference_codes = calloc(n, sizeof *s->reference_codes);
    if (!s->reference || !s->reference_codes)
        return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    for (int i = 0; i < (int)n; i++) {
        const char *path = t->reference.item[i];
        kvref_codes *codes = &s->reference_codes[i];
        bool sound = strcmp(t->reference.by[i], "reference") == 0;
        KVREF_TRY(check_not_dash(sound ? "--reference" : "--reference-codes", path, err));
        const kvref_config *c = s->config;
        kvref_status read =
            sound ? s->encode(s->encode_user, codes, path, err)
                  : kvref_codes_read(codes, path, c->n_codebook, c->max_seq_len, err);
        KVREF_TRY(blame(sound ? "--reference" : "--reference-codes", read, err));
        s->n_reference = i + 1;
        KVREF_TRY(
            kvref_codes_check(codes, s->config->n_codebook, s->config->n_code, path, err));
        s->reference[i].text = t->reference_text.item[i];
        s->reference[i].n_byte = strlen(t->reference_text.item[i]);
        s->reference[i].codes = codes;
    }
    return KVREF_OK;
}

static void note_blank(const session *s, size_t n_byte)
{
    kvref_log always = term_notes(s->command);
    if (strspn(s->text, " \t\r\n\v\f") == n_byte) kvref_note(&always, "the text is blank");
}

kvref_status session_text(session *s, const text_args *t, kvref_error *err)
{
    size_t n_byte, dropped = 0;
    if (!kvref_model_tokenizer(s->model))
        return kvref_fail(err,
                          KVREF_E_MISSING,
                          "%s: expected tokenizer.json to read a text with, found none",
                          s->decoder_args->model);
    s->control = (kvref_control)t->control;
    s->text_args = t;
    KVREF_TRY(read_text(&s->text, &n_byte, t, err));
    note_blank(s, n_byte);
    KVREF_TRY(
        blame(t->text ? "--text" : t->text_file,
              kvref_prompt_split(&s->batches, &dropped, s->text, n_byte, t->chunk_length, err),
              err));
    if (dropped)
        kvref_note(&s->log, "%zu bytes before the first speaker tag are left out", dropped);
    return read_references(s, t, err);
}

static kvref_status
check_length(const session *s, int batch, int64_t n, const char *when, kvref_error *err)
{
    int all = s->config->max_seq_len, limit = kvref_prompt_limit(all);
    if (n <= limit) return KVREF_OK;
    return kvref_fail(err,
                      KVREF_E_CAPACITY,
                      "prompt of batch %d of %d: expected at most %d positions (max_seq_len %d "
                      "leaves %s for speech), found %lld%s",
                      batch,
                      s->batches.n,
                      limit,
                      all,
                      all / 2 < 2048 ? "half of it" : "2048",
                      (long long)n,
                      when);
}

kvref_status session_prompt(
    session *s, kvref_frames *out, const kvref_codes *done, int batch, kvref_error *err)
{
    kvref_prompt_in in = {
        .tokenizer = kvref_model_tokenizer(s->model),
        .config = s->config,
        .reference = s->reference,
        .n_reference = s->n_reference,
        .batches = &s->batches,
        .done = done,
        .batch = batch,
        .control = s->control,
    };
    KVREF_TRY(kvref_prompt_build(out, &in, err));
    return check_length(s, batch, out->n_frame, "", err);
}

static kvref_status count_tokens(int64_t *n, const session *s, int batch, kvref_error *err)
{
    kvref_ids ids = {0};
    kvref_status status = kvref_tokenize(kvref_model_tokenizer(s->model),
                                         &ids,
                                         s->batches.text[batch],
                                         s->batches.n_byte[batch],
                                         s->control,
                                         err);
    *n = (int64_t)ids.n;
    kvref_ids_clear(&ids);
    return status;
}

/* Positions of the prompt of batch 0 or 1 when batch 0 has no codes. */
static kvref_status bare_length(int64_t *n, session *s, int batch, kvref_error *err)
{
    const kvref_codes none = {.n_book = s->config->n_codebook};
    kvref_frames prompt = {0};
    kvref_status status = session_prompt(s, &prompt, &none, batch, err);
    *n = prompt.n_frame;
    kvref_frames_clear(&prompt);
    return status;
}

/* A batch adds its tokens and a frame of the same length around them. */
kvref_status session_check_fit(session *s, kvref_error *err)
{
    int64_t first, second, token, sum;
    KVREF_TRY(bare_length(&first, s, 0, err));
    if (s->batches.n < 2) return KVREF_OK;
    KVREF_TRY(bare_length(&second, s, 1, err));
    KVREF_TRY(count_tokens(&token, s, 1, err));
    int64_t around = second - first - token;
    sum = second;
    for (int b = 2; b < s->batches.n; b++) {
        KVREF_TRY(count_tokens(&token, s, b, err));
        sum += around + token;
        KVREF_TRY(check_length(s, b, sum, " before any speech", err));
    }
    return KVREF_OK;
}
