/* SPDX-License-Identifier: MIT */
/* The .npy format, read strictly.
 *
 * Layout: "\x93NUMPY", version major.minor, header length (u16 in 1.0, u32 in 2.0 and 3.0,
 * little endian), a Python dict literal with exactly the keys descr, fortran_order and shape,
 * spaces, a newline, then product(shape) elements and nothing else. The literal is parsed,
 * never evaluated; no memory is taken before the file is known to hold all its elements. */
#include "base/npy.h"

#include <string.h>

#define MAX_HEADER 65536

/* A cursor over the header's dict literal. */
typedef struct text {
    const char *name, *p, *end;
} text;

static kvref_status expected(const text *t, const char *what, kvref_error *err)
{
    if (t->p == t->end)
        return kvref_fail(
            err, KVREF_E_FORMAT, "%s: npy header: expected %s, found its end", t->name, what);
    return kvref_fail(
        err, KVREF_E_FORMAT, "%s: npy header: expected %s, found '%c'", t->name, what, *t->p);
}

static void skip_spaces(text *t)
{
    while (t->p < t->end && *t->p == ' ') t->p++;
}

/* Takes c, after spaces, if it comes next. */
static bool take(text *t, char c)
{
    skip_spaces(t);
    if (t->p == t->end || *t->p != c) return false;
    t->p++;
    return true;
}

/* A quoted string without escapes into out. */
static kvref_status take_string(text *t, char *out, size_t cap, kvref_error *err)
{
    skip_spaces(t);
    char quote = 0;
    if (t->p < t->end) quote = *t->p;
    if (quote != '\'' && quote != '"') return expected(t, "a quoted string", err);
    const char *from = ++t->p;
    while (t->p < t->end && *t->p != quote && *t->p != '\\') t->p++;
    if (t->p == t->end || *t->p != quote) return expected(t, "a closing quote", err);
    size_t n = (size_t)(t->p++ - from);
    if (n >= cap)
        return kvref_fail(
            err, KVREF_E_FORMAT, "%s: npy header: a string of %zu bytes", t->name, n);
    memcpy(out, from, n);
    out[n] = 0;
    return KVREF_OK;
}

static kvref_status take_bool(text *t, bool *out, kvref_error *err)
{
    skip_spaces(t);
    size_t left = (size_t)(t->end - t->p);
    *out = left >= 4 && memcmp(t->p, "True", 4) == 0;
    if (!*out && (left < 5 || memcmp(t->p, "False", 5) != 0))
        return expected(t, "True or False", err);
    t->p += *out ? 4 : 5;
    return KVREF_OK;
}

static kvref_status take_extent(text *t, int64_t *out, kvref_error *err)
{
    skip_spaces(t);
    if (t->p < t->end && *t->p == '-')
        return kvref_fail(err, KVREF_E_FORMAT, "%s: npy shape: a negative extent", t->name);
    const char *from = t->p;
    int64_t value = 0;
    for (; t->p < t->end && *t->p >= '0' && *t->p <= '9'; t->p++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *t->p - '0', &value))
            return kvref_fail(
                err, KVREF_E_FORMAT, "%s: npy shape: an extent of over 63 bits", t->name);
    if (t->p == from) return expected(t, "an extent", err);
    *out = value;
    return KVREF_OK;
}

/* A tuple: (), (n,), (n, n), with or without a last comma. */
static kvref_status take_shape(text *t, kvref_npy *a, kvref_error *err)
{
    if (!take(t, '(')) return expected(t, "'('", err);
    a->n_dim = 0;
    while (!take(t, ')')) {
        if (a->n_dim == KVREF_NPY_MAX_DIM)
            return kvref_fail(err,
                              KVREF_E_UNSUPPORTED,
                              "%s: npy shape: expected at most %d axes, found more",
                              t->name,
                              KVREF_NPY_MAX_DIM);
        KVREF_TRY(take_extent(t, &a->dim[a->n_dim++], err));
        if (take(t, ',')) continue;
        if (a->n_dim == 1) return expected(t, "',' after a single extent", err);
        if (!take(t, ')')) return expected(t, "',' or ')'", err);
        break;
    }
    return KVREF_OK;
}

static kvref_status take_item(text *t, kvref_npy *a, unsigned *seen, kvref_error *err)
{
    static const char *const key_of[] = {"descr", "fortran_order", "shape"};
    char key[16];
    KVREF_TRY(take_string(t, key, sizeof key, err));
    unsigned k = 0;
    while (k < 3 && strcmp(key, key_of[k]) != 0) k++;
    if (k == 3)
        return kvref_fail(
            err, KVREF_E_FORMAT, "%s: npy header: unknown key '%s'", t->name, key);
    if (*seen & 1u << k)
        return kvref_fail(err, KVREF_E_FORMAT, "%s: npy header: key '%s' twice", t->name, key);
    *seen |= 1u << k;
    if (!take(t, ':')) return expected(t, "':'", err);
    if (k == 0) return take_string(t, a->descr, sizeof a->descr, err);
    if (k == 1) return take_bool(t, &a->fortran, err);
    return take_shape(t, a, err);
}

