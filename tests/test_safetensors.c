/* SPDX-License-Identifier: MIT */
/* Reading one safetensors file; every bad header by name. */
#include "base/file.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kvref_error err;

/* Writes a file of this header (n_header claimed) and n_data bytes 0, 1, 2, ... */
static const char *
put_as(const char *name, uint64_t claim, const char *header, size_t n_header, size_t n_data)
{
    const char *path = support_path(support_temp_dir(), name);
    unsigned char *text = malloc(8 + n_header + n_data);
    for (int i = 0; i < 8; i++) text[i] = (unsigned char)(claim >> 8 * i);
    memcpy(text + 8, header, n_header);
    for (size_t i = 0; i < n_data; i++) text[8 + n_header + i] = (unsigned char)i;
    support_write(path, text, 8 + n_header + n_data);
    free(text);
    return path;
}

static const char *put(const char *name, const char *header, size_t n_data)
{
    return put_as(name, strlen(header), header, strlen(header), n_data);
}

static void refuse(const char *path, const char *contains)
{
    kvref_file *f = (void *)&err;
    must_fail(kvref_file_open(&f, path, NULL, &err), KVREF_E_FORMAT, err, contains);
    ck_assert_ptr_null(f);
    ck_assert_msg(strstr(err.text, path) == err.text, "no path first: %s", err.text);
}

START_TEST(tensors_are_views_in_order_of_name)
{
    const char *path = put("good",
                           "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[2,10]},"
                           "\"__metadata__\":{\"format\":\"pt\",\"k\":\"v\"},"
                           "\"a\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[0,2]},"
                           "\"e\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[10,10]}}"
                           "   ",
                           10);
    kvref_file *f;
    must(kvref_file_open(&f, path, NULL, &err), err);
    ck_assert_int_eq(kvref_file_count(f), 3);
    ck_assert_str_eq(kvref_file_at(f, 0)->name, "a");
    ck_assert_str_eq(kvref_file_at(f, 2)->name, "e");
    const kvref_tensor *b = kvref_file_find(f, "b");
    ck_assert(b == kvref_file_at(f, 1) && b->dtype == KVREF_F32 && b->n_dim == 2);
    ck_assert(b->dim[0] == 2 && b->dim[1] == 1 && b->n_byte == 8);
    ck_assert_mem_eq(b->data, "\2\3\4\5\6\7\10\11", 8);
    ck_assert_int_eq(kvref_file_find(f, "a")->n_dim, 0);
    ck_assert_uint_eq(kvref_file_find(f, "e")->n_byte, 0);
    ck_assert_ptr_null(kvref_file_find(f, "c"));
    ck_assert_str_eq(kvref_file_meta(f, "k"), "v");
    ck_assert_ptr_null(kvref_file_meta(f, "none"));
    ck_assert_str_eq(kvref_file_path_of(f, b), path);
    kvref_file_close(&f);
    ck_assert_ptr_null(f);
    kvref_file_close(&f);
}
END_TEST

START_TEST(an_empty_container_is_valid)
{
    kvref_file *f;
    must(kvref_file_open(&f, put("empty", "{}", 0), NULL, &err), err);
    ck_assert_int_eq(kvref_file_count(f), 0);
    ck_assert_ptr_null(kvref_file_find(f, "a"));
    kvref_file_close(&f);
}
END_TEST

START_TEST(every_dtype_has_its_name_and_size)
{
    static const char *const name[] = {
        "F32", "F16", "BF16", "F64", "I64", "I32", "I16", "I8", "U8", "BOOL"};
    static const size_t size[] = {4, 2, 2, 8, 8, 4, 2, 1, 1, 1};
    for (int i = 0; i < 10; i++) {
        char header[128];
        kvref_file *f;
        snprintf(header,
                 sizeof header,
                 "{\"t\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":[0,%zu]}}",
                 name[i],
                 3 * size[i]);
        must(kvref_file_open(&f, put("dtype", header, 3 * size[i]), NULL, &err), err);
        ck_assert_int_eq(kvref_file_at(f, 0)->dtype, i);
        ck_assert_uint_eq(kvref_dtype_size((kvref_dtype)i), size[i]);
        ck_assert_str_eq(kvref_dtype_name((kvref_dtype)i), name[i]);
        kvref_file_close(&f);
    }
}
END_TEST

