/* SPDX-License-Identifier: MIT */
/* Faults: what happened, in which launch and thread, under which order. stderr and abort, or a
 * record for tests. */
#include "gpu/cudacpu/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

extern "C" void __gcov_dump(void) __attribute__((weak));

namespace cudacpu_engine
{

enum { MAX_KEPT = 16 };
static cudacpu_report kept[MAX_KEPT];
static size_t n_report;
static bool recording;
static void (*report_hook)(void *, const cudacpu_report *);
static void *report_user;

static const char *order_name()
{
    static const char *const names[] = {"ascending", "descending", "seeded"};
    return names[set.order];
}

static void describe(cudacpu_report *r, cudacpu_kind kind, const char *format, va_list list)
{
    size_t room = sizeof r->text;
    r->kind = kind;
    int n = snprintf(r->text, room, "%s: ", cudacpu_kind_name(kind));
    n += vsnprintf(r->text + n, room - static_cast<size_t>(n), format, list);
    if (!m.launch || n < 0 || static_cast<size_t>(n) >= room) return;
    n += snprintf(r->text + n,
                  room - static_cast<size_t>(n),
                  "; kernel %s launched at %s:%d, block (%u,%u,%u)",
                  m.launch->kernel,
                  m.launch->file,
                  m.launch->line,
                  m.block.x,
                  m.block.y,
                  m.block.z);
    if (!m.now || n < 0 || static_cast<size_t>(n) >= room) return;
    snprintf(r->text + n,
             room - static_cast<size_t>(n),
             ", thread (%u,%u,%u), %s order, seed %llu",
             m.now->index.x,
             m.now->index.y,
             m.now->index.z,
             order_name(),
             static_cast<unsigned long long>(set.seed));
}

static void deliver(cudacpu_kind kind, const char *format, va_list list)
{
    static cudacpu_report spare;
    cudacpu_report *r = n_report < MAX_KEPT ? &kept[n_report] : &spare;
    n_report++;
    describe(r, kind, format, list);
    thread *t = m.now;
    m.now = nullptr; /* the hook is no kernel */
    if (report_hook) report_hook(report_user, r);
    m.now = t;
    if (recording) return;
    fflush(stdout);
    fprintf(stderr, "cudacpu: %s\n", r->text);
    if (__gcov_dump) __gcov_dump();
    abort();
}

void report(cudacpu_kind kind, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    deliver(kind, format, list);
    va_end(list);
}

void fail(cudacpu_kind kind, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    deliver(kind, format, list);
    va_end(list);
    if (!m.now) abort(); /* outside a kernel there is nothing to give up */
    abandon();
}

} /* namespace cudacpu_engine */

using namespace cudacpu_engine;

extern "C" void cudacpu_set_recording(int on)
{
    recording = on != 0;
}

extern "C" size_t cudacpu_n_report(void)
{
    return n_report;
}

extern "C" const cudacpu_report *cudacpu_report_at(size_t i)
{
    return i < n_report && i < MAX_KEPT ? &kept[i] : nullptr;
}

extern "C" int cudacpu_n_report_of(cudacpu_kind kind)
{
    int n = 0;
    for (size_t i = 0; i < n_report && i < MAX_KEPT; i++) n += kept[i].kind == kind;
    return n;
}

extern "C" void cudacpu_clear_reports(void)
{
    n_report = 0;
    forget_error();
}

extern "C" void cudacpu_set_report_hook(void (*hook)(void *, const cudacpu_report *),
                                        void *user)
{
    report_hook = hook;
    report_user = user;
}

extern "C" const char *cudacpu_kind_name(cudacpu_kind kind)
{
    static const char *const names[] = {"no report",
                                        "divergent barrier",
                                        "exit before a barrier",
                                        "bad warp mask",
                                        "divergent warp operation",
                                        "absent lane",
                                        "shuffle from an inactive lane",
                                        "too much shared memory",
                                        "overwritten guard",
                                        "copy out of bounds",
                                        "copy in the wrong direction",
                                        "bad free",
                                        "use after free",
                                        "forbidden region",
                                        "race in a block",
                                        "race between blocks",
                                        "uninitialised read",
                                        "out of bounds",
                                        "misaligned access",
                                        "host pointer in a kernel",
                                        "local memory of another thread"};
    return kind <= CUDACPU_FOREIGN_STACK ? names[kind] : "?";
}
