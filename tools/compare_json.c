/* SPDX-License-Identifier: MIT */
/* A comparison as one JSON object. Numbers that JSON cannot hold (an infinite share, a NaN)
 * are null. */
#include "tools/compare.h"
#include "tools/term.h"

#include <math.h>
#include <string.h>

static json_t *text(const char *s)
{
    char clean[COMPARE_LINE];
    return json_string(term_clean(clean, sizeof clean, s));
}

static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static void put(json_t *o, const char *key, json_t *value)
{
    json_object_set_new(o, key, value);
}

static json_t *index_of(const kvref_tap_diff *t, const kvref_spot *s)
{
    json_t *list = json_array();
    for (int d = 0; d < t->a->n_dim; d++) json_array_append_new(list, json_integer(s->at[d]));
    return list;
}

static json_t *spot(const kvref_tap_diff *t, const kvref_spot *s)
{
    const kvref_place *p = &s->place;
    json_t *o = json_object();
    put(o, "tensor", text(t->a->name));
    put(o, "index", index_of(t, s));
    if (p->frame >= 0 && p->frame < INT64_MAX) put(o, "frame", json_integer(p->frame));
    if (t->id.axis == KVREF_AXIS_POSITION) put(o, "position", json_integer(p->row));
    if (p->book >= 0) put(o, "codebook", json_integer(p->book));
    if (p->layer >= 0 && p->layer < KVREF_AFTER) put(o, "layer", json_integer(p->layer));
    put(o, "tap", text(t->id.tap));
    int lead = t->id.axis == KVREF_AXIS_BOOK ? 2 : 1, n = t->a->n_dim - lead;
    if (n >= 2) put(o, "head", json_integer(s->at[lead]));
    if (n >= 1) put(o, "channel", json_integer(s->at[lead + n - 1]));
    put(o, "a", real(s->a));
    put(o, "b", real(s->b));
    put(o, "error", real(fabs(s->a - s->b)));
    put(o, "limit", real(t->limit));
    put(o, "rule", text(kvref_rule_name(t->rule.rule)));
    return o;
}

static json_t *choice(const kvref_choice *c)
{
    json_t *o = json_object();
    put(o, "frame", json_integer(c->frame));
    put(o, "column", json_integer(c->column));
    put(o, "book", json_integer(c->book));
    put(o, "a", json_integer(c->a));
    put(o, "b", json_integer(c->b));
    put(o, "gap", real(c->gap));
    if (!c->have_logits) return o;
    put(o, "best_a", json_integer(c->best_a));
    put(o, "best_b", json_integer(c->best_b));
    put(o, "logit_error", real(c->err));
    put(o, "greedy", json_boolean(c->greedy));
    put(o, "near_tie", json_boolean(c->near_tie));
    return o;
}

static json_t *tap(const kvref_tap_diff *t)
{
    const char *state = compare_state(t);
    json_t *o = json_object();
    put(o, "tensor", text(t->a->name));
    put(o, "state", text(state ? state : t->n_bad ? "out of limit" : "within"));
    put(o, "rule", text(kvref_rule_name(t->rule.rule)));
    if (state && t->state != KVREF_TAP_SHOWN) return o;
    put(o, "rel", real(t->rule.limit.rel));
    put(o, "abs", real(t->rule.limit.abs));
    put(o, "limit", real(t->limit));
    put(o, "values", json_integer((json_int_t)t->n));
    put(o, "out_of_limit", json_integer((json_int_t)t->n_bad));
    put(o, "not_finite", json_integer((json_int_t)t->n_nonfinite));
    put(o, "largest_magnitude", real(t->max_mag));
    put(o, "largest_error", real(t->max_err));
    put(o, "used", real(t->used));
    if (t->constant_b) put(o, "constant_in_b", json_true());
    if (t->n_bad) put(o, "first", spot(t, &t->first));
    if (t->max_err > 0) put(o, "worst", index_of(t, &t->worst));
    return o;
}

