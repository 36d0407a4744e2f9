/* SPDX-License-Identifier: MIT */
/* Embedding, rotation, append, sums and gate on the CPU execution layer, against their formulas
 * in gpu/gpu.h bit for bit, and against float64 where they calculate. */
#include "tests/gpu_host.h"

static const cudaStream_t line = nullptr;

static void wait()
{
    ck_assert(cudaStreamSynchronize(line) == cudaSuccess);
}

/* ---- sums and gate ---- */

START_TEST(sums_and_gates_are_their_formulas)
{
    share sum, gate;
    for (int n : {1, 7, 8, 50, 1031, 4096})
        for (int c = 0; c < N_CLASS; c++) {
            halves x = rows_of(c, 1, n, 3), y = rows_of(c == DOMINANT ? NOISE : c, 1, n, 4);
            x.resize(size_t(n)), y.resize(size_t(n));
            on_device<gpu_half> a(x), b(x), other(y);
            gpu_add(line, a.at(), other.at(), size_t(n));
            gpu_swiglu(line, b.at(), other.at(), size_t(n));
            wait();
            halves added = a.values(), gated = b.values(), want_added = x, want_gated = x;
            for (size_t i = 0; i < size_t(n); i++) {
                float u = gpu_f32(x[i]), v = gpu_f32(y[i]);
                want_added[i] = gpu_f16(u + v);
                want_gated[i] = gpu_f16(round16(kvref_siluf(u)) * v);
                if (c == SPECIAL || c == OVERFLOWS) continue;
                double f = double(u) / (1 + std::exp(-double(u))), g = f * double(v);
                gate.add(double(gpu_f32(gated[i])),
                         g,
                         0x1.01p-10 * std::fabs(g) + 0x1p-25 * (1 + std::fabs(double(v))));
                sum.add(double(gpu_f32(added[i])),
                        double(u) + double(v),
                        limit_t1(1, true, 0, double(u) + double(v)));
            }
            same_bits(added, want_added, class_name(c));
            same_bits(gated, want_gated, class_name(c));
            same_bits(other.values(), y, "other operand");
        }
    printf("sum %.2f of T1, gate %.2f of T1\n", sum.used, gate.used);
    ck_assert(sum.used <= 1 && gate.used <= 1);
}
END_TEST

START_TEST(a_sum_beyond_the_largest_is_infinite)
{
    halves x = {0x7bff, 0x7bff, 0xfbff, 0x7c00}, y = {0x4c00, 0x4bff, 0xcc00, 0xfc00};
    on_device<gpu_half> a(x), b(y);
    gpu_add(line, a.at(), b.at(), 4);
    wait();
    same_bits(a.values(), {0x7c00, 0x7bff, 0xfc00, 0x7e00}, "largest");
}
END_TEST

/* ---- embedding ---- */

START_TEST(frames_are_embedded_as_the_formula_says)
{
    const int n_book = 5, n_code = 7, n_token = 30, first = 11, last = 17, n_row = 6;
    const int tokens[n_row] = {first - 1, first, 14, last, last + 1, n_token - 1};
    for (int width : {6, 50, 128, 1283})
        for (int c = 0; c < N_CLASS; c++)
            for (bool scale : {false, true}) {
                halves token = rows_of(c, n_token, width, 1);
                halves code = rows_of(c, n_book * n_code, width, 2);
                size_t n_place = size_t(gpu_pad(width));
                std::vector<int32_t> frames;
                halves want(n_row * n_place, 0);
                for (int t = 0; t < n_row; t++) {
                    frames.push_back(tokens[t]);
                    for (int b = 0; b < n_book; b++) frames.push_back((3 * t + b) % n_code);
                    for (size_t i = 0; i < size_t(width); i++) {
                        gpu_half x = token[size_t(tokens[t]) * n_place + i];
                        float sum = 0;
                        for (int b = 0; b < n_book; b++)
                            sum += gpu_f32(
                                code[size_t(b * n_code + (3 * t + b) % n_code) * n_place + i]);
                        if (tokens[t] >= first && tokens[t] <= last) {
                            x = gpu_f16(gpu_f32(x) + round16(sum));
                            if (scale) x = gpu_f16(gpu_f32(x) / sqrtf(n_book + 1));
                        }
                        want[size_t(t) * n_place + i] = x;
                    }
                }
                on_device<gpu_half> a(token), b(code), x(halves(want.size(), poison));
                on_device<int32_t> f(frames);
                gpu_embedding e = {a.at(), b.at(), width, n_book, n_code, first, last, scale};
                gpu_embed(line, x.at(), f.at(), n_row, &e);
                wait();
                same_bits(x.values(), want, class_name(c));
            }
}
END_TEST

