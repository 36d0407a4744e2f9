/* SPDX-License-Identifier: MIT */
/* Where every array of a decoder lies.
 *
 * One mapping holds caches, tables and scratch. layout() is run twice, first to add up the
 * sizes and then to hand out addresses. The mapping is reserved, not filled: the system gives
 * a page when it is first written, so nothing here costs what the capacity suggests. */
#include "ref/ref.h"

#include <sys/mman.h>

#define MAP_ALIGN ((size_t)65536) /* a multiple of every page size in use */

typedef struct arena {
    char *base; /* NULL: only count */
    size_t used;
    bool too_large;
} arena;

/* The next n * size bytes at a multiple of align. While counting there is no address yet, and
 * NULL is returned. A size that does not fit size_t is noted once and reported at the end. */
static void *take(arena *a, size_t n, size_t size, size_t align)
{
    size_t start, n_byte;
    if (a->too_large || !kvref_add_size(a->used, align - 1, &start) ||
        !kvref_mul_size(n, size, &n_byte) || n_byte > SIZE_MAX / 2 - start) {
        a->too_large = true;
        return NULL;
    }
    start = start / align * align;
    a->used = start + n_byte;
    return a->base ? a->base + start : NULL;
}

/* n rows of width floats. */
static float *floats(arena *a, int n, size_t width)
{
    size_t total;
    if (!kvref_mul_size((size_t)n, width, &total)) a->too_large = true;
    return take(a, total, sizeof(float), 64);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t product(int a, int b)
{
    return (size_t)a * (size_t)b;
}

static void layout_transformer(arena *a, ref_transformer *net, int capacity)
{
    const kvref_stack *s = net->stack;
    size_t n_byte = ref_kv_init(&net->kv, s->n_layer, s->n_kv_head, s->d_head, capacity);
    net->kv.base = take(a, n_byte, 1, MAP_ALIGN);
    net->rope.freq = floats(a, 1, (size_t)s->d_head / 2);
    net->rope.cosine = floats(a, capacity, (size_t)s->d_head / 2);
    net->rope.sine = floats(a, capacity, (size_t)s->d_head / 2);
}

/* Scratch of one piece of a call. The two transformers take turns, so they share it: each
 * array is as wide as the wider of them needs. */
static void layout_rows(arena *a, kvref_decoder *d)
{
    const kvref_stack *s = &d->config.slow, *f = &d->config.fast;
    size_t model = larger((size_t)s->d_model, (size_t)f->d_model);
    size_t query = larger(product(s->n_head, s->d_head), product(f->n_head, f->d_head));
    size_t key = larger(product(s->n_kv_head, s->d_head), product(f->n_kv_head, f->d_head));
    size_t inner = larger((size_t)s->d_ff, (size_t)f->d_ff);
    d->x = floats(a, REF_ROWS, model);
    d->norm = floats(a, REF_ROWS, model);
    d->q = floats(a, REF_ROWS, query);
    d->k = floats(a, REF_ROWS, key);
    d->v = floats(a, REF_ROWS, key);
    d->mixed = floats(a, REF_ROWS, query);
    d->out = floats(a, REF_ROWS, model);
    d->gate = floats(a, REF_ROWS, inner);
    d->up = floats(a, REF_ROWS, inner);
    d->work = floats(a, 2, (size_t)s->d_model);
    d->hidden = floats(a, 1, (size_t)f->d_model);
    size_t widest = larger(larger(model, query), inner);
    bool blas = d->opts.linear == KVREF_LINEAR_BLAS;
    d->tools.panel_size = (blas ? REF_BLAS_PANEL : REF_PANEL) * widest;
}

/* Everything. What only some options need is only laid out for them: copies of the cache for
 * the full form, all V logits when a tap wants them. */
static void layout(arena *a, kvref_decoder *d, int n_worker)
{
    const kvref_config *c = &d->config;
    const kvref_stack *s = &c->slow, *f = &c->fast;
    int capacity = d->opts.capacity;
    layout_transformer(a, &d->slow, capacity);
    layout_transformer(a, &d->fast, c->n_codebook);
    layout_rows(a, d);
    d->tools.panel = floats(a, n_worker, d->tools.panel_size);
    d->tools.score_size =
        larger(ref_attention_scratch(s->n_head, s->n_kv_head, s->d_head, capacity),
               ref_attention_scratch(f->n_head, f->n_kv_head, f->d_head, c->n_codebook));
    d->tools.score = floats(a, n_worker, d->tools.score_size);
    if (d->opts.attention == KVREF_ATTN_FULL) {
        size_t slow = product(s->n_head, s->d_head), fast = product(f->n_head, f->d_head);
        int rows = capacity > c->n_codebook ? capacity : c->n_codebook;
        d->tools.wide_k = floats(a, rows, larger(slow, fast));
        d->tools.wide_v = floats(a, rows, larger(slow, fast));
    }
    if (d->opts.tap.fn && d->opts.tap.level >= KVREF_TAP_LOGITS)
        d->all_logits = floats(a, 1, (size_t)c->n_vocab);
    d->tools.count = take(a, (size_t)n_worker, sizeof *d->tools.count, 64);
    d->slow_count = take(a, (size_t)s->n_layer, sizeof *d->slow_count, 64);
    d->candidate = take(a, (size_t)d->n_candidate, sizeof *d->candidate, 64);
}

void ref_prepare(kvref_decoder *d, const kvref_config *config, const kvref_decoder_opts *opts)
{
    d->config = *config;
    d->opts = *opts;
    if (d->opts.capacity == 0) d->opts.capacity = config->max_seq_len;
    d->slow.stack = &d->config.slow;
    d->fast.stack = &d->config.fast;
    d->n_candidate = kvref_config_candidates(config, NULL, 0);
}

/* A decoder that never gets memory: layout() only needs its sizes. */
size_t kvref_ref_bytes(const kvref_config *config, const kvref_decoder_opts *opts)
{
    kvref_decoder d = {0};
    arena a = {0};
    ref_prepare(&d, config, opts);
    layout(&a, &d, kvref_pool_threads(opts->n_thread));
    return a.too_large ? SIZE_MAX : a.used + MAP_ALIGN;
}

/* MAP_NORESERVE: the address space of a whole capacity is promised, its memory is not. */
kvref_status ref_reserve(kvref_decoder *d, kvref_error *err)
{
    int n_worker = kvref_pool_size(d->tools.pool);
    arena a = {0};
    layout(&a, d, n_worker);
    if (a.too_large)
        return kvref_fail(
            err, KVREF_E_MEMORY, "capacity %d: more than can be addressed", d->opts.capacity);
    size_t n_byte = a.used + MAP_ALIGN;
    void *map = mmap(NULL,
                     n_byte,
                     PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                     -1,
                     0);
    if (map == MAP_FAILED)
        return kvref_fail(err,
                          KVREF_E_MEMORY,
                          "capacity %d: cannot reserve %zu bytes",
                          d->opts.capacity,
                          n_byte);
    d->map = map;
    d->n_map = n_byte;
    madvise(map, d->n_map, MADV_NOHUGEPAGE); /* a huge page would hold rows never used */
    a = (arena){.base = (char *)map + (MAP_ALIGN - (uintptr_t)map % MAP_ALIGN) % MAP_ALIGN};
    layout(&a, d, n_worker);
    return KVREF_OK;
}
