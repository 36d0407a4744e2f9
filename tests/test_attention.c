/* SPDX-License-Identifier: MIT */
/* The claim itself: attention over the active prefix is attention over the masked capacity. */
#include "tests/scene.h"
#include "tests/support.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void check_shape(
    int n_head, int n_kv, int d_head, int capacity, int n_past, int n_row, double *worst)
{
    for (int kind = 0; kind < SCENE_N_INPUT; kind++) {
        scene s;
        scene_open(&s, n_head, n_kv, d_head, capacity, n_past, n_row, (scene_input)kind);
        float *prefix = scene_copy(scene_run(&s, ref_attention_prefix), scene_size(&s));
        double share = scene_share(&s, prefix);
        if (!(share <= *worst)) *worst = share;
        const float *full = scene_run(&s, ref_attention_full);
        ck_assert_msg(share <= 1 && world_differ(prefix, full, scene_size(&s)) == 0,
                      "H %d G %d E %d C %d P %d T %d input %d: %g of the limit",
                      n_head,
                      n_kv,
                      d_head,
                      capacity,
                      n_past,
                      n_row,
                      kind,
                      share);
        free(prefix);
        scene_close(&s);
    }
}

/* All H in 1, 2, 4; G dividing H; E in 2, 4, 8; C 1..6; T 1..3; every P that fits. */
START_TEST(prefix_equals_full_bit_for_bit_in_every_small_world)
{
    int n_shape = 0;
    double worst = 0;
    for (int h = 1; h <= 4; h *= 2)
        for (int g = 1; g <= h; g *= 2)
            for (int e = 2; e <= 8; e *= 2)
                for (int c = 1; c <= 6; c++)
                    for (int t = 1; t <= 3 && t <= c; t++)
                        for (int p = 0; p + t <= c; p++, n_shape++)
                            check_shape(h, g, e, c, p, t, &worst);
    printf("%d shapes of %d inputs, %.2f of the limit\n", n_shape, SCENE_N_INPUT, worst);
    ck_assert_int_eq(n_shape, 828);
}
END_TEST

START_TEST(prefix_equals_full_and_double_at_every_chunk_edge)
{
    enum { C = 200 };
    static const int edge[] = {1, 2, 63, 64, 65, 127, 128, 129, C - 1, C};
    double worst = 0;
    for (size_t i = 0; i < sizeof edge / sizeof *edge; i++) {
        check_shape(6, 3, 10, C, edge[i] - 1, 1, &worst);
        check_shape(4, 1, 128, C, edge[i] - 1, 1, &worst);
        if (edge[i] >= 5) check_shape(2, 2, 16, C, edge[i] - 5, 5, &worst);
    }
    printf("%.2f of the limit\n", worst);
}
END_TEST

START_TEST(head_h_reads_group_h_over_group_size)
{
    static const int shape[][2] = {{32, 8}, {4, 2}, {6, 3}, {4, 1}, {4, 4}};
    ref_attention *form[] = {ref_attention_prefix, ref_attention_full};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int f = 0; f < 2; f++) {
            int n_head = shape[i][0], n_kv = shape[i][1], interleaved = 0;
            scene s;
            scene_open(&s, n_head, n_kv, 8, 20, 6, 1, SCENE_NORMAL);
            for (int g = 0; g < n_kv; g++)
                for (int r = 0; r < 20 * 8; r++)
                    ref_kv_head(&s.kv, 0, 1, g)[r] = (float)(g + 1);
            const float *out = scene_run(&s, form[f]);
            for (int h = 0; h < n_head; h++)
                for (int e = 0; e < 8; e++) {
                    int g = h / (n_head / n_kv);
                    ck_assert(fabs((double)out[h * 8 + e] - (g + 1)) <= 1e-5);
                    interleaved += h % n_kv != g;
                }
            ck_assert(interleaved || n_kv == 1 ||
                      n_kv == n_head); /* the other mapping differs */
            scene_close(&s);
        }
}
END_TEST

