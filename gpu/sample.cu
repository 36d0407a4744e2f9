/* SPDX-License-Identifier: MIT */
/* A draw on the device, with the bits of base/sample.c (spec 04 sections 2 to 4), in two
 * launches:
 *
 *     rank   place of each logit among all: falling value, equal values by rising index. It is
 *            the number of logits that come before it, counted by many blocks.
 *     draw   one block: softmax over the ranks, cut by top_p and top_k, softmax of what stays
 *            at the temperature, argmax of p[i] / -ln u[i]; for the main token once more with
 *            other numbers if it repeats one of the last ten.
 *
 * Exponentials, quotients and comparisons are made by all threads, and each sum by one, in the
 * order of the host. That of the first softmax runs over all n ranks in eight lanes; the others
 * end with the last rank that stays, mostly a few dozen. */
#include "gpu/gpu.h"

#include <assert.h>

namespace GPU_NAMESPACE
{

enum {
    N_THREAD = 256, /* of a block                                            */
    N_KEY = 1024,   /* logits compared with from shared memory at a time     */
    N_TILE = 2048,  /* numbers summed from shared memory at a time           */
    MAX_N = 65536   /* candidates, so that an index has room in half a key   */
};

/* One draw. slot: 0 the main token, else a book. */
struct draw_call {
    gpu_draw d;
    int32_t *frame;
    int slot;
    const float *again;
    const int32_t *candidate;
    int end, semantic_begin, semantic_end;
};

static __device__ int thread_index()
{
    return static_cast<int>(threadIdx.x);
}

/* Minus infinity where the end token may not be drawn. */
static __device__ gpu_half logit_bits(const draw_call &c, int i)
{
    return i == c.end && c.d.args->no_end ? static_cast<gpu_half>(0xfc00u) : c.d.logits[i];
}

/* ---- rank ---- */

/* Smaller for what comes first: the value's place from above, then the index. -0 counts as 0.
 */
static __device__ uint32_t rank_key(gpu_half value, int i)
{
    uint32_t h = value == 0x8000u ? 0 : value;
    uint32_t falling = h & 0x8000u ? h : 0x7fffu - h;
    return falling << 16 | static_cast<uint32_t>(i);
}

/* How many of 128 keys in shared memory are smaller. */
static __device__ int count_smaller(const uint32_t *key, uint32_t mine)
{
    const uint4 *four = reinterpret_cast<const uint4 *>(key);
    int n = 0;
    for (int i = 0; i < N_KEY / (N_THREAD / GPU_WARP) / 4; i++) {
        uint4 k = four[i];
        n += (k.x < mine) + (k.y < mine) + (k.z < mine) + (k.w < mine);
    }
    return n;
}

/* order [n]: rank of logit i; p [n]: the logits by rank. A block ranks 32 logits; each warp
 * compares them with an eighth of all. */
static __global__ void __launch_bounds__(N_THREAD) rank_kernel(draw_call c)
{
    GPU_SHARED(uint4, keys, N_KEY / 4);
    GPU_SHARED(int, count, N_THREAD);
    if (c.d.args->forced) return;
    uint32_t *key = reinterpret_cast<uint32_t *>(keys);
    int thread = thread_index(), warp = thread / GPU_WARP, n_before = 0;
    int mine = static_cast<int>(blockIdx.x) * GPU_WARP + thread % GPU_WARP;
    gpu_half bits = mine < c.d.n ? logit_bits(c, mine) : static_cast<gpu_half>(0);
    uint32_t my_key = rank_key(bits, mine);
    for (int base = 0; base < c.d.n; base += N_KEY) {
        for (int i = thread; i < N_KEY; i += N_THREAD) {
            int at = base + i;
            key[i] = at < c.d.n ? rank_key(logit_bits(c, at), at) : 0xffffffffu;
        }
        __syncthreads();
        n_before += count_smaller(key + warp * (N_KEY / (N_THREAD / GPU_WARP)), my_key);
        __syncthreads();
    }
    count[thread] = n_before;
    __syncthreads();
    if (warp != 0 || mine >= c.d.n) return;
    int rank = 0;
    for (int i = thread; i < N_THREAD; i += GPU_WARP) rank += count[i];
    c.d.order[mine] = rank;
    c.d.p[rank] = gpu_f32(bits);
}

/* ---- draw ---- */

/* Logits above minus infinity, or -1 when none is or one is no number below infinity. */
static __device__ int count_finite(const draw_call &c)
{
    GPU_SHARED(int, found, 2);
    if (thread_index() < 2) found[thread_index()] = 0;
    __syncthreads();
    int n_finite = 0, n_bad = 0;
    for (int i = thread_index(); i < c.d.n; i += N_THREAD) {
        gpu_half h = logit_bits(c, i);
        n_finite += h != 0xfc00u;
        n_bad += (h & 0x7fffu) > 0x7c00u || h == 0x7c00u;
    }
    atomicAdd(&found[0], n_finite);
    atomicAdd(&found[1], n_bad);
    __syncthreads();
    return found[1] > 0 || found[0] == 0 ? -1 : found[0];
}

/* p [n] becomes e^(logit - most) by rank; the sum over ranks in eight lanes. */
static __device__ float exponentials(const draw_call &c, float *tile, float most)
{
    int thread = thread_index();
    float sum = 0;
    for (int base = 0; base < c.d.n; base += N_TILE) {
        for (int i = thread; i < N_TILE; i += N_THREAD) {
            int r = base + i;
            tile[i] = r < c.d.n ? kvref_expf(c.d.p[r] - most) : 0.0f;
            if (r < c.d.n) c.d.p[r] = tile[i];
        }
        __syncthreads();
        for (int first = 0; thread < 8 && first < N_TILE && base + first < c.d.n; first += 64) {
            GPU_UNROLL
            for (int i = 0; i < 64; i += 8) sum += tile[first + i + thread];
        }
        __syncthreads();
    }
    if (thread < 8) tile[thread] = sum;
    __syncthreads();
    float total = ((tile[0] + tile[4]) + (tile[2] + tile[6])) +
                  ((tile[1] + tile[5]) + (tile[3] + tile[7]));
    __syncthreads();
    return total;
}

/* Ranks that stay, of those below limit: until the sum of e / total passes top_p. */
static __device__ int
count_kept(const draw_call &c, float *tile, float total, int limit, float top_p)
{
    GPU_SHARED(int, kept, 1);
    GPU_SHARED(int, done, 1);
    int thread = thread_index();
    double sum = 0;
    if (thread == 0) kept[0] = done[0] = 0;
    __syncthreads();
    for (int base = 0; base < limit && !done[0]; base += N_THREAD) {
        int n = min(static_cast<int>(N_THREAD), limit - base);
        if (thread < n) tile[thread] = c.d.p[base + thread] / total;
        __syncthreads();
        for (int i = 0; thread == 0 && i < n && !done[0]; i++) {
            sum += static_cast<double>(tile[i]);
            if (static_cast<float>(sum) > top_p)
                done[0] = 1;
            else
                kept[0]++;
        }
        __syncthreads();
    }
    return kept[0];
}

/* What the second softmax is made of: p[i] = weight(i) / total where order[i] < n_kept. */
struct filter {
    int n_kept;
    float temperature, most, total;
};

static __device__ float kept_weight(const draw_call &c, const filter &f, int i)
{
    return kvref_expf(gpu_f32(logit_bits(c, i)) / f.temperature - f.most);
}

/* The sum of weights by rising index. Warps without one that stays are passed over. */
static __device__ float kept_total(const draw_call &c, float *tile, const filter &f)
{
    GPU_SHARED(int, any, N_TILE / GPU_WARP);
    GPU_SHARED(float, result, 1);
    int thread = thread_index();
    float sum = 0;
    for (int base = 0; base < c.d.n; base += N_TILE) {
        for (int i = thread; i < N_TILE && base + i - thread < c.d.n; i += N_THREAD) {
            bool stays = base + i < c.d.n && c.d.order[base + i] < f.n_kept;
            tile[i] = stays ? kept_weight(c, f, base + i) : 0.0f;
            int some = __any_sync(0xffffffffu, stays);
            if (i % GPU_WARP == 0) any[i / GPU_WARP] = some;
        }
        __syncthreads();
        for (int w = 0; thread == 0 && w < N_TILE / GPU_WARP; w++) {
            if (base + w * GPU_WARP >= c.d.n) break;
            if (!any[w]) continue;
            GPU_UNROLL
            for (int i = 0; i < GPU_WARP; i++) sum += tile[w * GPU_WARP + i];
        }
        __syncthreads();
    }
    if (thread == 0) result[0] = sum;
    __syncthreads();
    return result[0];
}

/* A candidate of the race. The larger ratio wins, then the lower index; -1 is none. */
struct runner {
    float ratio;
    int index;
};

static __device__ runner faster(runner a, runner b)
{
    if (b.index < 0) return a;
    if (a.index < 0 || b.ratio > a.ratio) return b;
    return b.ratio == a.ratio && b.index < a.index ? b : a;
}

/* The winner, known to every thread. */
static __device__ int race(const draw_call &c, const filter &f, const float *u)
{
    GPU_SHARED(float, ratio, N_THREAD / GPU_WARP);
    GPU_SHARED(int, index, N_THREAD / GPU_WARP);
    int thread = thread_index();
    runner best = {-1.0f, -1};
    for (int i = thread; i < c.d.n; i += N_THREAD) {
        if (c.d.order[i] >= f.n_kept) continue;
        float p = kept_weight(c, f, i) / f.total;
        if (p > 0) best = faster(best, {p / -kvref_logf(u[i]), i});
    }
    GPU_UNROLL
    for (int n = GPU_WARP / 2; n > 0; n /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, best.ratio, n);
        best = faster(best, {other, __shfl_xor_sync(0xffffffffu, best.index, n)});
    }
    if (thread % GPU_WARP == 0) {
        ratio[thread / GPU_WARP] = best.ratio;
        index[thread / GPU_WARP] = best.index;
    }
    __syncthreads();
    for (int w = 0; w < N_THREAD / GPU_WARP; w++) best = faster(best, {ratio[w], index[w]});
    __syncthreads();
    return best.index;
}

