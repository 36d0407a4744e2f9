/* SPDX-License-Identifier: MIT */
/* kvref doctor: the machine, what is built in, and a self-test of the arithmetic. */
#include "base/base.h"
#include "config.h"
#include "kvref/blas.h"
#include "ref/ref.h"
#include "tools/backends.h"
#include "tools/blas_core.h"
#include "tools/commands.h"
#include "tools/machine.h"
#include "tools/selftest.h"
#include "tools/term.h"

#include <cblas.h>
#include <jansson.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utf8proc.h>

typedef struct doctor_args {
    bool json, no_test;
} doctor_args;

#define AT(field) offsetof(doctor_args, field)
static const cli_option doctor_options[] = {
    {.kind = CLI_FLAG, .name = "json", .at = AT(json), .help = "print one JSON object"},
    {.kind = CLI_FLAG,
     .name = "no-test",
     .at = AT(no_test),
     .help = "describe only; leave the self-test out"},
    {.kind = CLI_END},
};

static void put(json_t *o, const char *key, const char *value)
{
    json_object_set_new(o, key, json_string(value));
}

static void put_machine(json_t *o)
{
    char text[512];
    machine_proc(text, sizeof text, "/proc/cpuinfo", "model name");
    put(o, "cpu", text);
    json_object_set_new(o, "processors_online", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    put(o, "vectors", ref_simd_best()->name);
    double page = (double)sysconf(_SC_PAGESIZE);
    put(o, "memory", term_bytes(page * (double)sysconf(_SC_PHYS_PAGES)));
    machine_proc(text, sizeof text, "/proc/meminfo", "MemAvailable");
    put(o, "memory_available", term_bytes(1024 * strtod(text, NULL)));
}

static void put_libraries(json_t *o)
{
    char text[512];
    snprintf(text, sizeof text, "%s", openblas_get_config());
    put(o, "openblas", text);
    const char *found, *wanted;
    bool good = kvref_blas_core(&found, &wanted);
    put(o, "openblas_core", found);
    put(o, "openblas_core_wanted", wanted);
    put(o,
        "openblas_verdict",
        good                 ? "suits this processor"
        : blas_core_chosen() ? "poor in spite of a second start"
        : getenv("OPENBLAS_CORETYPE")
            ? "poor, and OPENBLAS_CORETYPE asks for it"
            : "poor: --linear blas starts kvref again with OPENBLAS_CORETYPE set");
    put(o, "jansson", JANSSON_VERSION);
    put(o, "utf8proc", utf8proc_version());
    put(o, "sndfile", sf_version_string());
}

static void put_gpu(json_t *o)
{
    kvref_gpu gpu;
    kvref_error err;
    char text[64];
    if (backend_gpu(&gpu, &err) != KVREF_OK) {
        put(o, "cuda", err.text);
        return;
    }
    put(o, "cuda", gpu.name);
    snprintf(
        text, sizeof text, "%d.%d, %d multiprocessors", gpu.major, gpu.minor, gpu.n_processor);
    put(o, "cuda_architecture", text);
    snprintf(text, sizeof text, "%d.%d", gpu.driver / 1000, gpu.driver % 1000 / 10);
    put(o, "cuda_driver", text);
    snprintf(text, sizeof text, "%d.%d", gpu.runtime / 1000, gpu.runtime % 1000 / 10);
    put(o, "cuda_runtime", text);
    put(o, "cuda_memory", term_bytes((double)gpu.n_byte));
    put(o, "cuda_memory_free", term_bytes((double)gpu.n_byte_free));
}

typedef struct test_log {
    json_t *tests;
    int n_bad;
} test_log;

static void on_test(void *user, const char *claim, bool good, const char *detail)
{
    test_log *log = user;
    json_array_append_new(
        log->tests, json_pack("{s:s,s:b,s:s}", "claim", claim, "ok", good, "detail", detail));
    log->n_bad += !good;
}

static void print_text(json_t *o)
{
    const char *key;
    json_t *value;
    json_object_foreach(o, key, value)
    {
        if (json_is_string(value)) printf("%-22s %s\n", key, json_string_value(value));
        if (json_is_integer(value))
            printf("%-22s %" JSON_INTEGER_FORMAT "\n", key, json_integer_value(value));
        size_t i;
        json_t *t;
        json_array_foreach(value, i, t)
            printf("%-7s %s (%s)\n",
                   json_is_true(json_object_get(t, "ok")) ? "ok" : "NOT OK",
                   json_string_value(json_object_get(t, "claim")),
                   json_string_value(json_object_get(t, "detail")));
    }
}

static int run_doctor(const cli_command *self, void *args, const cli_given *given)
{
    (void)self;
    (void)given;
    const doctor_args *a = args;
    json_t *o = json_object();
    test_log log = {json_array(), 0};
    put(o, "kvref", PACKAGE_VERSION);
    put(o, "commit", BUILD_COMMIT);
    put(o, "compiler", MACHINE_COMPILER);
    put(o, "flags", BUILD_FLAGS);
    put(o, "sanitizer", MACHINE_SANITIZER);
    put_machine(o);
    put_libraries(o);
    put_gpu(o);
    if (!a->no_test) selftest_run(on_test, &log);
    json_object_set_new(o, "tests", log.tests);
    put(o, "verdict", log.n_bad ? "something is wrong" : "good");
    if (a->json) {
        json_dumpf(o, stdout, JSON_INDENT(2));
        putchar('\n');
    } else {
        print_text(o);
    }
    json_decref(o);
    return log.n_bad ? 1 : 0;
}

const cli_command cmd_doctor = {
    .name = "doctor",
    .summary = "Describe the machine and test the arithmetic on it",
    .usage = "[--json] [--no-test]",
    .text = "Prints the processor, memory, libraries and what OpenBLAS has chosen, then runs a "
            "self-test of about a second.",
    .option = doctor_options,
    .status = "0 all is well, 1 a self-test failed, 2 a bad option, or output that cannot be "
              "written",
    .example = "kvref doctor\n"
               "kvref doctor --json",
    .n_args = sizeof(doctor_args),
    .run = run_doctor,
};
