/* SPDX-License-Identifier: MIT */
/* A strict reader of zip archives whose entries are all stored (spec 01 section 5.1).
 *
 * End record -> (zip64 locator -> zip64 record) -> central directory -> local headers. Sizes
 * and offsets come from the central directory, 64-bit ones from its extra field 0x0001 where
 * the 32-bit field is all ones; from the local header only the length of what precedes the
 * data. Everything stays in place in the mapping. */
#include "base/zip.h"

#include <stdlib.h>
#include <string.h>

#define END_BYTES     22
#define LOCATOR_BYTES 20
#define END64_BYTES   56
#define CENTRAL_BYTES 46
#define LOCAL_BYTES   30

typedef struct input {
    const char *path;
    const uint8_t *data;
    size_t n_byte;
} input;

/* Where the central directory lies. */
typedef struct directory {
    uint64_t n_entry, n_byte, at;
} directory;

static uint32_t get16(const uint8_t *p)
{
    return (uint32_t)(p[0] | p[1] << 8);
}

static uint32_t get32(const uint8_t *p)
{
    return get16(p) | get16(p + 2) << 16;
}

static uint64_t get64(const uint8_t *p)
{
    return get32(p) | (uint64_t)get32(p + 4) << 32;
}

static bool signature(const input *in, uint64_t at, size_t n_byte, uint32_t want)
{
    return at <= in->n_byte && n_byte <= in->n_byte - at && get32(in->data + at) == want;
}

uint32_t kvref_zip_crc(uint32_t crc, const uint8_t *data, size_t n_byte)
{
    uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
        table[i] = c;
    }
    crc = ~crc;
    for (size_t i = 0; i < n_byte; i++) crc = crc >> 8 ^ table[(crc ^ data[i]) & 255];
    return ~crc;
}

/* The end record: the last 22 bytes, or before a comment that reaches to the end of file. */
static kvref_status find_end(const input *in, size_t *out, kvref_error *err)
{
    for (size_t comment = 0; comment <= 65535 && comment + END_BYTES <= in->n_byte; comment++) {
        size_t at = in->n_byte - END_BYTES - comment;
        if (get32(in->data + at) == 0x06054b50 && get16(in->data + at + 20) == comment) {
            *out = at;
            return KVREF_OK;
        }
    }
    return kvref_fail(err,
                      KVREF_E_FORMAT,
                      "%s: zip: no end-of-central-directory record (truncated?)",
                      in->path);
}

/* Replaces the fields by those of a zip64 record, if a locator says that there is one. *before
 * receives the offset that the central directory must not pass. */
static kvref_status
read_end64(const input *in, size_t end, directory *dir, size_t *before, kvref_error *err)
{
    if (end < LOCATOR_BYTES || get32(in->data + end - LOCATOR_BYTES) != 0x07064b50)
        return KVREF_OK;
    size_t locator = end - LOCATOR_BYTES;
    uint64_t at = get64(in->data + locator + 8);
    if (at > locator || locator - at < END64_BYTES ||
        !signature(in, at, END64_BYTES, 0x06064b50))
        return kvref_fail(
            err,
            KVREF_E_FORMAT,
            "%s: zip: no zip64 end record at offset %llu, where its locator points",
            in->path,
            (unsigned long long)at);
    const uint8_t *p = in->data + at;
    directory wide = {get64(p + 32), get64(p + 40), get64(p + 48)};
    if ((dir->n_entry != 0xffff && dir->n_entry != wide.n_entry) ||
        (dir->n_byte != UINT32_MAX && dir->n_byte != wide.n_byte) ||
        (dir->at != UINT32_MAX && dir->at != wide.at))
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: zip: the zip64 and the plain end record differ",
                          in->path);
    *dir = wide;
    *before = (size_t)at;
    return KVREF_OK;
}

static kvref_status find_directory(const input *in, directory *dir, kvref_error *err)
{
    size_t end = 0;
    KVREF_TRY(find_end(in, &end, err));
    const uint8_t *p = in->data + end;
    *dir = (directory){get16(p + 10), get32(p + 12), get32(p + 16)};
    size_t before = end;
    KVREF_TRY(read_end64(in, end, dir, &before, err));
    if (dir->at > before || dir->n_byte > before - dir->at)
        return kvref_fail(
            err,
            KVREF_E_FORMAT,
            "%s: zip: central directory of %llu bytes at offset %llu does not lie "
            "before offset %zu",
            in->path,
            (unsigned long long)dir->n_byte,
            (unsigned long long)dir->at,
            before);
    if (dir->n_entry > KVREF_ZIP_MAX_ENTRY)
        return kvref_fail(err,
                          KVREF_E_UNSUPPORTED,
                          "%s: zip: expected at most %d entries, found %llu",
                          in->path,
                          KVREF_ZIP_MAX_ENTRY,
                          (unsigned long long)dir->n_entry);
    if (dir->n_entry > dir->n_byte / CENTRAL_BYTES)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: zip: %llu entries in a central directory of %llu bytes",
                          in->path,
                          (unsigned long long)dir->n_entry,
                          (unsigned long long)dir->n_byte);
    return KVREF_OK;
}

