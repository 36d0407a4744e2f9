/* SPDX-License-Identifier: MIT */
/* Graphs and events. A graph is the list of captured work with the arguments as they were; a
 * launch does it again, so a value frozen at capture stays frozen, as on a device. */
#include "gpu/cudacpu/engine.h"

#include <stdlib.h>
#include <time.h>

namespace cudacpu
{

struct graph {
    cudacpu_engine::work_list nodes;
};
struct graph_exec {
    cudacpu_engine::work_list nodes;
};
struct event {
    bool recorded, happened, timed;
    cudaStream_t s;
    double ms;
};

} /* namespace cudacpu */

namespace cudacpu_engine
{
using namespace cudacpu;

void event_happened(event *e)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    e->happened = true;
    e->ms = static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

} /* namespace cudacpu_engine */

namespace cudacpu
{
using namespace cudacpu_engine;

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g)
{
    if (!g) return note_error(cudaErrorInvalidValue);
    *g = nullptr;
    cudaError_t e;
    work_list l = take_capture(s, &e);
    if (e) return note_error(e);
    *g = static_cast<graph *>(calloc(1, sizeof **g));
    if (!*g) {
        work_clear(&l);
        return note_error(cudaErrorMemoryAllocation);
    }
    (*g)->nodes = l;
    counts.n_capture++;
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *x, cudaGraph_t g, unsigned long long)
{
    if (!x || !g) return note_error(cudaErrorInvalidValue);
    *x = static_cast<graph_exec *>(calloc(1, sizeof **x));
    if (!*x) return note_error(cudaErrorMemoryAllocation);
    for (size_t i = 0; i < g->nodes.n; i++)
        if (!work_add(&(*x)->nodes, g->nodes.list[i])) {
            cudaGraphExecDestroy(*x);
            *x = nullptr;
            return note_error(cudaErrorMemoryAllocation);
        }
    counts.n_instantiate++;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t x, cudaStream_t s)
{
    if (!x) return note_error(cudaErrorInvalidValue);
    counts.n_graph_launch++;
    for (size_t i = 0; i < x->nodes.n; i++) {
        cudaError_t e = submit_work(x->nodes.list[i], s);
        if (e) return note_error(e);
    }
    return note_error(sticky_error());
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t x)
{
    if (!x) return note_error(cudaErrorInvalidValue);
    work_clear(&x->nodes);
    free(x);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    if (!g) return note_error(cudaErrorInvalidValue);
    work_clear(&g->nodes);
    free(g);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
    if (!e) return note_error(cudaErrorInvalidValue);
    *e = static_cast<event *>(calloc(1, sizeof **e));
    if (!*e) return note_error(cudaErrorMemoryAllocation);
    (*e)->timed = !(flags & cudaEventDisableTiming);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    return cudaEventCreateWithFlags(e, cudaEventDefault);
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    if (!e) return note_error(cudaErrorInvalidResourceHandle);
    e->recorded = true;
    e->happened = false;
    e->s = s;
    work w = {};
    w.kind = work::EVENT;
    w.e = e;
    return note_error(submit_work(w, s));
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    if (!e) return note_error(cudaErrorInvalidResourceHandle);
    if (capture_spoiled()) return note_error(cudaErrorStreamCaptureUnsupported);
    counts.n_synchronise++;
    if (e->recorded && !e->happened) drain_stream(e->s);
    return note_error(sticky_error());
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    if (!ms || !from || !to || !from->timed || !to->timed)
        return note_error(cudaErrorInvalidValue);
    if (!from->recorded || !to->recorded) return note_error(cudaErrorInvalidResourceHandle);
    if (!from->happened || !to->happened) return note_error(cudaErrorNotReady);
    *ms = static_cast<float>(to->ms - from->ms);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    if (!e) return note_error(cudaErrorInvalidResourceHandle);
    if (e->recorded && !e->happened) drain_all();
    free(e);
    return cudaSuccess;
}

} /* namespace cudacpu */
