/* SPDX-License-Identifier: MIT */
/* Writes a synthetic checkpoint folder: config.json, weights by formula as safetensors in one
 * of the official layouts, and a small tokenizer. Tensors are made a panel at a time straight
 * into their file dtype, so memory does not depend on the model. Everything is planned and
 * checked before the first file; a failure or a stop removes what was written. */
#include "kvref/synth.h"

#include "base/base.h"
#include "base/synth.h"
#include "base/tensors.h"
#include "kvref/half.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PANEL = 1 << 18 }; /* elements made at a time */

/* A tensor of a file: rows of the formula tensor `spec`, from element `first` on. */
typedef struct item {
    char name[128]; /* in the file */
    const kvref_tensor_spec *spec;
    uint64_t first, n;
    int64_t dim[2];
    int shard;
} item;

typedef struct job {
    const char *dir;
    const kvref_config *config;
    const kvref_synth_opts *opts;
    kvref_tensor_spec *spec;
    item *item;
    int n_spec, n_item, n_shard;
    uint64_t total, done; /* bytes of all tensors */
    char *config_text, *tokenizer_text, *index_text;
    char **made; /* [n_made] paths that a failure removes */
    size_t n_made, cap_made;
    bool made_dir;
    uint8_t *panel;
} job;

/* The name of an internal tensor in the file (spec 01 section 3.2). An untied head keeps its
 * own name below text_model.model, which is what maps back to output.weight. */
static void file_name(char *out, size_t cap, const char *name, bool nested)
{
    const char *prefix = "";
    if (nested && strncmp(name, "fast_", 5) == 0) {
        prefix = "audio_decoder.";
        name += 5;
    } else if (nested) {
        bool audio = strncmp(name, "codebook_embeddings.", 20) == 0;
        prefix = audio ? "audio_decoder." : "text_model.model.";
    }
    snprintf(out, cap, "%s%s", prefix, name);
}

/* Rows row..row+n_row-1 of the formula tensor under the internal name `name`. */
static void
add_item(job *j, const kvref_tensor_spec *spec, const char *name, int64_t row, int64_t n_row)
{
    item *it = &j->item[j->n_item++];
    int64_t n_col = spec->n_dim > 1 ? spec->dim[1] : 1;
    it->spec = spec;
    it->first = (uint64_t)(row * n_col);
    it->n = (uint64_t)(n_row * n_col);
    it->dim[0] = n_row;
    it->dim[1] = n_col;
    file_name(it->name, sizeof it->name, name, j->opts->nested);
    j->total += it->n * kvref_dtype_size(j->opts->dtype);
}

/* One tensor, or q, k and v as three tensors of its rows; the same for their biases. */
static kvref_status add_slot(void *user, const kvref_slot *slot, kvref_error *err)
{
    job *j = user;
    kvref_tensor_spec *spec = &j->spec[j->n_spec++];
    (void)err;
    *spec = slot->spec;
    bool split = slot->n_part == 3 && j->opts->split_qkv;
    if (!split) add_item(j, spec, spec->name, 0, spec->dim[0]);
    for (int i = 0, row = 0; split && i < 3; row += slot->n_row[i++]) {
        kvref_tensor_spec part;
        kvref_part_spec(&part, slot, i);
        add_item(j, spec, part.name, row, slot->n_row[i]);
    }
    return KVREF_OK;
}

/* Deals the items to shards in order, by bytes, so that every shard has at least one. A layer
 * may lie across two shards, as it does in the real files. */
static void deal(job *j)
{
    uint64_t sum = 0, share = j->total / (uint64_t)j->n_shard;
    int shard = 0;
    for (int i = 0; i < j->n_item; i++) {
        j->item[i].shard = shard;
        sum += j->item[i].n * kvref_dtype_size(j->opts->dtype);
        int later = j->n_shard - 1 - shard;
        if (later > 0 && (sum >= share * (uint64_t)(shard + 1) || j->n_item - 1 - i == later))
            shard++;
    }
}

static kvref_status plan(job *j, kvref_error *err)
{
    int n_spec = kvref_config_tensors(j->config, NULL, 0);
    j->spec = calloc((size_t)n_spec, sizeof *j->spec);
    j->item = calloc((size_t)n_spec, 3 * sizeof *j->item);
    j->panel = malloc(PANEL * kvref_dtype_size(j->opts->dtype));
    if (!j->spec || !j->item || !j->panel)
        return kvref_fail(err, KVREF_E_MEMORY, "%s: out of memory", j->dir);
    KVREF_TRY(kvref_slots_walk(j->config, NULL, add_slot, j, err));
    if (j->opts->n_shard < 1 || j->opts->n_shard > j->n_item)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "shards: expected 1..%d (the number of tensors), found %d",
                          j->n_item,
                          j->opts->n_shard);
    j->n_shard = j->opts->n_shard;
    deal(j);
    return KVREF_OK;
}

/* The text of config.json, and proof that reading it gives back the same config: a config that
 * a reader would refuse, or could not express, never reaches the disk. */
