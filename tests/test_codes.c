/* SPDX-License-Identifier: MIT */
/* Codes as .npy: every dtype and order in, NumPy's bytes out, and what must be refused. */
#include "base/base.h"
#include "kvref/file.h"
#include "tests/npy_make.h"
#include "tests/support.h"

#include <stdlib.h>
#include <unistd.h>

static kvref_error err;

/* Requires that the first n bytes of file are refused as codes with this message. */
static void refused(size_t n, kvref_status status, const char *says)
{
    kvref_codes codes;
    must_fail(kvref_codes_parse(&codes, file, n, "x.npy", 0, 0, &err), status, err, says);
    ck_assert_msg(strncmp(err.text, "x.npy: ", 7) == 0, "no file name in \"%s\"", err.text);
    ck_assert_ptr_null(codes.code);
}

static const struct {
    const char *descr;
    int size, big;
    int64_t low, high; /* that the dtype and int32 both hold */
} dtype_of[] = {
    {"|i1", 1, 0, -128, 127},
    {"|u1", 1, 0, 0, 255},
    {"<i1", 1, 0, -128, 127},
    {"<i2", 2, 0, -32768, 32767},
    {"<u2", 2, 0, 0, 65535},
    {">i2", 2, 1, -32768, 32767},
    {">u2", 2, 1, 0, 65535},
    {"<i4", 4, 0, INT32_MIN, INT32_MAX},
    {"<u4", 4, 0, 0, INT32_MAX},
    {">i4", 4, 1, INT32_MIN, INT32_MAX},
    {">u4", 4, 1, 0, INT32_MAX},
    {"<i8", 8, 0, INT32_MIN, INT32_MAX},
    {"<u8", 8, 0, 0, INT32_MAX},
    {">i8", 8, 1, INT32_MIN, INT32_MAX},
    {">u8", 8, 1, 0, INT32_MAX},
};

START_TEST(every_integer_dtype_and_both_orders_give_the_same_codes)
{
    int size = dtype_of[_i].size, big = dtype_of[_i].big;
    int64_t value[2][3] = {{dtype_of[_i].low, 1, 2}, {3, 4, dtype_of[_i].high}};
    for (int fortran = 0; fortran < 2; fortran++) {
        size_t at = npy_shape(dtype_of[_i].descr, fortran ? "True" : "False", "(2, 3)");
        for (int k = 0; k < 6; k++)
            at = put(at, fortran ? value[k % 2][k / 2] : value[k / 3][k % 3], size, big);
        kvref_codes codes;
        must(kvref_codes_parse(&codes, file, at, "x.npy", 0, 0, &err), err);
        ck_assert_int_eq(codes.n_book, 2);
        ck_assert_int_eq(codes.n_frame, 3);
        for (int b = 0; b < 2; b++)
            for (int t = 0; t < 3; t++) ck_assert_int_eq(codes.code[t * 2 + b], value[b][t]);
        kvref_codes_clear(&codes);
        ck_assert_ptr_null(codes.code);
    }
}
END_TEST

START_TEST(versions_2_and_3_differ_only_in_the_length_field)
{
    for (int version = 2; version <= 3; version++) {
        size_t at = npy_shape("<i4", "False", "(1, 2)");
        memmove(file + 12, file + 10, at - 10);
        file[6] = (char)version;
        file[10] = file[11] = 0;
        at = put(put(at + 2, 7, 4, 0), 8, 4, 0);
        kvref_codes codes;
        must(kvref_codes_parse(&codes, file, at, "x.npy", 0, 0, &err), err);
        ck_assert_int_eq(codes.code[0], 7);
        ck_assert_int_eq(codes.code[1], 8);
        kvref_codes_clear(&codes);
    }
}
END_TEST

