/* SPDX-License-Identifier: MIT */
/* Gated feed-forward activation: silu(gate) * up, silu(g) = g / (1 + e^-g) (spec 02 section 5
 * step 10). gate = w1 x and up = w3 x have F values each; their product goes through w2.
 * Notice that silu is nearly g for large g and nearly 0 for very negative g: the gate opens
 * and closes each of the F channels for this position. */
#include "ref/ref.h"

void ref_swiglu(float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++) gate[i] = ref_round(ref_round(kvref_siluf(gate[i])) * up[i]);
}
