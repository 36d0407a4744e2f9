/* SPDX-License-Identifier: MIT */
/* Tensors of a codec file as float32 arrays, in the mapping where their bytes allow it. Names
 * may carry "generator.": then only names with it count, and it is taken out (spec 01
 * section 5.3). */
#include "base/file.h"
#include "ref/codec.h"

#include "kvref/half.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether a stored name, without every "generator.", is the wanted one. */
static bool same_name(const char *stored, const char *want)
{
    static const char mark[] = "generator.";
    if (!strstr(stored, mark)) return false;
    while (*stored) {
        if (strncmp(stored, mark, sizeof mark - 1) == 0) {
            stored += sizeof mark - 1;
            continue;
        }
        if (*stored++ != *want++) return false;
    }
    return *want == 0;
}

int ref_codec_number(const kvref_codec *c, const char *stored, const char *format)
{
    char name[KVREF_MAX_NAME + 1];
    size_t n = 0, mark = strlen("generator.");
    const char *from = stored;
    if (c->generator && !strstr(stored, "generator.")) return -1;
    while (*from && n < sizeof name - 1) {
        if (c->generator && strncmp(from, "generator.", mark) == 0)
            from += mark;
        else
            name[n++] = *from++;
    }
    name[n] = 0;
    size_t before = strcspn(format, "%");
    const char *digit = name + before, *rest = format + before + 2;
    if (strncmp(name, format, before) != 0 || *digit < '0' || *digit > '9') return -1;
    if (*digit == '0' && digit[1] >= '0' && digit[1] <= '9') return -1;
    size_t n_digit = strspn(digit, "0123456789");
    if (strncmp(digit + n_digit, rest, strlen(rest)) != 0) return -1;
    int number = 0;
    for (size_t i = 0; i < n_digit && i < 6; i++) number = 10 * number + (digit[i] - '0');
    return n_digit > 6 ? 999999 : number;
}

kvref_status ref_codec_find(const kvref_codec *c,
                            const kvref_tensor **out,
                            const char *name,
                            kvref_error *err)
{
    *out = NULL;
    if (!c->generator) {
        *out = kvref_file_find(c->file, name);
        return KVREF_OK;
    }
    for (int i = 0; i < kvref_file_count(c->file); i++) {
        const kvref_tensor *t = kvref_file_at(c->file, i);
        if (!same_name(t->name, name)) continue;
        if (*out)
            return kvref_fail(
                err, KVREF_E_FORMAT, "codec: %s: also present as %s", (*out)->name, t->name);
        *out = t;
    }
    return KVREF_OK;
}

static kvref_status
need(const kvref_codec *c, const kvref_tensor **out, const char *name, kvref_error *err)
{
    KVREF_TRY(ref_codec_find(c, out, name, err));
    if (!*out) return kvref_fail(err, KVREF_E_MISSING, "codec: no tensor %s", name);
    return KVREF_OK;
}

/* Shape as text, dim 0 shown as "any". */
static void shape_text(char *out, size_t n, const int *dim, const int64_t *found, int n_dim)
{
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < n_dim && at + 24 < n; i++) {
        long long v = dim ? dim[i] : found ? (long long)found[i] : 0;
        at += (size_t)(dim && v == 0 ? snprintf(out + at, n - at, "%sany", i ? ", " : "")
                                     : snprintf(out + at, n - at, "%s%lld", i ? ", " : "", v));
    }
}

kvref_status ref_codec_check(
    const kvref_codec *c, const kvref_tensor *t, int n_dim, int *dim, kvref_error *err)
{
    bool fits = t->n_dim == n_dim;
    for (int i = 0; fits && i < n_dim; i++)
        fits = dim[i] ? t->dim[i] == dim[i] : t->dim[i] > 0 && t->dim[i] <= 1 << 20;
    if (t->dtype != KVREF_F32 && t->dtype != KVREF_F16 && t->dtype != KVREF_BF16) fits = false;
    if (!fits) {
        char want[160], found[160];
        shape_text(want, sizeof want, dim, NULL, n_dim);
        shape_text(found, sizeof found, NULL, t->dim, t->n_dim);
        return kvref_fail(err,
                          KVREF_E_SHAPE,
                          "%s: %s: expected F32, F16 or BF16 [%s], found %s [%s]",
                          kvref_file_path_of(c->file, t),
                          t->name,
                          want,
                          kvref_dtype_name(t->dtype),
                          found);
    }
    for (int i = 0; i < n_dim; i++) dim[i] = (int)t->dim[i];
    return kvref_tensor_load(t, err);
}

void ref_codec_widen(float *out, const kvref_tensor *t, size_t n)
{
    if (t->dtype == KVREF_F32) {
        memcpy(out, t->data, n * sizeof *out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, (const char *)t->data + 2 * i, sizeof h);
        out[i] = t->dtype == KVREF_F16 ? kvref_f16_f32(h) : kvref_bf16_f32(h);
    }
}

/* Fresh memory that lives as long as the codec. */
kvref_status ref_codec_block(kvref_codec *c, float **out, size_t n, kvref_error *err)
{
    void *p = calloc(n ? n : 1, sizeof **out);
    *out = p;
    if (!p) return kvref_fail(err, KVREF_E_MEMORY, "codec: no memory for weights");
    kvref_status status = kvref_grow(
        (void **)&c->block, &c->cap_block, c->n_block_mem + 1, sizeof *c->block, err);
    if (status != KVREF_OK) {
        free(p);
        return status;
    }
    c->block[c->n_block_mem++] = p;
    return KVREF_OK;
}

kvref_status ref_codec_floats(
    kvref_codec *c, const float **out, const char *name, int n_dim, int *dim, kvref_error *err)
{
    const kvref_tensor *t;
    KVREF_TRY(need(c, &t, name, err));
    KVREF_TRY(ref_codec_check(c, t, n_dim, dim, err));
    size_t n = t->n_byte / kvref_dtype_size(t->dtype);
    if (t->dtype == KVREF_F32 && (uintptr_t)t->data % sizeof(float) == 0) {
        *out = t->data;
        return KVREF_OK;
    }
    float *copy;
    KVREF_TRY(ref_codec_block(c, &copy, n, err));
    ref_codec_widen(copy, t, n);
    *out = copy;
    return KVREF_OK;
}

kvref_status ref_codec_vector(kvref_codec *c,
                              const float **out,
                              const char *prefix,
                              const char *suffix,
                              int n,
                              kvref_error *err)
{
    char name[160];
    int dim[1] = {n};
    snprintf(name, sizeof name, "%s.%s", prefix, suffix);
    return ref_codec_floats(c, out, name, 1, dim, err);
}

kvref_status
ref_codec_snake(kvref_codec *c, ref_snake *out, const char *prefix, int n, kvref_error *err)
{
    char name[160];
    int dim[3] = {1, n, 1};
    float *inverse;
    snprintf(name, sizeof name, "%s.alpha", prefix);
    KVREF_TRY(ref_codec_floats(c, &out->alpha, name, 3, dim, err));
    KVREF_TRY(ref_codec_block(c, &inverse, (size_t)n, err));
    for (int i = 0; i < n; i++) inverse[i] = 1.0f / (out->alpha[i] + 1e-9f);
    out->inverse = inverse;
    out->width = n;
    return KVREF_OK;
}