/* An error about one entry. */
static kvref_status bad_entry(const input *in,
                              const kvref_zip_entry *e,
                              kvref_status status,
                              const char *what,
                              kvref_error *err)
{
    return kvref_fail(err,
                      status,
                      "%s: zip entry '%.*s': %s",
                      in->path,
                      (int)(e->n_name < 120 ? e->n_name : 120),
                      (const char *)e->name,
                      what);
}

/* Fills those of size, stored size and offset that are all ones from the extra field 0x0001. */
static bool widen(const uint8_t *extra, size_t n_extra, uint64_t *field[3])
{
    bool wanted = false;
    for (int k = 0; k < 3; k++) wanted = wanted || *field[k] == UINT32_MAX;
    if (!wanted) return true;
    while (n_extra >= 4) {
        uint32_t id = get16(extra), n = get16(extra + 2);
        extra += 4, n_extra -= 4;
        if (n > n_extra) return false;
        if (id == 1) {
            for (int k = 0; k < 3; k++) {
                if (*field[k] != UINT32_MAX) continue;
                if (n < 8) return false;
                *field[k] = get64(extra);
                extra += 8, n -= 8;
            }
            return true;
        }
        extra += n, n_extra -= n;
    }
    return false;
}

/* Reads the local header; the data and all before it must end at or before `limit`. */
static kvref_status place(const input *in,
                          kvref_zip_entry *e,
                          uint64_t at,
                          uint64_t n_byte,
                          uint64_t limit,
                          kvref_error *err)
{
    if (at > limit || limit - at < LOCAL_BYTES || !signature(in, at, LOCAL_BYTES, 0x04034b50))
        return bad_entry(in, e, KVREF_E_FORMAT, "no local header at its offset", err);
    const uint8_t *p = in->data + at;
    uint64_t n_name = get16(p + 26), n_head = LOCAL_BYTES + n_name + get16(p + 28);
    if (n_head > limit - at || n_byte > limit - at - n_head)
        return bad_entry(
            in, e, KVREF_E_FORMAT, "its data reach past the end of the data area", err);
    if (n_name != e->n_name || memcmp(p + LOCAL_BYTES, e->name, e->n_name) != 0)
        return bad_entry(in, e, KVREF_E_FORMAT, "another name in its local header", err);
    e->local = (size_t)at;
    e->data = p + n_head;
    e->n_byte = (size_t)n_byte;
    return KVREF_OK;
}

/* One record of the central directory at p, with n_left bytes to the directory's end. */
static kvref_status read_entry(const input *in,
                               kvref_zip_entry *e,
                               const uint8_t *p,
                               size_t n_left,
                               uint64_t limit,
                               size_t *n_used,
                               kvref_error *err)
{
    if (n_left < CENTRAL_BYTES || get32(p) != 0x02014b50)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: zip: no central directory record at offset %zu",
                          in->path,
                          (size_t)(p - in->data));
    size_t n_name = get16(p + 28), n_extra = get16(p + 30);
    *n_used = CENTRAL_BYTES + n_name + n_extra + get16(p + 32);
    if (*n_used > n_left)
        return kvref_fail(
            err,
            KVREF_E_FORMAT,
            "%s: zip: central directory record at offset %zu reaches past its end",
            in->path,
            (size_t)(p - in->data));
    *e = (kvref_zip_entry){.name = p + CENTRAL_BYTES, .n_name = n_name, .crc = get32(p + 16)};
    if (n_name > KVREF_ZIP_MAX_NAME)
        return bad_entry(in, e, KVREF_E_UNSUPPORTED, "a name of over 1024 bytes", err);
    uint64_t size = get32(p + 24), stored = get32(p + 20), at = get32(p + 42);
    if (get16(p + 8) & 1) return bad_entry(in, e, KVREF_E_UNSUPPORTED, "is encrypted", err);
    if (get16(p + 10) != 0)
        return bad_entry(in, e, KVREF_E_UNSUPPORTED, "is compressed, not stored", err);
    if (!widen(p + CENTRAL_BYTES + n_name, n_extra, (uint64_t *[]){&size, &stored, &at}))
        return bad_entry(
            in, e, KVREF_E_FORMAT, "its zip64 extra field is absent or short", err);
    if (size != stored)
        return bad_entry(in, e, KVREF_E_FORMAT, "stored size and size differ", err);
    return place(in, e, at, size, limit, err);
}

