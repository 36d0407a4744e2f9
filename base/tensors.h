/* SPDX-License-Identifier: MIT */
/* The tensors a config demands, as one table for listing, binding and writing. */
#ifndef KVREF_BASE_TENSORS_H
#define KVREF_BASE_TENSORS_H

#include "base/base.h"
#include "kvref/model.h"

/* One demanded tensor and where its view goes. */
typedef struct kvref_slot {
    kvref_tensor_spec spec;
    kvref_weight *weight; /* [n_part] neighbours; NULL when only listing        */
    int n_part;           /* 3: a fused wqkv, rows of q, k and v in that order  */
    int n_row[3];         /* rows of each part; a vector's elements count as rows */
} kvref_slot;

typedef kvref_status (*kvref_slot_fn)(void *user, const kvref_slot *slot, kvref_error *err);

/* Part 0..2 (q, k, v) of a slot of three parts as a tensor of its own: wqkv in the name becomes
 * wq, wk or wv. */
void kvref_part_spec(kvref_tensor_spec *out, const kvref_slot *slot, int part);

/* "[64, 48]"; more axes than fit are left out. */
void kvref_shape_text(char text[96], int n_dim, const int64_t *dim);

/* Calls fn for every demanded tensor in file order; stops at the first failure. w (may be NULL)
 * has its layers allocated. */
kvref_status kvref_slots_walk(const kvref_config *config,
                              kvref_weights *w,
                              kvref_slot_fn fn,
                              void *user,
                              kvref_error *err);

#endif
