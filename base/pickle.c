/* SPDX-License-Identifier: MIT */
/* A machine for the few pickle opcodes that a state dict needs (spec 01 section 5.2).
 *
 * It never imports, calls or evaluates (see pickle_call.c). Values are 16 bytes; texts point
 * into the pickle; the elements of tuples and the pairs of dicts lie in one pool. A container
 * that already sits in another one may not change any more, which rules out every cycle and
 * makes depths final, so that nothing here or later needs recursion. */
#include "base/pickle.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* The next n bytes, or NULL at the end of the data. */
static const uint8_t *take(kvref_pickle *p, size_t n)
{
    if (n > p->n_byte - p->at) return NULL;
    p->at += n;
    return p->data + p->at - n;
}

/* An unsigned little-endian operand. */
static kvref_status operand(kvref_pickle *p, int n, uint64_t *out, kvref_error *err)
{
    *out = 0;
    const uint8_t *b = take(p, (size_t)n);
    if (!b) return kvref_pickle_bad(p, "truncated in an operand", err);
    for (int k = 0; k < n; k++) *out |= (uint64_t)b[k] << 8 * k;
    return KVREF_OK;
}

/* ---- stack, pool, nodes ---- */

/* Whether n more values may be kept, wherever. */
static kvref_status room(const kvref_pickle *p, size_t n, kvref_error *err)
{
    if (n > 2 * KVREF_PICKLE_MAX_VALUE - (p->n_stack + p->n_memo + p->n_pool))
        return kvref_pickle_bad(p, "over 2^21 values in all", err);
    return KVREF_OK;
}

static kvref_status push(kvref_pickle *p, kvref_value v, kvref_error *err)
{
    if (p->n_stack == KVREF_PICKLE_MAX_VALUE)
        return kvref_pickle_bad(p, "stack of over 2^20 values", err);
    KVREF_TRY(room(p, 1, err));
    KVREF_TRY(
        kvref_grow((void **)&p->stack, &p->cap_stack, p->n_stack + 1, sizeof *p->stack, err));
    p->stack[p->n_stack++] = v;
    return KVREF_OK;
}

static kvref_status
push_int(kvref_pickle *p, kvref_value_kind kind, int64_t at, kvref_error *err)
{
    return push(p, (kvref_value){.kind = (uint8_t)kind, .at = at}, err);
}

/* Requires n values on top of the stack, with no mark among them. */
static kvref_status need(const kvref_pickle *p, size_t n, kvref_error *err)
{
    if (p->n_stack < n) return kvref_pickle_bad(p, "stack underflow", err);
    for (size_t k = 1; k <= n; k++)
        if (p->stack[p->n_stack - k].kind == KVREF_V_MARK)
            return kvref_pickle_bad(p, "a mark where a value is needed", err);
    return KVREF_OK;
}

/* Number of values above the last mark. */
static kvref_status above_mark(const kvref_pickle *p, size_t *n, kvref_error *err)
{
    for (*n = 0; *n < p->n_stack; ++*n)
        if (p->stack[p->n_stack - 1 - *n].kind == KVREF_V_MARK) return KVREF_OK;
    return kvref_pickle_bad(p, "no mark on the stack", err);
}

/* Room for n more values in the pool; *at receives the first. */
static kvref_status pool_take(kvref_pickle *p, size_t n, uint32_t *at, kvref_error *err)
{
    if (n > KVREF_PICKLE_MAX_VALUE - p->n_pool)
        return kvref_pickle_bad(p, "over 2^20 values in tuples and dicts", err);
    KVREF_TRY(room(p, n, err));
    KVREF_TRY(kvref_grow((void **)&p->pool, &p->cap_pool, p->n_pool + n, sizeof *p->pool, err));
    *at = (uint32_t)p->n_pool;
    p->n_pool += n;
    return KVREF_OK;
}

static kvref_status push_node(kvref_pickle *p, kvref_value_kind kind, kvref_error *err)
{
    if (p->n_node == KVREF_PICKLE_MAX_NODE)
        return kvref_pickle_bad(p, "over 2^18 lists and dicts", err);
    KVREF_TRY(kvref_grow((void **)&p->node, &p->cap_node, p->n_node + 1, sizeof *p->node, err));
    p->node[p->n_node] = (kvref_node){.depth = 1};
    return push_int(p, kind, (int64_t)p->n_node++, err);
}

