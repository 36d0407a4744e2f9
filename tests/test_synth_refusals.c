/* SPDX-License-Identifier: MIT */
/* Synthetic checkpoints that cannot be written, or not to the end: nothing is left behind. */
#include "tests/synth_make.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

START_TEST(existing_checkpoints_are_never_touched)
{
    static const char *const name[] = {"config.json",
                                       "tokenizer.json",
                                       "model.safetensors",
                                       "model.safetensors.index.json",
                                       "model.pth",
                                       "model-00002-of-00003.safetensors"};
    kvref_synth_opts o = plain;
    o.n_shard = 3;
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        kvref_error err;
        struct stat st;
        const char *dir = fresh_dir();
        ck_assert(mkdir(dir, 0777) == 0);
        support_write(support_path(dir, name[i]), "mine", 4);
        must_fail(kvref_synth_write(dir, &odd, &o, &err), KVREF_E_ARG, err, name[i]);
        ck_assert(stat(support_path(dir, name[i]), &st) == 0 && st.st_size == 4);
        ck_assert(unlink(support_path(dir, name[i])) == 0);
        ck_assert_msg(rmdir(dir) == 0, "something was left beside %s", name[i]);
    }
}
END_TEST

static int stop_late(void *user, uint64_t done, uint64_t total)
{
    uint64_t *calls = user;
    ck_assert(done <= total);
    return ++*calls == 30;
}

/* _i: the disk is full in the middle of the weights, or one byte before their end. */
START_TEST(full_disk_leaves_nothing_behind)
{
    kvref_error err;
    struct stat st;
    struct rlimit before, small;
    const char *dir = fresh_dir();
    must(kvref_synth_write(dir, &odd, &plain, &err), err);
    ck_assert(stat(support_path(dir, "model.safetensors"), &st) == 0);
    ck_assert(getrlimit(RLIMIT_FSIZE, &before) == 0);
    small = before;
    small.rlim_cur = (rlim_t)(_i ? st.st_size - 1 : st.st_size / 2);
    ck_assert(signal(SIGXFSZ, SIG_IGN) != SIG_ERR && setrlimit(RLIMIT_FSIZE, &small) == 0);
    dir = fresh_dir();
    kvref_status s = kvref_synth_write(dir, &odd, &plain, &err);
    ck_assert(setrlimit(RLIMIT_FSIZE, &before) == 0);
    ck_assert_msg(s == KVREF_E_IO, "%s: %s", kvref_status_name(s), err.text);
    ck_assert(access(dir, F_OK) != 0);
}
END_TEST

static int count(void *user, uint64_t done, uint64_t total)
{
    *(uint64_t *)user = total - done;
    return 0;
}

START_TEST(stopping_removes_everything_that_was_written)
{
    uint64_t calls = 0, left = 1;
    kvref_error err;
    kvref_synth_opts o = {
        .dtype = KVREF_F32, .n_shard = 4, .progress = stop_late, .user = &calls};
    const char *dir = fresh_dir();
    must_fail(kvref_synth_write(dir, &odd, &o, &err), KVREF_E_STOPPED, err, "stopped");
    ck_assert(access(dir, F_OK) != 0);
    ck_assert(mkdir(dir, 0777) == 0);
    calls = 0;
    must_fail(kvref_synth_write(dir, &odd, &o, &err), KVREF_E_STOPPED, err, "stopped");
    ck_assert_msg(rmdir(dir) == 0, "the folder that was there is kept, empty");
    o.progress = count;
    o.user = &left;
    must(kvref_synth_write(dir, &odd, &o, &err), err);
    ck_assert_uint_eq(left, 0);
}
END_TEST

START_TEST(bad_requests_are_refused_before_anything_is_written)
{
    kvref_error err;
    const char *dir = fresh_dir();
    kvref_synth_opts o = plain;
    o.dtype = KVREF_I32;
    must_fail(kvref_synth_write(dir, &odd, &o, &err), KVREF_E_ARG, err, "found I32");
    o = plain;
    o.n_shard = 0;
    must_fail(kvref_synth_write(dir, &odd, &o, &err), KVREF_E_ARG, err, "found 0");
    o.n_shard = 1000;
    must_fail(kvref_synth_write(dir, &odd, &o, &err), KVREF_E_ARG, err, "found 1000");
    kvref_config c = odd;
    c.slow.n_kv_head = 4; /* does not divide 6 */
    ck_assert(kvref_synth_write(dir, &c, &plain, &err) != KVREF_OK);
    c = odd;
    c.fast.n_kv_head = 0;
    ck_assert(kvref_synth_write(dir, &c, &plain, &err) != KVREF_OK);
    o = plain;
    o.tokenizer = true; /* 97 ids have no room for 256 bytes */
    must_fail(kvref_synth_write(dir, &odd, &o, &err), KVREF_E_ARG, err, "found 97");
    ck_assert(access(dir, F_OK) != 0);
    must_fail(kvref_synth_write(support_path(dir, "sub"), &odd, &plain, &err),
              KVREF_E_IO,
              err,
              "cannot make the folder");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("synth_refusals");
    TCase *tc = tcase_create("synth_refusals");
    tcase_add_loop_test(tc, full_disk_leaves_nothing_behind, 0, 2);
    tcase_add_test(tc, existing_checkpoints_are_never_touched);
    tcase_add_test(tc, stopping_removes_everything_that_was_written);
    tcase_add_test(tc, bad_requests_are_refused_before_anything_is_written);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
