/* SPDX-License-Identifier: MIT */
/* kvref bench: decoders against each other in one process, and against what the machine can
 * do. */
#include "base/base.h"
#include "tools/bench.h"
#include "tools/blas_core.h"
#include "tools/commands.h"
#include "tools/term.h"

#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(bench_args, field)
static const cli_option bench_options[] = {
    {.kind = CLI_TABLE, .name = "", .table = decoder_options, .at = AT(decoder)},
    {.kind = CLI_GROUP, .name = "What is compared"},
    {.kind = CLI_LIST,
     .name = "arm",
     .arg = "KEY=VALUE,...",
     .at = AT(arm),
     .help =
         "one decoder; keys are backend, exec, attention, linear, threads, capacity and "
         "rope-table, as the options above, which hold for what an arm does not say; name, "
         "for the output; layers, to run only the first slow layers. Without it: prefix and "
         "full"},
    {.kind = CLI_LIST,
     .name = "sweep",
     .arg = "KEY=VALUE,VALUE,...",
     .at = AT(sweep),
     .help = "every arm once for each value of a key"},
    {.kind = CLI_FLAG,
     .name = "seed-protocol",
     .at = AT(protocol),
     .help = "prompt of 234, capacity 32768, four samples of which sample 0 warms up, full and "
             "prefix (eager and graph where the backend has a device), and a table of them"},
    {.kind = CLI_GROUP, .name = "How it is measured"},
    {.kind = CLI_TEXT,
     .name = "prompt-length",
     .arg = "N,N,...",
     .at = AT(length),
     .initial = "234",
     .help = "positions before the first frame; drawn by the seed, others in each round"},
    {.kind = CLI_INT,
     .name = "frames",
     .arg = "N",
     .at = AT(n_frame),
     .min = 2,
     .max = 100000,
     .initial = "16",
     .help = "frames of a round; the first belongs to the prefill"},
    {.kind = CLI_INT,
     .name = "repeat",
     .arg = "N",
     .at = AT(n_round),
     .min = 1,
     .max = 10000,
     .initial = "3",
     .help = "rounds that count; each runs every arm once, from another arm on each time"},
    {.kind = CLI_INT,
     .name = "warm-up",
     .arg = "N",
     .at = AT(n_warm),
     .min = 0,
     .max = 1000,
     .initial = "1",
     .help = "rounds before them, which do not count"},
    {.kind = CLI_SEED,
     .name = "seed",
     .arg = "N",
     .at = AT(seed),
     .initial = "42",
     .help = "of prompts and sampling"},
    {.kind = CLI_FLAG,
     .name = "synthetic-past",
     .at = AT(synthetic),
     .help = "fill K and V with numbers instead of prefilling: long contexts at once, in the "
             "backend ref"},
    {.kind = CLI_INT,
     .name = "bandwidth-mb",
     .arg = "N",
     .at = AT(buffer_mb),
     .min = -1,
     .max = 65536,
     .initial = "-1",
     .help = "memory to read for the rate of the machine; -1 is twice the largest cache, 0 "
             "measures no rates"},
    {.kind = CLI_FLAG,
     .name = "profile",
     .at = AT(profile),
     .help = "also the share of every operation, at the first prompt length"},
    {.kind = CLI_GROUP, .name = "What is checked"},
    {.kind = CLI_FLAG,
     .name = "same-bits",
     .at = AT(same_bits),
     .help = "take all arms for ones that must give equal bits, not only those that differ in "
             "attention, capacity, threads and exec alone"},
    {.kind = CLI_REAL,
     .name = "require-ratio",
     .arg = "X",
     .at = AT(need_ratio),
     .min = 0,
     .max = 1e6,
     .initial = "0",
     .help = "a step of the last arm has to take X times that of the first, or longer"},
    {.kind = CLI_REAL,
     .name = "require-share",
     .arg = "X",
     .at = AT(need_share),
     .min = 0,
     .max = 100,
     .initial = "0",
     .help = "the first arm has to move X percent of what plain reads do, or more"},
    {.kind = CLI_GROUP, .name = "Output"},
    {.kind = CLI_FLAG, .name = "json", .at = AT(json), .help = "print one JSON object"},
    {.kind = CLI_FLAG, .name = "csv", .at = AT(csv), .help = "print one line a point"},
    {.kind = CLI_TEXT,
     .name = "plot",
     .arg = "FILE",
     .at = AT(plot),
     .help = "an SVG picture: step against kv_len, against capacity, share by operation"},
    {.kind = CLI_END},
};

static kvref_status read_lengths(bench *b, const char *text, kvref_error *err)
{
    const char *p = text;
    do {
        char *end;
        long n = strtol(p, &end, 10);
        bool good = end != p && (*end == ',' || *end == 0) && n >= 1 && n <= 1 << 20;
        if (!good || b->n_length == BENCH_MAX_LENGTH)
            return kvref_fail(err,
                              KVREF_E_ARG,
                              "--prompt-length: expected up to %d numbers 1..%d with commas "
                              "between, found \"%s\"",
                              BENCH_MAX_LENGTH,
                              1 << 20,
                              text);
        b->length[b->n_length++] = (int)n;
        p = *end ? end + 1 : end;
    } while (*p);
    return KVREF_OK;
}

