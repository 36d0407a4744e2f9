/* SPDX-License-Identifier: MIT */
/* The range of every value of positions and generated frames: a column is a token id below V
 * and N codes below K. */
#include "base/frames.h"

kvref_status kvref_frames_check(const int32_t *value,
                                int n_column,
                                const kvref_config *config,
                                const char *what,
                                kvref_error *err)
{
    int n_row = 1 + config->n_codebook;
    for (int t = 0; t < n_column; t++) {
        for (int r = 0; r < n_row; r++, value++) {
            int below = r == 0 ? config->n_vocab : config->n_code;
            if (*value < 0 || *value >= below)
                return kvref_fail(err,
                                  KVREF_E_ARG,
                                  "%s: column %d, row %d: expected 0..%d, found %d",
                                  what,
                                  t,
                                  r,
                                  below - 1,
                                  (int)*value);
        }
    }
    return KVREF_OK;
}
