/* SPDX-License-Identifier: MIT */
/* Output paths are tried by making a file in their folder: only that tells about /proc, full
 * inode tables and the like. Paths are the same when folder and name are: files are written
 * under another name and renamed. */
#include "tools/paths.h"

#include "base/base.h"
#include "tools/term.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder of a path, with the slash at its end; NULL when out of memory. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, (size_t)(slash - path) + 1) : strdup("./");
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Makes a file in a folder and removes it. */
static kvref_status
try_folder(const char *folder, const char *option, const char *path, kvref_error *err)
{
    char *probe = kvref_path_join(folder, ".kvref-XXXXXX");
    if (!probe) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    kvref_status s = KVREF_OK;
    term_hold();
    int fd = mkstemp(probe);
    if (fd < 0)
        s = kvref_fail(
            err, KVREF_E_IO, "%s: %s: cannot write there: %s", option, path, strerror(errno));
    if (fd >= 0) {
        close(fd);
        unlink(probe);
    }
    term_release();
    free(probe);
    return s;
}

kvref_status check_output(const char *option, const char *path, kvref_error *err)
{
    struct stat st;
    if (strcmp(path, "-") == 0) return KVREF_OK;
    bool there = stat(path, &st) == 0;
    if (!there && errno == ENAMETOOLONG) /* would show when the finished file is renamed */
        return kvref_fail(err, KVREF_E_ARG, "%s: %s: %s", option, path, strerror(errno));
    if (there && S_ISDIR(st.st_mode))
        return kvref_fail(
            err, KVREF_E_IO, "%s: %s: expected a file to write, found a folder", option, path);
    if (there && !S_ISREG(st.st_mode)) return KVREF_OK;
    if (!*name_of(path))
        return kvref_fail(
            err, KVREF_E_ARG, "%s: expected a file name, found \"%s\"", option, path);
    char *folder = folder_of(path);
    if (!folder) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    kvref_status s = try_folder(folder, option, path, err);
    free(folder);
    return s;
}

static bool is_model_name(const char *name)
{
    static const char *const end[] = {".json", ".safetensors", ".pth"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof end / sizeof end[0]; i++)
        if (n >= strlen(end[i]) && strcmp(name + n - strlen(end[i]), end[i]) == 0) return true;
    return false;
}

kvref_status
check_output_beside(const char *option, const char *path, const char *model, kvref_error *err)
{
    char *folder = folder_of(path);
    char *a = folder ? realpath(folder, NULL) : NULL, *b = model ? realpath(model, NULL) : NULL;
    bool inside = is_model_name(path) && a && b && strcmp(a, b) == 0;
    free(folder);
    free(a);
    free(b);
    if (inside)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "%s: expected a name that is none of --model's files, found \"%s\"",
                          option,
                          path);
    return check_output(option, path, err);
}

static bool same_path(const char *a, const char *b)
{
    struct stat st;
    if (strcmp(name_of(a), name_of(b)) != 0) return false;
    if (stat(a, &st) == 0 && !S_ISREG(st.st_mode)) return false;
    char *fa = folder_of(a), *fb = folder_of(b);
    char *ra = fa ? realpath(fa, NULL) : NULL, *rb = fb ? realpath(fb, NULL) : NULL;
    bool same = ra && rb && strcmp(ra, rb) == 0;
    free(fa);
    free(fb);
    free(ra);
    free(rb);
    return same;
}

kvref_status check_distinct(const named_path *path, int n, kvref_error *err)
{
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++)
            if (path[i].path && path[k].path && same_path(path[i].path, path[k].path))
                return kvref_fail(err,
                                  KVREF_E_ARG,
                                  "%s and %s: expected two files, found \"%s\" for both",
                                  path[i].option,
                                  path[k].option,
                                  path[k].path);
    return KVREF_OK;
}

kvref_status check_folder(const char *option, const char *path, kvref_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return kvref_fail(
            err, KVREF_E_MISSING, "%s: \"%s\": %s", option, path, strerror(errno));
    if (S_ISDIR(st.st_mode)) return KVREF_OK;
    return kvref_fail(
        err, KVREF_E_ARG, "%s: %s: expected a folder, found a file", option, path);
}

kvref_status blame(const char *name, kvref_status status, kvref_error *err)
{
    if (status == KVREF_OK) return KVREF_OK;
    kvref_error before = *err;
    return kvref_fail(err, status, "%s: %s", name, before.text);
}
