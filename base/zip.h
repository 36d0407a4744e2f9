/* SPDX-License-Identifier: MIT */
/* Private: a strict reader of archives whose entries are all stored (spec 01 section 5.1). */
#ifndef KVREF_BASE_ZIP_H
#define KVREF_BASE_ZIP_H

#include "base/base.h"

#define KVREF_ZIP_MAX_ENTRY 131072 /* entries of one archive          */
#define KVREF_ZIP_MAX_NAME  1024   /* bytes of a name                 */

typedef struct kvref_zip_entry {
    const uint8_t *name; /* n_name bytes in the central directory */
    size_t n_name;
    size_t local;        /* offset of the local header            */
    const uint8_t *data; /* n_byte stored bytes                   */
    size_t n_byte;
    uint32_t crc; /* as the directory has it, not checked  */
} kvref_zip_entry;

typedef struct kvref_zip {
    const char *path;
    kvref_zip_entry *entry; /* [n_entry], by name */
    size_t n_entry;
} kvref_zip;

/* Reads the central directory of an archive in memory and checks every entry: stored, not
 * encrypted, inside the file, no two overlapping, no name twice. The entries point into data.
 * Errors: FORMAT, UNSUPPORTED (no zip at all, compression, encryption), MEMORY. */
kvref_status kvref_zip_open(
    kvref_zip *out, const uint8_t *data, size_t n_byte, const char *path, kvref_error *err);

/* The entry called head followed by tail, or NULL. */
const kvref_zip_entry *kvref_zip_find(
    const kvref_zip *z, const void *head, size_t n_head, const void *tail, size_t n_tail);

void kvref_zip_close(kvref_zip *z);

/* CRC-32 as zip stores it, continued from crc (0 at the start). */
uint32_t kvref_zip_crc(uint32_t crc, const uint8_t *data, size_t n_byte);

#endif
