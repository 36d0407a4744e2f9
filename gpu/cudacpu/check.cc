/* SPDX-License-Identifier: MIT */
/* The race build. Kernels are compiled a second time with -fsanitize=thread, but nothing of the
 * ThreadSanitizer runtime is linked: the callbacks that the compiler inserts before every
 * access are these. Each access of a kernel is placed (device memory, shared memory, its own
 * stack, its arguments; anything else is a fault), checked for alignment, bounds, state and
 * collisions, and counted. Code that runs outside kernels passes freely. */
#include "gpu/cudacpu/shadow.h"

namespace cudacpu_engine
{

extern "C" char __executable_start __attribute__((weak));

/* Once per launch and kind is enough. */
static uint32_t told;

static size_t code_offset(const void *pc)
{
    return static_cast<size_t>(static_cast<const char *>(pc) - &__executable_start);
}

static const char *verb(access_kind kind)
{
    static const char *const names[] = {"read", "write", "atomic"};
    return names[kind];
}

struct access {
    const char *p;
    size_t n_byte;
    access_kind kind;
    const void *pc;
};

#define WHAT   "%s of %zu bytes at %p, code %#zx: "
#define WHO(a) verb((a).kind), (a).n_byte, static_cast<const void *>((a).p), code_offset((a).pc)

[[noreturn]] static void fail_device(const access &a)
{
    const allocation *near = find_allocation(a.p);
    if (!near) near = find_allocation(a.p - 4096); /* just above one */
    if (near && !near->live)
        fail(CUDACPU_AFTER_FREE,
             WHAT "byte %td of %zu freed ones",
             WHO(a),
             a.p - near->base,
             near->n_byte);
    fail(CUDACPU_OUT_OF_BOUNDS,
         WHAT "byte %td of an allocation of %zu",
         WHO(a),
         near ? a.p - near->base : 0,
         near ? near->n_byte : 0);
}

static void tell_uninitialised(const access &a, const char *where, size_t at)
{
    if (told & 1u << CUDACPU_UNINITIALISED) return;
    told |= 1u << CUDACPU_UNINITIALISED;
    report(CUDACPU_UNINITIALISED, WHAT "byte %zu of %s was never written", WHO(a), at, where);
}

static void tell_race(const access &a, const verdict &v, const char *where, size_t at)
{
    cudacpu_kind kind = v.with == SAME_BLOCK ? CUDACPU_RACE : CUDACPU_RACE_BLOCKS;
    if (told & 1u << kind) return;
    told |= 1u << kind;
    report(kind,
           WHAT "byte %zu of %s, which thread %u of %s %s with nothing in between",
           WHO(a),
           at,
           where,
           mark_thread(v.mark),
           v.with == SAME_BLOCK ? "this block" : "another block",
           v.other_wrote ? "wrote" : "read");
}

static void
check_state(const access &a, const shadow *s, size_t at, const char *name, size_t in)
{
    if (a.kind != WRITE_ACCESS && !all_written(s, at, a.n_byte))
        tell_uninitialised(a, name, in);
    if (a.kind != READ_ACCESS) set_written(s, at, a.n_byte);
    verdict v = note_access(s, at, a.n_byte, a.kind);
    if (v.with) tell_race(a, v, name, in);
}

static void device_access(const access &a)
{
    shadow *s = shadow_of(a.p);
    if (!s || a.p < s->base || a.p + a.n_byte > s->base + s->n_byte) fail_device(a);
    size_t at = static_cast<size_t>(a.p - s->base);
    if (n_forbidden && forbidden(a.p, a.n_byte))
        fail(CUDACPU_FORBIDDEN, WHAT "byte %zu of an allocation of %zu", WHO(a), at, s->n_byte);
    if (a.kind != WRITE_ACCESS) m.read_byte += a.n_byte, s->read_byte += a.n_byte;
    if (a.kind != READ_ACCESS) m.write_byte += a.n_byte, s->write_byte += a.n_byte;
    check_state(a, s, at, "device memory", at);
}

static void shared_access(const access &a)
{
    static shared_span last;
    if (!last.base || a.p < last.base || a.p >= last.base + last.n_byte ||
        last.serial != m.serial) {
        last = shared_find(a.p);
        last.serial = m.serial;
    }
    if (!last.base)
        fail(CUDACPU_OUT_OF_BOUNDS,
             WHAT "between the shared variables, %td bytes behind %s",
             WHO(a),
             a.p - shared_before(a.p).base,
             shared_before(a.p).name);
    if (a.p + a.n_byte > last.base + last.n_byte)
        fail(CUDACPU_OUT_OF_BOUNDS,
             WHAT "byte %td of shared %s, which has %zu",
             WHO(a),
             a.p - last.base,
             last.name,
             last.n_byte);
    size_t at = static_cast<size_t>(a.p - shared_room);
    check_state(a, &shared_shadow, at, last.name, static_cast<size_t>(a.p - last.base));
}

/* The thread's own stack, or the arguments of the launch. */
static bool in_own_memory(const void *p)
{
    const fiber *f = m.now->fib;
    const char *args = reinterpret_cast<const char *>(m.call);
    return (p >= f->low && p < f->high) || (p >= args && p < args + m.call->n_byte);
}

static void other_access(const access &a)
{
    if (in_own_memory(a.p)) return;
    if (fiber_stack_holds(a.p))
        fail(CUDACPU_FOREIGN_STACK, WHAT "a local variable of another thread", WHO(a));
    fail(CUDACPU_HOST_POINTER, WHAT "host memory", WHO(a));
}

static void
check_access(const void *p, size_t n_byte, access_kind kind, bool aligned, const void *pc)
{
    if (!m.now) return;
    access a = {static_cast<const char *>(p), n_byte, kind, pc};
    if (aligned && reinterpret_cast<uintptr_t>(p) & (n_byte - 1))
        fail(CUDACPU_MISALIGNED, WHAT "not a multiple of its size", WHO(a));
    if (in_arena(p))
        device_access(a);
    else if (shared_contains(p))
        shared_access(a);
    else
        other_access(a);
}

/* ---- what the engine calls ---- */

static void atomic(void *p, size_t n_byte)
{
    check_access(p, n_byte, ATOMIC_ACCESS, true, __builtin_return_address(0));
}

static void begin_launch()
{
    told = 0;
    clock_begin_launch();
    memset(shared_shadow.written, 0, SHARED_ROOM / 8 + 1);
}

static void begin_block()
{
    clock_begin_block();
    memset(shared_shadow.written, 0, (shared_top() + 7) / 8);
}

static void host_wrote(void *p, size_t n_byte)
{
    const shadow *s = shadow_of(p);
    if (s) set_written(s, static_cast<size_t>(static_cast<char *>(p) - s->base), n_byte);
}

static void device_copied(void *to, const void *from, size_t n_byte)
{
    const shadow *t = shadow_of(to), *f = shadow_of(from);
    if (!t || !f) return;
    copy_written(t,
                 static_cast<size_t>(static_cast<char *>(to) - t->base),
                 f,
                 static_cast<size_t>(static_cast<const char *>(from) - f->base),
                 n_byte);
}

static void traffic(const void *p, uint64_t *read_byte, uint64_t *write_byte)
{
    const shadow *s = shadow_of(p);
    *read_byte = s ? s->read_byte : 0;
    *write_byte = s ? s->write_byte : 0;
}

/* What -fsanitize=alignment passes when a pointer is not a multiple of its type's alignment.
 * The sizes of accesses do not tell: compilers split a uint4 into words. */
struct alignment_site {
    const char *file;
    unsigned line, column;
    const void *type;
    unsigned char log_alignment, kind;
};

static void misaligned(const alignment_site *where, const void *p)
{
    if (!m.now || in_own_memory(p)) return;
    fail(CUDACPU_MISALIGNED,
         "%p is used at %s:%u as a pointer to something aligned to %u",
         p,
         where->file,
         where->line,
         1u << where->log_alignment);
}

static const checks all_checks = {atomic,
                                  clock_tick,
                                  clock_barrier,
                                  begin_launch,
                                  begin_block,
                                  shadow_add,
                                  shadow_drop,
                                  host_wrote,
                                  device_copied,
                                  traffic,
                                  shadow_forget_traffic};

} /* namespace cudacpu_engine */