/* Zero keys would win if the unfilled rows took part: every real score is about -50. */
START_TEST(unfilled_rows_take_no_part_even_when_they_would_win)
{
    scene s;
    scene_open(&s, 2, 1, 4, 64, 9, 1, SCENE_NORMAL);
    for (int r = 0; r < 10; r++)
        for (int e = 0; e < 4; e++) {
            ref_kv_head(&s.kv, 0, 0, 0)[r * 4 + e] = s.k[r * 4 + e] = -25;
            s.q[e] = s.q[4 + e] = 1;
        }
    ck_assert(scene_share(&s, scene_run(&s, ref_attention_prefix)) <= 1);
    ck_assert(scene_share(&s, scene_run(&s, ref_attention_full)) <= 1);
    scene_close(&s);
}
END_TEST

START_TEST(weights_sum_to_one_for_any_scores)
{
    static const float level[] = {0, 100, -100, 65504, -65504, -1e30f};
    for (int n = 1; n <= 130; n += n < 66 ? 13 : 64)
        for (size_t i = 0; i < sizeof level / sizeof *level; i++) {
            scene s;
            scene_open(&s, 2, 2, 4, 140, n - 1, 1, SCENE_NORMAL);
            for (int g = 0; g < 2; g++)
                for (int j = 0; j < n * 4; j++) {
                    ref_kv_head(&s.kv, 0, 0, g)[j] = j % 4 ? 0 : level[i];
                    ref_kv_head(&s.kv, 0, 1, g)[j] = 1;
                }
            for (int j = 0; j < 8; j++) s.q[j] = 2;
            const float *out = scene_run(&s, ref_attention_prefix);
            for (int j = 0; j < 8; j++) ck_assert(fabs((double)out[j] - 1) <= 1e-6);
            scene_close(&s);
        }
}
END_TEST

static void poison(scene *s, int kind)
{
    uint32_t state = 77;
    for (int value = 0; value < 2; value++)
        for (int g = 0; g < s->n_kv; g++) {
            float *row = ref_kv_head(&s->kv, 0, value, g);
            for (int i = (s->n_past + s->n_row) * s->d_head; i < s->capacity * s->d_head; i++)
                row[i] =
                    kind == 0   ? NAN
                    : kind == 1 ? INFINITY
                    : kind == 2
                        ? 65504.0f
                        : kvref_bits_f32(kvref_f32_bits(world_noise(&state)) * 2654435761u);
        }
}

START_TEST(poisoned_tail_is_never_read)
{
    for (int n_row = 1; n_row <= 3; n_row++) {
        scene s;
        scene_open(&s, 4, 2, 16, 300, 70, n_row, SCENE_NORMAL);
        float *clean = scene_copy(scene_run(&s, ref_attention_prefix), scene_size(&s));
        for (int kind = 0; kind < 4; kind++) {
            poison(&s, kind);
            ck_assert_uint_eq(
                world_differ(clean, scene_run(&s, ref_attention_prefix), scene_size(&s)), 0);
        }
        free(clean);
        scene_close(&s);
    }
}
END_TEST

/* The poison works: the full form multiplies it by zero and gets NaN. A finite tail it bears.
 */
START_TEST(full_form_under_a_nan_tail_gives_nan)
{
    scene s;
    scene_open(&s, 4, 2, 16, 300, 70, 1, SCENE_NORMAL);
    float *clean = scene_copy(scene_run(&s, ref_attention_full), scene_size(&s));
    poison(&s, 2);
    ck_assert_uint_eq(world_differ(clean, scene_run(&s, ref_attention_full), scene_size(&s)),
                      0);
    for (int kind = 0; kind < 2; kind++) {
        poison(&s, kind);
        const float *out = scene_run(&s, ref_attention_full);
        for (size_t i = 0; i < scene_size(&s); i++) ck_assert(isnan(out[i]));
    }
    free(clean);
    scene_close(&s);
}
END_TEST

/* The prefix fills whole pages exactly; every page after it faults when touched. */
START_TEST(unreadable_tail_is_never_touched)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int d_head = 16, kv_len = (int)(2 * page / (16 * sizeof(float)));
    for (int n_row = 1; n_row <= 3; n_row += 2) {
        scene s;
        scene_open(&s, 4, 2, d_head, 4 * kv_len, kv_len - n_row, n_row, SCENE_NORMAL);
        float *clean = scene_copy(scene_run(&s, ref_attention_prefix), scene_size(&s));
        for (int head = 0; head < 4; head++) {
            char *first = (char *)ref_kv_head(&s.kv, 0, head / 2, head % 2) + 2 * page;
            ck_assert((uintptr_t)first % page == 0);
            ck_assert(mprotect(first, s.kv.head_byte - 2 * page, PROT_NONE) == 0);
        }
        ck_assert_uint_eq(
            world_differ(clean, scene_run(&s, ref_attention_prefix), scene_size(&s)), 0);
        free(clean);
        scene_close(&s);
    }
}
END_TEST