static json_t *heat(const kvref_diff *d)
{
    json_t *lanes = json_array();
    char name[32];
    for (int i = 0; i < d->n_lane; i++) {
        const kvref_lane *l = &d->lane[i];
        json_t *row = json_array();
        for (int64_t c = 0; c < d->n_column; c++)
            json_array_append_new(row, l->used[c] < 0 ? json_false() : real(l->used[c]));
        json_array_append_new(
            lanes,
            json_pack("{s:s,s:o}", "lane", compare_lane(name, l->fast, l->layer), "used", row));
    }
    return json_pack(
        "{s:I,s:o}", "frames_per_column", (json_int_t)d->frames_per_column, "lanes", lanes);
}

static json_t *names(const kvref_tensor *const *t, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(list, text(t[i]->name));
    return list;
}

static json_t *settings(const kvref_diff *d)
{
    json_t *o = json_object();
    const char *key, *a, *b;
    for (int i = 0; i < COMPARE_N_SETTING; i++)
        if (compare_setting(i, d, &key, &a, &b))
            put(o, key, json_pack("{s:o,s:o}", "a", text(a), "b", text(b)));
    return o;
}

static json_t *inputs(const kvref_diff *d)
{
    static const char *const state[] = {"unknown", "same", "frames part", "prompts differ"};
    char line[COMPARE_LINE];
    json_t *o = json_object();
    put(o, "state", text(state[d->inputs]));
    put(o, "text", text(compare_inputs(line, d)));
    put(o, "forced_a", json_boolean(d->forced_a));
    put(o, "forced_b", json_boolean(d->forced_b));
    if (d->n_prompt >= 0) put(o, "prompt_positions", json_integer(d->n_prompt));
    if (d->n_frame_a >= 0) put(o, "frames_a", json_integer(d->n_frame_a));
    if (d->n_frame_b >= 0) put(o, "frames_b", json_integer(d->n_frame_b));
    return o;
}

json_t *compare_json(const kvref_diff *d, const compare_told *told)
{
    char line[COMPARE_LINE];
    json_t *o = json_object(), *taps = json_array(), *hints = json_array();
    put(o, "format", text("kvref-compare-1"));
    put(o, "verdict", text(compare_verdict(d)));
    put(o, "summary", text(compare_summary(line, d)));
    put(o, "a", text(told->path_a));
    put(o, "b", text(told->path_b));
    put(o, "rule", text(told->rule));
    put(o, "limits", told->limits ? text(told->limits) : json_null());
    put(o, "inputs", inputs(d));
    put(o, "settings_that_differ", settings(d));
    put(o, "values_judged", json_integer((json_int_t)d->n_value));
    put(o, "values_of_a", json_integer((json_int_t)d->n_value_a));
    put(o,
        "first",
        d->first && !d->first_is_choice ? spot(d->first, &d->first->first) : json_null());
    put(o, "choice", d->inputs == KVREF_INPUTS_PART ? choice(&d->split) : json_null());
    put(o, "choice_is_first", json_boolean(d->first_is_choice));
    put(o, "greedy_choices_that_turn", json_integer(d->n_flip));
    put(o, "first_that_turns", d->n_flip ? choice(&d->flip) : json_null());
    put(o, "narrowest_gap", real(d->smallest_gap));
    put(o, "logit_error_there", real(d->gap_err));
    for (int i = 0; i < d->n_hint; i++) json_array_append_new(hints, text(d->hint[i]));
    put(o, "looks_like", hints);
    for (int i = 0; i < d->n_tap; i++) json_array_append_new(taps, tap(&d->tap[i]));
    put(o, "taps", taps);
    put(o, "in_a_alone", names(d->only_a, d->n_only_a));
    put(o, "in_b_alone", names(d->only_b, d->n_only_b));
    put(o, "heat", heat(d));
    return o;
}
