/* SPDX-License-Identifier: MIT */
/* The generation loop under a clock. A proxy stands before the backend: it has the same calls
 * and notes when they begin and end. A backend's calls carry no user pointer, so the proxy
 * finds its clock in one variable; runs are never nested. */
#include "tools/bench.h"

#include "base/base.h"
#include "base/hash.h"
#include "tools/term.h"

#include <stdlib.h>
#include <sys/resource.h>

static bench_clock *running;

static void enter(void)
{
    if (running->mark) running->mark(running->user, true);
}

static void leave(void)
{
    if (running->mark) running->mark(running->user, false);
}

static double seconds(const struct timeval *t)
{
    return (double)t->tv_sec + 1e-6 * (double)t->tv_usec;
}

static void read_usage(double *cpu, long *minor, long *major)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    *cpu = seconds(&use.ru_utime) + seconds(&use.ru_stime);
    *minor = use.ru_minflt;
    *major = use.ru_majflt;
}

static kvref_status proxy_slow(
    kvref_decoder *d, float *logits, const int32_t *frames, int n_frame, kvref_error *err)
{
    bench_clock *c = running;
    if (c->synthetic && n_frame > 1) {
        int n_row = c->n_row;
        bench_fill(d, n_frame - 1, (uint64_t)n_frame);
        frames += (size_t)(n_frame - 1) * (size_t)n_row;
        n_frame = 1;
    }
    enter();
    double start = term_clock();
    kvref_status s = c->real->slow(d, logits, frames, n_frame, err);
    c->in_slow += term_clock() - start;
    leave();
    return s;
}

static kvref_status
proxy_fast(kvref_decoder *d, float *logits, int book, int32_t code, kvref_error *err)
{
    bench_clock *c = running;
    enter();
    double start = term_clock();
    kvref_status s = c->real->fast(d, logits, book, code, err);
    c->in_fast += term_clock() - start;
    leave();
    return s;
}

static kvref_status proxy_frame(kvref_decoder *d,
                                int32_t *frame,
                                float *logits,
                                const kvref_frame_call *call,
                                kvref_error *err)
{
    bench_clock *c = running;
    double start = term_clock();
    kvref_status s = c->real->frame(d, frame, logits, call, err);
    c->in_slow += term_clock() - start;
    return s;
}

static int on_frame(void *user, int n_frame, int limit)
{
    bench_clock *c = user;
    double now = term_clock();
    (void)limit;
    if (n_frame == 1) {
        c->prefill = c->in_slow;
        read_usage(&c->cpu0, &c->minor0, &c->major0);
    } else if (n_frame - 2 < c->n_step) {
        c->step[n_frame - 2] = now - c->start;
        c->slow[n_frame - 2] = c->in_slow;
        c->fast[n_frame - 2] = c->in_fast;
    }
    if (n_frame - 1 == c->n_step) {
        double cpu;
        long minor, major;
        read_usage(&cpu, &minor, &major);
        c->cpu = cpu - c->cpu0;
        c->minor = minor - c->minor0;
        c->major = major - c->major0;
    }
    c->in_slow = c->in_fast = 0;
    c->start = term_clock();
    return 0;
}

/* One more position after the last frame. Its logits follow from every cached bit. */
static kvref_status hash_logits(uint64_t *hash,
                                const bench_arm *arm,
                                kvref_decoder *d,
                                const kvref_frames *made,
                                kvref_error *err)
{
    const kvref_config *c = &arm->config;
    int n = kvref_config_candidates(c, NULL, 0), most = n > c->n_code ? n : c->n_code;
    const int32_t *frame = made->value + (size_t)(made->n_frame - 1) * (size_t)made->n_row;
    float *logits = malloc((size_t)most * sizeof *logits);
    if (!logits) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    kvref_status s = arm->backend->slow(d, logits, frame, 1, err);
    if (s == KVREF_OK) *hash = kvref_fnv64(*hash, logits, sizeof *logits * (size_t)n);
    for (int b = 1; s == KVREF_OK && b < c->n_codebook; b++) {
        s = arm->backend->fast(d, logits, b, frame[b], err);
        if (s == KVREF_OK)
            *hash = kvref_fnv64(*hash, logits, sizeof *logits * (size_t)c->n_code);
    }
    free(logits);
    return s;
}

static void count(bench_clock *clock, const bench_arm *arm, kvref_decoder *d)
{
    clock->kv_bytes = 0;
    for (int l = 0; l < arm->config.slow.n_layer; l++)
        clock->kv_bytes += arm->backend->kv_count(d, l).bytes;
}

/* The seeds' settings. No frame may be the end, so that every run is as long. */
static kvref_generate_opts options(bench_clock *clock, const bench_args *args, int round)
{
    return (kvref_generate_opts){
        .sampling = {0.8f, 0.8f, 30},
        .max_new_tokens = args->n_frame,
        .min_frames = args->n_frame,
        .sample = round,
        .progress = on_frame,
        .user = clock,
    };
}

kvref_status bench_generate(bench_clock *clock,
                            uint64_t *hash,
                            const bench_arm *arm,
                            kvref_decoder *d,
                            const bench_args *args,
                            int n_prompt,
                            int round,
                            kvref_error *err)
{
    kvref_frames prompt = {0};
    kvref_noise *noise = NULL;
    kvref_generated g = {0};
    kvref_generate_opts opts = options(clock, args, round);
    clock->real = arm->backend;
    clock->proxy = *arm->backend;
    clock->proxy.slow = proxy_slow;
    clock->proxy.fast = proxy_fast;
    if (arm->backend->frame) clock->proxy.frame = proxy_frame;
    clock->synthetic = args->synthetic;
    clock->n_row = 1 + arm->config.n_codebook;
    clock->in_slow = clock->in_fast = 0;
    running = clock;
    kvref_status s = bench_prompt(&prompt, &arm->config, n_prompt, args->seed, round, err);
    if (s == KVREF_OK) s = kvref_noise_counter(&noise, args->seed, err);
    if (s == KVREF_OK)
        s = kvref_generate(&clock->proxy, d, &arm->config, &g, &prompt, noise, &opts, err);
    if (s == KVREF_OK) {
        count(clock, arm, d);
        size_t n = (size_t)g.frames.n_frame * (size_t)g.frames.n_row;
        *hash = kvref_fnv64(KVREF_FNV64, g.frames.value, n * sizeof *g.frames.value);
        s = hash_logits(hash, arm, d, &g.frames, err);
    }
    kvref_generated_clear(&g);
    kvref_noise_close(&noise);
    kvref_frames_clear(&prompt);
    return s;
}
