/* SPDX-License-Identifier: MIT */
/* A decoder behind one small interface: the float32 reference, and every other backend. */
#ifndef KVREF_BACKEND_H
#define KVREF_BACKEND_H

#include "kvref/model.h"
#include "kvref/sample.h"
#include "kvref/status.h"
#include "kvref/trace.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* prefix: K and V rows 0..kv_len-1 are read and nothing else. full: the baseline being
 * replaced: expand K and V to all query heads over the whole capacity, mask, softmax. */
typedef enum kvref_attention { KVREF_ATTN_PREFIX, KVREF_ATTN_FULL } kvref_attention;

/* exact: one written summation order that depends on the row length only. blas: OpenBLAS for
 * products of 8 rows of activations or more, that is prefill, judged by rule, never by bits;
 * fewer rows (decode steps, the fast transformer) are exact. It runs on the decoder's threads,
 * one product each: during such a call OpenBLAS's number of threads, which belongs to the whole
 * process, is 1, and what it was before is put back. OpenBLAS allocates work space of its own
 * at the first products. */
typedef enum kvref_linear { KVREF_LINEAR_EXACT, KVREF_LINEAR_BLAS } kvref_linear;

/* Tables of the rotation: rounded to bfloat16 as upstream has them in every precision (spec 02
 * section 4), or left in float32. */
typedef enum kvref_rope_table { KVREF_ROPE_BF16, KVREF_ROPE_F32 } kvref_rope_table;

/* eager: one launch per operation, sampling on the host, as a framework would. graph: a frame,
 * sampling included, is one captured CUDA graph. Backends without a device ignore it. */
typedef enum kvref_exec { KVREF_EXEC_EAGER, KVREF_EXEC_GRAPH } kvref_exec;

/* All-zero options are the defaults. */
typedef struct kvref_decoder_opts {
    int capacity; /* positions to reserve, up to 2^20; 0: the model's max_seq_len */
    int n_thread; /* 0: one per online processor, at most 64          */
    kvref_attention attention;
    kvref_linear linear;
    kvref_rope_table rope_table;
    kvref_exec exec;
    kvref_tap tap; /* level NONE: nothing is reported                  */
    kvref_log log;
} kvref_decoder_opts;

typedef struct kvref_decoder kvref_decoder;

/* What the attention of one transformer layer has read, counted where rows are passed to it.
 * prefix: for each query, kv_len rows of every key/value head. full: for each query, all rows
 * of every query head's expanded copy; bytes include the making of the copies. */
typedef struct kvref_kv_count {
    uint64_t k_rows, v_rows; /* rows of E values, summed over key/value heads */
    uint64_t bytes;
} kvref_kv_count;

/* What a whole frame needs beside the decoder. */
typedef struct kvref_frame_call {
    const int32_t *frames;   /* [n_frame, 1+N] fed at the next positions; NULL: the one frame
                                that the last call made, which is still on the device      */
    int n_frame;             /* 1 when frames is NULL                                       */
    const int32_t *forced;   /* NULL, or the frame [1+N] to make instead of drawing         */
    const float *noise;      /* [2A + (N-1)K] in [0, 1): a1 and a2 (candidates), then books
                                1..N-1; NULL when forced                                    */
    kvref_sampling sampling; /* not looked at when forced                                   */
    bool no_end;             /* the end token cannot be drawn                               */
    bool remember;           /* test the main token against the last ten and remember it:
                                every frame but the prefill's; a rewind to 0 forgets        */
} kvref_frame_call;

typedef struct kvref_backend {
    const char *name;

    /* Reserves caches at capacity and everything a step needs; no later call allocates.
     * Borrows model until close. Errors: ARG, MEMORY, DEVICE. */
    kvref_status (*open)(kvref_decoder **out,
                         const kvref_model *model,
                         const kvref_decoder_opts *opts,
                         kvref_error *err);

    /* Feeds frames [n_frame, 1+N] at the next positions; logits [A] of the last one, in the
     * order of kvref_config_candidates. One call is a prefill, a chunk of one, or a decode
     * step. A position beyond capacity: CAPACITY, and nothing is written. A token id or code
     * out of range: ARG, and nothing is written. Keeps the hidden state for fast. */
    kvref_status (*slow)(
        kvref_decoder *d, float *logits, const int32_t *frames, int n_frame, kvref_error *err);

    /* One codebook position of the current frame: book 1..N-1 in order, code that of book-1;
     * logits [K]. book 1 starts a new frame: it feeds the slow hidden state at position 0 and
     * the code at position 1. Errors: ARG (order, range). */
    kvref_status (*fast)(
        kvref_decoder *d, float *logits, int book, int32_t code, kvref_error *err);

    /* Forgets positions >= pos. 0 starts afresh. Errors: ARG when pos is ahead. */
    kvref_status (*rewind)(kvref_decoder *d, int pos, kvref_error *err);

    /* Positions held, and positions reserved. */
    int (*length)(const kvref_decoder *d);
    int (*capacity)(const kvref_decoder *d);

    /* Counters of slow layer `layer` for the last slow call; layer -1: of all fast layers
     * since book 1. */
    kvref_kv_count (*kv_count)(const kvref_decoder *d, int layer);

    void (*close)(kvref_decoder **d);

    /* Whether this decoder makes whole frames on its device. NULL: it does not. */
    bool (*has_frame)(const kvref_decoder *d);

    /* slow, main token, all fast positions and their draws: frame [1+N] as the loop would have
     * drawn it from the same noise (kvref_generate). logits [A] of the slow call, or NULL.
     * Nothing of the device is waited for but the finished frame. Errors: those of slow, and
     * FORMAT when logits are no numbers. */
    kvref_status (*frame)(kvref_decoder *d,
                          int32_t *frame,
                          float *logits,
                          const kvref_frame_call *call,
                          kvref_error *err);

    /* Device memory that the decoder holds, weights included. NULL: there is no device. */
    size_t (*device_bytes)(const kvref_decoder *d);
} kvref_backend;

/* The float32 CPU reference. */
const kvref_backend *kvref_backend_ref(void);

/* The FP16 decoder of gpu/ with its kernels executed on the CPU, checked and slow; in
 * libkvref_cudacpu.a. The same on a GPU, in libkvref_cuda.a, which is built where nvcc is: open
 * gives DEVICE with the reason where there is no GPU to use. */
const kvref_backend *kvref_backend_cudacpu(void);
const kvref_backend *kvref_backend_cuda(void);

/* GPU 0 and what drives it. */
typedef struct kvref_gpu {
    char name[128];
    int major, minor;           /* compute capability                        */
    int n_processor;            /* multiprocessors                           */
    int driver, runtime;        /* CUDA versions, 12040 for 12.4             */
    size_t n_byte, n_byte_free; /* device memory                            */
} kvref_gpu;

/* In libkvref_cuda.a. DEVICE with the reason when there is none. */
kvref_status kvref_cuda_gpu(kvref_gpu *out, kvref_error *err);

/* Bytes of address space that the reference reserves at open for a config and a capacity:
 * caches and scratch. Resident memory follows the filled prefix. */
size_t kvref_ref_bytes(const kvref_config *config, const kvref_decoder_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
