/* SPDX-License-Identifier: MIT */
/* Whole .pth archives that must not be believed: wrong entries, cut anywhere, any bit flipped,
 * and files that would cost much time or memory if they were. */
#include "base/file.h"
#include "base/pickle.h"
#include "tests/pth_make.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static kvref_error err;
static make_zip zip;

static kvref_status parse(const uint8_t *data, size_t n)
{
    int part;
    kvref_file *f;
    must(kvref_file_new(&f, &err), err);
    must(kvref_file_add_memory(f, &part, "x.pth", data, n, &err), err);
    err.text[0] = 0;
    kvref_status s = kvref_pth_parse(f, part, NULL, &err);
    if (s == KVREF_OK) s = kvref_file_finish(f, &err);
    ck_assert_msg((s == KVREF_OK) == (err.text[0] == 0), "status without message");
    kvref_file_close(&f);
    return s;
}

/* Where tests share a process, each one starts with an empty archive. */
static void setup(void)
{
    zip = (make_zip){0};
}

#define DICT "\x80\2}."

static const struct {
    const char *name[3], *data[3];
    kvref_status status;
    const char *says;
} bad_entries[] = {
    {{NULL}, {NULL}, KVREF_E_FORMAT, "found no data.pkl in a folder"},
    {{"x/version"}, {"3"}, KVREF_E_FORMAT, "found no data.pkl in a folder"},
    {{"data.pkl"}, {DICT}, KVREF_E_FORMAT, "found no data.pkl in a folder"},
    {{"x/data.pkl2"}, {DICT}, KVREF_E_FORMAT, "found no data.pkl in a folder"},
    {{"/data.pkl"}, {DICT}, KVREF_E_FORMAT, "in a plain folder, found it in '/'"},
    {{"//data.pkl"}, {DICT}, KVREF_E_FORMAT, "in a plain folder, found it in '//'"},
    {{"a/b/data.pkl"}, {DICT}, KVREF_E_FORMAT, "in a plain folder, found it in 'a/b/'"},
    {{"a/data.pkl", "b/data.pkl"}, {DICT, DICT}, KVREF_E_FORMAT, "found several"},
    {{"a/data.pkl", "a/b/data.pkl"}, {DICT, DICT}, KVREF_E_FORMAT, "found several"},
    {{"a/data.pkl", "a/data.pkl"}, {DICT, DICT}, KVREF_E_FORMAT, "'a/data.pkl': occurs twice"},
    {{"a/data.pkl", "a/z", "a/z"}, {DICT, "1", "2"}, KVREF_E_FORMAT, "'a/z': occurs twice"},
    {{"a/data.pkl", "a/byteorder"}, {DICT, "big"}, KVREF_E_UNSUPPORTED, "found 'big'"},
    {{"a/data.pkl", "a/byteorder"}, {DICT, ""}, KVREF_E_UNSUPPORTED, "found ''"},
    {{"a/data.pkl", "a/byteorder"}, {DICT, "little and big"}, KVREF_E_UNSUPPORTED, "and big'"},
    {{"a/data.pkl"}, {""}, KVREF_E_UNSUPPORTED, "does not start as protocol 2"},
    {{"a/data.pkl"}, {"(lp1\n."}, KVREF_E_UNSUPPORTED, "does not start as protocol 2"},
};

START_TEST(wrong_entries_are_refused_with_their_own_message)
{
    for (int i = 0; i < 3 && bad_entries[_i].name[i]; i++)
        make_entry(&zip,
                   bad_entries[_i].name[i],
                   bad_entries[_i].data[i],
                   strlen(bad_entries[_i].data[i]));
    make_end(&zip, 0);
    must_fail(
        parse(zip.out.data, zip.out.n), bad_entries[_i].status, err, bad_entries[_i].says);
    make_free(&zip.out);
}
END_TEST

START_TEST(entry_names_hold_up_to_1024_bytes)
{
    char name[1026];
    for (size_t n = 1024; n <= 1025; n++) {
        memset(name, 'n', n);
        name[n] = 0;
        make_entry(&zip, "x/data.pkl", DICT, 4);
        make_entry(&zip, name, "", 0);
        make_end(&zip, 0);
        if (n == 1024)
            must(parse(zip.out.data, zip.out.n), err);
        else
            must_fail(
                parse(zip.out.data, zip.out.n), KVREF_E_UNSUPPORTED, err, "over 1024 bytes");
        make_free(&zip.out);
        zip = (make_zip){0};
    }
}
END_TEST

