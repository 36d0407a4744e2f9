/* SPDX-License-Identifier: MIT */
/* From a checkpoint folder to weights: every tensor at its place, every fault named. */
#include "tests/checkpoint.h"

#include <unistd.h>

static kvref_error err;
static char heard[8192];
static int n_heard;

static void hear(void *user, const char *text)
{
    (void)user;
    size_t n = strlen(heard);
    snprintf(heard + n, sizeof heard - n, "%s\n", text);
    n_heard++;
}

static const kvref_log log_all = {hear, NULL};

/* Whether w is the whole tensor of that name, or its rows from `first` on. */
static void
is_at(const checkpoint *c, kvref_weight w, const char *name, int first, int r, int k)
{
    float x, want;
    int t = c->tag[checkpoint_find(c, name)];
    ck_assert_msg(w.data != NULL, "%s is not bound", name);
    ck_assert_msg(w.n_row == r && w.n_col == k, "%s: [%d, %d]", name, w.n_row, w.n_col);
    ck_assert_int_eq(w.dtype, KVREF_F32);
    memcpy(&x, w.data, sizeof x);
    want = (float)(t * 65536 + first);
    ck_assert_msg(x == want, "%s begins with %g, not %g", name, (double)x, (double)want);
}

static void
layer_is_at(const checkpoint *c, const kvref_layer *l, const char *stem, kvref_stack s)
{
    char name[64];
    int q = s.n_head * s.d_head, kv = s.n_kv_head * s.d_head, d = s.d_model, f = s.d_ff;
#define N(suffix) (snprintf(name, sizeof name, "%s.%s", stem, suffix), name)
    is_at(c, l->attn_norm, N("attention_norm.weight"), 0, 1, d);
    is_at(c, l->wq, N("attention.wqkv.weight"), 0, q, d);
    is_at(c, l->wk, N("attention.wqkv.weight"), q * d, kv, d);
    is_at(c, l->wv, N("attention.wqkv.weight"), (q + kv) * d, kv, d);
    is_at(c, l->wo, N("attention.wo.weight"), 0, d, q);
    is_at(c, l->ffn_norm, N("ffn_norm.weight"), 0, 1, d);
    is_at(c, l->w1, N("feed_forward.w1.weight"), 0, f, d);
    is_at(c, l->w3, N("feed_forward.w3.weight"), 0, f, d);
    is_at(c, l->w2, N("feed_forward.w2.weight"), 0, d, f);
    if (s.qkv_bias) {
        is_at(c, l->bq, N("attention.wqkv.bias"), 0, 1, q);
        is_at(c, l->bk, N("attention.wqkv.bias"), q, 1, kv);
        is_at(c, l->bv, N("attention.wqkv.bias"), q + kv, 1, kv);
    }
    if (s.o_bias) is_at(c, l->bo, N("attention.wo.bias"), 0, 1, d);
    if (s.qk_norm) {
        is_at(c, l->q_norm, N("attention.q_norm.weight"), 0, 1, s.d_head);
        is_at(c, l->k_norm, N("attention.k_norm.weight"), 0, 1, s.d_head);
    }
    ck_assert(!l->bq.data == !s.qkv_bias && !l->bk.data == !s.qkv_bias);
    ck_assert(!l->bo.data == !s.o_bias && !l->q_norm.data == !s.qk_norm);
}

START_TEST(every_tensor_is_viewed_at_its_place)
{
    checkpoint *c = checkpoint_new(full_config);
    kvref_model *m;
    must(checkpoint_open(c, &m, NULL, &err), err);
    const kvref_weights *w = kvref_model_weights(m);
    is_at(c, w->embed, "embeddings.weight", 0, 100, 20);
    is_at(c, w->codebook_embed, "codebook_embeddings.weight", 0, 48, 20);
    is_at(c, w->norm, "norm.weight", 0, 1, 20);
    is_at(c, w->head, "output.weight", 0, 100, 20);
    is_at(c, w->fast_in, "fast_project_in.weight", 0, 12, 20);
    is_at(c, w->fast_in_bias, "fast_project_in.bias", 0, 1, 12);
    is_at(c, w->fast_embed, "fast_embeddings.weight", 0, 16, 12);
    is_at(c, w->fast_norm, "fast_norm.weight", 0, 1, 12);
    is_at(c, w->fast_head, "fast_output.weight", 0, 16, 12);
    layer_is_at(c, &w->slow[0], "layers.0", c->config.slow);
    layer_is_at(c, &w->slow[1], "layers.1", c->config.slow);
    layer_is_at(c, &w->fast[0], "fast_layers.0", c->config.fast);
    ck_assert_int_eq(kvref_model_surplus(m), 0);
    ck_assert_ptr_null(kvref_model_tokenizer(m));
    ck_assert_int_eq(kvref_model_config(m)->im_end, 60);
    kvref_model_close(&m);
    ck_assert_ptr_null(m);
    kvref_model_close(&m);
}
END_TEST

