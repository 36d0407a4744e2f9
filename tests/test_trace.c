/* SPDX-License-Identifier: MIT */
#include "base/trace.h"
#include "tests/support.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static kvref_error err;

static kvref_trace *open_trace(void)
{
    kvref_trace *trace;
    must(kvref_trace_open(&trace, &err), err);
    return trace;
}

/* Reports rows first..first+n_row-1 whose values count up from `from`. */
static void
tap(kvref_trace *trace, const char *name, int layer, int first, int n_row, int head, float from)
{
    float x[64];
    const kvref_tap_data data = {name, layer, first, n_row, head, 6, x};
    kvref_tap t = kvref_trace_tap(trace, KVREF_TAP_OPS);
    for (int i = 0; i < 6 * n_row; i++) x[i] = from + (float)i;
    ck_assert_int_eq(t.level, KVREF_TAP_OPS);
    t.fn(t.user, &data);
}

static kvref_file *write_and_open(kvref_trace *trace, int n_frame)
{
    const char *path = support_path(support_temp_dir(), "trace.safetensors");
    kvref_file *file;
    must(kvref_trace_write(trace, path, n_frame, &err), err);
    must(kvref_file_open(&file, path, NULL, &err), err);
    return file;
}

static const kvref_tensor *expect_tensor(
    const kvref_file *file, const char *name, kvref_dtype dtype, int n_dim, const int64_t *dim)
{
    const kvref_tensor *t = kvref_file_find(file, name);
    ck_assert_msg(t != NULL, "%s is missing", name);
    ck_assert_int_eq(t->dtype, dtype);
    ck_assert_int_eq(t->n_dim, n_dim);
    for (int i = 0; i < n_dim; i++) ck_assert_int_eq(t->dim[i], dim[i]);
    return t;
}

/* A prompt of two positions and two more calls; three frames of three codebooks. */
static void collect(kvref_trace *trace)
{
    static const int32_t prompt[8] = {1, 2, 3, 4, 5, 6, 7, 8}, length[3] = {2, 3, 4};
    static const int64_t rows[6] = {3, 3, 3, 3, 4, (int64_t)1 << 40};
    must(kvref_trace_ints(trace, "prompt", prompt, 2, 4, &err), err);
    must(kvref_trace_ints(trace, "slow.kv_len", length, 3, 0, &err), err);
    must(kvref_trace_counts(trace, "slow.kv_rows", rows, 3, 2, &err), err);
    for (int f = 0; f < 3; f++) {
        int first = f == 0 ? 0 : f + 1, n_row = f == 0 ? 2 : 1;
        float x = (float)(1000 * f);
        tap(trace, "slow.embed", -1, first, n_row, 0, x);
        tap(trace, "slow.q", 0, first, n_row, 3, x + 100);
        tap(trace, "slow.logits", -1, f, 1, 0, x + 200);
        tap(trace, "fast.k", 12, 0, 2, 2, x + 300);
        tap(trace, "fast.logits", -1, 1, 1, 0, x + 400);
        tap(trace, "fast.k", 12, 2, 1, 2, x + 312);
        tap(trace, "fast.logits", -1, 2, 1, 0, x + 500);
    }
}

static void expect_floats(const kvref_tensor *t, int at, int n, float from)
{
    for (int i = 0; i < n; i++) {
        float x;
        memcpy(&x, (const float *)t->data + at + i, sizeof x);
        ck_assert(x == from + (float)i);
    }
}

START_TEST(tensors_have_the_names_axes_and_values_of_the_golden_data)
{
    kvref_trace *trace = open_trace();
    collect(trace);
    kvref_file *file = write_and_open(trace, 3);
    const kvref_tensor *t;

    t = expect_tensor(file, "slow.embed", KVREF_F32, 2, (int64_t[]){4, 6});
    expect_floats(t, 0, 12, 0);
    expect_floats(t, 12, 6, 1000);
    expect_floats(t, 18, 6, 2000);
    t = expect_tensor(file, "slow.L00.q", KVREF_F32, 3, (int64_t[]){4, 3, 2});
    expect_floats(t, 12, 6, 1100);
    t = expect_tensor(file, "slow.logits", KVREF_F32, 2, (int64_t[]){3, 6});
    expect_floats(t, 6, 6, 1200);
    t = expect_tensor(file, "fast.L12.k", KVREF_F32, 4, (int64_t[]){3, 3, 2, 3});
    for (int f = 0; f < 3; f++) expect_floats(t, 18 * f, 18, (float)(1000 * f + 300));
    t = expect_tensor(file, "fast.logits", KVREF_F32, 3, (int64_t[]){3, 2, 6});
    expect_floats(t, 6, 6, 500);
    t = expect_tensor(file, "prompt", KVREF_I32, 2, (int64_t[]){2, 4});
    ck_assert(memcmp(t->data, (int32_t[]){1, 2, 3, 4, 5, 6, 7, 8}, 32) == 0);
    t = expect_tensor(file, "slow.kv_len", KVREF_I32, 1, (int64_t[]){3});
    ck_assert(memcmp(t->data, (int32_t[]){2, 3, 4}, 12) == 0);
    t = expect_tensor(file, "slow.kv_rows", KVREF_I64, 2, (int64_t[]){3, 2});
    ck_assert(memcmp((const char *)t->data + 40, &(int64_t){(int64_t)1 << 40}, 8) == 0);
    ck_assert_int_eq(kvref_file_count(file), 8);
    ck_assert_str_eq(kvref_file_meta(file, "format"), "kvref-trace-1");
    kvref_file_close(&file);
    kvref_trace_close(&trace);
}
END_TEST

