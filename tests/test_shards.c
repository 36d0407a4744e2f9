/* SPDX-License-Identifier: MIT */
/* Writing safetensors, reading several by an index, and finding the weights of a folder. */
#include "base/base.h"
#include "kvref/file.h"
#include "tests/support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static kvref_error err;
static const char *dir;
static char heard[4096];

static void setup(void)
{
    static char path[1024];
    static int serial;
    snprintf(path, sizeof path, "%s/%d-%d", support_temp_dir(), (int)getpid(), serial++);
    heard[0] = 0;
    mkdir(path, 0777);
    dir = path;
}

/* Files of the folder, temporary ones of writers included. */
static int n_file(void)
{
    DIR *d = opendir(dir);
    int n = -2;
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static void write_tensors(const char *name, const char *const *tensor, int n)
{
    kvref_tensor t[8];
    kvref_writer *w;
    ck_assert_int_le(n, 8);
    for (int i = 0; i < n; i++)
        t[i] = (kvref_tensor){.name = tensor[i], .dtype = KVREF_U8, .n_dim = 1, .dim = {2}};
    must(kvref_writer_open(&w, support_path(dir, name), t, n, NULL, 0, &err), err);
    for (int i = 0; i < n; i++) must(kvref_writer_put(w, tensor[i], 2, &err), err);
    must(kvref_writer_commit(&w, &err), err);
}

static void write_index(const char *text)
{
    support_write(support_path(dir, "model.safetensors.index.json"), text, strlen(text));
}

START_TEST(what_is_written_is_read_back)
{
    static const char *const meta[] = {"format", "kvref", "quote", "\"\\\xc3\xa9\n"};
    kvref_tensor t[] = {{.name = "z/\"1", .dtype = KVREF_F32, .n_dim = 2, .dim = {2, 3}},
                        {.name = "scalar", .dtype = KVREF_I64},
                        {.name = "none", .dtype = KVREF_F16, .n_dim = 1, .dim = {0}}};
    const char *path = support_path(dir, "x.safetensors");
    char data[32];
    kvref_writer *w;
    kvref_file *f;
    for (int i = 0; i < 32; i++) data[i] = (char)(i * 7);
    must(kvref_writer_open(&w, path, t, 3, meta, 2, &err), err);
    must(kvref_writer_put(w, data, 5, &err), err);
    must(kvref_writer_put(w, data + 5, 27, &err), err);
    ck_assert_int_ne(access(path, F_OK), 0);
    must(kvref_writer_commit(&w, &err), err);
    ck_assert_ptr_null(w);
    must(kvref_file_open(&f, path, NULL, &err), err);
    ck_assert_int_eq(kvref_file_count(f), 3);
    const kvref_tensor *z = kvref_file_find(f, "z/\"1");
    ck_assert(z->dtype == KVREF_F32 && z->n_dim == 2 && z->dim[0] == 2 && z->dim[1] == 3);
    ck_assert_mem_eq(z->data, data, 24);
    ck_assert_int_eq((intptr_t)z->data % 64, 0);
    ck_assert_mem_eq(kvref_file_find(f, "scalar")->data, data + 24, 8);
    ck_assert_uint_eq(kvref_file_find(f, "none")->n_byte, 0);
    ck_assert_str_eq(kvref_file_meta(f, "quote"), meta[3]);
    kvref_file_close(&f);
    ck_assert_int_eq(n_file(), 1);
}
END_TEST

START_TEST(a_file_with_other_than_the_declared_bytes_never_appears)
{
    kvref_tensor t = {.name = "a", .dtype = KVREF_F32, .n_dim = 1, .dim = {2}};
    const char *path = support_path(dir, "x.safetensors");
    kvref_writer *w;
    must(kvref_writer_open(&w, path, &t, 1, NULL, 0, &err), err);
    must(kvref_writer_put(w, "1234567", 7, &err), err);
    must_fail(kvref_writer_put(w, "89", 2, &err), KVREF_E_ARG, err, "declared 8 bytes");
    must_fail(kvref_writer_commit(&w, &err), KVREF_E_ARG, err, "7 bytes put, 8 declared");
    ck_assert_ptr_null(w);
    ck_assert_int_eq(n_file(), 0);
    must(kvref_writer_open(&w, path, &t, 1, NULL, 0, &err), err);
    kvref_writer_abort(&w);
    kvref_writer_abort(&w);
    ck_assert_int_eq(n_file(), 0);
}
END_TEST

START_TEST(impossible_declarations_are_refused)
{
    static const struct {
        kvref_tensor t;
        const char *contains;
    } bad[] = {
        {{.name = ""}, "expected 1..255 bytes"},
        {{.name = "__metadata__"}, "not __metadata__"},
        {{.name = "\xff"}, "not valid UTF-8"},
        {{.name = "a", .n_dim = 9}, "shape"},
        {{.name = "a", .n_dim = -1}, "shape"},
        {{.name = "a", .n_dim = 1, .dim = {-1}}, "shape"},
        {{.name = "a", .n_dim = 2, .dim = {INT64_MAX, 8}}, "shape"},
        {{.name = "a", .n_dim = 1, .dim = {INT64_MAX / 4 + 1}}, "shape"},
        {{.name = "b", .n_dim = 1, .dim = {1}}, "b: declared twice"},
    };
    static const char *const meta[] = {"k", "\xff"};
    const char *path = support_path(dir, "x");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        kvref_tensor t[] = {{.name = "b", .n_dim = 1, .dim = {1}}, bad[i].t};
        kvref_writer *w;
        must_fail(kvref_writer_open(&w, path, t, 2, NULL, 0, &err),
                  KVREF_E_ARG,
                  err,
                  bad[i].contains);
        ck_assert_ptr_null(w);
    }
    kvref_writer *w;
    must_fail(kvref_writer_open(&w, path, NULL, 0, meta, 1, &err), KVREF_E_ARG, err, "UTF-8");
    must_fail(kvref_writer_open(&w, path, NULL, -1, NULL, 0, &err), KVREF_E_ARG, err, "-1");
    must_fail(
        kvref_writer_open(&w, "/nonexistent/x", NULL, 0, NULL, 0, &err), KVREF_E_IO, err, "x");
    ck_assert_int_eq(n_file(), 0);
}
END_TEST

