/* SPDX-License-Identifier: MIT */
/* Hostile safetensors headers of 8 MB: each is refused within 1 s and 64 MB. The files are
 * made by a child process, so that the memory for it is not counted here. */
#include "kvref/file.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BIG = 8000000 };

/* `{`, then piece again and again, its '#' replaced by a serial number, then tail. */
static void write_header(const char *path, const char *piece, size_t n_big, const char *tail)
{
    size_t n_piece = strlen(piece), n_tail = strlen(tail), n_time = (n_big - 1) / n_piece;
    const char *digits = strstr(piece, "########");
    uint64_t n = 1 + n_time * n_piece + n_tail;
    char *text = malloc(n + 1), *at = text, number[24];
    *at++ = '{';
    for (size_t i = 0; i < n_time; i++, at += n_piece) {
        memcpy(at, piece, n_piece);
        if (!digits) continue;
        snprintf(number, sizeof number, "%08zu", i);
        memcpy(at + (digits - piece), number, 8);
    }
    memcpy(at, tail, n_tail);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(&n, 8, 1, f) != 1 || fwrite(text, 1, n, f) != n || fclose(f) != 0) abort();
    free(text);
}

static void refuse_cheaply(const char *path, const char *contains)
{
    kvref_error err;
    kvref_file *f;
    struct rusage use;
    double start = support_cpu_s();
    must_fail(kvref_file_open(&f, path, NULL, &err), KVREF_E_FORMAT, err, contains);
    double used = support_cpu_s() - start;
    getrusage(RUSAGE_SELF, &use);
    if (!support_measures()) return;
    ck_assert_msg(used < 1.0, "%s: %.2f s", contains, used);
    ck_assert_msg(use.ru_maxrss < 64 << 10, "%s: %ld KiB resident", contains, use.ru_maxrss);
}

static const struct {
    const char *piece;
    size_t n_big;
    const char *tail, *contains;
} costly[] = {
    {"\"a########\":[],", BIG, "}", "found an array"},
    {"[", BIG, "}", "expected a key"},
    {"\"\":[", BIG, "}", "levels of nesting"},
    {"\"a\":{\"b\":[0,0,0,0,0,0,0,0,0],", BIG, "}", "levels of nesting"},
    {"\"########\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},",
     BIG,
     "}",
     "more than 16384"},
    {"\"__metadata__\":{},", BIG, "}", "found twice"},
    {"                ", BIG, "}!", "nothing after"},
    {"\\\"\\\"\\\"\\\"", BIG, "}", "expected a key"},
    {"\"a\":[0", 8, ",0,0,0,0,0,0,0,0", "expected a value"},
    {" ", 9 << 20, "}", "header length 9437185, expected 2..8388608"},
};

START_TEST(hostile_headers_cost_little_time_and_memory)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", support_path(support_temp_dir(), "costly"));
    pid_t pid = fork();
    if (pid == 0) {
        write_header(path, costly[_i].piece, costly[_i].n_big, costly[_i].tail);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    refuse_cheaply(path, costly[_i].contains);
}
END_TEST

/* jansson would need some 24 bytes of memory for each byte of this array. */
START_TEST(one_huge_value_is_refused_unparsed)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", support_path(support_temp_dir(), "value"));
    pid_t pid = fork();
    if (pid == 0) {
        uint64_t n = 8000010;
        FILE *f = fopen(path, "wb");
        if (!f || fwrite(&n, 8, 1, f) != 1) abort();
        fputs("{\"a\":[0", f);
        for (int i = 0; i < 4000000; i++) fputs(",0", f);
        fputs("] }", f);
        _exit(fclose(f));
    }
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    refuse_cheaply(path, "value of 8000003 bytes, expected at most 65536");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("safetensors_cost");
    TCase *tc = tcase_create("safetensors_cost");
    tcase_add_loop_test(tc,
                        hostile_headers_cost_little_time_and_memory,
                        0,
                        (int)(sizeof costly / sizeof costly[0]));
    tcase_add_test(tc, one_huge_value_is_refused_unparsed);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
