/* SPDX-License-Identifier: MIT */
/* Device memory: a reserved range of addresses in which every allocation has pages of its own
 * between pages that nobody may touch. An allocation ends as close to its upper guard page as
 * the 256-byte alignment lets it; what is left of its pages holds guard bytes, looked at when
 * the device is waited for and at cudaFree. Freed pages are never given out again (until the
 * range is used up), so a use after free faults.
 * New memory reads as 0xff, NaN in float16 and float32: small allocations are filled, large
 * ones map one file of 0xff again and again, so a page costs memory only once it is written. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "gpu/cudacpu/engine.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define GUARD_VALUE 0xb9
#define GUARD_CHECK 512 /* bytes looked at on either side */
#define FILL_BYTE   (4u << 20)
#define ALIGN       256

namespace cudacpu_engine
{

char *arena_low, *arena_high;
static char *arena_next;
static size_t page;
static allocation *list; /* by address; freed ones stay, to be recognised */
static size_t n_list, room_list;
static int fill_file = -1;
static unsigned opened;

static bool reserve()
{
    if (arena_low) return true;
    page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    for (size_t n = static_cast<size_t>(1) << 40; n >= 1u << 30; n /= 2) {
        void *at =
            mmap(nullptr, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) continue;
        arena_low = arena_next = static_cast<char *>(at);
        arena_high = arena_low + n;
        return true;
    }
    return false;
}

static size_t limit()
{
    if (set.memory_limit) return set.memory_limit;
    return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) *
           static_cast<size_t>(sysconf(_SC_PAGESIZE)) / 4 * 3;
}

