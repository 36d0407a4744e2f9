/* SPDX-License-Identifier: MIT */
/* Tensors of the files against the table that the config demands, all disagreements at once,
 * and what a decoded frame reads. The model loader is as strict but stops at the first. */
#include "base/base.h"
#include "base/names.h"
#include "tools/inspect.h"
#include "tools/term.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void problem(inspection *in, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void problem(inspection *in, const char *format, ...)
{
    if (in->n_problem < MAX_PROBLEM) {
        char text[400];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        term_clean(in->problem[in->n_problem], sizeof in->problem[0], text);
    }
    in->n_problem++;
}

/* "[64, 48]" */
static const char *shape(char text[64], const int64_t *dim, int n_dim)
{
    int at = snprintf(text, 64, "[");
    for (int i = 0; i < n_dim && at < 60; i++)
        at += snprintf(text + at, 64 - (size_t)at, "%s%lld", i ? ", " : "", (long long)dim[i]);
    if (at < 63) snprintf(text + at, 64 - (size_t)at, "]");
    return text;
}

static bool is_weight(kvref_dtype t)
{
    return t == KVREF_F32 || t == KVREF_F16 || t == KVREF_BF16;
}

/* Checks one tensor against a shape; counts it. Returns the bytes of an element. */
static size_t
check(inspection *in, kvref_named *have, const char *name, const int64_t *dim, int n_dim)
{
    char a[64], b[64];
    const kvref_tensor *t = have->tensor;
    have->used = true;
    bool same = t->n_dim == n_dim && memcmp(t->dim, dim, (size_t)n_dim * sizeof *dim) == 0;
    if (!same)
        problem(in,
                "%s: shape %s, config needs %s",
                name,
                shape(a, t->dim, t->n_dim),
                shape(b, dim, n_dim));
    if (!is_weight(t->dtype))
        problem(
            in, "%s: dtype %s, expected F32, F16 or BF16", name, kvref_dtype_name(t->dtype));
    in->n_found++;
    in->n_dtype[t->dtype]++;
    in->n_byte += t->n_byte;
    in->n_value += t->n_byte / kvref_dtype_size(t->dtype);
    return kvref_dtype_size(t->dtype);
}

/* wqkv of the spec as wq, wk and wv in the file. */
static size_t
check_split(inspection *in, const kvref_names *names, const kvref_tensor_spec *spec)
{
    char name[160];
    const char *at = strstr(spec->name, "wqkv.weight");
    bool fast = strncmp(spec->name, "fast_", 5) == 0;
    const kvref_stack *s = fast ? &in->config.fast : &in->config.slow;
    size_t size = 0;
    for (int i = 0; at && i < 3; i++) {
        int64_t dim[2] = {(int64_t)(i ? s->n_kv_head : s->n_head) * s->d_head, spec->dim[1]};
        snprintf(
            name, sizeof name, "%.*sw%c.weight", (int)(at - spec->name), spec->name, "qkv"[i]);
        kvref_named *have = kvref_names_find(names, name);
        if (!have && i == 0) return 0; /* neither fused nor split */
        if (!have) problem(in, "%s: missing", name);
        if (have) size = check(in, have, name, dim, 2);
    }
    return size;
}

static void cost(inspection *in, const kvref_tensor_spec *spec, size_t size, uint64_t n)
{
    const kvref_config *c = &in->config;
    bool slow = strncmp(spec->name, "layers.", 7) == 0;
    bool fast = strncmp(spec->name, "fast_layers.", 12) == 0;
    bool head = strcmp(spec->name, "output.weight") == 0 ||
                (c->tie_word_embeddings && strcmp(spec->name, "embeddings.weight") == 0);
    uint64_t width = (uint64_t)(spec->n_dim > 1 ? spec->dim[1] : 1), other = 0;
    if (slow) {
        in->slow_layers.value += n;
        in->slow_layers.byte += n * size;
    }
    if (fast) {
        in->fast_layers.value += n * (uint64_t)in->n_pass;
        in->fast_layers.byte += n * size * (uint64_t)in->n_pass;
    }
    if (head) {
        in->head.value = width * (uint64_t)in->n_candidate;
        in->head.byte = in->head.value * size;
    }
    if (strcmp(spec->name, "fast_output.weight") == 0) {
        in->fast_head.value = n * (uint64_t)in->n_pass;
        in->fast_head.byte = in->fast_head.value * size;
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

static void compare(inspection *in, const kvref_names *names, const kvref_tensor_spec *spec)
{
    kvref_named *have = kvref_names_find(names, spec->name);
    size_t size;
    uint64_t n_value = 1;
    for (int d = 0; d < spec->n_dim; d++) n_value *= (uint64_t)spec->dim[d];
    if (have) {
        size = check(in, have, spec->name, spec->dim, spec->n_dim);
    } else {
        size = check_split(in, names, spec);
        if (size == 0) problem(in, "%s: missing", spec->name);
    }
    cost(in, spec, size ? size : 2, n_value);
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
    kvref_names names;
    int n = kvref_file_count(file), n_need = kvref_config_tensors(&in->config, NULL, 0);
    costs(in);
    in->n_need = n_need;
    if (n_need > 16 * (n + 64)) { /* nothing is allocated by what a config merely claims */
        problem(in, "the config demands %d tensors, the files hold %d", n_need, n);
        return KVREF_OK;
    }
    kvref_tensor_spec *spec = calloc((size_t)n_need + 1, sizeof *spec);
    if (!spec) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    kvref_config_tensors(&in->config, spec, n_need);
    kvref_status s = kvref_names_map(&names, file, err);
    for (int i = 0; s == KVREF_OK && i < n_need; i++) compare(in, &names, &spec[i]);
    if (s == KVREF_OK) {
        surplus(in, &names);
        kvref_names_clear(&names);
    }
    free(spec);
    return s;
}
