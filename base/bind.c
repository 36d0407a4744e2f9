/* SPDX-License-Identifier: MIT */
/* Gives every demanded tensor its view into the file, after comparing shape and dtype. q, k and
 * v come as one fused wqkv, cut here into three views of rows, or as three tensors (spec 01
 * section 3.3); the same for their biases. Nothing is copied but what is not contiguous. */
#include "base/bind.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NOTE = 16 };

typedef struct binder {
    const kvref_file *file;
    const char *dir;
    kvref_names names;
} binder;

kvref_status kvref_tensor_check(const kvref_tensor *t,
                                const kvref_tensor_spec *want,
                                const char *where,
                                kvref_error *err)
{
    char expected[96], found[96];
    kvref_shape_text(expected, want->n_dim, want->dim);
    if (!t)
        return kvref_fail(err,
                          KVREF_E_MISSING,
                          "%s: tensor %s: missing, config needs %s",
                          where,
                          want->name,
                          expected);
    kvref_shape_text(found, t->n_dim, t->dim);
    if (t->n_dim != want->n_dim ||
        memcmp(t->dim, want->dim, (size_t)t->n_dim * sizeof t->dim[0]) != 0)
        return kvref_fail(err,
                          KVREF_E_SHAPE,
                          "%s: tensor %s: shape %s, config needs %s",
                          where,
                          t->name,
                          found,
                          expected);
    if (t->dtype != KVREF_F32 && t->dtype != KVREF_F16 && t->dtype != KVREF_BF16)
        return kvref_fail(err,
                          KVREF_E_SHAPE,
                          "%s: tensor %s: dtype %s, expected F32, F16 or BF16",
                          where,
                          t->name,
                          kvref_dtype_name(t->dtype));
    return KVREF_OK;
}

/* The tensor of this internal name, checked against the spec; marks it as used. */
static kvref_status
take(const kvref_tensor **out, binder *b, const kvref_tensor_spec *spec, kvref_error *err)
{
    kvref_named *n = kvref_names_find(&b->names, spec->name);
    const kvref_tensor *t = n ? n->tensor : NULL;
    KVREF_TRY(kvref_tensor_check(t, spec, t ? kvref_file_path_of(b->file, t) : b->dir, err));
    KVREF_TRY(kvref_tensor_load(t, err));
    n->used = true;
    *out = t;
    return KVREF_OK;
}

/* Rows first.. of t as a weight; elements of a vector count as rows. */
static kvref_weight view(const kvref_tensor *t, int first, int n_row)
{
    bool is_vector = t->n_dim == 1;
    int n_col = is_vector ? 1 : (int)t->dim[1];
    size_t skip = (size_t)first * (size_t)n_col * kvref_dtype_size(t->dtype);
    return (kvref_weight){(const char *)t->data + skip,
                          t->dtype,
                          is_vector ? 1 : n_row,
                          is_vector ? n_row : n_col};
}

kvref_status kvref_slot_wants(kvref_tensor_spec want[3],
                              int *n_want,
                              const kvref_slot *slot,
                              const kvref_names *names,
                              const char *dir,
                              kvref_error *err)
{
    const kvref_named *fused = kvref_names_find(names, slot->spec.name), *part = NULL;
    for (int i = 0; i < 3 && slot->n_part == 3; i++) {
        kvref_part_spec(&want[i], slot, i);
        if (!part) part = kvref_names_find(names, want[i].name);
    }
    if (fused && part)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: tensors %s and %s: expected fused or split q, k and v, found "
                          "both",
                          dir,
                          fused->tensor->name,
                          part->tensor->name);
    *n_want = part ? 3 : 1;
    if (!part) want[0] = slot->spec;
    return KVREF_OK;
}

static kvref_status bind_slot(void *user, const kvref_slot *slot, kvref_error *err)
{
    binder *b = user;
    kvref_tensor_spec want[3];
    const kvref_tensor *t[3];
    int n_want;
    KVREF_TRY(kvref_slot_wants(want, &n_want, slot, &b->names, b->dir, err));
    for (int i = 0; i < n_want; i++) KVREF_TRY(take(&t[i], b, &want[i], err));
    for (int i = 0, first = 0; i < slot->n_part; first += slot->n_row[i++])
        slot->weight[i] =
            n_want == 3 ? view(t[i], 0, slot->n_row[i]) : view(t[0], first, slot->n_row[i]);
    return KVREF_OK;
}

/* Counts what nobody took and names the first few. */
static int report_surplus(const binder *b, const kvref_log *log)
{
    int n = 0;
    for (size_t i = 0; i < b->names.n; i++) {
        const kvref_named *x = &b->names.named[i];
        if (x->used || n++ >= MAX_NOTE) continue;
        kvref_note(log,
                   "%s: tensor %s: not needed by the config, ignored",
                   kvref_file_path_of(b->file, x->tensor),
                   x->tensor->name);
    }
    if (n > MAX_NOTE)
        kvref_note(log, "%s: %d more tensors not needed by the config", b->dir, n - MAX_NOTE);
    return n;
}

kvref_status kvref_weights_bind(kvref_weights *w,
                                int *n_surplus,
                                const kvref_config *config,
                                const kvref_file *file,
                                const char *dir,
                                const kvref_log *log,
                                kvref_error *err)
{
    binder b = {.file = file, .dir = dir};
    w->slow = calloc((size_t)config->slow.n_layer, sizeof w->slow[0]);
    w->fast = calloc((size_t)config->fast.n_layer, sizeof w->fast[0]);
    if (!w->slow || !w->fast) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    KVREF_TRY(kvref_names_map(&b.names, file, err));
    kvref_status s = kvref_slots_walk(config, w, bind_slot, &b, err);
    if (s == KVREF_OK) {
        if (config->tie_word_embeddings) w->head = w->embed;
        *n_surplus = report_surplus(&b, log);
    }
    kvref_names_clear(&b.names);
    return s;
}

void kvref_weights_clear(kvref_weights *w)
{
    free(w->slow);
    free(w->fast);
    *w = (kvref_weights){0};
}