START_TEST(an_empty_trace_and_empty_tensors_can_be_written)
{
    kvref_trace *trace = open_trace();
    kvref_file *file = write_and_open(trace, 0);
    ck_assert_int_eq(kvref_file_count(file), 0);
    kvref_file_close(&file);
    must(kvref_trace_ints(trace, "frames", NULL, 0, 4, &err), err);
    file = write_and_open(trace, 0);
    expect_tensor(file, "frames", KVREF_I32, 2, (int64_t[]){0, 4});
    kvref_file_close(&file);
    kvref_trace_close(&trace);
    kvref_trace_close(&trace);
}
END_TEST

START_TEST(metadata_is_kept_and_replaced_by_key)
{
    kvref_trace *trace = open_trace();
    char value[] = "ref";
    must(kvref_trace_meta(trace, "backend", value, &err), err);
    value[0] = '?';
    must(kvref_trace_meta(trace, "seed", "41", &err), err);
    must(kvref_trace_meta(trace, "seed", "42", &err), err);
    must_fail(kvref_trace_meta(trace, "format", "mine", &err), KVREF_E_ARG, err, "format");
    ck_assert_uint_eq(trace->n_meta, 2);
    kvref_file *file = write_and_open(trace, 0);
    ck_assert_str_eq(kvref_file_meta(file, "backend"), "ref");
    ck_assert_str_eq(kvref_file_meta(file, "seed"), "42");
    ck_assert_str_eq(kvref_file_meta(file, "format"), "kvref-trace-1");
    kvref_file_close(&file);
    kvref_trace_close(&trace);
}
END_TEST

/* ---- faults of a decoder ---- */

static void expect_fault(kvref_trace *trace, const char *what)
{
    const char *path = support_path(support_temp_dir(), "faulty.safetensors");
    tap(trace, "nodot", 0, 0, 1, 0, 0); /* the first fault stays */
    must_fail(kvref_trace_write(trace, path, 1, &err), KVREF_E_SHAPE, err, what);
    ck_assert(access(path, F_OK) != 0);
    ck_assert_uint_eq(kvref_trace_hash(trace), 0);
    kvref_trace_close(&trace);
}

START_TEST(slow_positions_must_follow_one_another)
{
    static const int second[] = {0, 1, 3, -1};
    for (int i = 0; i < 4; i++)
        for (int named = 0; named < 2; named++) {
            kvref_trace *trace = open_trace();
            const char *name = named ? "slow.embed" : "slow.k";
            tap(trace, name, named ? -1 : 3, 0, 2, 0, 0);
            tap(trace, name, named ? -1 : 3, second[i], 1, 0, 0);
            expect_fault(trace, named ? "slow.embed: row" : "slow.L03.k: row");
        }
    kvref_trace *trace = open_trace();
    tap(trace, "slow.k", 0, 1, 1, 0, 0);
    expect_fault(trace, "slow.L00.k: row 1 does not follow");
}
END_TEST

START_TEST(codebook_positions_must_follow_or_start_over)
{
    static const int good[] = {1, 2, 3, 1, 2, 3, 1};
    static const int bad[] = {1, 2, 4};
    kvref_trace *trace = open_trace();
    for (int i = 0; i < 7; i++) tap(trace, "fast.logits", -1, good[i], 1, 0, 0);
    ck_assert_uint_ne(kvref_trace_hash(trace), 0);
    kvref_trace_close(&trace);
    trace = open_trace();
    for (int i = 0; i < 3; i++) tap(trace, "fast.logits", -1, bad[i], 1, 0, 0);
    expect_fault(trace, "fast.logits: row 4 does not follow");
}
END_TEST

