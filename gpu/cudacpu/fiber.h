/* SPDX-License-Identifier: MIT */
/* Stacks of their own for the threads of a block, switched by hand: on x86-64 six registers and
 * an indirect jump (4 ns measured; ending in `ret` costs three times that, since the return
 * predictor is wrong every time), elsewhere swapcontext. A fiber runs `fiber_main` for ever;
 * the scheduler parks and reuses it. */
#ifndef KVREF_GPU_CUDACPU_FIBER_H
#define KVREF_GPU_CUDACPU_FIBER_H

#include <stddef.h>
#include <stdint.h>

#if !defined(__x86_64__) && !defined(CUDACPU_UCONTEXT)
#define CUDACPU_UCONTEXT 1
#endif
#ifdef CUDACPU_UCONTEXT
#include <ucontext.h>
#endif

namespace cudacpu_engine
{

struct fiber {
    void *sp;         /* where it stopped */
    char *low, *high; /* its stack */
    size_t offset;    /* bytes left unused at its top */
    void *asan;       /* fake stack of AddressSanitizer */
    fiber *next_free;
#ifdef CUDACPU_UCONTEXT
    ucontext_t context;
#endif
};

/* The stack of the caller of run_grid. */
extern fiber main_fiber;

/* A fiber to run; made when none is parked. NULL: no memory. */
fiber *fiber_take();
void fiber_park(fiber *f);
/* Whoever holds fibers forgets them: after an abandoned block all are made ready again. */
void fiber_restart_all();
/* p lies on the stack of some fiber. */
bool fiber_stack_holds(const void *p);
void fiber_switch(fiber *from, fiber *to);
/* What every fiber runs; defined by the scheduler. Never returns. */
void fiber_main(fiber *self);

} /* namespace cudacpu_engine */

#endif
