/* SPDX-License-Identifier: MIT */
/* The result for people: the machine, one line a point, memory an arm, the profile. */
#include "tools/bench.h"

#include "base/base.h"
#include "config.h"
#include "ref/ref.h"
#include "tools/machine.h"
#include "tools/term.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void print_machine(const bench *b)
{
    char cpu[200], date[21];
    const bench_args *a = b->args;
    machine_proc(cpu, sizeof cpu, "/proc/cpuinfo", "model name");
    machine_date(date);
    printf("machine   %s, %ld processors, %s, %s\n",
           cpu,
           sysconf(_SC_NPROCESSORS_ONLN),
           term_bytes((double)sysconf(_SC_PAGESIZE) * (double)sysconf(_SC_PHYS_PAGES)),
           ref_simd_best()->name);
    printf("build     kvref %s, commit %s, %s, %s\n",
           PACKAGE_VERSION,
           BUILD_COMMIT,
           MACHINE_COMPILER,
           BUILD_FLAGS);
    printf("run       %s, %s, mapped in %.3f s; %d frames a round, %d rounds after %d to warm "
           "up%s\n",
           date,
           a->decoder.model,
           b->load_s,
           a->n_frame,
           a->n_round,
           a->n_warm,
           a->synthetic ? "; the past is filled in, not prefilled" : "");
    for (int i = 0; i < b->n_rate; i++) {
        const bench_rates *r = &b->rate[i];
        printf("%-9s %d thread%s read %.1f GB/s (%.1f .. %.1f)",
               i ? "" : "memory",
               r->n_thread,
               r->n_thread == 1 ? "" : "s",
               1e-9 * r->read.median,
               1e-9 * r->read.min,
               1e-9 * r->read.max);
        if (r->sgemm.n) printf("; sgemm %.1f GFLOP/s", 1e-9 * r->sgemm.median);
        printf("; %s at a time\n", term_bytes((double)b->n_buffer));
    }
}

static int name_width(const bench *b)
{
    size_t width = 8;
    for (int i = 0; i < b->n_arm; i++)
        if (strlen(b->arm[i].name) > width) width = strlen(b->arm[i].name);
    return (int)width;
}

/* A number, or a dash when it is not known. */
static void cell(int width, int digits, double x)
{
    if (x > 0) {
        printf(" %*.*f", width, digits, x);
    } else {
        printf(" %*s", width, "-");
    }
}

static void print_point(const bench *b, const bench_point *p, int width)
{
    printf("%-*s %6d %7.0f", width, p->arm->name, p->n_prompt, p->kv_len);
    cell(11, 2, b->args->synthetic ? 0 : 1e3 * p->prefill.median);
    printf(" %10.3f %9.3f %9.3f %9.3f",
           1e3 * p->step.median,
           1e3 * p->step.min,
           1e3 * p->step.q1,
           1e3 * p->step.q3);
    cell(9, 3, 1e3 * p->slow.median);
    cell(9, 3, 1e3 * p->fast.median);
    cell(8, 2, 1e-9 * p->move / p->step.median);
    cell(6, 0, 100 * bench_share(b, p));
    cell(7, 2, bench_ratio(b, p));
    double used = p->wall > 0 ? p->cpu / p->wall : 0;
    cell(5, 2, used);
    printf("%s\n", p->differs ? "  DIFFERS" : "");
}

static void print_points(const bench *b)
{
    int width = name_width(b);
    printf("\n%-*s %6s %7s %11s %10s %9s %9s %9s %9s %9s %8s %6s %7s %5s\n",
           width,
           "arm",
           "prompt",
           "kv_len",
           "prefill ms",
           "step ms",
           "min",
           "q1",
           "q3",
           "slow",
           "fast",
           "GB/s",
           "% read",
           "ratio",
           "cpus");
    for (int i = 0; i < b->n_point; i++) print_point(b, &b->point[i], width);
    printf(
        "step: median of all decoded frames, sampling included; slow, fast: the calls inside. "
        "GB/s: bytes that a\nframe has to move (weights once, each pass of the fast layers, "
        "K and V up to kv_len) over the step;\n%% read: of the memory rate above; ratio: over "
        "the first arm; cpus: processor time over time.\n");
    for (int i = 0; i < b->n_point; i++) {
        double share = bench_gemm_share(b, &b->point[i]);
        if (share > 0)
            printf("prefill of %d by %s: %.1f GFLOP/s in linear layers, %.0f %% of sgemm\n",
                   b->point[i].n_prompt,
                   b->point[i].arm->name,
                   2e-9 * b->point[i].arm->cost.prefill_madd * b->point[i].n_prompt /
                       b->point[i].prefill.median,
                   100 * share);
    }
}