START_TEST(a_dict_may_be_spaced_quoted_and_ordered_in_any_way)
{
    static const char *const dict[] = {
        "{'shape':(1,2),'fortran_order':False,'descr':'<i8'}",
        "{ \"descr\" : \"<i8\" , \"fortran_order\" : True , \"shape\" : ( 1 , 2 , ) , }",
        "  {'descr': '<i8', 'shape': (1, 2,), 'fortran_order': False}  ",
    };
    for (size_t i = 0; i < sizeof dict / sizeof *dict; i++) {
        size_t at = npy_head(dict[i]);
        at = put(put(at, 5, 8, 0), 6, 8, 0);
        kvref_codes codes;
        must(kvref_codes_parse(&codes, file, at, "x.npy", 0, 0, &err), err);
        ck_assert_int_eq(codes.code[1], 6);
        kvref_codes_clear(&codes);
    }
}
END_TEST

#define D8  "'descr': '<i8', "
#define FF  "'fortran_order': False, "
#define S12 "'shape': (1, 2), "

static const struct {
    const char *dict;
    int n_data; /* bytes of data, all zero */
    kvref_status status;
    const char *says;
} bad[] = {
    {"{" D8 FF S12 "}", 15, KVREF_E_FORMAT, "truncated: expected 16 bytes, found 15"},
    {"{" D8 FF S12 "}", 17, KVREF_E_FORMAT, "trailing bytes: expected 16 bytes, found 17"},
    {"{" D8 FF S12 "}", 0, KVREF_E_FORMAT, "truncated: expected 16 bytes, found 0"},
    {"{" D8 FF "'shape': (1,), }",
     8,
     KVREF_E_FORMAT,
     "expected 2 axes (books, frames), found 1"},
    {"{" D8 FF "'shape': (), }", 8, KVREF_E_FORMAT, "expected 2 axes (books, frames), found 0"},
    {"{" D8 FF "'shape': (1, 1, 1), }", 8, KVREF_E_FORMAT, "found 3"},
    {"{" D8 FF "'shape': (1, 1, 1, 1, 1), }", 8, KVREF_E_UNSUPPORTED, "at most 4 axes"},
    {"{" D8 FF "'shape': (0, 0), }", 0, KVREF_E_FORMAT, "found shape (0, 0)"},
    {"{" D8 FF "'shape': (10, 4294967296), }", 0, KVREF_E_FORMAT, "truncated"},
    {"{" D8 FF "'shape': (4294967296, 0), }", 0, KVREF_E_FORMAT, "found shape (4294967296, 0)"},
    {"{" D8 FF "'shape': (10, 0), }", 1, KVREF_E_FORMAT, "trailing bytes"},
    {"{" D8 FF "'shape': (0, 5), }", 0, KVREF_E_FORMAT, "found shape (0, 5)"},
    {"{" D8 FF "'shape': (-1, 2), }", 16, KVREF_E_FORMAT, "a negative extent"},
    {"{" D8 FF "'shape': (1, 99999999999999999999), }", 16, KVREF_E_FORMAT, "over 63 bits"},
    {"{" D8 FF "'shape': (1, 9223372036854775808), }", 16, KVREF_E_FORMAT, "over 63 bits"},
    {"{" D8 FF "'shape': (1, 9223372036854775807), }", 16, KVREF_E_FORMAT, "too large"},
    {"{" D8 FF "'shape': (4294967296, 4294967296), }", 16, KVREF_E_FORMAT, "too large"},
    {"{" D8 FF "'shape': (1099511627776, 1024), }", 16, KVREF_E_FORMAT, "truncated"},
    {"{" D8 FF "'shape': (1.5, 2), }", 16, KVREF_E_FORMAT, "expected ',' after a single"},
    {"{" D8 FF "'shape': (1), }", 8, KVREF_E_FORMAT, "expected ',' after a single"},
    {"{" D8 FF "'shape': (1, 2L), }", 16, KVREF_E_FORMAT, "expected ',' or ')', found 'L'"},
    {"{" D8 FF "'shape': (,), }", 8, KVREF_E_FORMAT, "expected an extent, found ','"},
    {"{" D8 FF "'shape': [1, 2], }", 16, KVREF_E_FORMAT, "expected '(', found '['"},
    {"{" D8 FF "}", 16, KVREF_E_FORMAT, "key 'shape' is missing"},
    {"{" D8 S12 "}", 16, KVREF_E_FORMAT, "key 'fortran_order' is missing"},
    {"{" FF S12 "}", 16, KVREF_E_FORMAT, "key 'descr' is missing"},
    {"{}", 16, KVREF_E_FORMAT, "key 'descr' is missing"},
    {"{" D8 D8 FF S12 "}", 16, KVREF_E_FORMAT, "key 'descr' twice"},
    {"{" D8 FF S12 "'x': 1}", 16, KVREF_E_FORMAT, "unknown key 'x'"},
    {"{'a_key_much_longer_than_any': 1}", 16, KVREF_E_FORMAT, "a string of 26 bytes"},
    {"{'descr' '<i8'}", 16, KVREF_E_FORMAT, "expected ':', found '''"},
    {"{" D8 "'fortran_order': 0, " S12 "}", 16, KVREF_E_FORMAT, "expected True or False"},
    {"{'descr': [('a', '<i8')], " FF S12 "}", 16, KVREF_E_FORMAT, "expected a quoted string"},
    {"{'descr': '<i\\x38', " FF S12 "}", 16, KVREF_E_FORMAT, "expected a closing quote"},
    {"{" D8 FF S12 "} + 1", 16, KVREF_E_FORMAT, "one newline after the dict, found '+'"},
    {"{" D8 FF S12 "}\n", 16, KVREF_E_FORMAT, "one newline after the dict"},
    {"{" D8 FF "'shape': (1, 2) 3}", 16, KVREF_E_FORMAT, "expected ',' or '}', found '3'"},
    {"(" D8 FF S12 ")", 16, KVREF_E_FORMAT, "expected '{', found '('"},
    {"", 16, KVREF_E_FORMAT, "expected '{'"},
    {"{'descr': '<f4', " FF S12 "}", 8, KVREF_E_FORMAT, "integer dtype, found '<f4'"},
    {"{'descr': '|b1', " FF S12 "}", 2, KVREF_E_FORMAT, "integer dtype, found '|b1'"},
    {"{'descr': '|O8', " FF S12 "}", 16, KVREF_E_UNSUPPORTED, "dtype '|O8'"},
    {"{'descr': '=i8', " FF S12 "}", 16, KVREF_E_UNSUPPORTED, "dtype '=i8'"},
    {"{'descr': '<i3', " FF S12 "}", 6, KVREF_E_UNSUPPORTED, "dtype '<i3'"},
    {"{'descr': '<i16', " FF S12 "}", 32, KVREF_E_UNSUPPORTED, "dtype '<i16'"},
    {"{'descr': '', " FF S12 "}", 32, KVREF_E_UNSUPPORTED, "dtype ''"},
};

