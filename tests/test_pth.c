/* SPDX-License-Identifier: MIT */
/* .pth archives put together by hand: what must be read, and how. */
#include "base/file.h"
#include "tests/pth_make.h"
#include "tests/support.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kvref_error err;
static char notes[2000];
static make_zip zip;

static void remember(void *user, const char *text)
{
    (void)user;
    size_t n = strlen(notes);
    snprintf(notes + n, sizeof notes - n, "%s\n", text);
}

static kvref_status parse(kvref_file **f)
{
    int part;
    kvref_log log = {remember, NULL};
    notes[0] = 0;
    must(kvref_file_new(f, &err), err);
    must(kvref_file_add_memory(*f, &part, "x.pth", zip.out.data, zip.out.n, &err), err);
    kvref_status s = kvref_pth_parse(*f, part, &log, &err);
    return s == KVREF_OK ? kvref_file_finish(*f, &err) : s;
}

/* Parses the archive of a pickle; the file stays open until the next call. */
static kvref_file *file;
static void read_words(const char *words, size_t n_storage)
{
    kvref_file_close(&file);
    make_free(&zip.out);
    make_archive(&zip, words, n_storage);
    make_end(&zip, 0);
    must(parse(&file), err);
}

static void done(void)
{
    kvref_file_close(&file);
    make_free(&zip.out);
}

static const kvref_tensor *find(const char *name)
{
    const kvref_tensor *t = kvref_file_find(file, name);
    ck_assert_msg(t != NULL, "no tensor %s", name);
    must(kvref_tensor_load(t, &err), err);
    return t;
}

static bool in_place(const kvref_tensor *t)
{
    const uint8_t *p = t->data;
    return p >= zip.out.data && p <= zip.out.data + zip.out.n;
}

static const struct {
    const char *class;
    size_t size;
} class_of[] = {
    {"ByteStorage", 1}, {"HalfStorage", 2}, {"FloatStorage", 4}, {"DoubleStorage", 8}};

START_TEST(permuted_axes_are_gathered_in_row_major_order)
{
    char words[200];
    size_t size = class_of[_i].size;
    snprintf(words, sizeof words, "P2 } 'w' T:%s:0:26:2:4,3,2:1,4,12 s .", class_of[_i].class);
    read_words(words, 26 * size);
    const kvref_tensor *t = find("w");
    ck_assert(t->n_dim == 3 && t->dim[0] == 4 && t->dim[1] == 3 && t->dim[2] == 2);
    ck_assert_uint_eq(t->n_byte, 24 * size);
    ck_assert(!in_place(t));
    const uint8_t *p = t->data;
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 3; j++)
            for (size_t k = 0; k < 2; k++)
                for (size_t b = 0; b < size; b++)
                    ck_assert_uint_eq(*p++, ((2 + i + 4 * j + 12 * k) * size + b + 1) & 255);
    done();
}
END_TEST

START_TEST(contiguous_views_stay_in_the_mapping)
{
    read_words(
        "P2 } ( 'whole' T:ByteStorage:0:24:0:4,6:6,1 'rows' T:ByteStorage:0:24:6:2,6:6,1 "
        "'odd' T:ByteStorage:0:24:3:1,5,1:4611686018427387904,1,99 "
        "'scalar' T:ByteStorage:0:24:23:: 'none' T:ByteStorage:0:24:99:3,0:7,7 u .",
        24);
    ck_assert_int_eq(kvref_file_count(file), 5);
    for (int i = 0; i < 5; i++) ck_assert(in_place(kvref_file_at(file, i)));
    ck_assert_int_eq(*(const uint8_t *)find("rows")->data, 7);
    ck_assert_int_eq(*(const uint8_t *)find("odd")->data, 4);
    ck_assert_int_eq(*(const uint8_t *)find("scalar")->data, 24);
    ck_assert_int_eq(find("scalar")->n_dim, 0);
    ck_assert_uint_eq(find("none")->n_byte, 0);
    ck_assert_int_eq(find("none")->dim[0], 3);
    done();
}
END_TEST

