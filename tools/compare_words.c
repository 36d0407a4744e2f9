/* SPDX-License-Identifier: MIT */
/* Sentences about a comparison, for its three reports. */
#include "tools/compare.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Appends to a line that never overflows. */
#define SAY(out, ...) snprintf((out) + strlen(out), COMPARE_LINE - strlen(out), __VA_ARGS__)

const char *compare_verdict(const kvref_diff *d)
{
    static const char *const word[] = {"the same", "differs", "cannot tell"};
    return word[d->verdict];
}

/* Values out of limit, and in how many tensors; frames have their own sentence. */
static size_t count_bad(const kvref_diff *d, int *n_tensor)
{
    size_t n = 0;
    *n_tensor = 0;
    for (int i = 0; i < d->n_tap; i++) {
        const kvref_tap_diff *t = &d->tap[i];
        if (t->state != KVREF_TAP_JUDGED || t->id.axis == KVREF_AXIS_CHOICE) continue;
        n += t->n_bad;
        *n_tensor += t->n_bad > 0;
    }
    return n;
}

const char *compare_summary(char out[COMPARE_LINE], const kvref_diff *d)
{
    int n_tensor;
    size_t n_bad = count_bad(d, &n_tensor);
    const char *how = d->verdict == KVREF_CANNOT_TELL     ? d->reason
                      : d->inputs == KVREF_INPUTS_PART    ? "up to a near tie (T3)"
                      : d->inputs == KVREF_INPUTS_UNKNOWN ? "as far as can be seen"
                                                          : "within limits";
    out[0] = 0;
    SAY(out, "%s", compare_verdict(d));
    if (d->verdict != KVREF_DIFFERS) {
        SAY(out, ", %s", how);
    } else if (n_bad > 0) {
        SAY(out,
            ", %zu values out of limit in %d tensor%s",
            n_bad,
            n_tensor,
            n_tensor == 1 ? "" : "s");
    } else {
        SAY(out,
            ", no value out of limit but other %s",
            d->inputs == KVREF_INPUTS_PART ? "codes" : "lengths");
    }
    SAY(out,
        ": %zu of A's %zu values judged, in %d tensors of both",
        d->n_value,
        d->n_value_a,
        d->n_tap);
    return out;
}

static const char *forced(const kvref_diff *d)
{
    if (d->forced_a && d->forced_b) return "teacher-forced, both";
    if (d->forced_a) return "A teacher-forced";
    if (d->forced_b) return "B teacher-forced";
    return "free-running, or not said";
}

const char *compare_inputs(char out[COMPARE_LINE], const kvref_diff *d)
{
    char book[40];
    int64_t n = d->n_frame_a < d->n_frame_b ? d->n_frame_a : d->n_frame_b;
    switch (d->inputs) {
    case KVREF_INPUTS_SAME:
        snprintf(out,
                 COMPARE_LINE,
                 "the same %" PRId64
                 " frames in both (%s): every step had the same input, every "
                 "number is judged%s",
                 n,
                 forced(d),
                 d->n_frame_a == d->n_frame_b ? "" : " as far as both go");
        break;
    case KVREF_INPUTS_PART:
        snprintf(book, sizeof book, "code of book %d", d->split.book);
        snprintf(out,
                 COMPARE_LINE,
                 "frames part at frame %" PRId64 ", %s (%s): steps after it had other inputs, "
                 "their numbers are not judged",
                 d->split.frame,
                 d->split.column == 0 ? "main token" : book,
                 forced(d));
        break;
    case KVREF_INPUTS_PROMPT:
        snprintf(out, COMPARE_LINE, "the prompts differ: no number after them is judged");
        break;
    case KVREF_INPUTS_UNKNOWN:
        snprintf(
            out,
            COMPARE_LINE,
            "frames are not in both: that every step had the same input is taken on trust");
        break;
    }
    return out;
}

const char *compare_lane(char out[32], bool fast, int layer)
{
    const char *side = fast ? "fast" : "slow";
    if (layer < 0) {
        snprintf(out, 32, "%s in", side);
    } else if (layer == KVREF_AFTER) {
        snprintf(out, 32, "%s out", side);
    } else {
        snprintf(out, 32, "%s L%02d", side, layer);
    }
    return out;
}

static void say_axes(char *out, const kvref_tap_diff *t, const kvref_spot *s)
{
    int lead = t->id.axis == KVREF_AXIS_BOOK ? 2 : 1, n = t->a->n_dim - lead;
    bool logits = strstr(t->id.tap, ".logits") != NULL;
    if (n >= 2) SAY(out, ", head %" PRId64, s->at[lead]);
    if (n >= 1) SAY(out, ", %s %" PRId64, logits ? "entry" : "channel", s->at[lead + n - 1]);
}

