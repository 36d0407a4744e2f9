/* SPDX-License-Identifier: MIT */
/* Private: turns a pickle into a tree of plain values without calling anything (spec 01
 * section 5.2). */
#ifndef KVREF_BASE_PICKLE_H
#define KVREF_BASE_PICKLE_H

#include "base/base.h"
#include "kvref/file.h"

#define KVREF_PICKLE_MAX_BYTE  (16u << 20) /* of data.pkl */
#define KVREF_PICKLE_MAX_VALUE (1u << 20)  /* on the stack; in the memo; in tuples and dicts */
#define KVREF_PICKLE_MAX_NODE  (1u << 18)  /* lists and dicts */
#define KVREF_PICKLE_MAX_DEPTH 32          /* of containers in containers */

typedef enum kvref_value_kind {
    KVREF_V_UNSET, /* a memo slot never written                                     */
    KVREF_V_MARK,
    KVREF_V_NONE,
    KVREF_V_BOOL,    /* at: 0 or 1                                                  */
    KVREF_V_INT,     /* at: the value                                               */
    KVREF_V_FLOAT,   /* value not kept                                              */
    KVREF_V_TEXT,    /* at: offset in the pickle, n: bytes of UTF-8                 */
    KVREF_V_CALL,    /* a global that may be applied; at: which                     */
    KVREF_V_DTYPE,   /* a storage class; at: kvref_dtype                            */
    KVREF_V_TUPLE,   /* at: first element in the pool, n: elements                  */
    KVREF_V_LIST,    /* at: node; the elements are not kept                         */
    KVREF_V_DICT,    /* at: node                                                    */
    KVREF_V_STORAGE, /* at: in the pool dtype, key text, location text, n_elem      */
    KVREF_V_TENSOR,  /* at: in the pool storage, offset, sizes, strides, ...        */
    KVREF_V_CHUNK    /* pool only: heads n pairs of a dict; at: next chunk or 0     */
} kvref_value_kind;

typedef struct kvref_value {
    uint8_t kind;  /* kvref_value_kind                               */
    uint8_t depth; /* levels of containers in a tuple, itself included */
    uint32_t n;
    int64_t at;
} kvref_value;

typedef struct kvref_node {
    uint32_t first, last; /* chunks in the pool; 0: none                   */
    uint8_t depth;        /* levels of containers, itself included         */
    bool held;            /* sits in another container: must not change    */
} kvref_node;

typedef struct kvref_pickle {
    const char *path;
    const uint8_t *data; /* n_byte bytes, borrowed by every text */
    size_t n_byte, at;
    kvref_value *stack, *memo, *pool;
    size_t n_stack, cap_stack, n_memo, cap_memo, n_pool, cap_pool;
    kvref_node *node;
    size_t n_node, cap_node;
} kvref_pickle;

/* Runs a protocol 2 pickle; *top receives the one value it leaves. Nothing is imported or
 * called: globals outside a list of a dozen names refuse the file where they stand. Time and
 * memory are proportional to n_byte. Errors: FORMAT, UNSUPPORTED, MEMORY. */
kvref_status kvref_pickle_run(kvref_pickle *p,
                              kvref_value *top,
                              const uint8_t *data,
                              size_t n_byte,
                              const char *path,
                              kvref_error *err);

/* Walks the pairs of a dict in the order they were set, later ones overriding: start with
 * {dict node's first chunk, 0}; false at the end. */
typedef struct kvref_pairs {
    uint32_t chunk, i;
} kvref_pairs;
kvref_pairs kvref_pickle_pairs(const kvref_pickle *p, kvref_value dict);
bool kvref_pickle_next(const kvref_pickle *p, kvref_pairs *at, kvref_value pair[2]);

void kvref_pickle_close(kvref_pickle *p);

/* ---- between pickle.c and pickle_call.c ---- */

/* An error at the present place of the pickle. */
kvref_status kvref_pickle_bad(const kvref_pickle *p, const char *what, kvref_error *err);

/* Reads the two names of a global; UNSUPPORTED when it is not a known one. */
kvref_status kvref_pickle_global(kvref_pickle *p, kvref_value *out, kvref_error *err);

/* Turns a persistent id ('storage', class, key, place, elements) into a storage. */
kvref_status kvref_pickle_storage(const kvref_pickle *p, kvref_value *v, kvref_error *err);

/* What call applied to args stands for; a DICT is new and has no node yet. */
kvref_status kvref_pickle_apply(const kvref_pickle *p,
                                kvref_value *out,
                                kvref_value call,
                                kvref_value args,
                                kvref_error *err);

#endif
