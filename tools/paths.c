/* SPDX-License-Identifier: MIT */
/* Output paths are tried by making a file in their folder: only that tells about /proc, full
 * inode tables and the like. Two paths are one file when they lead to one inode, or will. */
#include "tools/paths.h"

#include "base/base.h"
#include "tools/term.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
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

static bool ends_in(const char *name, const char *const *end, size_t n_end)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < n_end; i++)
        if (n >= strlen(end[i]) && strcasecmp(name + n - strlen(end[i]), end[i]) == 0)
            return true;
    return false;
}

static bool is_model_name(const char *name)
{
    static const char *const end[] = {".json", ".safetensors", ".pth"};
    return ends_in(name, end, sizeof end / sizeof end[0]);
}

bool is_sound_name(const char *name)
{
    static const char *const end[] = {".wav",
                                      ".flac",
                                      ".mp3",
                                      ".ogg",
                                      ".oga",
                                      ".opus",
                                      ".aiff",
                                      ".aif",
                                      ".m4a",
                                      ".au",
                                      ".caf"};
    return ends_in(name, end, sizeof end / sizeof end[0]);
}

/* What people keep in a model's folder and write again: not part of a checkpoint. */
static bool is_result_name(const char *name)
{
    static const char *const end[] = {".npy"};
    return is_sound_name(name) || ends_in(name, end, 1);
}

/* One file, under whatever names: also when it is not there yet. Devices and pipes are no
 * files in this sense. */
static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    bool x_there = stat(a, &x) == 0, y_there = stat(b, &y) == 0;
    if ((x_there && !S_ISREG(x.st_mode)) || (y_there && !S_ISREG(y.st_mode))) return false;
    if (x_there && y_there) return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    if (x_there != y_there) return false;
    char *p = kvref_path_target(a), *q = kvref_path_target(b);
    bool same = p && q && strcmp(p, q) == 0;
    free(p);
    free(q);
    return same;
}

/* Whether path is a file of the folder: by name in it or below it, or one that is there. */
static bool in_checkpoint(const char *path, const char *folder)
{
    char *target = kvref_path_target(path), *real = realpath(folder, NULL);
    size_t n = real ? strlen(real) : 0;
    bool inside = target && real && is_model_name(path) && strncmp(target, real, n) == 0 &&
                  target[n] == '/';
    free(target);
    free(real);
    DIR *dir = inside ? NULL : opendir(folder);
    for (struct dirent *e; dir && !inside && (e = readdir(dir));) {
        char *file = is_result_name(e->d_name) ? NULL : kvref_path_join(folder, e->d_name);
        inside = file && access(file, F_OK) == 0 && same_file(path, file);
        free(file);
    }
    if (dir) closedir(dir);
    return inside;
}

/* The file itself, or codec.json in its folder. */
static bool at_codec(const char *path, const char *codec)
{
    char *folder = folder_of(codec);
    char *json = folder ? kvref_path_join(folder, "codec.json") : NULL;
    bool same = same_file(path, codec) || (json && same_file(path, json));
    free(folder);
    free(json);
    return same;
}

kvref_status
check_output_beside(const char *option, const char *path, const char *model, kvref_error *err)
{
    struct stat st;
    bool folder = model && stat(model, &st) == 0 && S_ISDIR(st.st_mode);
    if (model && strcmp(path, "-") != 0 &&
        (folder ? in_checkpoint(path, model) : at_codec(path, model)))
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "%s: expected a name that is none of the files of %s, found \"%s\"",
                          option,
                          model,
                          path);
    return check_output(option, path, err);
}

kvref_status check_not_read(
    const char *option, const char *path, const named_path *read, int n, kvref_error *err)
{
    for (int i = 0; i < n; i++)
        if (read[i].path && strcmp(path, "-") != 0 && same_file(path, read[i].path))
            return kvref_fail(err,
                              KVREF_E_ARG,
                              "%s: expected another file than that of %s, found \"%s\"",
                              option,
                              read[i].option,
                              path);
    return KVREF_OK;
}

kvref_status check_codes_name(const char *option, const char *path, kvref_error *err)
{
    if (!is_sound_name(path)) return KVREF_OK;
    return kvref_fail(err,
                      KVREF_E_ARG,
                      "%s: expected a name for codes (.npy), found that of a sound, \"%s\"",
                      option,
                      path);
}

kvref_status check_not_dash(const char *name, const char *path, kvref_error *err)
{
    if (strcmp(path, "-") != 0) return KVREF_OK;
    return kvref_fail(err,
                      KVREF_E_ARG,
                      "%s: expected a file, found \"-\": standard input is not taken here",
                      name);
}

char *output_folder(const char *path)
{
    struct stat st;
    const char *temp = getenv("TMPDIR");
    bool file = strcmp(path, "-") != 0 && (stat(path, &st) != 0 || S_ISREG(st.st_mode));
    if (!file) return strdup(temp && *temp ? temp : "/tmp");
    char *target = kvref_path_target(path), *folder = target ? folder_of(target) : NULL;
    free(target);
    return folder;
}

const char *output_or_dash(const char *path)
{
    struct stat to, out;
    if (strcmp(path, "-") == 0 || stat(path, &to) != 0 || fstat(STDOUT_FILENO, &out) != 0)
        return path;
    bool same = to.st_dev == out.st_dev && to.st_ino == out.st_ino;
    bool device = S_ISCHR(out.st_mode) && !isatty(STDOUT_FILENO); /* such as /dev/null */
    return same && !device ? "-" : path;
}

kvref_status check_distinct(const named_path *path, int n, kvref_error *err)
{
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++)
            if (path[i].path && path[k].path && same_file(path[i].path, path[k].path))
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