START_TEST(a_bad_header_or_length_is_refused_by_name)
{
    size_t at = npy_head(bad[_i].dict);
    memset(file + at, 0, 64);
    refused(at + (size_t)bad[_i].n_data, bad[_i].status, bad[_i].says);
}
END_TEST

START_TEST(a_file_cut_at_any_byte_is_refused)
{
    size_t n = put(npy_shape("<i8", "False", "(1, 1)"), 3, 8, 0);
    kvref_codes codes;
    for (size_t cut = 0; cut < n; cut++) {
        uint8_t *copy = malloc(cut + !cut); /* exact size: an overrun is seen */
        memcpy(copy, file, cut);
        must_fail(kvref_codes_parse(&codes, copy, cut, "x.npy", 0, 0, &err),
                  KVREF_E_FORMAT,
                  err,
                  cut < 10      ? "not a .npy file"
                  : cut < n - 8 ? "npy header: length 118"
                                : "truncated: expected 8 bytes");
        free(copy);
    }
}
END_TEST

START_TEST(magic_version_and_length_are_checked)
{
    static const char version[][2] = {{4, 0}, {0, 0}, {1, 1}};
    size_t n = put(npy_shape("<i8", "False", "(1, 1)"), 3, 8, 0);
    for (int i = 0; i < 3; i++) {
        char says[32];
        snprintf(says, sizeof says, "found %d.%d", version[i][0], version[i][1]);
        memcpy(file + 6, version[i], 2);
        refused(n, KVREF_E_UNSUPPORTED, says);
    }
    memcpy(file + 6, "\x01\0", 2);
    file[8] = 5;
    refused(15, KVREF_E_FORMAT, "expected a closing quote, found its end");
    file[8] = 118;
    memcpy(file + 6, "\x02\0", 2);
    refused(11, KVREF_E_FORMAT, "header: length");
    memset(file + 8, 0xff, 4);
    refused(n, KVREF_E_FORMAT, "length 4294967295");
    file[0] = 'N';
    refused(n, KVREF_E_FORMAT, "not a .npy file");
}
END_TEST

