/* SPDX-License-Identifier: MIT */
/* From the tensors of a file to kvref_weights. */
#ifndef KVREF_BASE_BIND_H
#define KVREF_BASE_BIND_H

#include "base/base.h"
#include "base/names.h"
#include "base/tensors.h"
#include "kvref/model.h"

/* The tensors of a file that fill a slot: want[0..*n_want-1] is the slot's own, or q, k and v
 * when the file has any of them. Having both is FORMAT. */
kvref_status kvref_slot_wants(kvref_tensor_spec want[3],
                              int *n_want,
                              const kvref_slot *slot,
                              const kvref_names *names,
                              const char *dir,
                              kvref_error *err);

/* MISSING when t is NULL, SHAPE when its shape or dtype is not what is wanted; the message
 * begins with where. */
kvref_status kvref_tensor_check(const kvref_tensor *t,
                                const kvref_tensor_spec *want,
                                const char *where,
                                kvref_error *err);

/* Fills w (zeroed) with views of the file's tensors, each checked against the config. dir
 * stands for the checkpoint in messages; *n_surplus counts what the config does not demand.
 * On failure w may be half filled: kvref_weights_clear in any case. */
kvref_status kvref_weights_bind(kvref_weights *w,
                                int *n_surplus,
                                const kvref_config *config,
                                const kvref_file *file,
                                const char *dir,
                                const kvref_log *log,
                                kvref_error *err);

void kvref_weights_clear(kvref_weights *w);

#endif
