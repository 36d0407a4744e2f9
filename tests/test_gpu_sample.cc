/* SPDX-License-Identifier: MIT */
/* Draws of gpu/sample.cu on the CPU execution layer are those of base/sample.c and of the
 * loop's rule of repetition, whatever the logits, settings and numbers. */
#include "gpu/cudacpu/control.h"
#include "tests/draws.h"
#include "tests/support.h"

#include <algorithm>
#include <math.h>
#include <stdio.h>

using namespace draws;

static void same_state(const gpu_frame_state &a, const gpu_frame_state &b)
{
    ck_assert_mem_eq(a.window, b.window, sizeof a.window);
    ck_assert_int_eq(a.n_main, b.n_main);
    ck_assert_int_eq(a.fault, b.fault);
}

static void check_code(const machine &m, const trial &t, int book)
{
    int32_t frame[1 + N_BOOK];
    gpu_frame_state state;
    std::vector<float> p, x;
    for (gpu_half h : t.logits) x.push_back(gpu_f32(h));
    int index = host_choose(&p, x, settings(t), t.u);
    device_draw(m, t, book, frame, &state);
    ck_assert_msg(frame[1 + book] == index,
                  "%d logits, temperature %g, top_p %g, top_k %d: drew %d, expected %d",
                  static_cast<int>(t.logits.size()),
                  static_cast<double>(t.args.temperature),
                  static_cast<double>(t.args.top_p),
                  t.args.top_k,
                  frame[1 + book],
                  index);
    for (int i = 0; i <= N_BOOK; i++)
        if (i != 1 + book) ck_assert_int_eq(frame[i], unwritten[i]);
    same_state(state, t.state);
}

static void check_main(const machine &m, const trial &t)
{
    int32_t frame[1 + N_BOOK], want[2];
    gpu_frame_state state, want_state;
    ck_assert(host_main(t, want, &want_state));
    device_draw(m, t, 0, frame, &state);
    ck_assert_msg(frame[0] == want[0] && frame[1] == want[1],
                  "%d logits, end %d: drew %d, %d, expected %d, %d",
                  static_cast<int>(t.logits.size()),
                  t.end,
                  frame[0],
                  frame[1],
                  want[0],
                  want[1]);
    for (int i = 2; i <= N_BOOK; i++) ck_assert_int_eq(frame[i], unwritten[i]);
    same_state(state, want_state);
}

static const int sizes[] = {1, 2, 3, 7, 8, 9, 31, 32, 33, 64, 100, 255, 256, 257, 300, 1025};

START_TEST(codes_are_those_of_the_host)
{
    machine m;
    for (int i = 0; i < 1600; i++)
        check_code(m, make_trial(sizes[i % 16], (i / 16) % N_CLASS), 1 + i % (N_BOOK - 1));
}
END_TEST

/* All ratios within a few units of the last place, and top_p at a step of the running sum: a
 * wrong last bit of any sum or quotient draws another code. */
START_TEST(close_races_and_cuts_end_as_on_the_host)
{
    machine m;
    for (int i = 0; i < 1600; i++) {
        trial t = make_trial(sizes[4 + i % 12], (i / 16) % N_CLASS);
        std::vector<float> p, x;
        for (gpu_half h : t.logits) x.push_back(gpu_f32(h));
        if (i % 2) {
            host_choose(&p, x, {1, 1, 1 << 30}, t.u);
            std::sort(p.begin(), p.end(), [](float a, float b) { return a > b; });
            double sum = 0;
            int n = 1 + below(static_cast<int>(p.size()));
            for (int r = 0; r < n; r++) sum += static_cast<double>(p[static_cast<size_t>(r)]);
            float edge = static_cast<float>(sum);
            t.args.top_p = fminf(1, i % 4 == 1 ? edge : nextafterf(edge, 0));
            t.args.top_k = 1 << 30;
        }
        host_choose(&p, x, settings(t), t.u);
        make_close(&t.u, p);
        check_code(m, t, 1);
    }
}
END_TEST

START_TEST(main_tokens_and_their_memory_are_those_of_the_loop)
{
    machine m;
    int n_again = 0;
    for (int i = 0; i < 1600; i++) {
        trial t = make_trial(sizes[1 + i % 15], (i / 16) % N_CLASS);
        if (t.end >= 0) t.logits[t.logits.size() - 1] = gpu_f16(2);
        if (t.end == static_cast<int>(t.logits.size()) - 1) t.end = -1;
        trial plain = t;
        plain.args.remember = 0;
        int32_t frame[2];
        gpu_frame_state state;
        ck_assert(host_main(plain, frame, &state));
        for (int32_t &each : t.state.window)
            each = BEGIN + below(static_cast<int>(t.logits.size()));
        if (i % 2) t.state.window[below(GPU_RAS_WINDOW)] = frame[0];
        if (i % 2 && t.args.remember) n_again++;
        check_main(m, t);
    }
    printf("%d main tokens drawn again\n", n_again);
    ck_assert_int_ge(n_again, 500);
}
END_TEST

/* The real counts, and as many as need more than 48 KiB. */
START_TEST(thousands_of_candidates_are_drawn_from_alike)
{
    machine m;
    for (int i = 0; i < 3; i++) {
        check_code(m, make_trial(4096, i == 0 ? NORMAL : FALLING), 1);
        trial t = make_trial(4097, i == 1 ? TIES : NORMAL);
        t.end = 0;
        t.args.top_k = i == 2 ? 4097 : 30;
        check_main(m, t);
    }
    check_code(m, make_trial(16384, NORMAL), 1);
}
END_TEST

