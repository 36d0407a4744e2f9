/* SPDX-License-Identifier: MIT */
/* What kvref_synth_write puts into a folder, read back by the loader. */
#include "kvref/half.h"
#include "tests/synth_make.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool exists(const char *dir, const char *name)
{
    return access(support_path(dir, name), F_OK) == 0;
}

/* The weight of an internal tensor; of wqkv there are three parts: q, k, v. */
static const kvref_weight *find(const kvref_weights *w, const char *name, int part)
{
    const struct {
        const char *name;
        const kvref_weight *weight;
    } top[] = {{"embeddings.weight", &w->embed},
               {"codebook_embeddings.weight", &w->codebook_embed},
               {"norm.weight", &w->norm},
               {"output.weight", &w->head},
               {"fast_project_in.weight", &w->fast_in},
               {"fast_project_in.bias", &w->fast_in_bias},
               {"fast_embeddings.weight", &w->fast_embed},
               {"fast_norm.weight", &w->fast_norm},
               {"fast_output.weight", &w->fast_head}};
    for (size_t i = 0; i < sizeof top / sizeof top[0]; i++) {
        if (strcmp(top[i].name, name) == 0) return top[i].weight;
    }
    int l = 0;
    char rest[64] = {0};
    bool fast = sscanf(name, "fast_layers.%d.%63s", &l, rest) == 2;
    ck_assert(fast || sscanf(name, "layers.%d.%63s", &l, rest) == 2);
    const kvref_layer *at = fast ? &w->fast[l] : &w->slow[l];
    const struct {
        const char *name;
        const kvref_weight *weight[3];
    } in[] = {{"attention_norm.weight", {&at->attn_norm}},
              {"attention.wqkv.weight", {&at->wq, &at->wk, &at->wv}},
              {"attention.wqkv.bias", {&at->bq, &at->bk, &at->bv}},
              {"attention.q_norm.weight", {&at->q_norm}},
              {"attention.k_norm.weight", {&at->k_norm}},
              {"attention.wo.weight", {&at->wo}},
              {"attention.wo.bias", {&at->bo}},
              {"ffn_norm.weight", {&at->ffn_norm}},
              {"feed_forward.w1.weight", {&at->w1}},
              {"feed_forward.w2.weight", {&at->w2}},
              {"feed_forward.w3.weight", {&at->w3}}};
    for (size_t i = 0; i < sizeof in / sizeof in[0]; i++) {
        if (strcmp(in[i].name, rest) == 0) return in[i].weight[part];
    }
    return NULL;
}

static float element(const kvref_weight *w, size_t i)
{
    float x;
    uint16_t h;
    if (w->dtype == KVREF_F32) {
        memcpy(&x, (const char *)w->data + 4 * i, sizeof x);
        return x;
    }
    memcpy(&h, (const char *)w->data + 2 * i, sizeof h);
    return w->dtype == KVREF_BF16 ? kvref_bf16_f32(h) : kvref_f16_f32(h);
}

/* Every tensor that the config demands holds the formula's values, whole. */
static void check_weights(const kvref_model *m, kvref_dtype dtype)
{
    kvref_tensor_spec spec[128];
    int n = kvref_config_tensors(kvref_model_config(m), spec, 128);
    ck_assert(n > 0 && n <= 128);
    for (int t = 0; t < n; t++) {
        size_t size = (size_t)(spec[t].dim[0] * (spec[t].n_dim > 1 ? spec[t].dim[1] : 1));
        float *want = malloc(size * sizeof *want);
        kvref_synth_fill(want, spec[t].name, spec[t].dim, spec[t].n_dim, 0, size);
        size_t at = 0;
        for (int part = 0; part < 3 && at < size; part++) {
            const kvref_weight *w = find(kvref_model_weights(m), spec[t].name, part);
            ck_assert_msg(w && w->data && w->dtype == dtype, "%s", spec[t].name);
            size_t end = at + (size_t)w->n_row * (size_t)w->n_col;
            ck_assert_msg(end <= size, "%s", spec[t].name);
            for (size_t i = 0; at < end; i++, at++)
                if (element(w, i) != want[at]) ck_abort_msg("%s [%zu]", spec[t].name, at);
        }
        ck_assert_msg(at == size, "%s", spec[t].name);
        free(want);
    }
}