START_TEST(a_tied_head_is_the_embedding_and_what_is_not_demanded_is_absent)
{
    checkpoint *c = checkpoint_new(plain_config);
    kvref_model *m;
    must(checkpoint_open(c, &m, NULL, &err), err);
    const kvref_weights *w = kvref_model_weights(m);
    ck_assert(w->head.data == w->embed.data && w->head.n_row == 100 && w->head.n_col == 10);
    ck_assert(!w->fast_in.data && !w->fast_in_bias.data);
    layer_is_at(c, &w->slow[0], "layers.0", c->config.slow);
    layer_is_at(c, &w->fast[0], "fast_layers.0", c->config.fast);
    ck_assert_int_eq(kvref_model_config(m)->im_end, -1);
    kvref_model_close(&m);
}
END_TEST

/* Replaces a fused tensor by three; q keeps its tag. */
static void split(checkpoint *c, const char *stem, const char *suffix, kvref_stack s)
{
    char name[96];
    int q = s.n_head * s.d_head, kv = s.n_kv_head * s.d_head;
    snprintf(name, sizeof name, "%s.wqkv.%s", stem, suffix);
    kvref_tensor t = c->tensor[checkpoint_find(c, name)];
    checkpoint_drop(c, checkpoint_find(c, name));
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s.w%c.%s", stem, "qkv"[i], suffix);
        checkpoint_add(c, name, t.n_dim, i ? kv : q, (int)t.dim[1]);
        c->tag[c->n - 1] = 100 + c->n;
    }
}

START_TEST(split_q_k_v_and_biases_are_taken_as_they_are)
{
    checkpoint *c = checkpoint_new(full_config);
    kvref_model *m;
    split(c, "layers.1.attention", "weight", c->config.slow);
    split(c, "layers.0.attention", "bias", c->config.slow);
    split(c, "fast_layers.0.attention", "weight", c->config.fast);
    must(checkpoint_open(c, &m, NULL, &err), err);
    const kvref_weights *w = kvref_model_weights(m);
    is_at(c, w->slow[1].wq, "layers.1.attention.wq.weight", 0, 24, 20);
    is_at(c, w->slow[1].wk, "layers.1.attention.wk.weight", 0, 12, 20);
    is_at(c, w->slow[1].wv, "layers.1.attention.wv.weight", 0, 12, 20);
    is_at(c, w->slow[1].bq, "layers.1.attention.wqkv.bias", 0, 1, 24);
    is_at(c, w->slow[0].bq, "layers.0.attention.wq.bias", 0, 1, 24);
    is_at(c, w->slow[0].bk, "layers.0.attention.wk.bias", 0, 1, 12);
    is_at(c, w->slow[0].bv, "layers.0.attention.wv.bias", 0, 1, 12);
    is_at(c, w->fast[0].wv, "fast_layers.0.attention.wv.weight", 0, 8, 12);
    ck_assert_int_eq(kvref_model_surplus(m), 0);
    kvref_model_close(&m);
}
END_TEST

START_TEST(a_mixture_of_fused_and_split_is_refused)
{
    checkpoint *c = checkpoint_new(full_config);
    kvref_model *m;
    checkpoint_add(c, "layers.0.attention.wk.weight", 2, 12, 20);
    must_fail(checkpoint_open(c, &m, NULL, &err),
              KVREF_E_FORMAT,
              err,
              "layers.0.attention.wqkv.weight and layers.0.attention.wk.weight");
    checkpoint_drop(c, checkpoint_find(c, "layers.0.attention.wqkv.weight"));
    must_fail(checkpoint_open(c, &m, NULL, &err),
              KVREF_E_MISSING,
              err,
              "tensor layers.0.attention.wq.weight: missing, config needs [24, 20]");
    checkpoint_add(c, "layers.0.attention.wq.weight", 2, 24, 20);
    checkpoint_add(c, "layers.0.attention.wv.weight", 2, 24, 20);
    must_fail(checkpoint_open(c, &m, NULL, &err),
              KVREF_E_SHAPE,
              err,
              "layers.0.attention.wv.weight: shape [24, 20], config needs [12, 20]");
    ck_assert_ptr_null(m);
}
END_TEST

