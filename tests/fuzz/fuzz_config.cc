/* SPDX-License-Identifier: MIT */
/* Any bytes as config.json: refused, or a config whose sizes are usable. */
#include "kvref/model.h"

#include <cstdint>
#include <cstdlib>

static kvref_tensor_spec spec[64];

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kvref_config c;
    kvref_error err;
    const char *text = reinterpret_cast<const char *>(data);
    if (kvref_config_parse(&c, text, size, "config", &err) != KVREF_OK) {
        if (err.text[0] == 0) abort();
        return 0;
    }
    const kvref_stack *side[] = {&c.slow, &c.fast};
    for (const kvref_stack *s : side) {
        if (s->n_layer < 1 || s->d_ff < 1 || s->n_kv_head < 1 || s->n_head % s->n_kv_head)
            abort();
        if (s->d_head < 2 || s->d_head % 2 || s->d_model % s->n_head) abort();
    }
    if (!(c.rope_base > 0) || !(c.norm_eps > 0) || c.n_vocab < 1 || c.max_seq_len < 1) abort();
    int n = kvref_config_tensors(&c, spec, 64);
    for (int i = 0; i < n && i < 64; i++) {
        if (spec[i].n_dim < 1 || spec[i].n_dim > 2 || spec[i].dim[0] < 1) abort();
        if (spec[i].dim[0] > INT32_MAX) abort();
    }
    return 0;
}