START_TEST(rows_of_another_shape_are_refused)
{
    static const kvref_tap_data bad[] = {{"slow.x", -1, 0, 1, 4, 6, NULL},
                                         {"slow.x", -1, 0, 1, -1, 6, NULL},
                                         {"slow.x", -1, 0, -1, 0, 6, NULL},
                                         {"slow.x", -1, 0, 1, 0, 0, NULL}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        kvref_trace *trace = open_trace();
        kvref_tap t = kvref_trace_tap(trace, KVREF_TAP_LAYERS);
        t.fn(t.user, &bad[i]);
        expect_fault(trace, "slow.x: expected rows of whole heads");
    }
    kvref_trace *trace = open_trace();
    tap(trace, "slow.k", 0, 0, 1, 2, 0);
    tap(trace, "slow.k", 0, 1, 1, 3, 0);
    expect_fault(trace, "slow.L00.k: expected F32 rows of 6 values in 2 heads");

    trace = open_trace();
    must(kvref_trace_ints(trace, "frames", (int32_t[]){1, 2}, 1, 2, &err), err);
    must_fail(kvref_trace_ints(trace, "frames", (int32_t[]){1}, 1, 1, &err),
              KVREF_E_SHAPE,
              err,
              "frames: expected I32 rows of 2");
    must_fail(kvref_trace_counts(trace, "frames", (int64_t[]){1, 2}, 1, 2, &err),
              KVREF_E_SHAPE,
              err,
              "found I64 rows of 2");
    kvref_trace_close(&trace);
}
END_TEST

START_TEST(names_that_cannot_be_are_refused)
{
    char name[200];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    const char *const bad[] = {name, "nodot"};
    for (int i = 0; i < 2; i++) {
        kvref_trace *trace = open_trace();
        const char *path = support_path(support_temp_dir(), "faulty.safetensors");
        tap(trace, bad[i], i ? 0 : -1, 0, 1, 0, 0);
        must_fail(kvref_trace_write(trace, path, 1, &err), KVREF_E_ARG, err, bad[i]);
        kvref_trace_close(&trace);
    }
    kvref_trace *trace = open_trace();
    must_fail(kvref_trace_ints(trace, name, NULL, 0, 1, &err), KVREF_E_ARG, err, "64 bytes");
    must_fail(kvref_trace_ints(trace, "a", NULL, -1, 1, &err), KVREF_E_ARG, err, "-1 x 1");
    must_fail(kvref_trace_ints(trace, "a", NULL, 0, -1, &err), KVREF_E_ARG, err, "0 x -1");
    kvref_trace_close(&trace);
}
END_TEST

START_TEST(fast_rows_must_divide_by_frames)
{
    const char *path = support_path(support_temp_dir(), "odd.safetensors");
    kvref_trace *trace = open_trace();
    collect(trace);
    must_fail(kvref_trace_write(trace, path, 2, &err), KVREF_E_SHAPE, err, "9 rows");
    must_fail(kvref_trace_write(trace, path, 0, &err), KVREF_E_SHAPE, err, "fast.L12.k");
    must_fail(kvref_trace_write(trace, "/nowhere/x", 3, &err), KVREF_E_IO, err, "/nowhere");
    ck_assert(access(path, F_OK) != 0);
    kvref_trace_close(&trace);
}
END_TEST

/* ---- hash ---- */

static uint64_t hash_of(void (*more)(kvref_trace *))
{
    kvref_trace *trace = open_trace();
    collect(trace);
    if (more) more(trace);
    uint64_t hash = kvref_trace_hash(trace);
    kvref_trace_close(&trace);
    return hash;
}

static void add_row(kvref_trace *t)
{
    tap(t, "slow.logits", -1, 3, 1, 0, 0);
}

static void add_tensor(kvref_trace *t)
{
    must(kvref_trace_ints(t, "frames", NULL, 0, 4, &err), err);
}

static void add_work(kvref_trace *t)
{
    must(kvref_trace_counts(t, "slow.kv_rows", (int64_t[]){7, 8}, 1, 2, &err), err);
    must(kvref_trace_counts(t, "slow.kv_bytes", (int64_t[]){7, 8}, 1, 2, &err), err);
    must(kvref_trace_meta(t, "attention", "full", &err), err);
}

static void add_length(kvref_trace *t)
{
    must(kvref_trace_ints(t, "slow.kv_len", (int32_t[]){5}, 1, 0, &err), err);
}

