/* SPDX-License-Identifier: MIT */
/* Archives written by torch.save: every tensor as torch had it, every bad one refused. */
#include "kvref/file.h"
#include "kvref/half.h"
#include "tests/support.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static kvref_error err;
static char notes[2000];

static void remember(void *user, const char *text)
{
    (void)user;
    size_t n = strlen(notes);
    snprintf(notes + n, sizeof notes - n, "%s\n", text);
}

/* The committed file, or the one of the full set; NULL when neither is there. */
static const char *path_of(const char *name)
{
    char part[80];
    snprintf(part, sizeof part, "golden/pth/%s", name);
    const char *path = support_source(part);
    FILE *f = fopen(path, "rb");
    if (!f) return support_shared(part);
    fclose(f);
    return path;
}

static kvref_status open_file(kvref_file **f, const char *path)
{
    kvref_log log = {remember, NULL};
    notes[0] = 0;
    return kvref_file_open(f, path, &log, &err);
}

static double value_at(const kvref_tensor *t, size_t i)
{
    must(kvref_tensor_load(t, &err), err);
    const uint8_t *p = (const uint8_t *)t->data + i * kvref_dtype_size(t->dtype);
    union {
        float f32;
        double f64;
        uint16_t u16;
        int64_t i64;
        int32_t i32;
        int16_t i16;
        int8_t i8;
        uint8_t u8;
    } u;
    memcpy(&u, p, kvref_dtype_size(t->dtype));
    switch (t->dtype) {
    case KVREF_F32:
        return (double)u.f32;
    case KVREF_F64:
        return u.f64;
    case KVREF_F16:
        return (double)kvref_f16_f32(u.u16);
    case KVREF_BF16:
        return (double)kvref_bf16_f32(u.u16);
    case KVREF_I64:
        return (double)u.i64;
    case KVREF_I32:
        return u.i32;
    case KVREF_I16:
        return u.i16;
    case KVREF_I8:
        return u.i8;
    default:
        return u.u8;
    }
}

static const char *torch_name(kvref_dtype dtype)
{
    static const char *const name[] = {"float32",
                                       "float16",
                                       "bfloat16",
                                       "float64",
                                       "int64",
                                       "int32",
                                       "int16",
                                       "int8",
                                       "uint8",
                                       "bool"};
    return name[dtype];
}

static void check_tensor(const kvref_tensor *t, const char *name, const json_t *want)
{
    ck_assert_msg(t != NULL, "no tensor %s", name);
    const json_t *shape = json_object_get(want, "shape"),
                 *values = json_object_get(want, "values");
    const char *dtype = json_string_value(json_object_get(want, "dtype"));
    if (dtype) ck_assert_str_eq(torch_name(t->dtype), dtype);
    ck_assert_uint_eq((size_t)t->n_dim, json_array_size(shape));
    size_t n = 1;
    for (int k = 0; k < t->n_dim; k++) {
        ck_assert_int_eq(t->dim[k], json_integer_value(json_array_get(shape, (size_t)k)));
        n *= (size_t)t->dim[k];
    }
    ck_assert_uint_eq(t->n_byte, n * kvref_dtype_size(t->dtype));
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double x = value_at(t, i);
        sum += x;
        if (values)
            ck_assert_msg(x == json_number_value(json_array_get(values, i)),
                          "%s[%zu] is %.9g",
                          name,
                          i,
                          x);
    }
    if (!values) {
        double want_sum = json_number_value(json_object_get(want, "sum"));
        ck_assert_msg(
            fabs(sum - want_sum) <= 1e-6 * fabs(want_sum), "%s sums to %.9g", name, sum);
    }
}

/* Every tensor that expected.json has under `key` is in the file, and no other. */
static void check_file(const char *name, const char *key)
{
    const char *path = path_of(name), *list = path_of("expected.json");
    if (strcmp(key, "sizes") == 0) list = support_shared("golden/pth/expected.json");
    if (!path || !list) return;
    json_t *all = json_load_file(list, 0, NULL), *want = json_object_get(all, key), *one;
    ck_assert_msg(want != NULL, "%s has no %s", list, key);
    kvref_file *f;
    must(open_file(&f, path), err);
    ck_assert_uint_eq((size_t)kvref_file_count(f), json_object_size(want));
    json_object_foreach(want, key, one) check_tensor(kvref_file_find(f, key), key, one);
    kvref_file_close(&f);
    json_decref(all);
}

