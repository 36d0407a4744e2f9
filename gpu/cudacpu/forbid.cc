/* SPDX-License-Identifier: MIT */
/* Regions that nothing may touch: a few, kept as a plain list. The race build asks `forbidden`
 * at every access; page protection covers the whole pages inside in any build, so that a plain
 * run faults. */
#include "gpu/cudacpu/engine.h"

#include <sys/mman.h>
#include <unistd.h>

namespace cudacpu_engine
{

enum { MAX_REGION = 256 };
struct region {
    const char *from, *to;
};
static region regions[MAX_REGION];
unsigned n_forbidden;

bool forbidden(const void *p, size_t n_byte)
{
    const char *from = static_cast<const char *>(p), *to = from + n_byte;
    for (unsigned i = 0; i < n_forbidden; i++)
        if (from < regions[i].to && to > regions[i].from) return true;
    return false;
}

static void protect(const region &r, int how)
{
    uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    uintptr_t from = (reinterpret_cast<uintptr_t>(r.from) + page - 1) / page * page;
    uintptr_t to = reinterpret_cast<uintptr_t>(r.to) / page * page;
    if (from < to) (void)!mprotect(reinterpret_cast<void *>(from), to - from, how);
}

void forbid_apply()
{
    for (unsigned i = 0; i < n_forbidden; i++) protect(regions[i], PROT_NONE);
}

static void drop(unsigned i)
{
    const region gone = regions[i];
    regions[i] = regions[--n_forbidden];
    protect(gone, set.protect ? PROT_NONE : PROT_READ | PROT_WRITE);
    forbid_apply(); /* where another one overlaps */
}

void forbid_forget(const allocation &a)
{
    for (unsigned i = n_forbidden; i-- > 0;)
        if (regions[i].from >= a.map && regions[i].from < a.map + a.map_byte) drop(i);
}

} /* namespace cudacpu_engine */

using namespace cudacpu_engine;

extern "C" void cudacpu_forbid(const void *p, size_t n_byte)
{
    const allocation *a = find_allocation(p);
    const char *from = static_cast<const char *>(p);
    drain_all();
    if (!a || !a->live || from < a->base || n_byte > a->n_byte ||
        from + n_byte > a->base + a->n_byte) {
        report(CUDACPU_COPY_BOUNDS,
               "cudacpu_forbid(%p, %zu): not within an allocation",
               p,
               n_byte);
        return;
    }
    if (n_forbidden == MAX_REGION) {
        report(CUDACPU_COPY_BOUNDS, "cudacpu_forbid: more than %d regions", MAX_REGION);
        return;
    }
    if (!n_byte) return;
    regions[n_forbidden++] = {from, from + n_byte};
    protect(regions[n_forbidden - 1], PROT_NONE);
}

extern "C" void cudacpu_allow(const void *p, size_t n_byte)
{
    const char *from = static_cast<const char *>(p);
    drain_all();
    for (unsigned i = n_forbidden; i-- > 0;)
        if (regions[i].from == from && regions[i].to == from + n_byte) drop(i);
}

extern "C" void cudacpu_allow_all(void)
{
    drain_all();
    while (n_forbidden) drop(n_forbidden - 1);
}
