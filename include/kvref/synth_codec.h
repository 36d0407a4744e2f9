/* SPDX-License-Identifier: MIT */
/* Synthetic codecs: weights by formula (spec appendix-golden) in the names and shapes of spec
 * 06 section 8, in both file forms. */
#ifndef KVREF_SYNTH_CODEC_H
#define KVREF_SYNTH_CODEC_H

#include "kvref/file.h"
#include "kvref/status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes that may vary; kernels are 7 and 2 strides, codebook entries 8 wide, blocks 4, stages 2
 * of stride 2. */
typedef struct kvref_codec_dims {
    int encoder_dim, decoder_dim, latent_dim;
    int encoder_strides[4], decoder_strides[4];
    int n_layer,
        n_encoder_layer; /* of pre_module and post_module; of the encoder transformer */
    int d_ff, encoder_d_ff;
    int n_semantic, n_book, n_code; /* entries of book 0; books behind it and their entries */
    int head_dim, window, encoder_window;
} kvref_codec_dims;

/* The real codec: 391,430,530 parameters, 1.57 GB. */
kvref_codec_dims kvref_codec_dims_real(void);

/* A toy: real strides and windows, 4 books, a few hundred thousand parameters. */
kvref_codec_dims kvref_codec_dims_toy(void);

typedef struct kvref_synth_codec_opts {
    bool pth;      /* a torch archive instead of safetensors                           */
    int dead_rows; /* rows of the ignored buffers (0: none); real files have 4096,
                      and 16384 in the encoder                                         */
    int (*progress)(void *user, uint64_t done, uint64_t total); /* bytes; may be NULL    */
    void *user;
} kvref_synth_codec_opts;

/* Writes dir/codec.pth or dir/codec.safetensors, and dir/codec.json where the dims are not
 * what a reader takes for granted. dir must exist. Files appear complete or not at all.
 * Errors: ARG (sizes), IO, MEMORY, STOPPED (progress returned non-zero). */
kvref_status kvref_synth_codec_write(const char *dir,
                                     const kvref_codec_dims *dims,
                                     const kvref_synth_codec_opts *opts,
                                     kvref_error *err);

/* The tensors in the order of names, without the ignored buffers: name, dtype F32 and shape.
 * Names live in the list; free both by kvref_synth_codec_free. */
typedef struct kvref_synth_codec_list {
    kvref_tensor *tensor;
    char **name;
    int n;
} kvref_synth_codec_list;

kvref_status kvref_synth_codec_tensors(kvref_synth_codec_list *out,
                                       const kvref_codec_dims *dims,
                                       int dead_rows,
                                       kvref_error *err);
void kvref_synth_codec_free(kvref_synth_codec_list *list);

#ifdef __cplusplus
}
#endif
#endif
