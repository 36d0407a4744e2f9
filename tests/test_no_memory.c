/* SPDX-License-Identifier: MIT */
/* Every allocation of a call fails once, the n-th in the n-th try: the call reports it, leaves
 * nothing behind (leaks show under a sanitizer), and the last try, with enough memory,
 * succeeds. The library's own allocations are meant, through --wrap: jansson calls its lack of
 * memory a syntax error, so its allocations are left alone. */
#include "tests/alloc.h"
#include "tests/checkpoint.h"
#include "tests/trace_make.h"

static kvref_error err;
/* Runs call(arg) with ever later failures until it succeeds; returns the number of tries. */
static int starve(kvref_status (*call)(void *arg), void *arg)
{
    for (int n = 0; n < 100000; n++) {
        alloc_failed = false;
        alloc_left = n;
        err.text[0] = 0;
        kvref_status s = call(arg);
        bool spent = alloc_failed;
        alloc_left = -1;
        if (s == KVREF_OK && !spent) return n;
        ck_assert_msg(s != KVREF_OK, "allocation %d failed unnoticed", n);
        ck_assert_msg(
            s == KVREF_E_MEMORY, "allocation %d: %s: %s", n, kvref_status_name(s), err.text);
        ck_assert_msg(err.text[0] != 0, "allocation %d: no message", n);
    }
    ck_abort_msg("never succeeds");
    return 0;
}

static kvref_status open_model(void *arg)
{
    kvref_model *m = (void *)&err;
    kvref_status s = kvref_model_open(&m, arg, NULL, &err);
    if (s != KVREF_OK && m) ck_abort_msg("a model remains");
    kvref_model_close(&m);
    return s;
}

START_TEST(a_model_that_cannot_be_allocated_is_reported)
{
    checkpoint *c = checkpoint_new(full_config);
    checkpoint_write(c);
    ck_assert_int_gt(starve(open_model, c->dir), 100);
}
END_TEST

static kvref_status open_folder(void *arg)
{
    kvref_file *f = (void *)&err;
    kvref_status s = kvref_file_open_dir(&f, arg, NULL, &err);
    if (s != KVREF_OK && f) ck_abort_msg("a file remains");
    kvref_file_close(&f);
    return s;
}

START_TEST(shards_that_cannot_be_allocated_are_reported)
{
    checkpoint *c = checkpoint_new(plain_config);
    kvref_tensor t = {.name = "b", .dtype = KVREF_U8};
    static const char *const meta[] = {"format", "pt"};
    static const char index[] = "{\"metadata\":{\"total_size\":1},\"weight_map\":"
                                "{\"norm.weight\":\"model.safetensors\",\"b\":\"s\"}}";
    kvref_writer *w;
    checkpoint_write(c);
    must(kvref_writer_open(&w, support_path(c->dir, "s"), &t, 1, meta, 1, &err), err);
    must(kvref_writer_put(w, "x", 1, &err), err);
    must(kvref_writer_commit(&w, &err), err);
    support_write(
        support_path(c->dir, "model.safetensors.index.json"), index, sizeof index - 1);
    ck_assert_int_gt(starve(open_folder, c->dir), 20);
}
END_TEST

static kvref_status write_file(void *arg)
{
    static const char *const meta[] = {"format", "pt", "k", "v"};
    kvref_tensor t[] = {{.name = "a", .dtype = KVREF_U8, .n_dim = 1, .dim = {3}},
                        {.name = "b", .dtype = KVREF_F32}};
    kvref_writer *w = (void *)&err;
    kvref_status s = kvref_writer_open(&w, arg, t, 2, meta, 2, &err);
    if (s != KVREF_OK && w) ck_abort_msg("a writer remains");
    if (s == KVREF_OK) s = kvref_writer_put(w, "1234567", 7, &err);
    if (s == KVREF_OK) return kvref_writer_commit(&w, &err);
    kvref_writer_abort(&w);
    return s;
}

START_TEST(a_writer_that_cannot_be_allocated_leaves_no_file)
{
    checkpoint *c = checkpoint_new(plain_config);
    const char *path = support_path(c->dir, "x.safetensors");
    ck_assert_int_gt(starve(write_file, (void *)path), 10);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(unlink(support_path(c->dir, "config.json")), 0);
    ck_assert_msg(rmdir(c->dir) == 0, "temporary files remain");
}
END_TEST

static kvref_status read_config(void *arg)
{
    kvref_config c;
    return kvref_config_read(&c, arg, &err);
}

