/* SPDX-License-Identifier: MIT */
/* Whether the OpenBLAS in use suits this CPU and computes rightly.
 *
 * The number of threads of OpenBLAS belongs to the whole process. Decoders and codecs that use
 * it deal out the work themselves: they set it to 1 for as long as a call runs and put back
 * what they found. Two such calls at the same time in two threads give the same bits, but may
 * leave it at 1; a program that multiplies by OpenBLAS itself sets it again after them. */
#ifndef KVREF_BLAS_H
#define KVREF_BLAS_H

#include "kvref/status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* OpenBLAS picks its kernels by CPU model and takes very old ones for a model it does not
 * know. False when the CPU can do much more than the kernels in use: then *wanted is what
 * OPENBLAS_CORETYPE should be before the program starts. *found names the kernels in use. Both
 * are static text, set in every case; *wanted equals *found when the result is true. */
bool kvref_blas_core(const char **found, const char **wanted);

/* Multiplies small matrices of awkward shapes and compares every element with a sum in double
 * by the rule 2 sqrt(n) 2^-24 sum |a b| + 2^-24 |sum|. Errors: DEVICE. */
kvref_status kvref_blas_selftest(kvref_error *err);

#ifdef __cplusplus
}
#endif
#endif
