/* SPDX-License-Identifier: MIT */
#include "base/base.h"
#include "base/pool.h"
#include "tests/support.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static kvref_error err;

START_TEST(hostile_names_cannot_reach_a_terminal)
{
    kvref_status s =
        kvref_fail(&err, KVREF_E_FORMAT, "tensor %s", "a\x1b[2Jb\n\xff\xe2\x80\xaeq");
    ck_assert_int_eq(s, KVREF_E_FORMAT);
    ck_assert_int_eq(err.status, KVREF_E_FORMAT);
    ck_assert_str_eq(err.text, "tensor a?[2Jb?????q");
}
END_TEST

START_TEST(long_messages_are_cut_with_dots)
{
    char big[2000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    (void)kvref_fail(&err, KVREF_E_ARG, "%s", big);
    ck_assert_uint_eq(strlen(err.text), sizeof err.text - 1);
    ck_assert_str_eq(err.text + sizeof err.text - 4, "...");
    ck_assert_int_eq(kvref_fail(NULL, KVREF_E_ARG, "no record"), KVREF_E_ARG);
}
END_TEST

static void keep_line(void *user, const char *text)
{
    snprintf(user, 100, "%s", text);
}

START_TEST(notes_reach_the_log_and_no_log_is_fine)
{
    char line[100] = "";
    kvref_log log = {keep_line, line};
    kvref_note(&log, "%d tensors ignored", 3);
    ck_assert_str_eq(line, "3 tensors ignored");
    kvref_note(NULL, "nobody");
    kvref_note(&(kvref_log){0}, "nobody");
}
END_TEST

START_TEST(sizes_that_overflow_are_refused)
{
    size_t out = 7;
    ck_assert(!kvref_mul_size(SIZE_MAX / 2, 3, &out) && out == 7);
    ck_assert(kvref_mul_size(6, 7, &out) && out == 42);
    ck_assert(!kvref_add_size(SIZE_MAX, 1, &out) && out == 42);
    ck_assert(kvref_add_size(40, 3, &out) && out == 43);
    void *data = NULL;
    size_t cap = 0;
    must_fail(kvref_grow(&data, &cap, SIZE_MAX, 8, &err), KVREF_E_MEMORY, err, "too large");
    must_fail(kvref_grow(&data, &cap, SIZE_MAX / 64, 8, &err), KVREF_E_MEMORY, err, "memory");
    must(kvref_grow(&data, &cap, 9, 8, &err), err);
    ck_assert_uint_eq(cap, 16);
    free(data);
}
END_TEST

START_TEST(every_status_has_its_own_name)
{
    for (int i = KVREF_OK; i <= KVREF_E_STOPPED; i++)
        for (int j = KVREF_OK; j < i; j++)
            ck_assert_str_ne(kvref_status_name((kvref_status)i),
                             kvref_status_name((kvref_status)j));
    ck_assert_str_eq(kvref_status_name((kvref_status)99), "unknown");
}
END_TEST

START_TEST(only_regular_files_are_mapped)
{
    kvref_map map;
    const char *dir = support_temp_dir();
    must_fail(kvref_map_open(&map, dir, &err), KVREF_E_IO, err, "directory");
    must_fail(kvref_map_open(&map, "/dev/zero", &err), KVREF_E_IO, err, "device");
    must_fail(
        kvref_map_open(&map, support_path(dir, "none"), &err), KVREF_E_MISSING, err, "none");
    support_write(support_path(dir, "empty"), "", 0);
    must(kvref_map_open(&map, support_path(dir, "empty"), &err), err);
    ck_assert(map.data != NULL && map.n_byte == 0);
    kvref_map_close(&map);
    support_write(support_path(dir, "abc"), "abc", 3);
    must(kvref_map_open(&map, support_path(dir, "abc"), &err), err);
    ck_assert(map.n_byte == 3 && memcmp(map.data, "abc", 3) == 0);
    kvref_map_close(&map);
}
END_TEST

/* Written and committed: what the file at path then holds. */
static void put_out(const char *path, const char *text)
{
    kvref_out *o;
    must(kvref_out_open(&o, path, &err), err);
    must(kvref_out_put(o, text, strlen(text), &err), err);
    must(kvref_out_commit(&o, &err), err);
}

START_TEST(a_link_or_a_device_is_never_replaced_by_the_output)
{
    struct stat st;
    const char *dir = support_temp_dir(), *link = support_path(dir, "link");
    support_write(support_path(dir, "target"), "old", 3);
    ck_assert_int_eq(symlink("target", link), 0);
    put_out(link, "whole");
    ck_assert(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
    ck_assert(stat(link, &st) == 0 && st.st_size == 5);
    const char *pipe = support_path(dir, "pipe");
    ck_assert_int_eq(mkfifo(pipe, 0600), 0);
    int fd = open(pipe, O_RDONLY | O_NONBLOCK);
    put_out(pipe, "whole");
    char got[8] = {0};
    ck_assert(read(fd, got, sizeof got) == 5 && strcmp(got, "whole") == 0);
    close(fd);
    ck_assert(lstat(pipe, &st) == 0 && S_ISFIFO(st.st_mode));
    kvref_out *o;
    must_fail(kvref_out_open(&o, dir, &err), KVREF_E_IO, err, "found a directory");
}
END_TEST

START_TEST(an_output_file_appears_complete_or_not_at_all)
{
    const char *path = support_path(support_temp_dir(), "out");
    kvref_out *o;
    must(kvref_out_open(&o, path, &err), err);
    must(kvref_out_put(o, "half", 4, &err), err);
    ck_assert(access(path, F_OK) != 0);
    kvref_out_abort(&o);
    ck_assert(access(path, F_OK) != 0 && o == NULL);
    must(kvref_out_open(&o, path, &err), err);
    must(kvref_out_put(o, "whole", 5, &err), err);
    must(kvref_out_commit(&o, &err), err);
    kvref_map map;
    must(kvref_map_open(&map, path, &err), err);
    ck_assert(map.n_byte == 5 && memcmp(map.data, "whole", 5) == 0);
    kvref_map_close(&map);
    must_fail(kvref_out_open(&o, "/nonexistent/dir/x", &err), KVREF_E_IO, err, "/nonexistent");
}
END_TEST

typedef struct tally {
    int count[1000];
    int worker_calls[8];
} tally;

static void mark(void *arg, int worker, int first, int last)
{
    tally *t = arg;
    t->worker_calls[worker]++;
    for (int i = first; i < last; i++) t->count[i]++;
}

START_TEST(every_task_runs_exactly_once_whatever_the_threads)
{
    for (int n = 1; n <= 8; n++) {
        kvref_pool *pool;
        must(kvref_pool_open(&pool, n, &err), err);
        ck_assert_int_eq(kvref_pool_size(pool), n);
        for (int tasks = 0; tasks < 1000; tasks = tasks * 3 + 1) {
            tally t = {0};
            kvref_pool_run(pool, mark, &t, tasks);
            for (int i = 0; i < 1000; i++) ck_assert_int_eq(t.count[i], i < tasks);
            for (int w = 0; w < 8; w++) ck_assert_int_le(t.worker_calls[w], 1);
        }
        kvref_pool_close(&pool);
    }
}
END_TEST

START_TEST(thread_counts_out_of_range_are_refused)
{
    kvref_pool *pool;
    must_fail(kvref_pool_open(&pool, -1, &err), KVREF_E_ARG, err, "found -1");
    must_fail(kvref_pool_open(&pool, 5000, &err), KVREF_E_ARG, err, "found 5000");
    must(kvref_pool_open(&pool, 0, &err), err);
    ck_assert_int_ge(kvref_pool_size(pool), 1);
    kvref_pool_close(&pool);
    kvref_pool_close(&pool);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base");
    TCase *tc = tcase_create("base");
    tcase_add_test(tc, hostile_names_cannot_reach_a_terminal);
    tcase_add_test(tc, long_messages_are_cut_with_dots);
    tcase_add_test(tc, notes_reach_the_log_and_no_log_is_fine);
    tcase_add_test(tc, sizes_that_overflow_are_refused);
    tcase_add_test(tc, every_status_has_its_own_name);
    tcase_add_test(tc, only_regular_files_are_mapped);
    tcase_add_test(tc, an_output_file_appears_complete_or_not_at_all);
    tcase_add_test(tc, a_link_or_a_device_is_never_replaced_by_the_output);
    tcase_add_test(tc, every_task_runs_exactly_once_whatever_the_threads);
    tcase_add_test(tc, thread_counts_out_of_range_are_refused);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