static void print_arm(const bench *b, const bench_arm *arm)
{
    long minor = 0, major = 0;
    double kv = 0;
    for (int i = 0; i < b->n_point; i++)
        if (b->point[i].arm == arm) {
            minor += b->point[i].minor;
            major += b->point[i].major;
            kv = b->point[i].kv_counted;
        }
    printf(
        "%s: %s %s, attention %s, linear %s, rope table %s, %d threads, capacity %d, %d + %d "
        "layers\n",
        arm->name,
        arm->backend->name,
        arm->backend->frame ? bench_exec(arm) : "cpu",
        bench_attention(arm),
        bench_linear(arm),
        bench_rope(arm),
        arm->n_thread,
        arm->decoder.capacity,
        arm->config.slow.n_layer,
        arm->config.fast.n_layer);
    printf("    weights a frame %s, K and V %s a position (last step read %s); resident %s, ",
           term_bytes(bench_cost_weights(&arm->cost)),
           term_bytes(arm->cost.position),
           term_bytes(kv),
           term_bytes(arm->anon));
    if (arm->backend->device_bytes)
        printf("on the device %s, ", term_bytes((double)arm->backend->device_bytes(arm->open)));
    printf("opened in %.3f s; page faults while decoding: %ld, %ld from disk\n",
           arm->open_s,
           minor,
           major);
}

static void print_profile(const bench_profile *p)
{
    printf("\n%s, prompt of %d: %.3f ms a frame\n", p->arm->name, p->n_prompt, 1e3 * p->total);
    for (int i = 0; i < p->n_op; i++)
        if (p->op[i].seconds >= 0.0005 * p->total)
            printf("  %-24s %9.3f ms %5.1f %%\n",
                   p->op[i].name,
                   1e3 * p->op[i].seconds,
                   100 * p->op[i].seconds / p->total);
}

static void print_bits(const bench *b)
{
    if (b->n_differ == 0) {
        printf("bits      equal wherever they have to be\n");
        return;
    }
    for (int i = 0; i < b->n_point; i++)
        if (b->point[i].differs)
            printf("bits      DIFFER: %s, prompt of %d\n",
                   b->point[i].arm->name,
                   b->point[i].n_prompt);
}

void bench_print(const bench *b)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    print_machine(b);
    print_points(b);
    printf("\n");
    for (int i = 0; i < b->n_arm; i++) print_arm(b, &b->arm[i]);
    for (int i = 0; i < b->n_profile; i++) print_profile(&b->profile[i]);
    printf("\npeak resident of the process %s, weights and the memory that is read included\n",
           term_bytes(1024.0 * (double)use.ru_maxrss));
    print_bits(b);
}

/* ---- the seeds' table ---- */

/* The point of a mode: same backend and exec, the other attention. */
static const bench_point *other(const bench *b, const bench_point *p)
{
    for (int i = 0; i < b->n_point; i++) {
        const bench_point *q = &b->point[i];
        if (q->arm->backend == p->arm->backend &&
            q->arm->decoder.exec == p->arm->decoder.exec &&
            q->arm->decoder.attention != p->arm->decoder.attention)
            return q;
    }
    return NULL;
}

static double held(const bench_arm *arm)
{
    return arm->backend->device_bytes ? (double)arm->backend->device_bytes(arm->open)
                                      : arm->anon;
}

void bench_print_protocol(const bench *b)
{
    printf("\nprompt [%d, %d], capacity %d, temperature 0.8, top_p 0.8, top_k 30, %d frames a "
           "sample, sample 0 to warm up, median of %d\n\n",
           1 + b->arm[0].config.n_codebook,
           b->length[0],
           b->arm[0].decoder.capacity,
           b->args->n_frame,
           b->args->n_round);
    printf("| | full capacity | active prefix | ratio |\n|---|---|---|---|\n");
    for (int i = 0; i < b->n_point; i++) {
        const bench_point *p = &b->point[i], *q = other(b, p);
        if (p->arm->decoder.attention == KVREF_ATTN_FULL || !q) continue;
        printf("| %s, %s | %.2f tok/s, %.1f ms, %s %s | %.2f tok/s, %.1f ms, %s %s | %.2f |\n",
               p->arm->backend->name,
               p->arm->backend->frame ? bench_exec(p->arm) : "cpu",
               1 / q->step.median,
               1e3 * q->step.median,
               term_bytes(held(q->arm)),
               q->arm->backend->device_bytes ? "on the device" : "resident",
               1 / p->step.median,
               1e3 * p->step.median,
               term_bytes(held(p->arm)),
               p->arm->backend->device_bytes ? "on the device" : "resident",
               q->step.median / p->step.median);
    }
    printf("\n");
}
