/* SPDX-License-Identifier: MIT */
/* Draws on the CPU execution layer and on the host: inputs by class, the loop's rule for main
 * tokens, and what a launch left on the device. */
#ifndef KVREF_TESTS_DRAWS_H
#define KVREF_TESTS_DRAWS_H

#include "gpu/gpu.h"
#include "kvref/sample.h"

#include <vector>

namespace draws
{

using namespace kvref_cudacpu;

enum { MAX_N = 20000, BEGIN = 1000 /* first semantic token */, N_BOOK = 3 };

/* What a draw is made from. */
struct trial {
    std::vector<gpu_half> logits;
    std::vector<float> u, again;
    gpu_frame_args args;
    gpu_frame_state state;
    int end; /* place of the end token, or -1 */
};

enum logit_class { NORMAL, TIES, EQUAL, ZEROS, HOLES, EXTREME, PEAK, TINY, FALLING, N_CLASS };

/* A random number below n, the same sequence in each process. */
int below(int n);

/* n logits of a class, one of them finite at least, with random settings and numbers. */
trial make_trial(int n, int kind);

/* Numbers that make all candidates arrive nearly together, so that the last bits of p decide.
 */
void make_close(std::vector<float> *u, const std::vector<float> &p);

/* Index drawn by base/sample.c, or -1 when it refuses the logits. p receives probabilities. */
int host_choose(std::vector<float> *p,
                const std::vector<float> &logits,
                const kvref_sampling &s,
                const std::vector<float> &u);

/* float32, without the end token if it cannot be drawn. */
std::vector<float> host_logits(const trial &t);

/* frame [2] and the state as the loop of base/generate.c leaves them; false: refused. */
bool host_main(const trial &t, int32_t *frame, gpu_frame_state *state);

/* Device memory for draws. */
struct machine {
    gpu_half *logits;
    float *u, *again, *p;
    gpu_frame_args *args;
    gpu_frame_state *state;
    int32_t *forced, *order, *candidate, *frame;

    machine();
    ~machine();
};

extern const int32_t unwritten[1 + N_BOOK], forced_frame[1 + N_BOOK];

/* book 0: the main token. frame [1+N] and state as left. */
void device_draw(
    const machine &m, const trial &t, int book, int32_t *frame, gpu_frame_state *state);

/* The settings of a trial. */
inline kvref_sampling settings(const trial &t)
{
    return {t.args.temperature, t.args.top_p, t.args.top_k};
}

} /* namespace draws */
#endif