START_TEST(lying_header_lengths_are_refused)
{
    static const uint64_t claim[] = {0, 1, 3, 1u << 20, 100000001, 1ull << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof claim / sizeof claim[0]; i++)
        refuse(put_as("length", claim[i], "{}", 2, 0), "header length");
    const char *path = support_path(support_temp_dir(), "short");
    for (size_t n = 0; n < 8; n++) {
        support_write(path, "\2\0\0\0\0\0\0", n);
        refuse(path, "expected at least 8");
    }
    support_write(path, "\0\0\0\0\0\0\0\0", 8);
    refuse(path, "header length");
    refuse(put("brace", " {}", 0), "begins with 0x20");
}
END_TEST

START_TEST(a_header_of_exactly_100000_bytes_is_read)
{
    for (int over = 0; over < 2; over++) {
        static char header[100001];
        size_t n = 100000;
        const char *json = "{\"a\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,5]}}";
        snprintf(header, sizeof header, "%-100000s", json);
        const char *path = put_as("100000", n + (size_t)over, header, n, 5);
        kvref_file *f;
        if (over) {
            refuse(path, "expected begin <= end <= 4");
        } else {
            must(kvref_file_open(&f, path, NULL, &err), err);
            ck_assert_mem_eq(kvref_file_at(f, 0)->data, "\0\1\2\3\4", 5);
            kvref_file_close(&f);
        }
    }
}
END_TEST

#define T(name, dtype, shape, from, to)                                                        \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #from       \
    "," #to "]}"