static kvref_status take_header(text *t, kvref_npy *a, kvref_error *err)
{
    unsigned seen = 0;
    if (!take(t, '{')) return expected(t, "'{'", err);
    while (!take(t, '}')) {
        KVREF_TRY(take_item(t, a, &seen, err));
        if (take(t, ',')) continue;
        if (!take(t, '}')) return expected(t, "',' or '}'", err);
        break;
    }
    if (seen != 7)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: npy header: key '%s' is missing",
                          t->name,
                          !(seen & 1)   ? "descr"
                          : !(seen & 2) ? "fortran_order"
                                        : "shape");
    skip_spaces(t);
    if (t->p + 1 != t->end || *t->p != '\n')
        return expected(t, "spaces and one newline after the dict", err);
    return KVREF_OK;
}

/* "<i8": byte order, kind, bytes. */
static kvref_status read_descr(kvref_npy *a, kvref_error *err)
{
    const char *d = a->descr;
    bool known = (d[0] == '<' || d[0] == '>' || d[0] == '|') && d[1] && d[2] && !d[3] &&
                 (d[2] == '1' || d[2] == '2' || d[2] == '4' || d[2] == '8');
    if (known && d[0] == '|') known = d[2] == '1';
    if (!known)
        return kvref_fail(
            err, KVREF_E_UNSUPPORTED, "%s: npy dtype '%s' is not supported", a->name, d);
    a->kind = d[1];
    a->size = d[2] - '0';
    a->big = d[0] == '>';
    return KVREF_OK;
}

/* Element count and strides; requires exactly that many elements in n_byte bytes. */
static kvref_status measure(kvref_npy *a, size_t n_byte, kvref_error *err)
{
    size_t n = 1, total;
    for (int i = 0; i < a->n_dim; i++) {
        int axis = a->fortran ? i : a->n_dim - 1 - i;
        a->stride[axis] = n;
        if (!kvref_mul_size(n, (size_t)a->dim[axis], &n))
            return kvref_fail(err, KVREF_E_FORMAT, "%s: npy shape: too large", a->name);
    }
    if (!kvref_mul_size(n, (size_t)a->size, &total))
        return kvref_fail(err, KVREF_E_FORMAT, "%s: npy shape: too large", a->name);
    if (n_byte != total)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: npy data %s: expected %zu bytes, found %zu",
                          a->name,
                          n_byte < total ? "truncated" : "has trailing bytes",
                          total,
                          n_byte);
    a->n_elem = n;
    return KVREF_OK;
}

kvref_status kvref_npy_parse(
    kvref_npy *a, const uint8_t *data, size_t n_byte, const char *name, kvref_error *err)
{
    *a = (kvref_npy){.name = name};
    if (n_byte < 10 || memcmp(data, "\x93NUMPY", 6) != 0)
        return kvref_fail(err, KVREF_E_FORMAT, "%s: not a .npy file", name);
    if (data[6] < 1 || data[6] > 3 || data[7] != 0)
        return kvref_fail(err,
                          KVREF_E_UNSUPPORTED,
                          "%s: npy version: expected 1.0, 2.0 or 3.0, found %d.%d",
                          name,
                          data[6],
                          data[7]);
    size_t n_head = data[8] | (size_t)data[9] << 8, at = 10;
    if (data[6] > 1 && n_byte >= 12) {
        n_head |= (size_t)data[10] << 16 | (size_t)data[11] << 24;
        at = 12;
    }
    if (n_head > MAX_HEADER || n_head > n_byte - at || (data[6] > 1 && at != 12))
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: npy header: length %zu in a file of %zu bytes",
                          name,
                          n_head,
                          n_byte);
    text t = {name, (const char *)data + at, (const char *)data + at + n_head};
    KVREF_TRY(take_header(&t, a, err));
    KVREF_TRY(read_descr(a, err));
    a->data = data + at + n_head;
    return measure(a, n_byte - at - n_head, err);
}

/* The bits of element i of the stored order, little end first, not sign-extended. */
uint64_t kvref_npy_bits(const kvref_npy *a, size_t i)
{
    const uint8_t *p = a->data + i * (size_t)a->size;
    uint64_t value = 0;
    for (int k = 0; k < a->size; k++)
        value |= (uint64_t)p[k] << 8 * (a->big ? a->size - 1 - k : k);
    return value;
}
