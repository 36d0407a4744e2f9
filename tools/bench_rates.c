/* SPDX-License-Identifier: MIT */
/* What the machine can do, measured between the rounds of the same run: reading memory by a
 * plain loop over more than the caches hold, and sgemm of one 1024 cube a thread. */
#include "tools/bench.h"

#include "base/base.h"
#include "base/pool.h"
#include "ref/clones.h"
#include "tools/term.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { READ_PASSES = 5, GEMM_PASSES = 3, CUBE = 1024, TASKS = 64 };

typedef uint64_t wide __attribute__((vector_size(64)));

typedef struct reader {
    const char *from;
    size_t n_task; /* bytes of a task, a multiple of 256 */
    uint64_t sum[TASKS];
} reader;

REF_CLONES static void read_tasks(void *arg, int worker, int first, int last)
{
    reader *r = arg;
    (void)worker;
    for (int task = first; task < last; task++) {
        const wide *x = (const void *)(r->from + (size_t)task * r->n_task);
        size_t n = r->n_task / sizeof *x;
        wide a = {0}, b = {0}, c = {0}, d = {0};
        for (size_t i = 0; i < n; i += 4) {
            a += x[i];
            b += x[i + 1];
            c += x[i + 2];
            d += x[i + 3];
        }
        a += b + c + d;
        r->sum[task] = a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
    }
}

static void multiply_tasks(void *arg, int worker, int first, int last)
{
    float *const *cube = arg;
    (void)worker;
    for (int task = first; task < last; task++) {
        const float *a = cube[task], *b = a + CUBE * CUBE;
        float *c = cube[task] + 2 * CUBE * CUBE;
        cblas_sgemm(CblasRowMajor,
                    CblasNoTrans,
                    CblasTrans,
                    CUBE,
                    CUBE,
                    CUBE,
                    1,
                    a,
                    CUBE,
                    b,
                    CUBE,
                    0,
                    c,
                    CUBE);
    }
}

static bool uses_blas(const bench *b, int n_thread)
{
    for (int i = 0; i < b->n_arm; i++)
        if (b->arm[i].n_thread == n_thread && b->arm[i].decoder.linear == KVREF_LINEAR_BLAS)
            return true;
    return false;
}

static bool is_device(const bench_arm *arm)
{
    return strcmp(arm->backend->name, "cuda") == 0;
}

const bench_rates *bench_rates_for(const bench *b, const bench_arm *arm)
{
    for (int i = 0; i < b->n_rate && !is_device(arm); i++)
        if (b->rate[i].n_thread == arm->n_thread) return &b->rate[i];
    return NULL;
}

/* Bytes to read: --bandwidth-mb, or twice the largest cache, 256 MiB to 1 GiB. */
static size_t buffer_size(const bench_args *args)
{
    size_t n = (size_t)args->buffer_mb << 20, least = (size_t)256 << 20;
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (args->buffer_mb >= 0) return n;
    n = cache > 0 ? 2 * (size_t)cache : least;
    return n < least ? least : n > 4 * least ? 4 * least : n;
}

kvref_status bench_rates_open(bench *b, kvref_error *err)
{
    b->n_buffer = buffer_size(b->args);
    for (int i = 0; i < b->n_arm && b->n_buffer; i++) {
        bench_rates *r = &b->rate[b->n_rate];
        if (is_device(&b->arm[i]) || bench_rates_for(b, &b->arm[i])) continue;
        r->n_thread = b->arm[i].n_thread;
        r->cap = READ_PASSES * b->n_length * (b->args->n_round + b->args->n_warm);
        r->read_x = calloc((size_t)r->cap, sizeof *r->read_x);
        r->sgemm_x = calloc((size_t)r->cap, sizeof *r->sgemm_x);
        b->n_rate++;
        if (!r->read_x || !r->sgemm_x) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    }
    if (!b->n_rate) return KVREF_OK;
    void *map =
        mmap(NULL, b->n_buffer, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return kvref_fail(
            err, KVREF_E_MEMORY, "--bandwidth-mb: cannot reserve %zu MiB", b->n_buffer >> 20);
    b->buffer = map;
    madvise(map, b->n_buffer, MADV_HUGEPAGE);
    memset(map, 1, b->n_buffer);
    return KVREF_OK;
}

static void read_memory(bench_rates *r, const bench *b, kvref_pool *pool)
{
    reader reads = {.from = b->buffer, .n_task = b->n_buffer / TASKS / 256 * 256};
    for (int i = 0; i < READ_PASSES; i++) {
        double start = term_clock();
        kvref_pool_run(pool, read_tasks, &reads, TASKS);
        double bytes = (double)reads.n_task * TASKS;
        r->read_x[r->n_read++] = bytes / (term_clock() - start);
    }
}

/* Best of a few, as the products of a prefill are many in a row. */
static kvref_status multiply(bench_rates *r, kvref_pool *pool, kvref_error *err)
{
    float *cube[64] = {0};
    int n = r->n_thread < 64 ? r->n_thread : 64, before = openblas_get_num_threads();
    double best = 1e9;
    kvref_status s = KVREF_OK;
    for (int i = 0; i < n && s == KVREF_OK; i++) {
        cube[i] = malloc(3 * CUBE * CUBE * sizeof *cube[i]);
        if (!cube[i]) s = kvref_fail(err, KVREF_E_MEMORY, "out of memory");
        for (int j = 0; cube[i] && j < 2 * CUBE * CUBE; j++)
            cube[i][j] = (float)(j % 17) - 8.0f;
    }
    openblas_set_num_threads(1);
    for (int i = 0; i < GEMM_PASSES && s == KVREF_OK; i++) {
        double start = term_clock();
        kvref_pool_run(pool, multiply_tasks, cube, n);
        double t = term_clock() - start;
        if (t < best) best = t;
    }
    openblas_set_num_threads(before);
    for (int i = 0; i < n; i++) free(cube[i]);
    if (s == KVREF_OK) r->sgemm_x[r->n_sgemm++] = 2.0 * CUBE * CUBE * CUBE * n / best;
    return s;
}

kvref_status bench_rates_round(bench *b, kvref_error *err)
{
    for (int i = 0; i < b->n_rate; i++) {
        bench_rates *r = &b->rate[i];
        kvref_pool *pool;
        kvref_status s = KVREF_OK;
        KVREF_TRY(kvref_pool_open(&pool, r->n_thread, err));
        read_memory(r, b, pool);
        if (uses_blas(b, r->n_thread)) s = multiply(r, pool, err);
        kvref_pool_close(&pool);
        KVREF_TRY(s);
    }
    return KVREF_OK;
}

void bench_rates_close(bench *b)
{
    if (b->buffer) munmap(b->buffer, b->n_buffer);
    for (int i = 0; i < b->n_rate; i++) {
        free(b->rate[i].read_x);
        free(b->rate[i].sgemm_x);
    }
    b->buffer = NULL;
    b->n_rate = 0;
}
