/* SPDX-License-Identifier: MIT */
#include "kvref/blas.h"
#include "kvref/limits.h"
#include "tests/support.h"
#include "tests/world.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const kvref_dtype dtypes[] = {KVREF_F32, KVREF_F16, KVREF_BF16};

/* A matrix of noise at an odd address. */
static char *noisy(kvref_dtype dtype, size_t n, size_t offset, uint32_t seed)
{
    size_t size = kvref_dtype_size(dtype);
    char *w = malloc(n * size + offset + 1);
    ck_assert_ptr_nonnull(w);
    for (size_t i = 0; i < n; i++) {
        float x = world_noise(&seed);
        uint16_t h = dtype == KVREF_F16 ? kvref_f32_f16(x) : kvref_f32_bf16(x);
        memcpy(w + offset + i * size, dtype == KVREF_F32 ? (void *)&x : (void *)&h, size);
    }
    return w;
}

static void check_product(
    const ref_simd *simd, kvref_dtype dtype, int n_x, int n_w, int n_col, size_t offset)
{
    size_t size = kvref_dtype_size(dtype), n = (size_t)n_w * (size_t)n_col;
    char *w = noisy(dtype, n, offset, 3);
    float *x = world_floats((size_t)(n_x * n_col), 2, 5);
    float y[9 * 20];
    for (int i = 0; i < 9 * 20; i++) y[i] = 12345.0f;
    simd->product(&(ref_product){
        y, 20, x, (size_t)n_col, w + offset, (size_t)n_col * size, dtype, n_x, n_w, n_col});
    for (int t = 0; t < 9; t++)
        for (int o = 0; o < 20; o++) {
            float want =
                t < n_x && o < n_w
                    ? ref_dot_naive(
                          w + offset + (size_t)(o * n_col) * size, dtype, x + t * n_col, n_col)
                    : 12345.0f;
            ck_assert_msg(kvref_f32_bits(want) == kvref_f32_bits(y[t * 20 + o]),
                          "%s %s n_x %d n_w %d n_col %d offset %zu: [%d, %d] %a, expected %a",
                          simd->name,
                          kvref_dtype_name(dtype),
                          n_x,
                          n_w,
                          n_col,
                          offset,
                          t,
                          o,
                          (double)y[t * 20 + o],
                          (double)want);
        }
    free(w);
    free(x);
}

START_TEST(every_instruction_set_follows_the_written_order)
{
    static const int cols[] = {1, 2, 6, 15, 16, 17, 24, 31, 32, 33, 47, 100, 257};
    const ref_simd *list[REF_MAX_SIMD];
    int n_simd = ref_simd_list(list);
    ck_assert_int_ge(n_simd, 1);
    for (int s = 0; s < n_simd; s++)
        for (int d = 0; d < 3; d++)
            for (size_t c = 0; c < sizeof cols / sizeof *cols; c++)
                for (int n_x = 1; n_x <= 9; n_x++)
                    for (int n_w = 1; n_w <= 17; n_w += n_w < 6 ? 1 : 11)
                        check_product(list[s], dtypes[d], n_x, n_w, cols[c], 0);
    printf("covered:");
    for (int s = 0; s < n_simd; s++) printf(" %s", list[s]->name);
    printf("; known: base avx2 avx512\n");
}
END_TEST

START_TEST(alignment_changes_no_bit)
{
    const ref_simd *list[REF_MAX_SIMD];
    int n_simd = ref_simd_list(list);
    for (int s = 0; s < n_simd; s++)
        for (int d = 0; d < 3; d++)
            for (size_t offset = 0; offset < 16; offset++) {
                check_product(list[s], dtypes[d], 1, 5, 77, offset);
                check_product(list[s], dtypes[d], 5, 5, 77, offset);
            }
}
END_TEST

START_TEST(widening_is_exact_for_every_pattern)
{
    const ref_simd *list[REF_MAX_SIMD];
    int n_simd = ref_simd_list(list);
    static uint16_t h[65536];
    static float y[65537];
    for (int i = 0; i < 65536; i++) h[i] = (uint16_t)i;
    for (int s = 0; s < n_simd; s++)
        for (int d = 1; d < 3; d++)
            for (size_t n = 65536 - 17; n <= 65536; n += 17) {
                y[n] = 77.0f;
                list[s]->widen(y, h, dtypes[d], n);
                size_t wrong = 0;
                for (size_t i = 0; i < n; i++) {
                    float want = ref_element(h, dtypes[d], i);
                    bool same = isnan(want) ? isnan(y[i])
                                            : kvref_f32_bits(want) == kvref_f32_bits(y[i]);
                    wrong += !same;
                }
                ck_assert_uint_eq(wrong, 0);
                ck_assert(y[n] == 77.0f);
            }
}
END_TEST