static bool has_node(kvref_value v)
{
    return v.kind == KVREF_V_LIST || v.kind == KVREF_V_DICT;
}

/* Marks n values as held by a container; *depth becomes that of the container. */
static kvref_status
hold(kvref_pickle *p, const kvref_value *v, size_t n, uint8_t *depth, kvref_error *err)
{
    for (size_t k = 0; k < n; k++) {
        unsigned below = v[k].depth;
        if (has_node(v[k])) {
            p->node[v[k].at].held = true;
            below = p->node[v[k].at].depth;
        }
        if (below >= KVREF_PICKLE_MAX_DEPTH)
            return kvref_pickle_bad(p, "nesting deeper than 32", err);
        if (below + 1 > *depth) *depth = (uint8_t)(below + 1);
    }
    return KVREF_OK;
}

/* ---- opcodes ---- */

static kvref_status op_global(kvref_pickle *p, kvref_error *err)
{
    kvref_value v;
    KVREF_TRY(kvref_pickle_global(p, &v, err));
    return push(p, v, err);
}

static kvref_status op_text(kvref_pickle *p, kvref_error *err)
{
    uint64_t n;
    KVREF_TRY(operand(p, 4, &n, err));
    const uint8_t *text = take(p, (size_t)n);
    if (!text) return kvref_pickle_bad(p, "truncated in a text", err);
    for (utf8proc_ssize_t left = (utf8proc_ssize_t)n; left > 0;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t used = utf8proc_iterate(text, left, &c);
        if (used <= 0) return kvref_pickle_bad(p, "a text is not UTF-8", err);
        text += used, left -= used;
    }
    kvref_value v = {.kind = KVREF_V_TEXT, .n = (uint32_t)n, .at = (int64_t)(p->at - n)};
    return push(p, v, err);
}

static kvref_status op_long1(kvref_pickle *p, kvref_error *err)
{
    uint64_t n, value;
    KVREF_TRY(operand(p, 1, &n, err));
    if (n > 8) return kvref_pickle_bad(p, "an integer of over 8 bytes", err);
    KVREF_TRY(operand(p, (int)n, &value, err));
    if (n > 0 && n < 8 && value >> (8 * n - 1)) value |= UINT64_MAX << 8 * n;
    return push_int(p, KVREF_V_INT, (int64_t)value, err);
}

static kvref_status op_put(kvref_pickle *p, int width, kvref_error *err)
{
    uint64_t i;
    KVREF_TRY(operand(p, width, &i, err));
    KVREF_TRY(need(p, 1, err));
    if (i >= KVREF_PICKLE_MAX_VALUE || i >= p->n_byte)
        return kvref_pickle_bad(
            p, "a memo number of over 2^20, or over the pickle's size", err);
    if (i >= p->n_memo) KVREF_TRY(room(p, (size_t)i + 1 - p->n_memo, err));
    KVREF_TRY(kvref_grow((void **)&p->memo, &p->cap_memo, (size_t)i + 1, sizeof *p->memo, err));
    while (p->n_memo <= i) p->memo[p->n_memo++] = (kvref_value){0};
    p->memo[i] = p->stack[p->n_stack - 1];
    return KVREF_OK;
}

static kvref_status op_get(kvref_pickle *p, int width, kvref_error *err)
{
    uint64_t i;
    KVREF_TRY(operand(p, width, &i, err));
    if (i >= p->n_memo || p->memo[i].kind == KVREF_V_UNSET)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: pickle, before byte %zu: memo %llu was never set",
                          p->path,
                          p->at,
                          (unsigned long long)i);
    return push(p, p->memo[i], err);
}

/* The top n values become a tuple; `extra` 1 removes the mark below them as well. */
static kvref_status make_tuple(kvref_pickle *p, size_t n, size_t extra, kvref_error *err)
{
    KVREF_TRY(need(p, n, err));
    kvref_value v = {.kind = KVREF_V_TUPLE, .depth = 1, .n = (uint32_t)n};
    const kvref_value *item = p->stack + (p->n_stack - n);
    KVREF_TRY(hold(p, item, n, &v.depth, err));
    uint32_t at = 0;
    KVREF_TRY(pool_take(p, n, &at, err));
    if (n) memcpy(p->pool + at, item, n * sizeof *item);
    v.at = at;
    p->n_stack -= n + extra;
    return push(p, v, err);
}

