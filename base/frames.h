/* SPDX-License-Identifier: MIT */
/* The one range check of positions and frames. */
#ifndef KVREF_BASE_FRAMES_H
#define KVREF_BASE_FRAMES_H

#include "base/base.h"
#include "kvref/model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* value [n_column, 1+N]: 0 <= token < V and 0 <= code < K, else ARG with `what`, column, row
 * (0 is the token, 1 + b the code of book b), range and value of the first bad one. */
kvref_status kvref_frames_check(const int32_t *value,
                                int n_column,
                                const kvref_config *config,
                                const char *what,
                                kvref_error *err);

#ifdef __cplusplus
}
#endif
#endif
