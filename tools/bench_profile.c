/* SPDX-License-Identifier: MIT */
/* Where the time of a decoded frame goes. A second decoder has a tap after every operation; the
 * time since the tap before it belongs to that operation. Taps cost some twenty nanoseconds
 * each, and nothing is computed for them: of the head only the candidates' rows, as without.
 * The draw of a frame's last book counts to the next frame. */
#include "tools/bench.h"

#include "base/base.h"
#include "ref/ref.h"
#include "tools/term.h"

#include <stdlib.h>
#include <string.h>

enum op { EMBED, NORM, QKV, ATTENTION, ATTN_OUT, GATE_UP, DOWN, SUM, HEAD, REST };

static const char *const op_name[2][BENCH_N_OP] = {
    {"slow embedding",
     "slow norms, first sum",
     "slow q k v, rotation",
     "slow attention, append",
     "slow attention output",
     "slow gate and up",
     "slow down",
     "slow second sum",
     "slow head",
     "slow rest"},
    {"fast embedding",
     "fast norms, first sum",
     "fast q k v, rotation",
     "fast attention, append",
     "fast attention output",
     "fast gate and up",
     "fast down",
     "fast second sum",
     "fast head",
     "fast rest"},
};

/* A tap's name without the transformer. */
static const struct {
    const char *tap;
    enum op op;
} op_of[] = {
    {"embed", EMBED},
    {"attn_norm", NORM},
    {"q", QKV},
    {"k", QKV},
    {"v", QKV},
    {"attn", ATTENTION},
    {"attn_out", ATTN_OUT},
    {"ffn_norm", NORM},
    {"ffn_act", GATE_UP},
    {"ffn_out", DOWN},
    {"out", SUM},
    {"norm", NORM},
    {"logits", HEAD},
    {"hidden", HEAD},
};

enum { N_KIND = 2 * BENCH_N_OP + 1, OUTSIDE = N_KIND - 1 };

typedef struct profiler {
    double last;   /* time of the last event                             */
    double *spent; /* [N_KIND, n_frame]: seconds of a kind in a frame    */
    int n_frame;   /* the prefill's, frame 0, included                   */
    int frame;     /* where a time belongs; n_frame: all calls are over  */
    int n_call;    /* calls of a frame that have begun                   */
    int per_frame; /* of so many                                         */
    int part;      /* transformer of the last tap                        */
} profiler;

static void spend(profiler *p, int kind)
{
    double now = term_clock();
    if (p->frame < p->n_frame) p->spent[kind * p->n_frame + p->frame] += now - p->last;
    p->last = now;
}

static void on_tap(void *user, const kvref_tap_data *data)
{
    profiler *p = user;
    p->part = data->name[0] == 'f';
    for (size_t i = 0; i < sizeof op_of / sizeof op_of[0]; i++)
        if (strcmp(data->name + 5, op_of[i].tap) == 0)
            spend(p, p->part * BENCH_N_OP + (int)op_of[i].op);
}

static void on_call(void *user, bool entry)
{
    profiler *p = user;
    spend(p, entry ? OUTSIDE : p->part * BENCH_N_OP + REST);
    if (entry) {
        p->n_call++;
    } else if (p->n_call == p->per_frame) {
        p->n_call = 0;
        p->frame++;
    }
}

static int by_time(const void *a, const void *b)
{
    const bench_op *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

/* Medians over the decoded frames, so that a disturbance of one frame does not count. */
static void conclude(bench_profile *out, const profiler *p)
{
    for (int i = 0; i < N_KIND; i++) {
        double *x = p->spent + i * p->n_frame + 1;
        const char *name =
            i == OUTSIDE ? "sampling, loop" : op_name[i / BENCH_N_OP][i % BENCH_N_OP];
        out->op[out->n_op] = (bench_op){name, bench_stats_of(x, p->n_frame - 1).median};
        out->total += out->op[out->n_op++].seconds;
    }
    qsort(out->op, (size_t)out->n_op, sizeof out->op[0], by_time);
}

static kvref_status
make(bench_profile *out, const bench *b, const bench_arm *arm, kvref_error *err)
{
    int n = b->args->n_frame; /* a frame is a slow call and N-1 fast ones */
    profiler p = {.n_frame = n, .per_frame = arm->config.n_codebook};
    const kvref_tap tap = {on_tap, &p, KVREF_TAP_OPS};
    kvref_decoder *d;
    uint64_t hash;
    double *times = calloc((size_t)n * (3 + N_KIND), sizeof *times);
    if (!times) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    p.spent = times + 3 * n;
    kvref_status s = bench_arm_open(&d, arm, b->model, &tap, err);
    if (s == KVREF_OK) {
        d->all_logits = NULL;
        bench_clock clock = {.step = times,
                             .slow = times + n,
                             .fast = times + 2 * n,
                             .n_step = n - 1,
                             .mark = on_call,
                             .user = &p};
        p.last = term_clock();
        s = bench_generate(&clock, &hash, arm, d, b->args, b->length[0], 0, err);
        arm->backend->close(&d);
    }
    if (s == KVREF_OK) {
        *out = (bench_profile){.arm = arm, .n_prompt = b->length[0]};
        conclude(out, &p);
    }
    free(times);
    return s;
}

kvref_status bench_profiles(bench *b, kvref_error *err)
{
    kvref_log log = term_notes("bench");
    b->profile = calloc((size_t)b->n_arm, sizeof *b->profile);
    if (!b->profile) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    for (int i = 0; i < b->n_arm; i++) {
        const bench_arm *arm = &b->arm[i];
        bool fits = b->length[0] <= arm->decoder.capacity - b->args->n_frame;
        if (arm->backend != kvref_backend_ref()) {
            kvref_note(&log, "--profile: %s: only the backend ref can tell", arm->name);
        } else if (fits) {
            KVREF_TRY(make(&b->profile[b->n_profile++], b, arm, err));
        }
    }
    return KVREF_OK;
}