/* First softmax, which serves both draws of the main token. */
struct softmax {
    float most, total; /* largest logit, sum of e^(logit - most) */
    int n_finite;
};

static __device__ int choose(const draw_call &c,
                             float *tile,
                             const softmax &s,
                             float temperature,
                             float top_p,
                             const float *u)
{
    int limit = min(static_cast<int>(c.d.args->top_k), s.n_finite);
    int kept = count_kept(c, tile, s.total, limit, top_p);
    filter f;
    f.n_kept = kept == 0 || temperature == 0 ? 1 : kept;
    f.temperature = temperature > 1e-5f ? temperature : 1e-5f;
    f.most = s.most / f.temperature;
    f.total = kept_total(c, tile, f);
    return race(c, f, u);
}

/* Is a semantic token among the last main tokens? Known to every thread. */
static __device__ bool repeats(const draw_call &c, int32_t token)
{
    bool same = false;
    for (int i = 0; i < GPU_RAS_WINDOW; i++) same |= c.d.state->window[i] == token;
    return same && token >= c.semantic_begin && token <= c.semantic_end;
}

/* By one thread. */
static __device__ void put_main(const draw_call &c, int32_t token, bool remember)
{
    int32_t last = c.semantic_end - c.semantic_begin, code = token - c.semantic_begin;
    c.frame[0] = token;
    c.frame[1] = code < 0 ? 0 : code > last ? last : code;
    if (remember) c.d.state->window[c.d.state->n_main++ % GPU_RAS_WINDOW] = token;
}

