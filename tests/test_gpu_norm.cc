/* SPDX-License-Identifier: MIT */
/* gpu/rmsnorm.cu on the CPU execution layer, against its formula in gpu/gpu.h bit for bit, and
 * against float64. */
#include "tests/gpu_host.h"

/* n_row rows of width values, begun as gpu_norm says, in [n_place] places with poison between.
 */
struct rows {
    int n_row, n_group, width, stride;
    size_t n_place;
    halves x;
};

static size_t row_begin(const rows &a, int r)
{
    return static_cast<size_t>(r / a.n_group * a.stride + r % a.n_group * a.width);
}

static rows make_rows(int c, int n_row, int n_group, int width, int stride)
{
    if (c != NOISE && width > 2000) n_row = 2;
    rows a = {n_row, n_group, width, stride, 0, {}};
    a.n_place = static_cast<size_t>((n_row + n_group - 1) / n_group * stride);
    a.x.assign(a.n_place, poison);
    halves from = rows_of(c, n_row, width, 31);
    for (int r = 0; r < n_row; r++)
        for (int i = 0; i < width; i++)
            a.x[row_begin(a, r) + static_cast<size_t>(i)] =
                from[static_cast<size_t>(r * gpu_pad(width) + i)];
    return a;
}

static halves run_norm(const rows &a, const halves &w, float eps, bool twice, bool in_place)
{
    on_device<gpu_half> x(a.x), weight(w), y(halves(a.n_place, poison));
    gpu_norm n = {in_place ? x.at() : y.at(),
                  x.at(),
                  weight.at(),
                  a.n_row,
                  a.n_group,
                  a.width,
                  a.stride,
                  eps,
                  twice};
    gpu_rmsnorm(nullptr, &n);
    ck_assert(cudaStreamSynchronize(nullptr) == cudaSuccess);
    return in_place ? x.values() : y.values();
}

static halves norm_expected(const rows &a, const halves &w, float eps, bool twice)
{
    halves y(a.n_place, poison);
    for (int r = 0; r < a.n_row; r++) {
        size_t at = row_begin(a, r);
        float sum = dot_in_order(&a.x[at], &a.x[at], a.width);
        float s = 1.0f / sqrtf(sum / static_cast<float>(a.width) + eps);
        for (size_t i = 0; i < static_cast<size_t>(a.width); i++) {
            float v = gpu_f32(a.x[at + i]) * s;
            y[at + i] = gpu_f16((twice ? round16(v) : v) * gpu_f32(w[i]));
        }
    }
    return y;
}

/* Rows, group, width, stride: whole rows of several widths; heads of odd and even widths. */
static const int norm_shape[][4] = {
    {1, 1, 6, 8},
    {3, 1, 50, 56},
    {5, 1, 256, 256},
    {24, 1, 2560, 2560}, /* so many that an order of summation shows */
    {3, 1, 1283, 1288},
    {15, 5, 6, 32},
    {14, 7, 50, 360},
    {6, 3, 128, 400},
    {10, 5, 3, 16}};

START_TEST(norms_are_their_formula_in_the_written_order)
{
    for (auto &s : norm_shape)
        for (int c = 0; c < N_CLASS; c++)
            for (int k = 0; k < 4; k++) {
                bool twice = k & 1, in_place = k & 2;
                float eps = c == ZEROS || k == 1 ? 1e-6f : 1e-5f;
                rows a = make_rows(c, s[0], s[1], s[2], s[3]);
                halves w = rows_of(NOISE, 1, s[2], 5);
                same_bits(run_norm(a, w, eps, twice, in_place),
                          norm_expected(a, w, eps, twice),
                          class_name(c));
            }
}
END_TEST

START_TEST(norms_are_within_t1_of_float64)
{
    share used[2];
    for (auto &s : norm_shape)
        for (int c = 0; c < SPECIAL; c++) {
            rows a = make_rows(c, s[0], s[1], s[2], s[3]);
            halves w = rows_of(NOISE, 1, s[2], 5);
            for (int twice = 0; twice < 2; twice++) {
                halves y = run_norm(a, w, 1e-6f, twice, false);
                for (int r = 0; r < a.n_row; r++) {
                    const gpu_half *x = &a.x[row_begin(a, r)];
                    double sum = 0, n = a.width;
                    for (int i = 0; i < a.width; i++) sum += std::pow(double(gpu_f32(x[i])), 2);
                    double scale = 1 / std::sqrt(sum / n + double(1e-6f));
                    for (int i = 0; i < a.width; i++) {
                        double g = double(gpu_f32(w[size_t(i)]));
                        double want = double(gpu_f32(x[i])) * scale * g;
                        /* the sum counts by half, its square root; four more roundings */
                        double limit = std::fabs(want) * (n / 2 + 4) * 0x1p-24 +
                                       (0x1p-11 * std::fabs(want) + 0x1p-25) * (1 + twice);
                        used[twice].add(
                            double(gpu_f32(y[row_begin(a, r) + size_t(i)])), want, limit);
                    }
                }
            }
        }
    printf("norm: %.2f of T1, rounded twice %.2f\n", used[0].used, used[1].used);
    ck_assert(used[0].used <= 1 && used[1].used <= 1);
}
END_TEST

START_TEST(any_order_of_threads_and_blocks_gives_the_same_bits)
{
    for (auto &s : norm_shape) {
        rows a = make_rows(NOISE, s[0], s[1], s[2], s[3]);
        halves w = rows_of(NOISE, 1, s[2], 5), first = run_norm(a, w, 1e-6f, true, true);
        for (int seed = -1; seed < (s[2] > 256 ? 2 : 20); seed++) {
            cudacpu_set_order(seed < 0 ? CUDACPU_DESCENDING : CUDACPU_SEEDED,
                              static_cast<uint64_t>(seed));
            same_bits(run_norm(a, w, 1e-6f, true, true), first, "order");
        }
        cudacpu_reset();
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_norm");
    TCase *tc = tcase_create("gpu_norm");
    tcase_add_test(tc, norms_are_their_formula_in_the_written_order);
    tcase_add_test(tc, norms_are_within_t1_of_float64);
    tcase_add_test(tc, any_order_of_threads_and_blocks_gives_the_same_bits);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
