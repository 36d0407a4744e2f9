/* SPDX-License-Identifier: MIT */
/* A small checkpoint folder whose tensors a test may change before they are written.
 * Element i of the tensor with number t of the list holds t * 65536 + i in float32. */
#ifndef KVREF_TESTS_CHECKPOINT_H
#define KVREF_TESTS_CHECKPOINT_H

#include "kvref/model.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct checkpoint {
    char dir[512];
    kvref_config config;
    kvref_tensor tensor[80];
    char name[80][128];
    int tag[80]; /* t above */
    int n;
} checkpoint;

/* Everything that a config can ask for: biases, norms, an untied head, a projection. */
static const char full_config[] =
    "{\"model_type\":\"dual_ar\",\"vocab_size\":100,\"n_layer\":2,\"n_head\":4,"
    "\"n_local_heads\":2,\"head_dim\":6,\"dim\":20,\"intermediate_size\":28,"
    "\"max_seq_len\":32,\"tie_word_embeddings\":false,\"attention_qkv_bias\":true,"
    "\"attention_o_bias\":true,\"attention_qk_norm\":true,\"codebook_size\":16,"
    "\"num_codebooks\":3,\"n_fast_layer\":1,\"fast_dim\":12,\"fast_n_head\":3,"
    "\"fast_n_local_heads\":1,\"fast_head_dim\":8,\"fast_intermediate_size\":10,"
    "\"semantic_begin_id\":40,\"semantic_end_id\":55,\"eos_token_id\":60}";

/* The least: tied, no biases, no norms, equal widths. */
static const char plain_config[] =
    "{\"model_type\":\"dual_ar\",\"vocab_size\":100,\"n_layer\":1,\"n_head\":2,"
    "\"head_dim\":4,\"dim\":10,\"intermediate_size\":14,\"max_seq_len\":32,"
    "\"codebook_size\":16,\"num_codebooks\":3,\"n_fast_layer\":1,"
    "\"semantic_begin_id\":40,\"semantic_end_id\":55}";

static inline void checkpoint_add(checkpoint *c, const char *name, int n_dim, int a, int b)
{
    kvref_tensor *t = &c->tensor[c->n];
    ck_assert_int_lt(c->n, 80);
    snprintf(c->name[c->n], sizeof c->name[0], "%.120s", name);
    *t = (kvref_tensor){.dtype = KVREF_F32, .n_dim = n_dim, .dim = {a, b}};
    c->tag[c->n] = c->n;
    c->n++;
}

static inline checkpoint *checkpoint_new(const char *config)
{
    static checkpoint pool[8]; /* never freed: a test has fewer at a time */
    static int serial;
    checkpoint *c = &pool[serial % 8];
    *c = (checkpoint){0};
    kvref_tensor_spec spec[80];
    kvref_error err;
    snprintf(c->dir, sizeof c->dir, "%s/%d-%d", support_temp_dir(), getpid(), serial++);
    ck_assert_int_eq(mkdir(c->dir, 0777), 0);
    must(kvref_config_parse(&c->config, config, strlen(config), "config", &err), err);
    support_write(support_path(c->dir, "config.json"), config, strlen(config));
    int n = kvref_config_tensors(&c->config, spec, 80);
    for (int i = 0; i < n; i++)
        checkpoint_add(
            c, spec[i].name, spec[i].n_dim, (int)spec[i].dim[0], (int)spec[i].dim[1]);
    return c;
}

/* Index of a tensor in the list. */
static inline int checkpoint_find(const checkpoint *c, const char *name)
{
    for (int i = 0; i < c->n; i++) {
        if (strcmp(c->name[i], name) == 0) return i;
    }
    ck_abort_msg("no tensor %s in the test", name);
    return -1;
}

static inline void checkpoint_drop(checkpoint *c, int i)
{
    c->n--;
    memmove(&c->tensor[i], &c->tensor[i + 1], (size_t)(c->n - i) * sizeof c->tensor[0]);
    memmove(&c->name[i], &c->name[i + 1], (size_t)(c->n - i) * sizeof c->name[0]);
    memmove(&c->tag[i], &c->tag[i + 1], (size_t)(c->n - i) * sizeof c->tag[0]);
}

/* Writes model.safetensors. */
static inline void checkpoint_write(checkpoint *c)
{
    kvref_writer *w;
    kvref_error err;
    const char *path = support_path(c->dir, "model.safetensors");
    for (int i = 0; i < c->n; i++) c->tensor[i].name = c->name[i];
    must(kvref_writer_open(&w, path, c->tensor, c->n, NULL, 0, &err), err);
    for (int i = 0; i < c->n; i++) {
        const kvref_tensor *t = &c->tensor[i];
        size_t n = kvref_dtype_size(t->dtype);
        for (int d = 0; d < t->n_dim; d++) n *= (size_t)t->dim[d];
        float *x = malloc(n + 4);
        for (size_t k = 0; k < n / 4 + 1; k++) x[k] = (float)(c->tag[i] * 65536 + (int)k);
        must(kvref_writer_put(w, x, n, &err), err);
        free(x);
    }
    must(kvref_writer_commit(&w, &err), err);
}

/* Writes and opens; the error record of a failure is *err. */
static inline kvref_status
checkpoint_open(checkpoint *c, kvref_model **m, const kvref_log *log, kvref_error *err)
{
    checkpoint_write(c);
    return kvref_model_open(m, c->dir, log, err);
}

#endif