START_TEST(mixing_rows_goes_in_ascending_order)
{
    const ref_simd *list[REF_MAX_SIMD];
    int n_simd = ref_simd_list(list);
    for (int s = 0; s < n_simd; s++)
        for (int n_col = 1; n_col < 150; n_col += n_col < 10 ? 1 : 7)
            for (int n_row = 1; n_row <= 64; n_row += 21) {
                float *v = world_floats((size_t)(n_row * n_col), 3, 1),
                      *p = world_floats((size_t)n_row, 1, 2);
                float y[160];
                for (int e = 0; e < 160; e++) y[e] = 5.0f;
                list[s]->mix(y, p, v, n_row, n_col);
                for (int e = 0; e < n_col; e++) {
                    float sum = 0;
                    for (int r = 0; r < n_row; r++) {
                        volatile float term = p[r] * v[r * n_col + e];
                        sum += term;
                    }
                    ck_assert_msg(kvref_f32_bits(sum) == kvref_f32_bits(y[e]),
                                  "%s %d %d",
                                  list[s]->name,
                                  n_row,
                                  n_col);
                }
                ck_assert(y[n_col] == 5.0f);
                free(v);
                free(p);
            }
}
END_TEST

/* Inputs end exactly where memory does. */
START_TEST(nothing_is_read_beyond_the_last_element)
{
    const ref_simd *list[REF_MAX_SIMD];
    int n_simd = ref_simd_list(list);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = 16 * page;
    char *w =
        mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *x =
        mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(w != MAP_FAILED && x != MAP_FAILED);
    ck_assert(mprotect(w + size, page, PROT_NONE) == 0 &&
              mprotect(x + size, page, PROT_NONE) == 0);
    for (int s = 0; s < n_simd; s++)
        for (int d = 0; d < 3; d++)
            for (int n_col = 1; n_col < 70; n_col++)
                for (int n_x = 1; n_x <= 5; n_x += 2) {
                    size_t n_w = 5, width = kvref_dtype_size(dtypes[d]);
                    float y[25], wide[70];
                    const char *at = w + size - n_w * (size_t)n_col * width;
                    list[s]->product(&(ref_product){y,
                                                    5,
                                                    (float *)(void *)(x + size) - n_x * n_col,
                                                    (size_t)n_col,
                                                    at,
                                                    (size_t)n_col * width,
                                                    dtypes[d],
                                                    n_x,
                                                    (int)n_w,
                                                    n_col});
                    list[s]->widen(
                        wide, w + size - (size_t)n_col * width, dtypes[d], (size_t)n_col);
                    ck_assert(y[0] == 0.0f && wide[0] == 0.0f);
                }
    munmap(w, size + page);
    munmap(x, size + page);
}
END_TEST

/* Largest share of limit T1. */
static double worst_share(const float *y,
                          const kvref_weight *w,
                          const float *bias,
                          const float *x,
                          int n_row,
                          bool alike)
{
    double worst = 0, n = w->n_col;
    for (int t = 0; t < n_row; t++)
        for (int o = 0; o < w->n_row; o++) {
            double sum = bias ? (double)bias[o] : 0, size = fabs(sum);
            for (int i = 0; i < w->n_col; i++) {
                double term =
                    (double)ref_element(w->data, w->dtype, (size_t)(o * w->n_col + i)) *
                    (double)x[t * w->n_col + i];
                sum += term;
                size += fabs(term);
            }
            double limit = kvref_t1(alike ? n * n : n, size, sum, KVREF_U_F32);
            double share = fabs((double)y[t * w->n_row + o] - sum) / limit;
            if (!(share <= worst)) worst = share;
        }
    return worst;
}

