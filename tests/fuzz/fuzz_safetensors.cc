/* SPDX-License-Identifier: MIT */
/* Any bytes as a safetensors file: refused, or tensors that tile the data and can be read. */
extern "C" {
#include "base/file.h"
}

#include <cstdint>
#include <cstdlib>

/* Sums what the tensors show; every byte must be readable. */
static void walk(kvref_file *f, size_t size)
{
    static volatile uint8_t sink;
    size_t sum = 0;
    for (int i = 0; i < kvref_file_count(f); i++) {
        const kvref_tensor *t = kvref_file_at(f, i);
        const uint8_t *p = static_cast<const uint8_t *>(t->data);
        for (size_t k = 0; k < t->n_byte; k++) sink = static_cast<uint8_t>(sink ^ p[k]);
        if (kvref_file_find(f, t->name) != t) abort();
        sum += t->n_byte;
    }
    if (sum > size) abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kvref_file *f;
    kvref_error err;
    int part;
    err.text[0] = 0;
    if (kvref_file_new(&f, &err) != KVREF_OK) return 0;
    kvref_status s = kvref_file_add_memory(f, &part, "file", data, size, &err);
    if (s == KVREF_OK) s = kvref_safetensors_parse(f, part, &err);
    if (s == KVREF_OK) s = kvref_file_finish(f, &err);
    if (s == KVREF_OK) walk(f, size);
    if (s != KVREF_OK && err.text[0] == 0) abort();
    kvref_file_close(&f);
    return 0;
}