static void check_config(const kvref_config *got, const kvref_config *want, bool nested)
{
    const kvref_stack *a[2] = {&got->slow, &got->fast}, *b[2] = {&want->slow, &want->fast};
    for (int i = 0; i < 2; i++) {
        ck_assert(a[i]->n_layer == b[i]->n_layer && a[i]->d_model == b[i]->d_model);
        ck_assert(a[i]->n_head == b[i]->n_head && a[i]->n_kv_head == b[i]->n_kv_head);
        ck_assert(a[i]->d_head == b[i]->d_head && a[i]->d_ff == b[i]->d_ff);
        ck_assert(a[i]->qkv_bias == b[i]->qkv_bias && a[i]->o_bias == b[i]->o_bias);
        ck_assert(a[i]->qk_norm == b[i]->qk_norm);
    }
    ck_assert_str_eq(got->model_type, nested ? "fish_qwen3_omni" : "dual_ar");
    ck_assert(got->n_vocab == want->n_vocab && got->n_code == want->n_code);
    ck_assert(got->n_codebook == want->n_codebook && got->max_seq_len == want->max_seq_len);
    ck_assert(got->rope_base == want->rope_base && got->norm_eps == want->norm_eps);
    ck_assert(got->tie_word_embeddings == want->tie_word_embeddings);
    ck_assert(got->scale_codebook_embeddings == want->scale_codebook_embeddings);
    ck_assert(got->norm_fastlayer_input == want->norm_fastlayer_input);
    ck_assert(got->semantic_begin == want->semantic_begin && got->im_end == want->im_end);
    ck_assert(got->semantic_end == want->semantic_end);
}

/* _i: bit 0 nested, bit 1 split, bits 2.. dtype and shards. */
START_TEST(every_layout_reads_back_as_it_was_meant)
{
    static const kvref_dtype dtype[] = {KVREF_F32, KVREF_F16, KVREF_BF16};
    static const int shards[] = {1, 2, 7};
    kvref_config c = both_forms(), back;
    kvref_error err;
    kvref_model *m;
    kvref_synth_opts o = {.nested = _i & 1, .split_qkv = _i & 2};
    o.dtype = dtype[_i / 4 % 3];
    o.n_shard = shards[_i / 12];
    c.tie_word_embeddings = _i % 5 == 0;
    const char *dir = fresh_dir();
    must(kvref_synth_write(dir, &c, &o, &err), err);
    must(kvref_config_read(&back, dir, &err), err);
    check_config(&back, &c, o.nested);
    must(kvref_model_open(&m, dir, NULL, &err), err);
    check_weights(m, o.dtype);
    ck_assert_int_eq(kvref_model_surplus(m), 0);
    ck_assert(exists(dir, "model.safetensors") == (o.n_shard == 1));
    ck_assert(exists(dir, "model-00001-of-00007.safetensors") == (o.n_shard == 7));
    kvref_model_close(&m);
}
END_TEST

START_TEST(tensors_larger_than_a_panel_are_whole)
{
    kvref_config c = odd;
    kvref_error err;
    kvref_model *m;
    c.n_vocab = 30000; /* 720,000 elements; a panel has 262,144 */
    const char *dir = fresh_dir();
    must(kvref_synth_write(dir, &c, &plain, &err), err);
    must(kvref_model_open(&m, dir, NULL, &err), err);
    check_weights(m, KVREF_BF16);
    kvref_model_close(&m);
}
END_TEST

START_TEST(shards_share_the_bytes)
{
    kvref_synth_opts o = {.dtype = KVREF_F32, .n_shard = 3};
    kvref_error err;
    off_t least = INT32_MAX, most = 0;
    const char *dir = fresh_dir();
    must(kvref_synth_write(dir, &odd, &o, &err), err);
    for (int i = 1; i <= 3; i++) {
        char name[64];
        struct stat st;
        snprintf(name, sizeof name, "model-%05d-of-00003.safetensors", i);
        ck_assert(stat(support_path(dir, name), &st) == 0);
        if (st.st_size < least) least = st.st_size;
        if (st.st_size > most) most = st.st_size;
    }
    ck_assert_msg(most < 2 * least, "%ld and %ld bytes", (long)least, (long)most);
}
END_TEST

