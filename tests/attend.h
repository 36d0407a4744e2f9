/* SPDX-License-Identifier: MIT */
/* Attention on the CPU execution layer: inputs, the launches, and the formulas of gpu/gpu.h
 * once more, written plainly on the host, for comparison bit for bit. */
#ifndef KVREF_TESTS_ATTEND_H
#define KVREF_TESTS_ATTEND_H

#include "gpu/cudacpu/control.h"
#include "gpu/gpu.h"

#include <stdint.h>
#include <vector>

namespace attend
{

using namespace kvref_cudacpu;

typedef std::vector<gpu_half> halves;

/* noise; scores about +-100; all values equal; one key that outweighs all; e^x of hardly any
 * difference, so that each order of summation shows. */
enum input { NOISE, LARGE, EQUAL, DOMINANT, FLAT, N_INPUT };

struct shape {
    int n_head, n_kv_head, d_head;
    int capacity, n_past, n_row;
};

/* L = 2 layers of which the second is used; k, v [2, G, C, pad(E)], q [T, pad(H*E)]. */
struct scene {
    shape s;
    halves q, k, v;
};

scene make_scene(const shape &s, input kind, uint64_t seed);

/* Index of element e of row r, group g, of the layer in use. */
size_t place(const shape &s, int g, int r, int e);

/* The same scene at another capacity; rows beyond the old one are as the last. */
scene at_capacity(const scene &from, int capacity);

/* Puts bits into all rows from kv_len of the last query row on; random for bits < 0. */
void fill_tail(scene *w, int bits);

enum form { PREFIX, FULL, BOOKS, BOOKS_FULL };

/* out [T, pad(H*E)], places that are not written hold UNWRITTEN. forbid: the rows that no query
 * row may see are made unreadable. */
enum { UNWRITTEN = 0x5a5a };
halves run(const scene &w, form f, bool forbid);

/* By the formulas. */
halves expected(const scene &w, form f);

/* Float64 [T, H*E], and the sum of weight |v| / sum of weight. */
std::vector<double> exact(const scene &w, std::vector<double> *magnitude);

/* Places of out that differ; NaN equals NaN. */
int differ(const halves &a, const halves &b);

} /* namespace attend */
#endif