START_TEST(what_cannot_be_written_is_refused_at_once)
{
    kvref_out *o;
    must_fail(kvref_out_open(&o, dir, &err), KVREF_E_IO, err, "found a directory");
    must_fail(kvref_out_open(&o, "", &err), KVREF_E_ARG, err, "expected a name");
    must_fail(kvref_out_open(&o, "/proc/none", &err), KVREF_E_IO, err, "/proc/none");
    ck_assert_ptr_null(o);
}
END_TEST

START_TEST(a_result_has_the_permissions_of_any_new_file)
{
    struct stat st;
    kvref_out *o;
    umask(027);
    must(kvref_out_open(&o, support_path(dir, "x"), &err), err);
    must(kvref_out_commit(&o, &err), err);
    ck_assert_int_eq(stat(support_path(dir, "x"), &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0640);
}
END_TEST

START_TEST(several_writers_of_one_path_do_not_meet)
{
    kvref_out *a, *b;
    const char *path = support_path(dir, "x");
    must(kvref_out_open(&a, path, &err), err);
    must(kvref_out_open(&b, path, &err), err);
    must(kvref_out_put(a, "first", 5, &err), err);
    must(kvref_out_put(b, "2nd", 3, &err), err);
    must(kvref_out_commit(&b, &err), err);
    must(kvref_out_commit(&a, &err), err);
    kvref_map map;
    must(kvref_map_open(&map, path, &err), err);
    ck_assert_uint_eq(map.n_byte, 5);
    kvref_map_close(&map);
    ck_assert_int_eq(n_file(), 1);
}
END_TEST

START_TEST(a_full_disk_leaves_the_old_file)
{
    if (access("/dev/full", W_OK) != 0) return;
    const char *path = support_path(dir, "x");
    kvref_out *o;
    support_write(path, "old", 3);
    must(kvref_out_open(&o, path, &err), err);
    /* The open temporary file becomes the full device. */
    char name[64], target[1024];
    for (int fd = 3; fd < 256; fd++) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(name, target, sizeof target - 1);
        if (n < 0) continue;
        target[n] = 0;
        if (!strstr(target, ".kvref-")) continue;
        FILE *full = fopen("/dev/full", "wb");
        dup2(fileno(full), fd);
        (void)fclose(full);
    }
    char block[8192] = {0};
    must_fail(kvref_out_put(o, block, sizeof block, &err), KVREF_E_IO, err, "No space");
    must_fail(kvref_out_commit(&o, &err), KVREF_E_IO, err, "cannot write");
    kvref_map map;
    must(kvref_map_open(&map, path, &err), err);
    ck_assert_mem_eq(map.data, "old", 3);
    kvref_map_close(&map);
    ck_assert_int_eq(n_file(), 1);
}
END_TEST

