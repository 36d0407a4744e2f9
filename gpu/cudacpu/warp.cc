/* SPDX-License-Identifier: MIT */
/* Warp operations: shuffles, votes, __syncwarp. Lanes that share a mask meet; the last to come
 * works out everybody's result and goes on, the others become ready. Rules, stricter than the
 * hardware: one mask, one operation, one place in the source; a lane names itself; every lane
 * named comes; a shuffle reads lanes of the mask only. Keeping a meeting costs O(1) per
 * arrival; a warp may have several with different masks under way. */
#include "gpu/cudacpu/engine.h"

namespace cudacpu_engine
{

struct meeting {
    unsigned mask, arrived;
    cudacpu::warp_kind kind;
    site at;
};

struct warp {
    unsigned n_meeting, lanes; /* lanes that exist */
    meeting meetings[WARP];
    uint64_t value[WARP], result[WARP];
    uint8_t source[WARP];
};

static warp warps[MAX_WARP];

void warps_begin()
{
    for (unsigned w = 0; w * WARP < m.n_thread; w++) {
        unsigned n = m.n_thread - w * WARP;
        warps[w].n_meeting = 0;
        warps[w].lanes = n >= WARP ? 0xffffffffu : (1u << n) - 1;
    }
}

static const char *name(cudacpu::warp_kind kind)
{
    static const char *const names[] = {"__syncwarp", "shuffle", "ballot", "any", "all"};
    return names[kind];
}

static meeting *join(warp *w, cudacpu::warp_kind kind, unsigned mask, unsigned bit, site here)
{
    if (!(mask & bit) || (mask & ~w->lanes))
        fail(CUDACPU_WARP_MASK,
             "%s at %s:%d with mask %08x: %s",
             name(kind),
             here.file,
             here.line,
             mask,
             mask & bit ? "the block has no such lanes" : "the lane itself is not in it");
    for (unsigned i = 0; i < w->n_meeting; i++) {
        meeting *g = &w->meetings[i];
        if (g->mask != mask) continue;
        if (g->kind != kind || !same_site(g->at, here))
            fail(CUDACPU_WARP_OPERATION,
                 "%s at %s:%d, but lanes %08x of mask %08x are at %s, %s:%d",
                 name(kind),
                 here.file,
                 here.line,
                 g->arrived,
                 mask,
                 name(g->kind),
                 g->at.file,
                 g->at.line);
        return g;
    }
    meeting *g = &w->meetings[w->n_meeting++];
    *g = {mask, 0, kind, here};
    return g;
}

static void shuffle(warp *w, unsigned mask, site at)
{
    for (unsigned l = 0; l < WARP; l++) {
        if (!(mask >> l & 1)) continue;
        unsigned from = w->source[l];
        if (!(mask >> from & 1))
            fail(CUDACPU_WARP_INACTIVE,
                 "shuffle at %s:%d: lane %u reads lane %u, which is not in mask %08x",
                 at.file,
                 at.line,
                 l,
                 from,
                 mask);
        w->result[l] = w->value[from];
    }
}

static void vote(warp *w, cudacpu::warp_kind kind, unsigned mask)
{
    unsigned yes = 0;
    for (unsigned l = 0; l < WARP; l++)
        if (mask >> l & 1 && w->value[l]) yes |= 1u << l;
    uint64_t result = yes;
    if (kind == cudacpu::WARP_ANY) result = yes != 0;
    if (kind == cudacpu::WARP_ALL) result = yes == mask;
    for (unsigned l = 0; l < WARP; l++)
        if (mask >> l & 1) w->result[l] = result;
}

/* Lanes 0..n-1 of a warp whose operation ended become ready, except the one that runs. In the
 * seeded order they come at the front or the back of the queue, by turns of fortune. */
static void wake(thread *first, unsigned mask, const thread *except)
{
    if (set.order == CUDACPU_SEEDED) {
        unsigned turn = static_cast<unsigned>(random_word());
        bool front = turn & 32;
        for (unsigned i = 0; i < WARP; i++) {
            unsigned l = (i * 13 + turn) % WARP;
            thread *t = first + l;
            if (mask >> l & 1 && t != except) front ? ready_first(t) : ready_last(t);
        }
        return;
    }
    bool down = set.order == CUDACPU_DESCENDING;
    for (unsigned i = 0; i < WARP; i++) {
        unsigned l = down ? i : WARP - 1 - i;
        if (mask >> l & 1 && first + l != except) ready_first(first + l);
    }
}

static void note_sync(thread *first, unsigned mask)
{
    uint32_t now = check->tick();
    for (unsigned l = 0; l < WARP; l++) {
        if (!(mask >> l & 1)) continue;
        first[l].sync_mask = mask;
        first[l].sync_tick = now;
        if (mask == 0xffffffffu) first[l].full_tick = now;
    }
}

static void finish(warp *w, meeting *g, thread *t)
{
    meeting done = *g;
    *g = w->meetings[--w->n_meeting];
    thread *first = t - t->lane;
    if (done.kind == cudacpu::WARP_SHUFFLE)
        shuffle(w, done.mask, done.at);
    else if (done.kind != cudacpu::WARP_SYNC)
        vote(w, done.kind, done.mask);
    else if (check)
        note_sync(first, done.mask);
    wake(first, done.mask, t);
    if (set.order == CUDACPU_SEEDED && random_word() & 1) { /* nor need the last go on first */
        ready_last(t);
        wait();
    }
}

/* What a lane does instead of coming to the meeting g. */
static void fail_absent(const warp *w, const meeting *g, thread *first)
{
    unsigned missing = g->mask & ~g->arrived, l = 0;
    while (!(missing >> l & 1)) l++;
    const thread *t = first + l;
    const char *doing = t->state == DONE         ? "exited"
                        : t->state == AT_BARRIER ? "waits at a barrier"
                                                 : "waits at another warp operation";
    (void)w;
    fail(
        CUDACPU_WARP_ABSENT,
        "%s at %s:%d with mask %08x: lanes %08x came, lanes %08x did not; thread %u %s (%s:%d)",
        name(g->kind),
        g->at.file,
        g->at.line,
        g->mask,
        g->arrived,
        missing,
        t->id,
        doing,
        t->state == DONE ? "-" : t->at.file,
        t->state == DONE ? 0 : t->at.line);
}

void fail_of_waiting_warp()
{
    for (unsigned i = 0; i * WARP < m.n_thread; i++)
        if (warps[i].n_meeting)
            fail_absent(&warps[i], &warps[i].meetings[0], &m.threads[i * WARP]);
}

} /* namespace cudacpu_engine */

namespace cudacpu
{
using namespace cudacpu_engine;

uint64_t
warp_op(warp_kind kind, unsigned mask, uint64_t value, int source, const char *file, int line)
{
    thread *t = m.now;
    warp *w = &warps[t->warp];
    unsigned bit = 1u << t->lane;
    meeting *g = join(w, kind, mask, bit, {file, line});
    w->value[t->lane] = value;
    w->source[t->lane] = static_cast<uint8_t>(source & 31);
    g->arrived |= bit;
    if (g->arrived == mask) {
        uint64_t *result = &w->result[t->lane];
        finish(w, g, t);
        return *result;
    }
    t->state = AT_WARP;
    t->at = {file, line};
    t->mask = mask;
    cudacpu_engine::wait();
    return w->result[t->lane];
}

} /* namespace cudacpu */
