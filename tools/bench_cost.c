/* SPDX-License-Identifier: MIT */
/* Bytes that a decoded frame must move, from shapes alone (spec 02 section 8, 03 section 5):
 *
 *     slow layers + A rows of the head + (N-1) (fast layers + fast head) + rows looked up
 *     + 2 L G E kv_len cached values
 *
 * Position 0 and 1 of the fast transformer share a pass. Its own cache, N positions of one
 * frame, stays in the processor and is left out. */
#include "tools/bench.h"

typedef struct sizes {
    size_t value; /* bytes of a weight, 0: as in the file */
} sizes;

static double rows_bytes(const sizes *s, const kvref_weight *w, double n_row)
{
    if (!w->data) return 0;
    size_t size = s->value ? s->value : kvref_dtype_size(w->dtype);
    return n_row * (double)w->n_col * (double)size;
}

static double bytes(const sizes *s, const kvref_weight *w)
{
    return rows_bytes(s, w, w->n_row);
}

static double madds(const kvref_weight *w)
{
    return (double)w->n_row * (double)w->n_col;
}

static double layer_bytes(const sizes *s, const kvref_layer *l)
{
    const kvref_weight *const part[] = {&l->attn_norm,
                                        &l->wq,
                                        &l->wk,
                                        &l->wv,
                                        &l->bq,
                                        &l->bk,
                                        &l->bv,
                                        &l->q_norm,
                                        &l->k_norm,
                                        &l->wo,
                                        &l->bo,
                                        &l->ffn_norm,
                                        &l->w1,
                                        &l->w3,
                                        &l->w2};
    double sum = 0;
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) sum += bytes(s, part[i]);
    return sum;
}

static double layer_madds(const kvref_layer *l)
{
    return madds(&l->wq) + madds(&l->wk) + madds(&l->wv) + madds(&l->wo) + madds(&l->w1) +
           madds(&l->w3) + madds(&l->w2);
}

bench_cost bench_cost_of(const kvref_config *c, const kvref_weights *w, size_t size)
{
    const sizes s = {size};
    bench_cost cost = {0};
    double n_pass = c->n_codebook - 1;
    for (int l = 0; l < c->slow.n_layer; l++) {
        cost.slow_layers += layer_bytes(&s, &w->slow[l]);
        cost.prefill_madd += layer_madds(&w->slow[l]);
    }
    for (int l = 0; l < c->fast.n_layer; l++)
        cost.fast_layers += n_pass * layer_bytes(&s, &w->fast[l]);
    cost.head = rows_bytes(&s, &w->head, kvref_config_candidates(c, NULL, 0));
    cost.fast_head = n_pass * bytes(&s, &w->fast_head);
    cost.other = rows_bytes(&s, &w->embed, 1) +
                 rows_bytes(&s, &w->codebook_embed, c->n_codebook) +
                 rows_bytes(&s, &w->fast_embed, n_pass) + bytes(&s, &w->norm) +
                 n_pass * bytes(&s, &w->fast_norm) + bytes(&s, &w->fast_in) +
                 bytes(&s, &w->fast_in_bias);
    cost.position = 2.0 * c->slow.n_layer * c->slow.n_kv_head * c->slow.d_head *
                    (double)(size ? size : sizeof(float));
    return cost;
}

double bench_cost_weights(const bench_cost *cost)
{
    return cost->slow_layers + cost->head + cost->fast_layers + cost->fast_head + cost->other;
}
