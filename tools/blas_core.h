/* SPDX-License-Identifier: MIT */
/* Starting the program again with the OpenBLAS kernels that suit this processor. OpenBLAS picks
 * its kernels when it is loaded; only OPENBLAS_CORETYPE, set before, changes that. */
#ifndef KVREF_TOOLS_BLAS_CORE_H
#define KVREF_TOOLS_BLAS_CORE_H

#include "kvref/status.h"

#include <stdbool.h>

/* The arguments of main, for starting again. */
extern char **blas_core_argv;

/* Starts the program again with the wanted core when the present one is poor, unless the user
 * has set OPENBLAS_CORETYPE or it was done before. Notes which core is in use. */
void blas_core_use(const kvref_log *log);

/* True in the program that was started again. */
bool blas_core_chosen(void);

#endif
