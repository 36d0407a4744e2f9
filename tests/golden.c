/* SPDX-License-Identifier: MIT */
#include "tests/golden.h"

#include "kvref/compare.h"
#include "kvref/limits.h"
#include "kvref/synth.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int integer(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    ck_assert_msg(json_is_integer(v), "no integer %s", key);
    return (int)json_integer_value(v);
}

void golden_read_config(kvref_config *out, const json_t *config, const json_t *im_end)
{
    kvref_error err;
    char *text = json_dumps(config, 0);
    ck_assert(text && json_is_integer(im_end));
    must(kvref_config_parse(out, text, strlen(text), "golden config", &err), err);
    out->im_end = (int)json_integer_value(im_end);
    free(text);
}

void golden_read_run(golden_run *out, const json_t *s)
{
    out->sampling.temperature = (float)json_number_value(json_object_get(s, "temperature"));
    out->sampling.top_p = (float)json_number_value(json_object_get(s, "top_p"));
    out->sampling.top_k = integer(s, "top_k");
    out->seed = (uint64_t)json_integer_value(json_object_get(s, "seed"));
    out->max_new_tokens = integer(s, "max_new_tokens");
}

void golden_open(golden_case *g, const char *name, const char *json, const char *tensors)
{
    json_error_t bad;
    kvref_error err;
    json_t *doc = json_load_file(json, JSON_REJECT_DUPLICATES, &bad);
    ck_assert_msg(doc != NULL, "%s: %s", json, bad.text);
    *g = (golden_case){.name = name};
    golden_read_config(
        &g->config, json_object_get(doc, "config"), json_object_get(doc, "im_end"));
    golden_read_run(&g->run, json_object_get(doc, "sampling"));
    const char *table = json_string_value(json_object_get(doc, "rope_table"));
    if (table && strcmp(table, "f32") == 0) g->rope_table = KVREF_ROPE_F32;
    json_decref(doc);
    must(kvref_file_open(&g->ref, tensors, NULL, &err), err);
}

void golden_close(golden_case *g)
{
    kvref_file_close(&g->ref);
}

kvref_model *golden_model(const kvref_config *config, kvref_dtype dtype)
{
    static int n;
    char name[32];
    kvref_error err;
    kvref_model *model;
    kvref_synth_opts o = {.dtype = dtype, .n_shard = 1};
    snprintf(name, sizeof name, "golden%d", n++);
    const char *dir = support_path(support_temp_dir(), name);
    must(kvref_synth_write(dir, config, &o, &err), err);
    must(kvref_model_open(&model, dir, NULL, &err), err);
    return model;
}

kvref_generated golden_generate(const kvref_backend *backend,
                                const kvref_model *model,
                                const kvref_decoder_opts *opts,
                                const golden_run *run,
                                const kvref_frames *prompt,
                                kvref_trace *trace)
{
    kvref_error err;
    kvref_decoder *d;
    kvref_noise *noise;
    kvref_generated out;
    kvref_generate_opts o = {
        .sampling = run->sampling, .max_new_tokens = run->max_new_tokens, .trace = trace};
    must(backend->open(&d, model, opts, &err), err);
    must(kvref_noise_mt19937(&noise, run->seed, &err), err);
    must(kvref_generate(backend, d, kvref_model_config(model), &out, prompt, noise, &o, &err),
         err);
    kvref_noise_close(&noise);
    backend->close(&d);
    return out;
}

kvref_frames golden_frames(const kvref_file *file, const char *name)
{
    const kvref_tensor *t = kvref_file_find(file, name);
    ck_assert_msg(t && t->dtype == KVREF_I32 && t->n_dim == 2, "%s", name);
    kvref_frames out = {.n_row = (int)t->dim[1], .n_frame = (int)t->dim[0]};
    out.cap = out.n_frame;
    out.value = malloc(t->n_byte);
    ck_assert(out.value != NULL);
    memcpy(out.value, t->data, t->n_byte);
    return out;
}

/* Which rows of an axis a file keeps: the metadata's list, or all n of them. */
typedef struct rows {
    int n, at[1024];
} rows;

static rows kept_rows(const kvref_file *file, const char *key, int64_t n, int first)
{
    rows r = {0};
    const char *list = kvref_file_meta(file, key);
    for (int64_t i = 0; !list && i < n; i++) {
        ck_assert(i < 1024);
        r.at[r.n++] = (int)i;
    }
    while (list && *list) {
        char *end;
        r.at[r.n++] = (int)strtol(list, &end, 10) - first;
        ck_assert(r.at[r.n - 1] >= 0 && r.at[r.n - 1] < n && r.n < 1024);
        list = *end == ',' ? end + 1 : end;
    }
    return r;
}

