/* SPDX-License-Identifier: MIT */
/* float32 .npy arrays: both byte orders, both axis orders, no other dtype. */
#include "base/npy.h"
#include "tests/npy_make.h"
#include "tests/support.h"

#include <stdlib.h>

static kvref_error err;

static size_t put_f32(size_t at, float value, int big)
{
    uint32_t u;
    memcpy(&u, &value, sizeof u);
    return put(at, u, 4, big);
}

START_TEST(float32_arrays_arrive_in_c_order)
{
    const char *path = support_path(support_temp_dir(), "noise.npy");
    for (int mode = 0; mode < 4; mode++) {
        int big = mode & 1, fortran = mode >> 1;
        size_t at = npy_shape(big ? ">f4" : "<f4", fortran ? "True" : "False", "(2, 3, 4)");
        for (int k = 0; k < 24; k++) {
            int i = k % 2, j = k / 2 % 3, l = k / 6; /* Fortran: first axis fastest */
            at = put_f32(at, (float)(fortran ? (i * 3 + j) * 4 + l : k) / 7, big);
        }
        support_write(path, file, at);
        float *value;
        int64_t dim[KVREF_NPY_MAX_DIM];
        int n_dim;
        must(kvref_npy_f32(&value, dim, &n_dim, path, &err), err);
        ck_assert_int_eq(n_dim, 3);
        ck_assert(dim[0] == 2 && dim[1] == 3 && dim[2] == 4);
        for (int k = 0; k < 24; k++) ck_assert(value[k] == (float)k / 7);
        free(value);
    }
}
END_TEST

START_TEST(float32_scalars_and_empty_arrays_are_read)
{
    const char *path = support_path(support_temp_dir(), "small.npy");
    float *value;
    int64_t dim[KVREF_NPY_MAX_DIM];
    int n_dim;
    support_write(path, file, put_f32(npy_shape("<f4", "False", "()"), 2.5f, 0));
    must(kvref_npy_f32(&value, dim, &n_dim, path, &err), err);
    ck_assert(n_dim == 0 && value[0] == 2.5f);
    free(value);
    support_write(path, file, npy_shape("<f4", "False", "(3, 0)"));
    must(kvref_npy_f32(&value, dim, &n_dim, path, &err), err);
    ck_assert(n_dim == 2 && dim[0] == 3 && dim[1] == 0 && value != NULL);
    free(value);
}
END_TEST

START_TEST(other_dtypes_than_float32_are_refused)
{
    const char *path = support_path(support_temp_dir(), "other.npy");
    static const char *const descr[] = {"<f8", "<f2", "<i4"};
    float *value;
    int64_t dim[KVREF_NPY_MAX_DIM];
    int n_dim;
    for (int i = 0; i < 3; i++) {
        size_t at = npy_shape(descr[i], "False", "(1,)");
        support_write(path, file, at + (size_t)(descr[i][2] - '0'));
        must_fail(kvref_npy_f32(&value, dim, &n_dim, path, &err),
                  KVREF_E_FORMAT,
                  err,
                  "expected float32");
        ck_assert_ptr_null(value);
    }
    support_write(path, file, 20);
    must_fail(kvref_npy_f32(&value, dim, &n_dim, path, &err), KVREF_E_FORMAT, err, "header");
    const char *none = support_path(support_temp_dir(), "absent.npy");
    must_fail(kvref_npy_f32(&value, dim, &n_dim, none, &err), KVREF_E_MISSING, err, none);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("npy");
    TCase *tc = tcase_create("npy");
    tcase_add_test(tc, float32_arrays_arrive_in_c_order);
    tcase_add_test(tc, float32_scalars_and_empty_arrays_are_read);
    tcase_add_test(tc, other_dtypes_than_float32_are_refused);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
