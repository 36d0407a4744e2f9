/* SPDX-License-Identifier: MIT */
/* Parts of kvref bench: arms, the rounds that time them in turns, what they must move, what the
 * machine can do, and the result in several forms.
 *
 * An arm is a decoder with its settings; a point is an arm at one prompt length. All arms are
 * open at the same time in one process, and every round runs each of them once on the same
 * prompt, which no other round has. */
#ifndef KVREF_TOOLS_BENCH_H
#define KVREF_TOOLS_BENCH_H

#include "kvref/backend.h"
#include "tools/session.h"

#include <stdio.h>

enum { BENCH_MAX_ARM = 64, BENCH_MAX_LENGTH = 32, BENCH_N_OP = 10 };

typedef struct bench_args {
    decoder_args decoder; /* what arms do not say */
    cli_list arm, sweep;
    const char *length, *plot;
    int n_frame, n_round, n_warm, buffer_mb;
    uint64_t seed;
    float need_ratio, need_share;
    bool synthetic, protocol, profile, same_bits, json, csv;
} bench_args;

/* ---- bench_stats.c ---- */

typedef struct bench_stats {
    int n;
    double min, q1, median, q3, max;
} bench_stats;

/* Of x [n], which is sorted on the way. Quartiles lie between neighbours in proportion: the
 * value at place p (n - 1). n 0 gives zeros. */
bench_stats bench_stats_of(double *x, int n);

/* ---- bench_cost.c ---- */

/* What a decoded frame cannot do without, in bytes as the backend stores them: every layer's
 * weights once, those of the fast transformer once for each of its N-1 passes, the head's rows
 * of the candidates, and K and V of every position so far (spec 02 section 8, 03 section 5). */
typedef struct bench_cost {
    double slow_layers, head, fast_layers, fast_head, other;
    double position;     /* slow K and V of one position                        */
    double prefill_madd; /* multiply-adds of the slow linear layers, a position */
} bench_cost;

/* size: bytes of a weight and of a cached value; 0: as in the file, and float32. */
bench_cost bench_cost_of(const kvref_config *config, const kvref_weights *weights, size_t size);
double bench_cost_weights(const bench_cost *cost);

/* ---- bench_arm.c ---- */

typedef struct bench_arm {
    char name[120];
    decoder_args decoder;
    int n_layer; /* slow layers that are run, the model's first; 0: all */
    int key;     /* arms of one key must give equal bits, -1: of none   */
    kvref_config config;
    const kvref_backend *backend;
    kvref_decoder *open;
    int n_thread;
    double open_s; /* seconds                                              */
    double anon;   /* bytes that became resident while it was at work      */
    bench_cost cost;
} bench_arm;

/* Arms of the command line: --arm, or prefix and full, times the values of every --sweep.
 * Parses only; *n is at most BENCH_MAX_ARM. */
kvref_status bench_arms(bench_arm *arm, int *n, const bench_args *args, kvref_error *err);

/* Opens the decoder with these options filled from the arm; tap may be NULL. */
kvref_status bench_arm_open(kvref_decoder **out,
                            const bench_arm *arm,
                            const kvref_model *model,
                            const kvref_tap *tap,
                            kvref_error *err);

/* Finds backends, config and costs, gives keys, opens every decoder. */
kvref_status bench_arms_open(
    bench_arm *arm, int n, const kvref_model *model, const bench_args *args, kvref_error *err);
void bench_arms_close(bench_arm *arm, int n);

const char *bench_attention(const bench_arm *arm);
const char *bench_exec(const bench_arm *arm);
const char *bench_linear(const bench_arm *arm);
const char *bench_rope(const bench_arm *arm);

/* ---- bench_clock.c ---- */

/* Times of one run of kvref_generate, taken around the calls of the backend. */
typedef struct bench_clock {
    const kvref_backend *real;
    bool synthetic;             /* a prefill only pretends: see bench_fill             */
    double prefill;             /* seconds of the call with the prompt                 */
    double *step, *slow, *fast; /* [n_step] decode steps: whole frame, and its calls   */
    int n_step;
    double cpu;        /* seconds of processor time of all steps              */
    long minor, major; /* page faults of all steps                            */
    uint64_t kv_bytes; /* counted by the backend: K and V bytes of the last step */
    void (*mark)(void *user, bool entry); /* NULL, or hears of every call              */
    void *user;

    /* Inside: */
    kvref_backend proxy;
    double start, in_slow, in_fast, cpu0;
    long minor0, major0;
    int n_row;
} bench_clock;

