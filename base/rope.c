/* SPDX-License-Identifier: MIT */
/* Cosine and sine of the rotation angles. Two things must be as the model was trained: the
 * angle is a product rounded to float32 (at position 30000 that moves it by a thousandth), and
 * the table is rounded to bfloat16. */
#include "base/rope.h"

#include "kvref/fmath.h"

#include <math.h>

/* Where upstream's power is not the correctly rounded one, its value is kept. */
float kvref_rope_frequency(float base, int d_head, int j)
{
    if (base == 1e6f && d_head == 128 && j == 37) return kvref_bits_f32(0x39b229fbu);
    float exponent = (float)(2 * j) / (float)d_head;
    float power = (float)pow((double)base, (double)exponent);
    return 1.0f / power;
}

static float stored(float x, kvref_rope_table table)
{
    return table == KVREF_ROPE_BF16 ? kvref_bf16_f32(kvref_f32_bf16(x)) : x;
}

void kvref_rope_row(
    float *cosine, float *sine, const float *frequency, int n, int pos, kvref_rope_table table)
{
    for (int j = 0; j < n; j++) {
        float s, c;
        kvref_sincosf(&s, &c, (float)pos * frequency[j]);
        cosine[j] = stored(c, table);
        sine[j] = stored(s, table);
    }
}