START_TEST(a_code_looks_up_its_row)
{
    for (int width : {6, 50, 1283}) {
        halves table = rows_of(NOISE, 9, width, 1);
        on_device<gpu_half> t(table), x(halves(size_t(gpu_pad(width)), poison));
        on_device<int32_t> code({3, 8, 0});
        gpu_lookup(line, x.at(), t.at(), code.at(1), width);
        wait();
        same_bits(x.values(), halves(table.end() - gpu_pad(width), table.end()), "row 8");
    }
}
END_TEST

/* ---- rotation and append ---- */

/* Angles of a table [n_position, d/2], float16 values or all 24 bits. */
static void make_table(
    std::vector<float> *cosine, std::vector<float> *sine, int n_position, int d, bool wide)
{
    for (int p = 0; p < n_position; p++)
        for (int j = 0; j < d / 2; j++) {
            float c, s;
            kvref_sincosf(
                &s, &c, static_cast<float>(p) * powf(100.0f, -2.0f * float(j) / float(d)));
            cosine->push_back(wide ? c : round16(c));
            sine->push_back(wide ? s : round16(s));
        }
}

START_TEST(heads_are_turned_by_the_angle_of_their_position)
{
    const int shape[][3] = {{3, 6, 1}, {5, 50, 2}, {1, 128, 9}, {7, 2, 4}}; /* heads, E, rows */
    share used;
    for (auto &s : shape)
        for (int c = 0; c < N_CLASS; c++)
            for (bool wide : {false, true}) {
                int n_head = s[0], d = s[1], n_row = s[2], begin = 4, n_value = n_head * d;
                int stride = gpu_pad(n_value) + 8;
                std::vector<float> cosine, sine;
                make_table(&cosine, &sine, begin + n_row, d, wide);
                halves x(size_t(n_row * stride), poison), from = rows_of(c, n_row, n_value, 3);
                for (int t = 0; t < n_row; t++)
                    memcpy(&x[size_t(t * stride)],
                           &from[size_t(t * gpu_pad(n_value))],
                           size_t(n_value) * 2);
                halves want = x;
                on_device<gpu_half> a(x);
                on_device<float> table_c(cosine), table_s(sine);
                on_device<int32_t> first({begin});
                gpu_rope(line,
                         a.at(),
                         stride,
                         n_row,
                         n_head,
                         d,
                         table_c.at(),
                         table_s.at(),
                         first.at());
                wait();
                halves got = a.values();
                for (int t = 0; t < n_row; t++)
                    for (int i = 0; i < n_value; i += 2) {
                        size_t at = size_t(t * stride + i),
                               j = size_t((begin + t) * (d / 2) + i % d / 2);
                        float u = gpu_f32(x[at]), v = gpu_f32(x[at + 1]), cs = cosine[j],
                              sn = sine[j];
                        want[at] = gpu_f16(u * cs - v * sn);
                        want[at + 1] = gpu_f16(v * cs + u * sn);
                        double y = double(u) * double(cs) - double(v) * double(sn);
                        double sum_abs = std::fabs(double(u) * double(cs)) +
                                         std::fabs(double(v) * double(sn));
                        if (c != SPECIAL)
                            used.add(
                                double(gpu_f32(got[at])), y, limit_t1(2, false, sum_abs, y));
                    }
                same_bits(got, want, class_name(c));
            }
    printf("rotation %.2f of T1\n", used.used);
    ck_assert(used.used <= 1);
}
END_TEST

START_TEST(append_fills_its_positions_and_nothing_else)
{
    const int shape[][2] = {{3, 6}, {4, 6}, {5, 50}, {2, 128}, {1, 13}}; /* heads, E */
    for (auto &s : shape)
        for (int n_row : {1, 3}) {
            int n_head = s[0], d = s[1], n_layer = 3, capacity = 11, begin = 5, layer = 1;
            int n_place = gpu_pad(d), stride = gpu_pad(n_head * d);
            size_t size = size_t(n_layer * n_head * capacity * n_place);
            halves k = rows_of(NOISE, n_row, n_head * d, 1),
                   v = rows_of(LARGE, n_row, n_head * d, 2);
            halves want[2] = {halves(size, poison), halves(size, poison)};
            on_device<gpu_half> from_k(k), from_v(v), to_k(want[0]), to_v(want[1]);
            on_device<int32_t> first({begin});
            gpu_kv kv = {to_k.at(), to_v.at(), n_layer, n_head, d, capacity};
            gpu_kv_append(line, &kv, layer, from_k.at(), from_v.at(), n_row, first.at());
            wait();
            for (int g = 0; g < n_head; g++)
                for (int t = 0; t < n_row; t++)
                    for (int i = 0; i < n_place; i++) {
                        size_t to =
                            size_t(((layer * n_head + g) * capacity + begin + t) * n_place + i);
                        size_t from = size_t(t * stride + g * d + i);
                        want[0][to] = i < d ? k[from] : gpu_half(0);
                        want[1][to] = i < d ? v[from] : gpu_half(0);
                    }
            same_bits(to_k.values(), want[0], "k");
            same_bits(to_v.values(), want[1], "v");
        }
}
END_TEST

