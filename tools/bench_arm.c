/* SPDX-License-Identifier: MIT */
/* Arms: reading them from the command line, opening their decoders, and which of them have to
 * give equal bits. Keys of an arm are the options of the decoder, so that whatever can be
 * chosen on a command line can be compared. */
#include "tools/bench.h"

#include "base/base.h"
#include "base/pool.h"
#include "ref/ref.h"
#include "tools/backends.h"
#include "tools/term.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEYS "name, backend, exec, attention, linear, threads, capacity, rope-table, layers"

const char *bench_attention(const bench_arm *arm)
{
    return arm->decoder.attention == KVREF_ATTN_FULL ? "full" : "prefix";
}

const char *bench_exec(const bench_arm *arm)
{
    return arm->decoder.exec == KVREF_EXEC_GRAPH ? "graph" : "eager";
}

const char *bench_linear(const bench_arm *arm)
{
    return arm->decoder.linear == KVREF_LINEAR_BLAS ? "blas" : "exact";
}

const char *bench_rope(const bench_arm *arm)
{
    return arm->decoder.rope_table == KVREF_ROPE_F32 ? "f32" : "bf16";
}

/* ---- reading ---- */

static kvref_status
set(bench_arm *arm, const char *key, const char *value, const char *option, kvref_error *err)
{
    static const cli_option layers[] = {
        {.kind = CLI_INT, .name = "layers", .arg = "N", .min = 1, .max = 100000},
        {.kind = CLI_END}};
    if (strcmp(key, "name") == 0) {
        term_clean(arm->name, sizeof arm->name, value);
        return KVREF_OK;
    }
    if (strcmp(key, "layers") == 0)
        return blame(option, cli_store(layers, &arm->n_layer, key, value, err), err);
    if (strcmp(key, "rope") == 0) key = "rope-table";
    if (strcmp(key, "model") == 0 || strcmp(key, "verbose") == 0 ||
        cli_store(decoder_options, &arm->decoder, key, value, NULL) == KVREF_E_ARG) {
        const char *const known[] = {
            "backend", "exec", "attention", "linear", "threads", "capacity", "rope-table"};
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            if (strcmp(key, known[i]) == 0)
                return blame(
                    option, cli_store(decoder_options, &arm->decoder, key, value, err), err);
        return kvref_fail(
            err, KVREF_E_ARG, "%s: unknown key \"%s\", expected one of " KEYS, option, key);
    }
    return KVREF_OK;
}

/* Takes the text up to the first `end` from *from into out; false when there is no such end. */
static bool cut(char *out, size_t cap, const char **from, char end)
{
    size_t n = strcspn(*from, (char[]){end, 0});
    snprintf(out, cap, "%.*s", (int)(n < cap ? n : cap - 1), *from);
    bool found = (*from)[n] == end;
    *from += n + found;
    return found;
}

static kvref_status parse(bench_arm *arm, const char *text, kvref_error *err)
{
    char pair[200], key[60];
    for (const char *p = text; *p;) {
        cut(pair, sizeof pair, &p, ',');
        const char *value = pair;
        if (!cut(key, sizeof key, &value, '='))
            return kvref_fail(
                err, KVREF_E_ARG, "--arm: expected KEY=VALUE, found \"%s\"", pair);
        KVREF_TRY(set(arm, key, value, "--arm", err));
    }
    if (!arm->name[0]) term_clean(arm->name, sizeof arm->name, text);
    return KVREF_OK;
}

/* Every arm once for every value of a sweep. */
static kvref_status multiply(bench_arm *arm, int *n, const char *text, kvref_error *err)
{
    bench_arm before[BENCH_MAX_ARM];
    int n_before = *n, n_value = 0;
    char key[60], value[60], name[sizeof arm->name];
    const char *p = text;
    if (!cut(key, sizeof key, &p, '=') || !*p)
        return kvref_fail(
            err, KVREF_E_ARG, "--sweep: expected KEY=VALUE,VALUE..., found \"%s\"", text);
    memcpy(before, arm, sizeof *arm * (size_t)n_before);
    for (*n = 0; *p; n_value++) {
        cut(value, sizeof value, &p, ',');
        for (int i = 0; i < n_before; i++) {
            if (*n == BENCH_MAX_ARM)
                return kvref_fail(
                    err, KVREF_E_ARG, "--sweep: expected at most %d arms", BENCH_MAX_ARM);
            arm[*n] = before[i];
            KVREF_TRY(set(&arm[*n], key, value, "--sweep", err));
            snprintf(name, sizeof name, "%.60s %.20s=%.30s", before[i].name, key, value);
            memcpy(arm[*n].name, name, sizeof name);
            ++*n;
        }
    }
    return KVREF_OK;
}

