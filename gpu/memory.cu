/* SPDX-License-Identifier: MIT */
/* Device memory is planned as a list of named buffers, compared with what is free, and only
 * then taken: a decoder either has everything before its first launch or says what did not
 * fit. Each buffer is an allocation of its own, so that a checker sees its bounds. */
#include "gpu/decoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace GPU_NAMESPACE
{

void gpu_want_bytes(gpu_plan *plan, void **at, size_t n_byte, bool zero, const char *name)
{
    *at = nullptr;
    if (n_byte == 0 || plan->status != KVREF_OK) return;
    void *list = plan->buffer;
    plan->status = kvref_grow(&list, &plan->cap, plan->n + 1, sizeof *plan->buffer, nullptr);
    plan->buffer = static_cast<gpu_buffer *>(list);
    if (plan->status != KVREF_OK) return;
    gpu_buffer *b = &plan->buffer[plan->n++];
    snprintf(b->name, sizeof b->name, "%s", name);
    b->n_byte = n_byte;
    b->at = at;
    b->zero = zero;
    if (!kvref_add_size(plan->n_byte, n_byte, &plan->n_byte)) plan->n_byte = SIZE_MAX;
}

static kvref_status
too_large(const gpu_plan *plan, const gpu_buffer *b, size_t left, kvref_error *err)
{
    return kvref_fail(err,
                      KVREF_E_MEMORY,
                      "device memory: %s needs %zu bytes, %zu are left (%zu needed in all)",
                      b->name,
                      b->n_byte,
                      left,
                      plan->n_byte);
}

kvref_status gpu_take(gpu_plan *plan, kvref_error *err)
{
    size_t left = 0, total = 0;
    if (plan->status != KVREF_OK) return kvref_fail(err, plan->status, "out of memory");
    KVREF_TRY(gpu_check("asking for free memory", cudaMemGetInfo(&left, &total), err));
    size_t rest = left;
    for (size_t i = 0; i < plan->n; i++) {
        if (plan->buffer[i].n_byte > rest) return too_large(plan, &plan->buffer[i], rest, err);
        rest -= plan->buffer[i].n_byte;
    }
    for (size_t i = 0; i < plan->n; i++) {
        gpu_buffer *b = &plan->buffer[i];
        if (cudaMalloc(b->at, b->n_byte) != cudaSuccess) {
            *b->at = nullptr;
            (void)cudaGetLastError();
            (void)cudaMemGetInfo(&left, &total);
            return too_large(plan, b, left, err);
        }
        if (b->zero)
            KVREF_TRY(gpu_check("clearing memory", cudaMemset(*b->at, 0, b->n_byte), err));
    }
    return KVREF_OK;
}

void gpu_release(gpu_plan *plan)
{
    for (size_t i = 0; i < plan->n; i++) {
        if (*plan->buffer[i].at) (void)cudaFree(*plan->buffer[i].at);
        *plan->buffer[i].at = nullptr;
    }
    free(plan->buffer);
    *plan = gpu_plan();
}

kvref_status gpu_check(const char *doing, cudaError_t e, kvref_error *err)
{
    if (e == cudaSuccess) return KVREF_OK;
    (void)cudaGetLastError(); /* reported once */
    return kvref_fail(err, KVREF_E_DEVICE, "device: %s: %s", doing, cudaGetErrorString(e));
}

kvref_status gpu_wait(const gpu_decoder *d, const char *doing, kvref_error *err)
{
    KVREF_TRY(gpu_check(doing, cudaGetLastError(), err));
    return gpu_check(doing, cudaStreamSynchronize(d->stream), err);
}

} // namespace GPU_NAMESPACE
