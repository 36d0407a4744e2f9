/* SPDX-License-Identifier: MIT */
/* What a pickle may name and apply (spec 01 section 5.2). A global is one of a dozen known
 * names, or the file is refused where it stands. "Applying" one checks the types of its
 * arguments and relabels them; no code is ever found, imported or run. */
#include "base/pickle.h"

#include <string.h>

enum { CALL_ORDERED_DICT, CALL_TENSOR, CALL_PARAMETER };

static const struct global {
    const char *module, *name;
    kvref_value_kind kind;
    int64_t at;
} known[] = {
    {"collections", "OrderedDict", KVREF_V_CALL, CALL_ORDERED_DICT},
    {"torch._utils", "_rebuild_tensor_v2", KVREF_V_CALL, CALL_TENSOR},
    {"torch._utils", "_rebuild_parameter", KVREF_V_CALL, CALL_PARAMETER},
    {"torch", "FloatStorage", KVREF_V_DTYPE, KVREF_F32},
    {"torch", "HalfStorage", KVREF_V_DTYPE, KVREF_F16},
    {"torch", "BFloat16Storage", KVREF_V_DTYPE, KVREF_BF16},
    {"torch", "DoubleStorage", KVREF_V_DTYPE, KVREF_F64},
    {"torch", "LongStorage", KVREF_V_DTYPE, KVREF_I64},
    {"torch", "IntStorage", KVREF_V_DTYPE, KVREF_I32},
    {"torch", "ShortStorage", KVREF_V_DTYPE, KVREF_I16},
    {"torch", "CharStorage", KVREF_V_DTYPE, KVREF_I8},
    {"torch", "ByteStorage", KVREF_V_DTYPE, KVREF_U8},
    {"torch", "BoolStorage", KVREF_V_DTYPE, KVREF_BOOL},
};

kvref_status kvref_pickle_bad(const kvref_pickle *p, const char *what, kvref_error *err)
{
    return kvref_fail(
        err, KVREF_E_FORMAT, "%s: pickle, before byte %zu: %s", p->path, p->at, what);
}

kvref_status kvref_pickle_global(kvref_pickle *p, kvref_value *out, kvref_error *err)
{
    const char *text[2];
    size_t n[2];
    for (int k = 0; k < 2; k++) {
        text[k] = (const char *)p->data + p->at;
        const char *end = memchr(text[k], '\n', p->n_byte - p->at);
        if (!end) return kvref_pickle_bad(p, "truncated in a global", err);
        n[k] = (size_t)(end - text[k]);
        p->at += n[k] + 1;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (n[0] == strlen(known[i].module) && memcmp(text[0], known[i].module, n[0]) == 0 &&
            n[1] == strlen(known[i].name) && memcmp(text[1], known[i].name, n[1]) == 0) {
            *out = (kvref_value){.kind = (uint8_t)known[i].kind, .at = known[i].at};
            return KVREF_OK;
        }
    return kvref_fail(err,
                      KVREF_E_UNSUPPORTED,
                      "%s: pickle: forbidden global '%.*s %.*s' (nothing was run)",
                      p->path,
                      (int)(n[0] < 100 ? n[0] : 100),
                      text[0],
                      (int)(n[1] < 100 ? n[1] : 100),
                      text[1]);
}

/* Whether values are of these kinds, a letter each. */
static bool is(const kvref_value *v, const char *kinds)
{
    static const char letter[] = "?(NbifscdtlDST";
    for (; *kinds; kinds++, v++)
        if (letter[v->kind] != *kinds) return false;
    return true;
}

kvref_status kvref_pickle_storage(const kvref_pickle *p, kvref_value *v, kvref_error *err)
{
    const kvref_value *part = v->kind == KVREF_V_TUPLE && v->n == 5 ? p->pool + v->at : NULL;
    if (!part || !is(part, "sdssi") || part[0].n != 7 ||
        memcmp(p->data + part[0].at, "storage", 7) != 0)
        return kvref_pickle_bad(
            p, "a persistent id that is no ('storage', class, key, place, size)", err);
    *v = (kvref_value){.kind = KVREF_V_STORAGE, .at = v->at + 1};
    return KVREF_OK;
}

kvref_status kvref_pickle_apply(const kvref_pickle *p,
                                kvref_value *out,
                                kvref_value call,
                                kvref_value args,
                                kvref_error *err)
{
    if (call.kind != KVREF_V_CALL || args.kind != KVREF_V_TUPLE)
        return kvref_pickle_bad(p, "a call of something other than a global with a tuple", err);
    const kvref_value *arg = args.n ? p->pool + args.at : NULL;
    if (call.at == CALL_ORDERED_DICT) {
        if (args.n) return kvref_pickle_bad(p, "OrderedDict with arguments", err);
        *out = (kvref_value){.kind = KVREF_V_DICT};
    } else if (call.at == CALL_TENSOR) {
        if (args.n < 6 || args.n > 7 || !is(arg, "SittbD"))
            return kvref_pickle_bad(
                p,
                "_rebuild_tensor_v2 without (storage, offset, sizes, strides, flag, hooks)",
                err);
        *out = (kvref_value){.kind = KVREF_V_TENSOR, .depth = args.depth, .at = args.at};
    } else {
        if (args.n != 3 || !is(arg, "TbD"))
            return kvref_pickle_bad(p, "_rebuild_parameter without (tensor, flag, hooks)", err);
        *out = arg[0];
    }
    return KVREF_OK;
}
