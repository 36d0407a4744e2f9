/* SPDX-License-Identifier: MIT */
#include "tests/support.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char temp_dir[512];
static pid_t temp_owner;

static int run(Suite *suite, enum fork_status how)
{
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, how);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int support_run(Suite *suite)
{
    return run(suite, CK_FORK_GETENV);
}

int support_run_in_one(Suite *suite)
{
    return run(suite, CK_NOFORK);
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

bool support_measures(void)
{
#if defined(SANITIZED) || !defined(__OPTIMIZE__)
    return false;
#else
    const char *preload = getenv("LD_PRELOAD"); /* set by valgrind for what it runs */
    return !preload || !strstr(preload, "vgpreload");
#endif
}

double support_cpu_s(void)
{
    struct timespec t;
    ck_assert(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static void remove_temp_dir(void)
{
    if (temp_dir[0] && getpid() == temp_owner)
        nftw(temp_dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *support_temp_dir(void)
{
    if (temp_dir[0]) return temp_dir;
    const char *base = getenv("TMPDIR");
    snprintf(temp_dir, sizeof temp_dir, "%s/kvref-test-XXXXXX", base && *base ? base : "/tmp");
    ck_assert_msg(mkdtemp(temp_dir) != NULL, "cannot make %s", temp_dir);
    temp_owner = getpid();
    atexit(remove_temp_dir);
    return temp_dir;
}

const char *support_path(const char *dir, const char *name)
{
    static char ring[16][1024];
    static unsigned next;
    char *path = ring[next++ % 16];
    snprintf(path, sizeof ring[0], "%s/%s", dir, name);
    return path;
}

const char *support_source(const char *name)
{
    const char *srcdir = getenv("srcdir");
    return support_path(srcdir && *srcdir ? srcdir : ".", name);
}

const char *support_shared(const char *name)
{
    const char *shared = getenv("KVREF_SHARED");
    const char *path =
        support_path(shared && *shared ? shared : support_source("../shared"), name);
    return access(path, R_OK) == 0 ? path : NULL;
}

void support_write(const char *path, const void *data, size_t n_byte)
{
    FILE *f = fopen(path, "wb");
    ck_assert_msg(f != NULL, "cannot create %s", path);
    ck_assert(fwrite(data, 1, n_byte, f) == n_byte);
    ck_assert(fclose(f) == 0);
}