/* Loops over all tensors of the full model. */
START_TEST(each_tensor_missing_or_of_another_shape_or_dtype_is_named)
{
    checkpoint *c = checkpoint_new(full_config);
    kvref_model *m;
    char name[128], want[768];
    kvref_tensor was = c->tensor[_i];
    memcpy(name, c->name[_i], sizeof name);
    snprintf(want, sizeof want, "model.safetensors: tensor %s: shape [", name);
    for (int d = 0; d < was.n_dim; d++) {
        c->tensor[_i].dim[d]++;
        must_fail(checkpoint_open(c, &m, NULL, &err), KVREF_E_SHAPE, err, want);
        c->tensor[_i] = was;
    }
    c->tensor[_i].dim[c->tensor[_i].n_dim++] = 1;
    must_fail(checkpoint_open(c, &m, NULL, &err), KVREF_E_SHAPE, err, ", 1], config needs [");
    c->tensor[_i] = was;
    c->tensor[_i].n_dim--;
    must_fail(checkpoint_open(c, &m, NULL, &err), KVREF_E_SHAPE, err, want);
    c->tensor[_i] = was;
    c->tensor[_i].dtype = KVREF_I32;
    snprintf(want, sizeof want, "tensor %s: dtype I32, expected F32, F16 or BF16", name);
    must_fail(checkpoint_open(c, &m, NULL, &err), KVREF_E_SHAPE, err, want);
    checkpoint_drop(c, _i);
    snprintf(want, sizeof want, "%s: tensor %s: missing", c->dir, name);
    must_fail(checkpoint_open(c, &m, NULL, &err), KVREF_E_MISSING, err, want);
    ck_assert_ptr_null(m);
}
END_TEST

START_TEST(a_shape_of_eight_long_sizes_fits_the_message)
{
    checkpoint *c = checkpoint_new(plain_config);
    kvref_model *m;
    kvref_tensor *t = &c->tensor[checkpoint_find(c, "norm.weight")];
    t->n_dim = 8;
    for (int i = 0; i < 8; i++) t->dim[i] = i ? 1000000000000000000 : 0;
    t->dim[1] = 0;
    for (int i = 2; i < 8; i++) t->dim[i] = INT64_MAX;
    must_fail(checkpoint_open(c, &m, NULL, &err), KVREF_E_SHAPE, err, "config needs [10]");
}
END_TEST

START_TEST(half_precision_weights_are_views_too)
{
    checkpoint *c = checkpoint_new(plain_config);
    kvref_model *m;
    for (int i = 0; i < c->n; i++) c->tensor[i].dtype = i % 2 ? KVREF_F16 : KVREF_BF16;
    must(checkpoint_open(c, &m, NULL, &err), err);
    const kvref_layer *l = kvref_model_weights(m)->slow;
    ck_assert_ptr_eq(l->wk.data, (const char *)l->wq.data + 160);
    ck_assert_ptr_eq(l->wv.data, (const char *)l->wk.data + 160);
    ck_assert(l->wq.dtype == l->wv.dtype && l->wq.dtype != KVREF_F32);
    kvref_model_close(&m);
}
END_TEST

START_TEST(surplus_tensors_are_noted_counted_and_ignored)
{
    checkpoint *c = checkpoint_new(plain_config);
    kvref_model *m;
    checkpoint_add(c, "output.weight", 2, 3, 3);
    checkpoint_add(c, "layers.0.attention.wqkv.bias", 1, 3, 0);
    checkpoint_add(c, "layers.1.ffn_norm.weight", 1, 10, 0);
    c->tensor[c->n - 1].dtype = KVREF_I8;
    must(checkpoint_open(c, &m, &log_all, &err), err);
    ck_assert_int_eq(kvref_model_surplus(m), 3);
    ck_assert_int_eq(n_heard, 3);
    ck_assert_ptr_nonnull(strstr(heard, "model.safetensors: tensor output.weight: not needed"));
    kvref_model_close(&m);
    for (int i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof name, "extra.%d", i);
        checkpoint_add(c, name, 1, 1, 0);
    }
    n_heard = 0;
    must(checkpoint_open(c, &m, &log_all, &err), err);
    ck_assert_int_eq(kvref_model_surplus(m), 23);
    ck_assert_int_eq(n_heard, 17);
    ck_assert_ptr_nonnull(strstr(heard, "7 more tensors not needed"));
    kvref_model_close(&m);
}
END_TEST

