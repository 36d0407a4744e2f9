/* SPDX-License-Identifier: MIT */
#include "tests/scene.h"

#include "kvref/limits.h"
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

/* Double scores and weights of one head at one query row. */
typedef struct truth {
    int n;
    double *weight, *slip; /* [n]: softmax weights; relative errors allowed to them */
} truth;

/* Dot products by rule T1; then the products with the scale, the subtraction of
 * the largest and the exponential round: 2u |s|, u |s - max| and 2u. */
static void find_truth(truth *a, const scene *s, const float *q, int g)
{
    const double u = KVREF_U_F32, scale = 1 / sqrt(s->d_head);
    double max = -HUGE_VAL, total = 0;
    for (int r = 0; r < a->n; r++) {
        double dot = 0, size = 0;
        for (int i = 0; i < s->d_head; i++) {
            double term = (double)q[i] * (double)s->k[(r * s->n_kv + g) * s->d_head + i];
            dot += term;
            size += fabs(term);
        }
        a->weight[r] = dot * scale;
        a->slip[r] = kvref_t1(s->d_head, size * scale, 2 * dot * scale, u);
        if (a->weight[r] > max) max = a->weight[r];
    }
    for (int r = 0; r < a->n; r++) {
        a->slip[r] = expm1(a->slip[r] + u * (max - a->weight[r]) + 2 * u);
        total += a->weight[r] = exp(a->weight[r] - max);
    }
    for (int r = 0; r < a->n; r++) a->weight[r] /= total;
}

/* y = sum of w v / sum of w. A slip of w[r] moves it by w[r] |v[r] - y|; both sums follow
 * T1; the division rounds. */
static double share_of(const truth *a, const float *v, size_t stride, float found)
{
    const double u = KVREF_U_F32;
    double y = 0, size = 0, limit = 0;
    for (int r = 0; r < a->n; r++) {
        y += a->weight[r] * (double)v[(size_t)r * stride];
        size += a->weight[r] * fabs((double)v[(size_t)r * stride]);
    }
    for (int r = 0; r < a->n; r++)
        limit += a->weight[r] * fabs((double)v[(size_t)r * stride] - y) * a->slip[r];
    limit += kvref_t1(a->n, size + fabs(y), y, u);
    return fabs((double)found - y) / limit;
}

double scene_share(const scene *s, const float *out)
{
    double worst = 0;
    int e = s->d_head, most = s->n_past + s->n_row;
    truth a = {.weight = malloc((size_t)most * sizeof(double)),
               .slip = malloc((size_t)most * sizeof(double))};
    ck_assert(a.weight && a.slip);
    for (int t = 0; t < s->n_row; t++)
        for (int h = 0; h < s->n_head; h++) {
            int g = h / (s->n_head / s->n_kv), row = t * s->n_head + h;
            a.n = s->n_past + t + 1;
            find_truth(&a, s, s->q + row * e, g);
            for (int i = 0; i < e; i++) {
                double share =
                    share_of(&a, s->v + g * e + i, (size_t)(s->n_kv * e), out[row * e + i]);
                if (!(share <= worst)) worst = share;
            }
        }
    free(a.weight);
    free(a.slip);
    return worst;
}
