/* SPDX-License-Identifier: MIT */
/* What both runs were fed: the prompt and, from the second call on, the frames. Numbers of a
 * step can be judged only while these are the same. Frames may be forced or drawn; which, says
 * the metadata "stop" of a trace (forced), and otherwise nobody. */
#include "base/diff_parts.h"

#include <string.h>

/* An integer tensor [column, width] with values, or NULL. */
static const kvref_tensor *columns(const kvref_file *file, const char *name)
{
    const kvref_tensor *t = kvref_file_find(file, name);
    if (!t || kvref_is_float(t->dtype) || t->n_dim != 2 || t->n_byte == 0 ||
        t->dim[1] > KVREF_MAX_COLUMN)
        return NULL;
    return t;
}

static bool forced(const kvref_file *file)
{
    const char *stop = kvref_file_meta(file, "stop");
    return stop && strcmp(stop, "forced") == 0;
}

/* First element in which the columns of both differ; the number of common ones when none. */
static size_t first_other(const kvref_tensor *a, const kvref_tensor *b)
{
    int64_t n = a->dim[0] < b->dim[0] ? a->dim[0] : b->dim[0];
    size_t n_value = (size_t)(n * a->dim[1]), i = 0;
    while (i < n_value && kvref_load_int(a, i) == kvref_load_int(b, i)) i++;
    return i;
}

/* Positions of the prompt: its own columns, what the first call held, or the rows of the slow
 * side that no frame fed. */
static int64_t count_prompt(const kvref_side *s, int64_t n_frame)
{
    if (s->prompt) return s->prompt->dim[0];
    const kvref_tensor *len = kvref_file_find(s->file, "slow.kv_len");
    if (len && !kvref_is_float(len->dtype) && len->n_dim == 1 && len->n_byte > 0 &&
        kvref_load_int(len, 0) >= 0)
        return kvref_load_int(len, 0);
    for (int i = 0; n_frame > 0 && !s->position.id && i < kvref_file_count(s->file); i++) {
        const kvref_tensor *t = kvref_file_at(s->file, i);
        if (t->n_dim > 0 && t->n_byte > 0 && t->dim[0] >= n_frame &&
            kvref_tap_parse(t->name).axis == KVREF_AXIS_POSITION)
            return t->dim[0] - n_frame + 1;
    }
    return -1;
}

static kvref_status load(const kvref_tensor *t, kvref_error *err)
{
    return t ? kvref_tensor_load(t, err) : KVREF_OK;
}

static void find_split(kvref_diff_job *job)
{
    kvref_diff *d = job->out;
    const kvref_tensor *a = job->side[0].frames, *b = job->side[1].frames;
    d->inputs = KVREF_INPUTS_SAME;
    size_t width = (size_t)a->dim[1], at = first_other(a, b);
    if (at == width * (size_t)(a->dim[0] < b->dim[0] ? a->dim[0] : b->dim[0])) return;
    d->inputs = KVREF_INPUTS_PART;
    int column = (int)(at % width);
    d->split = (kvref_choice){
        .frame = (int64_t)(at / width),
        .book = column > 0 ? column - 1 : 0,
        .column = column,
        .a = kvref_load_int(a, at),
        .b = kvref_load_int(b, at),
    };
    job->last_frame = d->split.frame;
    job->last_book = d->split.book;
}

static bool other_prompts(const kvref_side *a, const kvref_side *b)
{
    if (!a->prompt || !b->prompt || a->prompt->dim[1] != b->prompt->dim[1]) return false;
    return a->prompt->dim[0] != b->prompt->dim[0] ||
           first_other(a->prompt, b->prompt) <
               a->prompt->n_byte / kvref_dtype_size(a->prompt->dtype);
}

kvref_status kvref_diff_inputs(kvref_diff_job *job, kvref_error *err)
{
    kvref_diff *d = job->out;
    kvref_side *a = &job->side[0], *b = &job->side[1];
    for (int i = 0; i < 2; i++) {
        kvref_side *s = &job->side[i];
        s->prompt = columns(s->file, "prompt");
        s->frames = columns(s->file, "frames");
        KVREF_TRY(load(s->prompt, err));
        KVREF_TRY(load(s->frames, err));
        KVREF_TRY(load(kvref_file_find(s->file, "slow.kv_len"), err));
    }
    d->forced_a = forced(a->file);
    d->forced_b = forced(b->file);
    d->n_frame_a = a->frames ? a->frames->dim[0] : -1;
    d->n_frame_b = b->frames ? b->frames->dim[0] : -1;
    d->n_prompt = count_prompt(a, d->n_frame_a);
    if (d->n_prompt < 0) d->n_prompt = count_prompt(b, d->n_frame_b);
    job->last_frame = INT64_MAX;
    job->last_book = INT64_MAX;
    if (other_prompts(a, b)) {
        d->inputs = KVREF_INPUTS_PROMPT;
        job->last_frame = -1;
    } else if (a->frames && b->frames && a->frames->dim[1] == b->frames->dim[1]) {
        find_split(job);
    }
    return KVREF_OK;
}
