/* SPDX-License-Identifier: MIT */
/* Starting the program again with the OpenBLAS kernels that suit this processor. OpenBLAS picks
 * its kernels when it is loaded; only OPENBLAS_CORETYPE, set before, changes that. */
#ifndef KVREF_TOOLS_BLAS_CORE_H
#define KVREF_TOOLS_BLAS_CORE_H

#include <stdbool.h>

/* The arguments of main, for starting again. */
extern char **blas_core_argv;

/* Starts the program again with the wanted core when the present one is poor. Returns without
 * doing so when the user has set OPENBLAS_CORETYPE, or when it was done before. */
void blas_core_choose(void);

/* True in the program that blas_core_choose started. */
bool blas_core_chosen(void);

#endif
