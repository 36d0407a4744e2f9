/* SPDX-License-Identifier: MIT */
/* The rounds: at every prompt length first those that warm up, then those that count; in each
 * every arm once, from another arm on each time, then the rates of the machine. Arms of one key
 * must give equal bits in every round. */
#include "tools/bench.h"

#include "base/base.h"
#include "tools/term.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct point_times {
    double *prefill;            /* [round]              */
    double *step, *slow, *fast; /* [round, n_frame - 1] */
} point_times;

/* Bytes of anonymous memory that are resident. */
static double anonymous(void)
{
    char line[200];
    double kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "RssAnon:", 8) == 0) kib = strtod(line + 8, NULL);
    if (f) fclose(f);
    return 1024 * kib;
}

static bool fits(const bench_arm *arm, const bench_args *args, int n_prompt)
{
    return n_prompt <= arm->decoder.capacity - args->n_frame;
}

static kvref_status make_points(bench *b, kvref_error *err)
{
    size_t n_round = (size_t)b->args->n_round;
    b->point = calloc((size_t)b->n_arm * (size_t)b->n_length, sizeof *b->point);
    if (!b->point) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    for (int i = 0; i < b->n_length; i++)
        for (int j = 0; j < b->n_arm; j++) {
            const bench_arm *arm = &b->arm[j];
            kvref_log log = term_notes("bench");
            if (!fits(arm, b->args, b->length[i])) {
                kvref_note(&log,
                           "%s: %d positions and %d frames do not fit capacity %d; left out",
                           arm->name,
                           b->length[i],
                           b->args->n_frame,
                           arm->decoder.capacity);
                continue;
            }
            bench_point *p = &b->point[b->n_point++];
            *p = (bench_point){.arm = arm, .n_prompt = b->length[i]};
            p->hash = calloc(n_round, sizeof *p->hash);
            if (!p->hash) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
        }
    if (b->n_point) return KVREF_OK;
    return kvref_fail(err, KVREF_E_CAPACITY, "no prompt length fits the capacity of any arm");
}

/* One block of times for n points. */
static kvref_status
times_open(point_times *t, double **block, int n, const bench_args *a, kvref_error *err)
{
    size_t n_round = (size_t)a->n_round, n_step = n_round * (size_t)(a->n_frame - 1);
    size_t one = n_round + 3 * n_step;
    *block = calloc((size_t)n * one, sizeof **block);
    if (!*block) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    for (int i = 0; i < n; i++) {
        double *x = *block + (size_t)i * one;
        t[i] = (point_times){x, x + n_round, x + n_round + n_step, x + n_round + 2 * n_step};
    }
    return KVREF_OK;
}

/* One arm once. round < 0: it warms up; its numbers are written over by round 0. */
static kvref_status
measure(bench *b, bench_point *p, const point_times *t, int round, kvref_error *err)
{
    bench_arm *arm = &b->arm[p->arm - b->arm];
    int n_step = b->args->n_frame - 1, at = round < 0 ? 0 : round;
    size_t from = (size_t)at * (size_t)n_step;
    bench_clock clock = {.step = t->step + from,
                         .slow = t->slow + from,
                         .fast = t->fast + from,
                         .n_step = n_step};
    double before = anonymous();
    KVREF_TRY(bench_generate(&clock,
                             &p->hash[at],
                             arm,
                             arm->open,
                             b->args,
                             p->n_prompt,
                             round + b->args->n_warm,
                             err));
    t->prefill[at] = clock.prefill;
    if (round < 0 || b->args->n_warm == 0) arm->anon += anonymous() - before;
    if (round < 0) return KVREF_OK;
    p->cpu += clock.cpu;
    p->minor += clock.minor;
    p->major += clock.major;
    p->kv_counted = (double)clock.kv_bytes;
    for (int i = 0; i < n_step; i++) p->wall += clock.step[i];
    return KVREF_OK;
}

