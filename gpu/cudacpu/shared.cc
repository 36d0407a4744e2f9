/* SPDX-License-Identifier: MIT */
/* Shared memory of the running block: one room with guard bytes before, between and after the
 * variables. Static variables get their place when a launch first meets them, the dynamic one
 * stands behind the first guard. Every block begins with 0xff in all of it (NaN in float16 and
 * float32) and ends with a look at the guards; AddressSanitizer is told about them as well. */
#include "gpu/cudacpu/engine.h"

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

#define GUARD_VALUE 0xa7

namespace cudacpu_engine
{

alignas(256) char shared_room[SHARED_ROOM];

static shared_span vars[SHARED_MAX_VAR];
static unsigned n_var;
static size_t used; /* bytes of the variables alone */
static size_t top;  /* where the next one may begin */

static void add(const char *name, size_t n_byte, size_t align)
{
    size_t at = (top + align - 1) / align * align;
    ASAN_UNPOISON_MEMORY_REGION(shared_room + top, at + n_byte + SHARED_GUARD - top);
    memset(shared_room + top, GUARD_VALUE, at - top);
    memset(shared_room + at, 0xff, n_byte);
    memset(shared_room + at + n_byte, GUARD_VALUE, SHARED_GUARD);
    ASAN_POISON_MEMORY_REGION(shared_room + at + n_byte, SHARED_GUARD);
    vars[n_var++] = {name, shared_room + at, n_byte, 0};
    used = used + n_byte;
    top = at + n_byte + SHARED_GUARD;
}

void shared_begin_launch(size_t dynamic_byte)
{
    n_var = 0;
    used = 0;
    top = SHARED_GUARD;
    ASAN_UNPOISON_MEMORY_REGION(shared_room, sizeof shared_room);
    memset(shared_room, GUARD_VALUE, SHARED_GUARD);
    ASAN_POISON_MEMORY_REGION(shared_room, sizeof shared_room);
    if (dynamic_byte) add("dynamic shared memory", dynamic_byte, 16);
}

void shared_begin_block()
{
    for (unsigned i = 0; i < n_var; i++) memset(vars[i].base, 0xff, vars[i].n_byte);
}

static void check_guard(const char *from, const char *to, const char *near)
{
    ASAN_UNPOISON_MEMORY_REGION(from, static_cast<size_t>(to - from));
    for (const char *p = from; p < to; p++)
        if (*p != static_cast<char>(GUARD_VALUE)) {
            report(CUDACPU_GUARD,
                   "byte %d after the start of the guard behind shared variable %s was "
                   "overwritten",
                   static_cast<int>(p - from),
                   near);
            memset(const_cast<char *>(from), GUARD_VALUE, static_cast<size_t>(to - from));
            break;
        }
    ASAN_POISON_MEMORY_REGION(from, static_cast<size_t>(to - from));
}

void shared_end_block()
{
    const char *from = shared_room;
    const char *near = "(before the first)";
    for (unsigned i = 0; i < n_var; i++) {
        check_guard(from, vars[i].base, near);
        from = vars[i].base + vars[i].n_byte;
        near = vars[i].name;
    }
    check_guard(from, shared_room + top, near);
}

size_t shared_used()
{
    return used;
}

shared_span shared_find(const void *p)
{
    for (unsigned i = 0; i < n_var; i++)
        if (p >= vars[i].base && p < vars[i].base + vars[i].n_byte) return vars[i];
    return {nullptr, nullptr, 0, 0};
}

shared_span shared_before(const void *p)
{
    shared_span s = {"(none)", shared_room, 0, 0};
    for (unsigned i = 0; i < n_var; i++)
        if (vars[i].base <= p && vars[i].base >= s.base) s = vars[i];
    return s;
}

size_t shared_top()
{
    return top;
}

} /* namespace cudacpu_engine */

namespace cudacpu
{
using namespace cudacpu_engine;

void *shared_static(shared_slot *slot,
                    size_t n_byte,
                    size_t align,
                    const char *name,
                    const char *file,
                    int line)
{
    if (slot->launch != m.serial) {
        if (used + n_byte > SHARED_LIMIT || n_var == SHARED_MAX_VAR)
            fail(CUDACPU_SHARED_SIZE,
                 "%s at %s:%d needs %zu bytes of shared memory, %zu of %d are in use",
                 name,
                 file,
                 line,
                 n_byte,
                 used,
                 static_cast<int>(SHARED_LIMIT));
        add(name, n_byte, align < 16 ? 16 : align);
        slot->offset = static_cast<unsigned>(vars[n_var - 1].base - shared_room);
        slot->launch = m.serial;
    }
    return shared_room + slot->offset;
}

void *shared_dynamic()
{
    return shared_room + SHARED_GUARD;
}

} /* namespace cudacpu */