START_TEST(every_dtype_arrives_as_torch_had_it)
{
    check_file("flat.pth", "flat");
    ck_assert_str_eq(notes, "");
    check_file("module.pth", "module");
}
END_TEST

START_TEST(views_arrive_contiguous)
{
    check_file("views.pth", "views");
    check_file("sizes.pth", "sizes");
}
END_TEST

START_TEST(a_nested_state_dict_is_found_and_the_rest_noted)
{
    check_file("nested.pth", "flat");
    ck_assert_ptr_nonnull(strstr(notes, "4 entries beside 'state_dict' are ignored"));
}
END_TEST

START_TEST(newer_writers_are_read)
{
    check_file("newer.pth", "flat");
}
END_TEST

START_TEST(generator_names_lose_their_prefix)
{
    kvref_file *f;
    must(open_file(&f, path_of("generator.pth")), err);
    ck_assert_int_eq(kvref_file_count(f), 2);
    ck_assert_str_eq(kvref_file_at(f, 0)->name, "a.weight");
    ck_assert_str_eq(kvref_file_at(f, 1)->name, "b.bias");
    ck_assert_ptr_nonnull(strstr(notes, "2 of 3 names hold 'generator.'"));
    kvref_file_close(&f);
}
END_TEST

START_TEST(a_thousand_tensors_in_several_groups_are_read)
{
    const char *path = path_of("many.pth");
    if (!path) return;
    kvref_file *f;
    must(open_file(&f, path), err);
    ck_assert_int_eq(kvref_file_count(f), 1100);
    for (int i = 0; i < 1100; i++) {
        char name[16];
        snprintf(name, sizeof name, "k.%d", i);
        const kvref_tensor *t = kvref_file_find(f, name);
        ck_assert_msg(t && value_at(t, 0) == i, "%s", name);
    }
    kvref_file_close(&f);
}
END_TEST

static const struct {
    const char *name;
    kvref_status status;
    const char *says;
} bad[] = {
    {"evil.pth", KVREF_E_UNSUPPORTED, "forbidden global 'posix system'"},
    {"old.pth", KVREF_E_UNSUPPORTED, "unsupported old torch format"},
    {"bad-byteorder.pth", KVREF_E_UNSUPPORTED, "expected 'little', found 'big'"},
    {"bad-deflated.pth", KVREF_E_UNSUPPORTED, "'flat/data/0': is compressed, not stored"},
    {"bad-truncated-pickle.pth", KVREF_E_FORMAT, "truncated in an operand"},
    {"bad-stride0.pth", KVREF_E_FORMAT, "1099511627776 elements in a storage of 1"},
    {"bad-offset.pth", KVREF_E_FORMAT, "reaches element 20 of a storage of 12"},
    {"bad-deep.pth", KVREF_E_FORMAT, "nesting deeper than 32"},
    {"bad-selfdict.pth", KVREF_E_FORMAT, "a container put into itself"},
    {"bad-twopickles.pth", KVREF_E_FORMAT, "expected one data.pkl, found several"},
};

START_TEST(a_bad_archive_is_refused_with_its_own_message)
{
    const char *path = path_of(bad[_i].name);
    if (!path) return;
    kvref_file *f;
    must_fail(open_file(&f, path), bad[_i].status, err, bad[_i].says);
    ck_assert_ptr_null(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pth_golden");
    TCase *tc = tcase_create("pth_golden");
    tcase_add_test(tc, every_dtype_arrives_as_torch_had_it);
    tcase_add_test(tc, views_arrive_contiguous);
    tcase_add_test(tc, a_nested_state_dict_is_found_and_the_rest_noted);
    tcase_add_test(tc, newer_writers_are_read);
    tcase_add_test(tc, generator_names_lose_their_prefix);
    tcase_add_test(tc, a_thousand_tensors_in_several_groups_are_read);
    tcase_add_loop_test(
        tc, a_bad_archive_is_refused_with_its_own_message, 0, (int)(sizeof bad / sizeof *bad));
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
