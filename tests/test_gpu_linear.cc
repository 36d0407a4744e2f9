/* SPDX-License-Identifier: MIT */
/* gpu/linear.cu and the fold of gpu/dot.h on the CPU execution layer, against the order of
 * summation as gpu/gpu.h states it and against float64. */
#include "gpu/dot.h"
#include "tests/gpu_host.h"

#include <algorithm>

static const cudaStream_t line = nullptr;

/* One product of a launch, on the host. */
struct product {
    int n_row, n_col, n_out; /* of w; outputs */
    halves w, bias;          /* [n_row, pad(n_col)]; [n_row] or empty */
    std::vector<int32_t> index;
};

static product make(int c, int n_row, int n_col, bool bias, bool index, uint32_t seed)
{
    product p = {n_row, n_col, n_row, rows_of(c, n_row, n_col, seed), {}, {}};
    if (bias) p.bias = rows_of(NOISE, 1, n_row, seed + 1);
    if (index) {
        for (int i = n_row - 1; i >= 0; i -= 2) p.index.push_back(i * 7 % n_row);
        p.n_out = static_cast<int>(p.index.size());
    }
    return p;
}

static int weight_row(const product &p, int o)
{
    return p.index.empty() ? o : p.index[static_cast<size_t>(o)];
}

/* y [T, stride], poison in places without an output. */
static halves expected(const product &p, const halves &x, int n_row, int stride)
{
    halves y(static_cast<size_t>(n_row * stride), poison);
    int n_place = gpu_pad(p.n_col);
    for (int t = 0; t < n_row; t++)
        for (int o = 0; o < p.n_out; o++) {
            int r = weight_row(p, o);
            float sum = dot_in_order(&p.w[static_cast<size_t>(r * n_place)],
                                     &x[static_cast<size_t>(t * n_place)],
                                     p.n_col);
            if (!p.bias.empty()) sum += gpu_f32(p.bias[static_cast<size_t>(r)]);
            y[static_cast<size_t>(t * stride + o)] = gpu_f16(sum);
        }
    return y;
}

/* y of each product, from one launch. */
static std::vector<halves>
run(const std::vector<product> &all, const halves &x, int n_row, int extra)
{
    std::vector<on_device<gpu_half> *> held;
    std::vector<on_device<int32_t> *> indices;
    auto give = [&](const halves &h) {
        held.push_back(new on_device<gpu_half>(h));
        return held.back()->at();
    };
    gpu_product p[3] = {};
    for (size_t i = 0; i < all.size(); i++) {
        int stride = gpu_pad(all[i].n_out) + extra;
        p[i].w = {give(all[i].w), nullptr, all[i].n_row, all[i].n_col};
        if (!all[i].bias.empty()) p[i].w.bias = give(all[i].bias);
        if (!all[i].index.empty()) {
            indices.push_back(new on_device<int32_t>(all[i].index));
            p[i].index = indices.back()->at();
        }
        p[i].n_out = all[i].n_out;
        p[i].stride_y = stride;
        p[i].y = give(halves(static_cast<size_t>(n_row * stride), poison));
    }
    const gpu_half *from = give(x);
    gpu_linear(line, p, static_cast<int>(all.size()), from, gpu_pad(all[0].n_col), n_row);
    ck_assert(cudaStreamSynchronize(line) == cudaSuccess);
    std::vector<halves> y;
    for (auto *h : held)
        for (size_t i = 0; i < all.size(); i++)
            if (p[i].y == h->at()) y.push_back(h->values());
    for (auto *h : held) delete h;
    for (auto *h : indices) delete h;
    return y;
}

static void check(const std::vector<product> &all, int c, int n_row)
{
    halves x = rows_of(partner(c), n_row, all[0].n_col, 77);
    std::vector<halves> got = run(all, x, n_row, 8);
    for (size_t i = 0; i < all.size(); i++) {
        char what[120];
        snprintf(what,
                 sizeof what,
                 "%s, T %d, product %zu of %d x %d",
                 class_name(c),
                 n_row,
                 i,
                 all[i].n_out,
                 all[i].n_col);
        same_bits(got[i], expected(all[i], x, n_row, gpu_pad(all[i].n_out) + 8), what);
    }
}

/* Rows of w, columns: whole and broken groups, one to five groups a lane, several blocks. */
static const int shape[][2] = {
    {5, 6}, {7, 50}, {3, 128}, {2, 257}, {13, 640}, {17, 1290}, {35, 9}};

START_TEST(every_shape_and_row_count_is_summed_in_the_written_order)
{
    for (auto &s : shape)
        for (int n_row = 1; n_row <= 9; n_row++) {
            check({make(NOISE, s[0], s[1], n_row % 2, false, 5)}, NOISE, n_row);
            check({make(CANCELS, s[0], s[1], false, false, 5)}, CANCELS, n_row);
        }
}
END_TEST

