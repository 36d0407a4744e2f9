/* SPDX-License-Identifier: MIT */
/* What a step of the FP16 decoder reads, counted access by access in the race build, against
 * closed formulas from the sizes of the model (spec 02 sections 5 to 8, 03 section 5):
 *
 *     weights   every matrix once, in padded rows; of the head the candidates' rows; the fast
 *               transformer nine times (positions 0 and 1 share a pass)
 *     caches    kv_len rows of k and v of every key/value head and slow layer, once
 *     rows x    again by every warp of a linear layer, two outputs to a warp: first-level
 *               cache on a device, but counted here; once or twice by all else
 *
 * and that is all but 1 %. The capacity is not part of it, unless the attention is full. */
#include "gpu/cudacpu/control.h"
#include "gpu/inside.h"
#include "tests/support.h"
#include "tests/world.h"

#include <stdlib.h>
#include <string.h>

enum { N_HELD = 70, N_BOOK = 10 };

static world w;
static kvref_decoder *d;
static int32_t *frames;
static const kvref_backend *backend;
static float *logits;

/* 0: no width needs padding. 1: every one does, biases, untied head, projection. 2, 3: the same
 * in widths of which weights are nearly all of the bytes. */
static kvref_config config_of(int i)
{
    kvref_config c = world_tiny();
    c.n_codebook = N_BOOK;
    if (i == 2) {
        c.slow = (kvref_stack){2, 192, 8, 2, 32, 320, false, false, true};
        c.fast = (kvref_stack){1, 192, 8, 2, 32, 320, false, false, false};
    }
    if (i % 2 == 0) return c;
    c.slow = (kvref_stack){2, 52, 6, 3, 10, 74, true, true, true};
    c.fast = (kvref_stack){2, 44, 6, 2, 14, 60, true, true, true};
    c.tie_word_embeddings = false;
    if (i == 1) return c;
    c.slow = (kvref_stack){2, 188, 6, 3, 42, 300, true, true, true};
    c.fast = (kvref_stack){2, 140, 6, 2, 30, 180, true, true, true};
    return c;
}

static void open_on(kvref_decoder_opts opts)
{
    kvref_error err;
    must(kvref_cudacpu_open(&d, &w.config, &w.weights, &opts, &err), err);
}

static void open_world(int i)
{
    kvref_config c = config_of(i);
    world_open(&w, &c, KVREF_BF16, 0);
    frames = world_frames(&c, 2 * N_HELD, 5);
    backend = kvref_backend_cudacpu();
    logits = calloc((size_t)c.n_vocab, sizeof *logits);
    for (int t = N_HELD; t < 2 * N_HELD; t++) { /* steps are audio */
        int32_t *frame = frames + t * (1 + N_BOOK);
        frame[1] = t % c.n_code;
        frame[0] = c.semantic_begin + frame[1];
    }
}

static void close_world(void)
{
    world_close(&w);
    free(frames);
    free(logits);
    cudacpu_reset();
}

static void slow(int from, int n)
{
    kvref_error err;
    must(backend->slow(d, logits, frames + from * (1 + N_BOOK), n, &err), err);
}

static void fast(int book)
{
    kvref_error err;
    must(backend->fast(d, logits, book, (book * 7) % w.config.n_code, &err), err);
}

/* A decode step with all its books. */
static void step(int from)
{
    slow(from, 1);
    for (int book = 1; book < N_BOOK; book++) fast(book);
}

/* ---- formulas, in bytes ---- */

static uint64_t values(int n)
{
    return 2 * (uint64_t)n;
}

static uint64_t row(int n)
{
    return values((n + 7) / 8 * 8);
}

static uint64_t matrix(int n_row, int n_col, bool bias)
{
    return (uint64_t)n_row * row(n_col) + (bias ? values(n_row) : 0);
}

/* Weights of a layer for a pass over n_row rows: a norm reads its weights for every row. */
static uint64_t layer_bytes(const kvref_stack *s, int n_row)
{
    int q = s->n_head * s->d_head, k = s->n_kv_head * s->d_head;
    uint64_t norms = values(2 * s->d_model) + (s->qk_norm ? values(q + k) : 0);
    return matrix(q + 2 * k, s->d_model, false) + matrix(s->d_model, q, s->o_bias) +
           matrix(2 * s->d_ff, s->d_model, false) + matrix(s->d_model, s->d_ff, false) +
           (uint64_t)n_row * (norms + (s->qkv_bias ? values(q + 2 * k) : 0) +
                              (s->o_bias && n_row > 1 ? values(s->d_model) : 0)) -
           (s->o_bias && n_row > 1 ? values(s->d_model) : 0);
}

/* A decode step whose frame is audio. */
static uint64_t weight_bytes(const kvref_config *c)
{
    int A = kvref_config_candidates(c, NULL, 0), D = c->slow.d_model, F = c->fast.d_model;
    uint64_t slow_part = row(D) * (uint64_t)(1 + N_BOOK) + values(D) + matrix(A, D, false);
    slow_part += (uint64_t)c->slow.n_layer * layer_bytes(&c->slow, 1);
    if (D != F) slow_part += matrix(F, D, true);
    uint64_t nine = layer_bytes(&c->fast, 2) + 8 * layer_bytes(&c->fast, 1);
    return slow_part + (uint64_t)c->fast.n_layer * nine + 9 * row(F) + N_BOOK * values(F) +
           9 * matrix(c->n_code, F, false);
}