START_TEST(a_config_that_cannot_be_allocated_is_reported)
{
    ck_assert_int_gt(starve(read_config, checkpoint_new(full_config)->dir), 0);
}
END_TEST

static kvref_status open_tokenizer(void *arg)
{
    kvref_tokenizer *tok = (void *)&err;
    kvref_status s = kvref_tokenizer_open(&tok, arg, &err);
    if (s != KVREF_OK && tok) ck_abort_msg("a tokenizer remains");
    kvref_tokenizer_close(&tok);
    return s;
}

START_TEST(a_tokenizer_that_cannot_be_allocated_is_reported)
{
    const char *path = support_source("golden/tokenizer/small.json");
    ck_assert_int_gt(starve(open_tokenizer, (void *)path), 10);
}
END_TEST

static kvref_status open_file(void *arg)
{
    kvref_file *f = (void *)&err;
    kvref_status s = kvref_file_open(&f, arg, NULL, &err);
    if (s != KVREF_OK && f) ck_abort_msg("a file remains");
    kvref_file_close(&f);
    return s;
}

START_TEST(a_pth_that_cannot_be_allocated_is_reported)
{
    const char *path = support_source("golden/pth/views.pth");
    ck_assert_int_gt(starve(open_file, (void *)path), 10);
}
END_TEST

static kvref_status compare(void *arg)
{
    compared *c = arg;
    kvref_status s = kvref_limits_open(&c->limits, KVREF_STORE_F32, NULL, &err);
    c->d = (void *)&err;
    if (s == KVREF_OK) s = kvref_diff_open(&c->d, c->a, c->b, c->limits, &err);
    if (s != KVREF_OK && c->d && c->limits) ck_abort_msg("a comparison remains");
    if (s == KVREF_OK && (c->d->verdict != KVREF_DIFFERS || c->d->n_hint == 0))
        ck_abort_msg("another result"); /* ck_assert allocates */
    if (s == KVREF_OK) kvref_diff_close(&c->d);
    kvref_limits_close(&c->limits);
    return s;
}

START_TEST(a_comparison_that_cannot_be_allocated_is_reported)
{
    trace_make a, b;
    run_make(&a);
    run_make(&b);
    trace_note(&a, "rows.book", "0,1,2");
    trace_drop(&a, "fast.logits");
    ((int32_t *)trace_at(&b, "frames"))[14] ^= 1;
    ((float *)trace_at(&b, "slow.L00.k"))[9] += 0.5f;
    float *k = trace_at(&a, "slow.L00.k"), *to = trace_at(&b, "slow.L00.k");
    for (int i = 0; i < RUN_ROWS * 8; i += 2) { /* turned a quarter: found to be a rotation */
        to[i] = k[i + 1];
        to[i + 1] = -k[i];
    }
    compared c = {.a = trace_open(&a, "a.st"), .b = trace_open(&b, "b.st")};
    ck_assert_int_gt(starve(compare, &c), 5);
    kvref_file_close(&c.a);
    kvref_file_close(&c.b);
    trace_free(&a);
    trace_free(&b);
}
END_TEST

static kvref_status open_limits(void *arg)
{
    kvref_limits *l = (void *)&err;
    kvref_status s = kvref_limits_open(&l, KVREF_STORE_F32, arg, &err);
    if (s != KVREF_OK && l) ck_abort_msg("limits remain");
    kvref_limits_close(&l);
    return s;
}

START_TEST(limits_that_cannot_be_allocated_are_reported)
{
    static const char text[] = "{\"format\": \"kvref-limits-1\", \"taps\": {\"slow.q\": "
                               "{\"rule\": \"T0\"}, \"slow.k\": {\"rule\": \"T0\"}}}";
    const char *path = support_path(support_temp_dir(), "limits.json");
    support_write(path, text, sizeof text - 1);
    ck_assert_int_gt(starve(open_limits, (void *)path), 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("no_memory");
    TCase *tc = tcase_create("no_memory");
    tcase_add_test(tc, a_model_that_cannot_be_allocated_is_reported);
    tcase_add_test(tc, shards_that_cannot_be_allocated_are_reported);
    tcase_add_test(tc, a_writer_that_cannot_be_allocated_leaves_no_file);
    tcase_add_test(tc, a_config_that_cannot_be_allocated_is_reported);
    tcase_add_test(tc, a_tokenizer_that_cannot_be_allocated_is_reported);
    tcase_add_test(tc, a_pth_that_cannot_be_allocated_is_reported);
    tcase_add_test(tc, a_comparison_that_cannot_be_allocated_is_reported);
    tcase_add_test(tc, limits_that_cannot_be_allocated_are_reported);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
