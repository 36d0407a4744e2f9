/* SPDX-License-Identifier: MIT */
#include "tests/pth_make.h"

#include "base/zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void make_free(make_bytes *b)
{
    free(b->data);
    *b = (make_bytes){0};
}

void make_put(make_bytes *b, const void *data, size_t n)
{
    if (b->cap - b->n < n) {
        b->cap = 2 * (b->cap + n);
        b->data = realloc(b->data, b->cap);
        if (!b->data) abort();
    }
    if (n) memcpy(b->data + b->n, data, n);
    b->n += n;
}

void make_uint(make_bytes *b, uint64_t value, int width)
{
    for (; width > 0; width--, value >>= 8) make_put(b, &(uint8_t){value & 255}, 1);
}

static void put_op(make_bytes *b, int op)
{
    make_uint(b, (uint64_t)op, 1);
}

static void put_text(make_bytes *b, const char *text, size_t n)
{
    put_op(b, 'X');
    make_uint(b, n, 4);
    make_put(b, text, n);
}

static void put_number(make_bytes *b, long long value)
{
    if (value == (int32_t)value) {
        put_op(b, 'J');
        make_uint(b, (uint32_t)value, 4);
    } else {
        put_op(b, 0x8a);
        put_op(b, 8);
        make_uint(b, (uint64_t)value, 8);
    }
}

static void put_tuple(make_bytes *b, const char *numbers)
{
    put_op(b, '(');
    for (char *end; *numbers; numbers = *end ? end + 1 : end)
        put_number(b, strtoll(numbers, &end, 10));
    put_op(b, 't');
}

static void put_global(make_bytes *b, const char *module, const char *name)
{
    put_op(b, 'c');
    make_put(b, module, strlen(module));
    put_op(b, '\n');
    make_put(b, name, strlen(name));
    put_op(b, '\n');
}

static void put_dict(make_bytes *b)
{
    put_global(b, "collections", "OrderedDict");
    make_put(b, ")R", 2);
}

static void put_storage(make_bytes *b, char *const *field)
{
    put_op(b, '(');
    put_text(b, "storage", 7);
    put_global(b, "torch", field[0]);
    put_text(b, field[1], strlen(field[1]));
    put_text(b, "cpu", 3);
    put_number(b, strtoll(field[2], NULL, 10));
    make_put(b, "tQ", 2);
}

static void put_tensor(make_bytes *b, char *const *field)
{
    put_global(b, "torch._utils", "_rebuild_tensor_v2");
    put_op(b, '(');
    put_storage(b, field);
    put_number(b, strtoll(field[3], NULL, 10));
    put_tuple(b, field[4]);
    put_tuple(b, field[5]);
    put_op(b, 0x89);
    put_dict(b);
    make_put(b, "tR", 2);
}

/* Cuts at colons, in place. */
static void split(char *text, char *field[7])
{
    for (int i = 0; i < 7; i++) {
        char *colon = strchr(text, ':');
        field[i] = text;
        text = colon ? colon + 1 : text + strlen(text);
        if (colon) *colon = 0;
    }
}

static void put_word(make_bytes *b, char *word)
{
    static const char memo[] = "qhrj";
    size_t n = strlen(word);
    char *field[7];
    if (word[0] == '\'') {
        put_text(b, word + 1, n - 2);
    } else if ((word[0] >= '0' && word[0] <= '9') || (word[0] == '-' && n > 1)) {
        put_number(b, strtoll(word, NULL, 10));
    } else if (n == 1) {
        if (word[0] == 'D')
            put_dict(b);
        else
            put_op(b, word[0]);
    } else if (word[0] == 'P') {
        put_op(b, 0x80);
        put_op(b, (int)strtol(word + 1, NULL, 10));
    } else if (word[0] == 'x') {
        put_op(b, (int)strtol(word + 1, NULL, 16));
    } else if (strchr(memo, word[0])) {
        put_op(b, word[0]);
        make_uint(b, strtoull(word + 1, NULL, 10), word[0] == 'q' || word[0] == 'h' ? 1 : 4);
    } else {
        split(word, field);
        if (word[0] == 'c')
            put_global(b, field[1], field[2]);
        else if (word[0] == 'S')
            put_storage(b, field + 1);
        else
            put_tensor(b, field + 1);
    }
}