static int by_place(const void *a, const void *b)
{
    const kvref_zip_entry *x = a, *y = b;
    return (x->local > y->local) - (x->local < y->local);
}

static int by_name(const void *a, const void *b)
{
    const kvref_zip_entry *x = a, *y = b;
    int order = memcmp(x->name, y->name, x->n_name < y->n_name ? x->n_name : y->n_name);
    return order ? order : (x->n_name > y->n_name) - (x->n_name < y->n_name);
}

/* No two entries share bytes, no two share a name; leaves them in order of name. */
static kvref_status arrange(const input *in, kvref_zip *z, kvref_error *err)
{
    kvref_zip_entry *e = z->entry;
    if (z->n_entry) qsort(e, z->n_entry, sizeof *e, by_place);
    for (size_t i = 1; i < z->n_entry; i++)
        if (e[i].local < (size_t)(e[i - 1].data - in->data) + e[i - 1].n_byte)
            return bad_entry(in, &e[i], KVREF_E_FORMAT, "overlaps another entry", err);
    if (z->n_entry) qsort(e, z->n_entry, sizeof *e, by_name);
    for (size_t i = 1; i < z->n_entry; i++)
        if (by_name(&e[i - 1], &e[i]) == 0)
            return bad_entry(in, &e[i], KVREF_E_FORMAT, "occurs twice", err);
    return KVREF_OK;
}

static kvref_status read_all(const input *in, kvref_zip *z, kvref_error *err)
{
    directory dir;
    KVREF_TRY(find_directory(in, &dir, err));
    z->entry = calloc((size_t)dir.n_entry + 1, sizeof *z->entry);
    if (!z->entry) return kvref_fail(err, KVREF_E_MEMORY, "%s: out of memory", in->path);
    const uint8_t *p = in->data + dir.at;
    size_t n_left = (size_t)dir.n_byte, n_used = 0;
    for (; z->n_entry < dir.n_entry; z->n_entry++, p += n_used, n_left -= n_used)
        KVREF_TRY(read_entry(in, &z->entry[z->n_entry], p, n_left, dir.at, &n_used, err));
    if (n_left)
        return kvref_fail(err,
                          KVREF_E_FORMAT,
                          "%s: zip: %zu bytes of central directory after its %zu entries",
                          in->path,
                          n_left,
                          z->n_entry);
    return arrange(in, z, err);
}

kvref_status kvref_zip_open(
    kvref_zip *out, const uint8_t *data, size_t n_byte, const char *path, kvref_error *err)
{
    *out = (kvref_zip){.path = path};
    input in = {path, data, n_byte};
    if (n_byte < 4 || (memcmp(data, "PK\3\4", 4) != 0 && memcmp(data, "PK\5\6", 4) != 0))
        return kvref_fail(err,
                          KVREF_E_UNSUPPORTED,
                          "%s: no zip archive: unsupported old torch format, or no .pth file",
                          path);
    kvref_status s = read_all(&in, out, err);
    if (s != KVREF_OK) kvref_zip_close(out);
    return s;
}

const kvref_zip_entry *kvref_zip_find(
    const kvref_zip *z, const void *head, size_t n_head, const void *tail, size_t n_tail)
{
    size_t low = 0, high = z->n_entry;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const kvref_zip_entry *e = &z->entry[mid];
        size_t n = e->n_name < n_head ? e->n_name : n_head;
        int order = memcmp(e->name, head, n);
        if (order == 0 && e->n_name > n_head) {
            size_t n_rest = e->n_name - n_head, m = n_rest < n_tail ? n_rest : n_tail;
            order = memcmp(e->name + n_head, tail, m);
        }
        size_t n_want = n_head + n_tail;
        if (order == 0) order = (e->n_name > n_want) - (e->n_name < n_want);
        if (order == 0) return e;
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

void kvref_zip_close(kvref_zip *z)
{
    free(z->entry);
    *z = (kvref_zip){0};
}