static void conclude(bench_point *p, point_times *t, const bench_args *a)
{
    int n = a->n_round * (a->n_frame - 1);
    p->prefill = bench_stats_of(t->prefill, a->n_round);
    p->step = bench_stats_of(t->step, n);
    p->slow = bench_stats_of(t->slow, n);
    p->fast = bench_stats_of(t->fast, n);
    p->kv_first = p->n_prompt + 1; /* step i reads positions 0..T+i-1 and its own */
    p->kv_last = p->n_prompt + a->n_frame - 1;
    p->kv_len = 0.5 * (p->kv_first + p->kv_last);
    p->move = bench_cost_weights(&p->arm->cost) + p->kv_len * p->arm->cost.position;
}

static kvref_status run_length(bench *b, bench_point *p, int n, kvref_error *err)
{
    const bench_args *a = b->args;
    point_times t[BENCH_MAX_ARM];
    double *block;
    term_meter meter;
    char text[200];
    KVREF_TRY(times_open(t, &block, n, a, err));
    kvref_status s = KVREF_OK;
    term_meter_open(&meter, "bench", "rounds");
    for (int round = -a->n_warm; round < a->n_round && s == KVREF_OK; round++) {
        for (int i = 0; i < n && s == KVREF_OK; i++) {
            int j = (i + round + a->n_warm) % n;
            snprintf(text,
                     sizeof text,
                     "prompt of %d, %s round %d, %s",
                     p->n_prompt,
                     round < 0 ? "warm-up" : "counted",
                     round < 0 ? round + a->n_warm + 1 : round + 1,
                     p[j].arm->name);
            term_meter_text(&meter, text);
            s = measure(b, &p[j], &t[j], round, err);
            if (s != KVREF_OK) blame(p[j].arm->name, s, err);
        }
        if (s == KVREF_OK) s = bench_rates_round(b, err);
    }
    term_meter_close(&meter);
    for (int i = 0; i < n && s == KVREF_OK; i++) conclude(&p[i], &t[i], a);
    free(block);
    return s;
}

kvref_status bench_run(bench *b, kvref_error *err)
{
    for (int i = 0; i < b->n_arm; i++) { /* one at a time, to see what each one takes */
        double before = anonymous();
        KVREF_TRY(bench_arms_open(&b->arm[i], 1, b->model, b->args, err));
        b->arm[i].anon = anonymous() - before;
    }
    KVREF_TRY(make_points(b, err));
    KVREF_TRY(bench_rates_open(b, err));
    for (int i = 0, n; i < b->n_point; i += n) {
        for (n = 1; i + n < b->n_point && b->point[i + n].n_prompt == b->point[i].n_prompt; n++)
            continue;
        KVREF_TRY(run_length(b, &b->point[i], n, err));
    }
    for (int i = 0; i < b->n_rate; i++) {
        b->rate[i].read = bench_stats_of(b->rate[i].read_x, b->rate[i].n_read);
        b->rate[i].sgemm = bench_stats_of(b->rate[i].sgemm_x, b->rate[i].n_sgemm);
    }
    b->n_differ = bench_compare(b->point, b->n_point, b->args->n_round);
    return KVREF_OK;
}

void bench_clear(bench *b)
{
    bench_arms_close(b->arm, b->n_arm);
    bench_rates_close(b);
    for (int i = 0; i < b->n_point; i++) free(b->point[i].hash);
    free(b->point);
    free(b->profile);
    kvref_model_close(&b->model);
}

/* ---- figures that are made of others ---- */

double bench_share(const bench *b, const bench_point *p)
{
    const bench_rates *r = bench_rates_for(b, p->arm);
    return r && r->read.n ? p->move / p->step.median / r->read.median : 0;
}

double bench_gemm_share(const bench *b, const bench_point *p)
{
    const bench_rates *r = bench_rates_for(b, p->arm);
    bool blas = p->arm->decoder.linear == KVREF_LINEAR_BLAS;
    if (!r || !r->sgemm.n || !blas || b->args->synthetic) return 0;
    return 2 * p->arm->cost.prefill_madd * p->n_prompt / p->prefill.median / r->sgemm.median;
}

double bench_ratio(const bench *b, const bench_point *p)
{
    const bench_point *first = p;
    while (first > b->point && first[-1].n_prompt == p->n_prompt) first--;
    return p->step.median / first->step.median;
}