static sigjmp_buf before_fault;

static void on_fault(int number)
{
    siglongjmp(before_fault, number);
}

/* The control of the test above: the full form faults there. */
START_TEST(full_form_touches_an_unreadable_tail)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int kv_len = (int)(2 * page / (16 * sizeof(float)));
    static scene s;
    scene_open(&s, 4, 2, 16, 4 * kv_len, kv_len - 1, 1, SCENE_NORMAL);
    mprotect((char *)ref_kv_head(&s.kv, 0, 0, 1) + 2 * page, page, PROT_NONE);
    struct sigaction action = {.sa_handler = on_fault}, old;
    sigaction(SIGSEGV, &action, &old);
    int fault = sigsetjmp(before_fault, 1);
    if (!fault) ref_attention_full(&s.tools, s.out, s.q, &s.kv, 0, s.n_past, 1, 4);
    sigaction(SIGSEGV, &old, NULL);
    ck_assert_int_eq(fault, SIGSEGV);
    scene_close(&s);
}
END_TEST

START_TEST(rows_read_are_exactly_the_active_length)
{
    for (int n_past = 0; n_past < 150; n_past += 37)
        for (int n_row = 1; n_row <= 4; n_row++) {
            scene s;
            scene_open(&s, 6, 3, 10, 200, n_past, n_row, SCENE_NORMAL);
            uint64_t want = 0;
            for (int t = 0; t < n_row; t++) want += 3 * (uint64_t)(n_past + t + 1);
            scene_run(&s, ref_attention_prefix);
            ck_assert_uint_eq(s.tools.count[0].k_rows, want);
            ck_assert_uint_eq(s.tools.count[0].v_rows, want);
            ck_assert_uint_eq(s.tools.count[0].bytes, 2 * want * 10 * sizeof(float));
            scene_run(&s,
                      ref_attention_full); /* every head of every query reads the capacity */
            ck_assert_uint_eq(s.tools.count[0].k_rows, (uint64_t)n_row * 6 * 200);
            ck_assert_uint_eq(s.tools.count[0].bytes,
                              (uint64_t)(n_row + 2) * 2 * 6 * 200 * 10 * sizeof(float));
            scene_close(&s);
        }
}
END_TEST

START_TEST(bits_depend_on_neither_capacity_threads_rows_nor_instruction_set)
{
    enum { H = 8, G = 4, E = 64, P = 150, T = 9 };
    scene s;
    scene_open(&s, H, G, E, P + T, P, T, SCENE_NORMAL);
    float *want = scene_copy(scene_run(&s, ref_attention_prefix), scene_size(&s));
    const ref_simd *list[REF_MAX_SIMD];
    for (int i = ref_simd_list(list) - 1; i >= 0; i--) {
        s.tools.simd = list[i];
        printf("covered: %s\n", list[i]->name);
        ck_assert_uint_eq(
            world_differ(want, scene_run(&s, ref_attention_prefix), scene_size(&s)), 0);
    }
    for (int t = 0; t < T; t++) { /* row by row */
        ref_attention_prefix(&s.tools, s.out, s.q + t * H * E, &s.kv, 0, P + t, 1, H);
        ck_assert_uint_eq(world_differ(want + t * H * E, s.out, H * E), 0);
    }
    scene_close(&s);
    static const int capacity[] = {P + T, 300, 4096, 32768}, threads[] = {1, 2, 3, 8};
    for (int i = 0; i < 4; i++) {
        scene_open(&s, H, G, E, capacity[i], P, T, SCENE_NORMAL);
        kvref_pool_close(&s.tools.pool);
        world_tools_close(&s.tools);
        world_tools(&s.tools,
                    ref_simd_best(),
                    threads[i],
                    64,
                    ref_attention_scratch(H, G, E, capacity[i]));
        ck_assert_uint_eq(
            world_differ(want, scene_run(&s, ref_attention_prefix), scene_size(&s)), 0);
        scene_close(&s);
    }
    free(want);
}
END_TEST

