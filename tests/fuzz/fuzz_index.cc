/* SPDX-License-Identifier: MIT */
/* Any bytes as model.safetensors.index.json beside one shard "s" with the tensor "a". */
#include "kvref/file.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

static std::string dir;

static void put(const char *name, const void *data, size_t size)
{
    FILE *f = fopen((dir + "/" + name).c_str(), "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0) abort();
}

static void clean()
{
    unlink((dir + "/s").c_str());
    unlink((dir + "/model.safetensors.index.json").c_str());
    rmdir(dir.c_str());
}

static void set_up()
{
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],"
                                 "\"data_offsets\":[0,1]}} ";
    std::string shard(8, '\0');
    shard[0] = sizeof header - 2;
    shard += header;
    char name[] = "/tmp/kvref-fuzz-index-XXXXXX";
    if (!mkdtemp(name)) abort();
    dir = name;
    put("s", shard.data(), shard.size());
    atexit(clean);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kvref_file *f;
    kvref_error err;
    if (dir.empty()) set_up();
    put("model.safetensors.index.json", data, size);
    if (kvref_file_open_dir(&f, dir.c_str(), nullptr, &err) == KVREF_OK) {
        if (kvref_file_count(f) > 1) abort();
        kvref_file_close(&f);
    } else if (err.text[0] == 0 || f) {
        abort();
    }
    return 0;
}
