/* SPDX-License-Identifier: MIT */
/* The one comparison of numbers with a reference: every test and tool judges through it. */
#ifndef KVREF_COMPARE_H
#define KVREF_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What may differ. All zero: equal values, 0.0 and -0.0 counting as equal. */
typedef struct kvref_limit {
    double rel;     /* share of the largest finite magnitude in the reference                */
    double abs;     /* added to that                                                         */
    bool exact;     /* equal bits are asked for; rel and abs are not looked at               */
    bool nonfinite; /* Inf of the same sign, or NaN on both sides, agree; else never allowed */
} kvref_limit;

/* What was found. Indices are n when there is nothing to point at. */
typedef struct kvref_difference {
    bool pass;
    size_t n;           /* values compared                                           */
    double max_err;     /* largest |x - ref| where both are finite                   */
    size_t at;          /* where: the first of equals                                */
    double max_mag;     /* largest finite |ref|                                      */
    double limit;       /* rel * max_mag + abs; 0 when exact                         */
    size_t n_bad;       /* values that fail                                          */
    size_t first_bad;   /* the first of them                                         */
    size_t n_nonfinite; /* places where x or ref is Inf or NaN                       */
    size_t n_zero_sign; /* places where one is 0.0 and the other -0.0 (bad if exact) */
} kvref_difference;

/* Compares x [n] with ref [n]. A value passes only if |x - ref| <= limit holds, which no NaN
 * can satisfy; Inf and NaN on either side fail unless the limit allows them. Nothing compared
 * (n 0) is not a pass. */
kvref_difference
kvref_compare(const float *x, const float *ref, size_t n, const kvref_limit *limit);

/* The same for integers (codes, token ids): exact, max_mag and limit stay 0. */
kvref_difference kvref_compare_ints(const int32_t *x, const int32_t *ref, size_t n);

/* max_err / max_mag, the figure that limits of the form `rel` are about. 0 when equal, Inf
 * when the reference is all zero and x is not. */
double kvref_difference_rel(const kvref_difference *d);

#ifdef __cplusplus
}
#endif
#endif
