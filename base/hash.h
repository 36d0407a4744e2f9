/* SPDX-License-Identifier: MIT */
/* FNV-1a of 32 and 64 bits over bytes: h = (h ^ byte) * prime. Start from the offset, or go on
 * from the hash of what came before. */
#ifndef KVREF_BASE_HASH_H
#define KVREF_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define KVREF_FNV32 0x811c9dc5u
#define KVREF_FNV64 0xcbf29ce484222325u

static inline uint32_t kvref_fnv32(uint32_t h, const void *data, size_t n)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < n; i++) h = (h ^ byte[i]) * 0x01000193u;
    return h;
}

static inline uint64_t kvref_fnv64(uint64_t h, const void *data, size_t n)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < n; i++) h = (h ^ byte[i]) * 0x100000001b3u;
    return h;
}

#endif