static void hear(void *user, const char *text)
{
    (void)user;
    size_t n = strlen(heard);
    snprintf(heard + n, sizeof heard - n, "%s\n", text);
}

static const kvref_log log_all = {hear, NULL};

START_TEST(an_index_joins_its_shards)
{
    kvref_file *f;
    write_tensors("s1", (const char *const[]){"a", "c"}, 2);
    write_tensors("s2", (const char *const[]){"b", "d"}, 2);
    write_index("{\"metadata\":{\"total_size\":6},\"weight_map\":"
                "{\"c\":\"s1\",\"b\":\"s2\",\"a\":\"s1\"}}\n");
    must(kvref_file_open_dir(&f, dir, &log_all, &err), err);
    ck_assert_int_eq(kvref_file_count(f), 3);
    ck_assert_str_eq(kvref_file_at(f, 1)->name, "b");
    ck_assert_str_eq(kvref_file_path_of(f, kvref_file_at(f, 1)), support_path(dir, "s2"));
    ck_assert_mem_eq(kvref_file_find(f, "c")->data, "c", 2);
    ck_assert_ptr_null(kvref_file_find(f, "d"));
    ck_assert_ptr_nonnull(strstr(heard, "s2: tensor d: not in the index, ignored"));
    kvref_file_close(&f);
}
END_TEST

