/* SPDX-License-Identifier: MIT */
/* Deliberately broken kernels and calls, and correct ones that look like them. */
#ifndef KVREF_TESTS_CUDACPU_FAULTS_H
#define KVREF_TESTS_CUDACPU_FAULTS_H

#include "gpu/cudacpu/control.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fault {
    const char *name;
    int (*run)(void); /* 1: the result was as the correct program's */
    cudacpu_kind plain,
        race;        /* the report expected of either build; none: missed, or no fault */
    int order_shows; /* in the plain build some order gives a wrong result */
} fault;

/* Ends with a row without a name. */
extern const fault cudacpu_sync_faults[];
extern const fault cudacpu_memory_faults[];
extern const fault cudacpu_call_faults[];
extern const fault cudacpu_clean[];

/* These are expected to be killed by SIGSEGV in the plain build. */
int fault_use_after_free(void);
int fault_read_forbidden_page(void);
int fault_write_far_outside(void);
int fault_host_reads_device_memory(void);
int fault_endless_recursion(void);

/* Reads n_read float16, writes n_write float32, adds n_atomic times; for the traffic counts. */
void run_traffic(int n_read, int n_write, int n_atomic);

#ifdef __cplusplus
}
#endif

#endif