static const struct {
    const char *header;
    size_t n_data;
    const char *contains;
} bad_header[] = {
    {"{" T("a", "U8", "[4]", 4, 0) "}", 4, "tensor a: data_offsets [4, 0], expected begin"},
    {"{" T("a", "U8", "[5]", 0, 5) "}", 4, "data_offsets [0, 5]"},
    {"{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[3]", 3, 6) "}", 6, "b: data begins at 3"},
    {"{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[4]", 0, 4) "}", 4, "overlap"},
    {"{" T("a", "U8", "[2]", 0, 2) "," T("b", "U8", "[1]", 3, 4) "}", 4, "a gap before it"},
    {"{" T("a", "U8", "[2]", 1, 3) "}", 3, "begins at 1, expected 0"},
    {"{" T("a", "U8", "[2]", 0, 2) "}", 3, "data of 3 bytes, the tensors end at 2"},
    {"{" T("a", "U8", "[0]", 0, 0) "," T("b", "U8", "[4]", 0, 4) "," T(
         "c", "U8", "[0]", 2, 2) "}",
     4,
     "c: data begins at 2"},
    {"{}", 1, "data of 1 bytes"},
    {"{" T("a", "F32", "[2]", 0, 4) "}", 4, "4 bytes in data_offsets, its shape needs 8"},
    {"{" T("a", "F32", "[4294967296,4294967296]", 0, 0) "}", 0, "overflows"},
    {"{" T("a", "F32", "[9223372036854775807]", 0, 0) "}", 0, "overflows"},
    {"{" T("a", "F32", "[9223372036854775808]", 0, 0) "}", 0, "too big"},
    {"{" T("a", "F32", "[-1]", 0, 0) "}", 0, "shape: expected integers from 0, found -1"},
    {"{" T("a", "F32", "[1.0]", 0, 4) "}", 4, "found 1"},
    {"{" T("a", "F32", "[null]", 0, 4) "}", 4, "found null"},
    {"{" T("a", "F32", "7", 0, 4) "}", 4, "shape: expected an array, found 7"},
    {"{" T("a", "U8", "[1,1,1,1,1,1,1,1,1]", 0, 1) "}",
     1,
     "shape of 9 sizes, expected at most 8"},
    {"{" T("a", "F8_E4M3", "[1]", 0, 1) "}", 1, "dtype: expected F64, F32"},
    {"{" T("a", "f32", "[1]", 0, 4) "}", 4, "found \"f32\""},
    {"{\"a\":{\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "found 3"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, "dtype: expected F64"},
    {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,4],\"x\":1}}", 4, "found nothing"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"x\":1}}", 4, "data_offsets: expected an array"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],\"x\":1}}", 4, "a: entry"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, "expected an object of dtype"},
    {"{\"a\":7}", 0, "found 7"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0]}}", 4, "an array of two"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4,4]}}", 4, "an array of two"},
    {"{" T("a", "U8", "[4]", -0.0, 4) "}", 4, "integers from 0"},
    {"{" T("a", "U8", "[4]", -4, 0) "}", 4, "found -4"},
    {"{" T("a", "U8", "[4]", 0, 18446744073709551615) "}", 4, "too big"},
    {"{" T("a", "U8", "[1]", 0, 1) "," T("a", "U8", "[1]", 1, 2) "}", 2, "a: found twice"},
    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
     1,
     "duplicate"},
    {"{" T("", "U8", "[1]", 0, 1) "}", 1, "name of 0 bytes"},
    {"{" T("\\u0000", "U8", "[1]", 0, 1) "}", 1, "\\u0000"},
    {"{" T("\xc3(", "U8", "[1]", 0, 1) "}", 1, "UTF-8"},
    {"{" T("\\ud800", "U8", "[1]", 0, 1) "}", 1, "Unicode"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__: a: expected a string"},
    {"{\"__metadata__\":[]}", 0, "expected '{', found 0x5b"},
    {"{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", 0, "__metadata__: a: found twice"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__: found twice"},
    {"{\"__metadata__\":{\"a\":nul}}", 0, "invalid token"},
    {"{\"a\"", 0, "expected ':', found the end"},
    {"{\"a\":", 0, "expected a value, found the end"},
    {"{\"a\":}", 0, "expected a value, found 0x7d"},
    {"{\"a\":,", 0, "expected a value, found 0x2c"},
    {"{\"a\":[", 0, "expected a value, found the end"},
    {"{\"a\":[}]}", 0, "expected"},
    {"{\"a\":\"b", 0, "a closing quote"},
    {"{\"a\\", 0, "a closing quote"},
    {"{\"a\\\"", 0, "a closing quote"},
    {"{" T("a", "U8", "[1]", 0, 1), 1, "',' or '}'"},
    {"{" T("a", "U8", "[1]", 0, 1) " 1}", 1, "',' or '}', found 0x31"},
    {"{" T("a", "U8", "[1]", 0, 1) ",}", 1, "expected a key"},
    {"{a:1}", 0, "expected a key"},
    {"{", 0, "header length"},
    {"{ ", 0, "expected a key, found the end"},
    {"{}{}", 0, "nothing after the object"},
    {"{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}",
     0,
     "32 levels"},
};

START_TEST(every_bad_header_is_named)
{
    refuse(put("bad", bad_header[_i].header, bad_header[_i].n_data), bad_header[_i].contains);
}
END_TEST

START_TEST(truncation_at_every_byte_is_refused)
{
    const char *header = "{" T("a", "U8", "[4]", 0, 4) "," T("b", "F16", "[3]", 4, 10) "}";
    char whole[256];
    size_t n_header = strlen(header), n = 8 + n_header + 10;
    memset(whole, 0, sizeof whole);
    whole[0] = (char)n_header;
    snprintf(whole + 8, sizeof whole - 8, "%s", header);
    const char *path = support_path(support_temp_dir(), "cut");
    for (size_t cut = 0; cut < n; cut++) {
        support_write(path, whole, cut);
        refuse(path, "");
    }
}
END_TEST

START_TEST(metadata_is_bounded)
{
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    fputs("{\"__metadata__\":{\"x\":\"\"", f);
    for (int i = 0; i < 1024; i++) fprintf(f, ",\"%d\":\"\"", i);
    fputs("}}", f);
    (void)fclose(f);
    refuse(put("meta", text, 0), "more than 1024 entries");
    free(text);
    f = open_memstream(&text, &n);
    fputs("{\"__metadata__\":{\"x\":\"\"", f);
    for (int i = 0; i < 20; i++) fprintf(f, ",\"k%d\":\"%060000d\"", i, 0);
    fputs("}}", f);
    (void)fclose(f);
    refuse(put("meta", text, 0), "expected at most 1048576");
    free(text);
}
END_TEST

START_TEST(a_span_other_than_its_shape_is_refused_by_both_numbers)
{
    /* Tiled without a gap, so that nothing else is wrong. */
    refuse(put("span", "{" T("a", "U8", "[4]", 0, 5) "," T("b", "F16", "[3]", 5, 11) "}", 11),
           "tensor a: 5 bytes in data_offsets, its shape needs 4");
    refuse(put("span", "{" T("a", "U8", "[4]", 0, 3) "," T("b", "F16", "[3]", 3, 9) "}", 9),
           "tensor a: 3 bytes in data_offsets, its shape needs 4");
}
END_TEST

START_TEST(headers_of_over_8_mib_are_refused_unread)
{
    const size_t most = 8 << 20;
    char *header = malloc(most + 2);
    memset(header, ' ', most + 1);
    header[0] = '{';
    header[most] = '}';
    header[most + 1] = 0;
    refuse(put("long", header, 0), "header length 8388609, expected 2..8388608");
    header[most - 1] = '}';
    header[most] = 0;
    kvref_file *f;
    must(kvref_file_open(&f, put("long", header, 0), NULL, &err), err);
    kvref_file_close(&f);
    free(header);
}
END_TEST

START_TEST(names_of_255_bytes_are_the_longest)
{
    for (int n = 255; n <= 256; n++) {
        char header[512];
        kvref_file *f;
        snprintf(header,
                 sizeof header,
                 "{\"%0*d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
                 n,
                 7);
        const char *path = put("name", header, 0);
        if (n == 256) {
            refuse(path, "name of 256 bytes, expected 1..255");
        } else {
            must(kvref_file_open(&f, path, NULL, &err), err);
            kvref_file_close(&f);
        }
    }
}
END_TEST

START_TEST(a_zip_signature_or_old_pickle_is_not_safetensors)
{
    kvref_file *f;
    const char *path = put_as("zip", 0x04034b50, "", 0, 0);
    ck_assert(kvref_file_open(&f, path, NULL, &err) != KVREF_OK);
    ck_assert_ptr_null(strstr(err.text, "header"));
    path = put_as("old.pth", 0x80, "", 0, 0);
    ck_assert(kvref_file_open(&f, path, NULL, &err) != KVREF_OK);
    ck_assert_ptr_null(strstr(err.text, "header"));
    must(kvref_file_open(&f, put("not.pth", "{}", 0), NULL, &err), err);
    kvref_file_close(&f);
}
END_TEST

START_TEST(what_cannot_be_opened_is_io_or_missing)
{
    kvref_file *f;
    const char *dir = support_temp_dir();
    must_fail(kvref_file_open(&f, dir, NULL, &err), KVREF_E_IO, err, "directory");
    const char *none = support_path(dir, "none");
    must_fail(kvref_file_open(&f, none, NULL, &err), KVREF_E_MISSING, err, "none");
    ck_assert_ptr_null(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("safetensors");
    TCase *tc = tcase_create("safetensors");
    tcase_add_test(tc, tensors_are_views_in_order_of_name);
    tcase_add_test(tc, an_empty_container_is_valid);
    tcase_add_test(tc, every_dtype_has_its_name_and_size);
    tcase_add_test(tc, lying_header_lengths_are_refused);
    tcase_add_test(tc, a_header_of_exactly_100000_bytes_is_read);
    tcase_add_loop_test(
        tc, every_bad_header_is_named, 0, (int)(sizeof bad_header / sizeof bad_header[0]));
    tcase_add_test(tc, truncation_at_every_byte_is_refused);
    tcase_add_test(tc, metadata_is_bounded);
    tcase_add_test(tc, a_span_other_than_its_shape_is_refused_by_both_numbers);
    tcase_add_test(tc, headers_of_over_8_mib_are_refused_unread);
    tcase_add_test(tc, names_of_255_bytes_are_the_longest);
    tcase_add_test(tc, a_zip_signature_or_old_pickle_is_not_safetensors);
    tcase_add_test(tc, what_cannot_be_opened_is_io_or_missing);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