START_TEST(a_value_outside_int32_is_named_by_book_and_frame)
{
    static const struct {
        const char *descr;
        int64_t value;
    } wide[] = {{"<i8", 2147483648},
                {"<i8", -2147483649},
                {"<i8", INT64_MIN},
                {"<u8", -1},
                {">i8", 1LL << 40}};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        size_t at = npy_shape(wide[i].descr, "False", "(2, 3)");
        for (int k = 0; k < 6; k++)
            at = put(at, k == 5 ? wide[i].value : 0, 8, wide[i].descr[0] == '>');
        refused(at, KVREF_E_FORMAT, "code of book 1, frame 2 does not fit");
    }
    size_t at = npy_shape("<u4", "False", "(1, 1)");
    refused(put(at, 2147483648, 4, 0), KVREF_E_FORMAT, "book 0, frame 0");
}
END_TEST

START_TEST(check_names_the_first_bad_position)
{
    int32_t code[] = {0, 31, 1, 30, 2, 29};
    kvref_codes codes = {2, 3, code};
    must(kvref_codes_check(&codes, 2, 32, "x.npy", &err), err);
    must_fail(kvref_codes_check(&codes, 3, 32, "x.npy", &err),
              KVREF_E_ARG,
              err,
              "x.npy: codes: expected 3 books, found 2");
    must_fail(kvref_codes_check(&codes, 2, 31, "x.npy", &err),
              KVREF_E_ARG,
              err,
              "code of book 1, frame 0: expected 0 to 30, found 31");
    code[4] = -1;
    must_fail(kvref_codes_check(&codes, 2, 32, "x.npy", &err),
              KVREF_E_ARG,
              err,
              "code of book 0, frame 2: expected 0 to 31, found -1");
    code[2] = INT32_MAX;
    must_fail(kvref_codes_check(&codes, 2, 32, "x.npy", &err), KVREF_E_ARG, err, "frame 1");
    code[1] = INT32_MIN;
    must_fail(kvref_codes_check(&codes, 2, 32, "x.npy", &err), KVREF_E_ARG, err, "frame 0");
}
END_TEST

START_TEST(written_codes_are_numpy_bytes_and_read_back)
{
    int32_t code[] = {1, 4, 2, 5, 3, -6};
    kvref_codes codes = {2, 3, code}, back;
    const char *path = support_path(support_temp_dir(), "codes.npy");
    must(kvref_codes_write(&codes, path, &err), err);
    kvref_map map;
    must(kvref_map_open(&map, path, &err), err);
    size_t n = npy_shape("<i8", "False", "(2, 3)");
    static const int64_t by_book[] = {1, 2, 3, 4, 5, -6};
    for (int k = 0; k < 6; k++) n = put(n, by_book[k], 8, 0);
    ck_assert_uint_eq(map.n_byte, n);
    ck_assert_mem_eq(map.data, file, n);
    kvref_map_close(&map);
    must(kvref_codes_read(&back, path, 0, 0, &err), err);
    ck_assert_mem_eq(back.code, code, sizeof code);
    kvref_codes_clear(&back);
}
END_TEST

START_TEST(codes_without_a_frame_are_written_and_read_back)
{
    kvref_codes none = {10, 0, NULL}, back;
    const char *path = support_path(support_temp_dir(), "none.npy");
    must(kvref_codes_write(&none, path, &err), err);
    must(kvref_codes_read(&back, path, 0, 0, &err), err);
    ck_assert(back.n_book == 10 && back.n_frame == 0);
    must(kvref_codes_check(&back, 10, 32, "none.npy", &err), err);
    kvref_codes_clear(&back);
}
END_TEST