static kvref_status check_config(job *j, kvref_error *err)
{
    kvref_config back;
    char *again = NULL;
    bool nested = j->opts->nested;
    KVREF_TRY(kvref_synth_config(&j->config_text, j->config, nested, err));
    KVREF_TRY(kvref_config_parse(
        &back, j->config_text, strlen(j->config_text), "config of the new model", err));
    KVREF_TRY(kvref_synth_config(&again, &back, nested, err));
    bool same = strcmp(again, j->config_text) == 0;
    free(again);
    if (same) return KVREF_OK;
    return kvref_fail(err, KVREF_E_ARG, "config: some value does not survive config.json");
}

/* The text of tokenizer.json, read back as the config is: its ids are those of the config. */
static kvref_status check_tokenizer(job *j, kvref_error *err)
{
    kvref_tokenizer *t;
    int32_t begin, end;
    int n;
    KVREF_TRY(kvref_synth_tokenizer(&j->tokenizer_text, j->config, err));
    size_t n_byte = strlen(j->tokenizer_text);
    KVREF_TRY(kvref_tokenizer_parse(
        &t, j->tokenizer_text, n_byte, "tokenizer of the new model", err));
    kvref_tokenizer_semantic(t, &begin, &end, &n);
    bool same = begin == j->config->semantic_begin && end == j->config->semantic_end &&
                n == j->config->n_code &&
                kvref_tokenizer_id(t, "<|im_end|>") == j->config->im_end;
    kvref_tokenizer_close(&t);
    if (same) return KVREF_OK;
    return kvref_fail(err, KVREF_E_ARG, "tokenizer: its ids cannot be those of the config");
}

static void shard_name(char *out, size_t cap, const job *j, int shard)
{
    if (j->n_shard == 1) {
        snprintf(out, cap, "model.safetensors");
    } else {
        snprintf(out, cap, "model-%05d-of-%05d.safetensors", shard + 1, j->n_shard);
    }
}

static kvref_status make_index(job *j, kvref_error *err)
{
    json_t *map = json_object();
    bool lost = false;
    for (int i = 0; i < j->n_item; i++) {
        char name[64];
        shard_name(name, sizeof name, j, j->item[i].shard);
        lost |= json_object_set_new(map, j->item[i].name, json_string(name)) != 0;
    }
    json_t *doc = json_pack(
        "{s:{s:I},s:o}", "metadata", "total_size", (json_int_t)j->total, "weight_map", map);
    if (doc && !lost) j->index_text = json_dumps(doc, JSON_INDENT(2));
    json_decref(doc);
    if (!j->index_text) return kvref_fail(err, KVREF_E_MEMORY, "%s: out of memory", j->dir);
    return KVREF_OK;
}

/* The folder exists afterwards and holds no checkpoint. */
static kvref_status claim_dir(job *j, kvref_error *err)
{
    static const char *const taken[] = {"config.json",
                                        "tokenizer.json",
                                        "model.safetensors",
                                        "model.safetensors.index.json",
                                        "model.pth"};
    if (mkdir(j->dir, 0777) == 0) {
        j->made_dir = true;
        return KVREF_OK;
    }
    if (errno != EEXIST)
        return kvref_fail(
            err, KVREF_E_IO, "%s: cannot make the folder: %s", j->dir, strerror(errno));
    int n_taken = (int)(sizeof taken / sizeof taken[0]);
    for (int i = -j->n_shard; i < n_taken; i++) {
        char name[64];
        struct stat st;
        if (i < 0) {
            shard_name(name, sizeof name, j, i + j->n_shard);
        } else {
            snprintf(name, sizeof name, "%s", taken[i]);
        }
        char *path = kvref_path_join(j->dir, name);
        if (!path) return kvref_fail(err, KVREF_E_MEMORY, "%s: out of memory", j->dir);
        bool there = lstat(path, &st) == 0;
        free(path);
        if (there) return kvref_fail(err, KVREF_E_ARG, "%s: already holds %s", j->dir, name);
    }
    return KVREF_OK;
}

/* dir/name, remembered so that a failure removes it. */
static kvref_status new_path(job *j, const char **path, const char *name, kvref_error *err)
{
    KVREF_TRY(kvref_grow((void **)&j->made, &j->cap_made, j->n_made + 1, sizeof *j->made, err));
    char *p = kvref_path_join(j->dir, name);
    if (!p) return kvref_fail(err, KVREF_E_MEMORY, "%s: out of memory", j->dir);
    j->made[j->n_made++] = p;
    *path = p;
    return KVREF_OK;
}

static kvref_status put_text(job *j, const char *name, const char *text, kvref_error *err)
{
    const char *path;
    kvref_out *out = NULL;
    KVREF_TRY(new_path(j, &path, name, err));
    KVREF_TRY(kvref_out_open(&out, path, err));
    kvref_status s = kvref_out_put(out, text, strlen(text), err);
    if (s == KVREF_OK) s = kvref_out_put(out, "\n", 1, err);
    if (s == KVREF_OK) s = kvref_out_commit(&out, err);
    kvref_out_abort(&out);
    return s;
}

