/* SPDX-License-Identifier: MIT */
/* One hash over the bits of every tap of a whole run, kept in golden/lm/hashes.txt: every
 * compiler, machine, vector width, number of threads, dtype of equal weights, attention mode
 * and capacity must give it. */
#include "tests/golden.h"

#include <inttypes.h>
#include <stdio.h>

static uint64_t hash_of(const golden_case *g, kvref_dtype dtype, const kvref_decoder_opts *opts)
{
    kvref_error err;
    kvref_trace *trace;
    kvref_decoder_opts o = *opts;
    kvref_model *model = golden_model(&g->config, dtype);
    kvref_frames prompt = golden_frames(g->ref, "prompt");
    must(kvref_trace_open(&trace, &err), err);
    o.rope_table = g->rope_table;
    o.tap = kvref_trace_tap(trace, KVREF_TAP_OPS);
    kvref_generated out =
        golden_generate(kvref_backend_ref(), model, &o, &g->run, &prompt, trace);
    uint64_t hash = kvref_trace_hash(trace);
    kvref_generated_clear(&out);
    kvref_frames_clear(&prompt);
    kvref_trace_close(&trace);
    kvref_model_close(&model);
    return hash;
}

START_TEST(whole_trace_has_the_committed_hash)
{
    static const char *const name[] = {"A", "B", "D", "L"};
    static const struct {
        kvref_dtype dtype;
        kvref_decoder_opts opts;
    } way[] = {{KVREF_BF16, {.n_thread = 1}},
               {KVREF_F32, {.n_thread = 1}},
               {KVREF_F16, {.n_thread = 3}},
               {KVREF_BF16, {.attention = KVREF_ATTN_FULL, .capacity = 501, .n_thread = 2}}};
    char json[32], tensors[32];
    golden_case g;
    snprintf(json, sizeof json, "golden/lm/%s.json", name[_i]);
    snprintf(tensors, sizeof tensors, "golden/lm/%s.safetensors", name[_i]);
    golden_open(&g, name[_i], support_source(json), support_source(tensors));
    for (size_t i = 0; i < sizeof way / sizeof way[0]; i++) {
        uint64_t hash = hash_of(&g, way[i].dtype, &way[i].opts);
        printf("%s %016" PRIx64 "\n", name[_i], hash);
        (void)fflush(stdout);
        ck_assert_msg(hash == golden_hash(name[_i]), "case %s, way %zu", name[_i], i);
    }
    golden_close(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace_hash");
    TCase *tc = tcase_create("trace_hash");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, whole_trace_has_the_committed_hash, 0, 4);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
