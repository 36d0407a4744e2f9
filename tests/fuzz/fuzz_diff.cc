/* SPDX-License-Identifier: MIT */
/* Any two safetensors files as traces: compared to an end, or refused with a message. The input
 * is the first file's length as four bytes, then both. */
extern "C" {
#include "base/diff.h"
#include "base/file.h"
}

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

static kvref_file *open(const uint8_t *data, size_t size)
{
    kvref_file *f;
    int part;
    if (kvref_file_new(&f, nullptr) != KVREF_OK) return nullptr;
    if (kvref_file_add_memory(f, &part, "file", data, size, nullptr) != KVREF_OK ||
        kvref_safetensors_parse(f, part, nullptr) != KVREF_OK ||
        kvref_file_finish(f, nullptr) != KVREF_OK)
        kvref_file_close(&f);
    return f;
}

/* What holds of every comparison. */
static void check(const kvref_diff *d, kvref_precision precision)
{
    size_t n = 0;
    if (d->verdict == KVREF_CANNOT_TELL && d->reason[0] == 0) abort();
    for (int i = 0; i < d->n_tap; i++) {
        const kvref_tap_diff *t = &d->tap[i];
        bool judged = t->state == KVREF_TAP_JUDGED;
        if (judged && t->n == 0) abort();
        if (judged && (t->n_bad > 0) != !(t->used <= 1)) abort();
        if (judged && t->n_bad > 0 && d->verdict != KVREF_DIFFERS &&
            t->id.axis != KVREF_AXIS_CHOICE)
            abort();
        if (judged) n += t->n;
        for (int k = 0; k < t->a->n_dim && t->n_bad > 0; k++)
            if (t->first.at[k] < 0 || t->first.at[k] >= t->a->dim[k]) abort();
    }
    if (n != d->n_value || d->n_value > d->n_value_a) abort();
    if (precision == KVREF_EXACT && d->verdict == KVREF_SAME &&
        d->inputs == KVREF_INPUTS_PART && !d->split.near_tie)
        abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint32_t n;
    kvref_error err;
    if (size < sizeof n) return 0;
    memcpy(&n, data, sizeof n);
    data += sizeof n;
    size -= sizeof n;
    if (n > size) n = static_cast<uint32_t>(size);
    kvref_file *a = open(data, n), *b = open(data + n, size - n);
    if (!b && a) b = open(data, n); /* one file against itself */
    for (int p = KVREF_EXACT; a && b && p <= KVREF_STORE_F16; p++) {
        kvref_precision precision = static_cast<kvref_precision>(p);
        kvref_limits *limits;
        kvref_diff *d;
        err.text[0] = 0;
        if (kvref_limits_open(&limits, precision, nullptr, &err) != KVREF_OK) break;
        if (kvref_diff_open(&d, a, b, limits, &err) == KVREF_OK) {
            check(d, precision);
        } else if (err.text[0] == 0) {
            abort();
        }
        kvref_diff_close(&d);
        kvref_limits_close(&limits);
    }
    kvref_file_close(&a);
    kvref_file_close(&b);
    return 0;
}
