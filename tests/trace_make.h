/* SPDX-License-Identifier: MIT */
/* Small traces made by hand, and two of them compared. */
#ifndef KVREF_TESTS_TRACE_MAKE_H
#define KVREF_TESTS_TRACE_MAKE_H

#include "base/diff.h"
#include "tests/support.h"

#include <stdlib.h>
#include <string.h>

typedef struct trace_make {
    int n, n_meta;
    kvref_tensor t[40];
    const char *meta[16];
} trace_make;

/* Adds a tensor of these axes; returns its values, which are zero. */
static inline void *
trace_add(trace_make *m, const char *name, kvref_dtype dtype, const int *dim, int n_dim)
{
    kvref_tensor *t = &m->t[m->n++];
    ck_assert(m->n <= 40);
    *t = (kvref_tensor){.name = name, .dtype = dtype, .n_dim = n_dim};
    t->n_byte = kvref_dtype_size(dtype);
    for (int d = 0; d < n_dim; d++) {
        t->dim[d] = dim[d];
        t->n_byte *= (size_t)dim[d];
    }
    void *x = calloc(t->n_byte + 1, 1);
    ck_assert_ptr_nonnull(x);
    t->data = x;
    return x;
}
#define ADD(m, name, dtype, ...)                                                               \
    trace_add(m,                                                                               \
              name,                                                                            \
              dtype,                                                                           \
              (const int[]){__VA_ARGS__},                                                      \
              (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))

/* The values of a tensor that was added. */
static inline void *trace_at(trace_make *m, const char *name)
{
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->t[i].name, name) == 0) return (void *)(uintptr_t)m->t[i].data;
    ck_abort_msg("no %s", name);
}

static inline void trace_drop(trace_make *m, const char *name)
{
    int k = 0;
    for (int i = 0; i < m->n; i++) {
        if (strcmp(m->t[i].name, name) == 0) {
            free((void *)(uintptr_t)m->t[i].data);
        } else {
            m->t[k++] = m->t[i];
        }
    }
    m->n = k;
}

static inline void trace_note(trace_make *m, const char *key, const char *value)
{
    ck_assert(m->n_meta + 2 <= 16);
    m->meta[m->n_meta++] = key;
    m->meta[m->n_meta++] = value;
}

static inline void trace_free(trace_make *m)
{
    for (int i = 0; i < m->n; i++) free((void *)(uintptr_t)m->t[i].data);
}

static inline kvref_file *trace_open(const trace_make *m, const char *name)
{
    kvref_error err;
    kvref_writer *w;
    kvref_file *f;
    const char *path = support_path(support_temp_dir(), name);
    must(kvref_writer_open(&w, path, m->t, m->n, m->meta, m->n_meta / 2, &err), err);
    for (int i = 0; i < m->n; i++)
        if (m->t[i].n_byte > 0)
            must(kvref_writer_put(w, m->t[i].data, m->t[i].n_byte, &err), err);
    must(kvref_writer_commit(&w, &err), err);
    must(kvref_file_open(&f, path, NULL, &err), err);
    return f;
}

/* A comparison with what it needs. */
typedef struct compared {
    kvref_file *a, *b;
    kvref_limits *limits;
    kvref_diff *d;
} compared;

static inline compared
compare_traces(const trace_make *a, const trace_make *b, kvref_precision precision)
{
    kvref_error err;
    compared c;
    c.a = trace_open(a, "a.st");
    c.b = trace_open(b, "b.st");
    must(kvref_limits_open(&c.limits, precision, NULL, &err), err);
    must(kvref_diff_open(&c.d, c.a, c.b, c.limits, &err), err);
    return c;
}

static inline void compared_free(compared *c)
{
    kvref_diff_close(&c->d);
    kvref_limits_close(&c->limits);
    kvref_file_close(&c->a);
    kvref_file_close(&c->b);
}

