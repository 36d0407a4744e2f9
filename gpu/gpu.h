/* SPDX-License-Identifier: MIT */
/* Inside of the FP16 decoder: types and launchers of this folder. Compiled by nvcc for a GPU
 * and by a C++ compiler for the execution layer, from the same sources (runtime.h).
 *
 * Numbers. Weights, activations and caches are float16, every sum is float32, and R rounds to
 * float16 at the points of spec 02 and 03 (README.md lists them). One order of summation serves
 * all dot products, linear layers, norms and scores alike:
 *
 *     element i belongs to group i / 8, group g to lane g mod 32
 *     a lane adds its products in ascending i, beginning with +0
 *     lanes are folded in halves: 16 + 16, 8 + 8, 4 + 4, 2 + 2, 1 + 1   (lane l += lane l + n)
 *
 * A product of two float16 is exact in float32, so fused and separate additions agree. Absent
 * elements count as 0, which changes no bit: rows may be padded, and a row of at most 128
 * elements may be summed by 16 lanes, of at most 64 by 8. Nothing else decides a bit: not the
 * grid, not the number of rows, not the capacity.
 *
 * Layout. Row-major; a row of n values has gpu_pad(n) places, and those after the n-th are 0
 * in weights and caches, and in activations. So rows begin at multiples of 16 bytes. Heads
 * within a row are not padded: head h of q [T, H*E] begins at element h*E, at any address. Only
 * rows of the caches and their scratch are padded by the head.
 *
 * Positions live in device memory (const int32_t *first: that of row 0), so that a captured
 * graph can be replayed: query row t is at position P + t with P = *first, and its kv_len is
 * P + t + 1. Launchers never read device memory on the host, never allocate and never wait.
 * Errors of a launch stay with the runtime and are collected by gpu_check. */
#ifndef KVREF_GPU_GPU_H
#define KVREF_GPU_GPU_H

#include "gpu/runtime.h"
#include "kvref/backend.h"
#include "kvref/fmath.h"

