/* SPDX-License-Identifier: MIT */
/* A comparison told as lines: the verdict last, so that it stands at the prompt. */
#include "tools/compare.h"
#include "tools/term.h"

#include <math.h>
#include <string.h>

static void say_side(FILE *to, const char *label, const char *path, const kvref_file *file)
{
    char clean[200];
    fprintf(to, "%s  %s", label, term_clean(clean, sizeof clean, path));
    static const char *const keys[] = {"case", "program", "backend", "attention", "rope_table"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *value = kvref_file_meta(file, keys[i]);
        if (value) fprintf(to, "%s%s", ", ", term_clean(clean, sizeof clean, value));
    }
    fputc('\n', to);
}

static void say_settings(FILE *to, const kvref_diff *d)
{
    char x[120], y[120];
    const char *key, *a, *b;
    for (int i = 0; i < COMPARE_N_SETTING; i++)
        if (compare_setting(i, d, &key, &a, &b))
            fprintf(to,
                    "settings differ: %s: A %s, B %s\n",
                    key,
                    term_clean(x, sizeof x, a),
                    term_clean(y, sizeof y, b));
}

enum { MAX_TAPS = 40 }; /* named in a list of what is missing */

/* Tensors of one side alone, those of all layers together: "slow.q (36)". */
static void say_missing(FILE *to, const char *which, const kvref_tensor *const *t, int n)
{
    char tap[MAX_TAPS][64], clean[64], next[64];
    int count[MAX_TAPS] = {0}, n_tap = 0, more = 0;
    for (int i = 0; i < n; i++) {
        int k = 0;
        kvref_tap_of(next, t[i]->name);
        while (k < n_tap && strcmp(tap[k], next) != 0) k++;
        if (k == MAX_TAPS) {
            more++;
            continue;
        }
        if (k == n_tap) memcpy(tap[n_tap++], next, sizeof next);
        count[k]++;
    }
    if (n > 0) fprintf(to, "in %s alone:", which);
    for (int k = 0; k < n_tap; k++) {
        fprintf(to, "%s %s", k ? "," : "", term_clean(clean, sizeof clean, tap[k]));
        if (count[k] > 1) fprintf(to, " (%d)", count[k]);
    }
    if (more) fprintf(to, " and %d tensors more", more);
    if (n > 0) fputc('\n', to);
}

static void say_unjudged(FILE *to, const kvref_diff *d)
{
    char clean[260];
    for (int i = 0; i < d->n_tap; i++) {
        const char *why = compare_state(&d->tap[i]);
        if (why)
            fprintf(to, "%s: %s\n", term_clean(clean, sizeof clean, d->tap[i].a->name), why);
    }
}

/* ---- shares by layer ---- */

static const char *const columns[] = {
    "attn_norm", "q", "k", "v", "attn", "attn_out", "ffn_norm", "ffn_act", "ffn_out", "out"};
enum { N_COLUMN = sizeof columns / sizeof columns[0] };

static int column_of(const kvref_tap_diff *t)
{
    const char *dot = strchr(t->id.tap, '.');
    for (int c = 0; dot && c < N_COLUMN; c++)
        if (strcmp(dot + 1, columns[c]) == 0) return c;
    return -1;
}

static bool in_layer(const kvref_tap_diff *t)
{
    return t->state == KVREF_TAP_JUDGED && t->id.layer >= 0 && t->id.layer < KVREF_AFTER &&
           column_of(t) >= 0;
}

/* Taps are in order of layer, so a line is complete when the layer changes. */
static void say_layers(FILE *to, const kvref_diff *d)
{
    char name[32], used[16];
    bool any = false;
    for (int i = 0; i < d->n_tap; i++) {
        const kvref_tap_diff *t = &d->tap[i];
        if (!in_layer(t)) continue;
        if (!any) {
            fprintf(to, "\nshare of the limit used (1 is all of it)\n%-10s", "");
            for (int c = 0; c < N_COLUMN; c++) fprintf(to, "%9s", columns[c]);
        }
        any = true;
        fprintf(to, "\n%-10s", compare_lane(name, t->id.axis == KVREF_AXIS_BOOK, t->id.layer));
        int c = 0;
        const kvref_tap_diff *u = t;
        while (u < d->tap + d->n_tap &&
               (!in_layer(u) || (u->id.layer == t->id.layer && u->id.axis == t->id.axis))) {
            for (int at = in_layer(u) ? column_of(u) : -1; c < at; c++) fprintf(to, "%9s", "-");
            if (in_layer(u)) {
                fprintf(to, "%9s", compare_used(used, u->used));
                c++;
            }
            u++;
        }
        for (; c < N_COLUMN; c++) fprintf(to, "%9s", "-");
        i = (int)(u - d->tap) - 1;
    }
    if (any) fputc('\n', to);
}

