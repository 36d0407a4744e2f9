/* SPDX-License-Identifier: MIT */
/* Synthetic checkpoints: weights by formula (spec appendix-golden), official file layouts. */
#ifndef KVREF_SYNTH_H
#define KVREF_SYNTH_H

#include "kvref/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* mix(name, i) and FNV-1a of the appendix. */
uint32_t kvref_synth_fnv(const char *name);
uint32_t kvref_synth_mix(uint32_t fnv, uint32_t i);

/* Values first..first+n-1 of the tensor of that name and shape. Exact in BF16, F16 and F32. */
void kvref_synth_fill(
    float *x, const char *name, const int64_t *dim, int n_dim, uint64_t first, size_t n);

typedef struct kvref_synth_opts {
    kvref_dtype dtype; /* F32, F16 or BF16                                            */
    bool nested;       /* fish_qwen3_omni config and names, else dual_ar              */
    bool split_qkv;    /* wq, wk, wv instead of wqkv; with biases, those too          */
    int n_shard;       /* 1: model.safetensors; more: shards and an index             */
    bool tokenizer;    /* write tokenizer.json whose ids agree with the config        */
    int (*progress)(void *user, uint64_t done, uint64_t total); /* bytes; may be NULL */
    void *user;
} kvref_synth_opts;

/* Writes config.json, weights and tokenizer into dir, which must exist or be creatable and
 * must not already hold a checkpoint. Each file appears complete or not at all. */
kvref_status kvref_synth_write(const char *dir,
                               const kvref_config *config,
                               const kvref_synth_opts *opts,
                               kvref_error *err);

#ifdef __cplusplus
}
#endif
#endif
