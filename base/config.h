/* SPDX-License-Identifier: MIT */
/* config.json as read, before defaults depend on each other: fields.c fills it, config.c
 * turns it into a kvref_config. */
#ifndef KVREF_BASE_CONFIG_H
#define KVREF_BASE_CONFIG_H

#include "base/json.h"

/* A value that is absent and takes its default from another one. */
enum { KVREF_UNSET = -2 };

enum {
    KVREF_CFG_VOCAB,
    KVREF_CFG_LAYER,
    KVREF_CFG_HEAD,
    KVREF_CFG_KV_HEAD,
    KVREF_CFG_HEAD_DIM,
    KVREF_CFG_DIM,
    KVREF_CFG_FF,
    KVREF_CFG_SEQ,
    KVREF_CFG_CODE,
    KVREF_CFG_BOOK,
    KVREF_CFG_FAST_LAYER,
    KVREF_CFG_FAST_DIM,
    KVREF_CFG_FAST_HEAD,
    KVREF_CFG_FAST_KV_HEAD,
    KVREF_CFG_FAST_HEAD_DIM,
    KVREF_CFG_FAST_FF,
    KVREF_CFG_SEM_BEGIN,
    KVREF_CFG_SEM_END,
    KVREF_CFG_N_INT
};

enum {
    KVREF_CFG_TIED,
    KVREF_CFG_QKV_BIAS,
    KVREF_CFG_O_BIAS,
    KVREF_CFG_QK_NORM,
    KVREF_CFG_FAST_QKV_BIAS,
    KVREF_CFG_FAST_O_BIAS,
    KVREF_CFG_FAST_QK_NORM,
    KVREF_CFG_SCALE,
    KVREF_CFG_FAST_NORM,
    KVREF_CFG_N_FLAG
};

typedef struct kvref_fields {
    const char *file; /* for messages */
    const json_t *top;
    bool nested;                 /* "fish_qwen3_omni"        */
    int number[KVREF_CFG_N_INT]; /* KVREF_UNSET: derive      */
    int flag[KVREF_CFG_N_FLAG];  /* the same, or 0, 1        */
    int eos;                     /* eos_token_id; -1: none   */
    float rope_base, norm_eps;
} kvref_fields;

/* Reads every field of f->top by the form f->nested; each value is in its range then. */
kvref_status kvref_fields_read(kvref_fields *f, kvref_error *err);

#endif