const char *compare_where(char out[COMPARE_LINE], const kvref_tap_diff *t, const kvref_spot *s)
{
    const kvref_place *p = &s->place;
    const char *part = strchr(t->id.tap, '.');
    out[0] = 0;
    if (t->id.axis == KVREF_AXIS_PLAIN || t->id.axis == KVREF_AXIS_CHOICE) {
        bool inputs = strcmp(t->id.tap, "prompt") == 0 || t->id.axis == KVREF_AXIS_CHOICE;
        SAY(out, "%.63s", t->id.tap);
        if (inputs && t->a->n_dim == 2) {
            SAY(out, ", column %" PRId64 ", row %" PRId64, s->at[0], s->at[1]);
            return out;
        }
        for (int d = 0; d < t->a->n_dim; d++) SAY(out, ", axis %d at %" PRId64, d, s->at[d]);
        return out;
    }
    SAY(out, "frame %" PRId64, p->frame);
    if (t->id.axis == KVREF_AXIS_POSITION) SAY(out, " (position %" PRId64 ")", p->row);
    if (p->book >= 0) SAY(out, ", codebook position %" PRId64, p->book);
    SAY(out, ", %s", p->book >= 0 ? "fast" : "slow");
    if (p->layer >= 0 && p->layer < KVREF_AFTER) SAY(out, ", layer %d", p->layer);
    SAY(out, ", %.63s", part ? part + 1 : t->id.tap);
    say_axes(out, t, s);
    return out;
}

const char *
compare_element(char out[COMPARE_LINE], const kvref_tap_diff *t, const kvref_spot *s)
{
    out[0] = 0;
    SAY(out, "%.255s", t->a->name);
    for (int d = 0; d < t->a->n_dim; d++) SAY(out, "[%" PRId64 "]", s->at[d]);
    return out;
}

const char *compare_rule(char out[COMPARE_LINE], const kvref_tap_diff *t)
{
    const kvref_limit *l = &t->rule.limit;
    const char *name = kvref_rule_name(t->rule.rule);
    out[0] = 0;
    SAY(out, "%s: ", name);
    if (l->exact) {
        SAY(out, "equal");
    } else if (l->rel > 0) {
        SAY(out, "%.3g of the largest magnitude %.4g", l->rel, t->max_mag);
        if (l->abs > 0) SAY(out, " + %.3g", l->abs);
    } else {
        SAY(out, "%.3g", l->abs);
    }
    return out;
}

const char *compare_choice(char out[COMPARE_LINE], const kvref_choice *c)
{
    out[0] = 0;
    SAY(out, "frame %" PRId64 ", ", c->frame);
    if (c->column == 0) {
        SAY(out, "main token");
    } else {
        SAY(out, "code of book %d", c->book);
    }
    SAY(out, ": A chose %" PRId64 ", B %" PRId64 "; ", c->a, c->b);
    if (!c->have_logits) {
        SAY(out, "their logits are not in both traces");
        if (!isnan(c->gap)) SAY(out, ", A's two best are %.3g apart", c->gap);
        return out;
    }
    SAY(out,
        "best logits %" PRId64 " and %" PRId64 ", A's two best %.3g apart, logit error %.3g: ",
        c->best_a,
        c->best_b,
        c->gap,
        c->err);
    SAY(out,
        "%s",
        !c->greedy    ? "drawn, not the best ones, so that this gap does not decide"
        : c->near_tie ? "a near tie, the error can turn it (T3)"
                      : "no near tie, the error cannot turn it (T3)");
    return out;
}

const char *compare_margins(char out[COMPARE_LINE], const kvref_diff *d)
{
    out[0] = 0;
    if (isnan(d->smallest_gap)) return out;
    SAY(out,
        "greedy choices: %d would turn; narrowest gap of two best logits %.3g, where the logit "
        "error is %.3g",
        d->n_flip,
        d->smallest_gap,
        d->gap_err);
    if (d->n_flip > 0)
        SAY(out,
            "; first at frame %" PRId64 ", book %d: best %" PRId64 " and %" PRId64
            ", gap %.3g, error %.3g",
            d->flip.frame,
            d->flip.book,
            d->flip.best_a,
            d->flip.best_b,
            d->flip.gap,
            d->flip.err);
    return out;
}

const char *compare_used(char out[16], double used)
{
    if (isinf(used)) {
        snprintf(out, 16, "inf");
    } else {
        snprintf(out, 16, used < 9.995 ? "%.2f" : "%.0e", used);
    }
    return out;
}

const char *compare_state(const kvref_tap_diff *t)
{
    switch (t->state) {
    case KVREF_TAP_JUDGED:
        return NULL;
    case KVREF_TAP_SHOWN:
        return t->n_bad ? "differs, not judged" : "equal, not judged";
    case KVREF_TAP_BEYOND:
        return "after the first other code";
    case KVREF_TAP_EMPTY:
        return "no value to compare";
    case KVREF_TAP_UNLIKE:
        return "other axes or kinds of number";
    }
    return NULL;
}

bool compare_setting(
    int i, const kvref_diff *d, const char **key, const char **a, const char **b)
{
    static const char *const keys[COMPARE_N_SETTING] = {"case",
                                                        "program",
                                                        "backend",
                                                        "dtype",
                                                        "attention",
                                                        "linear",
                                                        "rope_table",
                                                        "config",
                                                        "temperature",
                                                        "top_p",
                                                        "top_k",
                                                        "seed",
                                                        "noise",
                                                        "max_new_tokens",
                                                        "min_frames",
                                                        "stop",
                                                        "keep_last_frame",
                                                        "stop_at_first_end",
                                                        "capacity"};
    *key = keys[i];
    *a = kvref_file_meta(d->file_a, keys[i]);
    *b = kvref_file_meta(d->file_b, keys[i]);
    return *a && *b && strcmp(*a, *b) != 0;
}