/* Elements first..first+n-1 in the file dtype. value [256]: the tensor's values, exact in
 * every dtype. */
static void make_panel(
    void *out, kvref_dtype dtype, const float *value, uint32_t fnv, uint64_t first, size_t n)
{
    uint16_t half[256];
    if (dtype == KVREF_F32) {
        float *x = out;
        for (size_t i = 0; i < n; i++)
            x[i] = value[kvref_synth_mix(fnv, (uint32_t)(first + i)) >> 24];
        return;
    }
    for (int top = 0; top < 256; top++)
        half[top] =
            dtype == KVREF_BF16 ? kvref_f32_bf16(value[top]) : kvref_f32_f16(value[top]);
    uint16_t *x = out;
    for (size_t i = 0; i < n; i++)
        x[i] = half[kvref_synth_mix(fnv, (uint32_t)(first + i)) >> 24];
}

static kvref_status put_item(job *j, kvref_writer *w, const item *it, kvref_error *err)
{
    float value[256];
    size_t size = kvref_dtype_size(j->opts->dtype);
    kvref_synth_table(value, it->spec->name, it->spec->dim, it->spec->n_dim);
    uint32_t fnv = kvref_synth_fnv(it->spec->name);
    for (uint64_t at = 0; at < it->n;) {
        size_t n = it->n - at < PANEL ? (size_t)(it->n - at) : PANEL;
        make_panel(j->panel, j->opts->dtype, value, fnv, it->first + at, n);
        KVREF_TRY(kvref_writer_put(w, j->panel, n * size, err));
        at += n;
        j->done += n * size;
        if (j->opts->progress && j->opts->progress(j->opts->user, j->done, j->total) != 0)
            return kvref_fail(err, KVREF_E_STOPPED, "%s: stopped", j->dir);
    }
    return KVREF_OK;
}

static kvref_status put_shard(job *j, int shard, kvref_error *err)
{
    static const char *const meta[] = {"format", "pt"};
    char name[64];
    const char *path;
    shard_name(name, sizeof name, j, shard);
    KVREF_TRY(new_path(j, &path, name, err));
    kvref_tensor *decl = calloc((size_t)j->n_item, sizeof *decl);
    if (!decl) return kvref_fail(err, KVREF_E_MEMORY, "%s: out of memory", path);
    int n = 0, first = 0;
    for (int i = 0; i < j->n_item; i++) {
        const item *it = &j->item[i];
        if (it->shard != shard) continue;
        if (n == 0) first = i;
        decl[n++] = (kvref_tensor){.name = it->name,
                                   .dtype = j->opts->dtype,
                                   .n_dim = it->spec->n_dim,
                                   .dim = {it->dim[0], it->dim[1]}};
    }
    kvref_writer *w = NULL;
    kvref_status s = kvref_writer_open(&w, path, decl, n, meta, 1, err);
    free(decl);
    for (int i = 0; i < n && s == KVREF_OK; i++) s = put_item(j, w, &j->item[first + i], err);
    if (s == KVREF_OK) s = kvref_writer_commit(&w, err);
    kvref_writer_abort(&w);
    return s;
}

/* Everything, config.json last: a folder with a config has all the rest. */
static kvref_status put_all(job *j, kvref_error *err)
{
    KVREF_TRY(claim_dir(j, err));
    if (j->tokenizer_text) KVREF_TRY(put_text(j, "tokenizer.json", j->tokenizer_text, err));
    for (int shard = 0; shard < j->n_shard; shard++) KVREF_TRY(put_shard(j, shard, err));
    if (j->index_text)
        KVREF_TRY(put_text(j, "model.safetensors.index.json", j->index_text, err));
    return put_text(j, "config.json", j->config_text, err);
}

static void finish(job *j, bool keep)
{
    for (size_t i = 0; i < j->n_made; i++) {
        if (!keep) unlink(j->made[i]);
        free(j->made[i]);
    }
    if (!keep && j->made_dir) rmdir(j->dir);
    free(j->made);
    free(j->panel);
    free(j->item);
    free(j->spec);
    free(j->config_text);
    free(j->tokenizer_text);
    free(j->index_text);
}

kvref_status kvref_synth_write(const char *dir,
                               const kvref_config *config,
                               const kvref_synth_opts *opts,
                               kvref_error *err)
{
    if (opts->dtype != KVREF_F32 && opts->dtype != KVREF_F16 && opts->dtype != KVREF_BF16)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "dtype: expected F32, F16 or BF16, found %s",
                          kvref_dtype_name(opts->dtype));
    job j = {.dir = dir, .config = config, .opts = opts};
    kvref_status s = check_config(&j, err);
    if (s == KVREF_OK && opts->tokenizer) s = check_tokenizer(&j, err);
    if (s == KVREF_OK) s = plan(&j, err);
    if (s == KVREF_OK && j.n_shard > 1) s = make_index(&j, err);
    if (s == KVREF_OK) s = put_all(&j, err);
    finish(&j, s == KVREF_OK);
    return s;
}
