/* SPDX-License-Identifier: MIT */
/* Torch .pth archives as named tensors (spec 01 section 5).
 *
 * Archive -> P/data.pkl -> one dict, or the dict under its key "state_dict" -> pairs of name
 * and tensor; a name set twice has its last value, what is no tensor is ignored and noted.
 * If any name contains "generator" (the training form of the codec, spec 01 section 5.3), only
 * names with "generator." are kept and lose it; a language model has no such names. All other
 * renaming is the loader's. */
#include "base/pth.h"

#include <stdlib.h>
#include <string.h>

#define NOT_A_TENSOR UINT32_MAX

/* One pair of the dict. */
typedef struct item {
    const char *name;
    uint32_t n_name;
    uint32_t order;  /* its place among the pairs         */
    uint32_t tensor; /* in the pickle's pool, NOT_A_TENSOR */
} item;

typedef struct items {
    item *item;
    size_t n, cap;
    size_t n_odd;  /* pairs whose key is no text, or an overlong one without a tensor */
    char *renamed; /* names that lost "generator." */
} items;

/* Whether a name ends in "/data.pkl". */
static bool is_data_pkl(const kvref_zip_entry *e)
{
    static const char tail[] = "/data.pkl";
    size_t n = sizeof tail - 1;
    return e->n_name >= n && memcmp(e->name + e->n_name - n, tail, n) == 0;
}

static kvref_status find_pickle(kvref_pth *r, kvref_error *err)
{
    for (size_t i = 0; i < r->zip.n_entry; i++) {
        if (!is_data_pkl(&r->zip.entry[i])) continue;
        if (r->pkl)
            return kvref_fail(
                err, KVREF_E_FORMAT, "%s: expected one data.pkl, found several", r->path);
        r->pkl = &r->zip.entry[i];
    }
    if (!r->pkl)
        return kvref_fail(err, KVREF_E_FORMAT, "%s: found no data.pkl in a folder", r->path);
    r->n_folder = r->pkl->n_name - strlen("data.pkl");
    const uint8_t *slash = memchr(r->pkl->name, '/', r->pkl->n_name);
    if (slash == r->pkl->name || (size_t)(slash - r->pkl->name) + 1 != r->n_folder)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: expected data.pkl in a plain folder, found it in '%.*s'",
                          r->path,
                          (int)(r->n_folder < 120 ? r->n_folder : 120),
                          (const char *)r->pkl->name);
    return KVREF_OK;
}

/* P/byteorder, if present, must say little; a wrong CRC of data.pkl is noted. */
static kvref_status check_archive(const kvref_pth *r, kvref_error *err)
{
    const kvref_zip_entry *e =
        kvref_zip_find(&r->zip, r->pkl->name, r->n_folder, "byteorder", 9);
    if (e && !(e->n_byte >= 6 && e->n_byte <= 8 && memcmp(e->data, "little", 6) == 0))
        return kvref_fail(err,
                          KVREF_E_UNSUPPORTED,
                          "%s: byte order: expected 'little', found '%.*s'",
                          r->path,
                          (int)(e->n_byte < 40 ? e->n_byte : 40),
                          (const char *)e->data);
    if (r->pkl->n_byte <= KVREF_PICKLE_MAX_BYTE &&
        kvref_zip_crc(0, r->pkl->data, r->pkl->n_byte) != r->pkl->crc)
        kvref_note(r->log, "%s: data.pkl does not match its CRC", r->path);
    return KVREF_OK;
}

static bool is_text(const kvref_pth *r, kvref_value v, const char *want)
{
    return v.kind == KVREF_V_TEXT && v.n == strlen(want) &&
           memcmp(r->pickle.data + v.at, want, v.n) == 0;
}

/* The dict that holds the tensors: *dict itself, or what it has under "state_dict". */
static kvref_status choose_dict(const kvref_pth *r, kvref_value *dict, kvref_error *err)
{
    if (dict->kind != KVREF_V_DICT)
        return kvref_fail(err, KVREF_E_FORMAT, "%s: the pickle holds no dict", r->path);
    kvref_pairs at = kvref_pickle_pairs(&r->pickle, *dict);
    kvref_value pair[2], inner = {0};
    size_t n_other = 0;
    while (kvref_pickle_next(&r->pickle, &at, pair)) {
        if (is_text(r, pair[0], "state_dict"))
            inner = pair[1];
        else
            n_other++;
    }
    if (inner.kind == KVREF_V_UNSET) return KVREF_OK;
    if (inner.kind != KVREF_V_DICT)
        return kvref_fail(
            err, KVREF_E_FORMAT, "%s: expected a dict under 'state_dict'", r->path);
    if (n_other)
        kvref_note(r->log, "%s: %zu entries beside 'state_dict' are ignored", r->path, n_other);
    *dict = inner;
    return KVREF_OK;
}

/* Takes one pair in; too long names are refused for tensors and ignored for the rest. */
static kvref_status add_item(
    const kvref_pth *r, items *all, const kvref_value pair[2], uint32_t order, kvref_error *err)
{
    const char *name = (const char *)r->pickle.data + pair[0].at;
    bool tensor = pair[1].kind == KVREF_V_TENSOR;
    if (pair[0].n > KVREF_MAX_NAME || memchr(name, 0, pair[0].n)) {
        if (!tensor) {
            all->n_odd++;
            return KVREF_OK;
        }
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: tensor %.*s...: a name of %u bytes, or with a NUL; expected at "
                          "most %d",
                          r->path,
                          (int)(pair[0].n < 80 ? pair[0].n : 80),
                          name,
                          pair[0].n,
                          KVREF_MAX_NAME);
    }
    KVREF_TRY(kvref_grow((void **)&all->item, &all->cap, all->n + 1, sizeof *all->item, err));
    all->item[all->n++] =
        (item){name, pair[0].n, order, tensor ? (uint32_t)pair[1].at : NOT_A_TENSOR};
    return KVREF_OK;
}