START_TEST(nested_names_are_mapped_and_the_head_with_them)
{
    checkpoint *c = checkpoint_new(full_config);
    kvref_model *m;
    for (int i = 0; i < c->n; i++) {
        char name[128];
        memcpy(name, c->name[i], sizeof name);
        if (strcmp(name, "output.weight") == 0)
            snprintf(c->name[i], 128, "text_model.lm_head.weight");
        else if (strncmp(name, "fast_", 5) == 0)
            snprintf(c->name[i], 128, "audio_decoder.%.100s", name + 5);
        else if (strncmp(name, "codebook", 8) == 0)
            snprintf(c->name[i], 128, "audio_decoder.%.100s", name);
        else
            snprintf(c->name[i], 128, "text_model.model.%.100s", name);
    }
    must(checkpoint_open(c, &m, NULL, &err), err);
    const kvref_weights *w = kvref_model_weights(m);
    ck_assert_int_eq(kvref_model_surplus(m), 0);
    is_at(c, w->head, "text_model.lm_head.weight", 0, 100, 20);
    is_at(c, w->codebook_embed, "audio_decoder.codebook_embeddings.weight", 0, 48, 20);
    is_at(c, w->fast_embed, "audio_decoder.embeddings.weight", 0, 16, 12);
    is_at(c, w->fast_in, "audio_decoder.project_in.weight", 0, 12, 20);
    is_at(c, w->slow[1].w2, "text_model.model.layers.1.feed_forward.w2.weight", 0, 20, 28);
    is_at(c, w->fast[0].w2, "audio_decoder.layers.0.feed_forward.w2.weight", 0, 12, 10);
    kvref_model_close(&m);
    checkpoint_add(c, "fast_norm.weight", 1, 12, 0);
    must_fail(checkpoint_open(c, &m, NULL, &err),
              KVREF_E_FORMAT,
              err,
              "both become fast_norm.weight, expected one");
}
END_TEST

START_TEST(one_nested_name_switches_the_mapping_on)
{
    checkpoint *c = checkpoint_new(plain_config);
    kvref_model *m;
    int i = checkpoint_find(c, "fast_norm.weight");
    snprintf(c->name[i], 128, "audio_decoder.norm.weight");
    must(checkpoint_open(c, &m, NULL, &err), err);
    kvref_model_close(&m);
    snprintf(c->name[i], 128, "audio_decoders.norm.weight");
    must_fail(checkpoint_open(c, &m, NULL, &err), KVREF_E_MISSING, err, "fast_norm.weight");
}
END_TEST

START_TEST(a_folder_without_its_files_is_named)
{
    checkpoint *c = checkpoint_new(plain_config);
    kvref_model *m;
    must_fail(kvref_model_open(&m, "/nonexistent", NULL, &err), KVREF_E_MISSING, err, "/nonex");
    must_fail(
        kvref_model_open(&m, c->dir, NULL, &err), KVREF_E_MISSING, err, "no weights: expected");
    ck_assert_int_eq(unlink(support_path(c->dir, "config.json")), 0);
    must_fail(checkpoint_open(c, &m, NULL, &err), KVREF_E_MISSING, err, "config.json");
}
END_TEST

static void setup(void)
{
    heard[0] = 0;
    n_heard = 0;
}

int main(void)
{
    Suite *suite = suite_create("model");
    TCase *tc = tcase_create("model");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, every_tensor_is_viewed_at_its_place);
    tcase_add_test(tc, a_tied_head_is_the_embedding_and_what_is_not_demanded_is_absent);
    tcase_add_test(tc, split_q_k_v_and_biases_are_taken_as_they_are);
    tcase_add_test(tc, a_mixture_of_fused_and_split_is_refused);
    kvref_config config;
    if (kvref_config_parse(&config, full_config, strlen(full_config), "config", NULL) == 0)
        tcase_add_loop_test(tc,
                            each_tensor_missing_or_of_another_shape_or_dtype_is_named,
                            0,
                            kvref_config_tensors(&config, NULL, 0));
    tcase_add_test(tc, a_shape_of_eight_long_sizes_fits_the_message);
    tcase_add_test(tc, half_precision_weights_are_views_too);
    tcase_add_test(tc, surplus_tensors_are_noted_counted_and_ignored);
    tcase_add_test(tc, nested_names_are_mapped_and_the_head_with_them);
    tcase_add_test(tc, one_nested_name_switches_the_mapping_on);
    tcase_add_test(tc, a_folder_without_its_files_is_named);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
