/* SPDX-License-Identifier: MIT */
/* What kvref compare found, told as text, as JSON and as a page. */
#ifndef KVREF_TOOLS_COMPARE_H
#define KVREF_TOOLS_COMPARE_H

#include "base/diff.h"

#include <jansson.h>
#include <stdio.h>

typedef struct compare_told {
    const char *path_a, *path_b; /* as given, fit to be printed */
    const char *rule;            /* exact, f32 or f16           */
    const char *limits;          /* file; NULL: built in        */
} compare_told;

void compare_text(FILE *to, const kvref_diff *d, const compare_told *told);

/* NULL when out of memory. */
json_t *compare_json(const kvref_diff *d, const compare_told *told);

/* One self-contained page. */
void compare_html(FILE *to, const kvref_diff *d, const compare_told *told);

/* ---- said the same way in each; compare_words.c ---- */

enum { COMPARE_LINE = 640 };

/* "the same", "differs", "cannot tell". */
const char *compare_verdict(const kvref_diff *d);

/* What the verdict rests on, in one sentence. */
const char *compare_summary(char out[COMPARE_LINE], const kvref_diff *d);

/* Whether both runs had the same inputs, and what follows for the judging. */
const char *compare_inputs(char out[COMPARE_LINE], const kvref_diff *d);

/* "frame 3 (position 22), slow, layer 1, attn, head 2, channel 5". */
const char *
compare_where(char out[COMPARE_LINE], const kvref_tap_diff *t, const kvref_spot *spot);

/* "slow.L01.attn[22][2][5]". */
const char *
compare_element(char out[COMPARE_LINE], const kvref_tap_diff *t, const kvref_spot *spot);

/* "T2: 1e-05 of the largest magnitude 1.25". */
const char *compare_rule(char out[COMPARE_LINE], const kvref_tap_diff *t);

/* The choice that parted, in two sentences. */
const char *compare_choice(char out[COMPARE_LINE], const kvref_choice *c);

/* Choices under the same codes: how many best logits turn, the narrowest gap. "" when there is
 * nothing to say. */
const char *compare_margins(char out[COMPARE_LINE], const kvref_diff *d);

/* A share of a limit in at most 6 characters: "0.14", "3e+02", "inf". */
const char *compare_used(char out[16], double used);

/* "slow L07", "slow in", "fast out". */
const char *compare_lane(char out[32], bool fast, int layer);

/* Why a tap was not judged; NULL when it was. */
const char *compare_state(const kvref_tap_diff *t);

/* Setting i of both traces, where they differ. */
bool compare_setting(
    int i, const kvref_diff *d, const char **key, const char **a, const char **b);
enum { COMPARE_N_SETTING = 19 };

#endif
