/* SPDX-License-Identifier: MIT */
/* Parts of kvref inspect: what the files hold, compared with what the config demands, and what
 * that costs. */
#ifndef KVREF_TOOLS_INSPECT_H
#define KVREF_TOOLS_INSPECT_H

#include "kvref/backend.h"
#include "kvref/codec.h"
#include "kvref/model.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* How many values of one kind float16 would spoil. Values counted once, in this order. */
typedef struct range_count {
    uint64_t n;        /* all values                                      */
    uint64_t nan, inf; /* in the file already                             */
    uint64_t overflow; /* finite, infinite in float16 (from 65520 up)     */
    uint64_t flushed;  /* not zero, zero in float16                       */
    uint64_t inexact;  /* another value in float16                        */
    float largest;     /* magnitude, finite                               */
} range_count;

/* Adds the values of a tensor of n elements, in n_thread 0: all processors. */
typedef struct range_scan range_scan;
kvref_status range_scan_open(range_scan **out, kvref_error *err);
void range_scan_add(range_scan *scan, range_count *count, const kvref_tensor *tensor);
void range_scan_close(range_scan **scan);

enum { MAX_PROBLEM = 20 };

/* The codec beside the model. */
typedef struct codec_inspection {
    const char *file;    /* its name in the folder; NULL: none                */
    bool generator;      /* names carry "generator."                          */
    bool parametrized;   /* weights as parametrizations.weight.original0/1    */
    bool old_pairs;      /* weights as weight_g and weight_v                  */
    bool tabled;         /* its sizes are such that its tensors can be listed */
    int n_need, n_found; /* tensors                                           */
    int n_dead;          /* buffers that upstream saved and nobody reads      */
    int n_surplus;       /* others that are not used                          */
    char surplus[100];   /* the first of them                                 */
    uint64_t n_value;    /* of the tensors found                              */
    uint64_t n_byte, dead_byte;
    uint64_t decode, encode; /* values that each reads once weights are folded */
    range_count range;
    bool opened;
    kvref_codec_info info; /* when opened */
} codec_inspection;

typedef struct inspection {
    const char *dir;
    kvref_config config;
    int capacity;

    int n_need, n_found, n_surplus; /* tensors                                  */
    uint64_t n_value, n_byte;       /* of the needed tensors that were found    */
    int n_dtype[KVREF_BOOL + 1];    /* needed tensors per dtype                 */
    const kvref_tensor **needed;    /* [n_found], owned; the tensors are not    */
    int n_problem;                  /* all; the first MAX_PROBLEM have a text   */
    char problem[MAX_PROBLEM][300];
    char surplus[3][100]; /* the first names                          */

    /* What one decoded frame reads (spec 02 section 8, 03 section 5). */
    struct {
        uint64_t value, byte;
    } slow_layers, head, fast_layers, fast_head, other;
    int n_candidate, n_pass;

    uint64_t kv_values; /* slow cache values per position */
    uint64_t fast_kv_values;
    uint64_t reserved; /* address space of the reference decoder at this capacity */

    bool scanned;
    range_count range;
    char worst[100]; /* the tensor with most values lost in float16 */

    bool tokenizer;
    int n_token, n_semantic, semantic_begin, semantic_end, im_end;

    codec_inspection codec;
} inspection;

/* Compares file and config, fills tensors, costs and problems. */
kvref_status inspect_tensors(inspection *in, const kvref_file *file, kvref_error *err);

/* Counts the values of tensors [n] while their file is open; NaN and infinity are a problem of
 * `what`. worst [100], if not NULL, gets the name of the tensor that float16 spoils most. */
kvref_status inspect_range(inspection *in,
                           const char *what,
                           range_count *count,
                           char *worst,
                           const kvref_tensor *const *tensor,
                           int n,
                           kvref_error *err);

/* The codec of the folder, if there is one. scan: read its weights and open it. */
kvref_status inspect_codec(inspection *in, bool scan, kvref_error *err);

void inspect_codec_print(const inspection *in);
json_t *inspect_codec_json(const inspection *in);

/* Notes one more disagreement. */
void inspect_problem(inspection *in, const char *text);

void inspect_print(const inspection *in);
void inspect_print_json(const inspection *in);

#endif
