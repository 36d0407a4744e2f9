/* SPDX-License-Identifier: MIT */
/* Rotary position embedding (spec 02 section 4). Elements 2j and 2j+1 of a head are a point in
 * a plane, turned by the angle p f_j for position p:
 *
 *     u'[2j]   = u[2j] cos - u[2j+1] sin          f_j = base^(-2j/E)
 *     u'[2j+1] = u[2j+1] cos + u[2j] sin
 *
 * The dot product of a turned q and a turned k depends on the difference of their positions.
 * Two things must be as the model was trained: the angle is a product rounded to float32 (at
 * position 30000 that moves it by a thousandth), and the table is rounded to bfloat16.
 *
 * Rows are filled when a position is first used, so neither the time to open nor the memory in
 * use depends on the capacity. */
#include "ref/ref.h"

#include "base/rope.h"

void ref_rope_init(ref_rope *rope, int d_head, float base, kvref_rope_table table)
{
    rope->d_head = d_head;
    rope->table = table;
    rope->n_row = 0;
    for (int j = 0; j < d_head / 2; j++) rope->freq[j] = kvref_rope_frequency(base, d_head, j);
}

void ref_rope_reach(ref_rope *rope, int n_row)
{
    size_t n = (size_t)rope->d_head / 2;
    for (; rope->n_row < n_row; rope->n_row++) {
        float *cosine = rope->cosine + (size_t)rope->n_row * n;
        float *sine = rope->sine + (size_t)rope->n_row * n;
        kvref_rope_row(cosine, sine, rope->freq, (int)n, rope->n_row, rope->table);
        if (rope->table == KVREF_ROPE_F32) continue;
        for (size_t j = 0; j < n; j++) {
            cosine[j] = ref_round(cosine[j]);
            sine[j] = ref_round(sine[j]);
        }
    }
}

void ref_rope_apply(const ref_rope *rope, float *x, int n_row, int n_head, int first)
{
    size_t n = (size_t)rope->d_head / 2;
    for (int t = 0; t < n_row; t++) {
        const float *cosine = rope->cosine + (size_t)(first + t) * n;
        const float *sine = rope->sine + (size_t)(first + t) * n;
        for (int h = 0; h < n_head; h++, x += 2 * n)
            for (size_t j = 0; j < n; j++) {
                float a = x[2 * j], b = x[2 * j + 1];
                x[2 * j] = ref_round(a * cosine[j] - b * sine[j]);
                x[2 * j + 1] = ref_round(b * cosine[j] + a * sine[j]);
            }
    }
}