static int by_name(const void *a, const void *b)
{
    const item *x = a, *y = b;
    int order = memcmp(x->name, y->name, x->n_name < y->n_name ? x->n_name : y->n_name);
    if (order == 0) order = (x->n_name > y->n_name) - (x->n_name < y->n_name);
    return order ? order : (x->order > y->order) - (x->order < y->order);
}

/* Sorts by name; of several with one name the last set remains. */
static void settle_names(items *all)
{
    if (all->n) qsort(all->item, all->n, sizeof *all->item, by_name);
    size_t n = 0;
    for (size_t i = 0; i < all->n; i++) {
        const item *x = &all->item[i], *next = x + 1;
        if (i + 1 < all->n && x->n_name == next->n_name &&
            memcmp(x->name, next->name, x->n_name) == 0)
            continue;
        all->item[n++] = *x;
    }
    all->n = n;
}

static kvref_status collect(kvref_pth *r, items *all, kvref_value dict, kvref_error *err)
{
    kvref_pairs at = kvref_pickle_pairs(&r->pickle, dict);
    kvref_value pair[2];
    for (uint32_t order = 0; kvref_pickle_next(&r->pickle, &at, pair); order++) {
        if (pair[0].kind != KVREF_V_TEXT) {
            all->n_odd++;
            continue;
        }
        KVREF_TRY(add_item(r, all, pair, order, err));
    }
    settle_names(all);
    return KVREF_OK;
}

/* Copies a name without any "generator."; returns the new length. */
static size_t strip(char *to, const item *x)
{
    static const char word[] = "generator.";
    const size_t n_word = sizeof word - 1;
    size_t n = 0;
    for (size_t i = 0; i < x->n_name;) {
        if (x->n_name - i >= n_word && memcmp(x->name + i, word, n_word) == 0)
            i += n_word;
        else
            to[n++] = x->name[i++];
    }
    return n;
}

/* The rule of spec 01 section 5.3. */
static kvref_status keep_generator(const kvref_pth *r, items *all, kvref_error *err)
{
    size_t n_byte = 1, n = 0, used = 0;
    bool any = false;
    for (size_t i = 0; i < all->n; i++) {
        const item *x = &all->item[i];
        any = any || memmem(x->name, x->n_name, "generator", 9);
        n_byte += x->n_name;
    }
    if (!any) return KVREF_OK;
    all->renamed = malloc(n_byte);
    if (!all->renamed) return kvref_fail(err, KVREF_E_MEMORY, "%s: out of memory", r->path);
    for (size_t i = 0; i < all->n; i++) {
        item x = all->item[i];
        size_t n_left = strip(all->renamed + used, &x);
        if (n_left == x.n_name) continue;
        x.name = all->renamed + used;
        x.n_name = (uint32_t)n_left;
        all->item[n++] = x;
        used += n_left;
    }
    kvref_note(r->log,
               "%s: %zu of %zu names hold 'generator.', the others are ignored",
               r->path,
               n,
               all->n);
    all->n = n;
    settle_names(all);
    return KVREF_OK;
}

static kvref_status add_all(kvref_pth *r, const items *all, kvref_error *err)
{
    size_t n_other = 0;
    const item *other = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const item *x = &all->item[i];
        if (x->tensor == NOT_A_TENSOR) {
            other = x;
            n_other++;
        } else {
            KVREF_TRY(kvref_pth_add(r, x->name, x->n_name, x->tensor, err));
        }
    }
    if (all->n_odd)
        kvref_note(
            r->log, "%s: %zu values without a usable name are ignored", r->path, all->n_odd);
    if (other)
        kvref_note(r->log,
                   "%s: %zu values that are not tensors are ignored, one is '%.*s'",
                   r->path,
                   n_other,
                   (int)other->n_name,
                   other->name);
    return KVREF_OK;
}

static kvref_status read_dict(kvref_pth *r, items *all, kvref_error *err)
{
    kvref_value dict;
    KVREF_TRY(find_pickle(r, err));
    KVREF_TRY(check_archive(r, err));
    KVREF_TRY(kvref_pickle_run(&r->pickle, &dict, r->pkl->data, r->pkl->n_byte, r->path, err));
    KVREF_TRY(choose_dict(r, &dict, err));
    KVREF_TRY(collect(r, all, dict, err));
    KVREF_TRY(keep_generator(r, all, err));
    return add_all(r, all, err);
}

kvref_status kvref_pth_parse(kvref_file *f, int part, const kvref_log *log, kvref_error *err)
{
    const kvref_map *map = &f->part[part].map;
    kvref_pth r = {.file = f, .part = part, .path = f->part[part].path, .log = log};
    KVREF_TRY(kvref_zip_open(&r.zip, map->data, map->n_byte, r.path, err));
    items all = {0};
    kvref_status s = read_dict(&r, &all, err);
    free(all.item);
    free(all.renamed);
    kvref_pickle_close(&r.pickle);
    kvref_zip_close(&r.zip);
    return s;
}
