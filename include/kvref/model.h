/* SPDX-License-Identifier: MIT */
/* The one model loader: config.json, tokenizer and weights of a checkpoint directory.
 *
 * Axis letters used everywhere (upper case extent, lower case index):
 *   T query rows            P rows already cached     C cache capacity
 *   D model width           H query heads             G key/value heads
 *   E head width            F feed-forward width      V vocabulary
 *   N codebooks             K codes per codebook      L layers
 *   A main-token candidates (semantic ids and the end id, ascending) */
#ifndef KVREF_MODEL_H
#define KVREF_MODEL_H

#include "kvref/file.h"
#include "kvref/status.h"
#include "kvref/tokenizer.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes of one of the two transformers (spec 01 section 2). */
typedef struct kvref_stack {
    int n_layer;   /* L */
    int d_model;   /* D */
    int n_head;    /* H */
    int n_kv_head; /* G, divides H */
    int d_head;    /* E, even; need not be D / H */
    int d_ff;      /* F */
    bool qkv_bias, o_bias, qk_norm;
} kvref_stack;

typedef struct kvref_config {
    char model_type[24]; /* "fish_qwen3_omni" or "dual_ar" */
    kvref_stack slow, fast;
    int n_vocab;     /* V */
    int n_codebook;  /* N */
    int n_code;      /* K, codebook_size */
    int max_seq_len; /* positions the model was made for */
    float rope_base, norm_eps;
    bool tie_word_embeddings;
    bool scale_codebook_embeddings;
    bool norm_fastlayer_input;
    int semantic_begin, semantic_end; /* inclusive; end - begin + 1 = n_code */
    int im_end;                       /* -1: not known (no tokenizer, no eos_token_id) */
} kvref_config;

/* Reads config.json (path may be the file or its directory). Applies every default and rule
 * of spec 01 section 2, and checks them: the result is usable without further checks, apart
 * from the three token ids, which a tokenizer may still replace.
 * Errors: IO, MISSING, FORMAT (which key, expected, found), UNSUPPORTED. */
kvref_status kvref_config_read(kvref_config *out, const char *path, kvref_error *err);

/* The same from JSON text; name is used in messages. */
kvref_status kvref_config_parse(
    kvref_config *out, const char *json, size_t n_byte, const char *name, kvref_error *err);

/* Main-token candidates in ascending id order: semantic ids and im_end, without repetition.
 * Writes min(n, max) ids, returns n (spec 04 section 1). */
int kvref_config_candidates(const kvref_config *config, int32_t *id, int max);

/* A matrix in checkpoint dtype (F32, F16 or BF16), row-major [n_row, n_col]; a vector has one
 * row. data NULL: absent. Any alignment. */
typedef struct kvref_weight {
    const void *data;
    kvref_dtype dtype;
    int n_row, n_col;
} kvref_weight;

typedef struct kvref_layer {
    kvref_weight attn_norm;      /* [D]                                            */
    kvref_weight wq, wk, wv;     /* [H*E, D], [G*E, D], [G*E, D]: views of a fused
                                    wqkv, or three tensors                         */
    kvref_weight bq, bk, bv;     /* [H*E], [G*E], [G*E]; absent without qkv_bias   */
    kvref_weight q_norm, k_norm; /* [E]; absent without qk_norm                    */
    kvref_weight wo;             /* [D, H*E]                                       */
    kvref_weight bo;             /* [D]; absent without o_bias                     */
    kvref_weight ffn_norm;       /* [D]                                            */
    kvref_weight w1, w3;         /* [F, D] gate and up                             */
    kvref_weight w2;             /* [D, F]                                         */
} kvref_layer;

typedef struct kvref_weights {
    kvref_weight embed;          /* [V, D]                                  */
    kvref_weight codebook_embed; /* [N*K, D], row of book b, code c: b*K+c  */
    kvref_layer *slow;           /* [slow.n_layer]                          */
    kvref_weight norm;           /* [D]                                     */
    kvref_weight head;           /* [V, D]; embed itself when tied          */
    kvref_weight fast_in;        /* [D', D]; absent when D' = D             */
    kvref_weight fast_in_bias;   /* [D']                                    */
    kvref_weight fast_embed;     /* [K, D']                                 */
    kvref_layer *fast;           /* [fast.n_layer]                          */
    kvref_weight fast_norm;      /* [D']                                    */
    kvref_weight fast_head;      /* [K, D']                                 */
} kvref_weights;

typedef struct kvref_model kvref_model;

/* Opens a checkpoint directory: config, tokenizer.json if present (its ids then replace the
 * config's, spec 01 R7), weights. Weights are never copied to float32: they stay in the
 * read-only mapping (a non-contiguous .pth tensor is gathered once, in its own dtype).
 * log (may be NULL) hears of surplus tensors. Errors: every kind, naming file, tensor,
 * expected and found. On failure *out is NULL. */
kvref_status
kvref_model_open(kvref_model **out, const char *dir, const kvref_log *log, kvref_error *err);

const kvref_config *kvref_model_config(const kvref_model *model);
const kvref_weights *kvref_model_weights(const kvref_model *model);

/* NULL when the directory has no tokenizer.json. */
const kvref_tokenizer *kvref_model_tokenizer(const kvref_model *model);

/* Surplus tensors that were ignored. */
int kvref_model_surplus(const kvref_model *model);

void kvref_model_close(kvref_model **model);

/* One row of the tensor table that a config demands; also what kvref_synth writes. */
typedef struct kvref_tensor_spec {
    char name[96]; /* internal name, spec 01 section 3.1 */
    int n_dim;
    int64_t dim[2];
} kvref_tensor_spec;

/* Lists the tensors a config demands, in file order, fused wqkv. Writes min(n, max), returns
 * n. spec may be NULL when max is 0. */
int kvref_config_tensors(const kvref_config *config, kvref_tensor_spec *spec, int max);

#ifdef __cplusplus
}
#endif
#endif
