/* SPDX-License-Identifier: MIT */
/* A frame becomes one row of the slow transformer, and a code one of the fast (spec 02 section
 * 2, spec 03 section 2).
 *
 *     x = token                                               text
 *     x = R(token + R(sum over books of code rows))           audio: the token is semantic
 *     x = R(x / sqrt(N + 1))                                  audio, if the model asks for it
 *
 * A thread makes eight values. Pad places come out as zeros, as they are in the tables. */
#include "gpu/dot.h"

namespace GPU_NAMESPACE
{

enum {
    EMBED_THREADS = 64 /* of a block */
};

/* Group g of row r of a table whose rows have n_group groups. */
static __device__ uint4 table_load(const gpu_half *table, int r, int n_group, int g)
{
    return gpu_load(table + (static_cast<int64_t>(r) * n_group + g) * GPU_GROUP);
}

static __global__ void embed_kernel(gpu_half *x /* [T, pad(D)] */,
                                    const int32_t *frames /* [T, 1+N] */,
                                    gpu_embedding e,
                                    float divisor)
{
    int g = gpu_thread(), n_group = gpu_pad(e.width) / GPU_GROUP;
    if (g >= n_group) return;
    const int32_t *frame = frames + static_cast<int64_t>(blockIdx.y) * (1 + e.n_codebook);
    gpu_half *to = x + (static_cast<int64_t>(blockIdx.y) * n_group + g) * GPU_GROUP;
    uint4 token = table_load(e.token, frame[0], n_group, g);
    if (frame[0] < e.semantic_begin || frame[0] > e.semantic_end) {
        gpu_store(to, token);
        return;
    }
    gpu_eight sum = {};
    for (int b = 0; b < e.n_codebook; b++) {
        int r = b * e.n_code + frame[1 + b];
        gpu_eight code = gpu_unpack(table_load(e.code, r, n_group, g));
        GPU_UNROLL
        for (int i = 0; i < GPU_GROUP; i++) sum.v[i] += code.v[i];
    }
    gpu_eight row = gpu_unpack(token);
    sum = gpu_unpack(gpu_pack(sum)); /* round: f16 */
    GPU_UNROLL
    for (int i = 0; i < GPU_GROUP; i++) {
        row.v[i] += sum.v[i];
        if (e.scale) row.v[i] = gpu_f32(gpu_f16(row.v[i])) / divisor; /* round: f16 */
    }
    gpu_store(to, gpu_pack(row)); /* round: f16 */
}

void gpu_embed(
    cudaStream_t stream, gpu_half *x, const int32_t *frames, int n_row, const gpu_embedding *e)
{
    float divisor = sqrtf(static_cast<float>(e->n_codebook + 1));
    unsigned n_block = gpu_blocks(gpu_pad(e->width) / GPU_GROUP, EMBED_THREADS);
    dim3 grid(n_block, static_cast<unsigned>(n_row));
    GPU_LAUNCH(embed_kernel, grid, EMBED_THREADS, 0, stream, x, frames, *e, divisor);
}

static __global__ void
lookup_kernel(gpu_half *x, const gpu_half *table, const int32_t *code, int n_group)
{
    int g = gpu_thread();
    if (g < n_group) gpu_store(x + g * GPU_GROUP, table_load(table, *code, n_group, g));
}

void gpu_lookup(
    cudaStream_t stream, gpu_half *x, const gpu_half *table, const int32_t *code, int width)
{
    int n_group = gpu_pad(width) / GPU_GROUP;
    GPU_LAUNCH(lookup_kernel,
               gpu_blocks(n_group, EMBED_THREADS),
               EMBED_THREADS,
               0,
               stream,
               x,
               table,
               code,
               n_group);
}

} /* namespace GPU_NAMESPACE */
