/* SPDX-License-Identifier: MIT */
/* The tensor table of spec 01 section 3.1. A row has a name, two extents as codes, and the
 * place in kvref_weights or kvref_layer; everything that deals with tensors by name walks it.
 */
#include "base/tensors.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* What an extent stands for; lower-case d is the fast width. NONE as rows: a vector. */
typedef enum extent { NONE, D, F, E, HE, GE, QKV, V, NK, K, FAST_D } extent;

typedef enum need { ALWAYS, QKV_BIAS, O_BIAS, QK_NORM, UNTIED, PROJECTION } need;

typedef struct row {
    const char *name;
    extent n_row, n_col;
    need need;
    size_t at; /* offset of the kvref_weight */
} row;

#define L(field) offsetof(kvref_layer, field)
#define T(field) offsetof(kvref_weights, field)

static const row layer_row[] = {
    {"attention_norm.weight", NONE, D, ALWAYS, L(attn_norm)},
    {"attention.wqkv.weight", QKV, D, ALWAYS, L(wq)},
    {"attention.wqkv.bias", NONE, QKV, QKV_BIAS, L(bq)},
    {"attention.q_norm.weight", NONE, E, QK_NORM, L(q_norm)},
    {"attention.k_norm.weight", NONE, E, QK_NORM, L(k_norm)},
    {"attention.wo.weight", D, HE, ALWAYS, L(wo)},
    {"attention.wo.bias", NONE, D, O_BIAS, L(bo)},
    {"ffn_norm.weight", NONE, D, ALWAYS, L(ffn_norm)},
    {"feed_forward.w1.weight", F, D, ALWAYS, L(w1)},
    {"feed_forward.w3.weight", F, D, ALWAYS, L(w3)},
    {"feed_forward.w2.weight", D, F, ALWAYS, L(w2)},
};

/* Before the slow layers, between slow and fast layers, and after them. */
static const row first_row[] = {
    {"embeddings.weight", V, D, ALWAYS, T(embed)},
    {"codebook_embeddings.weight", NK, D, ALWAYS, T(codebook_embed)},
};
static const row middle_row[] = {
    {"norm.weight", NONE, D, ALWAYS, T(norm)},
    {"output.weight", V, D, UNTIED, T(head)},
    {"fast_project_in.weight", FAST_D, D, PROJECTION, T(fast_in)},
    {"fast_project_in.bias", NONE, FAST_D, PROJECTION, T(fast_in_bias)},
    {"fast_embeddings.weight", K, FAST_D, ALWAYS, T(fast_embed)},
};
static const row last_row[] = {
    {"fast_norm.weight", NONE, FAST_D, ALWAYS, T(fast_norm)},
    {"fast_output.weight", K, FAST_D, ALWAYS, T(fast_head)},
};

typedef struct walk {
    const kvref_config *config;
    kvref_slot_fn fn;
    void *user;
} walk;

static int size_of(extent x, const kvref_config *c, const kvref_stack *s)
{
    switch (x) {
    case D:
        return s->d_model;
    case F:
        return s->d_ff;
    case E:
        return s->d_head;
    case HE:
        return s->n_head * s->d_head;
    case GE:
        return s->n_kv_head * s->d_head;
    case QKV:
        return (s->n_head + 2 * s->n_kv_head) * s->d_head;
    case V:
        return c->n_vocab;
    case NK:
        return c->n_codebook * c->n_code;
    case K:
        return c->n_code;
    case FAST_D:
        return c->fast.d_model;
    case NONE:
        break;
    }
    return 1;
}

static bool needed(need what, const kvref_config *c, const kvref_stack *s)
{
    switch (what) {
    case QKV_BIAS:
        return s->qkv_bias;
    case O_BIAS:
        return s->o_bias;
    case QK_NORM:
        return s->qk_norm;
    case UNTIED:
        return !c->tie_word_embeddings;
    case PROJECTION:
        return c->fast.d_model != c->slow.d_model;
    case ALWAYS:
        break;
    }
    return true;
}

/* Rows of one table. prefix goes before each name, base (may be NULL) is the struct they fill.
 */