START_TEST(prefix_has_the_bits_of_the_definition)
{
    static const int shape[][5] = {{4, 2, 24, 199, 2}, {6, 3, 10, 64, 1}, {2, 1, 128, 0, 3}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int kind = 0; kind < SCENE_N_INPUT; kind++) {
            const int *n = shape[i];
            scene s;
            scene_open(&s, n[0], n[1], n[2], 300, n[3], n[4], (scene_input)kind);
            float *want = scene_copy(scene_run(&s, ref_attention_naive), scene_size(&s));
            ck_assert(scene_share(&s, want) <= 1);
            const float *got = scene_run(&s, ref_attention_prefix);
            ck_assert_uint_eq(world_differ(want, got, scene_size(&s)), 0);
            free(want);
            scene_close(&s);
        }
}
END_TEST

/* Small caches as the fast transformer has them; a tail that a masked form must bear. */
START_TEST(fast_form_is_the_same_function_in_all_its_variants)
{
    double worst = 0;
    for (int n = 1; n <= 10; n++)
        for (int kind = 0; kind < SCENE_N_INPUT; kind++) {
            scene s;
            scene_open(
                &s, 6, 3, 10 + n, 10, n > 1 ? n - 2 : 0, n > 1 ? 2 : 1, (scene_input)kind);
            float *want = scene_copy(scene_run(&s, ref_attention_books_naive), scene_size(&s));
            double share = scene_share(&s, want);
            if (!(share <= worst)) worst = share;
            poison(&s, 2);
            const ref_simd *list[REF_MAX_SIMD];
            for (int i = ref_simd_list(list) - 1; i >= 0; i--) {
                s.tools.simd = list[i];
                const float *got = scene_run(&s, ref_attention_books);
                ck_assert_uint_eq(world_differ(want, got, scene_size(&s)), 0);
                got = scene_run(&s, ref_attention_books_full);
                ck_assert_uint_eq(world_differ(want, got, scene_size(&s)), 0);
            }
            free(want);
            scene_close(&s);
        }
    printf("%.2f of the limit\n", worst);
    ck_assert(worst <= 1);
}
END_TEST

START_TEST(append_writes_its_rows_and_nothing_else)
{
    scene s;
    scene_open(&s, 4, 2, 6, 20, 5, 2, SCENE_NORMAL);
    size_t n = s.n_byte / sizeof(float);
    float *before = scene_copy((float *)(void *)s.kv.base, n), *k = world_floats(36, 1, 8),
          *v = world_floats(36, 1, 9);
    ref_kv_append(&s.kv, 0, 7, k, v, 3);
    for (int value = 0; value < 2; value++)
        for (int g = 0; g < 2; g++)
            for (int r = 7; r < 10; r++) {
                float *row = ref_kv_head(&s.kv, 0, value, g) + r * 6;
                ck_assert_uint_eq(world_differ(row, (value ? v : k) + ((r - 7) * 2 + g) * 6, 6),
                                  0);
                memcpy(row, before + (row - (float *)(void *)s.kv.base), 6 * sizeof *row);
            }
    ck_assert_uint_eq(world_differ(before, (float *)(void *)s.kv.base, n), 0);
    free(before);
    free(k);
    free(v);
    scene_close(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("attention");
    TCase *tc = tcase_create("attention");
    tcase_add_test(tc, prefix_equals_full_bit_for_bit_in_every_small_world);
    tcase_add_test(tc, prefix_equals_full_and_double_at_every_chunk_edge);
    tcase_add_test(tc, head_h_reads_group_h_over_group_size);
    tcase_add_test(tc, unfilled_rows_take_no_part_even_when_they_would_win);
    tcase_add_test(tc, weights_sum_to_one_for_any_scores);
    tcase_add_test(tc, poisoned_tail_is_never_read);
    tcase_add_test(tc, full_form_under_a_nan_tail_gives_nan);
    tcase_add_test(tc, unreadable_tail_is_never_touched);
    tcase_add_test(tc, full_form_touches_an_unreadable_tail);
    tcase_add_test(tc, rows_read_are_exactly_the_active_length);
    tcase_add_test(tc, bits_depend_on_neither_capacity_threads_rows_nor_instruction_set);
    tcase_add_test(tc, prefix_has_the_bits_of_the_definition);
    tcase_add_test(tc, fast_form_is_the_same_function_in_all_its_variants);
    tcase_add_test(tc, append_writes_its_rows_and_nothing_else);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