namespace GPU_NAMESPACE
{

enum {
    GPU_GROUP = 8,      /* float16 values in one 16-byte load                               */
    GPU_WARP = 32,      /* lanes of a dot product                                           */
    GPU_CHUNK = 64,     /* cached positions whose weighted sum is formed at once            */
    GPU_SPLIT = 64,     /* blocks that share the chunks of one key/value head               */
    GPU_ATTN_ROWS = 8,  /* query rows of one attention launch: scratch has room for so many */
    GPU_ROWS = 64,      /* rows of a prefill taken through all layers together              */
    GPU_MAX_BOOKS = 64, /* positions of the fast transformer at most                        */
    GPU_RAS_WINDOW = 10 /* main tokens that a new one should not repeat (spec 04 section 4) */
};

/* Places of a row of n values. */
inline __host__ __device__ int gpu_pad(int n)
{
    return (n + GPU_GROUP - 1) / GPU_GROUP * GPU_GROUP;
}

/* Chunks of n positions. */
inline __host__ __device__ int gpu_chunks(int n)
{
    return (n + GPU_CHUNK - 1) / GPU_CHUNK;
}

/* ---- embed.cu ---- */

struct gpu_embedding {
    const gpu_half *token; /* [V, pad(D)]                          */
    const gpu_half *code;  /* [N*K, pad(D)]: book b, code c: b*K+c */
    int width;             /* D                                    */
    int n_codebook, n_code, semantic_begin, semantic_end;
    bool scale;
};

/* x [T, pad(D)] from frames [T, 1+N], all in range:
 *     x = R(token + R(sum over books, ascending, of code rows))     audio positions
 *     x = R(x / sqrt(N + 1)) if scale                               audio positions
 * with sqrt rounded to float32 before the division (spec 02 section 2). */
void gpu_embed(
    cudaStream_t stream, gpu_half *x, const int32_t *frames, int n_row, const gpu_embedding *e);

/* x [pad(D)] = row *code of table [.., pad(D)]. */
void gpu_lookup(
    cudaStream_t stream, gpu_half *x, const gpu_half *table, const int32_t *code, int width);

/* ---- rmsnorm.cu ---- */

/* y[r, :] = R(R(x[r, :] * s) * w), or R((x[r, :] * s) * w) unless twice, with
 * s = 1 / sqrt(sum(x[r, :]^2) / width + eps). x and y may be the same. Row r of n_group begins
 * at element (r / n_group) * stride + (r % n_group) * width: n_group is 1 for whole rows and
 * the number of heads for q and k (spec 02 section 3: twice for the former, not for heads). */
struct gpu_norm {
    gpu_half *y;
    const gpu_half *x;
    const gpu_half *w; /* [width] */
    int n_row, n_group, width, stride;
    float eps;
    bool twice;
};
void gpu_rmsnorm(cudaStream_t stream, const gpu_norm *a);

/* ---- linear.cu ---- */

struct gpu_matrix {
    const gpu_half *data; /* [n_row, pad(n_col)]  */
    const gpu_half *bias; /* [n_row], or NULL     */
    int n_row, n_col;
};

struct gpu_product {
    gpu_half *y;          /* [T, stride_y]                                            */
    int stride_y;         /* multiple of 8; places n_out.. of a row are left as found */
    gpu_matrix w;         /*                                                          */
    const int32_t *index; /* NULL, or rows of w to use, in order [n_out] on the device */
    int n_out;            /* w.n_row, or the length of index                          */
};

/* y[t, o] = R(sum over i of w[o, i] x[t, i] + bias[o]) for 1 to 3 products that share
 * x [T, stride_x]. Each row's bits are the same for any T. T = 1 reads each weight once. */
void gpu_linear(cudaStream_t stream,
                const gpu_product *p,
                int n_product,
                const gpu_half *x,
                int stride_x,
                int n_row);

/* ---- elementwise.cu ---- */

/* x[i] = R(x[i] + y[i]); gate[i] = R(R(silu(gate[i])) * up[i]); n values. */
void gpu_add(cudaStream_t stream, gpu_half *x, const gpu_half *y, size_t n);
void gpu_swiglu(cudaStream_t stream, gpu_half *gate, const gpu_half *up, size_t n);

/* ---- rope.cu ---- */

/* Key/value caches of one transformer. */
struct gpu_kv {
    gpu_half *k, *v; /* [L, G, C, pad(E)] */
    int n_layer, n_head, d_head, capacity;
};

/* Turns x [T, stride] of n_head heads by the angles of positions P..P+T-1, as
 * R(a cos - b sin), R(b cos + a sin) of neighbours a, b. cosine, sine [C, E/2] float32 that are
 * float16 values (or not, with the float32 table). */
void gpu_rope(cudaStream_t stream,
              gpu_half *x,
              int stride,
              int n_row,
              int n_head,
              int d_head,
              const float *cosine,
              const float *sine,
              const int32_t *first);

/* Copies k and v [T, pad(G*E)] to positions P..P+T-1 of a layer, pad places as zeros. Nothing
 * else is touched. */
void gpu_kv_append(cudaStream_t stream,
                   const gpu_kv *kv,
                   int layer,
                   const gpu_half *k,
                   const gpu_half *v,
                   int n_row,
                   const int32_t *first);

/* ---- attention.cu, attention_full.cu, attention_books.cu ---- */

/* T query rows of one layer. Scratch is sized by gpu_attention_floats for T <= GPU_ATTN_ROWS;
 * launchers take more rows in several rounds. */
struct gpu_attention {
    gpu_half *out;        /* [T, pad(H*E)]                                          */
    const gpu_half *q;    /* [T, pad(H*E)]                                          */
    const gpu_kv *kv;     /*                                                        */
    int layer, n_head;    /* H                                                      */
    int n_row;            /* T                                                      */
    const int32_t *first; /* P                                                      */
    float *score;         /* [T, H, 64 * chunks(C)]  scores, then nothing of value  */
    float *peak;          /* [T, H, chunks(C)]       largest score of a chunk       */
    float *total;         /* [T, H, chunks(C)]       sum of weights of a chunk      */
    float *part;          /* [T, H, chunks(C), E]    weighted sum of a chunk        */
    gpu_half *wide_k;     /* [H, C, pad(E)]          full form only                 */
    gpu_half *wide_v;     /* [H, C, pad(E)]                                         */
};

/* Floats of score, peak, total and part together, and each part's share in n [4]. */
size_t gpu_attention_floats(size_t n[4], int n_head, int d_head, int capacity);

/* out[t, h, :] = R(sum over r < kv_len of w_r v[r, g, :] / sum of w_r), g = h / (H/G),
 *     w_r = e^(q . k_r * c - m),   c = 1 / sqrt(E) in float32,   m the largest q . k_r * c
 * in chunks of 64 positions: rows ascending within a chunk, then chunks ascending, for the sum
 * of weights and the weighted sum alike, products rounded before they are added.
 * prefix: rows from kv_len on are not read. GPU_SPLIT blocks or fewer stride over the chunks of
 * a key/value head, whose H/G query heads share each load; the grid is the same for every
 * kv_len.
 * full: the baseline being replaced. K and V are expanded to H heads over the capacity, all C
 * scores are formed and masked by minus infinity, softmax and the weighted sum run over C. A
 * masked weight is exactly 0, so the bits are those of prefix as long as the cache holds
 * numbers beyond kv_len. */
void gpu_attention_prefix(cudaStream_t stream, const gpu_attention *a);
void gpu_attention_full(cudaStream_t stream, const gpu_attention *a);

/* The fast transformer's explicit formula (spec 03 section 3) over at most GPU_MAX_BOOKS rows:
 *     s_r = R(R(q . k_r) * c),  p_r = R(e^(s_r - m) / sum),  out = R(sum of p_r v_r)
 * sums in ascending r. full: all C rows under a mask. No scratch is used. */
void gpu_attention_books(cudaStream_t stream, const gpu_attention *a, bool full);

/* ---- sample.cu ---- */

/* What one frame needs to know, in device memory; the host writes it before each frame. */
struct gpu_frame_args {
    float temperature, top_p;
    int32_t top_k;
    int32_t no_end;   /* the end token cannot be drawn                           */
    int32_t remember; /* the main token is tested against the window and kept    */
    int32_t forced;   /* frame [1+N] is given: nothing is drawn                  */
};

/* What lasts from frame to frame, in device memory. */
struct gpu_frame_state {
    int32_t window[GPU_RAS_WINDOW]; /* zeros at position 0                             */
    int32_t n_main;                 /* main tokens remembered: the ring's next place   */
    int32_t fault;                  /* 0, or 1 + the draw whose logits were no numbers */
};

struct gpu_draw {
    const gpu_half *logits; /* [n]                                                  */
    int n;
    const float *u;             /* [n] numbers in [0, 1)                          */
    const gpu_frame_args *args; /*                                                */
    gpu_frame_state *state;     /*                                                */
    const int32_t *forced;      /* [1+N], looked at when args->forced             */
    float *p;                   /* [n] scratch                                    */
    int32_t *order;             /* [n] scratch                                    */
};

/* frame[0] and frame[1]: the main token, candidate[index drawn], and its code, clamped
 * (spec 04 sections 3 and 4; kvref_generate's draw_main). again [n] is the second set of
 * numbers. candidate [n] ids ascending, end the place of the end token or -1. The draws are
 * those of kvref_sample_probs and kvref_sample_draw, bit for bit. */
void gpu_draw_main(cudaStream_t stream,
                   int32_t *frame,
                   const gpu_draw *a,
                   const float *again,
                   const int32_t *candidate,
                   int end,
                   int semantic_begin,
                   int semantic_end);

/* frame[1 + book] = the code drawn. */
void gpu_draw_code(cudaStream_t stream, int32_t *frame, int book, const gpu_draw *a);

/* *pos += n, at the end of a frame. */
void gpu_advance(cudaStream_t stream, int32_t *pos, int n);

} /* namespace GPU_NAMESPACE */
#endif
