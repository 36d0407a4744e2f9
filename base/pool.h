/* SPDX-License-Identifier: MIT */
/* A pool of threads made once. Work is split by task number, and every task writes its own
 * outputs, so results never depend on the number of threads. */
#ifndef KVREF_POOL_H
#define KVREF_POOL_H

#include "kvref/status.h"

typedef struct kvref_pool kvref_pool;

/* Threads that n_thread asks for: itself, or for 0 one per processor that this process may
 * use, at most 64. */
int kvref_pool_threads(int n_thread);

/* n_thread as above. One thread makes no thread at all. */
kvref_status kvref_pool_open(kvref_pool **out, int n_thread, kvref_error *err);
int kvref_pool_size(const kvref_pool *pool);

/* Calls fn(arg, worker, first, last) so that 0..n_task-1 is covered exactly once, by ranges,
 * each worker (0..size-1) at most once; returns when all are done. */
void kvref_pool_run(kvref_pool *pool,
                    void (*fn)(void *arg, int worker, int first, int last),
                    void *arg,
                    int n_task);

void kvref_pool_close(kvref_pool **pool);

#endif
