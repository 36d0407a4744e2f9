/* SPDX-License-Identifier: MIT */
/* Name mapping of spec 01 section 3.2.
 * safetensors, if any name starts with text_model. or audio_decoder.:
 *   text_model.model.X -> X;  audio_decoder.codebook_embeddings.X -> codebook_embeddings.X;
 *   audio_decoder.X -> fast_X;  text_model.lm_head.weight -> output.weight (upstream forgets
 *   this one and would run an untied model with a random head).
 * .pth: if a name starts with "model.", every "model." inside any name is deleted; then names
 * that contain "audio_" are dropped. Upstream tests the first name only; here any will do,
 * because the order in the file carries no meaning. */
#include "base/names.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum rule { PLAIN, NESTED, PTH, PTH_PREFIX } rule;

static bool starts(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static rule choose(const kvref_file *f)
{
    for (int i = 0; i < kvref_file_count(f); i++) {
        const char *name = kvref_file_at(f, i)->name;
        if (f->is_pth && starts(name, "model.")) return PTH_PREFIX;
        if (!f->is_pth && (starts(name, "text_model.") || starts(name, "audio_decoder.")))
            return NESTED;
    }
    return f->is_pth ? PTH : PLAIN;
}

/* Deletes every occurrence of a text, left to right, in place. */
static void delete_all(char *name, const char *text)
{
    size_t n = strlen(text);
    for (char *p = name; (p = strstr(p, text));) memmove(p, p + n, strlen(p + n) + 1);
}

/* prefix + rest in fresh memory. */
static char *join(const char *prefix, const char *rest)
{
    size_t need = strlen(prefix) + strlen(rest) + 1;
    char *name = malloc(need);
    if (name) snprintf(name, need, "%s%s", prefix, rest);
    return name;
}

static char *map_name(const char *name, rule by)
{
    static const struct {
        const char *from, *to;
    } nested[] = {{"text_model.model.", ""},
                  {"text_model.lm_head.", "output."},
                  {"audio_decoder.codebook_embeddings.", "codebook_embeddings."},
                  {"audio_decoder.", "fast_"}};
    for (size_t i = 0; by == NESTED && i < 4; i++) {
        if (starts(name, nested[i].from))
            return join(nested[i].to, name + strlen(nested[i].from));
    }
    char *copy = strdup(name);
    if (copy && by == PTH_PREFIX) delete_all(copy, "model.");
    return copy;
}

static int by_name(const void *a, const void *b)
{
    const kvref_named *x = a, *y = b;
    if (!x->name || !y->name) return !x->name - !y->name;
    return strcmp(x->name, y->name);
}

static kvref_status map_all(kvref_names *out, const kvref_file *f, kvref_error *err)
{
    rule by = choose(f);
    for (size_t i = 0; i < out->n; i++) {
        const kvref_tensor *t = kvref_file_at(f, (int)i);
        char *name = map_name(t->name, by);
        if (!name) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
        if (f->is_pth && strstr(name, "audio_")) {
            free(name);
            name = NULL;
        }
        out->named[i] = (kvref_named){name, t, false};
        out->n_kept += name != NULL;
    }
    if (out->n) qsort(out->named, out->n, sizeof out->named[0], by_name);
    for (size_t i = 1; i < out->n_kept; i++) {
        const kvref_named *a = &out->named[i - 1], *b = &out->named[i];
        if (strcmp(a->name, b->name) == 0)
            return kvref_fail(err,
                              KVREF_E_FORMAT,
                              "%s: tensors %s and %s: both become %s, expected one",
                              kvref_file_path_of(f, a->tensor),
                              a->tensor->name,
                              b->tensor->name,
                              a->name);
    }
    return KVREF_OK;
}

kvref_status kvref_names_map(kvref_names *out, const kvref_file *file, kvref_error *err)
{
    size_t n = (size_t)kvref_file_count(file);
    *out = (kvref_names){.named = calloc(n + 1, sizeof out->named[0]), .n = n};
    if (!out->named) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    kvref_status s = map_all(out, file, err);
    if (s != KVREF_OK) kvref_names_clear(out);
    return s;
}

static int name_against(const void *name, const void *named)
{
    return strcmp(name, ((const kvref_named *)named)->name);
}

kvref_named *kvref_names_find(const kvref_names *names, const char *name)
{
    return bsearch(name, names->named, names->n_kept, sizeof names->named[0], name_against);
}

void kvref_names_clear(kvref_names *names)
{
    for (size_t i = 0; names->named && i < names->n; i++) free(names->named[i].name);
    free(names->named);
    *names = (kvref_names){0};
}