START_TEST(every_kind_of_input_is_summed_in_the_written_order)
{
    for (int c = 0; c < N_CLASS; c++)
        for (int n_row : {1, 2, 3, 7}) {
            check({make(c, 6, 101, c < SUBNORMAL, false, 11)}, c, n_row);
            check({make(NOISE, 6, 33, false, false, 12)}, c, n_row);
        }
}
END_TEST

START_TEST(products_of_one_launch_stay_apart)
{
    for (int n_row : {1, 2, 3, 9}) {
        check({make(NOISE, 9, 50, true, false, 1), make(LARGE, 3, 50, false, false, 2)},
              NOISE,
              n_row);
        check({make(NOISE, 19, 50, false, false, 1),
               make(NOISE, 5, 50, true, true, 2),
               make(NOISE, 33, 50, true, false, 3)},
              NOISE,
              n_row);
    }
}
END_TEST

START_TEST(an_index_picks_rows_and_their_bias)
{
    for (int n_row : {1, 2, 5}) check({make(NOISE, 41, 70, true, true, 9)}, NOISE, n_row);
}
END_TEST

/* Three rows at the end of a matrix whose other rows nobody reads. */
START_TEST(rows_beyond_two_to_the_31_elements_are_found)
{
    const int n_col = 2560, begin = 1 << 20; /* 2.7e9 elements before */
    product p = make(NOISE, 3, n_col, false, false, 1);
    halves x = rows_of(NOISE, 1, n_col, 2), want = expected(p, x, 1, 8);
    on_device<gpu_half> w(p.w), from(x), y(halves(8, poison));
    on_device<int32_t> index({begin, begin + 1, begin + 2});
    const gpu_half *data = reinterpret_cast<const gpu_half *>(
        reinterpret_cast<uintptr_t>(w.at()) - uintptr_t(begin) * n_col * sizeof(gpu_half));
    gpu_product q = {y.at(), 8, {data, nullptr, begin + 3, n_col}, index.at(), 3};
    gpu_linear(line, &q, 1, from.at(), n_col, 1);
    ck_assert(cudaStreamSynchronize(line) == cudaSuccess);
    same_bits(y.values(), want, "last rows");
}
END_TEST

START_TEST(a_row_has_the_same_bits_alone_and_among_others)
{
    product p = make(NOISE, 11, 300, true, false, 3);
    halves x = rows_of(NOISE, 64, 300, 4);
    halves all = run({p}, x, 64, 0)[0];
    for (int n_row : {1, 2, 3, 4, 5, 8, 33}) {
        halves some(x.begin(), x.begin() + n_row * gpu_pad(300));
        halves y = run({p}, some, n_row, 0)[0];
        same_bits(y, halves(all.begin(), all.begin() + n_row * gpu_pad(11)), "first rows");
    }
}
END_TEST

START_TEST(any_order_of_threads_and_blocks_gives_the_same_bits)
{
    std::vector<product> p = {make(NOISE, 19, 70, true, false, 1),
                              make(NOISE, 9, 70, false, true, 2)};
    for (int n_row : {1, 5}) {
        halves x = rows_of(NOISE, n_row, 70, 8);
        std::vector<halves> first = run(p, x, n_row, 0);
        for (int seed = -1; seed < 20; seed++) {
            cudacpu_set_order(seed < 0 ? CUDACPU_DESCENDING : CUDACPU_SEEDED,
                              static_cast<uint64_t>(seed));
            std::vector<halves> y = run(p, x, n_row, 0);
            for (size_t i = 0; i < p.size(); i++) same_bits(y[i], first[i], "order");
        }
        cudacpu_reset();
    }
}
END_TEST

/* Limit T1 on the inputs as they are, float16. */
static void against_f64(int c, int n_out, int n_col, int n_row)
{
    product p = make(c, n_out, n_col, c < SUBNORMAL, false, 21);
    if (p.bias.empty()) p.bias = halves(static_cast<size_t>(n_out), 0);
    halves x = rows_of(partner(c), n_row, n_col, 22), y = run({p}, x, n_row, 0)[0];
    share s;
    for (int t = 0; t < n_row; t++)
        for (int o = 0; o < n_out; o++) {
            double want = static_cast<double>(gpu_f32(p.bias[static_cast<size_t>(o)]));
            double sum_abs = std::fabs(want);
            for (int i = 0; i < n_col; i++) {
                size_t a = static_cast<size_t>(o * gpu_pad(n_col) + i);
                size_t b = static_cast<size_t>(t * gpu_pad(n_col) + i);
                double term =
                    static_cast<double>(gpu_f32(p.w[a])) * static_cast<double>(gpu_f32(x[b]));
                want += term;
                sum_abs += std::fabs(term);
            }
            double limit = limit_t1(n_col, c == OVERFLOWS, sum_abs, want);
            if (std::fabs(want) >= 65520) want = want < 0 ? -HUGE_VAL : HUGE_VAL;
            double got =
                static_cast<double>(gpu_f32(y[static_cast<size_t>(t * gpu_pad(n_out) + o)]));
            s.add(got, want, limit);
        }
    printf("linear %d x %d, %d rows, %s: %.2f of T1\n",
           n_out,
           n_col,
           n_row,
           class_name(c),
           s.used);
    ck_assert(s.used <= 1);
}

