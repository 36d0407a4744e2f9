/* SPDX-License-Identifier: MIT */
/* Tasks dealt out as workers come for them, a few at a time: a worker that the system has put
 * aside holds up no more than its present share. Who does a task changes nothing in it. */
#include "ref/codec.h"

#include <stdatomic.h>

typedef struct share {
    void (*fn)(void *arg, int worker, int first, int last);
    void *arg;
    int n_task, step;
    atomic_int next;
} share;

static void work(void *arg, int worker, int first, int last)
{
    share *s = arg;
    (void)first;
    (void)last;
    for (;;) {
        int at = atomic_fetch_add_explicit(&s->next, s->step, memory_order_relaxed);
        if (at >= s->n_task) return;
        s->fn(s->arg, worker, at, s->n_task - at < s->step ? s->n_task : at + s->step);
    }
}

void ref_share_run(kvref_codec *c,
                   void (*fn)(void *arg, int worker, int first, int last),
                   void *arg,
                   int n_task)
{
    int n = kvref_pool_size(c->pool);
    if (n == 1 || n_task == 1) {
        fn(arg, 0, 0, n_task);
        return;
    }
    share s = {.fn = fn, .arg = arg, .n_task = n_task, .step = 1 + n_task / (16 * n)};
    atomic_init(&s.next, 0);
    kvref_pool_run(c->pool, work, &s, n);
}
