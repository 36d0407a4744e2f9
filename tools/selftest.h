/* SPDX-License-Identifier: MIT */
/* Checks of the arithmetic that take about a second, for kvref doctor. */
#ifndef KVREF_TOOLS_SELFTEST_H
#define KVREF_TOOLS_SELFTEST_H

#include <stdbool.h>

/* Called once per check: what is claimed, whether it holds, the figure it rests on. */
typedef void selftest_report(void *user, const char *claim, bool good, const char *detail);

void selftest_run(selftest_report *report, void *user);

#endif
