/* SPDX-License-Identifier: MIT */
/* Weights of a checkpoint as float16, for backends that compute in it (spec 01 section 6). */
#ifndef KVREF_BASE_NARROW_H
#define KVREF_BASE_NARROW_H

#include "kvref/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the conversion did to the values. */
typedef struct kvref_narrowed {
    uint64_t n;         /* values converted                                           */
    uint64_t overflow;  /* finite ones that became infinite                           */
    uint64_t underflow; /* others than 0 that became 0                                */
    uint64_t subnormal; /* that became subnormal, and so may have lost bits           */
    uint64_t inexact;   /* all that changed, those above included                     */
} kvref_narrowed;

/* Rows first .. first+n-1 of w, rounded to nearest even, to out [n, stride]; places from
 * w->n_col on become 0. Adds to *count (may be NULL). Allocates nothing. */
void kvref_narrow(uint16_t *out,
                  size_t stride,
                  const kvref_weight *w,
                  int first,
                  int n,
                  kvref_narrowed *count);

#ifdef __cplusplus
}
#endif
#endif
