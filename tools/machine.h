/* SPDX-License-Identifier: MIT */
/* What a figure has to carry to mean something: machine, compiler, build. */
#ifndef KVREF_TOOLS_MACHINE_H
#define KVREF_TOOLS_MACHINE_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define MACHINE_SANITIZER "address"
#elif defined(__SANITIZE_THREAD__)
#define MACHINE_SANITIZER "thread"
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MACHINE_SANITIZER "address"
#elif __has_feature(thread_sanitizer)
#define MACHINE_SANITIZER "thread"
#endif
#endif
#ifndef MACHINE_SANITIZER
#define MACHINE_SANITIZER "none"
#endif
#ifdef __clang__
#define MACHINE_COMPILER "clang " __clang_version__
#else
#define MACHINE_COMPILER "gcc " __VERSION__
#endif

/* The value of the first line "key ...: value" of a file of /proc; "unknown" when absent. */
void machine_proc(char *out, size_t cap, const char *path, const char *key);

/* "2026-01-31T12:00:00Z", 21 bytes. */
void machine_date(char out[21]);

#endif