START_TEST(flat_form_keeps_what_the_nested_form_implies)
{
    kvref_config back;
    kvref_error err;
    const char *dir = fresh_dir();
    must(kvref_synth_write(dir, &odd, &plain, &err), err);
    must(kvref_config_read(&back, dir, &err), err);
    check_config(&back, &odd, false);
    kvref_synth_opts o = plain;
    o.nested = true;
    must_fail(kvref_synth_write(fresh_dir(), &odd, &o, &err), KVREF_E_ARG, err, "both true");
}
END_TEST

START_TEST(files_bear_the_official_names)
{
    static const char *const name[] = {"text_model.model.embeddings.weight",
                                       "text_model.model.layers.2.attention.wqkv.weight",
                                       "text_model.model.layers.0.feed_forward.w3.weight",
                                       "text_model.model.norm.weight",
                                       "audio_decoder.codebook_embeddings.weight",
                                       "audio_decoder.embeddings.weight",
                                       "audio_decoder.layers.1.attention.q_norm.weight",
                                       "audio_decoder.layers.1.ffn_norm.weight",
                                       "audio_decoder.norm.weight",
                                       "audio_decoder.project_in.bias",
                                       "audio_decoder.output.weight"};
    kvref_config c = both_forms();
    c.tie_word_embeddings = true;
    kvref_synth_opts o = {.dtype = KVREF_BF16, .nested = true, .n_shard = 2};
    kvref_error err;
    kvref_file *f;
    const char *dir = fresh_dir();
    must(kvref_synth_write(dir, &c, &o, &err), err);
    must(kvref_file_open_dir(&f, dir, NULL, &err), err);
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++)
        ck_assert_msg(kvref_file_find(f, name[i]) != NULL, "%s", name[i]);
    for (int i = 0; i < kvref_file_count(f); i++) {
        const char *n = kvref_file_at(f, i)->name;
        ck_assert_msg(strncmp(n, "text_model.model.", 17) == 0 ||
                          strncmp(n, "audio_decoder.", 14) == 0,
                      "%s",
                      n);
    }
    kvref_file_close(&f);
}
END_TEST

/* S2-Pro's layers at toy widths: 358 tensors, by the names of the real files. */
START_TEST(s2_pro_has_the_real_list_of_tensors)
{
    kvref_config c = both_forms();
    kvref_error err;
    kvref_file *f;
    char line[256], name[128];
    int n = 0;
    kvref_synth_opts o = {.dtype = KVREF_BF16, .nested = true, .n_shard = 2};
    c.slow = (kvref_stack){36, 12, 6, 2, 4, 8, false, false, true};
    c.fast = (kvref_stack){4, 12, 6, 2, 4, 8, false, false, false};
    c.tie_word_embeddings = true;
    const char *dir = fresh_dir(), *table = support_shared("spec/appendix-lm-tensors.tsv");
    must(kvref_synth_write(dir, &c, &o, &err), err);
    must(kvref_file_open_dir(&f, dir, NULL, &err), err);
    ck_assert_int_eq(kvref_file_count(f), 358);
    FILE *list = table ? fopen(table, "r") : NULL;
    while (list && fgets(line, sizeof line, list)) {
        if (sscanf(line, "%127s", name) != 1 || strcmp(name, "name_in_file") == 0) continue;
        ck_assert_msg(kvref_file_find(f, name) != NULL, "%s", name);
        n++;
    }
    if (list) {
        ck_assert_int_eq(n, 358);
        (void)fclose(list);
    }
    kvref_file_close(&f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("synth_files");
    TCase *tc = tcase_create("synth_files");
    tcase_add_loop_test(tc, every_layout_reads_back_as_it_was_meant, 0, 36);
    tcase_add_test(tc, tensors_larger_than_a_panel_are_whole);
    tcase_add_test(tc, shards_share_the_bytes);
    tcase_add_test(tc, flat_form_keeps_what_the_nested_form_implies);
    tcase_add_test(tc, files_bear_the_official_names);
    tcase_add_test(tc, s2_pro_has_the_real_list_of_tensors);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