START_TEST(a_dash_writes_to_standard_output)
{
    int32_t code[] = {7};
    kvref_codes codes = {1, 1, code}, back;
    const char *path = support_path(support_temp_dir(), "stdout.npy");
    ck_assert_ptr_nonnull(freopen(path, "wb", stdout));
    must(kvref_codes_write(&codes, "-", &err), err);
    must(kvref_codes_read(&back, path, 0, 0, &err), err);
    ck_assert_int_eq(back.code[0], 7);
    kvref_codes_clear(&back);
    ck_assert_ptr_nonnull(freopen("/dev/full", "wb", stdout));
    must_fail(kvref_codes_write(&codes, "-", &err), KVREF_E_IO, err, "standard output");
}
END_TEST

START_TEST(more_books_or_frames_than_asked_for_are_refused_before_memory_is_taken)
{
    char path[1024];
    snprintf(path, sizeof path, "%s", support_path(support_temp_dir(), "holes.npy"));
    size_t at = npy_shape("|i1", "False", "(10, 2000000000)");
    support_write(path, file, at);
    ck_assert_int_eq(truncate(path, (off_t)at + 20000000000), 0); /* no byte of it on disk */
    kvref_codes codes;
    must_fail(kvref_codes_read(&codes, path, 10, 32768, &err),
              KVREF_E_FORMAT,
              err,
              "expected 0 to 32768 frames, found shape (10, 2000000000)");
    must_fail(kvref_codes_read(&codes, path, 9, 0, &err),
              KVREF_E_FORMAT,
              err,
              "expected 1 to 9 books, found shape (10, 2000000000)");
    at = npy_shape("|i1", "False", "(2, 3)");
    support_write(path, file, at + 6);
    must_fail(kvref_codes_read(&codes, path, 2, 2, &err), KVREF_E_FORMAT, err, "0 to 2 frames");
    must_fail(kvref_codes_read(&codes, path, 1, 3, &err), KVREF_E_FORMAT, err, "1 to 1 books");
    must(kvref_codes_read(&codes, path, 2, 3, &err), err);
    kvref_codes_clear(&codes);
}
END_TEST

START_TEST(codes_that_cannot_be_written_or_read_are_io_errors)
{
    int32_t code[] = {7};
    kvref_codes codes = {1, 1, code};
    const char *path = support_path(support_temp_dir(), "no/such/codes.npy");
    must_fail(kvref_codes_write(&codes, path, &err), KVREF_E_IO, err, path);
    must_fail(kvref_codes_read(&codes, path, 0, 0, &err), KVREF_E_MISSING, err, path);
    ck_assert_ptr_null(codes.code);
    must_fail(
        kvref_codes_read(&codes, support_temp_dir(), 0, 0, &err), KVREF_E_IO, err, "directory");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("codes");
    TCase *tc = tcase_create("codes");
    tcase_add_loop_test(tc,
                        every_integer_dtype_and_both_orders_give_the_same_codes,
                        0,
                        (int)(sizeof dtype_of / sizeof *dtype_of));
    tcase_add_test(tc, versions_2_and_3_differ_only_in_the_length_field);
    tcase_add_test(tc, a_dict_may_be_spaced_quoted_and_ordered_in_any_way);
    tcase_add_loop_test(
        tc, a_bad_header_or_length_is_refused_by_name, 0, (int)(sizeof bad / sizeof *bad));
    tcase_add_test(tc, a_file_cut_at_any_byte_is_refused);
    tcase_add_test(tc, magic_version_and_length_are_checked);
    tcase_add_test(tc, a_value_outside_int32_is_named_by_book_and_frame);
    tcase_add_test(tc, check_names_the_first_bad_position);
    tcase_add_test(tc, written_codes_are_numpy_bytes_and_read_back);
    tcase_add_test(tc, codes_without_a_frame_are_written_and_read_back);
    tcase_add_test(tc, a_dash_writes_to_standard_output);
    tcase_add_test(tc, more_books_or_frames_than_asked_for_are_refused_before_memory_is_taken);
    tcase_add_test(tc, codes_that_cannot_be_written_or_read_are_io_errors);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
