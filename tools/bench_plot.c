/* SPDX-License-Identifier: MIT */
/* Three panels as SVG: step time against kv_len, against capacity, and where a frame's time
 * goes. Axes of the first two are logarithmic, a series is one form of attention. */
#include "tools/bench.h"

#include "base/base.h"
#include "tools/term.h"

#include <errno.h>
#include <math.h>
#include <string.h>

enum { W = 420, H = 330, LEFT = 62, RIGHT = 14, TOP = 34, BOTTOM = 46 };

typedef struct panel {
    FILE *to;
    double x0;              /* of the panel in the picture  */
    double low[2], high[2]; /* of x and y, powers of a base */
} panel;

static const char *const colour[] = {"#1b6ca8", "#c1440e", "#2e7d32", "#6a3d9a"};

/* Arms that may share a series: all but attention, capacity and name alike. */
static bool alike(const bench_arm *a, const bench_arm *b, bool capacity)
{
    return a->backend == b->backend && a->decoder.exec == b->decoder.exec &&
           a->decoder.linear == b->decoder.linear && a->n_thread == b->n_thread &&
           a->config.slow.n_layer == b->config.slow.n_layer &&
           (!capacity || a->decoder.capacity == b->decoder.capacity);
}

/* x of a point, or 0 when it is not of the panel: by kv_len, points of the first arm's kind and
 * capacity; by capacity, points of its kind and the first prompt length. */
static double place(const bench *b, const bench_point *p, bool by_capacity)
{
    const bench_arm *first = b->point[0].arm;
    if (!alike(p->arm, first, !by_capacity)) return 0;
    if (!by_capacity) return p->kv_len;
    return p->n_prompt == b->point[0].n_prompt ? p->arm->decoder.capacity : 0;
}

static double scaled(const panel *p, int axis, double value)
{
    double low = log(p->low[axis]), high = log(p->high[axis]);
    double part = (log(value) - low) / (high - low);
    return axis ? TOP + (1 - part) * (H - TOP - BOTTOM)
                : p->x0 + LEFT + part * (W - LEFT - RIGHT);
}

