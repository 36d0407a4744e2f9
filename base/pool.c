/* SPDX-License-Identifier: MIT */
/* Worker threads that sleep between calls. The caller is worker 0 and takes its own share. */
#include "base/pool.h"

#include "base/base.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct worker {
    kvref_pool *pool;
    int index;
    pthread_t thread;
} worker;

struct kvref_pool {
    int n;         /* workers, the caller included */
    int n_started; /* threads that exist           */
    worker *worker;
    pthread_mutex_t lock;
    pthread_cond_t start, done;
    unsigned long turn; /* counts calls of run */
    int busy;
    bool quit;
    void (*fn)(void *arg, int worker, int first, int last);
    void *arg;
    int n_task;
};

/* Worker w's share of n tasks: ranges that differ by one in length at most. */
static int share(const kvref_pool *p, int w)
{
    return (int)((long long)p->n_task * w / p->n);
}

static void work(kvref_pool *p, int w)
{
    int first = share(p, w), last = share(p, w + 1);
    if (first < last) p->fn(p->arg, w, first, last);
}

static void *loop(void *arg)
{
    worker *me = arg;
    kvref_pool *p = me->pool;
    unsigned long seen = 0;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->quit && p->turn == seen) pthread_cond_wait(&p->start, &p->lock);
        if (p->quit) break;
        seen = p->turn;
        pthread_mutex_unlock(&p->lock);
        work(p, me->index);
        pthread_mutex_lock(&p->lock);
        if (--p->busy == 0) pthread_cond_signal(&p->done);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

int kvref_pool_threads(int n_thread)
{
    cpu_set_t set;
    if (n_thread > 0) return n_thread;
    long n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                         : sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > 64 ? 64 : (int)n;
}

kvref_status kvref_pool_open(kvref_pool **out, int n_thread, kvref_error *err)
{
    *out = NULL;
    if (n_thread < 0 || n_thread > 1024)
        return kvref_fail(err, KVREF_E_ARG, "threads: expected 0..1024, found %d", n_thread);
    n_thread = kvref_pool_threads(n_thread);
    kvref_pool *p = calloc(1, sizeof *p);
    if (!p) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    p->n = n_thread;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->start, NULL);
    pthread_cond_init(&p->done, NULL);
    p->worker = calloc((size_t)n_thread, sizeof *p->worker);
    for (int w = 1; p->worker && w < n_thread; w++) {
        p->worker[w] = (worker){.pool = p, .index = w};
        if (pthread_create(&p->worker[w].thread, NULL, loop, &p->worker[w]) != 0) break;
        p->n_started++;
    }
    if (!p->worker || p->n_started != n_thread - 1) {
        kvref_pool_close(&p);
        return kvref_fail(err, KVREF_E_MEMORY, "cannot start %d threads", n_thread);
    }
    *out = p;
    return KVREF_OK;
}

int kvref_pool_size(const kvref_pool *pool)
{
    return pool->n;
}

void kvref_pool_run(kvref_pool *p,
                    void (*fn)(void *arg, int worker, int first, int last),
                    void *arg,
                    int n_task)
{
    if (p->n == 1 || n_task <= 1) {
        if (n_task > 0) fn(arg, 0, 0, n_task);
        return;
    }
    pthread_mutex_lock(&p->lock);
    p->fn = fn;
    p->arg = arg;
    p->n_task = n_task;
    p->busy = p->n - 1;
    p->turn++;
    pthread_cond_broadcast(&p->start);
    pthread_mutex_unlock(&p->lock);
    work(p, 0);
    pthread_mutex_lock(&p->lock);
    while (p->busy) pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

void kvref_pool_close(kvref_pool **pool)
{
    kvref_pool *p = *pool;
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->quit = true;
    pthread_cond_broadcast(&p->start);
    pthread_mutex_unlock(&p->lock);
    for (int w = 1; w <= p->n_started; w++) pthread_join(p->worker[w].thread, NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->start);
    pthread_cond_destroy(&p->done);
    free(p->worker);
    free(p);
    *pool = NULL;
}