/* Rows of k are read with their padding, of v without. */
static uint64_t rows_bytes(const kvref_stack *s, uint64_t n_row)
{
    return n_row * (row(s->d_head) + values(s->d_head));
}

static uint64_t slow_cache_bytes(const kvref_config *c, int kv_len)
{
    const kvref_stack *s = &c->slow;
    return rows_bytes(s, (uint64_t)(s->n_layer * s->n_kv_head * kv_len));
}

/* At most N rows: every query head reads them for itself. */
static uint64_t fast_cache_bytes(const kvref_config *c)
{
    const kvref_stack *s = &c->fast;
    return rows_bytes(s, (uint64_t)(s->n_layer * s->n_head * N_BOOK * (N_BOOK + 1) / 2));
}

/* Rows x of linear layers, and what norms (x twice), rotation (with float32 tables), append,
 * sums and gate read of one position. */
static uint64_t warps_read(int n_out, int n_col)
{
    return (uint64_t)((n_out + 1) / 2) * row(n_col);
}

static uint64_t layer_again(const kvref_stack *s)
{
    int q = s->n_head * s->d_head, k = s->n_kv_head * s->d_head;
    return warps_read(q, s->d_model) + 2 * warps_read(k, s->d_model) +
           warps_read(s->d_model, q) + 2 * warps_read(s->d_ff, s->d_model) +
           warps_read(s->d_model, s->d_ff) +
           values(8 * s->d_model + (s->qk_norm ? 2 : 0) * (q + k) + 3 * (q + k) + 2 * k +
                  2 * s->d_ff);
}

static uint64_t again_bytes(const kvref_config *c)
{
    int A = kvref_config_candidates(c, NULL, 0), D = c->slow.d_model, F = c->fast.d_model;
    return (uint64_t)c->slow.n_layer * layer_again(&c->slow) +
           (uint64_t)(c->fast.n_layer * N_BOOK) * layer_again(&c->fast) + warps_read(A, D) +
           (D != F ? warps_read(F, D) : 0) + 9 * warps_read(c->n_code, F);
}

/* ---- counts ---- */

/* Bytes of all buffers whose name begins so. */
static uint64_t traffic_of(const char *begin, bool written)
{
    const char *name;
    size_t n_byte;
    void *at;
    uint64_t sum = 0, found = 0;
    for (size_t i = 0; (at = kvref_cudacpu_buffer(d, i, &name, &n_byte)) != NULL; i++) {
        uint64_t r, v;
        if (strncmp(name, begin, strlen(begin)) != 0) continue;
        found++;
        cudacpu_traffic(at, &r, &v);
        sum += written ? v : r;
    }
    ck_assert_msg(found > 0, "no buffer named %s", begin);
    return sum;
}

START_TEST(step_reads_weights_once_and_kv_len_rows_and_little_else)
{
    open_world(2 + _i);
    const kvref_config *c = &w.config;
    open_on((kvref_decoder_opts){.capacity = 1024});
    slow(0, N_HELD);
    for (int t = 0; t < 2; t++) {
        cudacpu_reset_counts();
        step(N_HELD + t);
        uint64_t weight = weight_bytes(c), cache = slow_cache_bytes(c, N_HELD + t + 1);
        ck_assert_uint_eq(traffic_of("weights ", false), weight);
        ck_assert_uint_eq(traffic_of("weights ", true), 0);
        ck_assert_uint_eq(traffic_of("slow K", false) + traffic_of("slow V", false), cache);
        ck_assert_uint_eq(traffic_of("fast K", false) + traffic_of("fast V", false),
                          fast_cache_bytes(c));
        double all = (double)(weight + cache + fast_cache_bytes(c) + again_bytes(c));
        double got = (double)cudacpu_get_counts().read_byte;
        ck_assert_msg(got >= all && got <= 1.01 * all, "%.0f read, formula %.0f", got, all);
        uint64_t appended =
            2 * (uint64_t)(c->slow.n_layer * c->slow.n_kv_head) * row(c->slow.d_head);
        ck_assert_uint_eq(traffic_of("slow K", true) + traffic_of("slow V", true), appended);
    }
    backend->close(&d);
    close_world();
}
END_TEST

/* ---- capacity ---- */

typedef struct seen {
    uint64_t hash, read_byte, write_byte;
    int n;
} seen;

static void look(void *user, const cudacpu_launch *l)
{
    seen *s = user;
    const uint64_t part[] = {l->grid[0],
                             l->grid[1],
                             l->grid[2],
                             l->block[0],
                             l->block[1],
                             l->read_byte,
                             l->write_byte};
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        s->hash = (s->hash ^ part[i]) * 1099511628211u;
    s->read_byte += l->read_byte;
    s->write_byte += l->write_byte;
    s->n++;
}