/* The top n values go into the container of this kind below them (and below a mark, if extra
 * is 1). A dict gets a chunk of pairs; of a list only the depth is kept. */
static kvref_status
insert(kvref_pickle *p, kvref_value_kind kind, size_t n, size_t extra, kvref_error *err)
{
    if (p->n_stack < n + extra + 1) return kvref_pickle_bad(p, "stack underflow", err);
    KVREF_TRY(need(p, n, err));
    const kvref_value *item = p->stack + (p->n_stack - n);
    kvref_value into = *(item - extra - 1);
    if (into.kind != kind)
        return kvref_pickle_bad(
            p, kind == KVREF_V_DICT ? "set in no dict" : "append to no list", err);
    kvref_node *node = &p->node[into.at];
    for (size_t k = 0; k < n; k++)
        if (item[k].kind == kind && item[k].at == into.at)
            return kvref_pickle_bad(p, "a container put into itself", err);
    if (node->held)
        return kvref_pickle_bad(
            p, "a container changed after it was put into another (a cycle?)", err);
    KVREF_TRY(hold(p, item, n, &node->depth, err));
    if (kind == KVREF_V_DICT && n) {
        if (n % 2) return kvref_pickle_bad(p, "a key without a value", err);
        uint32_t at = 0;
        KVREF_TRY(pool_take(p, n + 1, &at, err));
        p->pool[at] = (kvref_value){.kind = KVREF_V_CHUNK, .n = (uint32_t)(n / 2)};
        memcpy(p->pool + at + 1, item, n * sizeof *item);
        if (node->last)
            p->pool[node->last].at = at;
        else
            node->first = at;
        node->last = at;
    }
    p->n_stack -= n + extra;
    return KVREF_OK;
}

static kvref_status op_persid(kvref_pickle *p, kvref_error *err)
{
    KVREF_TRY(need(p, 1, err));
    return kvref_pickle_storage(p, &p->stack[p->n_stack - 1], err);
}

static kvref_status op_reduce(kvref_pickle *p, kvref_error *err)
{
    KVREF_TRY(need(p, 2, err));
    kvref_value v;
    KVREF_TRY(
        kvref_pickle_apply(p, &v, p->stack[p->n_stack - 2], p->stack[p->n_stack - 1], err));
    p->n_stack -= 2;
    return v.kind == KVREF_V_DICT ? push_node(p, KVREF_V_DICT, err) : push(p, v, err);
}

static kvref_status op_build(kvref_pickle *p, kvref_error *err)
{
    KVREF_TRY(need(p, 2, err));
    if (p->stack[p->n_stack - 2].kind != KVREF_V_DICT)
        return kvref_pickle_bad(p, "a state given to something other than a dict", err);
    p->n_stack--;
    return KVREF_OK;
}

/* Opcodes that take all above the last mark. */
static kvref_status op_marked(kvref_pickle *p, uint8_t op, kvref_error *err)
{
    size_t n;
    KVREF_TRY(above_mark(p, &n, err));
    if (op == 't') return make_tuple(p, n, 1, err);
    return insert(p, op == 'u' ? KVREF_V_DICT : KVREF_V_LIST, n, 1, err);
}

static kvref_status op_number(kvref_pickle *p, uint8_t op, kvref_error *err)
{
    uint64_t value;
    KVREF_TRY(operand(p, op == 'K' ? 1 : op == 'M' ? 2 : op == 'J' ? 4 : 8, &value, err));
    if (op == 'G') return push_int(p, KVREF_V_FLOAT, 0, err);
    return push_int(p, KVREF_V_INT, op == 'J' ? (int32_t)(uint32_t)value : (int64_t)value, err);
}

