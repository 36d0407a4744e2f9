/* SPDX-License-Identifier: MIT */
/* The result for programs: one JSON object, or one CSV line a point. Times are seconds. */
#include "tools/bench.h"

#include "base/base.h"
#include "config.h"
#include "ref/ref.h"
#include "tools/machine.h"
#include "tools/term.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void put(json_t *o, const char *key, json_t *value)
{
    json_object_set_new(o, key, value);
}

static void put_text(json_t *o, const char *key, const char *value)
{
    char clean[300];
    put(o, key, json_string(term_clean(clean, sizeof clean, value)));
}

static json_t *json_stats(const bench_stats *s)
{
    return json_pack("{s:i,s:f,s:f,s:f,s:f,s:f}",
                     "n",
                     s->n,
                     "min",
                     s->min,
                     "q1",
                     s->q1,
                     "median",
                     s->median,
                     "q3",
                     s->q3,
                     "max",
                     s->max);
}

static json_t *json_machine(void)
{
    char cpu[200], date[21];
    json_t *o = json_object();
    machine_proc(cpu, sizeof cpu, "/proc/cpuinfo", "model name");
    machine_date(date);
    put_text(o, "cpu", cpu);
    put(o, "processors", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    put(o,
        "memory_bytes",
        json_real((double)sysconf(_SC_PAGESIZE) * (double)sysconf(_SC_PHYS_PAGES)));
    put_text(o, "vectors", ref_simd_best()->name);
    put_text(o, "kvref", PACKAGE_VERSION);
    put_text(o, "commit", BUILD_COMMIT);
    put_text(o, "compiler", MACHINE_COMPILER);
    put_text(o, "flags", BUILD_FLAGS);
    put_text(o, "sanitizer", MACHINE_SANITIZER);
    put_text(o, "date", date);
    return o;
}

static json_t *json_cost(const bench_cost *c)
{
    return json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f}",
                     "slow_layers",
                     c->slow_layers,
                     "head",
                     c->head,
                     "fast_layers",
                     c->fast_layers,
                     "fast_head",
                     c->fast_head,
                     "other",
                     c->other,
                     "together",
                     bench_cost_weights(c),
                     "kv_position",
                     c->position);
}

static json_t *json_arm(const bench_arm *arm)
{
    json_t *o = json_object();
    bool device = arm->backend->device_bytes != NULL;
    put_text(o, "name", arm->name);
    put_text(o, "backend", arm->backend->name);
    put_text(o, "exec", arm->backend->frame ? bench_exec(arm) : "cpu");
    put_text(o, "attention", bench_attention(arm));
    put_text(o, "linear", bench_linear(arm));
    put_text(o, "rope_table", bench_rope(arm));
    put(o, "threads", json_integer(arm->n_thread));
    put(o, "capacity", json_integer(arm->decoder.capacity));
    put(o, "slow_layers", json_integer(arm->config.slow.n_layer));
    put(o, "fast_layers", json_integer(arm->config.fast.n_layer));
    put(o, "open_s", json_real(arm->open_s));
    put(o, "resident_bytes", json_real(arm->anon));
    put(o,
        "device_bytes",
        device ? json_real((double)arm->backend->device_bytes(arm->open)) : json_null());
    put(o, "frame_bytes", json_cost(&arm->cost));
    return o;
}

/* 0 means not known. */
static json_t *known(double x)
{
    return x > 0 ? json_real(x) : json_null();
}

static json_t *json_point(const bench *b, const bench_point *p)
{
    json_t *o = json_object(), *hash = json_array();
    const struct {
        const char *key;
        double value;
    } number[] = {{"kv_len", p->kv_len},
                  {"move_bytes", p->move},
                  {"kv_counted_bytes", p->kv_counted},
                  {"cpu_s", p->cpu},
                  {"wall_s", p->wall}};
    put_text(o, "arm", p->arm->name);
    put(o, "prompt", json_integer(p->n_prompt));
    put(o, "kv_first", json_integer(p->kv_first));
    put(o, "kv_last", json_integer(p->kv_last));
    put(o, "prefill_s", b->args->synthetic ? json_null() : json_stats(&p->prefill));
    put(o, "step_s", json_stats(&p->step));
    put(o, "slow_s", json_stats(&p->slow));
    put(o, "fast_s", json_stats(&p->fast));
    for (size_t i = 0; i < sizeof number / sizeof number[0]; i++)
        put(o, number[i].key, json_real(number[i].value));
    put(o, "read_share", known(bench_share(b, p)));
    put(o, "sgemm_share", known(bench_gemm_share(b, p)));
    put(o, "ratio", known(bench_ratio(b, p)));
    put(o, "page_faults", json_integer(p->minor));
    put(o, "page_faults_disk", json_integer(p->major));
    for (int i = 0; i < b->args->n_round; i++) {
        char text[20];
        snprintf(text, sizeof text, "%016" PRIx64, p->hash[i]);
        json_array_append_new(hash, json_string(text));
    }
    put(o, "hash", hash);
    put(o, "differs", json_boolean(p->differs));
    return o;
}