START_TEST(results_are_within_t1_of_float64)
{
    for (int c = 0; c < SPECIAL; c++)
        for (int n_row : {1, 3}) against_f64(c, 7, 1290, n_row);
    against_f64(NOISE, 37, 2560, 1); /* rows of the largest layers */
    against_f64(NOISE, 5, 9728, 2);
}
END_TEST

/* y[r] = a[r] . b[r] with n_lane lanes to a row, rows of one group a lane at most. */
static void dot_kernel(float *y, const gpu_half *a, const gpu_half *b, int n, int n_lane)
{
    int lane = static_cast<int>(threadIdx.x) % n_lane,
        r = static_cast<int>(threadIdx.x) / n_lane;
    size_t at = static_cast<size_t>(r * gpu_pad(n) + lane * GPU_GROUP);
    float sum = 0;
    if (lane * GPU_GROUP < n) sum = gpu_dot(sum, gpu_load(a + at), gpu_load(b + at));
    y[threadIdx.x] = gpu_fold(sum, n_lane);
}

START_TEST(short_rows_may_be_summed_by_fewer_lanes)
{
    for (int n = 1; n <= 256; n += n < 140 ? 1 : 29) {
        int n_lane = gpu_lanes(n), n_row = 32 / n_lane;
        halves a = rows_of(CANCELS, n_row, n, 1), b = rows_of(MIRRORED, n_row, n, 2);
        on_device<gpu_half> left(a), right(b);
        on_device<float> y(std::vector<float>(32, 0.0f));
        GPU_LAUNCH(dot_kernel, 1, 32, 0, line, y.at(), left.at(), right.at(), n, n_lane);
        ck_assert(cudaStreamSynchronize(line) == cudaSuccess);
        std::vector<float> got = y.values();
        for (int l = 0; l < 32; l++) {
            size_t row = static_cast<size_t>(l / n_lane * gpu_pad(n));
            float want = dot_in_order(&a[row], &b[row], n);
            ck_assert(kvref_f32_bits(got[static_cast<size_t>(l)]) == kvref_f32_bits(want));
        }
    }
}
END_TEST

/* What a launch asks of device memory: each weight once, x once for each pair of rows of w. */
START_TEST(one_row_reads_each_weight_once)
{
    if (!cudacpu_is_race_build()) return;
    for (int n_out : {8, 9, 38}) {
        product p = make(NOISE, n_out, 2560, false, false, 3);
        halves x = rows_of(NOISE, 1, 2560, 4);
        cudacpu_reset_counts();
        run({p}, x, 1, 0);
        cudacpu_counts c = cudacpu_get_counts();
        uint64_t n_pair = static_cast<uint64_t>(n_out + 1) / 2, row = 2 * 2560;
        uint64_t stand_in = n_out % 2 ? row : 0; /* x for the absent row of the last pair */
        ck_assert_uint_eq(c.read_byte,
                          static_cast<uint64_t>(n_out) * row + n_pair * row + stand_in);
        ck_assert_uint_eq(c.write_byte, static_cast<uint64_t>(n_out) * 2);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_linear");
    TCase *tc = tcase_create("gpu_linear");
    tcase_add_test(tc, every_shape_and_row_count_is_summed_in_the_written_order);
    tcase_add_test(tc, every_kind_of_input_is_summed_in_the_written_order);
    tcase_add_test(tc, products_of_one_launch_stay_apart);
    tcase_add_test(tc, an_index_picks_rows_and_their_bias);
    tcase_add_test(tc, rows_beyond_two_to_the_31_elements_are_found);
    tcase_add_test(tc, a_row_has_the_same_bits_alone_and_among_others);
    tcase_add_test(tc, any_order_of_threads_and_blocks_gives_the_same_bits);
    tcase_add_test(tc, results_are_within_t1_of_float64);
    tcase_add_test(tc, short_rows_may_be_summed_by_fewer_lanes);
    tcase_add_test(tc, one_row_reads_each_weight_once);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
