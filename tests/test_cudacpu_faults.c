/* SPDX-License-Identifier: MIT */
/* Every fault that the CPU execution layer claims to find is found, as the kind it is, and
 * correct programs are left in peace. Built twice: with the plain kernels, and with the race
 * build, where `race` is what must be reported. */
#include "tests/cudacpu_faults.h"
#include "tests/support.h"

#include <signal.h>
#include <stdio.h>

enum { N_ORDER = 22 };

static void set_order(int i)
{
    cudacpu_set_order(i == 0   ? CUDACPU_ASCENDING
                      : i == 1 ? CUDACPU_DESCENDING
                               : CUDACPU_SEEDED,
                      (uint64_t)i);
}

static int count_rows(const fault *list)
{
    int n = 0;
    while (list[n].name) n++;
    return n;
}

static const fault *find(const char *name)
{
    const fault *f = cudacpu_sync_faults;
    while (f->name && strcmp(f->name, name)) f++;
    ck_assert_msg(f->name != NULL, "no row %s", name);
    return f;
}

/* Runs a fault in one order, recording; gives whether the result was right. */
static int run(const fault *f)
{
    cudacpu_clear_reports();
    cudacpu_set_recording(1);
    int right = f->run();
    cudacpu_set_recording(0);
    return right;
}

/* Who reads without a barrier may also read what is not yet written. */
static bool goes_with(cudacpu_kind want, cudacpu_kind also)
{
    return also == want || (want == CUDACPU_RACE && also == CUDACPU_UNINITIALISED);
}

static void check_fault(const fault *f)
{
    cudacpu_kind want = cudacpu_is_race_build() ? f->race : f->plain;
    int n_wrong = 0;
    for (int i = 0; i < N_ORDER; i++) {
        set_order(i);
        n_wrong += !run(f);
        if (want == CUDACPU_NO_REPORT) {
            ck_assert_msg(cudacpu_n_report() == 0,
                          "%s, order %d: unexpected: %s",
                          f->name,
                          i,
                          cudacpu_report_at(0)->text);
            continue;
        }
        ck_assert_msg(cudacpu_n_report() > 0, "%s, order %d: nothing reported", f->name, i);
        ck_assert_msg(cudacpu_n_report_of(want) > 0,
                      "%s, order %d: expected '%s', got %s",
                      f->name,
                      i,
                      cudacpu_kind_name(want),
                      cudacpu_report_at(0)->text);
        for (size_t k = 0; cudacpu_report_at(k); k++)
            ck_assert_msg(goes_with(want, cudacpu_report_at(k)->kind),
                          "%s, order %d: %s",
                          f->name,
                          i,
                          cudacpu_report_at(k)->text);
    }
    if (f->order_shows < 0 && !cudacpu_is_race_build())
        ck_assert_msg(n_wrong == 0, "%s: wrong in %d orders", f->name, n_wrong);
    if (f->order_shows > 0 && want == CUDACPU_NO_REPORT)
        ck_assert_msg(n_wrong > 0, "%s: right in every order", f->name);
}

START_TEST(every_race_and_divergence_is_reported)
{
    check_fault(&cudacpu_sync_faults[_i]);
}
END_TEST

START_TEST(every_misuse_of_memory_is_reported)
{
    check_fault(&cudacpu_memory_faults[_i]);
}
END_TEST

START_TEST(every_faulty_call_is_reported)
{
    check_fault(&cudacpu_call_faults[_i]);
}
END_TEST

START_TEST(correct_kernels_are_right_and_unreported_in_every_order)
{
    const fault *f = &cudacpu_clean[_i];
    for (int i = 0; i < N_ORDER; i++) {
        set_order(i);
        ck_assert_msg(run(f), "%s, order %d: wrong result", f->name, i);
        ck_assert_msg(cudacpu_n_report() == 0,
                      "%s, order %d: %s",
                      f->name,
                      i,
                      cudacpu_n_report() ? cudacpu_report_at(0)->text : "");
    }
}
END_TEST

START_TEST(launches_fail_after_a_fault_until_it_is_cleared)
{
    run(find("divergent barrier")); /* divergent barrier */
    ck_assert_int_eq(cudacpu_n_report_of(CUDACPU_BARRIER_DIVERGED), 1);
    cudacpu_counts before = cudacpu_get_counts();
    cudacpu_set_recording(1);
    cudacpu_clean[0].run();
    ck_assert(cudacpu_get_counts().n_launch == before.n_launch);
    ck_assert(run(&cudacpu_clean[0]));
    ck_assert(cudacpu_get_counts().n_launch == before.n_launch + 1);
}
END_TEST

