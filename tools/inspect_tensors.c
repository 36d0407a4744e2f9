/* SPDX-License-Identifier: MIT */
/* Tensors of the files against the table that the config demands, all disagreements at once,
 * and what a decoded frame reads. What is demanded and what fits is the model loader's own
 * (base/bind.c), which stops at the first disagreement. */
#include "base/base.h"
#include "base/bind.h"
#include "tools/inspect.h"
#include "tools/term.h"

#include <stdlib.h>
#include <string.h>

typedef struct comparison {
    inspection *in;
    const kvref_file *file;
    kvref_names names;
} comparison;

void inspect_problem(inspection *in, const char *text)
{
    if (in->n_problem < MAX_PROBLEM)
        term_clean(in->problem[in->n_problem], sizeof in->problem[0], text);
    in->n_problem++;
}

/* The last part of a path. */
static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Checks and counts one wanted tensor. Returns its bytes, or what it would have at 16 bit. */
static uint64_t check(comparison *c, const kvref_tensor_spec *want)
{
    inspection *in = c->in;
    kvref_error why;
    kvref_named *have = kvref_names_find(&c->names, want->name);
    const kvref_tensor *t = have ? have->tensor : NULL;
    const char *where = t ? base_name(kvref_file_path_of(c->file, t)) : "weights";
    if (kvref_tensor_check(t, want, where, &why) != KVREF_OK) inspect_problem(in, why.text);
    uint64_t n = (uint64_t)want->dim[0] * (uint64_t)(want->n_dim > 1 ? want->dim[1] : 1);
    if (!t) return 2 * n;
    size_t size = kvref_dtype_size(t->dtype);
    have->used = true;
    in->needed[in->n_found++] = t;
    in->n_dtype[t->dtype]++;
    in->n_byte += t->n_byte;
    in->n_value += t->n_byte / size;
    return n * size;
}

/* Adds what a frame reads of a slot whose n values take `byte` bytes. */
static void cost(inspection *in, const kvref_tensor_spec *spec, uint64_t byte, uint64_t n)
{
    uint64_t size = byte / n;
    const kvref_config *c = &in->config;
    bool slow = strncmp(spec->name, "layers.", 7) == 0;
    bool fast = strncmp(spec->name, "fast_layers.", 12) == 0;
    bool head = strcmp(spec->name, "output.weight") == 0 ||
                (c->tie_word_embeddings && strcmp(spec->name, "embeddings.weight") == 0);
    uint64_t width = (uint64_t)(spec->n_dim > 1 ? spec->dim[1] : 1), other = 0;
    if (slow) {
        in->slow_layers.value += n;
        in->slow_layers.byte += byte;
    }
    if (fast) {
        in->fast_layers.value += n * (uint64_t)in->n_pass;
        in->fast_layers.byte += byte * (uint64_t)in->n_pass;
    }
    if (head) {
        in->head.value = width * (uint64_t)in->n_candidate;
        in->head.byte = in->head.value * size;
    }
    if (strcmp(spec->name, "fast_output.weight") == 0) {
        in->fast_head.value = n * (uint64_t)in->n_pass;
        in->fast_head.byte = byte * (uint64_t)in->n_pass;
    }
    if (strcmp(spec->name, "embeddings.weight") == 0) other = width;
    if (strcmp(spec->name, "codebook_embeddings.weight") == 0)
        other = width * (uint64_t)c->n_codebook;
    if (strcmp(spec->name, "fast_embeddings.weight") == 0) other = width * (uint64_t)in->n_pass;
    if (strcmp(spec->name, "norm.weight") == 0) other = n;
    if (strcmp(spec->name, "fast_norm.weight") == 0) other = n * (uint64_t)in->n_pass;
    if (strncmp(spec->name, "fast_project_in.", 16) == 0) other = n;
    in->other.value += other;
    in->other.byte += other * size;
}

static void costs(inspection *in)
{
    const kvref_config *c = &in->config;
    in->n_candidate = kvref_config_candidates(c, NULL, 0);
    in->n_pass = c->n_codebook > 1 ? c->n_codebook - 1 : 0;
    in->kv_values =
        2u * (uint64_t)c->slow.n_layer * (uint64_t)c->slow.n_kv_head * (uint64_t)c->slow.d_head;
    in->fast_kv_values = 2u * (uint64_t)c->fast.n_layer * (uint64_t)c->fast.n_kv_head *
                         (uint64_t)c->fast.d_head * (uint64_t)c->n_codebook;
}

static kvref_status compare(void *user, const kvref_slot *slot, kvref_error *err)
{
    comparison *c = user;
    const kvref_tensor_spec *spec = &slot->spec;
    kvref_tensor_spec want[3];
    int n_want;
    uint64_t n_byte = 0;
    KVREF_TRY(kvref_slot_wants(want, &n_want, slot, &c->names, c->in->dir, err));
    for (int i = 0; i < n_want; i++) n_byte += check(c, &want[i]);
    c->in->n_need += n_want;
    cost(c->in,
         spec,
         n_byte,
         (uint64_t)spec->dim[0] * (uint64_t)(spec->n_dim > 1 ? spec->dim[1] : 1));
    return KVREF_OK;
}

static void surplus(inspection *in, const kvref_names *names)
{
    for (size_t i = 0; i < names->n; i++) {
        const kvref_named *have = &names->named[i];
        if (have->used) continue;
        if (in->n_surplus < 3)
            term_clean(in->surplus[in->n_surplus], sizeof in->surplus[0], have->tensor->name);
        in->n_surplus++;
    }
}

kvref_status inspect_tensors(inspection *in, const kvref_file *file, kvref_error *err)
{
    comparison c = {.in = in, .file = file};
    in->needed = calloc((size_t)kvref_file_count(file) + 1, sizeof in->needed[0]);
    if (!in->needed) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    costs(in);
    KVREF_TRY(kvref_names_map(&c.names, file, err));
    kvref_status s = kvref_slots_walk(&in->config, NULL, compare, &c, err);
    if (s == KVREF_OK) surplus(in, &c.names);
    kvref_names_clear(&c.names);
    return s;
}
