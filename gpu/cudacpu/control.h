/* SPDX-License-Identifier: MIT */
/* How tests steer and question the CPU execution layer. Plain C.
 *
 * The layer is a test instrument: by default a fault (a divergent barrier, a copy outside an
 * allocation, a race, ...) is described on stderr and the process aborts. Recording keeps the
 * reports instead, abandons the launch at fault and lets the program go on with
 * cudaErrorLaunchFailure; it is meant for tests of the layer and of kernels.
 *
 * The layer keeps its state in the process and is used by one thread at a time. */
#ifndef KVREF_GPU_CUDACPU_CONTROL_H
#define KVREF_GPU_CUDACPU_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In which order the ready threads of a block, and the blocks of a grid, run. */
typedef enum cudacpu_order {
    CUDACPU_ASCENDING,
    CUDACPU_DESCENDING,
    CUDACPU_SEEDED
} cudacpu_order;

typedef enum cudacpu_kind {
    CUDACPU_NO_REPORT,
    CUDACPU_BARRIER_DIVERGED, /* threads of a block wait at different barriers */
    CUDACPU_BARRIER_EXITED,   /* some exited, others wait at a barrier */
    CUDACPU_WARP_MASK,        /* lane not in its own mask, or no such lane */
    CUDACPU_WARP_OPERATION,   /* lanes of one mask are at different operations */
    CUDACPU_WARP_ABSENT,      /* a lane of the mask never comes */
    CUDACPU_WARP_INACTIVE,    /* shuffle from a lane outside the mask */
    CUDACPU_SHARED_SIZE,      /* more than 48 KiB of shared memory */
    CUDACPU_GUARD,            /* bytes around a variable or allocation were overwritten */
    CUDACPU_COPY_BOUNDS,      /* copy or set outside an allocation */
    CUDACPU_COPY_DIRECTION,   /* host pointer for device pointer or the other way */
    CUDACPU_BAD_FREE,         /* not what cudaMalloc gave, or freed twice */
    CUDACPU_AFTER_FREE,       /* access to freed device memory */
    CUDACPU_FORBIDDEN,        /* access to a region given to cudacpu_forbid */
    CUDACPU_RACE,             /* two threads of a block, one interval, one word */
    CUDACPU_RACE_BLOCKS,      /* two blocks of a launch, one word */
    CUDACPU_UNINITIALISED,    /* read of a byte that nothing wrote */
    CUDACPU_OUT_OF_BOUNDS,    /* access between allocations or variables */
    CUDACPU_MISALIGNED,       /* address not a multiple of the access size */
    CUDACPU_HOST_POINTER,     /* a kernel uses memory of the host */
    CUDACPU_FOREIGN_STACK     /* a kernel uses a local variable of another thread */
} cudacpu_kind;

typedef struct cudacpu_report {
    cudacpu_kind kind;
    char text[600];
} cudacpu_report;

/* One finished launch. Traffic is counted by the race build alone (0 otherwise): bytes that
 * threads asked to read from and write to device memory, atomics counted as both. */
typedef struct cudacpu_launch {
    const char *kernel;
    unsigned grid[3], block[3];
    size_t shared_byte;
    uint64_t read_byte, write_byte;
} cudacpu_launch;

typedef struct cudacpu_counts {
    uint64_t n_launch, n_block, n_barrier;
    uint64_t n_copy, n_set; /* executed, graph nodes included */
    uint64_t to_device_byte, to_host_byte;
    uint64_t n_synchronise; /* calls that wait for the device, blocking copies included */
    uint64_t n_capture, n_instantiate, n_graph_launch;
    uint64_t n_alloc;
    uint64_t read_byte, write_byte; /* sums over launches, race build */
    size_t live_byte, peak_byte;    /* device memory held now, and at most */
} cudacpu_counts;

void cudacpu_set_order(cudacpu_order order, uint64_t seed);
/* Streams run their work when it is given (default) or only when somebody waits for it. */
void cudacpu_set_deferred(int on);
/* Early exit before a barrier: a fault (default), or allowed as on sm_70 and later. */
void cudacpu_set_early_exit(int allowed);
/* Device memory in all; 0: three quarters of the machine's. */
void cudacpu_set_memory_limit(size_t n_byte);
/* What cudaGetDeviceProperties gives as multiProcessorCount (4). */
void cudacpu_set_processors(int n);
/* Device memory is unreadable while no launch or copy runs: a host access faults at once. */
void cudacpu_set_protected(int on);
/* Everything above back to its default, forbidden regions and hooks gone, reports dropped. */
void cudacpu_reset(void);

/* Makes part of an allocation unusable for kernels and copies until allowed again. The race
 * build is exact and reports; the plain build protects the whole pages inside. */
void cudacpu_forbid(const void *p, size_t n_byte);
void cudacpu_allow(const void *p, size_t n_byte); /* one region, as forbidden */
void cudacpu_allow_all(void);

void cudacpu_set_recording(int on);
size_t cudacpu_n_report(void); /* all; only the first 16 are kept */
const cudacpu_report *cudacpu_report_at(size_t i);
int cudacpu_n_report_of(cudacpu_kind kind); /* among those kept */
/* Also clears the error that a recorded fault left behind. */
void cudacpu_clear_reports(void);
const char *cudacpu_kind_name(cudacpu_kind kind);

/* Called with every report, before the abort or the recording. NULL: none. */
void cudacpu_set_report_hook(void (*hook)(void *user, const cudacpu_report *r), void *user);
/* Called after every launch. NULL: none. */
void cudacpu_set_launch_hook(void (*hook)(void *user, const cudacpu_launch *l), void *user);

cudacpu_counts cudacpu_get_counts(void);
/* All to 0; the peak to what is held. */
void cudacpu_reset_counts(void);
/* What kernels read and wrote of the live allocation that holds p since the counts were reset;
 * 0 in the plain build. */
void cudacpu_traffic(const void *p, uint64_t *read_byte, uint64_t *write_byte);
/* 1 in a program linked with the race build. */
int cudacpu_is_race_build(void);
/* Device pointer of a live allocation: its size, else 0. */
size_t cudacpu_allocation(const void *p);

#ifdef __cplusplus
}
#endif

#endif
