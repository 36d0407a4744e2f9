/* SPDX-License-Identifier: MIT */
/* Starting again with other OpenBLAS kernels, at most once: the environment carries a mark. */
#include "tools/blas_core.h"

#include "base/base.h"
#include "kvref/blas.h"

#include <stdlib.h>
#include <unistd.h>

#define CORETYPE "OPENBLAS_CORETYPE"
#define MARK     "KVREF_CORETYPE_CHOSEN"

char **blas_core_argv;

bool blas_core_chosen(void)
{
    return getenv(MARK) != NULL;
}

static void choose(void)
{
    const char *found, *wanted;
    if (!blas_core_argv || getenv(CORETYPE) || getenv(MARK)) return;
    if (kvref_blas_core(&found, &wanted)) return;
    if (setenv(CORETYPE, wanted, 1) != 0 || setenv(MARK, "1", 1) != 0) return;
    execv("/proc/self/exe", blas_core_argv);
    unsetenv(CORETYPE); /* could not be started again: go on with the slow kernels */
    unsetenv(MARK);
}

void blas_core_use(const kvref_log *log)
{
    const char *found, *wanted;
    choose();
    kvref_blas_core(&found, &wanted);
    kvref_note(log,
               "OpenBLAS core %s%s",
               found,
               blas_core_chosen() ? ", chosen by starting kvref again" : "");
}