/* kvref_generate of n_frame frames with times; a hash of frames and of the bits of the logits
 * that follow. round: address of prompt and noise. */
kvref_status bench_generate(bench_clock *clock,
                            uint64_t *hash,
                            const bench_arm *arm,
                            kvref_decoder *d,
                            const bench_args *args,
                            int n_prompt,
                            int round,
                            kvref_error *err);

/* ---- bench_prompt.c ---- */

/* n positions drawn by seed and round: text in the first half, then speech. */
kvref_status bench_prompt(kvref_frames *out,
                          const kvref_config *config,
                          int n,
                          uint64_t seed,
                          int round,
                          kvref_error *err);

/* Instead of a prefill of n positions: numbers in K and V, as many as it would have made. Only
 * for the backend ref. */
void bench_fill(kvref_decoder *d, int n, uint64_t seed);

/* ---- bench_rates.c ---- */

/* What the machine can do in the same run: bytes a second that n threads read from memory by a
 * plain loop, float32 operations a second of sgemm. Medians over all passes. */
typedef struct bench_rates {
    int n_thread;
    bench_stats read, sgemm; /* n 0: not measured */
    double *read_x, *sgemm_x;
    int n_read, n_sgemm, cap;
} bench_rates;

/* ---- bench_run.c ---- */

typedef struct bench_point {
    const bench_arm *arm;
    int n_prompt;
    bench_stats prefill, step, slow, fast; /* seconds                               */
    double kv_len;                         /* of the median step                    */
    int kv_first, kv_last;
    double move;       /* bytes that the median step must move  */
    double kv_counted; /* K and V bytes that its last step read */
    double cpu, wall;  /* seconds of all steps                  */
    long minor, major; /* page faults of all steps              */
    uint64_t *hash;    /* [round]                               */
    bool differs;      /* from another arm of its key           */
} bench_point;

typedef struct bench_op {
    const char *name;
    double seconds; /* a frame */
} bench_op;

typedef struct bench_profile {
    const bench_arm *arm; /* NULL: not made */
    int n_prompt;
    double total;
    bench_op op[2 * BENCH_N_OP + 1]; /* slow, fast, and the rest */
    int n_op;
} bench_profile;

typedef struct bench {
    const bench_args *args;
    kvref_model *model;
    bench_arm arm[BENCH_MAX_ARM];
    int n_arm;
    int length[BENCH_MAX_LENGTH];
    int n_length;
    bench_point *point; /* [length, arm] without those that do not fit */
    int n_point;
    bench_rates rate[BENCH_MAX_ARM];
    int n_rate;
    char *buffer;
    size_t n_buffer;
    bench_profile *profile; /* [arm] */
    int n_profile;
    double load_s;
    int n_differ;
} bench;

kvref_status bench_rates_open(bench *b, kvref_error *err);
kvref_status bench_rates_round(bench *b, kvref_error *err);
void bench_rates_close(bench *b);
const bench_rates *bench_rates_for(const bench *b, const bench_arm *arm);

kvref_status bench_run(bench *b, kvref_error *err);
void bench_clear(bench *b);

/* Marks points whose hashes differ from those of the first arm of their key at the same prompt
 * length; returns how many. hash has n_round entries in each. */
int bench_compare(bench_point *point, int n, int n_round);

/* ---- bench_profile.c ---- */

/* Where the time of a decoded frame goes, by the taps of the backend ref. */
kvref_status bench_profiles(bench *b, kvref_error *err);

/* ---- bench_text.c, bench_json.c, bench_plot.c ---- */

/* Share of the read bandwidth that a point reaches, of the sgemm rate that its prefill reaches,
 * and its time over that of the first arm at the same length; 0: not known. */
double bench_share(const bench *b, const bench_point *p);
double bench_gemm_share(const bench *b, const bench_point *p);
double bench_ratio(const bench *b, const bench_point *p);

void bench_print(const bench *b);
void bench_print_protocol(const bench *b);
void bench_print_json(const bench *b);
void bench_print_csv(const bench *b);
kvref_status bench_plot(const bench *b, const char *path, kvref_error *err);

#endif
