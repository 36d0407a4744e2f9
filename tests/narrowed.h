/* SPDX-License-Identifier: MIT */
/* A model's weights as the device holds them: every matrix, bias and norm in float16, by
 * kvref_narrow. For the float16 emulation (ref16 in ref/local.mk) and the float64 decoder. */
#ifndef KVREF_TESTS_NARROWED_H
#define KVREF_TESTS_NARROWED_H

#include "base/narrow.h"

typedef struct narrowed {
    kvref_weights weights; /* to be opened with the config that the originals have */
    kvref_narrowed count;
    void **block;
    int n_block;
} narrowed;

/* Copies weights; head stays one with embed where it was. */
void narrowed_open(narrowed *n, const kvref_config *config, const kvref_weights *weights);
void narrowed_close(narrowed *n);

#endif
