/* SPDX-License-Identifier: MIT */
/* Gives every demanded tensor its view into the file, after comparing shape and dtype. q, k and
 * v come as one fused wqkv, cut here into three views of rows, or as three tensors (spec 01
 * section 3.3); the same for their biases. Nothing is copied. */
#include "base/bind.h"

#include "base/names.h"
#include "base/tensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NOTE = 16 };

typedef struct binder {
    const kvref_file *file;
    const char *dir;
    kvref_names names;
} binder;

static void show_shape(char text[96], int n_dim, const int64_t *dim)
{
    size_t at = 1;
    text[0] = '[';
    text[1] = 0;
    for (int i = 0; i < n_dim && at < 90; i++)
        at += (size_t)snprintf(text + at, 96 - at, "%s%lld", i ? ", " : "", (long long)dim[i]);
    if (at < 95) memcpy(text + at, "]", 2);
}

/* The tensor of this internal name, checked against the spec; marks it as used. */
static kvref_status
take(const kvref_tensor **out, binder *b, const kvref_tensor_spec *spec, kvref_error *err)
{
    char want[96], found[96];
    kvref_named *n = kvref_names_find(&b->names, spec->name);
    show_shape(want, spec->n_dim, spec->dim);
    if (!n)
        return kvref_fail(err,
                          KVREF_E_MISSING,
                          "%s: tensor %s: missing, config needs %s",
                          b->dir,
                          spec->name,
                          want);
    const kvref_tensor *t = n->tensor;
    const char *path = kvref_file_path_of(b->file, t);
    show_shape(found, t->n_dim, t->dim);
    if (t->n_dim != spec->n_dim ||
        memcmp(t->dim, spec->dim, (size_t)t->n_dim * sizeof t->dim[0]) != 0)
        return kvref_fail(err,
                          KVREF_E_SHAPE,
                          "%s: tensor %s: shape %s, config needs %s",
                          path,
                          t->name,
                          found,
                          want);
    if (t->dtype != KVREF_F32 && t->dtype != KVREF_F16 && t->dtype != KVREF_BF16)
        return kvref_fail(err,
                          KVREF_E_SHAPE,
                          "%s: tensor %s: dtype %s, expected F32, F16 or BF16",
                          path,
                          t->name,
                          kvref_dtype_name(t->dtype));
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

/* The name of part i of a fused slot: wqkv becomes wq, wk or wv. */
static void part_name(char *name, size_t cap, const char *fused, int i)
{
    const char *at = strstr(fused, "wqkv");
    snprintf(name, cap, "%.*sw%c%s", (int)(at - fused), fused, "qkv"[i], at + 4);
}

/* Whether q, k and v are separate in the file; a mixture with the fused one is an error. */
static kvref_status
is_split(bool *out, const binder *b, const kvref_slot *slot, kvref_error *err)
{
    char name[sizeof slot->spec.name];
    const kvref_named *fused = kvref_names_find(&b->names, slot->spec.name), *part = NULL;
    for (int i = 0; i < 3 && !part; i++) {
        part_name(name, sizeof name, slot->spec.name, i);
        part = kvref_names_find(&b->names, name);
    }
    if (fused && part)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: tensors %s and %s: expected fused or split q, k and v, found "
                          "both",
                          b->dir,
                          fused->tensor->name,
                          part->tensor->name);
    *out = part != NULL;
    return KVREF_OK;
}

static kvref_status bind_split(binder *b, const kvref_slot *slot, kvref_error *err)
{
    for (int i = 0; i < 3; i++) {
        kvref_tensor_spec spec = slot->spec;
        const kvref_tensor *t;
        part_name(spec.name, sizeof spec.name, slot->spec.name, i);
        spec.dim[0] = slot->n_row[i];
        KVREF_TRY(take(&t, b, &spec, err));
        slot->weight[i] = view(t, 0, slot->n_row[i]);
    }
    return KVREF_OK;
}

static kvref_status bind_slot(void *user, const kvref_slot *slot, kvref_error *err)
{
    binder *b = user;
    const kvref_tensor *t;
    bool split = false;
    if (slot->n_part == 3) KVREF_TRY(is_split(&split, b, slot, err));
    if (split) return bind_split(b, slot, err);
    KVREF_TRY(take(&t, b, &slot->spec, err));
    for (int i = 0, first = 0; i < slot->n_part; first += slot->n_row[i++])
        slot->weight[i] = view(t, first, slot->n_row[i]);
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