/* Index drawn, or -1 with the fault noted. */
static __device__ int draw(const draw_call &c, float *tile)
{
    softmax s;
    s.n_finite = count_finite(c);
    if (s.n_finite < 0) {
        if (thread_index() == 0 && c.d.state->fault == 0) c.d.state->fault = 1 + c.slot;
        return -1;
    }
    s.most = c.d.p[0];
    __syncthreads();
    s.total = exponentials(c, tile, s.most);
    int index = choose(c, tile, s, c.d.args->temperature, c.d.args->top_p, c.d.u);
    if (c.slot == 0 && c.d.args->remember && repeats(c, c.candidate[index]))
        index = choose(c, tile, s, 1.0f, 0.9f, c.again);
    return index;
}

static __global__ void __launch_bounds__(N_THREAD) draw_kernel(draw_call c)
{
    GPU_SHARED(float, tile, N_TILE);
    bool forced = c.d.args->forced != 0;
    int index = forced ? 0 : draw(c, tile);
    __syncthreads();
    if (thread_index() != 0) return;
    if (forced) {
        c.frame[1 + c.slot] = c.d.forced[1 + c.slot];
        if (c.slot == 0) c.frame[0] = c.d.forced[0];
        return;
    }
    int place = index < 0 ? 0 : index; /* in range even when there is nothing to draw from */
    if (c.slot == 0)
        put_main(c, c.candidate[place], index >= 0 && c.d.args->remember);
    else
        c.frame[1 + c.slot] = place;
}

static void launch(cudaStream_t stream, const draw_call &c)
{
    assert(c.d.n > 0 && c.d.n <= MAX_N);
    dim3 grid(static_cast<unsigned>((c.d.n + GPU_WARP - 1) / GPU_WARP));
    GPU_LAUNCH(rank_kernel, grid, dim3(N_THREAD), 0, stream, c);
    GPU_LAUNCH(draw_kernel, dim3(1), dim3(N_THREAD), 0, stream, c);
}

void gpu_draw_main(cudaStream_t stream,
                   int32_t *frame,
                   const gpu_draw *a,
                   const float *again,
                   const int32_t *candidate,
                   int end,
                   int semantic_begin,
                   int semantic_end)
{
    launch(stream, {*a, frame, 0, again, candidate, end, semantic_begin, semantic_end});
}

void gpu_draw_code(cudaStream_t stream, int32_t *frame, int book, const gpu_draw *a)
{
    launch(stream, {*a, frame, book, nullptr, nullptr, -1, 0, 0});
}

static __global__ void advance_kernel(int32_t *pos, int n)
{
    *pos += n;
}

void gpu_advance(cudaStream_t stream, int32_t *pos, int n)
{
    GPU_LAUNCH(advance_kernel, dim3(1), dim3(1), 0, stream, pos, n);
}

} /* namespace GPU_NAMESPACE */
