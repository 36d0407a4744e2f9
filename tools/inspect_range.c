/* SPDX-License-Identifier: MIT */
/* What conversion to float16 would do to weights. 16-bit tensors are counted by bit pattern
 * first and judged once per pattern. */
#include "base/base.h"
#include "base/pool.h"
#include "kvref/half.h"
#include "tools/inspect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERNS = 1 << 16, CHUNK = 1 << 18 };

/* One worker's counts; `direct` serves float32, `pattern` the rest. */
typedef struct worker {
    uint64_t pattern[PATTERNS];
    range_count direct;
} worker;

struct range_scan {
    kvref_pool *pool;
    worker *worker;
    int n_worker;
    const kvref_tensor *tensor;
    uint64_t n; /* its elements */
};

static void judge(range_count *c, float x, uint64_t times)
{
    c->n += times;
    float half = kvref_f16_f32(kvref_f32_f16(x));
    if (isnan(x)) {
        c->nan += times;
    } else if (isinf(x)) {
        c->inf += times;
    } else {
        if (isinf(half)) {
            c->overflow += times;
        } else if (half == 0 && x != 0) {
            c->flushed += times;
        } else if (half != x) {
            c->inexact += times;
        }
        if (fabsf(x) > c->largest) c->largest = fabsf(x);
    }
}

static void count_chunks(void *arg, int id, int first, int last)
{
    range_scan *s = arg;
    worker *w = &s->worker[id];
    const unsigned char *data = s->tensor->data;
    uint64_t from = (uint64_t)first * CHUNK, to = (uint64_t)last * CHUNK;
    if (to > s->n) to = s->n;
    for (uint64_t i = from; i < to; i++) {
        if (s->tensor->dtype == KVREF_F32) {
            float x;
            memcpy(&x, data + 4 * i, 4);
            judge(&w->direct, x, 1);
        } else {
            uint16_t bits;
            memcpy(&bits, data + 2 * i, 2);
            w->pattern[bits]++;
        }
    }
}

static void merge(range_count *to, const range_count *from)
{
    to->n += from->n;
    to->nan += from->nan;
    to->inf += from->inf;
    to->overflow += from->overflow;
    to->flushed += from->flushed;
    to->inexact += from->inexact;
    if (from->largest > to->largest) to->largest = from->largest;
}

kvref_status range_scan_open(range_scan **out, kvref_error *err)
{
    *out = NULL;
    range_scan *s = calloc(1, sizeof *s);
    if (!s) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    kvref_status status = kvref_pool_open(&s->pool, 0, err);
    if (status == KVREF_OK) {
        s->n_worker = kvref_pool_size(s->pool);
        s->worker = calloc((size_t)s->n_worker, sizeof *s->worker);
        if (!s->worker) status = kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    }
    if (status != KVREF_OK) {
        range_scan_close(&s);
        return status;
    }
    *out = s;
    return KVREF_OK;
}

void range_scan_add(range_scan *s, range_count *count, const kvref_tensor *tensor)
{
    if (tensor->dtype != KVREF_F32 && tensor->dtype != KVREF_F16 && tensor->dtype != KVREF_BF16)
        return;
    s->tensor = tensor;
    s->n = tensor->n_byte / kvref_dtype_size(tensor->dtype);
    if (s->n == 0) return;
    kvref_pool_run(s->pool, count_chunks, s, (int)((s->n + CHUNK - 1) / CHUNK));
    for (int i = 0; i < s->n_worker; i++) {
        worker *w = &s->worker[i];
        merge(count, &w->direct);
        for (unsigned h = 0; h < PATTERNS && tensor->dtype != KVREF_F32; h++) {
            bool bf16 = tensor->dtype == KVREF_BF16;
            float x = bf16 ? kvref_bf16_f32((uint16_t)h) : kvref_f16_f32((uint16_t)h);
            if (w->pattern[h]) judge(count, x, w->pattern[h]);
        }
        memset(w, 0, sizeof *w);
    }
}

void range_scan_close(range_scan **scan)
{
    range_scan *s = *scan;
    if (!s) return;
    kvref_pool_close(&s->pool);
    free(s->worker);
    free(s);
    *scan = NULL;
}
