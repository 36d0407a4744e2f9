/* SPDX-License-Identifier: MIT */
/* A comparison as one page that holds everything it needs: no script, no font, no request. The
 * heat map is a table, so that it can be read without eyes; colour repeats what its numbers
 * say. */
#include "tools/compare.h"
#include "tools/term.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAX_LANES = 256 }; /* shown; a model has some tens */

static const char style[] =
    ":root{color-scheme:light dark;--bg:#fdfdfc;--fg:#1b1d21;--soft:#5a6069;--line:#c9cdd3;"
    "--h0:#eef3f8;--h1:#cfe0ef;--h2:#a6c8e3;--h3:#f6dfa0;--h4:#f2b866;--bad:#8e1b1b;--badfg:#"
    "fff;"
    "--good:#1c6b35}\n"
    "@media (prefers-color-scheme:dark){:root{--bg:#15171b;--fg:#e6e8eb;--soft:#a5abb5;"
    "--line:#3c424b;--h0:#1d2630;--h1:#1f3a52;--h2:#245377;--h3:#5e4a12;--h4:#7d4e0c;--bad:#"
    "ffb3ab;"
    "--badfg:#4a0a06;--good:#8fd6a3}}\n"
    "body{margin:0 auto;max-width:76rem;padding:1rem;background:var(--bg);color:var(--fg);"
    "font:16px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}code,td,.n{font-variant-numeric:"
    "tabular-nums}\n"
    "code{font-family:ui-monospace,monospace;overflow-wrap:anywhere}\n"
    ".verdict{border-left:.5rem solid var(--soft);padding-left:.75rem}"
    ".differs{border-color:var(--bad)}.same{border-color:var(--good)}\n"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem "
    "1rem}dt{color:var(--soft)}"
    "dd{margin:0;overflow-wrap:anywhere}\n"
    ".wide{overflow-x:auto;max-width:100%}\n"
    "table{border-collapse:collapse;font-size:.85rem}caption{text-align:left;color:var(--soft);"
    "padding-bottom:.4rem}\n"
    "th,td{padding:.15rem .45rem;border:1px solid "
    "var(--line);text-align:right;white-space:nowrap}"
    "th[scope=row],td.t,th.t{text-align:left}\n"
    "th[scope=row]{position:sticky;left:0;background:var(--bg)}\n"
    ".heat td{min-width:1.6rem;padding:.15rem .2rem}\n"
    ".a{background:var(--h0)}.b{background:var(--h1)}.c{background:var(--h2)}.d{background:"
    "var(--h3)}.e{background:var(--h4)}.f{background:var(--bad);color:var(--badfg);font-weight:"
    "bold}\n"
    ".key span{display:inline-block;padding:0 .5rem;margin-right:.3rem;border:1px solid "
    "var(--line)}\n"
    ":focus-visible{outline:3px solid var(--soft)}\n";

/* Text into HTML: control bytes and bad UTF-8 replaced, markup escaped. */
static void put(FILE *to, const char *text)
{
    char clean[COMPARE_LINE];
    for (const char *s = term_clean(clean, sizeof clean, text); *s; s++) {
        switch (*s) {
        case '&':
            fputs("&amp;", to);
            break;
        case '<':
            fputs("&lt;", to);
            break;
        case '>':
            fputs("&gt;", to);
            break;
        case '"':
            fputs("&quot;", to);
            break;
        default:
            fputc(*s, to);
        }
    }
}

static void put_pair(FILE *to, const char *term, const char *text)
{
    fprintf(to, "<dt>%s</dt><dd>", term);
    put(to, text);
    fputs("</dd>\n", to);
}

static void put_number(FILE *to, const char *term, double x)
{
    char text[40];
    snprintf(text, sizeof text, "%.9g", x);
    put_pair(to, term, text);
}

static void put_head(FILE *to, const kvref_diff *d, const compare_told *told)
{
    char line[COMPARE_LINE];
    const char *kind = d->verdict == KVREF_DIFFERS ? "differs"
                       : d->verdict == KVREF_SAME  ? "same"
                                                   : "unknown";
    fputs(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
        "'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>",
        to);
    put(to, compare_verdict(d));
    fputs(": kvref compare</title>\n<style>\n", to);
    fputs(style, to);
    fprintf(
        to, "</style>\n</head>\n<body>\n<main>\n<h1 class=\"verdict %s\">Two traces: ", kind);
    put(to, compare_verdict(d));
    fputs("</h1>\n<p>", to);
    put(to, compare_summary(line, d));
    fputs(".</p>\n<dl>\n", to);
    put_pair(to, "A, the reference", told->path_a);
    put_pair(to, "B, judged", told->path_b);
    put_pair(to, "Rule", told->rule);
    if (told->limits) put_pair(to, "Limits of", told->limits);
    put_pair(to, "Inputs", compare_inputs(line, d));
    if (*compare_margins(line, d)) put_pair(to, "Margins", line);
    fputs("</dl>\n", to);
}

