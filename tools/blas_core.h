/* SPDX-License-Identifier: MIT */
/* OpenBLAS picks its kernels when it is loaded, by a table of processors it knows; one it does
 * not know gets those of 2004. Only OPENBLAS_CORETYPE, set before loading, changes that. */
#ifndef KVREF_TOOLS_BLAS_CORE_H
#define KVREF_TOOLS_BLAS_CORE_H

#include <stdbool.h>

/* The core whose kernels OpenBLAS runs, and the one whose kernels suit this processor; wanted
 * is NULL when there is no opinion. */
const char *blas_core_found(void);
const char *blas_core_wanted(void);

/* True when found uses narrower vectors than wanted does. */
bool blas_core_poor(void);

/* Starts the program again with the wanted core when the found one is poor. Returns without
 * doing so when the user has set OPENBLAS_CORETYPE, or when it was done before. */
void blas_core_choose(char **argv);

/* True in the program that blas_core_choose started. */
bool blas_core_chosen(void);

/* The arguments of main, kept for blas_core_choose. */
extern char **blas_core_argv;

/* Widest vectors of this processor: "AVX-512", "AVX2", "SSE2". */
const char *blas_core_simd(void);

#endif
