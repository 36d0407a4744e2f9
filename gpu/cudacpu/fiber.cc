/* SPDX-License-Identifier: MIT */
/* Fibers: stacks, the switch, and what AddressSanitizer must be told about both. */
#include "gpu/cudacpu/fiber.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define STACK_BYTE (256u << 10) /* red zones and unshared frames */
#else
#define STACK_BYTE (64u << 10)
#endif

namespace cudacpu_engine
{

fiber main_fiber;
static fiber *parked;
static fiber *all[1024];
static unsigned n_all;

#ifdef WITH_ASAN
/* First thing on a stack after a switch to it; `from` is the fiber that was left. */
static void arrived(fiber *self, fiber *from)
{
    const void *low;
    size_t n;
    __sanitizer_finish_switch_fiber(self->asan, &low, &n);
    if (from == &main_fiber) {
        from->low = static_cast<char *>(const_cast<void *>(low));
        from->high = from->low + n;
    }
}
static fiber *left; /* the fiber of the switch under way */
#endif

static void begin(fiber *self)
{
#ifdef WITH_ASAN
    arrived(self, left);
#endif
    fiber_main(self);
    abort();
}

#ifdef CUDACPU_UCONTEXT

static void begin_context(unsigned high, unsigned low)
{
    begin(reinterpret_cast<fiber *>(static_cast<uintptr_t>(high) << 32 | low));
}

static void prepare(fiber *f)
{
    uintptr_t self = reinterpret_cast<uintptr_t>(f);
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->low;
    f->context.uc_stack.ss_size = static_cast<size_t>(f->high - f->low) - f->offset;
    f->context.uc_link = nullptr;
    makecontext(&f->context,
                reinterpret_cast<void (*)()>(reinterpret_cast<void *>(begin_context)),
                2,
                static_cast<unsigned>(self >> 16 >> 16),
                static_cast<unsigned>(self));
}

static void change(fiber *from, fiber *to)
{
    swapcontext(&from->context, &to->context);
}

#else

/* void cudacpu_change(void **from_sp, void *to_sp, fiber *to): saves what a call must preserve,
 * takes the other stack, jumps to where it stopped. rdx passes `to` to a fiber that begins. */
extern "C" void cudacpu_change(void **from_sp, void *to_sp, fiber *to);
extern "C" void cudacpu_begin(void);
extern "C" void cudacpu_begin_fiber(fiber *self);
extern "C" void cudacpu_begin_fiber(fiber *self)
{
    begin(self);
}

__asm__(".text\n"
        ".p2align 4\n"
        ".globl cudacpu_change\n"
        ".hidden cudacpu_change\n"
        ".type cudacpu_change,@function\n"
        "cudacpu_change:\n"
        "  pushq %rbp\n"
        "  pushq %rbx\n"
        "  pushq %r12\n"
        "  pushq %r13\n"
        "  pushq %r14\n"
        "  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n"
        "  popq %r14\n"
        "  popq %r13\n"
        "  popq %r12\n"
        "  popq %rbx\n"
        "  popq %rbp\n"
        "  popq %rcx\n"
        "  jmpq *%rcx\n"
        ".size cudacpu_change,.-cudacpu_change\n"
        ".globl cudacpu_begin\n"
        ".hidden cudacpu_begin\n"
        ".type cudacpu_begin,@function\n"
        "cudacpu_begin:\n"
        "  movq %rdx, %rdi\n"
        "  callq cudacpu_begin_fiber\n"
        "  ud2\n"
        ".size cudacpu_begin,.-cudacpu_begin\n");

static void prepare(fiber *f)
{
    /* the two words keep the stack 16-byte aligned at the call */
    void **sp = reinterpret_cast<void **>(f->high - f->offset) - 2;
    *--sp = reinterpret_cast<void *>(cudacpu_begin);
    for (int i = 0; i < 6; i++) *--sp = nullptr;
    f->sp = sp;
}

static void change(fiber *from, fiber *to)
{
    cudacpu_change(&from->sp, to->sp, to);
}

#endif

static fiber *make()
{
    if (n_all == sizeof all / sizeof *all) return nullptr;
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    fiber *f = static_cast<fiber *>(calloc(1, sizeof *f));
    if (!f) return nullptr;
    void *at = mmap(nullptr,
                    page + STACK_BYTE,
                    PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1,
                    0);
    if (at == MAP_FAILED || mprotect(at, page, PROT_NONE) != 0) {
        free(f);
        return nullptr;
    }
    f->low = static_cast<char *>(at) + page;
    f->high = f->low + STACK_BYTE;
    f->offset = n_all * 320 % 4096; /* or all tops would share a few cache sets */
    prepare(f);
    all[n_all++] = f;
    return f;
}

fiber *fiber_take()
{
    fiber *f = parked;
    if (!f) return make();
    parked = f->next_free;
    return f;
}

void fiber_park(fiber *f)
{
    f->next_free = parked;
    parked = f;
}

bool fiber_stack_holds(const void *p)
{
    for (unsigned i = 0; i < n_all; i++)
        if (p >= all[i]->low && p < all[i]->high) return true;
    return false;
}

void fiber_restart_all()
{
    parked = nullptr;
    for (unsigned i = 0; i < n_all; i++) {
#ifdef WITH_ASAN
        __asan_unpoison_memory_region(all[i]->low, STACK_BYTE);
#endif
        all[i]->asan = nullptr;
        prepare(all[i]);
        fiber_park(all[i]);
    }
}

void fiber_switch(fiber *from, fiber *to)
{
#ifdef WITH_ASAN
    left = from;
    __sanitizer_start_switch_fiber(
        &from->asan, to->low, static_cast<size_t>(to->high - to->low));
    change(from, to);
    arrived(from, left);
#else
    change(from, to);
#endif
}

} /* namespace cudacpu_engine */
