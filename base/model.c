/* SPDX-License-Identifier: MIT */
/* Opens a checkpoint folder: config.json, tokenizer.json if there is one, weights.
 * The tokenizer rules over the token ids of the config (spec 01 R7): semantic ids are those of
 * <|semantic:0|> .. <|semantic:K-1|>, which must follow each other, and the end id is that of
 * <|im_end|>. Without a tokenizer the config's ids hold and must be consistent. */
#include "kvref/model.h"
#include "base/bind.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

struct kvref_model {
    kvref_config config;
    kvref_weights weights; /* views into file */
    kvref_tokenizer *tokenizer;
    kvref_file *file;
    int n_surplus;
};

/* Semantic ids of the tokenizer, in order and without a hole, as many as the config has codes.
 */
static kvref_status
take_semantic(kvref_config *c, const kvref_tokenizer *tok, const char *path, kvref_error *err)
{
    int32_t begin, end, count;
    kvref_tokenizer_semantic(tok, &begin, &end, &count);
    if (count != c->n_code)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: %d tokens <|semantic:N|>, expected codebook_size %d",
                          path,
                          (int)count,
                          c->n_code);
    for (int i = 0; i < c->n_code; i++) {
        char text[32];
        snprintf(text, sizeof text, "<|semantic:%d|>", i);
        int32_t id = kvref_tokenizer_id(tok, text);
        if (id != begin + i)
            return kvref_fail(err,
                              KVREF_E_FORMAT,
                              "%s: %s: expected id %d, found %d",
                              path,
                              text,
                              (int)begin + i,
                              (int)id);
    }
    c->semantic_begin = begin;
    c->semantic_end = end;
    return KVREF_OK;
}

static kvref_status
take_ids(kvref_config *c, const kvref_tokenizer *tok, const char *path, kvref_error *err)
{
    if (kvref_tokenizer_size(tok) > c->n_vocab)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: ids up to %d, expected below vocab_size %d",
                          path,
                          (int)kvref_tokenizer_size(tok) - 1,
                          c->n_vocab);
    KVREF_TRY(take_semantic(c, tok, path, err));
    c->im_end = kvref_tokenizer_id(tok, "<|im_end|>");
    if (c->im_end < 0) return kvref_fail(err, KVREF_E_MISSING, "%s: no token <|im_end|>", path);
    return KVREF_OK;
}

static kvref_status open_tokenizer(kvref_model *m, const char *dir, kvref_error *err)
{
    struct stat st;
    char *path = kvref_path_join(dir, "tokenizer.json");
    if (!path) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    kvref_status s = KVREF_OK;
    if (lstat(path, &st) == 0 || errno != ENOENT) { /* a link to nothing is there too */
        s = kvref_tokenizer_open(&m->tokenizer, path, err);
        if (s == KVREF_OK) s = take_ids(&m->config, m->tokenizer, path, err);
    }
    free(path);
    return s;
}

/* The ids that will be used, wherever they came from. */
static kvref_status check_ids(const kvref_config *c, const char *dir, kvref_error *err)
{
    if (c->semantic_end >= c->n_vocab || c->semantic_end - c->semantic_begin + 1 != c->n_code)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: semantic ids %d..%d, expected codebook_size %d ids below "
                          "vocab_size %d",
                          dir,
                          c->semantic_begin,
                          c->semantic_end,
                          c->n_code,
                          c->n_vocab);
    if (c->im_end >= c->n_vocab)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: end id %d, expected below vocab_size %d",
                          dir,
                          c->im_end,
                          c->n_vocab);
    return KVREF_OK;
}

static kvref_status
open_all(kvref_model *m, const char *dir, const kvref_log *log, kvref_error *err)
{
    KVREF_TRY(kvref_config_read(&m->config, dir, err));
    KVREF_TRY(open_tokenizer(m, dir, err));
    KVREF_TRY(check_ids(&m->config, dir, err));
    KVREF_TRY(kvref_file_open_dir(&m->file, dir, log, err));
    return kvref_weights_bind(&m->weights, &m->n_surplus, &m->config, m->file, dir, log, err);
}

kvref_status
kvref_model_open(kvref_model **out, const char *dir, const kvref_log *log, kvref_error *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    kvref_status s = open_all(*out, dir, log, err);
    if (s != KVREF_OK) kvref_model_close(out);
    return s;
}

const kvref_config *kvref_model_config(const kvref_model *model)
{
    return &model->config;
}

const kvref_weights *kvref_model_weights(const kvref_model *model)
{
    return &model->weights;
}

const kvref_tokenizer *kvref_model_tokenizer(const kvref_model *model)
{
    return model->tokenizer;
}

int kvref_model_surplus(const kvref_model *model)
{
    return model->n_surplus;
}

void kvref_model_close(kvref_model **model)
{
    kvref_model *m = *model;
    if (!m) return;
    kvref_weights_clear(&m->weights);
    kvref_file_close(&m->file);
    kvref_tokenizer_close(&m->tokenizer);
    free(m);
    *model = NULL;
}
