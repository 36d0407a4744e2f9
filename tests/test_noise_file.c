/* SPDX-License-Identifier: MIT */
#include "kvref/sample.h"
#include "tests/npy_make.h"
#include "tests/support.h"

#include <math.h>

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
        must_fail(kvref_noise_file(&noise, path, 3, 4, 3, &err),
                  KVREF_E_FORMAT,
                  err,
                  "sample 1, frame 2, number 7");
        ck_assert_ptr_null(noise);
    }
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
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