START_TEST(linear_stays_within_its_derived_limit)
{
    enum { T = REF_BLAS_ROWS }; /* so that the blas variant is OpenBLAS */
    ref_tools tools;
    world_tools(&tools, ref_simd_best(), 2, 9728, 0);
    for (int d = 0; d < 3; d++)
        for (int variant = 0; variant < 2; variant++)
            for (int n_col = 64; n_col <= 9728; n_col = n_col == 64 ? 2560 : n_col + 7168) {
                kvref_weight w = {
                    noisy(dtypes[d], (size_t)(40 * n_col), 0, 9), dtypes[d], 40, n_col};
                float *x = world_floats((size_t)(T * n_col), 1, 4),
                      *bias = world_floats(40, 1, 8), y[T * 40];
                kvref_weight b = {bias, KVREF_F32, 1, 40};
                tools.linear = variant ? KVREF_LINEAR_BLAS : KVREF_LINEAR_EXACT;
                ref_linear(&tools, &(ref_matrix){y, &w, &b}, 1, x, T);
                double share = worst_share(y, &w, bias, x, T, false);
                printf("%s %s n %d: %.4f of the limit\n",
                       kvref_dtype_name(dtypes[d]),
                       variant ? "blas" : "exact",
                       n_col,
                       share);
                ck_assert(share <= 1);
                for (int i = 0; i < T * n_col; i++) x[i] = 0.1f;
                ref_linear(&tools, &(ref_matrix){y, &w, &b}, 1, x, T);
                ck_assert(worst_share(y, &w, bias, x, T, true) <= 1);
                free((void *)w.data);
                free(x);
                free(bias);
            }
    world_tools_close(&tools);
}
END_TEST

/* Three matrices at once, in whole and row by row, on 1, 2, 3 and 8 threads. */
START_TEST(bits_depend_on_neither_rows_nor_threads)
{
    enum { COL = 600, ROW = 37, T = 13 };
    for (int d = 0; d < 3; d++) {
        char *data = noisy(dtypes[d], ROW * COL, 1, 21);
        kvref_weight w = {data + 1, dtypes[d], ROW, COL}, small = ref_rows(&w, 4, 3);
        float *x = world_floats(T * COL, 1, 4);
        float one[T * ROW], three[3][T * ROW + 8];
        ref_tools tools;
        world_tools(&tools, ref_simd_best(), 1, COL, 0);
        for (int t = 0; t < T; t++)
            ref_linear(&tools, &(ref_matrix){one + t * ROW, &w, NULL}, 1, x + t * COL, 1);
        world_tools_close(&tools);
        static const int threads[] = {1, 2, 3, 8};
        for (int i = 0; i < 4; i++) {
            world_tools(&tools, ref_simd_best(), threads[i], COL, 0);
            for (int k = 0; k < T * ROW + 8; k++) three[0][k] = three[1][k] = three[2][k] = NAN;
            ref_matrix m[] = {
                {three[0], &w, NULL}, {three[1], &small, NULL}, {three[2], &w, NULL}};
            ref_linear(&tools, m, 3, x, T);
            ck_assert_uint_eq(world_differ(one, three[0], T * ROW), 0);
            ck_assert_uint_eq(world_differ(one, three[2], T * ROW), 0);
            for (int t = 0; t < T; t++)
                ck_assert_uint_eq(world_differ(one + t * ROW + 4, three[1] + t * 3, 3), 0);
            for (int k = 0; k < 8; k++)
                ck_assert(isnan(three[0][T * ROW + k]) && isnan(three[1][T * 3 + k]));
            world_tools_close(&tools);
        }
        free(data);
        free(x);
    }
}
END_TEST

/* Below REF_BLAS_ROWS rows the blas variant gives the bits of the definition; from there on it
 * does not, or it would not be OpenBLAS that multiplies. */
START_TEST(few_rows_are_exact_in_the_blas_variant_too)
{
    enum { OUT = 50, IN = 300, T = REF_BLAS_ROWS };
    float *x = world_floats(T * IN, 1, 4), *bias = world_floats(OUT, 1, 6);
    float y[T * OUT], want[T * OUT];
    ref_tools tools;
    world_tools(&tools, ref_simd_best(), 2, IN, 0);
    tools.linear = KVREF_LINEAR_BLAS;
    for (int d = 0; d < 3; d++) {
        kvref_weight w = {noisy(dtypes[d], OUT * IN, 0, 2), dtypes[d], OUT, IN};
        kvref_weight b = {bias, KVREF_F32, 1, OUT};
        for (int n_row = 1; n_row <= T; n_row++) {
            size_t n = (size_t)(n_row * OUT);
            ref_linear_naive(want, &w, &b, x, n_row);
            ref_linear(&tools, &(ref_matrix){y, &w, &b}, 1, x, n_row);
            ck_assert((world_differ(want, y, n) == 0) == (n_row < T));
        }
        free((void *)w.data);
    }
    world_tools_close(&tools);
    free(x);
    free(bias);
}
END_TEST

