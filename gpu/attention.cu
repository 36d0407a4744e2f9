/* SPDX-License-Identifier: MIT */
/* Attention over the cache (spec 02 section 6), in three launches:
 *
 *     score   s[t, h, r] = q . k[r] * c, and the largest of each chunk of 64 positions
 *     mix     m = the largest of all, w = e^(s - m); per chunk the sums of w and of w v[r]
 *     merge   out = R(sum of the chunks' parts / sum of the chunks' totals), chunks ascending
 *
 * score and mix: block (x, g, t) takes chunks x, x + X, ... of the rows of key/value head g for
 * query row t and all query heads that share g, so a row of k or v is loaded once for them.
 * Where chunks are computed decides no bit, so X is fixed and kv_len may grow under a captured
 * graph. The largest score is exact in any order. Nothing reads a row from kv_len on.
 *
 * full (attention_full.cu) goes the same way with n = C rows of which kv_len count, the others
 * masked by minus infinity: their weights are e^-inf = 0. */
#include "gpu/attention.h"

#include <assert.h>

namespace GPU_NAMESPACE
{

enum { MANY_CHUNKS = 16 /* of the capacity, from which the grid is as wide as it gets */ };

dim3 gpu_attention_grid(const gpu_attention_pass *a)
{
    int group_size = a->n_head / a->n_kv_head, n_chunk = gpu_chunks(a->capacity);
    int n_slice = (group_size + GPU_MAX_SHARED - 1) / GPU_MAX_SHARED;
    int x = a->full || n_chunk < MANY_CHUNKS ? n_chunk : GPU_SPLIT;
    return dim3(static_cast<unsigned>(x),
                static_cast<unsigned>(a->n_kv_head * n_slice),
                static_cast<unsigned>(a->n_row));
}

gpu_attention_pass gpu_attention_prepare(const gpu_attention *a)
{
    const gpu_kv *kv = a->kv;
    assert(kv->d_head % 2 == 0 && kv->d_head <= GPU_MAX_D_HEAD && a->n_head % kv->n_head == 0);
    gpu_attention_pass p = {};
    size_t layer = gpu_size(a->layer) * gpu_size(kv->n_head) * gpu_size(kv->capacity) *
                   gpu_size(gpu_pad(kv->d_head));
    p.out = a->out;
    p.q = a->q;
    p.k = kv->k + layer;
    p.v = kv->v + layer;
    p.first = a->first;
    p.score = a->score;
    p.peak = a->peak;
    p.total = a->total;
    p.part = a->part;
    p.scale = 1.0f / sqrtf(static_cast<float>(kv->d_head));
    p.stride = gpu_pad(a->n_head * kv->d_head);
    p.n_head = a->n_head;
    p.n_kv_head = kv->n_head;
    p.d_head = kv->d_head;
    p.capacity = kv->capacity;
    return p;
}

void gpu_attention_rounds(cudaStream_t stream, const gpu_attention_pass *all, int n_row)
{
    gpu_attention_pass p = *all;
    for (p.row = 0; p.row < n_row; p.row += GPU_ATTN_ROWS) {
        size_t at = gpu_size(p.row) * gpu_size(p.stride);
        p.n_row = gpu_at_most(n_row - p.row, GPU_ATTN_ROWS);
        p.out = all->out + at;
        p.q = all->q + at;
        gpu_attention_score(stream, &p);
        gpu_attention_mix(stream, &p);
        gpu_attention_merge(stream, &p);
    }
}

void gpu_attention_prefix(cudaStream_t stream, const gpu_attention *a)
{
    gpu_attention_pass p = gpu_attention_prepare(a);
    gpu_attention_rounds(stream, &p, a->n_row);
}

size_t gpu_attention_floats(size_t n[4], int n_head, int d_head, int capacity)
{
    size_t rows = gpu_size(GPU_ATTN_ROWS) * gpu_size(n_head);
    size_t chunks = rows * gpu_size(gpu_chunks(capacity));
    n[0] = chunks * GPU_CHUNK;
    n[1] = chunks;
    n[2] = chunks;
    n[3] = chunks * gpu_size(d_head);
    return n[0] + n[1] + n[2] + n[3];
}

} /* namespace GPU_NAMESPACE */