/* The protocol's settings, and its arms for the backend of --backend. */
static kvref_status protocol(bench *b, bench_args *a, const cli_given *given, kvref_error *err)
{
    static const char *const fixed[] = {
        "arm", "sweep", "prompt-length", "repeat", "warm-up", "attention", "exec", "seed"};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        if (cli_was_given(given, fixed[i]))
            return kvref_fail(
                err, KVREF_E_ARG, "--seed-protocol: it sets --%s itself", fixed[i]);
    if (!cli_was_given(given, "capacity")) a->decoder.capacity = 32768;
    a->n_round = 3;
    a->n_warm = 1;
    for (int exec = 0; exec < (a->decoder.backend ? 2 : 1); exec++)
        for (int attention = 0; attention < 2; attention++) {
            bench_arm *arm = &b->arm[b->n_arm++];
            *arm = (bench_arm){.decoder = a->decoder};
            arm->decoder.exec = exec;
            arm->decoder.attention = attention;
            snprintf(arm->name,
                     sizeof arm->name,
                     "%s%s",
                     a->decoder.backend ? exec ? "graph " : "eager " : "",
                     bench_attention(arm));
        }
    return KVREF_OK;
}

static kvref_status prepare(bench *b, bench_args *a, const cli_given *given, kvref_error *err)
{
    b->args = a;
    if (a->json && a->csv)
        return kvref_fail(err, KVREF_E_ARG, "--json and --csv: expected one of them");
    if (a->plot) KVREF_TRY(check_output_beside("--plot", a->plot, a->decoder.model, err));
    KVREF_TRY(read_lengths(b, a->length, err));
    KVREF_TRY(check_folder("--model", a->decoder.model, err));
    if (a->protocol) return protocol(b, a, given, err);
    return bench_arms(b->arm, &b->n_arm, a, err);
}

static kvref_status work(bench *b, bench_args *a, const cli_given *given, kvref_error *err)
{
    kvref_log log = a->decoder.verbose ? term_notes("bench") : (kvref_log){0};
    KVREF_TRY(prepare(b, a, given, err));
    for (int i = 0; i < b->n_arm; i++)
        if (b->arm[i].decoder.linear == KVREF_LINEAR_BLAS) blas_core_use(&log);
    double start = term_clock();
    KVREF_TRY(kvref_model_open(&b->model, a->decoder.model, &log, err));
    b->load_s = term_clock() - start;
    KVREF_TRY(bench_run(b, err));
    if (a->profile) KVREF_TRY(bench_profiles(b, err));
    return a->plot ? bench_plot(b, a->plot, err) : KVREF_OK;
}

/* The checks that were asked for, each with its line on standard error. */
static int verdict(const bench *b)
{
    const bench_args *a = b->args;
    int bad = b->n_differ > 0;
    const bench_point *last = &b->point[b->n_point - 1];
    double ratio = bench_ratio(b, last), share = 100 * bench_share(b, &b->point[0]);
    if (b->n_differ)
        fprintf(stderr,
                "kvref bench: %d points differ in bits from the first of their kind\n",
                b->n_differ);
    if (a->need_ratio > 0 && !(ratio >= (double)a->need_ratio)) {
        fprintf(stderr,
                "kvref bench: --require-ratio: expected %g or more, found %.3f\n",
                (double)a->need_ratio,
                ratio);
        bad = 1;
    }
    if (a->need_share > 0 && !(share >= (double)a->need_share)) {
        fprintf(stderr,
                "kvref bench: --require-share: expected %g %% or more, found %.1f %%\n",
                (double)a->need_share,
                share);
        bad = 1;
    }
    return bad;
}

static int run_bench(const cli_command *self, void *args, const cli_given *given)
{
    kvref_error err = {0};
    bench *b = calloc(1, sizeof *b);
    kvref_status s =
        b ? work(b, args, given, &err) : kvref_fail(&err, KVREF_E_MEMORY, "out of memory");
    int status;
    if (s != KVREF_OK) {
        status = term_error(self->name, &err);
    } else {
        if (b->args->json) {
            bench_print_json(b);
        } else if (b->args->csv) {
            bench_print_csv(b);
        } else {
            bench_print(b);
            if (b->args->protocol) bench_print_protocol(b);
        }
        status = verdict(b);
    }
    if (b) bench_clear(b);
    free(b);
    return status;
}

const cli_command cmd_bench = {
    .name = "bench",
    .summary = "Time decoders against each other and against the machine",
    .usage = "--model DIR [--arm KEY=VALUE,...]... [options]",
    .text =
        "All arms are open in one process and take turns; every round has a prompt that no "
        "other "
        "has, the same for all arms. Prefill and decoding are told apart. Beside each time "
        "stand "
        "the bytes that a frame has to move, and what plain reads of memory reach in the same "
        "run.\n"
        "Arms that differ in attention, capacity, threads or exec alone must give the same "
        "frames and logits, to the bit; this is checked in every round.\n"
        "A busy machine shows in the spread (min, quartiles) and in the processors used.",
    .option = bench_options,
    .status =
        "0 measured; 1 measured, but bits differ or a --require fails; 2 not measured (bad "
        "option, model, a prompt that fits no arm)",
    .example = "kvref make-model toy        # once, for the others\n"
               "kvref bench --model toy\n"
               "kvref bench --model toy --arm threads=1 --arm threads=2 --profile\n"
               "kvref bench --model toy --sweep capacity=512,1024,2048 \\\n"
               "    --prompt-length 16,64,256 --plot toy.svg\n"
               "kvref bench --model s2-pro --seed-protocol --frames 8\n"
               "kvref bench --model toy --arm backend=cudacpu \\\n"
               "    --arm backend=cudacpu,exec=graph --frames 3",
    .n_args = sizeof(bench_args),
    .run = run_bench,
};
