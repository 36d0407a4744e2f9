/* SPDX-License-Identifier: MIT */
/* Everything that a run reports, kept by name and layer in double, and two runs compared. The
 * rows of a name lie one after the other, so it does not matter how calls were cut. */
#ifndef KVREF_TESTS_TAPE_H
#define KVREF_TESTS_TAPE_H

#include "tests/ref64.h"

typedef struct tape_track {
    const char *name;
    int layer, width;
    size_t n; /* values */
    double *x;
} tape_track;

typedef struct tape {
    tape_track *track;
    int n_track;
} tape;

/* Taps that fill a tape: of a backend (kvref_decoder_opts.tap) and of ref64 (ref64_opts.fn). */
kvref_tap tape_tap(tape *t, kvref_tap_level level);
void tape_listen(void *user, const ref64_data *data);
void tape_clear(tape *t);

/* Feeds frames [n, 1+N] in pieces (sizes ended by 0; the last one repeats) and walks all books
 * after each slow call, with codes that depend on the position alone. */
void tape_play(const kvref_backend *b,
               kvref_decoder *d,
               const kvref_config *config,
               const int32_t *frames,
               int n,
               const int *piece);
void tape_play64(
    ref64 *r, const kvref_config *config, const int32_t *frames, int n, const int *piece);

/* max: largest error as a share of the largest magnitude in ref; rms: the same of root mean
 * squares. NaN anywhere gives NaN. */
typedef struct tape_error {
    double max, rms;
} tape_error;
tape_error tape_compare(const tape_track *x, const tape_track *ref);

/* Tracks of both tapes must be the same ones, in size too. Prints one line a track, error and
 * used share of its limit, and returns the largest share (NaN if any is). */
typedef tape_error tape_limit(const tape_track *ref, const void *arg);
double tape_judge(
    const char *what, const tape *x, const tape *ref, tape_limit *limit, const void *arg);

/* Rounding errors of unit u that add up like a random walk: 4 u sqrt(1 + layers passed) in root
 * mean square, and four times that for the worst of thousands of values. For a decoder that
 * rounds as its type does: u = 2^-24 for float32, 2^-11 for float16. */
typedef struct tape_walk_of {
    double u;
    const kvref_config *config;
} tape_walk_of;
tape_limit tape_walk; /* arg: const tape_walk_of * */

/* Rule T2: twice the error of the plain float16 emulation, and a rounding of the result. */
typedef struct tape_twice_of {
    const tape *plain;
} tape_twice_of;
tape_limit tape_twice; /* arg: const tape_twice_of * */

/* How many values of x and y differ in their bits, all tracks. */
size_t tape_differ(const tape *x, const tape *y);

#endif