/* One row of the last layer of caches whose other rows nobody touches. */
START_TEST(layers_beyond_two_to_the_31_elements_are_found)
{
    const int d = 128, capacity = 32768, layer = 600, begin = 3; /* 2.5e9 elements before */
    halves k = rows_of(NOISE, 1, d, 1), want(size_t(begin * d), poison);
    want.insert(want.end(), k.begin(), k.end());
    on_device<gpu_half> from(k), to_k(halves(want.size(), poison)), to_v(to_k.values());
    on_device<int32_t> first({begin});
    uintptr_t skip = uintptr_t(layer) * capacity * d * sizeof(gpu_half);
    auto back = [skip](gpu_half *p) {
        return reinterpret_cast<gpu_half *>(reinterpret_cast<uintptr_t>(p) - skip);
    };
    gpu_kv kv = {back(to_k.at()), back(to_v.at()), layer + 1, 1, d, capacity};
    gpu_kv_append(line, &kv, layer, from.at(), from.at(), 1, first.at());
    wait();
    same_bits(to_k.values(), want, "k");
    same_bits(to_v.values(), want, "v");
}
END_TEST

/* ---- order ---- */

/* One of everything on odd shapes; all that was written, one after the other. */
static halves one_of_everything()
{
    halves all;
    auto keep = [&](const halves &h) { all.insert(all.end(), h.begin(), h.end()); };
    const int n_row = 3, n_value = 5 * 50, stride = gpu_pad(n_value);
    on_device<gpu_half> x(rows_of(NOISE, n_row, n_value, 3)),
        y(rows_of(NOISE, n_row, n_value, 4));
    std::vector<float> cosine, sine;
    make_table(&cosine, &sine, 9, 50, true);
    on_device<float> table_c(cosine), table_s(sine);
    on_device<int32_t> first({6}), frames({1, 0, 2, 2, 1, 1});
    on_device<gpu_half> cache(halves(size_t(2 * 5 * 9 * 56), poison)),
        z(halves(size_t(n_row * stride), poison));
    gpu_kv kv = {cache.at(), cache.at(5 * 9 * 56), 1, 5, 50, 9};
    gpu_embedding e = {y.at(), y.at(), n_value, 1, 3, 1, 2, true};
    gpu_embed(line, z.at(), frames.at(), n_row, &e);
    gpu_add(line, x.at(), z.at(), size_t(n_row * stride));
    gpu_swiglu(line, x.at(), y.at(), size_t(n_row * stride));
    gpu_rope(line, x.at(), stride, n_row, 5, 50, table_c.at(), table_s.at(), first.at());
    gpu_kv_append(line, &kv, 0, x.at(), y.at(), n_row, first.at());
    wait();
    keep(x.values());
    keep(z.values());
    keep(cache.values());
    return all;
}

START_TEST(any_order_of_threads_and_blocks_gives_the_same_bits)
{
    halves first = one_of_everything();
    for (int seed = -1; seed < 20; seed++) {
        cudacpu_set_order(seed < 0 ? CUDACPU_DESCENDING : CUDACPU_SEEDED,
                          static_cast<uint64_t>(seed));
        same_bits(one_of_everything(), first, "order");
    }
    cudacpu_reset();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_ops");
    TCase *tc = tcase_create("gpu_ops");
    tcase_add_test(tc, sums_and_gates_are_their_formulas);
    tcase_add_test(tc, a_sum_beyond_the_largest_is_infinite);
    tcase_add_test(tc, frames_are_embedded_as_the_formula_says);
    tcase_add_test(tc, a_code_looks_up_its_row);
    tcase_add_test(tc, heads_are_turned_by_the_angle_of_their_position);
    tcase_add_test(tc, append_fills_its_positions_and_nothing_else);
    tcase_add_test(tc, layers_beyond_two_to_the_31_elements_are_found);
    tcase_add_test(tc, any_order_of_threads_and_blocks_gives_the_same_bits);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
