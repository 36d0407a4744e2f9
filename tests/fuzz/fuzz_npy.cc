/* SPDX-License-Identifier: MIT */
/* Any bytes as codes in .npy: read or refused, never a crash; what was read fits its input. */
#include "kvref/file.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kvref_codes codes;
    kvref_error err = {};
    if (kvref_codes_parse(&codes, data, size, "x.npy", 0, 0, &err) == KVREF_OK) {
        size_t n = static_cast<size_t>(codes.n_book) * static_cast<size_t>(codes.n_frame);
        if (codes.n_book < 1 || codes.n_frame < 0 || n > size) abort();
        if (n > 0) {
            volatile int32_t last = codes.code[n - 1];
            (void)last;
        }
        kvref_codes_check(&codes, codes.n_book, 4096, "x.npy", &err);
        kvref_codes_clear(&codes);
    } else if (err.text[0] == 0 || codes.code) {
        abort();
    }
    return 0;
}
