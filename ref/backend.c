/* SPDX-License-Identifier: MIT */
/* The reference as a backend: kvref/backend.h on one side, this folder on the other. */
#include "ref/ref.h"

static kvref_status ref_open(kvref_decoder **out,
                             const kvref_model *model,
                             const kvref_decoder_opts *opts,
                             kvref_error *err)
{
    return ref_decoder_open(
        out, kvref_model_config(model), kvref_model_weights(model), opts, err);
}

static int ref_length(const kvref_decoder *d)
{
    return d->n_pos;
}

static int ref_capacity(const kvref_decoder *d)
{
    return d->slow.kv.capacity;
}

const kvref_backend *kvref_backend_ref(void)
{
    static const kvref_backend backend = {
        .name = "ref",
        .open = ref_open,
        .slow = ref_slow,
        .fast = ref_fast,
        .rewind = ref_rewind,
        .length = ref_length,
        .capacity = ref_capacity,
        .kv_count = ref_kv_count,
        .close = ref_decoder_close,
    };
    return &backend;
}
