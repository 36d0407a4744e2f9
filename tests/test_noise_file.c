/* SPDX-License-Identifier: MIT */
#include "kvref/sample.h"
#include "tests/npy_make.h"
#include "tests/support.h"

#include <math.h>
#include <unistd.h>

static kvref_error err;

/* Two samples of three frames for 3 candidates, 4 codes and 3 codebooks: 14 numbers a frame,
 * number i being i / 128. */
static const char *noise_path(const char *shape, int n)
{
    const char *path = support_path(support_temp_dir(), "noise.npy");
    size_t at = npy_shape("<f4", "False", shape);
    for (int i = 0; i < n; i++, at += 4)
        memcpy(file + at, &(float){(float)i / 128}, sizeof(float));
    support_write(path, file, at);
    return path;
}

START_TEST(file_noise_gives_every_number_at_its_address)
{
    static const int32_t ids[3] = {70, 80, 90}, odd[2] = {1, 3};
    kvref_noise *noise;
    must(kvref_noise_file(&noise, noise_path("(2, 3, 14)", 84), 3, 4, 3, &err), err);
    for (int at = 5; at >= 0; at--) { /* any order of asking */
        float u[4];
        kvref_draw draw = {
            .sample = at / 3, .frame = at % 3, .n_set = 100, .index = ids, .n = 3};
        for (draw.set = 0; draw.set < 2; draw.set++) {
            must(kvref_noise_fill(noise, u, &draw, &err), err);
            for (int i = 0; i < 3; i++)
                ck_assert(u[i] == (float)(at * 14 + draw.set * 3 + i) / 128);
        }
        for (draw.set = 2; draw.set < 4; draw.set++) {
            const float first = (float)(at * 14 + 6 + (draw.set - 2) * 4) / 128;
            draw.n_set = 4;
            draw.index = NULL;
            draw.n = 4;
            must(kvref_noise_fill(noise, u, &draw, &err), err);
            for (int i = 0; i < 4; i++) ck_assert(u[i] == first + (float)i / 128);
            draw.index = odd;
            draw.n = 2;
            must(kvref_noise_fill(noise, u, &draw, &err), err);
            for (int i = 0; i < 2; i++) ck_assert(u[i] == first + (float)odd[i] / 128);
        }
    }
    kvref_noise_close(&noise);
}
END_TEST

START_TEST(draws_outside_the_file_are_refused)
{
    kvref_noise *noise;
    float u[8];
    static const kvref_draw late[] = {{.sample = 2, .n_set = 9, .n = 3},
                                      {.frame = 3, .n_set = 9, .n = 3}};
    static const kvref_draw other[] = {{.n_set = 9, .n = 4},
                                       {.set = 1, .n_set = 9, .n = 2},
                                       {.set = 2, .n_set = 5, .n = 4},
                                       {.set = 4, .n_set = 4, .n = 4}};
    must(kvref_noise_file(&noise, noise_path("(2, 3, 14)", 84), 3, 4, 3, &err), err);
    for (int i = 0; i < 2; i++)
        must_fail(kvref_noise_fill(noise, u, &late[i], &err),
                  KVREF_E_CAPACITY,
                  err,
                  "sample below 2 and frame below 3");
    for (int i = 0; i < 4; i++)
        must_fail(
            kvref_noise_fill(noise, u, &other[i], &err), KVREF_E_ARG, err, "noise file: set");
    kvref_noise_close(&noise);
}
END_TEST

START_TEST(noise_files_of_another_shape_are_refused)
{
    static const struct {
        const char *shape;
        int n;
        const char *what;
    } bad[] = {{"(6, 14)", 84, "3 axes"},
               {"(2, 3, 13)", 78, "14 numbers a frame"},
               {"(2, 3, 15)", 90, "14 numbers a frame"},
               {"(14, 3, 2)", 84, "14 numbers a frame"}};
    kvref_noise *noise;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        must_fail(kvref_noise_file(&noise, noise_path(bad[i].shape, bad[i].n), 3, 4, 3, &err),
                  KVREF_E_SHAPE,
                  err,
                  bad[i].what);
        ck_assert_ptr_null(noise);
    }
    for (int i = 0; i < 3; i++)
        must_fail(kvref_noise_file(&noise, "nowhere.npy", i != 0, i != 1, i != 2, &err),
                  KVREF_E_ARG,
                  err,
                  "sizes");
    must_fail(kvref_noise_file(&noise, "nowhere.npy", 3, 4, 3, &err),
              KVREF_E_MISSING,
              err,
              "nowhere.npy");
    must(kvref_noise_file(&noise, noise_path("(0, 3, 14)", 0), 3, 4, 3, &err), err);
    kvref_noise_close(&noise);
}
END_TEST