using namespace cudacpu_engine;

/* ---- what the compiler calls ---- */

extern "C" {

/* From the constructor of every instrumented file. */
void __tsan_init(void);
void __tsan_init(void)
{
    shared_shadow.base = shared_room;
    check = &all_checks;
}

#define PC __builtin_return_address(0)
#define ON_ACCESS(name, n, kind, aligned)                                                      \
    void name(void *p);                                                                        \
    void name(void *p)                                                                         \
    {                                                                                          \
        check_access(p, n, kind, aligned, PC);                                                 \
    }
#define ON_SIZE(n)                                                                             \
    ON_ACCESS(__tsan_read##n, n, READ_ACCESS, true)                                            \
    ON_ACCESS(__tsan_write##n, n, WRITE_ACCESS, true)                                          \
    ON_ACCESS(__tsan_unaligned_read##n, n, READ_ACCESS, false)                                 \
    ON_ACCESS(__tsan_unaligned_write##n, n, WRITE_ACCESS, false)                               \
    ON_ACCESS(__tsan_volatile_read##n, n, READ_ACCESS, true)                                   \
    ON_ACCESS(__tsan_volatile_write##n, n, WRITE_ACCESS, true)                                 \
    ON_ACCESS(__tsan_unaligned_volatile_read##n, n, READ_ACCESS, false)                        \
    ON_ACCESS(__tsan_unaligned_volatile_write##n, n, WRITE_ACCESS, false)
ON_SIZE(1)
ON_SIZE(2)
ON_SIZE(4)
ON_SIZE(8)
ON_SIZE(16)

void __tsan_read_range(void *p, size_t n);
void __tsan_read_range(void *p, size_t n)
{
    if (n) check_access(p, n, READ_ACCESS, false, PC);
}

void __tsan_write_range(void *p, size_t n);
void __tsan_write_range(void *p, size_t n)
{
    if (n) check_access(p, n, WRITE_ACCESS, false, PC);
}

void *__tsan_memcpy(void *to, const void *from, size_t n);
void *__tsan_memcpy(void *to, const void *from, size_t n)
{
    if (n) check_access(from, n, READ_ACCESS, false, PC);
    if (n) check_access(to, n, WRITE_ACCESS, false, PC);
    return memcpy(to, from, n);
}

void *__tsan_memmove(void *to, const void *from, size_t n);
void *__tsan_memmove(void *to, const void *from, size_t n)
{
    if (n) check_access(from, n, READ_ACCESS, false, PC);
    if (n) check_access(to, n, WRITE_ACCESS, false, PC);
    return memmove(to, from, n);
}

void *__tsan_memset(void *to, int value, size_t n);
void *__tsan_memset(void *to, int value, size_t n)
{
    if (n) check_access(to, n, WRITE_ACCESS, false, PC);
    return memset(to, value, n);
}

/* Weak: where the real runtime is linked in, it is that one's. */
__attribute__((weak)) void __ubsan_handle_type_mismatch_v1(const void *where, const void *p);
__attribute__((weak)) void __ubsan_handle_type_mismatch_v1(const void *where, const void *p)
{
    misaligned(static_cast<const alignment_site *>(where), p);
}

void __tsan_func_entry(void *pc);
void __tsan_func_entry(void *) {}

void __tsan_func_exit(void);
void __tsan_func_exit(void) {}

void __tsan_vptr_update(void **p, void *value);
void __tsan_vptr_update(void **, void *) {}

void __tsan_vptr_read(void **p);
void __tsan_vptr_read(void **) {}
}