static void whole_frame(int n)
{
    static float noise[4096];
    kvref_error err;
    int32_t frame[1 + N_BOOK];
    for (size_t i = 0; i < 4096; i++) noise[i] = (float)(i * 2654435761u % 1000u) * 1e-3f;
    kvref_frame_call call = {.frames = n > 1 ? frames : NULL,
                             .n_frame = n,
                             .noise = noise,
                             .sampling = {0.8f, 0.9f, 20},
                             .remember = n == 1};
    must(backend->frame(d, frame, logits, &call, &err), err);
}

/* Of one decode step, launch by launch. */
static seen step_at(kvref_decoder_opts opts)
{
    seen s = {0};
    open_on(opts);
    if (opts.exec == KVREF_EXEC_GRAPH)
        whole_frame(N_HELD);
    else
        slow(0, N_HELD);
    cudacpu_set_launch_hook(look, &s);
    if (opts.exec == KVREF_EXEC_GRAPH)
        whole_frame(1);
    else
        step(N_HELD);
    cudacpu_set_launch_hook(NULL, NULL);
    backend->close(&d);
    return s;
}

START_TEST(step_launches_and_reads_the_same_at_capacity_1024_and_32768)
{
    open_world(0);
    kvref_decoder_opts opts = {.capacity = 1024,
                               .exec = _i ? KVREF_EXEC_GRAPH : KVREF_EXEC_EAGER};
    seen small = step_at(opts);
    opts.capacity = 32768;
    seen large = step_at(opts);
    ck_assert(small.n > 100 && small.read_byte > 0);
    ck_assert_int_eq(small.n, large.n);
    ck_assert_uint_eq(small.read_byte, large.read_byte);
    ck_assert_uint_eq(small.write_byte, large.write_byte);
    ck_assert_uint_eq(small.hash, large.hash);
    close_world();
}
END_TEST

START_TEST(full_mode_reads_and_writes_what_its_formula_says)
{
    static const int capacity[] = {256, 1024, 2048};
    open_world(_i % 2);
    const kvref_stack *s = &w.config.slow;
    uint64_t layer = (uint64_t)s->n_layer;
    uint64_t C = (uint64_t)capacity[_i / 2], H = (uint64_t)s->n_head;
    open_on((kvref_decoder_opts){.capacity = capacity[_i / 2], .attention = KVREF_ATTN_FULL});
    slow(0, 3);
    cudacpu_reset_counts();
    slow(N_HELD, 1);
    uint64_t copies = 2 * layer * H * C * row(s->d_head);
    ck_assert_uint_eq(traffic_of("slow K", false) + traffic_of("slow V", false), copies);
    ck_assert_uint_eq(traffic_of("expanded", true), copies);
    ck_assert_uint_eq(traffic_of("expanded", false), rows_bytes(s, layer * H * C));
    kvref_kv_count count = backend->kv_count(d, 0);
    ck_assert_uint_eq(count.k_rows, H * C);
    ck_assert_uint_eq(count.bytes, 3 * 2 * H * C * row(s->d_head));
    backend->close(&d);
    close_world();
}
END_TEST

START_TEST(kv_count_says_what_was_read)
{
    open_world(_i);
    const kvref_config *c = &w.config;
    open_on((kvref_decoder_opts){.capacity = 1024});
    slow(0, N_HELD);
    cudacpu_reset_counts();
    step(N_HELD);
    uint64_t layers = (uint64_t)c->slow.n_layer;
    kvref_kv_count n = backend->kv_count(d, 0);
    ck_assert_uint_eq(n.k_rows, (uint64_t)(c->slow.n_kv_head * (N_HELD + 1)));
    ck_assert_uint_eq(layers * n.k_rows * row(c->slow.d_head), traffic_of("slow K", false));
    ck_assert_uint_eq(layers * n.v_rows * values(c->slow.d_head), traffic_of("slow V", false));
    ck_assert_uint_eq(n.bytes, (n.k_rows + n.v_rows) * row(c->slow.d_head));
    n = backend->kv_count(d, -1); /* which leaves out that query heads read for themselves */
    uint64_t share = (uint64_t)(c->fast.n_head / c->fast.n_kv_head);
    ck_assert_uint_eq(share * n.k_rows * row(c->fast.d_head), traffic_of("fast K", false));
    ck_assert_uint_eq(share * n.v_rows * values(c->fast.d_head), traffic_of("fast V", false));
    backend->close(&d);
    close_world();
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("gpu_traffic");
    TCase *t = tcase_create("gpu_traffic");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, step_reads_weights_once_and_kv_len_rows_and_little_else, 0, 2);
    tcase_add_loop_test(t, step_launches_and_reads_the_same_at_capacity_1024_and_32768, 0, 2);
    tcase_add_loop_test(t, full_mode_reads_and_writes_what_its_formula_says, 0, 6);
    tcase_add_loop_test(t, kv_count_says_what_was_read, 0, 2);
    suite_add_tcase(s, t);
    return s;
}

int main(void)
{
    return support_run(suite());
}
