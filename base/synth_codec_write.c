/* SPDX-License-Identifier: MIT */
/* Writes a synthetic codec by the weight formula, a piece at a time. Ignored buffers are
 * filled with bytes 0xff: as weights they would be NaN, so reading them cannot go unseen. */
#include "kvref/synth_codec.h"

#include "base/base.h"
#include "base/pth_write.h"
#include "kvref/synth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 16 }; /* values made at a time */

typedef struct sink {
    kvref_pth_writer *pth;
    kvref_writer *safe;
    const kvref_synth_codec_opts *opts;
    uint64_t done, total;
    float *piece; /* [PIECE] */
} sink;

static kvref_status put(sink *s, const void *data, size_t n_byte, kvref_error *err)
{
    KVREF_TRY(s->pth ? kvref_pth_writer_put(s->pth, data, n_byte, err)
                     : kvref_writer_put(s->safe, data, n_byte, err));
    s->done += n_byte;
    if (s->opts->progress && s->opts->progress(s->opts->user, s->done, s->total))
        return kvref_fail(err, KVREF_E_STOPPED, "synthetic codec: stopped");
    return KVREF_OK;
}

static kvref_status put_tensor(sink *s, const kvref_tensor *t, kvref_error *err)
{
    size_t n_float = t->n_byte / sizeof(float);
    if (t->dtype == KVREF_F32) {
        for (size_t i = 0; i < n_float; i += PIECE) {
            size_t n = n_float - i < PIECE ? n_float - i : PIECE;
            kvref_synth_fill(s->piece, t->name, t->dim, t->n_dim, i, n);
            KVREF_TRY(put(s, s->piece, n * sizeof *s->piece, err));
        }
        return KVREF_OK;
    }
    memset(s->piece, 0xff, PIECE * sizeof *s->piece);
    for (size_t i = 0; i < t->n_byte; i += PIECE * sizeof *s->piece) {
        size_t rest = t->n_byte - i, most = PIECE * sizeof *s->piece;
        KVREF_TRY(put(s, s->piece, rest < most ? rest : most, err));
    }
    return KVREF_OK;
}

static kvref_status
write_tensors(sink *s, const kvref_synth_codec_list *list, const char *path, kvref_error *err)
{
    static const char *const meta[2] = {"format", "pt"};
    KVREF_TRY(s->opts->pth
                  ? kvref_pth_writer_open(&s->pth, path, list->tensor, list->n, err)
                  : kvref_writer_open(&s->safe, path, list->tensor, list->n, meta, 1, err));
    for (int i = 0; i < list->n; i++) KVREF_TRY(put_tensor(s, &list->tensor[i], err));
    return s->opts->pth ? kvref_pth_writer_commit(&s->pth, err)
                        : kvref_writer_commit(&s->safe, err);
}

static kvref_status write_weights(const char *path,
                                  const kvref_codec_dims *dims,
                                  const kvref_synth_codec_opts *opts,
                                  kvref_error *err)
{
    sink s = {.opts = opts};
    kvref_synth_codec_list list;
    KVREF_TRY(kvref_synth_codec_tensors(&list, dims, opts->dead_rows, err));
    for (int i = 0; i < list.n; i++) s.total += list.tensor[i].n_byte;
    s.piece = malloc(PIECE * sizeof *s.piece);
    kvref_status status = s.piece ? write_tensors(&s, &list, path, err)
                                  : kvref_fail(err, KVREF_E_MEMORY, "%s: out of memory", path);
    kvref_pth_writer_abort(&s.pth);
    kvref_writer_abort(&s.safe);
    free(s.piece);
    kvref_synth_codec_free(&list);
    return status;
}

/* Only what differs from upstream: head_dim, window, encoder_window. */
static kvref_status write_json(const char *path, const kvref_codec_dims *dims, kvref_error *err)
{
    kvref_codec_dims real = kvref_codec_dims_real();
    if (dims->head_dim == real.head_dim && dims->window == real.window &&
        dims->encoder_window == real.encoder_window)
        return KVREF_OK;
    char text[160];
    int n = snprintf(text,
                     sizeof text,
                     "{\"head_dim\": %d, \"window\": %d, \"encoder_window\": %d}\n",
                     dims->head_dim,
                     dims->window,
                     dims->encoder_window);
    kvref_out *out;
    KVREF_TRY(kvref_out_open(&out, path, err));
    kvref_status status = kvref_out_put(out, text, (size_t)n, err);
    if (status == KVREF_OK) return kvref_out_commit(&out, err);
    kvref_out_abort(&out);
    return status;
}

kvref_status kvref_synth_codec_write(const char *dir,
                                     const kvref_codec_dims *dims,
                                     const kvref_synth_codec_opts *opts,
                                     kvref_error *err)
{
    char *json = kvref_path_join(dir, "codec.json");
    char *path = kvref_path_join(dir, opts->pth ? "codec.pth" : "codec.safetensors");
    kvref_status status = KVREF_OK;
    if (!json || !path) status = kvref_fail(err, KVREF_E_MEMORY, "%s: out of memory", dir);
    if (status == KVREF_OK) status = write_weights(path, dims, opts, err);
    if (status == KVREF_OK) status = write_json(json, dims, err);
    free(json);
    free(path);
    return status;
}
