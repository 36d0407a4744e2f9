/* SPDX-License-Identifier: MIT */
/* Hand-made .pth archives for the test programs: a small assembler for pickles, and a writer
 * of stored zip archives that remembers where its records are, so that tests can spoil them. */
#ifndef KVREF_TESTS_PTH_MAKE_H
#define KVREF_TESTS_PTH_MAKE_H

#include <stddef.h>
#include <stdint.h>

typedef struct make_bytes {
    uint8_t *data; /* owned, freed by make_free */
    size_t n, cap;
} make_bytes;

void make_free(make_bytes *b);

/* Appends n bytes, or an unsigned little-endian number of `width` bytes. */
void make_put(make_bytes *b, const void *data, size_t n);
void make_uint(make_bytes *b, uint64_t value, int width);

/* Appends a pickle written as words, one space apart:
 *   P2            protocol 2              'text'   BINUNICODE (no spaces inside)
 *   12 -3         BININT, or LONG1        xNN      a raw byte
 *   q3 h3         BINPUT, BINGET          r3 j3    LONG_BINPUT, LONG_BINGET
 *   c:module:name GLOBAL                  D        OrderedDict() by REDUCE
 *   S:class:key:elements                  a storage by BINPERSID
 *   T:class:key:elements:offset:sizes:strides       a tensor by REDUCE; sizes as 3,4
 *   any other single character            that opcode */
void make_pickle(make_bytes *b, const char *words);

#define MAKE_MAX_ENTRY 32

typedef struct make_zip {
    make_bytes out;
    int n_entry;
    char name[MAKE_MAX_ENTRY][1100];
    size_t local[MAKE_MAX_ENTRY], n_byte[MAKE_MAX_ENTRY], central[MAKE_MAX_ENTRY];
    uint32_t crc[MAKE_MAX_ENTRY];
    unsigned wide;              /* bit i: entry i has its numbers in the zip64 extra field */
    size_t end64, locator, end; /* offsets of the end records                              */
} make_zip;

/* Adds a stored entry, its data on a multiple of 64. */
void make_entry(make_zip *z, const char *name, const void *data, size_t n);

/* Writes the central directory and the end records, the zip64 ones if asked for. */
void make_end(make_zip *z, int with_zip64);

/* A whole archive: x/data.pkl from words, x/data/0 of n_storage bytes 1, 2, 3, ..., and
 * x/version. */
void make_archive(make_zip *z, const char *words, size_t n_storage);

#endif
