/* SPDX-License-Identifier: MIT */
/* kvref compare: two traces against each other. The exit status is the verdict. Uses the file
 * reader, the names of taps and the limits; nothing of a model. */
#include "base/base.h"
#include "tools/commands.h"
#include "tools/compare.h"
#include "tools/paths.h"
#include "tools/term.h"

#include <stdlib.h>

typedef struct compare_args {
    const char *a, *b, *limits, *html;
    int rule;
    bool json;
} compare_args;

#define AT(field) offsetof(compare_args, field)
static const cli_option compare_options[] = {
    {.kind = CLI_TEXT,
     .name = "A",
     .operand = true,
     .required = true,
     .at = AT(a),
     .help =
         "the reference: a trace, for example golden/lm/A.safetensors; limits are shares of "
         "its magnitudes"},
    {.kind = CLI_TEXT,
     .name = "B",
     .operand = true,
     .required = true,
     .at = AT(b),
     .help = "the trace that is judged"},
    {.kind = CLI_CHOICE,
     .name = "rule",
     .arg = "RULE",
     .at = AT(rule),
     .choices = "exact|f32|f16",
     .initial = "f32",
     .help = "equal bits; or the limits of float32, or of FP16 storage (docs/tolerances.md)"},
    {.kind = CLI_TEXT,
     .name = "limits",
     .arg = "FILE",
     .at = AT(limits),
     .help =
         "limits that come before those of --rule, as JSON: {\"format\": "
         "\"kvref-limits-1\", \"taps\": {\"slow.q\": {\"rule\": \"T2\", \"rel\": 4e-3}}}; keys "
         "are tensors, taps or \"*\""},
    {.kind = CLI_FLAG, .name = "json", .at = AT(json), .help = "print one JSON object"},
    {.kind = CLI_TEXT,
     .name = "html",
     .arg = "FILE",
     .at = AT(html),
     .help = "also write a page that holds everything it needs"},
    {.kind = CLI_END},
};
#undef AT

typedef struct comparing {
    const compare_args *args;
    kvref_file *a, *b;
    kvref_limits *limits;
    kvref_diff *diff;
    char path[3][400];
    compare_told told;
} comparing;

static kvref_status open_all(comparing *c, kvref_error *err)
{
    static const kvref_precision precision[] = {KVREF_EXACT, KVREF_STORE_F32, KVREF_STORE_F16};
    static const char *const name[] = {"exact", "f32", "f16"};
    const compare_args *a = c->args;
    c->told = (compare_told){
        .path_a = term_clean(c->path[0], sizeof c->path[0], a->a),
        .path_b = term_clean(c->path[1], sizeof c->path[1], a->b),
        .rule = name[a->rule],
        .limits = a->limits ? term_clean(c->path[2], sizeof c->path[2], a->limits) : NULL};
    const named_path read[] = {{"A", a->a}, {"B", a->b}, {"--limits", a->limits}};
    if (a->html) KVREF_TRY(check_not_read("--html", a->html, read, 3, err));
    KVREF_TRY(kvref_limits_open(&c->limits, precision[a->rule], a->limits, err));
    KVREF_TRY(kvref_file_open(&c->a, a->a, NULL, err));
    KVREF_TRY(kvref_file_open(&c->b, a->b, NULL, err));
    return kvref_diff_open(&c->diff, c->a, c->b, c->limits, err);
}

static kvref_status write_page(const comparing *c, kvref_error *err)
{
    char *page = NULL;
    size_t n = 0;
    kvref_out *out;
    FILE *f = open_memstream(&page, &n);
    if (!f) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    compare_html(f, c->diff, &c->told);
    bool bad = ferror(f) != 0;
    if (fclose(f) != 0 || bad) {
        free(page);
        return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    }
    term_writing(c->args->html);
    kvref_status s = kvref_out_open(&out, c->args->html, err);
    if (s == KVREF_OK) {
        s = kvref_out_put(out, page, n, err);
        if (s == KVREF_OK) s = kvref_out_commit(&out, err);
        kvref_out_abort(&out);
    }
    term_written();
    free(page);
    return s;
}

static kvref_status tell(const comparing *c, kvref_error *err)
{
    if (c->args->html) KVREF_TRY(write_page(c, err));
    if (!c->args->json) {
        compare_text(stdout, c->diff, &c->told);
        return KVREF_OK;
    }
    json_t *o = compare_json(c->diff, &c->told);
    bool good = o && json_dumpf(o, stdout, JSON_INDENT(1)) == 0;
    putchar('\n');
    json_decref(o);
    return good ? KVREF_OK : kvref_fail(err, KVREF_E_MEMORY, "out of memory");
}

static int run_compare(const cli_command *self, void *args, const cli_given *given)
{
    (void)given;
    kvref_error err = {0};
    comparing c = {.args = args};
    kvref_status s = open_all(&c, &err);
    if (s == KVREF_OK) s = tell(&c, &err);
    int status = s == KVREF_OK ? (int)c.diff->verdict : term_error(self->name, &err);
    kvref_diff_close(&c.diff);
    kvref_file_close(&c.a);
    kvref_file_close(&c.b);
    kvref_limits_close(&c.limits);
    return status;
}

const cli_command cmd_compare = {
    .name = "compare",
    .summary = "Find where two traces part, and how much of the limits they use",
    .usage = "A B [options]",
    .text =
        "Tensors are paired by name; golden/README.md has names and axes. Parts of a trace are "
        "enough: codes alone, or logits alone. What is missing in one of them is listed.\n"
        "Numbers can be compared while both runs had the same inputs. Under forced codes "
        "(kvref "
        "trace --from A) that is to the end; free-running, up to the first code that differs. "
        "A "
        "greedy choice may turn where the two best logits are nearer than twice their error.\n"
        "The first divergence is the first in the order of computation: slow layers, main "
        "token, "
        "then layers and code of each book. \"looks like\" names known switches that the two "
        "traces themselves give away (docs/upstream-quirks.md).",
    .option = compare_options,
    .status = "0 the same within the limits; 1 they differ; 2 cannot tell (a bad file, nothing "
              "in common, other shapes)",
    .example = "kvref compare golden/lm/A.safetensors mine.safetensors\n"
               "kvref compare a.st b.st --rule exact\n"
               "kvref compare ref.st gpu.st --rule f16 --html report.html",
    .n_args = sizeof(compare_args),
    .run = run_compare,
};
