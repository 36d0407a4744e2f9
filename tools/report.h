/* SPDX-License-Identifier: MIT */
/* What generate and say tell about its samples and batches: lines for people, or one JSON
 * object. */
#ifndef KVREF_TOOLS_REPORT_H
#define KVREF_TOOLS_REPORT_H

#include "tools/session.h"
#include "tools/sound_out.h"

#include <stdio.h>

typedef struct report report;

/* Lines go out at once; JSON at close. NULL when out of memory. */
report *report_open(FILE *to, bool json);

/* A batch of the present sample. stop: what ended it; prefill: seconds up to the first frame,
 * decode: after it. */
void report_batch(report *r,
                  int n_prompt,
                  const kvref_generated *g,
                  const char *stop,
                  double prefill,
                  double decode);

/* The present sample is complete; the next batch belongs to a new one. codes_path is NULL when
 * the codes were not written, sound when none was made. */
void report_sample(report *r,
                   const char *codes_path,
                   const kvref_codes *codes,
                   const char *sound_path,
                   const sound_made *sound);

/* FNV-1a, 64 bits, over the codes in the order of time, each as four bytes. */
uint64_t report_hash_codes(const kvref_codes *codes);

/* One setting more, for JSON, and those of the session. */
void report_setting(report *r, const char *key, const char *value);
void report_session(report *r, const session *s);

/* Device memory that the decoder took, when there is a device. */
void report_device(report *r, const session *s);

/* Prints JSON when the run succeeded. Returns how many batches were stopped by length. */
int report_close(report **r, bool good);

/* "codes.npy" and 3 give "codes_3.npy". */
kvref_status
report_numbered(char *out, size_t cap, const char *path, int number, kvref_error *err);

#endif
