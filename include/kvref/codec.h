/* SPDX-License-Identifier: MIT */
/* The audio codec in float32 on the CPU: codes to samples and samples to codes (spec 06).
 * Frames are rows everywhere: codes [n_frame, n_book], book 0 is the semantic one. */
#ifndef KVREF_CODEC_H
#define KVREF_CODEC_H

#include "kvref/file.h"
#include "kvref/status.h"
#include "kvref/trace.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* exact: every sum in one written order that depends on its length only, the same bits on
 * every machine. blas: OpenBLAS, called on panels at fixed places with fixed sizes, so that
 * pieces and threads change no bit; judged against exact by rule. */
typedef enum kvref_conv { KVREF_CONV_BLAS, KVREF_CONV_EXACT } kvref_conv;

enum {
    KVREF_CODEC_DECODE = 1, /* load what decoding needs   */
    KVREF_CODEC_ENCODE = 2  /* load what encoding needs   */
};

/* All-zero options are the defaults. */
typedef struct kvref_codec_opts {
    unsigned parts; /* KVREF_CODEC_*, 0: both                     */
    int n_thread;   /* 0: one per online processor, at most 64    */
    kvref_conv conv;
    kvref_tap tap; /* see below; level NONE: nothing is reported */
    kvref_log log;
} kvref_codec_opts;

/* Taps. tap.fn receives rows of time: x [n_row, width], first = index of row 0 in the whole
 * signal at that place, layer -1, head 0. The name is complete: that of golden/README.md
 * without its first part, for example "z", "post_module.L00", "decoder.model.3",
 * "encoder.transformer.L00.attn", "vq.0.e". It is valid during the call only. Files hold most
 * of these tensors transposed, as [channel, time]. From level LAYERS on all stages are
 * reported, from OPS on also the attention of every layer. */

typedef struct kvref_codec_info {
    int sample_rate; /* samples per second, 44100                             */
    int frame;       /* samples per frame, 2048                               */
    int n_book;      /* 10                                                    */
    int n_code[32];  /* [n_book] entries of each book; higher codes are clamped */
    unsigned parts;  /* what is loaded                                        */
    int latent;      /* width between quantizer and decoder, 1024             */
} kvref_codec_info;

typedef struct kvref_codec kvref_codec;

/* Opens codec.pth or codec.safetensors; path is the file, or a directory that holds one of
 * them (of both, codec.pth is taken). Sizes come from the tensors; what they cannot tell
 * (windows, head width, dilations, rotation base, norm eps, sample rate) is upstream's unless a
 * codec.json beside the file says otherwise: an object with any of the keys window,
 * encoder_window, head_dim, dilations, rope_base, norm_eps, sample_rate, encoder_strides,
 * decoder_strides (the last two are checked against the tensors). Weight norm is folded here,
 * once. Borrows nothing. Errors: IO, FORMAT, MISSING (which tensor), SHAPE, UNSUPPORTED,
 * MEMORY, ARG. */
kvref_status kvref_codec_open(kvref_codec **out,
                              const char *path,
                              const kvref_codec_opts *opts,
                              kvref_error *err);

/* Valid until the codec is closed. */
const kvref_codec_info *kvref_codec_about(const kvref_codec *codec);

/* Frees everything; streams must be closed before. Accepts NULL; sets *codec to NULL. */
void kvref_codec_close(kvref_codec **codec);

/* Decodes whole: pcm [n_frame * frame] from code [n_frame, n_book]. The same bits as any
 * streaming. Errors: ARG (n_frame < 1, negative code, part not loaded), FORMAT ("sample n is
 * not finite": the weights hold NaN or overflow), MEMORY. */
kvref_status kvref_codec_decode(
    kvref_codec *codec, float *pcm, const int32_t *code, int n_frame, kvref_error *err);

/* Streaming: frames pushed in pieces of any size give their samples at once. Memory is
 * kvref_codec_stream_bytes whatever the length. Streams of one codec are independent but must
 * not be used at the same time (they share its threads). */
typedef struct kvref_codec_stream kvref_codec_stream;

/* Errors: ARG (the part for decoding is not loaded), MEMORY. */
kvref_status
kvref_codec_stream_open(kvref_codec_stream **out, kvref_codec *codec, kvref_error *err);

/* pcm [n_frame * frame] from code [n_frame, n_book], continuing. n_frame 0 is allowed. Errors:
 * ARG (n_frame < 0, negative code; nothing has happened), FORMAT (as in decoding whole; samples
 * before the named one may be written, and every later push is refused with ARG). */
kvref_status kvref_codec_stream_push(
    kvref_codec_stream *stream, float *pcm, const int32_t *code, int n_frame, kvref_error *err);

/* Accepts NULL; sets *stream to NULL. */
void kvref_codec_stream_close(kvref_codec_stream **stream);

/* Bytes that an open stream holds (decode), weights apart. */
size_t kvref_codec_stream_bytes(const kvref_codec *codec);

/* Encodes mono samples at info.sample_rate: ceil(n_sample / frame) frames into out, to be
 * freed by kvref_codes_clear. Memory does not grow with length, but for the codes.
 * Errors: ARG (no samples, sample n is not finite, more than about 2^31 samples, part not
 * loaded), FORMAT (weights give values that are not finite), MEMORY. */
kvref_status kvref_codec_encode(
    kvref_codec *codec, kvref_codes *out, const float *pcm, size_t n_sample, kvref_error *err);

/* Windowed-sinc resampling (spec 06 section 5) of x [n], mono, n 0 allowed; *out [*n_out],
 * *n_out = ceil(n * to_hz / from_hz), is owned by the caller (free). Equal rates copy.
 * Errors: ARG (rates below 1, n above 2^40), UNSUPPORTED (the filter table would pass 2^24
 * values, as for 44101 Hz), MEMORY. */
kvref_status kvref_resample(float **out,
                            size_t *n_out,
                            const float *x,
                            size_t n,
                            int from_hz,
                            int to_hz,
                            kvref_error *err);

#ifdef __cplusplus
}
#endif
#endif
