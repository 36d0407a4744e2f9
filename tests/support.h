/* SPDX-License-Identifier: MIT */
/* Shared by the test programs: running a suite, skipping, temporary folders. */
#ifndef KVREF_TESTS_SUPPORT_H
#define KVREF_TESTS_SUPPORT_H

#include "kvref/status.h"

#include <check.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Exit status that automake counts as a skip. */
#define SUPPORT_SKIP 77

/* Runs a suite and returns the exit status for main. Prints Check's summary line. */
int support_run(Suite *suite);

/* The same in this one process. */
int support_run_in_one(Suite *suite);

/* Asserts that a call returned KVREF_OK, showing the error text if not. */
#define must(call, err)                                                                        \
    do {                                                                                       \
        kvref_status must_status = (call);                                                     \
        ck_assert_msg(must_status == KVREF_OK,                                                 \
                      "%s: %s: %s",                                                            \
                      #call,                                                                   \
                      kvref_status_name(must_status),                                          \
                      (err).text);                                                             \
    } while (0)

/* Asserts that a call failed with this status and that the message contains a text. */
#define must_fail(call, want, err, contains)                                                   \
    do {                                                                                       \
        (err).text[0] = 0;                                                                     \
        kvref_status must_status = (call);                                                     \
        ck_assert_msg(must_status == (want),                                                   \
                      "%s: expected %s, got %s (%s)",                                          \
                      #call,                                                                   \
                      kvref_status_name(want),                                                 \
                      kvref_status_name(must_status),                                          \
                      (err).text);                                                             \
        ck_assert_msg(strstr((err).text, contains) != NULL,                                    \
                      "message \"%s\" does not contain \"%s\"",                                \
                      (err).text,                                                              \
                      contains);                                                               \
    } while (0)

/* Whether a limit of time or memory says something about the library in this run: not with a
 * sanitizer, not without optimisation (as for coverage), not under valgrind. */
bool support_measures(void);

/* Processor time of all threads so far, in seconds. */
double support_cpu_s(void);

/* A fresh folder under $TMPDIR or /tmp, removed with its files at exit. Not to be freed. */
const char *support_temp_dir(void);

/* dir/name in a buffer that stays valid for the next 15 calls. */
const char *support_path(const char *dir, const char *name);

/* A file of the source tree, relative to its top (works out of tree: uses $srcdir). */
const char *support_source(const char *name);

/* ../shared/name beside the source tree ($KVREF_SHARED overrides); NULL when absent. */
const char *support_shared(const char *name);

/* Writes bytes to a file; aborts the test on failure. */
void support_write(const char *path, const void *data, size_t n_byte);

#ifdef __cplusplus
}
#endif

#endif