/* OpenBLAS's number of threads is one for the process: others find it as they left it. */
START_TEST(blas_threads_are_as_before_after_a_call)
{
    enum { IN = 64, T = 2 * REF_BLAS_ROWS };
    kvref_weight w = {noisy(KVREF_BF16, 40 * IN, 0, 2), KVREF_BF16, 40, IN};
    float *x = world_floats(T * IN, 1, 4), y[T * 40];
    ref_tools tools;
    world_tools(&tools, ref_simd_best(), 2, IN, 0);
    tools.linear = KVREF_LINEAR_BLAS;
    openblas_set_num_threads(2);
    int before = openblas_get_num_threads();
    ref_linear(&tools, &(ref_matrix){y, &w, NULL}, 1, x, T);
    ck_assert_int_eq(openblas_get_num_threads(), before);
    ck_assert(worst_share(y, &w, NULL, x, T, false) <= 1);
    world_tools_close(&tools);
    free((void *)w.data);
    free(x);
}
END_TEST

/* More rows than one panel of OpenBLAS holds, and a number that no panel divides. */
START_TEST(blas_covers_every_row_of_a_large_matrix)
{
    kvref_weight w = {noisy(KVREF_BF16, 1203 * 40, 0, 2), KVREF_BF16, 1203, 40};
    enum { T = REF_BLAS_ROWS + 1 };
    float *x = world_floats(T * 40, 1, 4), *y = world_floats(T * 1203, 1e30f, 1);
    ref_tools tools;
    world_tools(&tools, ref_simd_best(), 2, 40, 0);
    tools.linear = KVREF_LINEAR_BLAS;
    ref_linear(&tools, &(ref_matrix){y, &w, NULL}, 1, x, T);
    ck_assert(worst_share(y, &w, NULL, x, T, false) <= 1);
    world_tools_close(&tools);
    free((void *)w.data);
    free(x);
    free(y);
}
END_TEST

START_TEST(blas_core_is_named_and_computes_rightly)
{
    kvref_error err;
    const char *found = NULL, *wanted = NULL;
    bool good = kvref_blas_core(&found, &wanted);
    ck_assert(found && *found && wanted && *wanted);
    ck_assert(good == (strcmp(found, wanted) == 0));
    printf("OpenBLAS core %s, wanted %s\n", found, wanted);
    must(kvref_blas_selftest(&err), err);
}
END_TEST

START_TEST(nan_and_infinity_pass_through)
{
    float x[20] = {1, INFINITY, 0, 2}, y[4];
    float rows[4][20] = {{1, 1}, {1, 0}, {NAN}, {2, 0, INFINITY}};
    kvref_weight w = {rows, KVREF_F32, 4, 20};
    ref_tools tools;
    world_tools(&tools, ref_simd_best(), 1, 20, 0);
    ref_linear(&tools, &(ref_matrix){y, &w, NULL}, 1, x, 1);
    ck_assert(isinf(y[0]) && isnan(y[1]) && isnan(y[2]) && isnan(y[3]));
    world_tools_close(&tools);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("linear");
    TCase *tc = tcase_create("linear");
    tcase_add_test(tc, every_instruction_set_follows_the_written_order);
    tcase_add_test(tc, alignment_changes_no_bit);
    tcase_add_test(tc, widening_is_exact_for_every_pattern);
    tcase_add_test(tc, mixing_rows_goes_in_ascending_order);
    tcase_add_test(tc, nothing_is_read_beyond_the_last_element);
    tcase_add_test(tc, linear_stays_within_its_derived_limit);
    tcase_add_test(tc, bits_depend_on_neither_rows_nor_threads);
    tcase_add_test(tc, few_rows_are_exact_in_the_blas_variant_too);
    tcase_add_test(tc, blas_threads_are_as_before_after_a_call);
    tcase_add_test(tc, blas_covers_every_row_of_a_large_matrix);
    tcase_add_test(tc, blas_core_is_named_and_computes_rightly);
    tcase_add_test(tc, nan_and_infinity_pass_through);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