/* Compares and frees; the verdict. */
static inline kvref_verdict
verdict_of(const trace_make *a, const trace_make *b, kvref_precision precision)
{
    compared c = compare_traces(a, b, precision);
    kvref_verdict v = c.d->verdict;
    compared_free(&c);
    return v;
}

/* A run of 3 positions, 4 frames, 3 books of 6 codes, 8 token ids of
 * which 2 .. 7 can be drawn, 2 slow layers and one fast layer, 2 key heads of 4; values
 * without a pattern, of magnitude 1 at most. */
enum { RUN_P = 3, RUN_F = 4, RUN_ROWS = RUN_P + RUN_F - 1, RUN_N = 3, RUN_V = 8, RUN_K = 6 };
static inline void run_make(trace_make *m)
{
    *m = (trace_make){0};
    int32_t *prompt = ADD(m, "prompt", KVREF_I32, RUN_P, 1 + RUN_N);
    for (int i = 0; i < RUN_P; i++) prompt[i * (1 + RUN_N)] = i + 1;
    int32_t *frames = ADD(m, "frames", KVREF_I32, RUN_F, 1 + RUN_N);
    int32_t *ids = ADD(m, "candidates", KVREF_I32, 6);
    int32_t *len = ADD(m, "slow.kv_len", KVREF_I32, RUN_F);
    for (int i = 0; i < 6; i++) ids[i] = i + 2;
    for (int i = 0; i < RUN_F; i++) len[i] = RUN_P + i;
    ADD(m, "slow.embed", KVREF_F32, RUN_ROWS, 5);
    ADD(m, "slow.L00.k", KVREF_F32, RUN_ROWS, 2, 4);
    ADD(m, "slow.L00.v", KVREF_F32, RUN_ROWS, 2, 4);
    ADD(m, "slow.L00.out", KVREF_F32, RUN_ROWS, 5);
    ADD(m, "slow.L01.k", KVREF_F32, RUN_ROWS, 2, 4);
    ADD(m, "slow.L01.out", KVREF_F32, RUN_ROWS, 5);
    ADD(m, "slow.norm", KVREF_F32, RUN_F, 5);
    ADD(m, "slow.logits", KVREF_F32, RUN_F, RUN_V);
    ADD(m, "slow.hidden", KVREF_F32, RUN_F, 5);
    ADD(m, "fast.embed", KVREF_F32, RUN_F, RUN_N, 5);
    ADD(m, "fast.L00.k", KVREF_F32, RUN_F, RUN_N, 1, 4);
    ADD(m, "fast.logits", KVREF_F32, RUN_F, RUN_N - 1, RUN_K);
    uint32_t x = 1;
    for (int i = 0; i < m->n; i++) {
        float *v = (float *)(uintptr_t)m->t[i].data;
        for (size_t k = 0; m->t[i].dtype == KVREF_F32 && k < m->t[i].n_byte / 4; k++) {
            x = x * 1664525u + 1013904223u;
            v[k] = (float)(int32_t)(x >> 8) / 8388608.0f - 1.0f;
        }
    }
    /* greedy: what is chosen is the best */
    for (int f = 0; f < RUN_F; f++) {
        const float *main_logits = (const float *)trace_at(m, "slow.logits") + f * RUN_V;
        int best = 2;
        for (int i = 2; i < RUN_V; i++)
            if (main_logits[i] > main_logits[best]) best = i;
        frames[f * (1 + RUN_N)] = best;
        frames[f * (1 + RUN_N) + 1] = best - 2;
        for (int b = 1; b < RUN_N; b++) {
            const float *l =
                (const float *)trace_at(m, "fast.logits") + (f * (RUN_N - 1) + b - 1) * RUN_K;
            best = 0;
            for (int i = 1; i < RUN_K; i++)
                if (l[i] > l[best]) best = i;
            frames[f * (1 + RUN_N) + 1 + b] = best;
        }
    }
}

#endif
