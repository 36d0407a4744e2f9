/* SPDX-License-Identifier: MIT */
/* What tests need to reach inside an FP16 decoder, for either build of gpu/. */
#ifndef KVREF_GPU_INSIDE_H
#define KVREF_GPU_INSIDE_H

#include "kvref/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens on a config and weights from anywhere; weights are borrowed, config is copied. */
kvref_status kvref_cudacpu_open(kvref_decoder **out,
                                const kvref_config *config,
                                const kvref_weights *weights,
                                const kvref_decoder_opts *opts,
                                kvref_error *err);
kvref_status kvref_cuda_open(kvref_decoder **out,
                             const kvref_config *config,
                             const kvref_weights *weights,
                             const kvref_decoder_opts *opts,
                             kvref_error *err);

/* Whether the fast transformer takes positions 0 and 1 in two passes of one row instead of one
 * of two. To be set before the first frame. */
void kvref_cudacpu_ten_passes(kvref_decoder *d, bool on);
void kvref_cuda_ten_passes(kvref_decoder *d, bool on);

/* Device address and size of the K or V cache [L, G, C, pad(E)] of a transformer. */
uint16_t *kvref_cudacpu_cache(kvref_decoder *d, bool fast, bool value, size_t *n_byte);
uint16_t *kvref_cuda_cache(kvref_decoder *d, bool fast, bool value, size_t *n_byte);

/* Device address, name and size of buffer i of the decoder, NULL after the last. Names of
 * weights begin with "weights ", the others say what they hold. */
void *kvref_cudacpu_buffer(kvref_decoder *d, size_t i, const char **name, size_t *n_byte);
void *kvref_cuda_buffer(kvref_decoder *d, size_t i, const char **name, size_t *n_byte);

#ifdef __cplusplus
}
#endif
#endif
