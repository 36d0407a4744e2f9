/* SPDX-License-Identifier: MIT */
/* One block: threads on fibers, barriers, the queue of ready threads.
 * A thread runs until it waits or ends; then the first of the queue takes over, directly,
 * without a scheduler in between. A thread that has not begun needs no fiber yet: whoever ends
 * hands its own on, so a kernel without barriers runs on a single one. When nobody is ready,
 * all living threads must stand at one barrier, which then opens; anything else is a fault. */
#include "gpu/cudacpu/engine.h"

#include <stdlib.h>

namespace cudacpu_engine
{

machine m;

/* Ready threads, a ring; each is in it at most once. */
static uint16_t queue[MAX_THREAD];
static unsigned head, n_ready;

void ready_first(thread *t)
{
    t->state = READY;
    head = (head - 1) % MAX_THREAD;
    queue[head] = t->id;
    n_ready++;
}

void ready_last(thread *t)
{
    t->state = READY;
    queue[(head + n_ready++) % MAX_THREAD] = t->id;
}

static void all_ready()
{
    uint16_t order[MAX_THREAD];
    fill_order(order, m.n_thread);
    head = n_ready = 0;
    for (unsigned i = 0; i < m.n_thread; i++) {
        thread *t = &m.threads[order[i]];
        if (t->state != DONE) ready_last(t);
    }
}

static void fail_stuck()
{
    fail_of_waiting_warp();
    const thread *left = nullptr;
    for (unsigned i = 0; i < m.n_thread && !left; i++)
        if (m.threads[i].state == DONE) left = &m.threads[i];
    fail(CUDACPU_BARRIER_EXITED,
         "%u of %u threads wait at the barrier %s:%d, the others exited (thread %u is one)",
         m.n_barrier,
         m.n_thread,
         m.barrier_at.file,
         m.barrier_at.line,
         left ? left->id : 0u);
}

static void open_barrier()
{
    counts.n_barrier++;
    m.n_barrier = 0;
    if (check) check->barrier();
    all_ready();
}

/* The next thread to run; NULL: the block has ended. */
static thread *next()
{
    if (!n_ready) {
        if (m.n_done == m.n_thread) return nullptr;
        bool whole = m.n_barrier + m.n_done == m.n_thread;
        if (!whole || (m.n_done && !set.early_exit)) fail_stuck();
        open_barrier();
    }
    thread *t = &m.threads[queue[head]];
    head = (head + 1) % MAX_THREAD;
    n_ready--;
    return t;
}

static fiber *fiber_for(thread *t)
{
    if (t->fib) return t->fib;
    t->fib = fiber_take();
    if (!t->fib) fail(CUDACPU_NO_REPORT, "no memory for another stack");
    return t->fib;
}

void wait()
{
    thread *t = m.now, *n = next();
    if (n == t) return;
    fiber *to = fiber_for(n);
    m.now = n;
    fiber_switch(t->fib, to);
}

void fiber_main(fiber *self)
{
    for (;;) {
        m.now->fib = self;
        m.call->run(m.call);
        m.now->state = DONE;
        m.n_done++;
        thread *n = next();
        m.now = n;
        if (n && !n->fib) continue;
        fiber_park(self);
        fiber_switch(self, n ? n->fib : &main_fiber);
    }
}

void abandon()
{
    thread *t = m.now;
    m.abandoned = true;
    m.now = nullptr;
    fiber_switch(t->fib, &main_fiber);
    abort();
}

void prepare_threads()
{
    dim3 shape(m.block_shape.x, m.block_shape.y, m.block_shape.z);
    m.n_thread = shape.x * shape.y * shape.z;
    for (unsigned i = 0; i < m.n_thread; i++) {
        thread *t = &m.threads[i];
        t->index = {i % shape.x, i / shape.x % shape.y, i / (shape.x * shape.y)};
        t->id = static_cast<uint16_t>(i);
        t->lane = static_cast<uint8_t>(i % WARP);
        t->warp = static_cast<uint8_t>(i / WARP);
    }
}

void run_block()
{
    for (unsigned i = 0; i < m.n_thread; i++) {
        m.threads[i].fib = nullptr;
        m.threads[i].state = READY;
    }
    m.n_done = m.n_barrier = 0;
    warps_begin();
    all_ready();
    counts.n_block++;
    thread *first = next();
    fiber *f = fiber_for(first);
    m.now = first;
    fiber_switch(&main_fiber, f);
    m.now = nullptr;
    if (m.abandoned) fiber_restart_all();
}

} /* namespace cudacpu_engine */

namespace cudacpu
{
using namespace cudacpu_engine;

void barrier(const char *file, int line)
{
    thread *t = m.now;
    site here = {file, line};
    if (!m.n_barrier++) {
        m.barrier_at = here;
    } else if (!same_site(m.barrier_at, here)) {
        fail(CUDACPU_BARRIER_DIVERGED,
             "barrier at %s:%d while %u threads wait at the barrier %s:%d",
             file,
             line,
             m.n_barrier - 1,
             m.barrier_at.file,
             m.barrier_at.line);
    }
    t->state = AT_BARRIER;
    t->at = here;
    cudacpu_engine::wait();
}

uint3 thread_index()
{
    return m.now->index;
}

uint3 block_index()
{
    return m.block;
}

uint3 block_shape()
{
    return m.block_shape;
}

uint3 grid_shape()
{
    return m.grid_shape;
}

unsigned lane_id()
{
    return m.now->lane;
}

} /* namespace cudacpu */