START_TEST(a_single_column_with_any_stride_is_gathered)
{
    read_words(
        "P2 } ( 'col' T:ByteStorage:0:24:1:4,1:6,4611686018427387904 "
        "'step' T:ByteStorage:0:24:0:5:5 'wide' T:FloatStorage:0:6:1:2,1:3,4611686018427387904 "
        "'same' T:ByteStorage:0:24:9:3:0 u .",
        24);
    ck_assert_mem_eq(find("col")->data, "\2\10\16\24", 4);
    ck_assert_mem_eq(find("step")->data, "\1\6\13\20\25", 5);
    ck_assert_mem_eq(find("wide")->data, "\5\6\7\10\21\22\23\24", 8);
    ck_assert_mem_eq(find("same")->data, "\12\12\12", 3);
    done();
}
END_TEST

START_TEST(bool_bytes_stay_as_they_are)
{
    read_words("P2 } ( 'b' T:BoolStorage:0:4:0:4:1 'first' T:BoolStorage:0:4:0:1:1 "
               "'scalar' T:BoolStorage:0:4:2:: 'step' T:BoolStorage:0:4:0:2:3 u .",
               4);
    ck_assert_mem_eq(find("b")->data, "\1\2\3\4", 4);
    ck_assert_mem_eq(find("step")->data, "\1\4", 2);
    ck_assert_mem_eq(find("scalar")->data, "\3", 1);
    ck_assert(in_place(find("first")) && in_place(find("b")));
    done();
}
END_TEST

START_TEST(every_way_to_write_an_integer_means_the_same)
{
    static const char *const way[] = {"3",
                                      "K x03",
                                      "M x03 x00",
                                      "J x03 x00 x00 x00",
                                      "x8a x01 x03",
                                      "x8a x03 x03 x00 x00",
                                      "3 q9",
                                      "3 r7"};
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        char words[300];
        snprintf(
            words,
            sizeof words,
            "P2 } 'w' c:torch._utils:_rebuild_tensor_v2 ( S:ByteStorage:0:8 %s 5 x85 1 x85 "
            "x88 D t R s .",
            way[i]);
        read_words(words, 8);
        ck_assert_int_eq(*(const uint8_t *)find("w")->data, 4);
    }
    done();
}
END_TEST

START_TEST(negative_and_empty_integers_are_read)
{
    /* -1 as LONG1 in 1 and 8 bytes and 0 in none: only the last is an offset. */
    static const char *const way[] = {"x8a x01 xff", "x8a x08 xff xff xff xff xff xff xff xff"};
    read_words("P2 } 'w' c:torch._utils:_rebuild_tensor_v2 ( S:ByteStorage:0:8 x8a x00 5 x85 1 "
               "x85 x88 D t R s .",
               8);
    ck_assert_int_eq(*(const uint8_t *)find("w")->data, 1);
    for (int i = 0; i < 2; i++) {
        char words[300];
        snprintf(
            words,
            sizeof words,
            "P2 } 'w' c:torch._utils:_rebuild_tensor_v2 ( S:ByteStorage:0:8 %s 5 x85 1 x85 "
            "x88 D t R s .",
            way[i]);
        make_free(&zip.out);
        make_archive(&zip, words, 8);
        make_end(&zip, 0);
        kvref_file_close(&file);
        must_fail(parse(&file), KVREF_E_FORMAT, err, "a negative storage offset");
    }
    done();
}
END_TEST

START_TEST(what_is_put_in_the_memo_comes_back)
{
    read_words("P2 } q0 ( 'w' q1 r30 T:ByteStorage:0:4:1:2:1 q2 'v' h2 'x' j30 u .", 4);
    ck_assert_mem_eq(find("w")->data, "\2\3", 2);
    ck_assert_ptr_eq(find("v")->data, find("w")->data);
    ck_assert_int_eq(kvref_file_count(file), 2);
    done();
}
END_TEST

