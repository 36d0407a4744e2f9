/* SPDX-License-Identifier: MIT */
/* From logits to a choice (spec 04 sections 2 and 3): sort, cut by top_p and top_k, divide by
 * the temperature, softmax; then the exponential race argmax p[i] / -ln(u[i]).
 *
 * float32 throughout; only the running sum of probabilities is kept in float64 and rounded at
 * every rank, which is what torch's CPU code was seen to do. Sums run in a written order, so
 * the result depends on nothing else: by index in the second softmax; by rank in the first, in
 * eight lanes as torch's vector code, because the rounding of that sum decides which last ranks
 * go where top_p is 1 (one lane, at nearly the same accuracy, draws other codes in golden run
 * A 5). */
#include "kvref/sample.h"

#include "base/base.h"
#include "kvref/fmath.h"

#include <math.h>
#include <string.h>

kvref_status kvref_sampling_check(const kvref_sampling *s, kvref_error *err)
{
    if (!(s->temperature >= 0 && s->temperature < 2))
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "temperature: expected 0 <= temperature < 2, found %g",
                          (double)s->temperature);
    if (!(s->top_p > 0 && s->top_p <= 1))
        return kvref_fail(
            err, KVREF_E_ARG, "top_p: expected 0 < top_p <= 1, found %g", (double)s->top_p);
    if (s->top_k < 0)
        return kvref_fail(err, KVREF_E_ARG, "top_k: expected 0 or more, found %d", s->top_k);
    return KVREF_OK;
}

size_t kvref_sample_scratch(int n)
{
    return n > 0 ? 2 * sizeof(int32_t) * (size_t)n : 0;
}

/* NaN and +infinity have no place in a softmax; -infinity is a candidate without mass. */
static kvref_status check_logits(const float *logits, int n, kvref_error *err)
{
    bool finite = false;
    for (int i = 0; i < n; i++) {
        if (isnan(logits[i]) || logits[i] == INFINITY)
            return kvref_fail(err,
                              KVREF_E_FORMAT,
                              "logit %d of %d: expected a number below infinity, found %g",
                              i,
                              n,
                              (double)logits[i]);
        finite |= logits[i] != -INFINITY;
    }
    if (!finite)
        return kvref_fail(
            err, KVREF_E_FORMAT, "logits: expected a finite one, found %d of -infinity", n);
    return KVREF_OK;
}

/* Merges the runs a [n_a] and b [n_b] into out; of equals, those of a come first. */
static void
merge(int32_t *out, const int32_t *a, int n_a, const int32_t *b, int n_b, const float *x)
{
    while (n_a > 0 && n_b > 0) {
        if (x[*b] > x[*a]) {
            *out++ = *b++;
            n_b--;
        } else {
            *out++ = *a++;
            n_a--;
        }
    }
    memcpy(out, a, sizeof *a * (size_t)n_a);
    memcpy(out + n_a, b, sizeof *b * (size_t)n_b);
}

/* Indices of x by falling value, equal values by rising index: merge sort from runs of one.
 * Returns a or b, whichever [n] holds the result. */
static const int32_t *sort_descending(int32_t *a, int32_t *b, const float *x, int n)
{
    for (int i = 0; i < n; i++) a[i] = i;
    for (size_t run = 1; run < (size_t)n; run *= 2) {
        for (size_t at = 0; at < (size_t)n; at += 2 * run) {
            size_t left = (size_t)n - at;
            size_t n_a = left < run ? left : run;
            size_t n_b = left - n_a < run ? left - n_a : run;
            merge(b + at, a + at, (int)n_a, a + at + n_a, (int)n_b, x);
        }
        int32_t *swap = a;
        a = b;
        b = swap;
    }
    return a;
}

/* How many ranks stay: those before the first whose inclusive sum passes top_p, whose rank is
 * top_k or that has no mass, and rank 0 in any case. e [n] receives exp(logit - max). */
static int
count_kept(float *e, const float *logits, const int32_t *order, int n, const kvref_sampling *s)
{
    float max = logits[order[0]], lane[8] = {0};
    for (int r = 0; r < n; r++) {
        int i = order[r];
        e[i] = kvref_expf(logits[i] - max);
        lane[r % 8] += e[i];
    }
    float total = ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
                  ((lane[1] + lane[5]) + (lane[3] + lane[7]));
    double sum = 0;
    int kept = 0;
    for (; kept < n && kept < s->top_k && logits[order[kept]] > -INFINITY; kept++) {
        sum += (double)(e[order[kept]] / total);
        if ((float)sum > s->top_p) break;
    }
    return kept == 0 || s->temperature == 0 ? 1 : kept;
}

kvref_status kvref_sample_probs(float *p,
                                const float *logits,
                                int n,
                                const kvref_sampling *s,
                                void *scratch,
                                kvref_error *err)
{
    KVREF_TRY(kvref_sampling_check(s, err));
    if (n <= 0)
        return kvref_fail(err, KVREF_E_ARG, "candidates: expected 1 or more, found %d", n);
    KVREF_TRY(check_logits(logits, n, err));

    int32_t *index = scratch;
    const int32_t *order = sort_descending(index, index + n, logits, n);
    int kept = count_kept(p, logits, order, n, s);

    float t = s->temperature > 1e-5f ? s->temperature : 1e-5f;
    float max = logits[order[0]] / t, total = 0;
    memset(p, 0, sizeof *p * (size_t)n);
    for (int r = 0; r < kept; r++) {
        /* Two quotients that overflow alike are equal, not a NaN apart. */
        float x = logits[order[r]] / t;
        p[order[r]] = kvref_expf(x == max ? 0 : x - max);
    }
    for (int i = 0; i < n; i++) total += p[i];
    for (int i = 0; i < n; i++) p[i] /= total;
    return KVREF_OK;
}

int kvref_sample_draw(const float *p, const float *u, int n)
{
    int best = -1;
    float most = -1;
    for (int i = 0; i < n; i++) {
        if (!(p[i] > 0)) continue;
        float ratio = p[i] / -kvref_logf(u[i]);
        if (ratio > most) {
            most = ratio;
            best = i;
        }
    }
    return best;
}
