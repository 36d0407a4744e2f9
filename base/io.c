/* SPDX-License-Identifier: MIT */
/* Files: mapped whole for reading, written under a temporary name and renamed. */
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

kvref_status kvref_map_open(kvref_map *out, const char *path, kvref_error *err)
{
    static const uint8_t none[1];
    *out = (kvref_map){none, 0, NULL};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        int e = errno;
        return kvref_fail(
            err, e == ENOENT ? KVREF_E_MISSING : KVREF_E_IO, "%s: %s", path, strerror(e));
    }
    struct stat st;
    kvref_status s = KVREF_OK;
    if (fstat(fd, &st) != 0) {
        s = kvref_fail(err, KVREF_E_IO, "%s: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        s = kvref_fail(err,
                       KVREF_E_IO,
                       "%s: expected a regular file, found a %s",
                       path,
                       S_ISDIR(st.st_mode) ? "directory" : "device or pipe");
    } else if (st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) {
            s = kvref_fail(err, KVREF_E_IO, "%s: cannot map: %s", path, strerror(errno));
        } else {
            *out = (kvref_map){p, (size_t)st.st_size, p};
        }
    }
    close(fd);
    return s;
}

void kvref_map_close(kvref_map *map)
{
    if (map->base) munmap(map->base, map->n_byte);
    *map = (kvref_map){0};
}

char *kvref_path_join(const char *dir, const char *name)
{
    size_t n = strlen(dir), need = n + strlen(name) + 2;
    char *path = malloc(need);
    if (path) snprintf(path, need, "%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", name);
    return path;
}

/* What a link says, seen from its folder; NULL: no link. */
static char *follow(const char *path)
{
    char to[4096];
    ssize_t n = readlink(path, to, sizeof to - 1);
    if (n <= 0) return NULL;
    to[n] = 0;
    const char *slash = strrchr(path, '/');
    if (to[0] == '/' || !slash) return strdup(to);
    char *dir = strndup(path, (size_t)(slash - path) + 1);
    char *next = dir ? kvref_path_join(dir, to) : NULL;
    free(dir);
    return next;
}

char *kvref_path_target(const char *path)
{
    enum { MAX_LINK = 40 };
    char *at = realpath(path, NULL), *next;
    if (at) return at;
    at = strdup(path);
    for (int i = 0; at && i < MAX_LINK && (next = follow(at)); i++) {
        free(at);
        at = next;
    }
    const char *slash = at ? strrchr(at, '/') : NULL;
    char *dir = slash ? strndup(at, (size_t)(slash - at) + 1) : strdup("./");
    char *real = at && dir ? realpath(dir, NULL) : NULL;
    char *joined = real ? kvref_path_join(real, slash ? slash + 1 : at) : NULL;
    free(dir);
    free(real);
    if (!joined) return at;
    free(at);
    return joined;
}

struct kvref_out {
    char *path, *temp; /* temp NULL: no temporary file exists */
    FILE *file;
};

static kvref_status out_error(const kvref_out *o, kvref_error *err)
{
    return kvref_fail(err, KVREF_E_IO, "%s: cannot write: %s", o->path, strerror(errno));
}

/* Where the bytes really go: a link is followed, so that it is kept and its target replaced. A
 * device or a pipe is written straight, because renaming onto it would replace it. */
static kvref_status resolve(kvref_out *o, bool *straight, const char *path, kvref_error *err)
{
    struct stat st;
    bool there = stat(path, &st) == 0;
    if (!*path) return kvref_fail(err, KVREF_E_ARG, "output path: expected a name, found \"\"");
    if (there && S_ISDIR(st.st_mode))
        return kvref_fail(
            err, KVREF_E_IO, "%s: expected a file to write, found a directory", path);
    *straight = there && !S_ISREG(st.st_mode);
    bool link = lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
    o->path = link && !*straight ? kvref_path_target(path) : strdup(path);
    return o->path ? KVREF_OK : kvref_fail(err, KVREF_E_MEMORY, "out of memory");
}

static kvref_status open_straight(kvref_out *o, kvref_error *err)
{
    o->file = fopen(o->path, "wbe");
    return o->file ? KVREF_OK : out_error(o, err);
}

/* A new file in the folder of path, with the permissions any new file gets. The process number
 * keeps programs apart, O_EXCL the threads of one. */
static kvref_status open_beside(kvref_out *o, kvref_error *err)
{
    const char *slash = strrchr(o->path, '/');
    int n_dir = slash ? (int)(slash - o->path) + 1 : 0, fd = -1;
    size_t need = (size_t)n_dir + 48;
    char *temp = malloc(need);
    if (!temp) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    for (int i = 0; fd < 0 && i < 10000; i++) {
        snprintf(temp, need, "%.*s.kvref-%ld-%d.tmp", n_dir, o->path, (long)getpid(), i);
        fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) break;
    }
    if (fd < 0) {
        kvref_status s = out_error(o, err);
        free(temp);
        return s;
    }
    o->temp = temp;
    o->file = fdopen(fd, "wb");
    if (o->file) return KVREF_OK;
    close(fd);
    return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
}

kvref_status kvref_out_open(kvref_out **out, const char *path, kvref_error *err)
{
    *out = NULL;
    bool straight = false;
    kvref_out *o = calloc(1, sizeof *o);
    if (!o) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    kvref_status s = resolve(o, &straight, path, err);
    if (s == KVREF_OK) s = straight ? open_straight(o, err) : open_beside(o, err);
    if (s == KVREF_OK)
        *out = o;
    else
        kvref_out_abort(&o);
    return s;
}

kvref_status kvref_out_put(kvref_out *o, const void *data, size_t n_byte, kvref_error *err)
{
    if (n_byte && fwrite(data, 1, n_byte, o->file) != n_byte) return out_error(o, err);
    return KVREF_OK;
}

kvref_status kvref_out_commit(kvref_out **o, kvref_error *err)
{
    kvref_out *p = *o;
    kvref_status s = KVREF_OK;
    errno = EIO; /* of a write that failed earlier */
    bool bad = ferror(p->file) != 0;
    bad = fflush(p->file) != 0 || bad;
    bad = fclose(p->file) != 0 || bad;
    p->file = NULL;
    if (bad || (p->temp && rename(p->temp, p->path) != 0)) {
        s = out_error(p, err);
    } else {
        free(p->temp);
        p->temp = NULL;
    }
    kvref_out_abort(o);
    return s;
}

void kvref_out_abort(kvref_out **o)
{
    kvref_out *p = *o;
    if (!p) return;
    if (p->file) (void)fclose(p->file);
    if (p->temp) unlink(p->temp);
    free(p->temp);
    free(p->path);
    free(p);
    *o = NULL;
}