START_TEST(the_last_value_of_a_name_wins)
{
    read_words("P2 D 'a' T:ByteStorage:0:4:0:1:1 s ( 'b' T:ByteStorage:0:4:0:1:1 'a' "
               "T:ByteStorage:0:4:2:1:1 u ( 'c' T:ByteStorage:0:4:0:1:1 'c' N u .",
               4);
    ck_assert_int_eq(kvref_file_count(file), 2);
    ck_assert_int_eq(*(const uint8_t *)find("a")->data, 3);
    ck_assert_ptr_nonnull(
        strstr(notes, "1 values that are not tensors are ignored, one is 'c'"));
    done();
}
END_TEST

START_TEST(what_is_no_tensor_is_ignored_and_noted)
{
    read_words(
        "P2 D ( 1 'one' N 'none' 'l' ] ( 1 'x' G x40 x09 x00 x00 x00 x00 x00 x00 e 2 a 'w' "
        "T:ByteStorage:0:4:0:4:1 'd' D 'k' 'v' s 'st' S:ByteStorage:0:4 't' ) u } "
        "'_metadata' D s b .",
        4);
    ck_assert_int_eq(kvref_file_count(file), 1);
    ck_assert_ptr_nonnull(strstr(notes, "2 values without a usable name are ignored"));
    ck_assert_ptr_nonnull(strstr(notes, "4 values that are not tensors are ignored"));
    done();
}
END_TEST

START_TEST(names_hold_up_to_255_bytes)
{
    char words[900], name[300];
    memset(name, 'n', sizeof name);
    snprintf(words, sizeof words, "P2 } '%.255s' T:ByteStorage:0:4:0:1:1 s .", name);
    read_words(words, 4);
    ck_assert_uint_eq(strlen(kvref_file_at(file, 0)->name), 255);
    snprintf(words, sizeof words, "P2 } '%.256s' N s .", name);
    read_words(words, 4);
    ck_assert_ptr_nonnull(strstr(notes, "1 values without a usable name are ignored"));
    done();
    snprintf(words, sizeof words, "P2 } '%.256s' T:ByteStorage:0:4:0:1:1 s .", name);
    make_archive(&zip, words, 4);
    make_end(&zip, 0);
    must_fail(parse(&file), KVREF_E_FORMAT, err, "a name of 256 bytes");
    done();
}
END_TEST

START_TEST(a_state_dict_inside_is_taken_and_the_last_one_wins)
{
    read_words("P2 } ( 'epoch' 3 'state_dict' 5 'w' T:ByteStorage:0:4:0:1:1 'state_dict' D 'v' "
               "T:ByteStorage:0:4:1:1:1 s u .",
               4);
    ck_assert_int_eq(kvref_file_count(file), 1);
    ck_assert_int_eq(*(const uint8_t *)find("v")->data, 2);
    ck_assert_ptr_nonnull(strstr(notes, "2 entries beside 'state_dict' are ignored"));
    read_words("P2 } 'state_dict' } s .", 0);
    ck_assert_int_eq(kvref_file_count(file), 0);
    ck_assert_str_eq(notes, "");
    done();
}
END_TEST

START_TEST(parameters_and_tensors_with_metadata_are_tensors)
{
    read_words(
        "P2 } ( 'p' c:torch._utils:_rebuild_parameter T:ByteStorage:0:4:1:2:1 x88 D x87 R "
        "'m' c:torch._utils:_rebuild_tensor_v2 ( S:ByteStorage:0:4 2 1 x85 1 x85 x89 D N t "
        "R u .",
        4);
    ck_assert_mem_eq(find("p")->data, "\2\3", 2);
    ck_assert_mem_eq(find("m")->data, "\3", 1);
    done();
}
END_TEST

START_TEST(generator_names_are_unwrapped_and_others_dropped)
{
    read_words("P2 D ( 'generator.a' T:ByteStorage:0:4:0:1:1 'x.generator.b' "
               "T:ByteStorage:0:4:1:1:1 'generators' T:ByteStorage:0:4:0:1:1 'z' 1 "
               "'generator.generator.a' T:ByteStorage:0:4:2:1:1 'generator.n' 1 u .",
               4);
    ck_assert_int_eq(kvref_file_count(file), 2);
    ck_assert_int_eq(*(const uint8_t *)find("a")->data, 3); /* set last */
    ck_assert_int_eq(*(const uint8_t *)find("x.b")->data, 2);
    ck_assert_ptr_nonnull(strstr(notes, "4 of 6 names hold 'generator.'"));
    done();
}
END_TEST

