/* SPDX-License-Identifier: MIT */
/* From the tensors of a file to kvref_weights. */
#ifndef KVREF_BASE_BIND_H
#define KVREF_BASE_BIND_H

#include "base/base.h"
#include "kvref/model.h"

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
