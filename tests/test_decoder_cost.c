/* SPDX-License-Identifier: MIT */
/* What a step costs beside time: no allocation, and memory only as far as the cache is filled.
 */
#include "tests/alloc.h"
#include "tests/run.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The caches are mapped, which counts as well (--wrap). What OpenBLAS, a shared library, takes
 * for its own work space goes past: it keeps that space, and has no way to be given one.
 * NOLINTBEGIN(bugprone-reserved-identifier): names that the linker option prescribes */
void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);

void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    alloc_count++;
    return __real_mmap(at, n, prot, flags, fd, offset);
}

/* NOLINTEND(bugprone-reserved-identifier) */

START_TEST(no_step_allocates)
{
    for (int mode = 0; mode < 8; mode++) { /* model, attention, linear */
        kvref_config config = mode % 2 ? world_odd() : world_tiny();
        world w;
        world_open(&w, &config, KVREF_BF16, 0);
        kvref_decoder *d;
        kvref_error err;
        kvref_decoder_opts opts = {.capacity = 300,
                                   .n_thread = 2,
                                   .attention = (kvref_attention)(mode / 2 % 2),
                                   .linear = (kvref_linear)(mode / 4)};
        alloc_count = 0;
        must(ref_decoder_open(&d, &config, &w.weights, &opts, &err), err);
        ck_assert_int_ge(alloc_count, 2); /* the counter works */
        int32_t *frames = world_frames(&config, 210, 1);
        float logits[64];
        kvref_status status = KVREF_OK; /* Check allocates in its assertions: none in here */
        alloc_count = 0;
        for (int n = 0; n < 210 && status == KVREF_OK; n += n ? 1 : 200) {
            const int32_t *frame = frames + n * (1 + config.n_codebook);
            status = ref_slow(d, logits, frame, n ? 1 : 200, &err);
            for (int book = 1; book < config.n_codebook && status == KVREF_OK; book++)
                status = ref_fast(d, logits, book, 1, &err);
        }
        if (status == KVREF_OK) status = ref_rewind(d, 100, &err);
        if (status == KVREF_OK) status = ref_slow(d, logits, frames, 5, &err);
        int n_step = alloc_count;
        must(status, err);
        ck_assert_int_eq(n_step, 0);
        ref_decoder_close(&d);
        free(frames);
        world_close(&w);
    }
}
END_TEST

/* ---- memory of a model as wide as S2-Pro, two layers, every weight 0 ---- */

static size_t page;

