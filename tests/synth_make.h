/* SPDX-License-Identifier: MIT */
/* Configs and folders for the tests of synthetic checkpoints. */
#ifndef KVREF_TESTS_SYNTH_MAKE_H
#define KVREF_TESTS_SYNTH_MAKE_H

#include "kvref/synth.h"
#include "tests/support.h"

#include <stdio.h>

/* Every option of the format in use, no two sizes equal, so that a swap cannot cancel. */
static const kvref_config odd = {
    .model_type = "dual_ar",
    .slow = {3, 24, 6, 2, 14, 44, true, true, false},
    .fast = {2, 27, 9, 3, 4, 34, false, true, true},
    .n_vocab = 97,
    .n_codebook = 5,
    .n_code = 23,
    .max_seq_len = 50,
    .rope_base = 5000,
    .norm_eps = 1.2345679e-6f,
    .semantic_begin = 40,
    .semantic_end = 62,
    .im_end = 70,
};

/* What both forms can express. */
static inline kvref_config both_forms(void)
{
    kvref_config c = odd;
    c.scale_codebook_embeddings = c.norm_fastlayer_input = true;
    return c;
}

static const kvref_synth_opts plain = {.dtype = KVREF_BF16, .n_shard = 1};

/* A path that does not exist yet. */
static inline const char *fresh_dir(void)
{
    static int n;
    char name[32];
    snprintf(name, sizeof name, "model%d", n++);
    return support_path(support_temp_dir(), name);
}

#endif