static void put_spot(FILE *to, const kvref_tap_diff *t)
{
    char line[COMPARE_LINE], used[16];
    const kvref_spot *s = &t->first;
    put_pair(to, "Where", compare_where(line, t, s));
    put_pair(to, "Element", compare_element(line, t, s));
    put_number(to, "In A", s->a);
    put_number(to, "In B", s->b);
    put_number(to, "Error", fabs(s->a - s->b));
    put_number(to, "Limit", t->limit);
    put_pair(to, "Rule", compare_rule(line, t));
    put_pair(to, "Share of the limit at worst", compare_used(used, t->used));
    snprintf(line, sizeof line, "%zu of %zu values of this tensor", t->n_bad, t->n);
    put_pair(to, "Out of limit", line);
}

static void put_first(FILE *to, const kvref_diff *d)
{
    char line[COMPARE_LINE];
    if (d->verdict != KVREF_DIFFERS) return;
    fputs("<h2>First divergence</h2>\n<dl>\n", to);
    if (d->first_is_choice) {
        put_pair(to, "A choice", compare_choice(line, &d->split));
    } else if (d->first) {
        put_spot(to, d->first);
        if (d->inputs == KVREF_INPUTS_PART)
            put_pair(to, "Later, a choice", compare_choice(line, &d->split));
    } else {
        snprintf(line,
                 sizeof line,
                 "other lengths: %" PRId64 " and %" PRId64 " frames",
                 d->n_frame_a,
                 d->n_frame_b);
        put_pair(to, "Length", d->inputs == KVREF_INPUTS_PROMPT ? "of the prompt" : line);
    }
    fputs("</dl>\n", to);
    if (d->n_hint > 0) fputs("<h2>Looks like</h2>\n<ul>\n", to);
    for (int i = 0; i < d->n_hint; i++) {
        fputs("<li>", to);
        put(to, d->hint[i]);
        fputs("</li>\n", to);
    }
    if (d->n_hint > 0) fputs("</ul>\n", to);
}

/* ---- heat map ---- */

static char shade(double used)
{
    static const double step[] = {0.1, 0.25, 0.5, 0.75, 1};
    int i = 0;
    while (i < 5 && !(used <= step[i])) i++;
    return (char)('a' + i);
}

static void put_cell(FILE *to, double used)
{
    if (used < 0) {
        fputs("<td>–</td>", to);
    } else if (used > 9.99) {
        fputs("<td class=\"f\">&gt;999</td>", to);
    } else {
        double percent = used > 1 ? ceil(100 * used) : floor(100 * used + 0.5);
        fprintf(to, "<td class=\"%c\">%.0f</td>", shade(used), percent);
    }
}

static void put_heat(FILE *to, const kvref_diff *d)
{
    char name[32];
    int n = d->n_lane < MAX_LANES ? d->n_lane : MAX_LANES;
    if (n == 0) return;
    fputs("<h2 id=\"heat\">Share of the limit, by layer and frame</h2>\n"
          "<p class=\"key\">Percent of the limit: <span class=\"a\">to 10</span><span "
          "class=\"b\">to "
          "25</span><span class=\"c\">to 50</span><span class=\"d\">to 75</span><span "
          "class=\"e\">to "
          "100</span><span class=\"f\">over 100: out of limit</span></p>\n"
          "<div class=\"wide\" role=\"region\" aria-labelledby=\"heat\" tabindex=\"0\">\n"
          "<table class=\"heat\">\n<caption>Largest share of a limit in percent over the taps "
          "of a "
          "layer; – where nothing is judged. \"in\" is what layers start from, \"out\" what "
          "follows the last.</caption>\n<thead><tr><th scope=\"col\" class=\"t\">Frame</th>",
          to);
    for (int64_t c = 0; c < d->n_column; c++) {
        int64_t first = c * d->frames_per_column;
        fprintf(to, "<th scope=\"col\">%" PRId64, first);
        if (d->frames_per_column > 1)
            fprintf(to, "–%" PRId64, first + d->frames_per_column - 1);
        fputs("</th>", to);
    }
    fputs("</tr></thead>\n<tbody>\n", to);
    for (int i = 0; i < n; i++) {
        const kvref_lane *l = &d->lane[i];
        fprintf(to, "<tr><th scope=\"row\">%s</th>", compare_lane(name, l->fast, l->layer));
        for (int64_t c = 0; c < d->n_column; c++) put_cell(to, l->used[c]);
        fputs("</tr>\n", to);
    }
    fputs("</tbody>\n</table>\n</div>\n", to);
    if (n < d->n_lane) fprintf(to, "<p>%d layers more are not shown.</p>\n", d->n_lane - n);
}