/* Copies the kept rows of a whole tensor, in the layout of the file that keeps them. */
static float *take_rows(const kvref_file *file, const kvref_tensor *whole, size_t *n)
{
    const char *name = whole->name;
    bool fast = strncmp(name, "fast.", 5) == 0;
    bool by_frame = fast || strcmp(name, "slow.norm") == 0 ||
                    strcmp(name, "slow.logits") == 0 || strcmp(name, "slow.hidden") == 0;
    rows outer = kept_rows(file, by_frame ? "rows.frame" : "rows.position", whole->dim[0], 0);
    rows inner = {.n = 1};
    if (fast)
        inner = kept_rows(file, "rows.book", whole->dim[1], strcmp(name, "fast.logits") == 0);
    size_t row = 1, per_outer = fast ? (size_t)whole->dim[1] : 1;
    for (int d = fast ? 2 : 1; d < whole->n_dim; d++) row *= (size_t)whole->dim[d];
    size_t n_value = (size_t)outer.n * (size_t)inner.n * row;
    ck_assert(n_value > 0);
    float *out = malloc(n_value * sizeof *out);
    ck_assert(out != NULL);
    *n = 0;
    for (int i = 0; i < outer.n; i++) {
        for (int j = 0; j < inner.n; j++) {
            size_t at = ((size_t)outer.at[i] * per_outer + (size_t)inner.at[j]) * row;
            memcpy(out + *n, (const char *)whole->data + at * sizeof *out, row * sizeof *out);
            *n += row;
        }
    }
    return out;
}

static kvref_difference compare_ints(const kvref_tensor *got, const kvref_tensor *ref)
{
    ck_assert_msg(got->n_byte == ref->n_byte, "%s: other size", ref->name);
    size_t n = ref->n_byte / sizeof(int32_t);
    int32_t *x = malloc(2 * ref->n_byte);
    memcpy(x, got->data, got->n_byte);
    memcpy(x + n, ref->data, ref->n_byte);
    kvref_difference d = kvref_compare_ints(x, x + n, n);
    free(x);
    return d;
}

static kvref_difference
compare_floats(const kvref_file *file, const kvref_tensor *got, const kvref_tensor *ref)
{
    size_t n, n_ref = ref->n_byte / sizeof(float);
    float *x = take_rows(file, got, &n);
    ck_assert_msg(n == n_ref, "%s: %zu values, expected %zu", ref->name, n, n_ref);
    float *want = malloc(ref->n_byte);
    memcpy(want, ref->data, ref->n_byte);
    const kvref_limit limit = kvref_limit_of(KVREF_STORE_F32, ref->name).limit;
    kvref_difference d = kvref_compare(x, want, n, &limit);
    free(want);
    free(x);
    return d;
}

static void compare_files(const char *name, const kvref_file *got, const kvref_file *ref)
{
    double worst = 0;
    const char *where = "none";
    for (int i = 0; i < kvref_file_count(ref); i++) {
        const kvref_tensor *r = kvref_file_at(ref, i), *g = kvref_file_find(got, r->name);
        ck_assert_msg(g != NULL, "case %s: the trace has no %s", name, r->name);
        ck_assert_msg(g->dtype == r->dtype, "case %s: %s: dtype", name, r->name);
        kvref_difference d =
            r->dtype == KVREF_I32 ? compare_ints(g, r) : compare_floats(ref, g, r);
        double rel = r->dtype == KVREF_I32 ? 0 : kvref_difference_rel(&d);
        ck_assert_msg(d.pass,
                      "case %s: %s: %zu of %zu values out of limit, first %zu, "
                      "worst %.2e of the largest at %zu",
                      name,
                      r->name,
                      d.n_bad,
                      d.n,
                      d.first_bad,
                      rel,
                      d.at);
        if (rel > worst) {
            worst = rel;
            where = r->name;
        }
    }
    printf("case %s: %d tensors, worst %.2e of the largest in %s\n",
           name,
           kvref_file_count(ref),
           worst,
           where);
    (void)fflush(stdout);
}

uint64_t golden_hash(const char *name)
{
    char line[256], key[64];
    uint64_t hash = 0;
    bool found = false;
    FILE *f = fopen(support_source("golden/lm/hashes.txt"), "r");
    ck_assert_msg(f != NULL, "golden/lm/hashes.txt");
    while (!found && fgets(line, sizeof line, f))
        found = sscanf(line, "%63s %" SCNx64, key, &hash) == 2 && strcmp(key, name) == 0;
    (void)fclose(f);
    ck_assert_msg(found, "golden/lm/hashes.txt has no line for %s", name);
    return hash;
}

uint64_t golden_check(const golden_case *g,
                      const kvref_backend *backend,
                      const kvref_model *model,
                      const kvref_decoder_opts *opts)
{
    kvref_error err;
    kvref_trace *trace;
    kvref_file *got;
    kvref_decoder_opts o = *opts;
    kvref_frames prompt = golden_frames(g->ref, "prompt");
    const char *path = support_path(support_temp_dir(), "trace.safetensors");
    must(kvref_trace_open(&trace, &err), err);
    o.rope_table = g->rope_table;
    o.tap = kvref_trace_tap(trace, KVREF_TAP_OPS);
    kvref_generated out = golden_generate(backend, model, &o, &g->run, &prompt, trace);
    must(kvref_trace_write(trace, path, out.frames.n_frame, &err), err);
    must(kvref_file_open(&got, path, NULL, &err), err);
    compare_files(g->name, got, g->ref);
    uint64_t hash = kvref_trace_hash(trace);
    kvref_file_close(&got);
    kvref_trace_close(&trace);
    kvref_generated_clear(&out);
    kvref_frames_clear(&prompt);
    return hash;
}