static void say_others(FILE *to, const kvref_diff *d)
{
    char clean[64], used[16];
    const char *before = "\n";
    for (int i = 0; i < d->n_tap; i++) {
        const kvref_tap_diff *t = &d->tap[i];
        if (t->state != KVREF_TAP_JUDGED || in_layer(t)) continue;
        fprintf(to,
                "%s%s %s",
                before,
                term_clean(clean, sizeof clean, t->a->name),
                t->rule.limit.exact ? t->n_bad ? "differs" : "equal"
                                    : compare_used(used, t->used));
        before = ", ";
    }
    if (*before == ',') fputc('\n', to);
}

/* ---- where it parts ---- */

static void say_spot(FILE *to, const kvref_tap_diff *t, const kvref_spot *s)
{
    char line[COMPARE_LINE], clean[COMPARE_LINE], used[16];
    double err = fabs(s->a - s->b);
    fprintf(to,
            "    %s: A %.9g, B %.9g",
            term_clean(clean, sizeof clean, compare_element(line, t, s)),
            s->a,
            s->b);
    fprintf(to, ", error %.3g, limit %.3g (%s)", err, t->limit, compare_rule(line, t));
    if (t->limit > 0 && isfinite(err))
        fprintf(to, ", %s of it", compare_used(used, err / t->limit));
    fputc('\n', to);
}

static void say_tap(FILE *to, const kvref_tap_diff *t)
{
    char line[COMPARE_LINE], clean[COMPARE_LINE];
    say_spot(to, t, &t->first);
    fprintf(to, "    %zu of %zu values of this tensor are out of limit", t->n_bad, t->n);
    if (t->n_nonfinite) fprintf(to, ", %zu are NaN or infinite", t->n_nonfinite);
    if (t->max_err > fabs(t->first.a - t->first.b))
        fprintf(to,
                "; largest error %.3g at %s",
                t->max_err,
                term_clean(clean, sizeof clean, compare_element(line, t, &t->worst)));
    fputc('\n', to);
}

static void say_first(FILE *to, const kvref_diff *d)
{
    char line[COMPARE_LINE], clean[COMPARE_LINE];
    if (d->inputs == KVREF_INPUTS_PROMPT && !d->first) {
        fprintf(to, "\nfirst divergence: the length of the prompt\n");
    } else if (d->first_is_choice) {
        fprintf(to, "\nfirst divergence: a choice, %s\n", compare_choice(line, &d->split));
    } else if (d->first) {
        const char *where = compare_where(line, d->first, &d->first->first);
        fprintf(to, "\nfirst divergence: %s\n", term_clean(clean, sizeof clean, where));
        say_tap(to, d->first);
    } else if (d->n_frame_a != d->n_frame_b && d->inputs == KVREF_INPUTS_SAME) {
        fprintf(to,
                "\nfirst divergence: the number of frames, A %lld, B %lld\n",
                (long long)d->n_frame_a,
                (long long)d->n_frame_b);
    }
    if (d->inputs == KVREF_INPUTS_PART && !d->first_is_choice)
        fprintf(to, "codes part later: %s\n", compare_choice(line, &d->split));
}

void compare_text(FILE *to, const kvref_diff *d, const compare_told *told)
{
    char line[COMPARE_LINE], used[16], clean[64];
    say_side(to, "A", told->path_a, d->file_a);
    say_side(to, "B", told->path_b, d->file_b);
    say_settings(to, d);
    fprintf(to,
            "rule %s%s%s\n",
            told->rule,
            told->limits ? ", limits of " : "",
            told->limits ? told->limits : "");
    fprintf(to, "inputs: %s\n", compare_inputs(line, d));
    say_missing(to, "A", d->only_a, d->n_only_a);
    say_missing(to, "B", d->only_b, d->n_only_b);
    say_unjudged(to, d);
    say_layers(to, d);
    say_others(to, d);
    if (*compare_margins(line, d)) fprintf(to, "%s\n", line);
    if (d->worst && !d->worst->rule.limit.exact)
        fprintf(to,
                "most of a limit is used in %s: %s\n",
                term_clean(clean, sizeof clean, d->worst->a->name),
                compare_used(used, d->worst->used));
    say_first(to, d);
    for (int i = 0; i < d->n_hint; i++) {
        char text[420];
        fprintf(to, "looks like: %s\n", term_clean(text, sizeof text, d->hint[i]));
    }
    fprintf(to, "\n%s\n", compare_summary(line, d));
}
