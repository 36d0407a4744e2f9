/* SPDX-License-Identifier: MIT */
/* Any bytes as a torch archive: read or refused, never a crash, and every tensor can be read
 * to its last byte. An input that does not start as a zip is taken as the pickle of one. */
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

extern "C" {
#include "base/file.h"
}

static void number(std::string &out, uint64_t value, int width)
{
    for (int k = 0; k < width; k++) out += static_cast<char>(value >> 8 * k & 255);
}

/* x/data.pkl with these bytes and x/data/0 of 64 bytes. */
static std::string archive(const uint8_t *data, size_t size)
{
    const std::string name[] = {"x/data.pkl", "x/data/0"};
    const std::string body[] = {std::string(reinterpret_cast<const char *>(data), size),
                                std::string(64, '\1')};
    std::string out, directory;
    for (int i = 0; i < 2; i++) {
        number(directory, 0x02014b50, 4);
        directory.append(16, '\0');
        number(directory, body[i].size(), 4);
        number(directory, body[i].size(), 4);
        number(directory, name[i].size(), 2);
        directory.append(12, '\0');
        number(directory, out.size(), 4);
        directory += name[i];
        number(out, 0x04034b50, 4);
        out.append(22, '\0');
        number(out, name[i].size(), 4);
        out += name[i] + body[i];
    }
    size_t at = out.size();
    out += directory;
    number(out, 0x06054b50, 4);
    number(out, 0, 6);
    number(out, 2, 2);
    number(out, directory.size(), 4);
    number(out, at, 4);
    number(out, 0, 2);
    return out;
}

static unsigned touch(const kvref_file *f)
{
    unsigned sum = 0;
    for (int i = 0; i < kvref_file_count(f); i++) {
        const kvref_tensor *t = kvref_file_at(f, i);
        kvref_error err = {};
        if (kvref_tensor_load(t, &err) != KVREF_OK) continue;
        const uint8_t *p = static_cast<const uint8_t *>(t->data);
        for (size_t k = 0; k < t->n_byte; k++) sum += p[k];
        if (strlen(t->name) == 0 || t->n_dim > KVREF_MAX_DIM) abort();
    }
    return sum;
}

static void parse(const void *data, size_t size)
{
    kvref_file *f = nullptr;
    kvref_error err = {};
    int part;
    if (kvref_file_new(&f, &err) != KVREF_OK) return;
    kvref_status s = kvref_file_add_memory(f, &part, "x.pth", data, size, &err);
    if (s == KVREF_OK) s = kvref_pth_parse(f, part, nullptr, &err);
    if (s == KVREF_OK) s = kvref_file_finish(f, &err);
    if (s == KVREF_OK) {
        static volatile unsigned sink;
        sink = touch(f);
    } else if (err.text[0] == 0) {
        abort();
    }
    kvref_file_close(&f);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size >= 2 && memcmp(data, "PK", 2) == 0) {
        parse(data, size);
    } else {
        std::string made = archive(data, size);
        parse(made.data(), made.size());
    }
    return 0;
}