static void text(const panel *p, double x, double y, const char *anchor, const char *what)
{
    fprintf(p->to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    for (; *what; what++) {
        if (*what == '<' || *what == '>' || *what == '&' || *what == '"')
            fprintf(p->to, "&#%d;", *what);
        else
            fputc(*what, p->to);
    }
    fputs("</text>\n", p->to);
}

static void line(const panel *p, double x1, double y1, double x2, double y2, const char *stroke)
{
    fprintf(p->to,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n",
            x1,
            y1,
            x2,
            y2,
            stroke);
}

/* Grid lines at powers of 4 (x) or at 1, 2, 5 times powers of 10 (y, milliseconds). */
static void grid(const panel *p, const char *title, const char *unit)
{
    char label[40];
    double bottom = H - BOTTOM, left = p->x0 + LEFT, right = p->x0 + W - RIGHT;
    text(p, 0.5 * (left + right), TOP - 14, "middle", title);
    text(p, 0.5 * (left + right), H - 10, "middle", unit);
    for (int i = 0; i < 31; i += 2) {
        double x = ldexp(1, i), at = scaled(p, 0, x);
        if (x < p->low[0] || x > p->high[0]) continue;
        line(p, at, TOP, at, bottom, "#ddd");
        snprintf(label, sizeof label, "%.0f", x);
        text(p, at, bottom + 14, "middle", label);
    }
    static const double step[] = {1, 2, 5};
    for (int i = -18; i <= 18; i++) {
        double y = step[(i + 18) % 3] * pow(10, floor(i / 3.0));
        if (y < p->low[1] || y > p->high[1]) continue;
        double at = scaled(p, 1, y);
        line(p, left, at, right, at, "#ddd");
        snprintf(label, sizeof label, "%g", y);
        text(p, left - 5, at + 4, "end", label);
    }
    line(p, left, TOP, left, bottom, "#333");
    line(p, left, bottom, right, bottom, "#333");
    text(p, left - 5, TOP - 4, "end", "ms");
}

static bool ranges(panel *p, const bench *b, bool by_capacity)
{
    p->low[0] = p->low[1] = HUGE_VAL;
    p->high[0] = p->high[1] = 0;
    for (int i = 0; i < b->n_point; i++) {
        double x = place(b, &b->point[i], by_capacity), y = 1e3 * b->point[i].step.median;
        if (!(x > 0) || !(y > 0)) continue;
        p->low[0] = fmin(p->low[0], x);
        p->high[0] = fmax(p->high[0], x);
        p->low[1] = fmin(p->low[1], y);
        p->high[1] = fmax(p->high[1], y);
    }
    if (!(p->high[0] > 0)) return false;
    p->low[0] /= 1.3;
    p->high[0] *= 1.3;
    p->low[1] /= 1.6;
    p->high[1] *= 1.6;
    return true;
}

static void
series(const panel *p, const bench *b, bool by_capacity, int attention, double key_y)
{
    double x, y, last_x = 0, last_y = 0, next = 0;
    const char *stroke = colour[attention];
    for (;;) { /* points in the order of x */
        const bench_point *best = NULL;
        double from = next;
        next = HUGE_VAL;
        for (int i = 0; i < b->n_point; i++) {
            double at = place(b, &b->point[i], by_capacity);
            if (b->point[i].arm->decoder.attention == attention && at > from && at < next) {
                next = at;
                best = &b->point[i];
            }
        }
        if (!best) break;
        x = scaled(p, 0, next);
        y = scaled(p, 1, 1e3 * best->step.median);
        line(p,
             x,
             scaled(p, 1, 1e3 * best->step.q1),
             x,
             scaled(p, 1, 1e3 * best->step.q3),
             stroke);
        fprintf(p->to, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x, y, stroke);
        if (last_x > 0) line(p, last_x, last_y, x, y, stroke);
        last_x = x;
        last_y = y;
    }
    if (!(last_x > 0)) return;
    fprintf(p->to,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\" fill=\"%s\"/>\n",
            p->x0 + LEFT + 8,
            key_y - 9,
            stroke);
    text(
        p, p->x0 + LEFT + 22, key_y, "start", attention == KVREF_ATTN_FULL ? "full" : "prefix");
}

static void curve(FILE *to, const bench *b, int column, bool by_capacity)
{
    panel p = {.to = to, .x0 = column * W};
    const char *title = by_capacity ? "Time of a step by capacity" : "Time of a step by kv_len";
    if (!ranges(&p, b, by_capacity)) return;
    grid(&p, title, by_capacity ? "capacity, positions" : "kv_len, positions");
    series(&p, b, by_capacity, KVREF_ATTN_PREFIX, TOP + 14);
    series(&p, b, by_capacity, KVREF_ATTN_FULL, TOP + 30);
}

/* One bar an operation of the first profile, the dearest first. */
static void bars(FILE *to, const bench *b)
{
    panel p = {.to = to, .x0 = 2 * W};
    char label[80];
    if (!b->n_profile) {
        text(&p, p.x0 + 0.5 * W, 0.5 * H, "middle", "--profile was not asked for");
        return;
    }
    const bench_profile *f = &b->profile[0];
    snprintf(label, sizeof label, "Where a frame's time goes: %.40s", f->arm->name);
    text(&p, p.x0 + 0.5 * W, TOP - 14, "middle", label);
    for (int i = 0; i < f->n_op && i < 12; i++) {
        double y = TOP + 22 * i, share = f->total > 0 ? f->op[i].seconds / f->total : 0;
        text(&p, p.x0 + 160, y + 14, "end", f->op[i].name);
        fprintf(to,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"16\" fill=\"%s\"/>\n",
                p.x0 + 166,
                y + 2,
                200 * share,
                colour[f->op[i].name[0] == 'f'   ? 2
                       : f->op[i].name[1] == 'a' ? 3
                                                 : 0]);
        snprintf(label, sizeof label, "%.1f %%", 100 * share);
        text(&p, p.x0 + 170 + 200 * share, y + 14, "start", label);
    }
}

kvref_status bench_plot(const bench *b, const char *path, kvref_error *err)
{
    term_writing(path);
    FILE *to = fopen(path, "w");
    kvref_status s = KVREF_OK;
    if (to) {
        fprintf(to,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                "font-family=\"sans-serif\" font-size=\"11\">\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                3 * W,
                H);
        curve(to, b, 0, false);
        curve(to, b, 1, true);
        bars(to, b);
        fputs("</svg>\n", to);
    }
    if (!to || ferror(to) | fclose(to))
        s = kvref_fail(err, KVREF_E_IO, "%s: cannot write: %s", path, strerror(errno));
    term_written();
    return s;
}
