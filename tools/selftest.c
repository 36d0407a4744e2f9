/* SPDX-License-Identifier: MIT */
/* Self-test: half precision, the exact functions and BLAS against float64 by their stated
 * rules, and a whole small decode, whose trace must have the same bits in both attention modes
 * and for any capacity and number of threads. */
#include "tools/selftest.h"

#include "base/base.h"
#include "kvref/blas.h"
#include "kvref/fmath.h"
#include "kvref/generate.h"
#include "kvref/half.h"
#include "kvref/synth.h"
#include "tools/presets.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Every float16 pattern survives widening and narrowing. */
static void halves(selftest_report *report, void *user)
{
    int n_bad = 0;
    for (unsigned h = 0; h < 65536; h++) {
        float x = kvref_f16_f32((uint16_t)h);
        bool good = isnan(x) ? isnan(kvref_f16_f32(kvref_f32_f16(x))) : kvref_f32_f16(x) == h;
        n_bad += !good;
    }
    char text[80];
    snprintf(text, sizeof text, "%d of 65536 patterns differ", n_bad);
    report(user, "float16 widens and narrows exactly", n_bad == 0, text);
}

/* Error in units of the last place of the exact value. */
static double ulps(float x, double exact)
{
    float near = fabsf((float)exact);
    return fabs((double)x - exact) / ((double)nextafterf(near, INFINITY) - (double)near);
}

/* Limits: what kvref/fmath.h states. */
static void functions(selftest_report *report, void *user)
{
    double worst = 0; /* share of the limit */
    for (int i = 1; i < 2000; i++) {
        float x = (float)i * 0.0437f, s, c;
        kvref_sincosf(&s, &c, x);
        double used[] = {ulps(kvref_expf(-x), exp((double)-x)) / 1.0,
                         ulps(kvref_logf(x), log((double)x)) / 0.501,
                         ulps(s, sin((double)x)) / 0.501,
                         ulps(c, cos((double)x)) / 0.501};
        for (int k = 0; k < 4; k++)
            if (!(used[k] <= worst)) worst = used[k]; /* a NaN stays */
    }
    char text[80];
    snprintf(text, sizeof text, "largest error: %.0f %% of what is allowed", 100 * worst);
    report(user, "exp, log, sine and cosine are within their bounds", worst <= 1, text);
}

static void blas(selftest_report *report, void *user)
{
    kvref_error err = {0};
    bool good = kvref_blas_selftest(&err) == KVREF_OK;
    report(
        user, "OpenBLAS agrees with float64", good, good ? "awkward small shapes" : err.text);
}

/* ---- a decode ---- */

/* The hash of everything that a decode of six frames computes. */
static kvref_status
decode(uint64_t *hash, const kvref_model *model, kvref_decoder_opts opts, kvref_error *err)
{
    const kvref_backend *backend = kvref_backend_ref();
    const kvref_config *config = kvref_model_config(model);
    static const int32_t column[4] = {90, 10, 3, 29}; /* an audio position of the tiny model */
    kvref_frames prompt = {.n_row = 1 + config->n_codebook};
    kvref_generated g = {0};
    kvref_trace *trace = NULL;
    kvref_noise *noise = NULL;
    kvref_decoder *d = NULL;
    kvref_generate_opts how = {.sampling = {0.8f, 0.9f, 10}, .max_new_tokens = 6};
    kvref_status s = kvref_trace_open(&trace, err);
    how.trace = trace;
    opts.tap = kvref_trace_tap(trace, KVREF_TAP_OPS);
    for (int i = 0; i < 9 && s == KVREF_OK; i++)
        s = kvref_frames_append(&prompt, column, 1, err);
    if (s == KVREF_OK) s = kvref_noise_counter(&noise, 1, err);
    if (s == KVREF_OK) s = backend->open(&d, model, &opts, err);
    if (s == KVREF_OK) s = kvref_generate(backend, d, config, &g, &prompt, noise, &how, err);
    if (s == KVREF_OK) *hash = kvref_trace_hash(trace);
    backend->close(&d);
    kvref_noise_close(&noise);
    kvref_generated_clear(&g);
    kvref_frames_clear(&prompt);
    kvref_trace_close(&trace);
    return s;
}

static kvref_status compare_decodes(bool *same, const kvref_model *model, kvref_error *err)
{
    const kvref_decoder_opts opts[] = {{.capacity = 32, .n_thread = 1},
                                       {.capacity = 32, .attention = KVREF_ATTN_FULL},
                                       {.capacity = 300, .n_thread = 3}};
    uint64_t hash[3] = {0};
    for (int i = 0; i < 3; i++) KVREF_TRY(decode(&hash[i], model, opts[i], err));
    *same = hash[0] != 0 && hash[0] == hash[1] && hash[0] == hash[2];
    return KVREF_OK;
}

/* Makes the tiny model in dir, opens it, and removes its files: the mappings stay. */
static kvref_status tiny_model(kvref_model **model, const char *dir, kvref_error *err)
{
    static const char *const file[] = {"config.json", "model.safetensors"};
    kvref_config config;
    bool nested;
    kvref_synth_opts opts = {.dtype = KVREF_BF16, .n_shard = 1};
    KVREF_TRY(preset_config(&config, &nested, PRESET_TINY, NULL, NULL, 0, err));
    KVREF_TRY(kvref_synth_write(dir, &config, &opts, err));
    kvref_status s = kvref_model_open(model, dir, NULL, err);
    for (int i = 0; i < 2; i++) {
        char *path = kvref_path_join(dir, file[i]);
        if (path) unlink(path);
        free(path);
    }
    return s;
}

static void decodes(selftest_report *report, void *user)
{
    const char *temp = getenv("TMPDIR");
    char dir[4096];
    kvref_error err = {0};
    kvref_model *model = NULL;
    bool same = false;
    snprintf(dir, sizeof dir, "%s/kvref-doctor.XXXXXX", temp && *temp ? temp : "/tmp");
    kvref_status s = KVREF_OK;
    if (!mkdtemp(dir)) {
        s = kvref_fail(&err, KVREF_E_IO, "%s: %s", dir, strerror(errno));
    } else {
        s = tiny_model(&model, dir, &err);
        rmdir(dir);
    }
    if (s == KVREF_OK) s = compare_decodes(&same, model, &err);
    kvref_model_close(&model);
    report(user,
           "prefix and full attention, capacities and threads give the same bits",
           s == KVREF_OK && same,
           s != KVREF_OK ? err.text
           : same        ? "traces of a small decode"
                         : "traces of a small decode differ");
}

void selftest_run(selftest_report *report, void *user)
{
    halves(report, user);
    functions(report, user);
    blas(report, user);
    decodes(report, user);
}