START_TEST(noise_outside_zero_to_one_is_refused_by_place)
{
    static const float bad[] = {1, -0x1p-30f, NAN, INFINITY, 2};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        kvref_noise *noise;
        const char *path = noise_path("(2, 3, 14)", 84);
        size_t at = npy_shape("<f4", "False", "(2, 3, 14)");
        size_t number = (3 + 2) * 14 + 7; /* sample 1, frame 2, number 7 */
        memset(file + at, 0, 84 * sizeof(float));
        memcpy(file + at + 4 * number, &bad[i], 4);
        support_write(path, file, at + 84 * sizeof(float));
        must(kvref_noise_file(&noise, path, 3, 4, 3, &err), err);
        float u[4];
        kvref_draw draw = {.sample = 1, .frame = 2, .set = 3, .n_set = 4, .n = 4};
        must(kvref_noise_fill(noise, u, &draw, &err), err);
        draw.set = 2; /* numbers 6 to 9 */
        must_fail(kvref_noise_fill(noise, u, &draw, &err),
                  KVREF_E_FORMAT,
                  err,
                  "noise.npy: sample 1, frame 2, number 7: expected 0 <= u < 1");
        draw.index = (int32_t[]){0, 2}; /* 7 is not asked for */
        draw.n = 2;
        must(kvref_noise_fill(noise, u, &draw, &err), err);
        kvref_noise_close(&noise);
    }
}
END_TEST

/* The same numbers whether little or big end first, C or Fortran order. */
START_TEST(byte_order_and_axis_order_do_not_matter)
{
    int big = _i & 1, fortran = _i >> 1;
    size_t at = npy_shape(big ? ">f4" : "<f4", fortran ? "True" : "False", "(2, 3, 4)");
    for (int k = 0; k < 24; k++) {
        int i = k % 2, j = k / 2 % 3, l = k / 6; /* Fortran: first axis fastest */
        float value = (float)(fortran ? (i * 3 + j) * 4 + l : k) / 32;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        at = put(at, bits, 4, big);
    }
    const char *path = support_path(support_temp_dir(), "order.npy");
    support_write(path, file, at);
    kvref_noise *noise;
    must(kvref_noise_file(&noise, path, 1, 2, 2, &err), err);
    for (int k = 0; k < 6; k++) {
        float u[2];
        const kvref_draw draw = {.sample = k / 3, .frame = k % 3, .set = 2, .n_set = 2, .n = 2};
        must(kvref_noise_fill(noise, u, &draw, &err), err);
        ck_assert(u[0] == (float)(4 * k + 2) / 32 && u[1] == (float)(4 * k + 3) / 32);
    }
    kvref_noise_close(&noise);
}
END_TEST

START_TEST(other_dtypes_than_float32_are_refused)
{
    static const char *const descr[] = {"<f8", "<f2", "<i4"};
    const char *path = support_path(support_temp_dir(), "other.npy");
    kvref_noise *noise;
    for (int i = 0; i < 3; i++) {
        size_t at = npy_shape(descr[i], "False", "(1, 1, 2)");
        support_write(path, file, at + 2 * (size_t)(descr[i][2] - '0'));
        must_fail(kvref_noise_file(&noise, path, 1, 1, 1, &err),
                  KVREF_E_FORMAT,
                  err,
                  "expected float32");
        ck_assert_ptr_null(noise);
    }
    support_write(path, file, 20);
    must_fail(kvref_noise_file(&noise, path, 1, 1, 1, &err), KVREF_E_FORMAT, err, "header");
}
END_TEST

/* 12 TB of holes. */
START_TEST(a_file_of_any_claimed_size_costs_only_what_is_drawn)
{
    char path[1024];
    if (!support_measures()) return; /* valgrind cannot map so much */
    snprintf(path, sizeof path, "%s", support_path(support_temp_dir(), "holes.npy"));
    size_t at = npy_shape("<f4", "False", "(1, 300000000000, 10)");
    support_write(path, file, at);
    ck_assert_int_eq(truncate(path, (off_t)at + 12000000000000), 0);
    kvref_noise *noise;
    float u[4];
    const kvref_draw draw = {.frame = 2000000000, .set = 2, .n_set = 4, .n = 4};
    must(kvref_noise_file(&noise, path, 3, 4, 2, &err), err);
    must(kvref_noise_fill(noise, u, &draw, &err), err);
    ck_assert(u[0] == 0 && u[3] == 0);
    kvref_noise_close(&noise);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("noise_file");
    TCase *tc = tcase_create("noise_file");
    tcase_add_test(tc, file_noise_gives_every_number_at_its_address);
    tcase_add_test(tc, draws_outside_the_file_are_refused);
    tcase_add_test(tc, noise_files_of_another_shape_are_refused);
    tcase_add_test(tc, noise_outside_zero_to_one_is_refused_by_place);
    tcase_add_loop_test(tc, byte_order_and_axis_order_do_not_matter, 0, 4);
    tcase_add_test(tc, other_dtypes_than_float32_are_refused);
    tcase_add_test(tc, a_file_of_any_claimed_size_costs_only_what_is_drawn);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
