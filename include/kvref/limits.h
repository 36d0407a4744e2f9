/* SPDX-License-Identifier: MIT */
/* How far numbers may be apart: five rules, and for every tap of a trace which of them holds
 * and with what constant, in float32 and in FP16 storage. docs/tolerances.md gives for each the
 * measured head-room and the nearest fault that fails. A limit comes from its rule, never from
 * the last run.
 *
 *   T0  exact      equal bits: ids, codes, copies, counts; prefix = full; any capacity
 *   T1  derived    one sum of products, element by element, from the inputs' own sizes
 *   T2  calibrated whatever many sums made: a share of the tensor's largest magnitude, which is
 *                  twice the error of a plain program of that precision against float64, and
 *                  the rounding of the result
 *   T3  decision   codes are equal up to a choice whose two best logits are nearer to each
 *                  other than twice the error of the logits
 *   T4  sound      samples, against full scale 1 */
#ifndef KVREF_LIMITS_H
#define KVREF_LIMITS_H

#include "kvref/compare.h"
#include "kvref/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kvref_rule {
    KVREF_T0,
    KVREF_T1,
    KVREF_T2,
    KVREF_T3,
    KVREF_T4,
    KVREF_UNJUDGED /* recorded for people: work done, figures that follow from others */
} kvref_rule;

/* "T0" ... "T4", "none". */
const char *kvref_rule_name(kvref_rule rule);

/* The precision whose constants hold. EXACT makes T0 of every rule. */
typedef enum kvref_precision { KVREF_EXACT, KVREF_STORE_F32, KVREF_STORE_F16 } kvref_precision;

/* Half the distance from 1 to the next value: what one rounding can cost, relatively. */
#define KVREF_U_F32 0x1p-24
#define KVREF_U_F16 0x1p-11

/* T1 of one sum y of n products whose magnitudes add up to size: rounding errors of an
 * accumulation in float32 that grow like a random walk, twice over, and one rounding to storage
 * (u: one of the above). Measured at n = 64 to 9728: 0.42 of sqrt(n) 2^-24 size with mixed
 * signs, 1.13 with equal ones. Terms that are all alike err alike: give the square
 * of their number as n. */
double kvref_t1(double n, double size, double y, double u);

/* T2 from the error of a plain program against float64, as a share of the largest. */
double kvref_t2(double plain_err, double u);

/* T3: whether a choice between two logits gap apart may turn under errors up to err. */
bool kvref_t3_near_tie(double gap, double err);

typedef struct kvref_tap_limit {
    kvref_rule rule;
    kvref_limit limit;
} kvref_tap_limit;

/* The limit of a tensor by its name in a trace: "slow.L07.q", "frames", "decode5.z". A name
 * that is not known has the limit of any value: T2 with the largest constant. */
kvref_tap_limit kvref_limit_of(kvref_precision precision, const char *tensor);

/* "slow.L07.q" gives "slow.q", "decode5.post_module.L03" "decode.post_module"; cut to 63
 * bytes. Returns the layer, -1: none. */
int kvref_tap_of(char tap[64], const char *tensor);

/* Limits of one's own, over the built-in ones: a JSON file
 *   {"format": "kvref-limits-1", "taps": {"slow.q": {"rule": "T2", "rel": 4e-3, "abs": 0}}}
 * whose keys are tensors ("slow.L07.q"), taps ("slow.q") or "*", sought in this order; "*" is
 * for what has neither and is not exact. At most 1024 keys and 1 MiB. Errors: IO, FORMAT,
 * MEMORY. path NULL: none of one's own. */
typedef struct kvref_limits kvref_limits;
kvref_status kvref_limits_open(kvref_limits **out,
                               kvref_precision precision,
                               const char *path,
                               kvref_error *err);
kvref_tap_limit kvref_limits_find(const kvref_limits *limits, const char *tensor);
kvref_precision kvref_limits_precision(const kvref_limits *limits);
void kvref_limits_close(kvref_limits **limits);

#ifdef __cplusplus
}
#endif
#endif
