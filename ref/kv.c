/* SPDX-License-Identifier: MIT */
/* The key and value cache: for each layer K and V, each [G, C, E] float32.
 *
 * The whole capacity is reserved as address space once, and the system gives memory to a page
 * when it is first written. Each head starts on a page of its own and its rows lie one after
 * the other, so the memory in use is the filled prefix plus at most a page per head. Rows
 * beyond the prefix are neither written nor read: they are what the caller's memory held. */
#include "ref/ref.h"

#include <string.h>
#include <unistd.h>

size_t ref_kv_init(ref_kv *kv, int n_layer, int n_head, int d_head, int capacity)
{
    long asked = sysconf(_SC_PAGESIZE);
    size_t page = asked > 0 ? (size_t)asked : 4096, head_byte, n_byte;
    *kv =
        (ref_kv){.n_layer = n_layer, .n_head = n_head, .d_head = d_head, .capacity = capacity};
    if (!kvref_mul_size((size_t)capacity, (size_t)d_head * sizeof(float), &head_byte) ||
        !kvref_add_size(head_byte, page - 1, &head_byte))
        return SIZE_MAX;
    kv->head_byte = head_byte / page * page;
    if (!kvref_mul_size((size_t)n_layer * 2, (size_t)n_head, &n_byte) ||
        !kvref_mul_size(n_byte, kv->head_byte, &n_byte))
        return SIZE_MAX;
    return n_byte;
}

/* Positions lie inside a head, [L, 2, G, C, E]: the rows that one query head reads follow one
 * another in memory. With positions outermost they would be G * E floats apart. */
float *ref_kv_head(const ref_kv *kv, int layer, int value, int head)
{
    size_t index = ((size_t)layer * 2 + (size_t)value) * (size_t)kv->n_head + (size_t)head;
    return (float *)(void *)(kv->base + index * kv->head_byte);
}

void ref_kv_append(
    const ref_kv *kv, int layer, int first, const float *k, const float *v, int n_row)
{
    size_t width = (size_t)kv->d_head;
    for (int g = 0; g < kv->n_head; g++) {
        float *k_head = ref_kv_head(kv, layer, 0, g), *v_head = ref_kv_head(kv, layer, 1, g);
        for (int t = 0; t < n_row; t++) {
            size_t to = (size_t)(first + t) * width;
            size_t from = ((size_t)t * (size_t)kv->n_head + (size_t)g) * width;
            memcpy(k_head + to, k + from, width * sizeof *k);
            memcpy(v_head + to, v + from, width * sizeof *v);
        }
    }
}