START_TEST(ranks_are_a_stable_sort)
{
    machine m;
    for (int i = 0; i < 100; i++) {
        trial t = make_trial(sizes[4 + i % 12], i % N_CLASS);
        int32_t frame[1 + N_BOOK];
        gpu_frame_state state;
        device_draw(m, t, 1, frame, &state);
        std::vector<int32_t> order(t.logits.size()), rank(t.logits.size());
        for (size_t k = 0; k < order.size(); k++) order[k] = static_cast<int32_t>(k);
        std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
            return gpu_f32(t.logits[static_cast<size_t>(a)]) >
                   gpu_f32(t.logits[static_cast<size_t>(b)]);
        });
        ck_assert(cudaMemcpy(rank.data(), m.order, 4 * rank.size(), cudaMemcpyDeviceToHost) ==
                  cudaSuccess);
        for (size_t r = 0; r < order.size(); r++)
            ck_assert_int_eq(rank[static_cast<size_t>(order[r])], static_cast<int>(r));
    }
}
END_TEST

/* NaN, plus infinity, nothing finite: noted once, with the place of the first. */
START_TEST(logits_that_are_no_numbers_are_a_fault)
{
    machine m;
    for (unsigned bits : {0x7e00u, 0xfe00u, 0x7c00u, 0xfc00u})
        for (int book = 0; book < N_BOOK; book++) {
            gpu_half bad = static_cast<gpu_half>(bits);
            trial t = make_trial(100, NORMAL);
            int32_t frame[1 + N_BOOK];
            gpu_frame_state state;
            t.end = -1;
            t.logits[77] = bad;
            if (bad == 0xfc00) t.logits.assign(100, bad);
            t.state.fault = 0;
            device_draw(m, t, book, frame, &state);
            ck_assert_int_eq(state.fault, 1 + book);
            ck_assert_int_eq(state.n_main, t.state.n_main);
            ck_assert(frame[1 + book] >= 0 && frame[1 + book] < 100);
            t.state.fault = 2;
            device_draw(m, t, book, frame, &state);
            ck_assert_int_eq(state.fault, 2);
        }
    trial t = make_trial(50, HOLES);
    t.logits.assign(50, 0xfc00);
    t.logits[1] = gpu_f16(1);
    t.end = 1;
    t.args.no_end = 1;
    int32_t frame[1 + N_BOOK];
    gpu_frame_state state;
    device_draw(m, t, 0, frame, &state);
    ck_assert_int_eq(state.fault, 1);
    t.logits[1] = 0x7e00; /* the end token's own is not looked at then */
    t.logits[30] = gpu_f16(-3);
    device_draw(m, t, 0, frame, &state);
    ck_assert_int_eq(state.fault, 0);
    ck_assert_int_eq(frame[1], 29);
}
END_TEST

START_TEST(a_forced_frame_is_copied_and_nothing_remembered)
{
    machine m;
    for (int book = 0; book < N_BOOK; book++) {
        trial t = make_trial(64, NORMAL);
        t.logits[3] = 0x7e00;
        t.args.forced = 1;
        t.args.remember = 1;
        int32_t frame[1 + N_BOOK];
        gpu_frame_state state;
        device_draw(m, t, book, frame, &state);
        for (int i = 0; i <= N_BOOK; i++) {
            bool given = i == 1 + book || (book == 0 && i == 0);
            ck_assert_int_eq(frame[i], given ? forced_frame[i] : unwritten[i]);
        }
        same_state(state, t.state);
    }
}
END_TEST

START_TEST(order_of_threads_decides_no_draw)
{
    machine m;
    for (int seed = -1; seed < 20; seed++) {
        cudacpu_set_order(seed < 0 ? CUDACPU_DESCENDING : CUDACPU_SEEDED,
                          static_cast<uint64_t>(seed));
        for (int i = 0; i < 5; i++) {
            trial t = make_trial(300, i);
            std::vector<float> p;
            host_choose(&p, host_logits(t), settings(t), t.u);
            make_close(&t.u, p);
            check_main(m, t);
        }
    }
    cudacpu_reset();
}
END_TEST

START_TEST(the_position_advances_on_the_device)
{
    machine m;
    int32_t pos = 41;
    ck_assert(cudaMemcpy(m.frame, &pos, 4, cudaMemcpyHostToDevice) == cudaSuccess);
    gpu_advance(nullptr, m.frame, 1);
    gpu_advance(nullptr, m.frame, 20);
    ck_assert(cudaMemcpy(&pos, m.frame, 4, cudaMemcpyDeviceToHost) == cudaSuccess);
    ck_assert_int_eq(pos, 62);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu_sample");
    TCase *tc = tcase_create("draws");
    tcase_add_test(tc, codes_are_those_of_the_host);
    tcase_add_test(tc, close_races_and_cuts_end_as_on_the_host);
    tcase_add_test(tc, main_tokens_and_their_memory_are_those_of_the_loop);
    tcase_add_test(tc, thousands_of_candidates_are_drawn_from_alike);
    tcase_add_test(tc, ranks_are_a_stable_sort);
    tcase_add_test(tc, logits_that_are_no_numbers_are_a_fault);
    tcase_add_test(tc, a_forced_frame_is_copied_and_nothing_remembered);
    tcase_add_test(tc, order_of_threads_decides_no_draw);
    tcase_add_test(tc, the_position_advances_on_the_device);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
