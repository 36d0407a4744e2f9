/* SPDX-License-Identifier: MIT */
/* Windowed-sinc resampling (spec 06 section 5): zero crossings 6, rolloff 0.99, Hann window.
 * With o = from/gcd and n = to/gcd, output m n + j is
 *   sum over k = -W .. W + o - 1 of weight[j][k] x[m o + k],
 *   weight = sinc(t) cos^2(pi t / 12) base / o,  t = (-j/n + k/o) base clamped to [-6, 6].
 * The kernel is made in double but for -j/n, which upstream forms in float32; sums are in
 * double, in order of k. */
#include "base/base.h"
#include "kvref/codec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CROSSINGS = 6, MAX_TABLE = 1 << 24 };

typedef struct filter {
    int64_t o, n, half, n_tap; /* n_tap = 2 half + o */
    float *weight;             /* [n, n_tap] */
} filter;

static int64_t common(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static void fill(filter *f, double base)
{
    const double pi = 3.14159265358979323846;
    for (int64_t j = 0; j < f->n; j++) {
        double shift = (double)(-(float)j / (float)f->n);
        for (int64_t k = 0; k < f->n_tap; k++) {
            double t = (shift + (double)(k - f->half) / (double)f->o) * base;
            t = t < -CROSSINGS ? -CROSSINGS : t > CROSSINGS ? CROSSINGS : t;
            double c = cos(pi * t / (2 * CROSSINGS));
            double sinc = t == 0.0 ? 1.0 : sin(pi * t) / (pi * t);
            f->weight[j * f->n_tap + k] = (float)(sinc * c * c * base / (double)f->o);
        }
    }
}

static kvref_status make(filter *f, int from_hz, int to_hz, kvref_error *err)
{
    int64_t gcd = common(from_hz, to_hz);
    f->o = from_hz / gcd;
    f->n = to_hz / gcd;
    double base = 0.99 * (double)(f->o < f->n ? f->o : f->n);
    f->half = (int64_t)ceil(CROSSINGS * (double)f->o / base);
    f->n_tap = 2 * f->half + f->o;
    if (f->n_tap > MAX_TABLE / f->n)
        return kvref_fail(err,
                          KVREF_E_UNSUPPORTED,
                          "resampling from %d to %d Hz: the filter has %lld values, at most %d",
                          from_hz,
                          to_hz,
                          (long long)(f->n * f->n_tap),
                          MAX_TABLE);
    f->weight = calloc((size_t)(f->n * f->n_tap), sizeof *f->weight);
    if (!f->weight) return kvref_fail(err, KVREF_E_MEMORY, "resampling: out of memory");
    fill(f, base);
    return KVREF_OK;
}

static float output(const filter *f, const float *x, int64_t n, int64_t index)
{
    const float *w = f->weight + index % f->n * f->n_tap;
    int64_t first = index / f->n * f->o - f->half;
    int64_t lo = first < 0 ? -first : 0, hi = n - first < f->n_tap ? n - first : f->n_tap;
    double sum = 0.0;
    for (int64_t k = lo; k < hi; k++) sum += (double)w[k] * (double)x[first + k];
    return (float)sum;
}

kvref_status kvref_resample(float **out,
                            size_t *n_out,
                            const float *x,
                            size_t n,
                            int from_hz,
                            int to_hz,
                            kvref_error *err)
{
    filter f = {0};
    *out = NULL;
    *n_out = 0;
    if (from_hz < 1 || to_hz < 1)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "resampling: rates %d and %d, expected 1 or more",
                          from_hz,
                          to_hz);
    if (n > ((size_t)1 << 40))
        return kvref_fail(err, KVREF_E_ARG, "resampling: %zu samples are too many", n);
    if (from_hz != to_hz) KVREF_TRY(make(&f, from_hz, to_hz, err));
    size_t o = from_hz == to_hz ? 1 : (size_t)f.o, up = from_hz == to_hz ? 1 : (size_t)f.n;
    size_t m = n / o * up + (n % o * up + o - 1) / o, n_byte;
    float *y = kvref_mul_size(m ? m : 1, sizeof *y, &n_byte) ? malloc(n_byte) : NULL;
    if (!y) {
        free(f.weight);
        return kvref_fail(err, KVREF_E_MEMORY, "resampling: no memory for %zu samples", m);
    }
    if (!f.weight && n) memcpy(y, x, n * sizeof *y);
    for (size_t i = 0; f.weight && i < m; i++) y[i] = output(&f, x, (int64_t)n, (int64_t)i);
    free(f.weight);
    *out = y;
    *n_out = m;
    return KVREF_OK;
}
