/* SPDX-License-Identifier: MIT */
/* Copies and sets: direction, bounds and state of both ends are checked when the call is made
 * and again when the work is done (the memory may be gone by then). */
#include "gpu/cudacpu/engine.h"

#include <stdlib.h>

namespace cudacpu_engine
{
using namespace cudacpu;

static bool wants_device(const copy_work &w, bool target)
{
    if (w.kind == cudaMemcpyDeviceToDevice) return true;
    return w.kind == (target ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost);
}

/* One end of a copy. */
static bool end_is_valid(const copy_work &w, const void *p, bool target, const char *when)
{
    const char *end = target ? "target" : "source";
    const allocation *a = in_arena(p) ? find_allocation(p) : nullptr;
    const char *at = static_cast<const char *>(p);
    if (in_arena(p) != wants_device(w, target)) {
        report(CUDACPU_COPY_DIRECTION,
               "%s: the %s is %s memory, the call says %s (%zu bytes)",
               when,
               end,
               in_arena(p) ? "device" : "host",
               in_arena(p) ? "host" : "device",
               w.n_byte);
        return false;
    }
    if (!in_arena(p)) return true;
    if (a && !a->live) {
        report(CUDACPU_AFTER_FREE, "%s: the %s was freed", when, end);
        return false;
    }
    if (!a || at < a->base || w.n_byte > a->n_byte ||
        at - a->base > (ptrdiff_t)(a->n_byte - w.n_byte)) {
        report(CUDACPU_COPY_BOUNDS,
               "%s: %zu bytes, %s begins at byte %td of an allocation of %zu",
               when,
               w.n_byte,
               end,
               a ? at - a->base : 0,
               a ? a->n_byte : 0);
        return false;
    }
    if (n_forbidden && forbidden(p, w.n_byte)) {
        report(CUDACPU_FORBIDDEN, "%s: the %s touches a forbidden region", when, end);
        return false;
    }
    return true;
}

bool copy_is_valid(const copy_work &w, const char *when)
{
    if (!w.n_byte) return true;
    if (!end_is_valid(w, w.to, true, when)) return false;
    return w.is_set || end_is_valid(w, w.from, false, when);
}

void run_copy(const copy_work &w)
{
    if (sticky_error() || !w.n_byte) return;
    const char *when = w.is_set ? "cudaMemset, when it ran" : "cudaMemcpy, when it ran";
    if (!copy_is_valid(w, when)) {
        note_error(cudaErrorInvalidValue);
        return;
    }
    memory_open();
    if (w.is_set)
        memset(w.to, w.value, w.n_byte);
    else
        memmove(w.to, w.from, w.n_byte);
    memory_close();
    if (w.is_set)
        counts.n_set++;
    else
        counts.n_copy++;
    if (!w.is_set && w.kind == cudaMemcpyHostToDevice) counts.to_device_byte += w.n_byte;
    if (w.kind == cudaMemcpyDeviceToHost) counts.to_host_byte += w.n_byte;
    if (!check) return;
    if (w.kind == cudaMemcpyHostToDevice) check->host_wrote(w.to, w.n_byte);
    if (w.kind == cudaMemcpyDeviceToDevice) check->device_copied(w.to, w.from, w.n_byte);
}

static cudaMemcpyKind infer(const void *to, const void *from, cudaMemcpyKind kind)
{
    if (kind != cudaMemcpyDefault) return kind;
    if (in_arena(to)) return in_arena(from) ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice;
    return in_arena(from) ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
}

static cudaError_t give(const copy_work &c, cudaStream_t s)
{
    if (sticky_error()) return sticky_error();
    if (!copy_is_valid(c, c.is_set ? "cudaMemset" : "cudaMemcpy"))
        return note_error(cudaErrorInvalidValue);
    work w = {};
    w.kind = work::COPY;
    w.copy = c;
    return note_error(submit_work(w, s));
}

/* A call that returns when the work is done. */
static cudaError_t give_and_wait(const copy_work &c)
{
    if (capture_spoiled()) return note_error(cudaErrorStreamCaptureUnsupported);
    cudaError_t e = give(c, nullptr);
    if (e) return e;
    counts.n_synchronise++;
    e = drain_stream(nullptr);
    check_guards("a blocking copy");
    return note_error(e);
}

} /* namespace cudacpu_engine */

namespace cudacpu
{
using namespace cudacpu_engine;

cudaError_t cudaMemcpy(void *to, const void *from, size_t n_byte, cudaMemcpyKind kind)
{
    return give_and_wait({to, from, n_byte, 0, false, infer(to, from, kind)});
}

cudaError_t
cudaMemcpyAsync(void *to, const void *from, size_t n_byte, cudaMemcpyKind kind, cudaStream_t s)
{
    return give({to, from, n_byte, 0, false, infer(to, from, kind)}, s);
}

cudaError_t cudaMemset(void *to, int value, size_t n_byte)
{
    return give_and_wait({to, nullptr, n_byte, value, true, cudaMemcpyHostToDevice});
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t n_byte, cudaStream_t s)
{
    return give({to, nullptr, n_byte, value, true, cudaMemcpyHostToDevice}, s);
}

cudaError_t cudaMallocHost(void **p, size_t n_byte)
{
    if (!p) return note_error(cudaErrorInvalidValue);
    *p = nullptr;
    if (posix_memalign(p, 256, n_byte ? n_byte : 1) != 0)
        return note_error(cudaErrorMemoryAllocation);
    memset(*p, 0xff, n_byte);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *p)
{
    if (!p) return cudaSuccess;
    if (in_arena(p)) {
        report(CUDACPU_BAD_FREE, "cudaFreeHost(%p): device memory", p);
        return note_error(cudaErrorInvalidValue);
    }
    drain_all();
    free(p);
    return cudaSuccess;
}

} /* namespace cudacpu */
