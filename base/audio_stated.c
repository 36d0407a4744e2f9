/* SPDX-License-Identifier: MIT */
/* How many bytes of sound the header of a file states. libsndfile cuts that number to the file
 * without a word; so the chunks of the plain formats are walked here: WAV in its three byte
 * orders and sizes, AIFF, Wave64, CAF and AU. */
#include "base/audio_stated.h"

#include <string.h>

typedef struct layout {
    size_t start;        /* of the first chunk                          */
    size_t n_id, n_size; /* bytes of a chunk's name and of its size     */
    size_t align;        /* chunks begin at multiples of this           */
    const char *sound;   /* name of the chunk with the samples          */
    bool big, whole;     /* byte order; the size counts name and size   */
    char magic[5];
} layout;

static const layout layouts[] = {{12, 4, 4, 2, "data", false, false, "RIFF"},
                                 {12, 4, 4, 2, "data", true, false, "RIFX"},
                                 {12, 4, 4, 2, "data", false, false, "RF64"},
                                 {12, 4, 4, 2, "SSND", true, false, "FORM"},
                                 {8, 4, 8, 1, "data", true, false, "caff"},
                                 {40, 16, 8, 8, "data", false, true, "riff"}};

static uint64_t number(const uint8_t *p, size_t n, bool big)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) v |= (uint64_t)p[i] << 8 * (big ? n - 1 - i : i);
    return v;
}

/* Programs that write into a pipe leave the largest numbers, or numbers near them. */
static bool is_stated(uint64_t size, size_t n_size)
{
    return size < (n_size == 4 ? 0x7ffff000u : (uint64_t)1 << 62);
}

static bool au(uint64_t *stated, uint64_t *found, const uint8_t *data, size_t n)
{
    if (n < 24 || memcmp(data, ".snd", 4) != 0) return false;
    uint64_t start = number(data + 4, 4, true), size = number(data + 8, 4, true);
    if (start > n || !is_stated(size, 4)) return false;
    *stated = size;
    *found = n - start;
    return size > *found;
}

bool kvref_audio_short(uint64_t *stated, uint64_t *found, const uint8_t *data, size_t n)
{
    const layout *f = NULL;
    uint64_t long_size = 0; /* of RF64 */
    for (size_t i = 0; n > 4 && i < sizeof layouts / sizeof layouts[0]; i++)
        if (memcmp(data, layouts[i].magic, 4) == 0) f = &layouts[i];
    if (!f) return au(stated, found, data, n);
    size_t head = f->n_id + f->n_size;
    for (uint64_t at = f->start; at <= n && n - at >= head;) {
        const uint8_t *chunk = data + at;
        uint64_t size = number(chunk + f->n_id, f->n_size, f->big), rest = n - at - head;
        if (f->whole) size = size < head ? 0 : size - head;
        if (memcmp(chunk, "ds64", 4) == 0 && rest >= 16)
            long_size = number(chunk + head + 8, 8, false);
        if (memcmp(chunk, f->sound, 4) == 0) {
            bool wide = size == UINT32_MAX && long_size;
            *stated = wide ? long_size : size;
            *found = rest;
            return is_stated(*stated, wide ? 8 : f->n_size) && *stated > rest;
        }
        if (size > rest) return false;
        at += head + size;
        at += (f->align - at % f->align) % f->align;
    }
    return false;
}