void make_pickle(make_bytes *b, const char *words)
{
    while (*words) {
        char word[600];
        size_t n = strcspn(words, " ");
        if (n >= sizeof word) abort();
        memcpy(word, words, n);
        word[n] = 0;
        put_word(b, word);
        words += n + (words[n] == ' ');
    }
}

void make_entry(make_zip *z, const char *name, const void *data, size_t n)
{
    int i = z->n_entry++;
    if (i >= MAKE_MAX_ENTRY) abort();
    snprintf(z->name[i], sizeof z->name[i], "%s", name);
    size_t n_name = strlen(z->name[i]);
    z->local[i] = z->out.n;
    z->n_byte[i] = n;
    z->crc[i] = kvref_zip_crc(0, data, n);
    size_t n_pad = 63 - (z->out.n + 30 + n_name + 4 + 63) % 64;
    make_uint(&z->out, 0x04034b50, 4);
    make_uint(&z->out, 0x08080000, 6); /* version 0, flags 0x0808 */
    make_uint(&z->out, 0, 16);         /* method, time, crc and sizes: all 0 */
    make_uint(&z->out, n_name, 2);
    make_uint(&z->out, n_pad + 4, 2);
    make_put(&z->out, name, n_name);
    make_put(&z->out, "FB", 2);
    make_uint(&z->out, n_pad, 2);
    while (n_pad--) put_op(&z->out, 'Z');
    make_put(&z->out, data, n);
}

static void put_central(make_zip *z, int i)
{
    make_bytes *o = &z->out;
    int wide = z->wide >> i & 1;
    size_t n_name = strlen(z->name[i]);
    z->central[i] = o->n;
    make_uint(o, 0x02014b50, 4);
    make_uint(o, 0, 4);
    make_uint(o, 0x0808, 2);
    make_uint(o, 0, 6);
    make_uint(o, z->crc[i], 4);
    make_uint(o, wide ? UINT32_MAX : z->n_byte[i], 4);
    make_uint(o, wide ? UINT32_MAX : z->n_byte[i], 4);
    make_uint(o, n_name, 2);
    make_uint(o, wide ? 34 : 0, 2);
    make_uint(o, 0, 10); /* comment length, disk, attributes */
    make_uint(o, wide ? UINT32_MAX : z->local[i], 4);
    make_put(o, z->name[i], n_name);
    if (!wide) return;
    make_uint(o, 0x00027878, 4); /* another extra field comes first: 2 bytes */
    make_uint(o, 0, 2);
    make_uint(o, 0x00180001, 4);
    make_uint(o, z->n_byte[i], 8);
    make_uint(o, z->n_byte[i], 8);
    make_uint(o, z->local[i], 8);
}

void make_end(make_zip *z, int with_zip64)
{
    make_bytes *o = &z->out;
    size_t at = o->n;
    for (int i = 0; i < z->n_entry; i++) put_central(z, i);
    size_t n = o->n - at, n_entry = (size_t)z->n_entry;
    if (with_zip64) {
        z->end64 = o->n;
        make_uint(o, 0x06064b50, 4);
        make_uint(o, 44, 8);
        make_uint(o, 0, 12);
        make_uint(o, n_entry, 8);
        make_uint(o, n_entry, 8);
        make_uint(o, n, 8);
        make_uint(o, at, 8);
        z->locator = o->n;
        make_uint(o, 0x07064b50, 8);
        make_uint(o, z->end64, 8);
        make_uint(o, 1, 4);
    }
    z->end = o->n;
    make_uint(o, 0x06054b50, 8);
    make_uint(o, n_entry, 2);
    make_uint(o, n_entry, 2);
    make_uint(o, n, 4);
    make_uint(o, at, 4);
    make_uint(o, 0, 2);
}

void make_archive(make_zip *z, const char *words, size_t n_storage)
{
    *z = (make_zip){0};
    make_bytes pickle = {0}, storage = {0};
    make_pickle(&pickle, words);
    for (size_t i = 1; i <= n_storage; i++) put_op(&storage, (int)(i & 255));
    make_put(&storage, "", 0);
    make_entry(z, "x/data.pkl", pickle.data, pickle.n);
    make_entry(z, "x/data/0", n_storage ? storage.data : (const uint8_t *)"", n_storage);
    make_entry(z, "x/version", "3\n", 2);
    make_free(&pickle);
    make_free(&storage);
}