static kvref_status walk_rows(const walk *w,
                              const row *table,
                              size_t n,
                              const kvref_stack *s,
                              const char *prefix,
                              void *base,
                              kvref_error *err)
{
    for (size_t i = 0; i < n; i++) {
        const row *r = &table[i];
        if (!needed(r->need, w->config, s)) continue;
        kvref_slot slot = {.n_part = 1};
        snprintf(slot.spec.name, sizeof slot.spec.name, "%s%s", prefix, r->name);
        if (r->n_row != NONE)
            slot.spec.dim[slot.spec.n_dim++] = size_of(r->n_row, w->config, s);
        slot.spec.dim[slot.spec.n_dim++] = size_of(r->n_col, w->config, s);
        slot.n_row[0] = (int)slot.spec.dim[0];
        if (r->n_row == QKV || r->n_col == QKV) {
            slot.n_part = 3;
            slot.n_row[0] = size_of(HE, w->config, s);
            slot.n_row[1] = slot.n_row[2] = size_of(GE, w->config, s);
        }
        if (base) slot.weight = (kvref_weight *)(void *)((char *)base + r->at);
        KVREF_TRY(w->fn(w->user, &slot, err));
    }
    return KVREF_OK;
}

static kvref_status walk_layers(
    const walk *w, const kvref_stack *s, const char *stem, kvref_layer *layer, kvref_error *err)
{
    char prefix[32];
    for (int l = 0; l < s->n_layer; l++) {
        snprintf(prefix, sizeof prefix, "%s.%d.", stem, l);
        KVREF_TRY(walk_rows(w,
                            layer_row,
                            sizeof layer_row / sizeof layer_row[0],
                            s,
                            prefix,
                            layer ? &layer[l] : NULL,
                            err));
    }
    return KVREF_OK;
}

kvref_status kvref_slots_walk(const kvref_config *config,
                              kvref_weights *weights,
                              kvref_slot_fn fn,
                              void *user,
                              kvref_error *err)
{
    const walk w = {config, fn, user};
    const kvref_stack *slow = &config->slow, *fast = &config->fast;
    kvref_weights *x = weights;
    KVREF_TRY(walk_rows(&w, first_row, 2, slow, "", x, err));
    KVREF_TRY(walk_layers(&w, slow, "layers", x ? x->slow : NULL, err));
    KVREF_TRY(walk_rows(&w, middle_row, 5, slow, "", x, err));
    KVREF_TRY(walk_layers(&w, fast, "fast_layers", x ? x->fast : NULL, err));
    return walk_rows(&w, last_row, 2, slow, "", x, err);
}

void kvref_part_spec(kvref_tensor_spec *out, const kvref_slot *slot, int part)
{
    const char *fused = slot->spec.name, *at = strstr(fused, "wqkv");
    assert(slot->n_part == 3 && at);
    *out = slot->spec;
    out->dim[0] = slot->n_row[part];
    int n_stem = (int)(at - fused);
    snprintf(out->name, sizeof out->name, "%.*sw%c%s", n_stem, fused, "qkv"[part], at + 4);
}

void kvref_shape_text(char text[96], int n_dim, const int64_t *dim)
{
    size_t at = 1;
    memcpy(text, "[", 2);
    for (int i = 0; i < n_dim && at < 90; i++)
        at += (size_t)snprintf(text + at, 96 - at, "%s%lld", i ? ", " : "", (long long)dim[i]);
    if (at < 95) memcpy(text + at, "]", 2);
}

typedef struct list {
    kvref_tensor_spec *spec;
    int n, max;
} list;

static kvref_status append(void *user, const kvref_slot *slot, kvref_error *err)
{
    list *l = user;
    (void)err;
    if (l->n < l->max) l->spec[l->n] = slot->spec;
    l->n++;
    return KVREF_OK;
}

int kvref_config_tensors(const kvref_config *config, kvref_tensor_spec *spec, int max)
{
    list l = {spec, 0, max};
    kvref_slots_walk(config, NULL, append, &l, NULL);
    return l.n;
}