START_TEST(zip64_records_comments_and_unknown_entries_are_read)
{
    for (int wide = 0; wide < 2; wide++) {
        make_archive(&zip, "P2 } 'w' T:ByteStorage:0:4:1:2:1 s .", 4);
        make_entry(&zip, "x/byteorder", "little\n", 7);
        make_entry(&zip, "x/.data/serialization_id", "12", 2);
        make_entry(&zip, "elsewhere", "", 0);
        zip.wide = wide ? 0x15 : 0;
        make_end(&zip, wide);
        if (wide) memset(zip.out.data + zip.end + 10, 0xff, 10);
        zip.out.data[zip.end + 20] = 6;
        make_put(&zip.out, "PK\5\6..", 6);
        must(parse(&file), err);
        ck_assert_mem_eq(find("w")->data, "\2\3", 2);
        ck_assert_str_eq(notes, "");
        done();
    }
}
END_TEST

START_TEST(a_wrong_crc_of_the_pickle_is_noted_only)
{
    make_archive(&zip, "P2 } .", 0);
    zip.crc[0] ^= 1;
    zip.crc[1] ^= 1;
    make_end(&zip, 0);
    must(parse(&file), err);
    ck_assert_str_eq(notes, "x.pth: data.pkl does not match its CRC\n");
    done();
}
END_TEST

START_TEST(a_view_takes_memory_only_when_it_is_loaded)
{
    /* 4000 views of 90,000 bytes each. */
    make_bytes words = {0};
    make_put(&words, "P2 }", 4);
    for (int i = 0; i < 4000; i++) {
        char word[80];
        snprintf(word, sizeof word, " 'v%d' T:ByteStorage:0:90000:0:300,300:1,300 s", i);
        make_put(&words, word, strlen(word));
    }
    make_put(&words, " .", 3);
    make_archive(&zip, (const char *)words.data, 90000);
    make_end(&zip, 0);
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    must(parse(&file), err);
    size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
    ck_assert_msg(after - before < 4000 * 2000, "%zu bytes", after - before);
    const kvref_tensor *t = kvref_file_find(file, "v17");
    ck_assert(t && t->data == NULL);
    must(kvref_tensor_load(t, &err), err);
    const void *data = t->data;
    ck_assert_ptr_nonnull(data);
    must(kvref_tensor_load(t, &err), err);
    ck_assert(t->data == data); /* once */
    ck_assert_ptr_null(kvref_file_find(file, "v18")->data);
    done();
    make_free(&words);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pth");
    TCase *tc = tcase_create("pth");
    tcase_add_loop_test(tc, permuted_axes_are_gathered_in_row_major_order, 0, 4);
    tcase_add_test(tc, contiguous_views_stay_in_the_mapping);
    tcase_add_test(tc, a_single_column_with_any_stride_is_gathered);
    tcase_add_test(tc, bool_bytes_stay_as_they_are);
    tcase_add_test(tc, every_way_to_write_an_integer_means_the_same);
    tcase_add_test(tc, negative_and_empty_integers_are_read);
    tcase_add_test(tc, what_is_put_in_the_memo_comes_back);
    tcase_add_test(tc, the_last_value_of_a_name_wins);
    tcase_add_test(tc, what_is_no_tensor_is_ignored_and_noted);
    tcase_add_test(tc, names_hold_up_to_255_bytes);
    tcase_add_test(tc, a_state_dict_inside_is_taken_and_the_last_one_wins);
    tcase_add_test(tc, parameters_and_tensors_with_metadata_are_tensors);
    tcase_add_test(tc, generator_names_are_unwrapped_and_others_dropped);
    tcase_add_test(tc, zip64_records_comments_and_unknown_entries_are_read);
    tcase_add_test(tc, a_wrong_crc_of_the_pickle_is_noted_only);
    tcase_add_test(tc, a_view_takes_memory_only_when_it_is_loaded);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