kvref_status bench_arms(bench_arm *arm, int *n, const bench_args *args, kvref_error *err)
{
    static const char *const both[] = {"attention=prefix,name=prefix",
                                       "attention=full,name=full"};
    int n_text = args->arm.n ? args->arm.n : 2;
    *n = 0;
    if (n_text > BENCH_MAX_ARM)
        return kvref_fail(
            err, KVREF_E_ARG, "--arm: expected at most %d, found %d", BENCH_MAX_ARM, n_text);
    for (int i = 0; i < n_text; i++) {
        arm[i] = (bench_arm){.decoder = args->decoder};
        KVREF_TRY(parse(&arm[i], args->arm.n ? args->arm.item[i] : both[i], err));
        ++*n;
    }
    for (int i = 0; i < args->sweep.n; i++)
        KVREF_TRY(multiply(arm, n, args->sweep.item[i], err));
    return KVREF_OK;
}

/* ---- opening ---- */

static bool is_ref(const bench_arm *arm)
{
    return arm->backend == kvref_backend_ref();
}

static kvref_status check(const bench_arm *arm, const bench_args *args, kvref_error *err)
{
    if (arm->decoder.exec == KVREF_EXEC_GRAPH && !arm->backend->frame)
        return kvref_fail(
            err,
            KVREF_E_ARG,
            "arm %s: exec graph: backend %s has no device; expected cudacpu or cuda",
            arm->name,
            arm->backend->name);
    if (!is_ref(arm) && (arm->n_layer || args->synthetic))
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "arm %s: %s: expected the backend ref with it, found %s",
                          arm->name,
                          arm->n_layer ? "layers" : "--synthetic-past",
                          arm->backend->name);
    if (arm->n_layer > arm->config.slow.n_layer)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "arm %s: layers: expected at most %d, found %d",
                          arm->name,
                          arm->config.slow.n_layer,
                          arm->n_layer);
    return KVREF_OK;
}

kvref_status bench_arm_open(kvref_decoder **out,
                            const bench_arm *arm,
                            const kvref_model *model,
                            const kvref_tap *tap,
                            kvref_error *err)
{
    const decoder_args *d = &arm->decoder;
    kvref_decoder_opts opts = {
        .capacity = d->capacity,
        .n_thread = d->n_thread,
        .attention = (kvref_attention)d->attention,
        .linear = (kvref_linear)d->linear,
        .rope_table = (kvref_rope_table)d->rope_table,
        .exec = (kvref_exec)d->exec,
    };
    if (tap) opts.tap = *tap;
    if (arm->n_layer) /* the config has fewer layers than the model */
        return ref_decoder_open(out, &arm->config, kvref_model_weights(model), &opts, err);
    return arm->backend->open(out, model, &opts, err);
}

/* Arms that compute the same function in the same precision. Products by OpenBLAS are judged
 * by rule and never by bits. */
static int key_of(const bench_arm *arm, const bench_args *args)
{
    if (args->same_bits) return 0;
    if (arm->decoder.linear == KVREF_LINEAR_BLAS) return -1;
    return (arm->config.slow.n_layer * 2 + (int)arm->decoder.rope_table) * 2 + !is_ref(arm);
}

static kvref_status
open_one(bench_arm *arm, const kvref_model *model, const bench_args *args, kvref_error *err)
{
    KVREF_TRY(blame(arm->name, backend_find(&arm->backend, arm->decoder.backend, err), err));
    arm->config = *kvref_model_config(model);
    KVREF_TRY(check(arm, args, err));
    if (arm->n_layer) arm->config.slow.n_layer = arm->n_layer;
    if (arm->decoder.capacity == 0) arm->decoder.capacity = arm->config.max_seq_len;
    arm->n_thread = kvref_pool_threads(arm->decoder.n_thread);
    arm->key = key_of(arm, args);
    arm->cost = bench_cost_of(
        &arm->config, kvref_model_weights(model), is_ref(arm) ? 0 : sizeof(short));
    double start = term_clock();
    KVREF_TRY(blame(arm->name, bench_arm_open(&arm->open, arm, model, NULL, err), err));
    arm->open_s = term_clock() - start;
    return KVREF_OK;
}

kvref_status bench_arms_open(
    bench_arm *arm, int n, const kvref_model *model, const bench_args *args, kvref_error *err)
{
    for (int i = 0; i < n; i++) KVREF_TRY(open_one(&arm[i], model, args, err));
    return KVREF_OK;
}

void bench_arms_close(bench_arm *arm, int n)
{
    for (int i = 0; i < n; i++)
        if (arm[i].open) arm[i].backend->close(&arm[i].open);
}