static const struct {
    const char *index;
    kvref_status status;
    const char *contains;
} bad_index[] = {
    {"{\"weight_map\":{\"a\":\"s2\"}}", KVREF_E_MISSING, "s2: tensor a: expected by"},
    {"{\"weight_map\":{\"a\":\"s1\",\"x\":\"s2\"}}", KVREF_E_MISSING, "found nowhere"},
    {"{\"weight_map\":{\"a\":\"s2\",\"b\":\"s1\"}}",
     KVREF_E_MISSING,
     "s2: tensor a: expected by"},
    {"{\"weight_map\":{\"a\":\"s3\"}}", KVREF_E_MISSING, "s3: "},
    {"{\"weight_map\":{\"a\":\"s1\",\"e\":\"twice\"}}", KVREF_E_FORMAT, "a: found again in"},
    {"{\"weight_map\":{\"a\":\"s1\",\"a\":\"s1\"}}", KVREF_E_FORMAT, "a: found twice"},
    {"{\"weight_map\":{\"a\":\"../s1\"}}", KVREF_E_FORMAT, "found \"../s1\""},
    {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", KVREF_E_FORMAT, "name of a file beside"},
    {"{\"weight_map\":{\"a\":\"..\"}}", KVREF_E_FORMAT, "name of a file beside"},
    {"{\"weight_map\":{\"a\":\".\"}}", KVREF_E_FORMAT, "name of a file beside"},
    {"{\"weight_map\":{\"a\":\"\"}}", KVREF_E_FORMAT, "name of a file beside"},
    {"{\"weight_map\":{\"a\":\"b\\\\c\"}}", KVREF_E_FORMAT, "name of a file beside"},
    {"{\"weight_map\":{\"a\":1}}", KVREF_E_FORMAT, "a: expected a file name, found 1"},
    {"{\"weight_map\":{\"a\":\"s1}}", KVREF_E_FORMAT, "closing quote"},
    {"{\"weight_map\":{\"a\":s1}}", KVREF_E_FORMAT, "invalid token"},
    {"{\"weight_map\":[]}", KVREF_E_FORMAT, "expected '{'"},
    {"{\"weight_map\":{},\"weight_map\":{}}", KVREF_E_FORMAT, "weight_map: found twice"},
    {"{\"metadata\":{,}}", KVREF_E_FORMAT, "JSON byte 12"},
    {"{\"metadata\":{}}", KVREF_E_MISSING, "no weight_map"},
    {"[]", KVREF_E_FORMAT, "expected '{'"},
    {"", KVREF_E_FORMAT, "found the end"},
    {"{\"weight_map\":{\"a\":\"junk\"}}", KVREF_E_FORMAT, "junk: not a safetensors file"},
};

START_TEST(every_bad_index_is_named)
{
    kvref_file *f;
    write_tensors("s1", (const char *const[]){"a"}, 1);
    write_tensors("s2", (const char *const[]){"b"}, 1);
    write_tensors("twice", (const char *const[]){"a", "e"}, 2);
    support_write(support_path(dir, "junk"), "junkjunkjunk", 12);
    write_index(bad_index[_i].index);
    must_fail(kvref_file_open_dir(&f, dir, NULL, &err),
              bad_index[_i].status,
              err,
              bad_index[_i].contains);
    ck_assert_ptr_null(f);
}
END_TEST

START_TEST(an_index_of_a_file_name_beyond_255_bytes_or_of_17_mb_is_refused)
{
    kvref_file *f;
    char text[400];
    snprintf(text, sizeof text, "{\"weight_map\":{\"a\":\"%0*d\"}}", 256, 1);
    write_index(text);
    must_fail(kvref_file_open_dir(&f, dir, NULL, &err), KVREF_E_FORMAT, err, "beside");
    ck_assert_int_eq(truncate(support_path(dir, "model.safetensors.index.json"), 17 << 20), 0);
    must_fail(kvref_file_open_dir(&f, dir, NULL, &err), KVREF_E_FORMAT, err, "at most 8388608");
}
END_TEST

START_TEST(surplus_notes_are_limited)
{
    kvref_tensor t[40];
    char name[40][16];
    kvref_writer *w;
    kvref_file *f;
    for (int i = 0; i < 40; i++) {
        snprintf(name[i], sizeof name[i], "t%02d", i);
        t[i] = (kvref_tensor){.name = name[i], .dtype = KVREF_U8, .n_dim = 1, .dim = {0}};
    }
    must(kvref_writer_open(&w, support_path(dir, "s1"), t, 40, NULL, 0, &err), err);
    must(kvref_writer_commit(&w, &err), err);
    write_index("{\"weight_map\":{\"t00\":\"s1\"}}");
    must(kvref_file_open_dir(&f, dir, &log_all, &err), err);
    ck_assert_ptr_nonnull(strstr(heard, "23 more tensors"));
    ck_assert_ptr_null(strstr(heard, "t17"));
    kvref_file_close(&f);
    write_index("{\"weight_map\":{}}");
    must(kvref_file_open_dir(&f, dir, NULL, &err), err);
    ck_assert_int_eq(kvref_file_count(f), 0);
    kvref_file_close(&f);
}
END_TEST

START_TEST(the_index_comes_before_the_single_file_and_that_before_pth)
{
    kvref_file *f;
    must_fail(kvref_file_open_dir(&f, dir, NULL, &err), KVREF_E_MISSING, err, "no weights");
    support_write(support_path(dir, "model.pth"), "PK\5\6", 4);
    ck_assert(kvref_file_open_dir(&f, dir, NULL, &err) != KVREF_OK);
    ck_assert_ptr_nonnull(strstr(err.text, "model.pth"));
    write_tensors("model.safetensors", (const char *const[]){"single"}, 1);
    must(kvref_file_open_dir(&f, dir, NULL, &err), err);
    ck_assert_ptr_nonnull(kvref_file_find(f, "single"));
    kvref_file_close(&f);
    write_tensors("s1", (const char *const[]){"a"}, 1);
    write_index("{\"weight_map\":{\"a\":\"s1\"}}");
    must(kvref_file_open_dir(&f, dir, NULL, &err), err);
    ck_assert_ptr_nonnull(kvref_file_find(f, "a"));
    kvref_file_close(&f);
    must_fail(kvref_file_open_dir(&f, "/dev/null", NULL, &err),
              KVREF_E_MISSING,
              err,
              "/dev/null: no weights");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shards");
    TCase *tc = tcase_create("shards");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, what_is_written_is_read_back);
    tcase_add_test(tc, a_file_with_other_than_the_declared_bytes_never_appears);
    tcase_add_test(tc, impossible_declarations_are_refused);
    tcase_add_test(tc, what_cannot_be_written_is_refused_at_once);
    tcase_add_test(tc, a_result_has_the_permissions_of_any_new_file);
    tcase_add_test(tc, several_writers_of_one_path_do_not_meet);
    tcase_add_test(tc, a_full_disk_leaves_the_old_file);
    tcase_add_test(tc, an_index_joins_its_shards);
    tcase_add_loop_test(
        tc, every_bad_index_is_named, 0, (int)(sizeof bad_index / sizeof bad_index[0]));
    tcase_add_test(tc, an_index_of_a_file_name_beyond_255_bytes_or_of_17_mb_is_refused);
    tcase_add_test(tc, surplus_notes_are_limited);
    tcase_add_test(tc, the_index_comes_before_the_single_file_and_that_before_pth);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
