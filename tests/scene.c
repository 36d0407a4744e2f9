/* SPDX-License-Identifier: MIT */
#include "tests/scene.h"

#include "tests/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void fill(scene *s, scene_input kind)
{
    size_t e = (size_t)s->d_head, rows = (size_t)(s->n_past + s->n_row);
    size_t n_q = (size_t)s->n_row * (size_t)s->n_head * e, n_k = rows * (size_t)s->n_kv * e;
    for (size_t i = 0; i < n_q; i++) {
        if (kind == SCENE_ZERO) s->q[i] = 0;
        if (kind == SCENE_LARGE) s->q[i] *= 60;
        if (kind == SCENE_HUGE_VALUES) s->q[i] = 1;
    }
    for (size_t i = 0; i < n_k; i++) {
        if (kind == SCENE_LARGE) s->k[i] *= 10;
        if (kind == SCENE_EQUAL) s->k[i] = s->k[i % e];
        if (kind == SCENE_DOMINANT && i / e == rows / 2 * (size_t)s->n_kv)
            s->k[i] = 30 * s->q[i % e];
        if (kind == SCENE_HUGE_VALUES) s->k[i] = s->k[i] > 0 ? 65504 : -65504;
        if (kind == SCENE_HUGE_VALUES) s->v[i] *= 65504;
    }
}

void scene_open(scene *s,
                int n_head,
                int n_kv,
                int d_head,
                int capacity,
                int n_past,
                int n_row,
                scene_input kind)
{
    *s = (scene){.n_head = n_head,
                 .n_kv = n_kv,
                 .d_head = d_head,
                 .capacity = capacity,
                 .n_past = n_past,
                 .n_row = n_row};
    size_t e = (size_t)d_head, rows = (size_t)(n_past + n_row),
           wide = (size_t)n_head * (size_t)capacity * e;
    s->n_byte = ref_kv_init(&s->kv, 1, n_kv, d_head, capacity);
    s->kv.base = mmap(NULL,
                      s->n_byte,
                      PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                      -1,
                      0);
    ck_assert(s->kv.base != MAP_FAILED);
    s->q = world_floats((size_t)(n_row * n_head) * e, 1, 1);
    s->k = world_floats(rows * (size_t)n_kv * e, 1, 2);
    s->v = world_floats(rows * (size_t)n_kv * e, 1, 3);
    s->out = world_floats((size_t)(n_row * n_head) * e + 8, 1e30f, 4);
    fill(s, kind);
    world_tools(&s->tools,
                ref_simd_best(),
                1,
                64,
                ref_attention_scratch(n_head, n_kv, d_head, capacity));
    s->tools.wide_k = calloc(wide, sizeof(float));
    s->tools.wide_v = calloc(wide, sizeof(float));
    ck_assert(s->tools.wide_k && s->tools.wide_v);
    ref_kv_append(&s->kv, 0, 0, s->k, s->v, (int)rows);
}

void scene_close(scene *s)
{
    munmap(s->kv.base, s->n_byte);
    free(s->q);
    free(s->k);
    free(s->v);
    free(s->out);
    world_tools_close(&s->tools);
}

size_t scene_size(const scene *s)
{
    return (size_t)(s->n_row * s->n_head * s->d_head);
}

const float *scene_run(scene *s, ref_attention *form)
{
    float *guard = world_floats(8, 1e29f, 6);
    for (size_t i = 0; i < scene_size(s); i++) s->out[i] = NAN;
    memcpy(s->out + scene_size(s), guard, 8 * sizeof *guard);
    for (int w = 0; w < kvref_pool_size(s->tools.pool); w++)
        s->tools.count[w] = (kvref_kv_count){0};
    form(&s->tools, s->out, s->q, &s->kv, 0, s->n_past, s->n_row, s->n_head);
    ck_assert_uint_eq(world_differ(s->out + scene_size(s), guard, 8), 0);
    free(guard);
    return s->out;
}

float *scene_copy(const float *x, size_t n)
{
    float *y = malloc(n * sizeof *y);
    ck_assert_ptr_nonnull(y);
    memcpy(y, x, n * sizeof *y);
    return y;
}

double scene_share(const scene *s, const float *out)
{
    double worst = 0;
    int e = s->d_head, group = s->n_head / s->n_kv;
    double *score = malloc((size_t)(s->n_past + s->n_row) * sizeof *score);
    ck_assert_ptr_nonnull(score);
    for (int t = 0; t < s->n_row; t++)
        for (int h = 0; h < s->n_head; h++) {
            const float *q = s->q + (t * s->n_head + h) * e;
            int g = h / group, n = s->n_past + t + 1;
            double max = -HUGE_VAL, total = 0, size = 1, v_size = 0;
            for (int r = 0; r < n; r++) {
                double dot = 0, sum = 0;
                for (int i = 0; i < e; i++) {
                    double term = (double)q[i] * (double)s->k[(r * s->n_kv + g) * e + i];
                    dot += term;
                    sum += fabs(term);
                }
                score[r] = dot / sqrt(e);
                if (score[r] > max) max = score[r];
                if (sum / sqrt(e) > size) size = sum / sqrt(e);
            }
            for (int r = 0; r < n; r++) total += score[r] = exp(score[r] - max);
            for (int i = 0; i < e; i++) {
                double want = 0;
                for (int r = 0; r < n; r++) {
                    double v = (double)s->v[(r * s->n_kv + g) * e + i];
                    want += score[r] / total * v;
                    if (fabs(v) > v_size) v_size = fabs(v);
                }
                double limit = 0x1p-22 * (size + 8) * v_size + 1e-30;
                double share = fabs((double)out[(t * s->n_head + h) * e + i] - want) / limit;
                if (!(share <= worst)) worst = share;
            }
        }
    free(score);
    return worst;
}
