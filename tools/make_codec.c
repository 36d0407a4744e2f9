/* SPDX-License-Identifier: MIT */
/* The codec of make-model. It is written before the model, whose config.json comes last of
 * all: a folder with a config has all the rest. */
#include "tools/make_codec.h"

#include "base/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const codec_file[] = {"codec.safetensors", "codec.pth", "codec.json"};

kvref_status
make_codec_dims(kvref_codec_dims *out, const kvref_config *config, kvref_error *err)
{
    if (config->n_codebook < 2 || config->n_codebook > 32 || config->n_code > 1 << 16)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "no codec for such a model: expected 2 to 32 books of at most 65536 "
                          "codes, found %d of %d",
                          config->n_codebook,
                          config->n_code);
    *out = kvref_codec_dims_toy();
    out->n_semantic = config->n_code;
    out->n_book = config->n_codebook - 1;
    out->n_code = config->n_code < 1024 ? config->n_code : 1024; /* as the real one has it */
    return KVREF_OK;
}

static kvref_status claim_dir(made_codec *out, const char *dir, kvref_error *err)
{
    out->made_dir = mkdir(dir, 0777) == 0;
    if (out->made_dir) return KVREF_OK;
    if (errno != EEXIST)
        return kvref_fail(
            err, KVREF_E_IO, "%s: cannot make the folder: %s", dir, strerror(errno));
    for (size_t i = 0; i < sizeof codec_file / sizeof codec_file[0]; i++) {
        struct stat st;
        char *path = kvref_path_join(dir, codec_file[i]);
        if (!path) return kvref_fail(err, KVREF_E_MEMORY, "%s: out of memory", dir);
        bool there = lstat(path, &st) == 0;
        free(path);
        if (there)
            return kvref_fail(err, KVREF_E_ARG, "%s: already holds %s", dir, codec_file[i]);
    }
    return KVREF_OK;
}

void make_codec_undo(const made_codec *made, const char *dir)
{
    size_t n = made->files ? sizeof codec_file / sizeof codec_file[0] : 0;
    for (size_t i = 0; i < n; i++) {
        char *path = kvref_path_join(dir, codec_file[i]);
        if (path) unlink(path);
        free(path);
    }
    if (made->made_dir) rmdir(dir);
}

kvref_status make_codec_write(made_codec *out,
                              const char *dir,
                              const kvref_codec_dims *dims,
                              unsigned files,
                              const kvref_synth_codec_opts *opts,
                              kvref_error *err)
{
    kvref_synth_codec_opts o = *opts;
    *out = (made_codec){0};
    if (files == 0) return KVREF_OK;
    KVREF_TRY(claim_dir(out, dir, err));
    kvref_status s = KVREF_OK;
    out->files = files; /* from here undo may remove them */
    for (unsigned form = 1; form <= 2 && s == KVREF_OK; form++) {
        o.pth = form == MAKE_CODEC_PTH;
        if (files & form) s = kvref_synth_codec_write(dir, dims, &o, err);
    }
    if (s != KVREF_OK) make_codec_undo(out, dir);
    return s;
}