static kvref_status step(kvref_pickle *p, uint8_t op, kvref_error *err)
{
    switch (op) {
    case 'c':
        return op_global(p, err);
    case 'q':
        return op_put(p, 1, err);
    case 'r':
        return op_put(p, 4, err);
    case 'h':
        return op_get(p, 1, err);
    case 'j':
        return op_get(p, 4, err);
    case '(':
        return push_int(p, KVREF_V_MARK, 0, err);
    case ')':
        return make_tuple(p, 0, 0, err);
    case 0x85:
    case 0x86:
    case 0x87:
        return make_tuple(p, op - 0x84u, 0, err);
    case 't':
    case 'u':
    case 'e':
        return op_marked(p, op, err);
    case 's':
        return insert(p, KVREF_V_DICT, 2, 0, err);
    case 'a':
        return insert(p, KVREF_V_LIST, 1, 0, err);
    case 'R':
        return op_reduce(p, err);
    case 'X':
        return op_text(p, err);
    case 'K':
    case 'M':
    case 'J':
    case 'G':
        return op_number(p, op, err);
    case 0x8a:
        return op_long1(p, err);
    case 'Q':
        return op_persid(p, err);
    case 0x88:
        return push_int(p, KVREF_V_BOOL, 1, err);
    case 0x89:
        return push_int(p, KVREF_V_BOOL, 0, err);
    case 'N':
        return push_int(p, KVREF_V_NONE, 0, err);
    case '}':
        return push_node(p, KVREF_V_DICT, err);
    case ']':
        return push_node(p, KVREF_V_LIST, err);
    case 'b':
        return op_build(p, err);
    }
    return kvref_fail(err,
                      KVREF_E_UNSUPPORTED,
                      "%s: pickle, byte %zu: opcode 0x%02x is not supported",
                      p->path,
                      p->at - 1,
                      op);
}

kvref_status kvref_pickle_run(kvref_pickle *p,
                              kvref_value *top,
                              const uint8_t *data,
                              size_t n_byte,
                              const char *path,
                              kvref_error *err)
{
    *p = (kvref_pickle){.path = path, .data = data, .n_byte = n_byte};
    if (n_byte > KVREF_PICKLE_MAX_BYTE)
        return kvref_fail(err,
                          KVREF_E_UNSUPPORTED,
                          "%s: pickle: expected at most %u bytes, found %zu",
                          path,
                          KVREF_PICKLE_MAX_BYTE,
                          n_byte);
    uint32_t first = 0;
    KVREF_TRY(pool_take(p, 1, &first, err)); /* so that chunk 0 means none */
    KVREF_TRY(kvref_grow((void **)&p->stack, &p->cap_stack, 1, sizeof *p->stack, err));
    p->pool[first] = (kvref_value){0};
    const uint8_t *op = take(p, 2);
    if (!op || op[0] != 0x80 || op[1] != 2)
        return kvref_fail(
            err, KVREF_E_UNSUPPORTED, "%s: pickle: does not start as protocol 2", path);
    for (;;) {
        if (!(op = take(p, 1))) return kvref_pickle_bad(p, "truncated, no STOP", err);
        if (*op == '.') break;
        KVREF_TRY(step(p, *op, err));
    }
    KVREF_TRY(need(p, 1, err));
    if (p->n_stack != 1)
        return kvref_pickle_bad(p, "STOP with more than one value on the stack", err);
    if (p->at != n_byte) return kvref_pickle_bad(p, "bytes after STOP", err);
    *top = p->stack[0];
    return KVREF_OK;
}

kvref_pairs kvref_pickle_pairs(const kvref_pickle *p, kvref_value dict)
{
    return (kvref_pairs){p->node[dict.at].first, 0};
}

bool kvref_pickle_next(const kvref_pickle *p, kvref_pairs *at, kvref_value pair[2])
{
    if (at->chunk == 0) return false;
    const kvref_value *chunk = p->pool + at->chunk;
    memcpy(pair, chunk + 1 + 2 * at->i, 2 * sizeof *pair);
    if (++at->i == chunk->n) *at = (kvref_pairs){(uint32_t)chunk->at, 0};
    return true;
}

void kvref_pickle_close(kvref_pickle *p)
{
    free(p->stack);
    free(p->memo);
    free(p->pool);
    free(p->node);
    *p = (kvref_pickle){0};
}
