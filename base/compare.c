/* SPDX-License-Identifier: MIT */
/* Comparison of numbers with a reference. Two habits keep a broken result from passing: every
 * test is written so that a NaN fails it, and a value that is not finite is judged on its own,
 * before any subtraction. */
#include "kvref/compare.h"

#include "kvref/half.h"

#include <math.h>

static double largest(const float *x, size_t n)
{
    double max = 0;
    for (size_t i = 0; i < n; i++) {
        double mag = fabs((double)x[i]);
        if (isfinite(mag) && mag > max) max = mag;
    }
    return max;
}

/* Whether a pair, of which one at least is Inf or NaN, counts as agreeing. */
static bool same_kind(float a, float b)
{
    return (isnan(a) && isnan(b)) || (isinf(a) && isinf(b) && signbit(a) == signbit(b));
}

static void bad(kvref_difference *d, size_t i)
{
    if (d->n_bad++ == 0) d->first_bad = i;
}

kvref_difference
kvref_compare(const float *x, const float *ref, size_t n, const kvref_limit *limit)
{
    kvref_difference d = {.n = n, .at = n, .first_bad = n};
    d.max_mag = largest(ref, n);
    d.limit = limit->exact ? 0 : limit->rel * d.max_mag + limit->abs;
    for (size_t i = 0; i < n; i++) {
        bool same_bits = kvref_f32_bits(x[i]) == kvref_f32_bits(ref[i]);
        if (!isfinite(x[i]) || !isfinite(ref[i])) {
            d.n_nonfinite++;
            if (!limit->nonfinite || !(limit->exact ? same_bits : same_kind(x[i], ref[i])))
                bad(&d, i);
            continue;
        }
        double err = fabs((double)x[i] - (double)ref[i]);
        if (err > d.max_err) {
            d.max_err = err;
            d.at = i;
        }
        if (err == 0 && !same_bits) d.n_zero_sign++;
        if (limit->exact ? !same_bits : !(err <= d.limit)) bad(&d, i);
    }
    d.pass = n > 0 && d.n_bad == 0;
    return d;
}

kvref_difference kvref_compare_ints(const int32_t *x, const int32_t *ref, size_t n)
{
    kvref_difference d = {.n = n, .at = n, .first_bad = n};
    for (size_t i = 0; i < n; i++) {
        double err = fabs((double)x[i] - (double)ref[i]);
        if (err > d.max_err) {
            d.max_err = err;
            d.at = i;
        }
        if (x[i] != ref[i]) bad(&d, i);
    }
    d.pass = n > 0 && d.n_bad == 0;
    return d;
}

double kvref_difference_rel(const kvref_difference *d)
{
    return d->max_err > 0 ? d->max_err / d->max_mag : 0;
}
