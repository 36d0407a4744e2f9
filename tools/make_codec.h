/* SPDX-License-Identifier: MIT */
/* The small codec that make-model puts beside a model: the real strides and windows, few
 * channels, as many books and codes as the model has. */
#ifndef KVREF_TOOLS_MAKE_CODEC_H
#define KVREF_TOOLS_MAKE_CODEC_H

#include "kvref/model.h"
#include "kvref/synth_codec.h"

/* Names for the option table; bits of the choice say which files. */
#define MAKE_CODEC_NAMES "none|safetensors|pth|both"

enum { MAKE_CODEC_SAFETENSORS = 1, MAKE_CODEC_PTH = 2 };

/* ARG when the model has fewer than 2 or more than 32 books. */
kvref_status
make_codec_dims(kvref_codec_dims *out, const kvref_config *config, kvref_error *err);

typedef struct made_codec {
    bool made_dir;
    unsigned files; /* MAKE_CODEC_* */
} made_codec;

/* Makes the folder when there is none and writes the files. ARG when it holds a codec. After an
 * error nothing is left. */
kvref_status make_codec_write(made_codec *out,
                              const char *dir,
                              const kvref_codec_dims *dims,
                              unsigned files,
                              const kvref_synth_codec_opts *opts,
                              kvref_error *err);

/* Takes it back, when what was to come beside it has failed. */
void make_codec_undo(const made_codec *made, const char *dir);

#endif
