/* SPDX-License-Identifier: MIT */
/* Shadow memory. Two accesses to a byte collide when at least one writes, not both are atomic,
 * and nothing orders them: they are of different blocks of a launch; or of different threads of
 * a block within one barrier interval, unless both threads are lanes of a warp that took part
 * in a __syncwarp in between. Shuffles and votes order nothing. A cell keeps one writer and one
 * reader, so among several readers some are forgotten. */
#include "gpu/cudacpu/shadow.h"

#include <stdlib.h>
#include <sys/mman.h>

namespace cudacpu_engine
{

/* ---- time ---- */

static uint32_t now = 1, launch_began = 1, block_began = 1, interval_began = 1;

static shadow *shadows; /* in no order */
static size_t n_shadow, room_shadow;

alignas(64) static cell shared_cells[SHARED_ROOM / 2 + 8];
static uint8_t shared_written[SHARED_ROOM / 8 + 8];
shadow shared_shadow = {nullptr, SHARED_ROOM, shared_cells, shared_written, 0, 0};

/* Pages of a page number, direct-mapped; hits cost one comparison. */
enum { N_CACHE = 1024, PAGE_SHIFT = 12 };
static struct {
    uintptr_t page;
    shadow *s;
} cache[N_CACHE];

static size_t cells_byte(const shadow &s)
{
    return (s.n_byte / 2 + 9) * sizeof(cell);
}

/* The marks are out of numbers: forget them all. Races across this moment are missed. */
static void clock_restart()
{
    for (size_t i = 0; i < n_shadow; i++)
        madvise(shadows[i].cells, cells_byte(shadows[i]), MADV_DONTNEED);
    memset(shared_cells, 0, sizeof shared_cells);
    now = launch_began = block_began = interval_began = 1;
    for (thread &t : m.threads) t.sync_tick = t.full_tick = 0;
}

uint32_t clock_now()
{
    return now;
}

uint32_t clock_tick()
{
    if (++now >= CLOCK_LIMIT) clock_restart();
    return now;
}

void clock_begin_launch()
{
    if (now > CLOCK_LIMIT / 2) clock_restart();
    launch_began = clock_tick();
}

void clock_begin_block()
{
    block_began = interval_began = clock_tick();
    for (unsigned i = 0; i < m.n_thread; i++)
        m.threads[i].sync_tick = m.threads[i].full_tick = 0;
}

void clock_barrier()
{
    interval_began = clock_tick();
}

/* ---- which shadow ---- */

shadow *shadow_of(const void *p)
{
    uintptr_t page = reinterpret_cast<uintptr_t>(p) >> PAGE_SHIFT;
    size_t slot = page % N_CACHE;
    if (cache[slot].page == page) return cache[slot].s;
    const allocation *a = find_allocation(p);
    if (!a || !a->live) return nullptr;
    for (size_t i = 0; i < n_shadow; i++)
        if (shadows[i].base == a->base) {
            cache[slot].page = page;
            cache[slot].s = &shadows[i];
            return &shadows[i];
        }
    return nullptr;
}

static void *map_zeroed(size_t n_byte)
{
    void *p = mmap(nullptr,
                   n_byte,
                   PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1,
                   0);
    if (p == MAP_FAILED) {
        report(CUDACPU_NO_REPORT, "no memory for the shadow of %zu bytes", n_byte);
        abort();
    }
    return p;
}

void shadow_add(const allocation &a)
{
    if (n_shadow == room_shadow) {
        room_shadow = room_shadow ? 2 * room_shadow : 64;
        shadows = static_cast<shadow *>(realloc(shadows, room_shadow * sizeof *shadows));
        if (!shadows) abort();
    }
    memset(cache, 0, sizeof cache);
    shadow s = {a.base, a.n_byte, nullptr, nullptr, 0, 0};
    s.cells = static_cast<cell *>(map_zeroed(cells_byte(s)));
    s.written = static_cast<uint8_t *>(map_zeroed(s.n_byte / 8 + 8));
    shadows[n_shadow++] = s;
}

void shadow_drop(const allocation &a)
{
    memset(cache, 0, sizeof cache);
    for (size_t i = 0; i < n_shadow; i++) {
        if (shadows[i].base != a.base) continue;
        munmap(shadows[i].cells, cells_byte(shadows[i]));
        munmap(shadows[i].written, shadows[i].n_byte / 8 + 8);
        shadows[i] = shadows[--n_shadow];
        return;
    }
}

void shadow_forget_traffic()
{
    for (size_t i = 0; i < n_shadow; i++) shadows[i].read_byte = shadows[i].write_byte = 0;
}

/* ---- written bytes ---- */

void set_written(const shadow *s, size_t at, size_t n_byte)
{
    uint8_t *bits = s->written;
    size_t end = at + n_byte;
    while (at < end && at % 8)
        bits[at / 8] = static_cast<uint8_t>(bits[at / 8] | 1 << at % 8), at++;
    if (end - at >= 8) {
        memset(bits + at / 8, 0xff, (end - at) / 8);
        at += (end - at) / 8 * 8;
    }
    while (at < end) bits[at / 8] = static_cast<uint8_t>(bits[at / 8] | 1 << at % 8), at++;
}

bool all_written(const shadow *s, size_t at, size_t n_byte)
{
    const uint8_t *bits = s->written;
    if (at % 8 + n_byte <= 8) {
        unsigned want = ((1u << n_byte) - 1) << at % 8;
        return (bits[at / 8] & want) == want;
    }
    for (size_t end = at + n_byte; at < end; at++)
        if (!(bits[at / 8] >> at % 8 & 1)) return false;
    return true;
}

void forget_written(const shadow *s, size_t at, size_t n_byte)
{
    for (size_t end = at + n_byte; at < end; at++)
        s->written[at / 8] = static_cast<uint8_t>(s->written[at / 8] & ~(1 << at % 8));
}

void copy_written(const shadow *to, size_t to_at, const shadow *from, size_t from_at, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (all_written(from, from_at + i, 1))
            set_written(to, to_at + i, 1);
        else
            forget_written(to, to_at + i, 1);
    }
}

