/* SPDX-License-Identifier: MIT */
/* Messages, the progress line, signals, and closing standard output. */
#include "tools/term.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t held, straight, caught, line_open;
static int muted = -1; /* a copy of standard error */

/* A finished file, and the one before. */
typedef struct made {
    struct made *before;
    char path[];
} made;
static made *volatile all_made;

static void on_signal(int number)
{
    if (held && !straight) {
        caught = number;
        return;
    }
    if (muted >= 0) dup2(muted, STDERR_FILENO);
    bool removed = all_made != NULL;
    for (const made *m = all_made; m; m = m->before) unlink(m->path);
    static const char undone[] = "\nkvref: what was finished is removed\n";
    if (removed && write(STDERR_FILENO, undone, sizeof undone - 1) < 0) _exit(128 + number);
    static const char text[] = "\nkvref: stopped by a signal\n";
    size_t from = line_open ? 0 : 1;
    if (write(STDERR_FILENO, text + from, sizeof text - 1 - from) < 0) _exit(128 + number);
    _exit(128 + number);
}

/* A descriptor that is closed would be given to the next file opened, and messages would end
 * up in that file. Opened the wrong way round, it takes the number but refuses every use. */
static void fill_descriptor(int fd, int flags)
{
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) return;
    int got = open("/dev/null", flags);
    if (got >= 0 && got != fd) {
        dup2(got, fd);
        close(got);
    }
}

void term_start(void)
{
    fill_descriptor(STDIN_FILENO, O_WRONLY);
    fill_descriptor(STDOUT_FILENO, O_RDONLY);
    fill_descriptor(STDERR_FILENO, O_WRONLY);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    static const int number[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof number / sizeof number[0]; i++) {
        struct sigaction before;
        bool ignored = sigaction(number[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN;
        if (!ignored) sigaction(number[i], &action, NULL); /* nohup stays in force */
    }
}

void term_hold(void)
{
    held++;
}

void term_release(void)
{
    held--;
    if (!held && caught) on_signal(caught);
}

void term_writing(const char *path)
{
    struct stat st;
    if (strcmp(path, "-") == 0 || (stat(path, &st) == 0 && !S_ISREG(st.st_mode)))
        straight = 1;
    else
        term_hold();
}

void term_written(void)
{
    if (straight)
        straight = 0;
    else
        term_release();
}

void term_undo(const char *path)
{
    struct stat st;
    if (strcmp(path, "-") == 0 || stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return;
    size_t n = strlen(path) + 1;
    made *m = malloc(sizeof *m + n);
    if (!m) return;
    memcpy(m->path, path, n);
    m->before = all_made;
    all_made = m;
}

void term_keep(void)
{
    made *m = all_made, *next;
    all_made = NULL;
    for (; m; m = next) {
        next = m->before;
        free(m);
    }
}

void term_mute(void)
{
    fflush(stderr);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int copy = nowhere < 0 ? -1 : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (copy >= 0) {
        dup2(nowhere, STDERR_FILENO);
        muted = copy;
    }
    if (nowhere >= 0) close(nowhere);
}

void term_unmute(void)
{
    int copy = muted;
    if (copy < 0) return;
    fflush(stderr);
    dup2(copy, STDERR_FILENO);
    muted = -1;
    close(copy);
}

int term_signal(void)
{
    return caught;
}

int term_take_signal(void)
{
    int number = caught;
    caught = 0;
    return number;
}

int term_error(const char *command, const kvref_error *err)
{
    fprintf(stderr, "kvref%s%s: %s\n", *command ? " " : "", command, err->text);
    return caught && err->status == KVREF_E_STOPPED ? 128 + caught : 2;
}

int term_finish(const char *command, int status)
{
    errno = 0;
    bool bad = ferror(stdout) != 0;
    bad |= fflush(stdout) != 0;
    bad |= fclose(stdout) != 0;
    if (!bad) return status;
    if (errno != EPIPE) /* a reader that has seen enough needs no message */
        fprintf(stderr,
                "kvref%s%s: standard output: cannot write%s%s\n",
                *command ? " " : "",
                command,
                errno ? ": " : "",
                errno ? strerror(errno) : "");
    return 2;
}

static void note_line(void *user, const char *text)
{
    const char *command = user;
    fprintf(stderr, "kvref %s: note: %s\n", command, text);
}

kvref_log term_notes(const char *command)
{
    union {
        const char *in;
        void *out;
    } u = {command};
    return (kvref_log){note_line, u.out};
}

const char *term_clean(char *out, size_t cap, const char *text)
{
    kvref_error e;
    snprintf(out, cap, "%s", text);
    kvref_fail(&e, KVREF_OK, "%s", out);
    snprintf(out, cap, "%s", e.text);
    return out;
}

double term_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void term_meter_open(term_meter *m, const char *label, const char *unit)
{
    const char *kind = getenv("TERM");
    bool can = isatty(STDERR_FILENO) && kind && strcmp(kind, "dumb") != 0;
    *m = (term_meter){label, unit, term_clock(), 0, can};
}

bool term_meter_due(term_meter *m)
{
    double now = term_clock();
    if (!m->active || now - m->shown < 0.1) return false;
    m->shown = now;
    return true;
}

void term_meter_show(term_meter *m, uint64_t done, uint64_t total)
{
    if (!term_meter_due(m)) return;
    double now = m->shown;
    line_open = 1;
    double rate = now > m->start ? (double)done / (now - m->start) : 0;
    char count[80];
    bool bytes = strcmp(m->unit, "bytes") == 0;
    if (bytes) {
        snprintf(count,
                 sizeof count,
                 "%s of %s, %s/s",
                 term_bytes((double)done),
                 term_bytes((double)total),
                 term_bytes(rate));
    } else {
        snprintf(count,
                 sizeof count,
                 "%llu of at most %llu %s, %.1f %s/s",
                 (unsigned long long)done,
                 (unsigned long long)total,
                 m->unit,
                 rate,
                 m->unit);
    }
    fprintf(stderr, "\r\033[K%s: %s", m->label, count);
    fflush(stderr);
}

void term_meter_text(term_meter *m, const char *text)
{
    if (!m->active) return;
    line_open = 1;
    fprintf(stderr, "\r\033[K%s: %s", m->label, text);
    fflush(stderr);
}

void term_meter_close(term_meter *m)
{
    if (m->active && line_open) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    line_open = 0;
    m->active = false;
}

const char *term_bytes(double n_byte)
{
    static char ring[8][32];
    static unsigned next;
    static const char *const unit[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
    char *text = ring[next++ % 8];
    size_t u = 0;
    while (n_byte >= 999.95 && u + 1 < sizeof unit / sizeof unit[0]) {
        n_byte /= 1000;
        u++;
    }
    snprintf(text, 32, u ? "%.1f %s" : "%.0f %s", n_byte, unit[u]);
    return text;
}