START_TEST(reports_name_kernel_thread_and_order)
{
    cudacpu_set_order(CUDACPU_SEEDED, 77);
    run(find("lane not in its mask"));
    const char *text = cudacpu_report_at(0)->text;
    ck_assert_ptr_nonnull(strstr(text, "bad warp mask"));
    ck_assert_ptr_nonnull(strstr(text, "not_in_own_mask"));
    ck_assert_ptr_nonnull(strstr(text, "cudacpu_sync.cu:"));
    ck_assert_ptr_nonnull(strstr(text, "block (0,0,0), thread (31,0,0)"));
    ck_assert_ptr_nonnull(strstr(text, "seeded order, seed 77"));
}
END_TEST

START_TEST(early_exit_may_be_allowed)
{
    const fault *f = find("exit before a barrier");
    cudacpu_set_early_exit(1);
    run(f);
    ck_assert_uint_eq(cudacpu_n_report(), 0);
    cudacpu_set_early_exit(0);
    run(f);
    ck_assert_int_eq(cudacpu_n_report_of(CUDACPU_BARRIER_EXITED), 1);
}
END_TEST

/* Without recording a report ends the process. */
START_TEST(a_fault_aborts)
{
    ck_assert(freopen("/dev/null", "w", stderr) != NULL);
    find("divergent barrier")->run();
}
END_TEST

/* ---- the plain build alone: pages ---- */

static int (*const page_faults[])(void) = {fault_use_after_free,
                                           fault_read_forbidden_page,
                                           fault_write_far_outside,
                                           fault_host_reads_device_memory,
                                           fault_endless_recursion};

START_TEST(pages_catch_stray_accesses)
{
    page_faults[_i]();
}
END_TEST

/* ---- the race build alone ---- */

START_TEST(stray_accesses_are_described)
{
    const cudacpu_kind kinds[] = {CUDACPU_AFTER_FREE, CUDACPU_FORBIDDEN, CUDACPU_OUT_OF_BOUNDS};
    for (int i = 0; i < 3; i++) {
        const fault f = {"stray", page_faults[i], kinds[i], kinds[i], 0};
        check_fault(&f);
    }
}
END_TEST

static cudacpu_launch last_launch;
static void note_launch(void *user, const cudacpu_launch *l)
{
    (void)user;
    last_launch = *l;
}

START_TEST(traffic_is_counted_to_the_byte)
{
    cudacpu_set_launch_hook(note_launch, NULL);
    for (int i = 0; i < 3; i++) {
        int n[3] = {100 + i, 10 * i, i};
        cudacpu_reset_counts();
        run_traffic(n[0], n[1], n[2]);
        uint64_t read = 2u * (2u * (uint64_t)n[0] + 4u * (uint64_t)n[2]); /* two threads */
        uint64_t write = 2u * (4u * (uint64_t)n[1] + 4u * (uint64_t)n[2]);
        ck_assert_uint_eq(last_launch.read_byte, read);
        ck_assert_uint_eq(last_launch.write_byte, write);
        ck_assert_uint_eq(cudacpu_get_counts().read_byte, read);
        ck_assert_uint_eq(cudacpu_get_counts().write_byte, write);
        ck_assert_ptr_nonnull(strstr(last_launch.kernel, "traffic"));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cudacpu_faults");
    TCase *tc = tcase_create(cudacpu_is_race_build() ? "race" : "plain");
    int n_page = sizeof page_faults / sizeof *page_faults;
    tcase_add_loop_test(
        tc, every_race_and_divergence_is_reported, 0, count_rows(cudacpu_sync_faults));
    tcase_add_loop_test(
        tc, every_misuse_of_memory_is_reported, 0, count_rows(cudacpu_memory_faults));
    tcase_add_loop_test(tc, every_faulty_call_is_reported, 0, count_rows(cudacpu_call_faults));
    tcase_add_loop_test(tc,
                        correct_kernels_are_right_and_unreported_in_every_order,
                        0,
                        count_rows(cudacpu_clean));
    tcase_add_test(tc, launches_fail_after_a_fault_until_it_is_cleared);
    tcase_add_test(tc, reports_name_kernel_thread_and_order);
    tcase_add_test(tc, early_exit_may_be_allowed);
    tcase_add_test_raise_signal(tc, a_fault_aborts, SIGABRT);
    if (cudacpu_is_race_build()) {
        tcase_add_test(tc, stray_accesses_are_described);
        tcase_add_test(tc, traffic_is_counted_to_the_byte);
    } else {
        tcase_add_loop_test_raise_signal(tc, pages_catch_stray_accesses, SIGSEGV, 0, n_page);
    }
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
