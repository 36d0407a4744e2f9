/* SPDX-License-Identifier: MIT */
/* Checkpoint dtype to float16: exact from float16, one rounding from the others (bfloat16 is
 * widened first, which is exact). bfloat16 has 8 bits of exponent against 5 here, so what can
 * be lost is range, and below 2^-14 precision; both are counted so that they can be reported.
 */
#include "base/narrow.h"

#include "kvref/half.h"

#include <math.h>
#include <string.h>

/* Element i of a row at any address. */
static float element(const char *row, kvref_dtype dtype, size_t i)
{
    float single;
    uint16_t half;
    if (dtype == KVREF_F32) {
        memcpy(&single, row + i * sizeof single, sizeof single);
        return single;
    }
    memcpy(&half, row + i * sizeof half, sizeof half);
    return dtype == KVREF_F16 ? kvref_f16_f32(half) : kvref_bf16_f32(half);
}

static void count_one(kvref_narrowed *c, float from, uint16_t to)
{
    float back = kvref_f16_f32(to);
    c->n++;
    if (isnan(from) || back == from) {
        c->subnormal += (to & 0x7c00u) == 0 && (to & 0x3ffu) != 0;
        return;
    }
    c->inexact++;
    if (isinf(back))
        c->overflow++;
    else if (back == 0)
        c->underflow++;
    else
        c->subnormal += (to & 0x7c00u) == 0;
}

void kvref_narrow(uint16_t *out,
                  size_t stride,
                  const kvref_weight *w,
                  int first,
                  int n,
                  kvref_narrowed *count)
{
    size_t width = (size_t)w->n_col, size = kvref_dtype_size(w->dtype);
    for (size_t r = 0; r < (size_t)n; r++) {
        const char *row = (const char *)w->data + ((size_t)first + r) * width * size;
        uint16_t *to = out + r * stride;
        for (size_t i = 0; i < width; i++) {
            float from = element(row, w->dtype, i);
            to[i] = kvref_f32_f16(from);
            if (count) count_one(count, from, to[i]);
        }
        memset(to + width, 0, (stride - width) * sizeof *to);
    }
}