static kvref_weight zeros(int n_row, int n_col)
{
    size_t n = (size_t)n_row * (size_t)n_col * 2;
    void *data = mmap(NULL, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert(data != MAP_FAILED);
    return (kvref_weight){data, KVREF_BF16, n_row, n_col};
}

static kvref_layer zero_layer(const kvref_stack *s)
{
    int q = s->n_head * s->d_head, k = s->n_kv_head * s->d_head, d = s->d_model;
    return (kvref_layer){.attn_norm = zeros(1, d),
                         .wq = zeros(q, d),
                         .wk = zeros(k, d),
                         .wv = zeros(k, d),
                         .q_norm = zeros(1, s->d_head),
                         .k_norm = zeros(1, s->d_head),
                         .wo = zeros(d, q),
                         .ffn_norm = zeros(1, d),
                         .w1 = zeros(s->d_ff, d),
                         .w3 = zeros(s->d_ff, d),
                         .w2 = zeros(d, s->d_ff)};
}

/* from is the start of a page. */
static size_t resident(void *from, size_t n)
{
    unsigned char *map = malloc(n / page + 1);
    size_t count = 0;
    ck_assert_ptr_nonnull(map);
    ck_assert(mincore(from, n, map) == 0);
    for (size_t i = 0; i < (n + page - 1) / page; i++) count += map[i] & 1u;
    free(map);
    return count * page;
}

/* Pages that an array of n bytes can touch, wherever it starts, in bytes. */
static size_t touched(size_t n)
{
    return (n + 2 * page - 2) / page * page;
}

enum { CAPACITY = 32768, N = 21, THREADS = 2, HEADS = 2 * 2 * 8 };

/* What may be written at open: frequencies of both rotations, the ten rows of the fast table of
 * cosines and of sines, the list of candidates; a counter for each thread and slow layer. */
static size_t limit_at_open(const kvref_decoder *d)
{
    size_t half = 64 * sizeof(float), n_id = (size_t)d->n_candidate * sizeof(int32_t);
    return 2 * touched(half) + 2 * touched(10 * half) + touched(n_id) +
           touched(THREADS * sizeof(kvref_kv_count)) + touched(2 * sizeof(kvref_kv_count));
}

/* And after N positions, N - 1 of them at once: the filled prefix and a page for each head and
 * layer; ten rows of the fast cache likewise; N rows of the slow tables; N - 1 rows of every
 * array of rows (three as wide as the model, two of all query heads, two of all KV heads, two
 * of the feed-forward layer), two single rows and the frame's state; for each thread a panel
 * of weights and the scores. */
static size_t limit_after(const kvref_decoder *d, size_t head)
{
    static const size_t width[] = {2560, 2560, 2560, 4096, 4096, 1024, 1024, 9728, 9728};
    size_t sum = limit_at_open(d) + HEADS * head + 2 * 8 * touched(10 * 128 * sizeof(float));
    sum += 2 * touched(N * 64 * sizeof(float));
    for (size_t i = 0; i < sizeof width / sizeof *width; i++)
        sum += touched((N - 1) * width[i] * sizeof(float));
    sum += touched((size_t)2 * 2560 * sizeof(float)) + touched(2560 * sizeof(float));
    sum += touched(THREADS * REF_PANEL * (size_t)9728 * sizeof(float));
    return sum + THREADS * touched((4 * (N + 2) + 128) * sizeof(float));
}

START_TEST(resident_memory_follows_the_filled_prefix)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    kvref_config config = world_tiny();
    config.slow = (kvref_stack){2, 2560, 32, 8, 128, 9728, false, false, true};
    config.fast = (kvref_stack){1, 2560, 32, 8, 128, 9728, false, false, false};
    config.n_codebook = 10;
    kvref_layer slow[2] = {zero_layer(&config.slow), zero_layer(&config.slow)};
    kvref_layer fast[1] = {zero_layer(&config.fast)};
    kvref_weights weights = {.embed = zeros(128, 2560),
                             .codebook_embed = zeros(320, 2560),
                             .slow = slow,
                             .norm = zeros(1, 2560),
                             .head = zeros(128, 2560),
                             .fast_embed = zeros(32, 2560),
                             .fast = fast,
                             .fast_norm = zeros(1, 2560),
                             .fast_head = zeros(32, 2560)};
    kvref_decoder *d;
    kvref_error err;
    kvref_decoder_opts opts = {.capacity = CAPACITY, .n_thread = THREADS};
    must(ref_decoder_open(&d, &config, &weights, &opts, &err), err);
    size_t at_open = resident(d->map, d->n_map);
    int32_t *frames = world_frames(&config, N, 1);
    float logits[64];
    must(ref_slow(d, logits, frames, N - 1, &err), err);
    must(ref_slow(d, logits, frames + (N - 1) * 11, 1, &err), err);
    size_t kv = 0, head_limit = (N * 128 * sizeof(float) + page - 1) / page * page + page;
    for (int i = 0; i < HEADS; i++) {
        size_t head =
            resident(d->slow.kv.base + (size_t)i * d->slow.kv.head_byte, d->slow.kv.head_byte);
        ck_assert_uint_le(head, head_limit);
        kv += head;
    }
    size_t all = resident(d->map, d->n_map);
    printf("capacity %d, %d positions: reserved %.1f MiB, resident %.2f MiB at open, %.2f MiB "
           "after (limit %.2f), K and V %.2f MiB\n",
           CAPACITY,
           N,
           (double)d->n_map / 1048576,
           (double)at_open / 1048576,
           (double)all / 1048576,
           (double)limit_after(d, head_limit) / 1048576,
           (double)kv / 1048576);
    ck_assert_uint_ge(d->n_map,
                      (size_t)CAPACITY * 2 * 2 * 8 * 128 * 4); /* 512 MiB are reserved */
    ck_assert_uint_le(at_open, limit_at_open(d));
    ck_assert_uint_le(all, limit_after(d, head_limit));
    ref_decoder_close(&d);
    free(frames);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("decoder_cost");
    TCase *tc = tcase_create("cost");
    tcase_add_test(tc, no_step_allocates);
    tcase_add_test(tc, resident_memory_follows_the_filled_prefix);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