START_TEST(the_hash_tells_results_apart_but_not_work)
{
    uint64_t hash = hash_of(NULL);
    ck_assert_uint_eq(hash_of(NULL), hash);
    ck_assert_uint_eq(hash_of(add_work), hash);
    ck_assert_uint_ne(hash_of(add_row), hash);
    ck_assert_uint_ne(hash_of(add_tensor), hash);
    ck_assert_uint_ne(hash_of(add_length), hash);
}
END_TEST

static uint64_t hash_one(const char *name, int head, float x)
{
    kvref_trace *trace = open_trace();
    const kvref_tap_data data = {name, -1, 0, 1, head, 2, (float[]){x, 1}};
    kvref_tap t = kvref_trace_tap(trace, KVREF_TAP_LOGITS);
    t.fn(t.user, &data);
    uint64_t hash = kvref_trace_hash(trace);
    kvref_trace_close(&trace);
    return hash;
}

START_TEST(the_hash_sees_every_bit_every_shape_and_every_name)
{
    uint64_t hash = hash_one("slow.a", 0, 0);
    ck_assert_uint_ne(hash_one("slow.a", 0, -0.0f), hash);
    ck_assert_uint_ne(hash_one("slow.a", 0, 0x1p-149f), hash);
    ck_assert_uint_ne(hash_one("slow.a", 1, 0), hash);
    ck_assert_uint_ne(hash_one("slow.a", 2, 0), hash_one("slow.a", 1, 0));
    ck_assert_uint_ne(hash_one("slow.b", 0, 0), hash);
    ck_assert_uint_eq(hash_one("slow.a", 0, NAN), hash_one("slow.a", 0, NAN));
    kvref_trace *trace = open_trace();
    ck_assert_uint_eq(kvref_trace_hash(trace), 0xcbf29ce484222325u);
    kvref_trace_close(&trace);
}
END_TEST

/* The bytes that are hashed, written out: name, type, number of axes, axes, data. */
START_TEST(the_hash_is_fnv_1a_of_the_documented_bytes)
{
    uint8_t byte[64] = {0};
    memcpy(byte, "a", 2);
    memcpy(byte + 2, "I32", 4);
    byte[6] = 2;
    byte[14] = 1;
    byte[22] = 2;
    byte[30] = 7;
    byte[34] = 9;
    uint64_t want = 14695981039346656037u;
    for (int i = 0; i < 38; i++) want = (want ^ byte[i]) * 1099511628211u;
    kvref_trace *trace = open_trace();
    must(kvref_trace_ints(trace, "a", (int32_t[]){7, 9}, 1, 2, &err), err);
    ck_assert_uint_eq(kvref_trace_hash(trace), want);
    kvref_trace_close(&trace);
}
END_TEST

START_TEST(the_order_of_calls_does_not_matter)
{
    static const char *const name[] = {"slow.c", "slow.a", "slow.b", "slow.d"};
    uint64_t hash[2];
    for (int turn = 0; turn < 2; turn++) {
        kvref_trace *trace = open_trace();
        for (int i = 0; i < 4; i++) tap(trace, name[turn ? 3 - i : i], 0, 0, 1, 0, 1);
        hash[turn] = kvref_trace_hash(trace);
        kvref_file *file = write_and_open(trace, 1);
        ck_assert_int_eq(kvref_file_count(file), 4);
        kvref_file_close(&file);
        kvref_trace_close(&trace);
    }
    ck_assert_uint_eq(hash[0], hash[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trace");
    TCase *tc = tcase_create("trace");
    tcase_add_test(tc, tensors_have_the_names_axes_and_values_of_the_golden_data);
    tcase_add_test(tc, an_empty_trace_and_empty_tensors_can_be_written);
    tcase_add_test(tc, metadata_is_kept_and_replaced_by_key);
    tcase_add_test(tc, slow_positions_must_follow_one_another);
    tcase_add_test(tc, codebook_positions_must_follow_or_start_over);
    tcase_add_test(tc, rows_of_another_shape_are_refused);
    tcase_add_test(tc, names_that_cannot_be_are_refused);
    tcase_add_test(tc, fast_rows_must_divide_by_frames);
    tcase_add_test(tc, the_hash_tells_results_apart_but_not_work);
    tcase_add_test(tc, the_hash_sees_every_bit_every_shape_and_every_name);
    tcase_add_test(tc, the_hash_is_fnv_1a_of_the_documented_bytes);
    tcase_add_test(tc, the_order_of_calls_does_not_matter);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
