/* SPDX-License-Identifier: MIT */
/* Spreading tasks over the pool.
 *
 * Notice what the rule "a task writes its own outputs" buys: no result depends on the number
 * of threads or on who was first, so a test on one thread vouches for all. */
#include "ref/ref.h"

void ref_run(const ref_tools *tools,
             void (*fn)(void *arg, int worker, int first, int last),
             void *arg,
             int n_task,
             double work)
{
    if (work < REF_WAKE_WORK)
        fn(arg, 0, 0, n_task);
    else
        kvref_pool_run(tools->pool, fn, arg, n_task);
}
