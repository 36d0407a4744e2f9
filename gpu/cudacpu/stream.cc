/* SPDX-License-Identifier: MIT */
/* Streams. Work runs when it is given, or (deferred) when somebody waits: then whatever the
 * host changed in between is seen, as it may be on a device. The default stream is the legacy
 * one: its work comes after that of every stream made without cudaStreamNonBlocking, and theirs
 * after its. */
#include "gpu/cudacpu/engine.h"

#include <stdlib.h>

namespace cudacpu
{

struct stream {
    cudacpu_engine::work_list queue;
    cudacpu_engine::work_list captured;
    bool blocking, capturing, spoiled;
    stream *next;
};

} /* namespace cudacpu */

namespace cudacpu_engine
{
using namespace cudacpu;

static stream default_stream;
static stream *streams; /* all but the default one, newest first */

bool work_add(work_list *l, const work &w)
{
    if (l->n == l->room) {
        size_t room = l->room ? 2 * l->room : 32;
        void *grown = realloc(l->list, room * sizeof *l->list);
        if (!grown) return false;
        l->list = static_cast<work *>(grown);
        l->room = room;
    }
    work *to = &l->list[l->n];
    *to = w;
    if (w.kind == work::LAUNCH) {
        void *copy = malloc(w.launch.call->n_byte);
        if (!copy) return false;
        memcpy(copy, static_cast<const void *>(w.launch.call), w.launch.call->n_byte);
        to->launch.call = static_cast<call *>(copy);
    }
    l->n++;
    return true;
}

void work_clear(work_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->list[i].kind == work::LAUNCH) free(const_cast<call *>(l->list[i].launch.call));
    free(l->list);
    *l = {};
}

void work_run(const work &w)
{
    if (w.kind == work::LAUNCH)
        run_launch(w.launch);
    else if (w.kind == work::COPY)
        run_copy(w.copy);
    else
        event_happened(w.e);
}

/* The queue is taken off first: what runs may call back through a hook. */
static void run_queue(stream *s)
{
    work_list l = s->queue;
    s->queue = {};
    for (size_t i = 0; i < l.n; i++) work_run(l.list[i]);
    work_clear(&l);
}

static stream *resolve(cudaStream_t s)
{
    return s ? s : &default_stream;
}

static bool exists(cudaStream_t s)
{
    if (!s) return true;
    for (stream *t = streams; t; t = t->next)
        if (t == s) return true;
    return false;
}

/* What must come before new work of s. */
static void run_earlier(stream *s)
{
    if (s != &default_stream) {
        if (s->blocking) run_queue(&default_stream);
        return;
    }
    for (stream *t = streams; t; t = t->next)
        if (t->blocking && !t->capturing) run_queue(t);
}

cudaError_t submit_work(const work &w, cudaStream_t given)
{
    if (!exists(given)) return cudaErrorInvalidResourceHandle;
    stream *s = resolve(given);
    if (s->capturing) {
        if (s->spoiled) return cudaErrorStreamCaptureInvalidated;
        return work_add(&s->captured, w) ? cudaSuccess : cudaErrorMemoryAllocation;
    }
    run_earlier(s);
    if (set.deferred) return work_add(&s->queue, w) ? cudaSuccess : cudaErrorMemoryAllocation;
    work_run(w);
    return sticky_error();
}

cudaError_t drain_stream(cudaStream_t given)
{
    stream *s = resolve(given);
    run_earlier(s);
    run_queue(s);
    return sticky_error();
}

void drain_all()
{
    run_queue(&default_stream);
    for (stream *t = streams; t; t = t->next) run_queue(t);
}

bool capture_spoiled()
{
    bool any = false;
    for (stream *t = streams; t; t = t->next) {
        any = any || t->capturing;
        t->spoiled = t->spoiled || t->capturing;
    }
    return any;
}

} /* namespace cudacpu_engine */

namespace cudacpu
{
using namespace cudacpu_engine;

void submit(const launch_site &where,
            dim3 grid,
            dim3 block,
            size_t shared_byte,
            cudaStream_t s,
            const call *c)
{
    work w = {};
    w.kind = work::LAUNCH;
    w.launch = {where, grid, block, shared_byte, c};
    cudaError_t e = refuse_launch(w.launch);
    note_error(e ? e : submit_work(w, s));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    stream *made = static_cast<stream *>(calloc(1, sizeof *made));
    if (!s || !made) {
        free(made);
        return note_error(s ? cudaErrorMemoryAllocation : cudaErrorInvalidValue);
    }
    made->blocking = !(flags & cudaStreamNonBlocking);
    made->next = streams;
    streams = made;
    *s = made;
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *s)
{
    return cudaStreamCreateWithFlags(s, cudaStreamDefault);
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    if (!s || !exists(s)) return note_error(cudaErrorInvalidResourceHandle);
    run_queue(s);
    stream **at = &streams;
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    work_clear(&s->captured);
    work_clear(&s->queue);
    free(s);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    if (!exists(s)) return note_error(cudaErrorInvalidResourceHandle);
    if (capture_spoiled()) return note_error(cudaErrorStreamCaptureUnsupported);
    counts.n_synchronise++;
    cudaError_t e = drain_stream(s);
    check_guards("a synchronisation");
    return note_error(e);
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
    if (!exists(s)) return note_error(cudaErrorInvalidResourceHandle);
    return resolve(s)->queue.n ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaDeviceSynchronize()
{
    if (capture_spoiled()) return note_error(cudaErrorStreamCaptureUnsupported);
    counts.n_synchronise++;
    drain_all();
    check_guards("a synchronisation");
    return note_error(sticky_error());
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode)
{
    if (!exists(s)) return note_error(cudaErrorInvalidResourceHandle);
    if (!s) return note_error(cudaErrorStreamCaptureUnsupported);
    if (s->capturing) return note_error(cudaErrorInvalidValue);
    s->capturing = true;
    s->spoiled = false;
    return cudaSuccess;
}

} /* namespace cudacpu */

namespace cudacpu_engine
{

/* Ends a capture: its work, to be taken over by a graph; what CUDA says about it in *e. */
work_list take_capture(cudaStream_t s, cudaError_t *e)
{
    work_list l = {};
    if (!s || !exists(s) || !s->capturing) {
        *e = cudaErrorInvalidValue;
        return l;
    }
    s->capturing = false;
    l = s->captured;
    s->captured = {};
    *e = s->spoiled ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
    if (*e) work_clear(&l);
    return l;
}

} /* namespace cudacpu_engine */
