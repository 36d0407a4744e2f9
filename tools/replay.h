/* SPDX-License-Identifier: MIT */
/* The settings of a run, in the metadata of its trace and back, so that the run can be made
 * again: how it sampled, and where its random numbers began. */
#ifndef KVREF_TOOLS_REPLAY_H
#define KVREF_TOOLS_REPLAY_H

#include "tools/session.h"

typedef struct replay {
    int sample, frame_base; /* address of the numbers, as in kvref_generate_opts       */
    int n_before;           /* frames that earlier batches and samples drew            */
    char *noise;            /* what sampling_args.noise points to when it was recorded */
} replay;

/* Takes from the trace at path every setting it records that can change what comes out, for
 * options that were not given: sampling, rope table and linear, not capacity, attention mode
 * and threads. A trace by another program may record none. */
kvref_status replay_read(replay *r,
                         decoder_args *decoder,
                         sampling_args *sampling,
                         const char *path,
                         const cli_given *given,
                         kvref_error *err);

/* Metadata of where the numbers of a batch began; session_describe records the rest. */
kvref_status replay_describe(const replay *r, kvref_trace *trace, kvref_error *err);

/* Makes the session's noise pass over the numbers that n_before frames drew. */
kvref_status replay_pass_over(const replay *r, const session *s, kvref_error *err);

void replay_clear(replay *r);

#endif