/* ---- collisions ---- */

/* Whether a __syncwarp stands between the access of lane `u` at `then` and the thread t. */
static bool warp_ordered(const thread *t, unsigned u, uint32_t then)
{
    if (u / WARP != t->warp) return false;
    return then < t->full_tick || (then < t->sync_tick && t->sync_mask >> u % WARP & 1);
}

/* Marks of the memory at hand that collide with nothing: before `floor`, or of this block but
 * of an earlier interval. */
struct times {
    uint32_t floor, block, interval;
};

static inline bool settled(const times &w, uint32_t mark)
{
    return mark < w.floor || mark - w.block < w.interval - w.block;
}

static inline collision collide(const thread *t, const times &w, uint32_t mark)
{
    if (settled(w, mark)) return NO_COLLISION;
    if (mark < w.block) return OTHER_BLOCK;
    unsigned u = mark_thread(mark);
    if (u == t->id || warp_ordered(t, u, mark >> 11)) return NO_COLLISION;
    return SAME_BLOCK;
}

/* Others read too, and the last reader was this very thread: they collide with its write unless
 * a __syncwarp of its came after. */
static collision collide_hidden(const thread *t, const times &w, uint32_t mark)
{
    if (!(mark & 1) || settled(w, mark)) return NO_COLLISION;
    if (mark < w.block) return OTHER_BLOCK;
    uint32_t then = mark >> 11;
    return then < t->full_tick || then < t->sync_tick ? NO_COLLISION : SAME_BLOCK;
}

static inline uint32_t
merge_reader(const thread *t, const times &w, uint32_t old, uint32_t mark)
{
    if ((old | 1) == (mark | 1)) return old;
    return mark | (collide(t, w, old) != NO_COLLISION);
}

static void collide_writer(const thread *t, const times &w, const cell &c, verdict *v)
{
    if (v->with) return;
    *v = {collide(t, w, c.writer), c.writer, true};
}

static void collide_reader(const thread *t, const times &w, const cell &c, verdict *v)
{
    if (v->with) return;
    *v = {collide(t, w, c.reader), c.reader, false};
    if (!v->with) v->with = collide_hidden(t, w, c.reader);
}

verdict note_access(const shadow *s, size_t at, size_t n_byte, access_kind kind)
{
    const thread *t = m.now;
    uint32_t block = block_began << 11, interval = interval_began << 11;
    times w = {s == &shared_shadow ? block : launch_began << 11, block, interval};
    uint32_t mark = now << 11 | static_cast<uint32_t>(t->id) << 1;
    verdict v = {NO_COLLISION, 0, false};
    cell *c = s->cells + at / 2, *end = s->cells + (at + n_byte + 1) / 2;
    cell seen = {0, 0}, next = {0, 0};
    for (bool first = true; c < end; c++, first = false) {
        if (!first && c->writer == seen.writer && c->reader == seen.reader) {
            *c = next; /* the parts of a word have mostly one history */
            continue;
        }
        seen = next = *c;
        if (!(kind == ATOMIC_ACCESS && seen.writer & 1)) collide_writer(t, w, seen, &v);
        if (kind == READ_ACCESS) {
            next.reader = merge_reader(t, w, seen.reader, mark);
        } else {
            collide_reader(t, w, seen, &v);
            next.writer = mark | (kind == ATOMIC_ACCESS);
        }
        *c = next;
    }
    return v;
}

} /* namespace cudacpu_engine */
