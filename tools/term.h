/* SPDX-License-Identifier: MIT */
/* Talking to people: messages, a progress line, signals, and the end of the program. No colour
 * is ever used, so NO_COLOR has nothing to switch off. */
#ifndef KVREF_TOOLS_TERM_H
#define KVREF_TOOLS_TERM_H

#include "kvref/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Once at start. Closed standard streams are replaced, so that no file can take their number,
 * and writing to a closed standard output still fails. SIGPIPE and SIGXFSZ become write errors.
 */
void term_start(void);

/* "kvref NAME: text" on standard error. Returns the exit status for it: 2, or 128 + the signal
 * when the error is that a signal asked to stop. */
int term_error(const char *command, const kvref_error *err);

/* Standard output flushed and closed; a write error makes the status 2. */
int term_finish(const char *command, int status);

/* SIGINT, SIGTERM and SIGHUP end the program at once with 128 + signal, which leaves nothing
 * behind while no file is being written. Between hold and release, which nest, they are only
 * remembered. */
void term_hold(void);
void term_release(void);

/* The same around the writing of one file at path. A device or a pipe may block for ever and
 * leaves nothing half made: there a signal ends the program at once, held or not. */
void term_writing(const char *path);
void term_written(void);

/* Remembers a finished file that is to go when a signal ends the program, and forgets them. */
void term_undo(const char *path);
void term_keep(void);

/* Standard error goes nowhere in between, for libraries that chatter. */
void term_mute(void);
void term_unmute(void);

/* The signal that was caught while held, 0: none. */
int term_signal(void);

/* The same, and forgets it. */
int term_take_signal(void);

/* A log that prints notes as "kvref NAME: note: ..." on standard error. */
kvref_log term_notes(const char *command);

/* One line on standard error, rewritten at most ten times a second, and only if that is a
 * terminal. unit: "frames". total 0: not known. */
typedef struct term_meter {
    const char *label, *unit;
    double start, shown;
    bool active;
} term_meter;

void term_meter_open(term_meter *m, const char *label, const char *unit);
/* A phase without a count: "label: text". */
void term_meter_text(term_meter *m, const char *text);
/* Whether the line may be rewritten now; notes that it was. */
bool term_meter_due(term_meter *m);
void term_meter_show(term_meter *m, uint64_t done, uint64_t total);
void term_meter_close(term_meter *m);

/* A copy of text with control bytes and invalid UTF-8 replaced, cut to cap - 1 bytes: fit for a
 * terminal and for JSON. Returns out. */
const char *term_clean(char *out, size_t cap, const char *text);

/* Seconds of a steady clock. */
double term_clock(void);

/* "1.5 GB" and the like, decimal units, in a buffer good for the next 7 calls. */
const char *term_bytes(double n_byte);

#endif