/* Index of the first allocation whose pages end above p. */
static size_t search(const void *p)
{
    size_t low = 0, high = n_list;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (list[mid].map + list[mid].map_byte > p)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

const allocation *find_allocation(const void *p)
{
    size_t i = search(p);
    return i < n_list && p >= list[i].map ? &list[i] : nullptr;
}

static bool map_fill(char *at, size_t n)
{
    if (fill_file < 0) {
        int f = memfd_create("cudacpu-fill", MFD_CLOEXEC);
        char block[4096];
        memset(block, 0xff, sizeof block);
        for (size_t i = 0; f >= 0 && i < FILL_BYTE; i += sizeof block)
            if (write(f, block, sizeof block) != static_cast<ssize_t>(sizeof block)) {
                close(f);
                f = -1;
            }
        if (f < 0) return false;
        fill_file = f;
    }
    for (size_t i = 0; i < n; i += FILL_BYTE) {
        size_t part = n - i < FILL_BYTE ? n - i : FILL_BYTE;
        void *got = mmap(at + i,
                         part,
                         PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
                         fill_file,
                         0);
        if (got == MAP_FAILED) return false;
    }
    return true;
}

static bool map_pages(char *at, size_t n)
{
    if (n > FILL_BYTE) return map_fill(at, n);
    if (mprotect(at, n, PROT_READ | PROT_WRITE) != 0) return false;
    memset(at, 0xff, n);
    return true;
}

static void unmap_pages(char *at, size_t n)
{
    (void)!mmap(
        at, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

static size_t upper_check(const allocation &a)
{
    size_t n = static_cast<size_t>(a.map + a.map_byte - (a.base + a.n_byte));
    return n < GUARD_CHECK ? n : GUARD_CHECK;
}

static size_t lower_check(const allocation &a)
{
    size_t n = static_cast<size_t>(a.base - a.map);
    return n < GUARD_CHECK ? n : GUARD_CHECK;
}

static void set_guards(const allocation &a)
{
    memset(a.base - lower_check(a), GUARD_VALUE, lower_check(a));
    memset(a.base + a.n_byte, GUARD_VALUE, upper_check(a));
}

static void check_guard(const allocation &a, const char *from, size_t n, const char *when)
{
    for (size_t i = 0; i < n; i++) {
        if (from[i] == static_cast<char>(GUARD_VALUE)) continue;
        long at = from + i - a.base;
        report(CUDACPU_GUARD,
               "byte %ld of an allocation of %zu bytes was overwritten (seen at %s)",
               at,
               a.n_byte,
               when);
        set_guards(a);
        return;
    }
}

void check_guards(const char *when)
{
    memory_open();
    for (size_t i = 0; i < n_list; i++) {
        const allocation &a = list[i];
        if (!a.live) continue;
        check_guard(a, a.base - lower_check(a), lower_check(a), when);
        check_guard(a, a.base + a.n_byte, upper_check(a), when);
    }
    memory_close();
}

static void protect_all(int how)
{
    for (size_t i = 0; i < n_list; i++)
        if (list[i].live) (void)!mprotect(list[i].map, list[i].map_byte, how);
}

void memory_open()
{
    if (!opened++ && set.protect) {
        protect_all(PROT_READ | PROT_WRITE);
        forbid_apply();
    }
}

void memory_close()
{
    if (!--opened && set.protect) protect_all(PROT_NONE);
}

void memory_protect_changed()
{
    if (opened) return;
    protect_all(set.protect ? PROT_NONE : PROT_READ | PROT_WRITE);
    if (!set.protect) forbid_apply();
}

static bool append(const allocation &a)
{
    if (n_list == room_list) {
        size_t room = room_list ? 2 * room_list : 64;
        void *grown = realloc(list, room * sizeof *list);
        if (!grown) return false;
        list = static_cast<allocation *>(grown);
        room_list = room;
    }
    list[n_list++] = a;
    return true;
}

/* All addresses used: begin again if nothing is held. */
static bool start_over()
{
    if (counts.live_byte) return false;
    n_list = 0;
    arena_next = arena_low;
    return true;
}

static char *allocate(size_t n_byte)
{
    if (!reserve() || n_byte > limit() || counts.live_byte > limit() - n_byte) return nullptr;
    size_t map_byte = (n_byte + page - 1) / page * page;
    size_t left = static_cast<size_t>(arena_high - arena_next);
    if (left < map_byte + 2 * page && !start_over()) return nullptr;
    char *map = arena_next + page;
    char *base = map + (map_byte - (n_byte + ALIGN - 1) / ALIGN * ALIGN);
    allocation a = {base, n_byte, map, map_byte, true};
    if (!map_pages(map, map_byte) || !append(a)) {
        unmap_pages(map, map_byte);
        return nullptr;
    }
    arena_next = map + map_byte;
    set_guards(a);
    if (check) check->allocated(a);
    if (set.protect && !opened) (void)!mprotect(map, map_byte, PROT_NONE);
    counts.n_alloc++;
    counts.live_byte += n_byte;
    if (counts.live_byte > counts.peak_byte) counts.peak_byte = counts.live_byte;
    return base;
}

static bool release(void *p)
{
    allocation *a = const_cast<allocation *>(find_allocation(p));
    if (!a || p != a->base || !a->live) {
        report(CUDACPU_BAD_FREE,
               "cudaFree(%p): %s",
               p,
               !a         ? "not device memory"
               : !a->live ? "freed before"
                          : "inside an allocation, not its start");
        return false;
    }
    memory_open();
    check_guard(*a, a->base - lower_check(*a), lower_check(*a), "cudaFree");
    check_guard(*a, a->base + a->n_byte, upper_check(*a), "cudaFree");
    memory_close();
    forbid_forget(*a);
    if (check) check->freed(*a);
    unmap_pages(a->map, a->map_byte);
    a->live = false;
    counts.live_byte -= a->n_byte;
    return true;
}

} /* namespace cudacpu_engine */

extern "C" size_t cudacpu_allocation(const void *p)
{
    const cudacpu_engine::allocation *a = cudacpu_engine::find_allocation(p);
    return a && a->live && p == a->base ? a->n_byte : 0;
}

namespace cudacpu
{
using namespace cudacpu_engine;

cudaError_t cudaMemGetInfo(size_t *n_free, size_t *n_total)
{
    size_t total = limit();
    *n_total = total;
    *n_free = counts.live_byte < total ? total - counts.live_byte : 0;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t n_byte)
{
    if (!p) return note_error(cudaErrorInvalidValue);
    *p = nullptr;
    if (sticky_error()) return sticky_error();
    if (capture_spoiled()) return note_error(cudaErrorStreamCaptureUnsupported);
    if (!n_byte) return cudaSuccess;
    *p = allocate(n_byte);
    return *p ? cudaSuccess : note_error(cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *p)
{
    if (!p) return cudaSuccess;
    if (capture_spoiled()) return note_error(cudaErrorStreamCaptureUnsupported);
    drain_all();
    return release(p) ? cudaSuccess : note_error(cudaErrorInvalidValue);
}

} /* namespace cudacpu */
