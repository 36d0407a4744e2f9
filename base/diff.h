/* SPDX-License-Identifier: MIT */
/* Two traces compared: which tensors both have, where they first part in the order in which
 * numbers are computed, how much of their limits they use, and which decision turned. Knows
 * files, names and limits; runs no part of a model. A is the reference: limits are shares of
 * its magnitudes.
 *
 * Order: the prompt; then for every frame the slow call (layer by layer, tap by tap, row by
 * row), the choice of the main token, and for every codebook position the fast call and the
 * choice of its code.
 *
 * A value can be judged while all inputs of its step are the same in both, which is what forced
 * frames are for. After the first column of `frames` that differs, nothing is judged. */
#ifndef KVREF_BASE_DIFF_H
#define KVREF_BASE_DIFF_H

#include "kvref/file.h"
#include "kvref/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where in a run; places compare in order of the fields but the row, as rows of one tensor do
 * not need it. */
typedef struct kvref_place {
    int64_t frame; /* that the call makes; -1: before the run      */
    int64_t book;  /* fast: codebook position; -1: slow side       */
    int layer;     /* -1: before the first; KVREF_AFTER: after all */
    int rank;      /* of the tap inside a layer                    */
    int64_t row;   /* slow: position, or frame                     */
} kvref_place;
enum { KVREF_AFTER = 100000000 };

/* What leads an axis, and so what a row number means. */
typedef enum kvref_axis {
    KVREF_AXIS_PLAIN,    /* rows without a place in time: prompt, candidates, codec, unknown */
    KVREF_AXIS_CALL,     /* one row for each slow call, that is for each frame               */
    KVREF_AXIS_POSITION, /* slow.embed, slow.Lnn.*                                           */
    KVREF_AXIS_BOOK,     /* fast.*: [frame, codebook position, ...]                          */
    KVREF_AXIS_CHOICE    /* frames                                                           */
} kvref_axis;

/* What a tensor's name says. */
typedef struct kvref_tap_name {
    char tap[64]; /* without the layer */
    kvref_axis axis;
    int layer, rank; /* as in kvref_place */
} kvref_tap_name;
kvref_tap_name kvref_tap_parse(const char *tensor);

/* One value on both sides. */
typedef struct kvref_spot {
    kvref_place place;
    int64_t at[KVREF_MAX_DIM]; /* index on every axis, in A's own numbers of rows */
    double a, b;
} kvref_spot;

typedef enum kvref_tap_state {
    KVREF_TAP_JUDGED,
    KVREF_TAP_SHOWN,  /* by rule not judged; whether it differs is known */
    KVREF_TAP_BEYOND, /* every row lies after the first other code       */
    KVREF_TAP_EMPTY,  /* no value on one side, or no row in common       */
    KVREF_TAP_UNLIKE  /* other axes or kind of number                    */
} kvref_tap_state;

typedef struct kvref_tap_diff {
    const kvref_tensor *a, *b;
    kvref_tap_name id;
    kvref_tap_state state;
    kvref_tap_limit rule;
    double limit;       /* what |a - b| may be: rel times the largest |a|, + abs   */
    size_t n;           /* values compared                                         */
    size_t n_bad;       /* of these out of limit                                   */
    size_t n_nonfinite; /* NaN or infinite on one side at least                    */
    double max_err, max_mag;
    double used;                 /* max_err / limit; infinite when nothing was allowed      */
    bool constant_a, constant_b; /* all values compared are alike, and more than one */
    kvref_spot first, worst;     /* first.place is valid when n_bad > 0             */
} kvref_tap_diff;

/* A choice that turned, or that would turn under greedy choice. */
typedef struct kvref_choice {
    int64_t frame;
    int book;               /* 0: main token, else the code of that book      */
    int column;             /* of frames: 0 the main token, 1 + book a code   */
    int64_t a, b;           /* chosen                                         */
    bool have_logits;       /* in both traces; else the rest is not known     */
    int64_t best_a, best_b; /* of the logits                                */
    double gap;             /* between A's two best logits; NAN: not known    */
    double err;             /* largest error of a logit that can be chosen    */
    bool near_tie;          /* T3: gap at most twice err                      */
    bool greedy;            /* both chose their best                          */
} kvref_choice;

typedef enum kvref_inputs {
    KVREF_INPUTS_UNKNOWN, /* no frames in one of them                     */
    KVREF_INPUTS_SAME,    /* the same frames as far as both go            */
    KVREF_INPUTS_PART,    /* other frames from `split` on                 */
    KVREF_INPUTS_PROMPT   /* other prompts                                */
} kvref_inputs;

typedef enum kvref_verdict { KVREF_SAME, KVREF_DIFFERS, KVREF_CANNOT_TELL } kvref_verdict;

/* Used shares by lane (one side's layer) and column (a group of neighbouring frames). */
enum { KVREF_HEAT_COLUMNS = 120 };
typedef struct kvref_lane {
    bool fast;
    int layer;
    double used[KVREF_HEAT_COLUMNS]; /* largest; -1: nothing judged */
} kvref_lane;

typedef struct kvref_diff {
    kvref_verdict verdict;
    char reason[200]; /* of CANNOT_TELL */

    const kvref_file *file_a, *file_b;
    kvref_tap_diff *tap; /* [n_tap] in both, in order of computation */
    int n_tap;
    const kvref_tensor **only_a, **only_b; /* the others, in order of name */
    int n_only_a, n_only_b;
    size_t n_value, n_value_a; /* values judged, and those A holds in judgeable tensors */

    bool forced_a, forced_b; /* by their metadata */
    kvref_inputs inputs;
    int64_t n_prompt;             /* positions; -1: not known        */
    int64_t n_frame_a, n_frame_b; /* columns of frames; -1: none     */
    kvref_choice split;           /* when inputs is PART             */
    int n_flip;                   /* choices of equal frames whose best logit differs */
    kvref_choice flip;            /* the first of them               */
    double smallest_gap, gap_err; /* narrowest A choice, and the error of its logits; NAN */

    const kvref_tap_diff *first; /* tap that first parts, unless a choice does */
    bool first_is_choice;
    const kvref_tap_diff *worst; /* largest used; NULL: nothing judged         */

    kvref_lane *lane; /* [n_lane], slow before fast, by layer */
    int n_lane;
    int64_t frames_per_column, n_column;

    char hint[8][400]; /* what a mismatch looks like */
    int n_hint;
} kvref_diff;

/* Compares. Files must stay open as long as the result is used. Errors: FORMAT (frames or row
 * lists that make no sense), MEMORY. That nothing could be compared is a verdict. */
kvref_status kvref_diff_open(kvref_diff **out,
                             const kvref_file *a,
                             const kvref_file *b,
                             const kvref_limits *limits,
                             kvref_error *err);
void kvref_diff_close(kvref_diff **diff);

int kvref_place_order(const kvref_place *a, const kvref_place *b);

#endif
