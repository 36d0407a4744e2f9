/* SPDX-License-Identifier: MIT */
/* The built-in limits: rules as functions, and one table over the taps. Constants of T2 in FP16
 * are 2 e + 2^-11, rounded up to two digits, where e is the largest error of emulated FP16
 * against float64 over the golden cases A, B, D and L (golden/oracle.py half). The one of
 * float32 is the agreement that golden/README.md asks for. */
#include "kvref/limits.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const rule_name[] = {"T0", "T1", "T2", "T3", "T4", "none"};

const char *kvref_rule_name(kvref_rule rule)
{
    return rule_name[rule];
}

double kvref_t1(double n, double size, double y, double u)
{
    const double tiny = 1e-30; /* what a difference of two zeros may be */
    return 2 * sqrt(n) * KVREF_U_F32 * size + u * fabs(y) + tiny;
}

double kvref_t2(double plain_err, double u)
{
    return 2 * plain_err + u;
}

bool kvref_t3_near_tie(double gap, double err)
{
    return gap <= 2 * err;
}

/* A name that ends in '*' stands for all that begin so; the first that fits counts. */
static const struct tap_row {
    const char *tap;
    kvref_rule rule;
    double f32, f16; /* T2: share of the largest; T4: of full scale */
} taps[] = {
    {"prompt", KVREF_T0, 0, 0},
    {"candidates", KVREF_T0, 0, 0},
    {"frames", KVREF_T3, 0, 0},
    {"slow.kv_len", KVREF_T0, 0, 0},
    {"slow.kv_rows", KVREF_UNJUDGED, 0, 0},
    {"slow.kv_bytes", KVREF_UNJUDGED, 0, 0},
    {"slow.decision", KVREF_UNJUDGED, 0, 0},
    {"slow.embed", KVREF_T2, 1e-5, 1.1e-3},
    {"slow.attn_norm", KVREF_T2, 1e-5, 3.4e-3},
    {"slow.q", KVREF_T2, 1e-5, 4.4e-3},
    {"slow.k", KVREF_T2, 1e-5, 4.1e-3},
    {"slow.v", KVREF_T2, 1e-5, 3.4e-3},
    {"slow.attn", KVREF_T2, 1e-5, 4.4e-3},
    {"slow.attn_out", KVREF_T2, 1e-5, 2.8e-3},
    {"slow.ffn_norm", KVREF_T2, 1e-5, 4.0e-3},
    {"slow.ffn_act", KVREF_T2, 1e-5, 3.6e-3},
    {"slow.ffn_out", KVREF_T2, 1e-5, 4.9e-3},
    {"slow.out", KVREF_T2, 1e-5, 3.9e-3},
    {"slow.norm", KVREF_T2, 1e-5, 3.4e-3},
    {"slow.logits", KVREF_T2, 1e-5, 3.7e-3},
    {"slow.hidden", KVREF_T2, 1e-5, 3.4e-3},
    {"fast.embed", KVREF_T2, 1e-5, 3.4e-3},
    {"fast.attn_norm", KVREF_T2, 1e-5, 4.7e-3},
    {"fast.q", KVREF_T2, 1e-5, 5.7e-3},
    {"fast.k", KVREF_T2, 1e-5, 8.0e-3},
    {"fast.v", KVREF_T2, 1e-5, 4.3e-3},
    {"fast.attn", KVREF_T2, 1e-5, 4.6e-3},
    {"fast.attn_out", KVREF_T2, 1e-5, 4.9e-3},
    {"fast.ffn_norm", KVREF_T2, 1e-5, 4.3e-3},
    {"fast.ffn_act", KVREF_T2, 1e-5, 3.8e-3},
    {"fast.ffn_out", KVREF_T2, 1e-5, 5.7e-3},
    {"fast.out", KVREF_T2, 1e-5, 3.5e-3},
    {"fast.norm", KVREF_T2, 1e-5, 4.8e-3},
    {"fast.logits", KVREF_T2, 1e-5, 5.9e-3},
    {"decode.codes", KVREF_T0, 0, 0},
    {"encode.codes", KVREF_T0, 0, 0},
    {"decode.audio", KVREF_T4, 1e-4, 1e-4},
    {"encode.audio", KVREF_T0, 0, 0},
    {"decode.*", KVREF_T2, 3e-5, 3e-5}, /* the codec is float32 everywhere */
    {"encode.*", KVREF_T2, 3e-5, 3e-5},
    {"*", KVREF_T2, 1e-5, 8.0e-3},
};

static bool fits(const char *pattern, const char *tap)
{
    size_t n = strlen(pattern);
    if (n > 0 && pattern[n - 1] == '*') return strncmp(pattern, tap, n - 1) == 0;
    return strcmp(pattern, tap) == 0;
}

kvref_tap_limit kvref_limit_of(kvref_precision precision, const char *tensor)
{
    char tap[64];
    const struct tap_row *r = taps;
    kvref_tap_of(tap, tensor);
    while (!fits(r->tap, tap)) r++;
    kvref_tap_limit out = {.rule = r->rule};
    double share = precision == KVREF_STORE_F16 ? r->f16 : r->f32;
    if (precision == KVREF_EXACT && out.rule != KVREF_UNJUDGED) out.rule = KVREF_T0;
    out.limit.exact = out.rule == KVREF_T0 || out.rule == KVREF_T3;
    if (out.rule == KVREF_T2) out.limit.rel = share;
    if (out.rule == KVREF_T4) out.limit.abs = share;
    return out;
}

/* Length of ".L07" at s, followed by the end or another part; 0: not one. */
static size_t layer_part(const char *s)
{
    size_t n = 2;
    if (s[0] != '.' || s[1] != 'L') return 0;
    while (isdigit((unsigned char)s[n])) n++;
    return n > 2 && n < 9 && (s[n] == '.' || s[n] == 0) ? n : 0;
}

/* Length of the number that follows "decode" or "encode". */
static size_t count_part(const char *tensor, const char *s)
{
    size_t n = 0;
    bool codec = strncmp(tensor, "decode", 6) == 0 || strncmp(tensor, "encode", 6) == 0;
    if (!codec || s != tensor + 6) return 0;
    while (isdigit((unsigned char)s[n])) n++;
    return n;
}

int kvref_tap_of(char tap[64], const char *tensor)
{
    int layer = -1;
    size_t at = 0;
    for (const char *s = tensor; *s && at < 63;) {
        size_t n = layer < 0 ? layer_part(s) : 0;
        if (n > 0) {
            layer = 0;
            for (size_t i = 2; i < n; i++) layer = layer * 10 + (s[i] - '0');
        } else {
            n = count_part(tensor, s);
        }
        if (n == 0) {
            tap[at++] = *s++;
        } else {
            s += n;
        }
    }
    tap[at] = 0;
    return layer;
}