static json_t *json_profile(const bench_profile *p)
{
    json_t *o = json_object(), *ops = json_array();
    put_text(o, "arm", p->arm->name);
    put(o, "prompt", json_integer(p->n_prompt));
    put(o, "frame_s", json_real(p->total));
    for (int i = 0; i < p->n_op; i++)
        json_array_append_new(ops,
                              json_pack("{s:s,s:f,s:f}",
                                        "op",
                                        p->op[i].name,
                                        "seconds",
                                        p->op[i].seconds,
                                        "share",
                                        p->total > 0 ? p->op[i].seconds / p->total : 0.0));
    put(o, "ops", ops);
    return o;
}

static json_t *json_rates(const bench *b)
{
    json_t *list = json_array();
    for (int i = 0; i < b->n_rate; i++) {
        const bench_rates *r = &b->rate[i];
        json_t *o = json_object();
        put(o, "threads", json_integer(r->n_thread));
        put(o, "read_bytes_per_s", json_stats(&r->read));
        put(o, "sgemm_flop_per_s", r->sgemm.n ? json_stats(&r->sgemm) : json_null());
        json_array_append_new(list, o);
    }
    return list;
}

void bench_print_json(const bench *b)
{
    json_t *o = json_object(), *arms = json_array(), *points = json_array(),
           *profiles = json_array();
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    put(o, "machine", json_machine());
    put_text(o, "model", b->args->decoder.model);
    put(o, "map_s", json_real(b->load_s));
    put(o, "frames", json_integer(b->args->n_frame));
    put(o, "rounds", json_integer(b->args->n_round));
    put(o, "warm_up", json_integer(b->args->n_warm));
    put(o, "synthetic_past", json_boolean(b->args->synthetic));
    put(o, "rates", json_rates(b));
    for (int i = 0; i < b->n_arm; i++) json_array_append_new(arms, json_arm(&b->arm[i]));
    for (int i = 0; i < b->n_point; i++)
        json_array_append_new(points, json_point(b, &b->point[i]));
    for (int i = 0; i < b->n_profile; i++)
        json_array_append_new(profiles, json_profile(&b->profile[i]));
    put(o, "arms", arms);
    put(o, "points", points);
    put(o, "profiles", profiles);
    put(o, "peak_resident_bytes", json_real(1024.0 * (double)use.ru_maxrss));
    put(o, "equal", json_boolean(b->n_differ == 0));
    json_dumpf(o, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(o);
}

/* A text between quotes, those inside doubled. */
static void csv_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"') putchar('"');
        putchar(*text);
    }
    printf("\",");
}

void bench_print_csv(const bench *b)
{
    printf("arm,backend,exec,attention,linear,rope_table,threads,capacity,slow_layers,prompt,"
           "kv_len,prefill_s,step_s,step_min_s,step_q1_s,step_q3_s,slow_s,fast_s,move_bytes,"
           "read_share,ratio,resident_bytes,page_faults,differs\n");
    for (int i = 0; i < b->n_point; i++) {
        const bench_point *p = &b->point[i];
        const bench_arm *arm = p->arm;
        csv_text(arm->name);
        printf("%s,%s,%s,%s,%s,%d,%d,%d,%d,%.1f,",
               arm->backend->name,
               arm->backend->frame ? bench_exec(arm) : "cpu",
               bench_attention(arm),
               bench_linear(arm),
               bench_rope(arm),
               arm->n_thread,
               arm->decoder.capacity,
               arm->config.slow.n_layer,
               p->n_prompt,
               p->kv_len);
        printf("%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.0f,%.4f,%.4f,%.0f,%ld,%d\n",
               b->args->synthetic ? 0.0 : p->prefill.median,
               p->step.median,
               p->step.min,
               p->step.q1,
               p->step.q3,
               p->slow.median,
               p->fast.median,
               p->move,
               bench_share(b, p),
               bench_ratio(b, p),
               arm->anon,
               p->minor,
               p->differs);
    }
}
