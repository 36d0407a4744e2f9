/* SPDX-License-Identifier: MIT */
/* Elementwise functions and norms of the codec. Each value depends on its own inputs alone, in
 * one written order, so rows may be cut and shared out anyhow.
 *
 * snake(x) = x + sin^2(alpha x) / (alpha + 1e-9). The sine is taken in double and rounded once
 * at the end: u - k pi with k the nearest integer and pi in three parts, of which the first two
 * have exact multiples up to k = 2^20; then Taylor up to r^15 on |r| <= pi/2 (error 6e-12).
 * Farther out the C library's sine is used. */
#include "ref/codec.h"

#include "ref/clones.h"

#include <math.h>
#include <string.h>

enum { LANES = 16, HALF = 8 };

typedef float eight __attribute__((vector_size(4 * HALF)));
typedef float eight_at __attribute__((vector_size(4 * HALF), aligned(4), may_alias));
typedef double wide __attribute__((vector_size(8 * HALF)));

#define ALWAYS static inline __attribute__((always_inline))

/* u = sin^2 u, eight at a time. */
ALWAYS void sine_squared(eight *u)
{
    wide x = __builtin_convertvector(*u, wide);
    wide k = x * 0x1.45f306dc9c883p-2 + 0x1.8p52;
    k -= 0x1.8p52;
    wide r = (x - k * 0x1.921fb544p+1) - k * 0x1.0b4611a6p-33;
    r -= k * 0x1.3198a2e037073p-68;
    wide z = r * r;
    wide s = z * (-1.0 / 1307674368000.0) + 1.0 / 6227020800.0;
    s = s * z - 1.0 / 39916800.0;
    s = s * z + 1.0 / 362880.0;
    s = s * z - 1.0 / 5040.0;
    s = s * z + 1.0 / 120.0;
    s = s * z - 1.0 / 6.0;
    s = r + r * z * s;
    *u = __builtin_convertvector(s * s, eight);
}

static void snake_far(float *y, const float *x, const float *alpha, const float *inverse, int n)
{
    for (int i = 0; i < n; i++) {
        double s = sin((double)(alpha[i] * x[i]));
        y[i] = x[i] + inverse[i] * (float)(s * s);
    }
}

/* 16 values; y may be x. */
ALWAYS void snake_group(float *y, const float *x, const float *alpha, const float *inverse)
{
    int far = 0;
    for (int i = 0; i < LANES; i++) far |= !(fabsf(alpha[i] * x[i]) < 0x1p20f);
    if (far) {
        snake_far(y, x, alpha, inverse, LANES);
        return;
    }
    for (int i = 0; i < LANES; i += HALF) {
        eight in = *(const eight_at *)(x + i);
        eight u = *(const eight_at *)(alpha + i) * in;
        sine_squared(&u);
        *(eight_at *)(y + i) = in + *(const eight_at *)(inverse + i) * u;
    }
}

REF_CLONES static void
snake_row(float *y, const float *x, const float *alpha, const float *inverse, int n)
{
    int i = 0;
    for (; i + LANES <= n; i += LANES) snake_group(y + i, x + i, alpha + i, inverse + i);
    if (i == n) return;
    float in[LANES] = {0}, a[LANES] = {0}, b[LANES] = {0}, out[LANES];
    size_t n_byte = (size_t)(n - i) * sizeof *x;
    memcpy(in, x + i, n_byte);
    memcpy(a, alpha + i, n_byte);
    memcpy(b, inverse + i, n_byte);
    snake_group(out, in, a, b);
    memcpy(y + i, out, n_byte);
}

void ref_snake_rows(float *y, const float *x, const ref_snake *snake, int n)
{
    int w = snake->width;
    for (int r = 0; r < n; r++, x += w, y += w)
        snake_row(y, x, snake->alpha, snake->inverse, w);
}

typedef struct snake_job {
    float *y;
    const float *x;
    const ref_snake *snake;
    int n, step;
} snake_job;

static void snake_task(void *arg, int worker, int first, int last)
{
    const snake_job *job = arg;
    (void)worker;
    for (int t = first; t < last; t++) {
        int r = t * job->step, m = job->n - r < job->step ? job->n - r : job->step;
        size_t at = (size_t)r * (size_t)job->snake->width;
        ref_snake_rows(job->y + at, job->x + at, job->snake, m);
    }
}

void ref_snake_run(kvref_codec *c, float *y, const float *x, const ref_snake *snake, int n)
{
    snake_job job = {y, x, snake, n, 1 + 16384 / snake->width};
    ref_share_run(c, snake_task, &job, (n + job.step - 1) / job.step);
}

void ref_gelu(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double v = (double)x[i];
        x[i] = (float)(0.5 * v * (1.0 + erf(v * 0.70710678118654752440)));
    }
}

/* Sum of x[i] - shift, or of its squares, in 16 lanes by i mod 16, added as a tree. */
static float lane_sum(const float *x, float shift, int square, int n)
{
    float lane[LANES] = {0};
    for (int i = 0; i < n; i += LANES) {
        for (int l = 0; l < LANES && i + l < n; l++) {
            float v = x[i + l] - shift;
            lane[l] += square ? v * v : v;
        }
    }
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) lane[l] += lane[l + half];
    return lane[0];
}

void ref_codec_layer_norm(
    float *y, const float *x, const float *weight, const float *bias, int n)
{
    float mean = lane_sum(x, 0.0f, 0, n) / (float)n;
    float var = lane_sum(x, mean, 1, n) / (float)n;
    float scale = (float)(1.0 / sqrt((double)(var + 1e-6f)));
    for (int i = 0; i < n; i++) y[i] = (x[i] - mean) * scale * weight[i] + bias[i];
}
