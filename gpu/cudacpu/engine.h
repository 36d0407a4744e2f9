/* SPDX-License-Identifier: MIT */
/* What the files of the execution layer share. One launch runs at a time: block after block,
 * and within a block one thread until it waits or ends, then the next that is ready. report.cc
 * faults          order.cc  orders            block.cc  threads, barriers warp.cc    warp
 * operations  shared.cc shared memory     launch.cc grids and launches memory.cc  allocations
 * copy.cc   copies and sets   stream.cc streams graph.cc   capture, replay, events check.cc the
 * race build */
#ifndef KVREF_GPU_CUDACPU_ENGINE_H
#define KVREF_GPU_CUDACPU_ENGINE_H

#include "gpu/cudacpu/api.h"
#include "gpu/cudacpu/control.h"
#include "gpu/cudacpu/cudacpu.h"
#include "gpu/cudacpu/fiber.h"

namespace cudacpu_engine
{

using cudacpu::cudaError_t;
using cudacpu::dim3;
using cudacpu::uint3;

enum { MAX_THREAD = 1024, WARP = 32, MAX_WARP = MAX_THREAD / WARP };

struct site {
    const char *file;
    int line;
};

inline bool same_site(const site &a, const site &b)
{
    return a.line == b.line && (a.file == b.file || !strcmp(a.file, b.file));
}

/* ---- report.cc ---- */

/* Describes a fault: where in which launch, which thread, which order. Aborts, or returns when
 * recording. */
void report(cudacpu_kind kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same inside a kernel; gives the launch up and never returns there. */
[[noreturn]] void fail(cudacpu_kind kind, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- order.cc ---- */

struct settings {
    cudacpu_order order;
    uint64_t seed;
    bool deferred, early_exit, protect;
    int n_processor;
    size_t memory_limit;
    void (*launch_hook)(void *, const cudacpu_launch *);
    void *launch_user;
};
extern settings set;
extern cudacpu_counts counts;

uint64_t random_word();
void random_restart();
/* list[0..n) = 0..n-1 in the order in force. */
void fill_order(uint16_t *list, unsigned n);

/* ---- block.cc: the running block ---- */

enum thread_state : uint8_t { READY, AT_BARRIER, AT_WARP, DONE };

struct thread {
    fiber *fib; /* NULL until it starts */
    uint3 index;
    uint16_t id;
    uint8_t lane, warp;
    thread_state state;
    site at;            /* of the barrier or warp operation */
    unsigned mask;      /* of the warp operation */
    unsigned sync_mask; /* race build: the last __syncwarp with part of the warp, */
    uint32_t sync_tick; /* when it ended, */
    uint32_t full_tick; /* and when the last one with the whole warp ended */
};

struct machine {
    thread *now; /* the running thread, NULL outside kernels */
    uint3 block, block_shape, grid_shape;
    const cudacpu::launch_site *launch;
    const cudacpu::call *call;
    unsigned long long serial; /* of the launch */
    size_t dynamic_byte;
    unsigned n_thread, n_done, n_barrier;
    site barrier_at;
    bool abandoned;
    uint64_t read_byte, write_byte;
    thread threads[MAX_THREAD];
};
extern machine m;

/* Runs every thread of the block m.block to its end. */
void run_block();
void prepare_threads();
/* The running thread cannot go on: another takes over until somebody makes it ready. */
void wait();
/* Makes a waiting thread ready, to run soon (or after all that are ready). */
void ready_first(thread *t);
void ready_last(thread *t);
/* Leaves the running block for good (recording only). */
[[noreturn]] void abandon();

/* ---- warp.cc ---- */

void warps_begin();
/* Describes the fault of a warp that waits for lanes that cannot come, if there is one. */
void fail_of_waiting_warp();

/* ---- shared.cc ---- */

void shared_begin_launch(size_t dynamic_byte);
void shared_begin_block();
void shared_end_block();
size_t shared_used();
/* The variable that holds an address; base NULL: none. */
struct shared_span {
    const char *name;
    char *base;
    size_t n_byte;
    unsigned long long serial; /* for users: the launch it was looked up in */
};
shared_span shared_find(const void *p);
/* The one at or before p. */
shared_span shared_before(const void *p);
size_t shared_top(); /* end of the last guard, from shared_base */
enum { SHARED_LIMIT = 48 << 10, SHARED_GUARD = 64, SHARED_MAX_VAR = 64 };
enum { SHARED_ROOM = SHARED_LIMIT + (SHARED_MAX_VAR + 2) * SHARED_GUARD };

extern char shared_room[SHARED_ROOM];
inline bool shared_contains(const void *p)
{
    return p >= shared_room && p < shared_room + SHARED_ROOM;
}

/* ---- launch.cc ---- */

struct launch_work {
    cudacpu::launch_site site;
    dim3 grid, block;
    size_t shared_byte;
    const cudacpu::call *call;
};
void run_launch(const launch_work &w);
/* Why CUDA would not launch this. */
cudaError_t refuse_launch(const launch_work &w);
cudaError_t note_error(cudaError_t e); /* remembers it for cudaGetLastError */
cudaError_t peek_error();
cudaError_t take_error();
cudaError_t sticky_error(); /* of a recorded fault */
void forget_error();

/* ---- memory.cc ---- */

struct allocation {
    char *base;
    size_t n_byte;
    char *map; /* its pages, guard pages around them not included */
    size_t map_byte;
    bool live;
};
extern char *arena_low, *arena_high;
inline bool in_arena(const void *p)
{
    return p >= arena_low && p < arena_high;
}
/* The allocation whose pages hold p, live or freed; NULL: none. */
const allocation *find_allocation(const void *p);
/* Lets the host and kernels touch device memory; nests. */
void memory_open();
void memory_close();
void check_guards(const char *when);
void memory_protect_changed();

/* ---- forbid.cc ---- */

bool forbidden(const void *p, size_t n_byte);
extern unsigned n_forbidden;
void forbid_forget(const allocation &a);
void forbid_apply(); /* page protection */

/* ---- copy.cc ---- */

struct copy_work {
    void *to;
    const void *from;
    size_t n_byte;
    int value;
    bool is_set; /* to `value`, of host to device kind */
    cudacpu::cudaMemcpyKind kind;
};
/* False: reported. */
bool copy_is_valid(const copy_work &w, const char *when);
void run_copy(const copy_work &w);

/* ---- stream.cc ---- */

/* One piece of work for a stream; `call` belongs to it. */
struct work {
    enum what : uint8_t { LAUNCH, COPY, EVENT } kind;
    launch_work launch;
    copy_work copy;
    cudacpu::event *e;
};
struct work_list {
    work *list;
    size_t n, room;
};
/* Takes over a copy of w with its arguments. False: no memory. */
bool work_add(work_list *l, const work &w);
void work_clear(work_list *l);
void work_run(const work &w);

/* Runs, queues or captures. */
cudaError_t submit_work(const work &w, cudacpu::cudaStream_t s);
cudaError_t drain_stream(cudacpu::cudaStream_t s);
void drain_all();
/* For calls that must not be made while a stream captures: spoils the capture. */
bool capture_spoiled();
work_list take_capture(cudacpu::cudaStream_t s, cudaError_t *e);

/* ---- graph.cc ---- */

void event_happened(cudacpu::event *e);

/* ---- check.cc, in the race build alone ---- */

struct checks {
    void (*atomic)(void *p, size_t n_byte);
    uint32_t (*tick)(); /* a __syncwarp ended; gives the new time */
    void (*barrier)();
    void (*begin_launch)();
    void (*begin_block)();
    void (*allocated)(const allocation &a);
    void (*freed)(const allocation &a);
    void (*host_wrote)(void *p, size_t n_byte);
    void (*device_copied)(void *to, const void *from, size_t n_byte);
    void (*traffic)(const void *p, uint64_t *read_byte, uint64_t *write_byte);
    void (*forget_traffic)();
};
extern const checks *check; /* NULL in the plain build */

} /* namespace cudacpu_engine */

#endif