/* ---- tables ---- */

static void put_tap(FILE *to, const kvref_tap_diff *t)
{
    char used[16];
    const char *state = compare_state(t);
    fputs("<tr><th scope=\"row\"><code>", to);
    put(to, t->a->name);
    fprintf(to, "</code></th><td>%s</td>", kvref_rule_name(t->rule.rule));
    if (t->n == 0) {
        fputs("<td>–</td><td>–</td><td>–</td><td>0</td><td>–</td>", to);
    } else {
        fprintf(to,
                "<td class=\"%c\">%s</td><td>%.3g</td><td>%.3g</td><td>%zu</td><td>%zu</td>",
                t->state == KVREF_TAP_JUDGED ? shade(t->used) : 'a',
                compare_used(used, t->used),
                t->max_err,
                t->limit,
                t->n,
                t->n_bad);
    }
    fprintf(to,
            "<td class=\"t\">%s</td></tr>\n",
            state      ? state
            : t->n_bad ? "out of limit"
                       : "within");
}

static void put_taps(FILE *to, const kvref_diff *d)
{
    fputs("<h2 id=\"taps\">Tensors of both, in order of computation</h2>\n"
          "<div class=\"wide\" role=\"region\" aria-labelledby=\"taps\" "
          "tabindex=\"0\">\n<table>\n"
          "<caption>Rules T0 to T4: exact, derived, calibrated, decision, sound</caption>\n"
          "<thead><tr><th scope=\"col\" class=\"t\">Tensor</th><th scope=\"col\">Rule</th><th "
          "scope=\"col\">Share used</th><th scope=\"col\">Largest error</th><th "
          "scope=\"col\">Limit"
          "</th><th scope=\"col\">Values</th><th scope=\"col\">Out of limit</th><th "
          "scope=\"col\" "
          "class=\"t\">Verdict</th></tr></thead>\n<tbody>\n",
          to);
    for (int i = 0; i < d->n_tap; i++) put_tap(to, &d->tap[i]);
    fputs("</tbody>\n</table>\n</div>\n", to);
}

static void put_missing(FILE *to, const char *side, const kvref_tensor *const *t, int n)
{
    if (n == 0) return;
    fprintf(to, "<details><summary>In %s alone: %d tensors</summary><ul>\n", side, n);
    for (int i = 0; i < n; i++) {
        fputs("<li><code>", to);
        put(to, t[i]->name);
        fputs("</code></li>\n", to);
    }
    fputs("</ul></details>\n", to);
}

static void put_settings(FILE *to, const kvref_diff *d)
{
    const char *key, *a, *b;
    bool any = false;
    for (int i = 0; i < COMPARE_N_SETTING; i++) {
        if (!compare_setting(i, d, &key, &a, &b)) continue;
        if (!any)
            fputs(
                "<h2 id=\"settings\">Settings that differ</h2>\n<div class=\"wide\" "
                "role=\"region\" "
                "aria-labelledby=\"settings\" tabindex=\"0\">\n<table>\n<thead><tr><th scope="
                "\"col\" class=\"t\">Setting</th><th scope=\"col\" class=\"t\">A</th><th scope="
                "\"col\" class=\"t\">B</th></tr></thead>\n<tbody>\n",
                to);
        any = true;
        fprintf(to, "<tr><th scope=\"row\">%s</th><td class=\"t\">", key);
        put(to, a);
        fputs("</td><td class=\"t\">", to);
        put(to, b);
        fputs("</td></tr>\n", to);
    }
    if (any) fputs("</tbody>\n</table>\n</div>\n", to);
}

void compare_html(FILE *to, const kvref_diff *d, const compare_told *told)
{
    put_head(to, d, told);
    put_first(to, d);
    put_heat(to, d);
    put_taps(to, d);
    put_missing(to, "A", d->only_a, d->n_only_a);
    put_missing(to, "B", d->only_b, d->n_only_b);
    put_settings(to, d);
    fputs("</main>\n</body>\n</html>\n", to);
}