/* A plain archive with two tensors, one of them gathered, and zip64 records. */
static void make_good(void)
{
    make_archive(&zip,
                 "P2 D ( 'v' T:FloatStorage:0:6:0:3,2:1,3 'w' T:FloatStorage:0:6:0:6:1 u } "
                 "'_metadata' D s b .",
                 24);
    zip.wide = 2;
    make_end(&zip, 1);
}

START_TEST(a_file_cut_at_any_byte_is_refused)
{
    make_good();
    must(parse(zip.out.data, zip.out.n), err);
    for (size_t n = 0; n < zip.out.n; n++) {
        uint8_t *copy = malloc(n + !n);
        memcpy(copy, zip.out.data, n);
        kvref_status s = parse(copy, n);
        ck_assert_msg(s == (n < 4 ? KVREF_E_UNSUPPORTED : KVREF_E_FORMAT),
                      "cut at %zu: %s",
                      n,
                      kvref_status_name(s));
        free(copy);
    }
    make_free(&zip.out);
}
END_TEST

START_TEST(any_flipped_bit_is_harmless)
{
    make_good();
    int n_bad = 0;
    for (size_t i = 0; i < zip.out.n * 8; i++) {
        zip.out.data[i / 8] ^= (uint8_t)(1u << i % 8);
        n_bad += parse(zip.out.data, zip.out.n) != KVREF_OK;
        zip.out.data[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    must(parse(zip.out.data, zip.out.n), err);
    ck_assert_int_gt(n_bad, 2000);
    make_free(&zip.out);
}
END_TEST

/* A pickle: head, then piece again and again, then tail, as words. */
static const struct {
    const char *head, *piece;
    int n_time;
    const char *tail, *says;
} costly[] = {
    {"P2", "(", 1 << 20, "( .", "stack of over 2^20 values"},
    {"P2 ) q0", "h0", 1 << 20, ".", "stack of over 2^20 values"},
    {"P2 ) q0", "x85", 40, ".", "nesting deeper than 32"},
    {"P2 } q0", "x85 q1 ] h1 a", 40, ".", "nesting deeper than 32"},
    {"P2 } q0", "q1 } 'a' h1 s", 40, ".", "nesting deeper than 32"},
    {"P2 ] q0", "} a", 1 << 18, "} .", "over 2^18 lists and dicts"},
    {"P2 ] q0 ]", "1 2 3 x87 a", 360000, ".", "over 2^20 values in tuples and dicts"},
    {"P2 } 'k' q0", "1 s h0", 400000, ".", "over 2^20 values in tuples and dicts"},
    {"P2 } 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' q0",
     "1 s h0",
     340000,
     "'state_dict' s 1 .",
     "STOP with more than one value"},
    {"P2 ) x85", "N N N N", 260000, "t .", "no mark on the stack"},
};

static double cpu_before;
static long peak_before;

static long peak_kib(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_maxrss;
}

static void start_cost(void)
{
    cpu_before = support_cpu_s();
    peak_before = peak_kib();
}

/* Tests may share a process: what counts is by how much the peak has risen. */
static void check_cost(void)
{
    double used = support_cpu_s() - cpu_before;
    long risen = peak_kib() - peak_before;
    if (!support_measures()) return;
    ck_assert_msg(used < 1.0, "took %.2f s", used);
    ck_assert_msg(risen < 64 << 10, "%ld KiB more", risen);
}

START_TEST(hostile_pickles_cost_little_time_and_memory)
{
    make_bytes pickle = {0}, piece = {0};
    make_pickle(&pickle, costly[_i].head);
    make_pickle(&piece, costly[_i].piece);
    for (int i = 0; i < costly[_i].n_time; i++) make_put(&pickle, piece.data, piece.n);
    make_pickle(&pickle, costly[_i].tail);
    make_entry(&zip, "x/data.pkl", pickle.data, pickle.n);
    make_end(&zip, 0);
    make_free(&pickle);
    make_free(&piece);
    start_cost();
    must_fail(parse(zip.out.data, zip.out.n), KVREF_E_FORMAT, err, costly[_i].says);
    check_cost();
    make_free(&zip.out);
}
END_TEST

/* Most of the memo, of the stack and of the pool at once, for 8 bytes of pickle each. */
START_TEST(stack_memo_and_pool_are_bounded_together)
{
    make_bytes pickle = {0};
    make_pickle(&pickle, "P2");
    for (unsigned i = 0; i < 350000; i++) {
        make_put(&pickle, "Nr", 2);
        make_uint(&pickle, i, 4);
        make_put(&pickle, "N\x86", 2);
    }
    for (int i = 0; i < 350000; i++) make_put(&pickle, "NNN", 3);
    make_entry(&zip, "x/data.pkl", pickle.data, pickle.n);
    make_end(&zip, 0);
    make_free(&pickle);
    start_cost();
    must_fail(parse(zip.out.data, zip.out.n), KVREF_E_FORMAT, err, "over 2^21 values in all");
    check_cost();
    make_free(&zip.out);
}
END_TEST

/* 340,000 pairs of one key of a dict: sorted and settled, one tensor remains. */
START_TEST(a_dict_of_many_equal_names_is_settled_quickly)
{
    make_bytes pickle = {0}, piece = {0};
    make_pickle(&pickle, "P2 } q0 'k' q1 T:ByteStorage:0:1:0:1:1 q2 s");
    make_pickle(&piece, "h1 h2 s");
    for (int i = 0; i < 340000; i++) make_put(&pickle, piece.data, piece.n);
    make_pickle(&pickle, ".");
    make_entry(&zip, "x/data.pkl", pickle.data, pickle.n);
    make_entry(&zip, "x/data/0", "1", 1);
    make_end(&zip, 0);
    make_free(&pickle);
    make_free(&piece);
    start_cost();
    must(parse(zip.out.data, zip.out.n), err);
    check_cost();
    make_free(&zip.out);
}
END_TEST

/* An entry of 16 MiB and a byte, almost all of it a hole in the file. */
START_TEST(a_pickle_over_16_mib_is_refused_unread)
{
    const char *path = support_path(support_temp_dir(), "big.pth");
    size_t n_hole = KVREF_PICKLE_MAX_BYTE + 1;
    make_entry(&zip, "x/data.pkl", "", 0);
    size_t n_head = zip.out.n;
    make_end(&zip, 0);
    for (int k = 0; k < 4; k++) {
        zip.out.data[zip.central[0] + 20 + (size_t)k] = (uint8_t)(n_hole >> 8 * k);
        zip.out.data[zip.central[0] + 24 + (size_t)k] = (uint8_t)(n_hole >> 8 * k);
        zip.out.data[zip.end + 16 + (size_t)k] = (uint8_t)((n_hole + n_head) >> 8 * k);
    }
    FILE *f = fopen(path, "wb");
    ck_assert(fwrite(zip.out.data, 1, n_head, f) == n_head);
    ck_assert(fseek(f, (long)n_hole, SEEK_CUR) == 0);
    ck_assert(fwrite(zip.out.data + n_head, 1, zip.out.n - n_head, f) == zip.out.n - n_head);
    ck_assert(fclose(f) == 0);
    kvref_file *file;
    start_cost();
    must_fail(kvref_file_open(&file, path, NULL, &err),
              KVREF_E_UNSUPPORTED,
              err,
              "pickle: expected at most 16777216 bytes, found 16777217");
    check_cost();
    make_free(&zip.out);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pth_archive");
    TCase *tc = tcase_create("pth_archive");
    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_loop_test(tc,
                        wrong_entries_are_refused_with_their_own_message,
                        0,
                        (int)(sizeof bad_entries / sizeof *bad_entries));
    tcase_add_test(tc, entry_names_hold_up_to_1024_bytes);
    tcase_add_test(tc, a_file_cut_at_any_byte_is_refused);
    tcase_add_test(tc, any_flipped_bit_is_harmless);
    tcase_add_loop_test(tc,
                        hostile_pickles_cost_little_time_and_memory,
                        0,
                        (int)(sizeof costly / sizeof *costly));
    tcase_add_test(tc, stack_memo_and_pool_are_bounded_together);
    tcase_add_test(tc, a_dict_of_many_equal_names_is_settled_quickly);
    tcase_add_test(tc, a_pickle_over_16_mib_is_refused_unread);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
