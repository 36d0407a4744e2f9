/* SPDX-License-Identifier: MIT */
/* Any bytes as a sound file: read or refused, never a crash. */
#include "kvref/audio.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = memfd_create("sound", 0);
    char path[64];
    if (fd < 0 || ftruncate(fd, 0) != 0) abort();
    if (pwrite(fd, data, size, 0) != static_cast<ssize_t>(size)) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    kvref_sound sound;
    kvref_error err;
    if (kvref_sound_read(&sound, path, &err) == KVREF_OK) {
        if (sound.n == 0 || sound.rate < 1) abort();
        kvref_sound_clear(&sound);
    } else if (err.text[0] == 0) {
        abort();
    }
    return 0;
}
