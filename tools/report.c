/* SPDX-License-Identifier: MIT */
/* Reports of generate and say, and hashes. */
#include "tools/report.h"

#include "base/base.h"
#include "base/hash.h"
#include "tools/term.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct report {
    FILE *to;
    bool json;
    int n_length, sample;
    json_t *root, *settings, *samples, *batches;
};

report *report_open(FILE *to, bool json)
{
    report *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->to = to;
    r->json = json;
    r->root = json_object();
    r->settings = json_object();
    r->samples = json_array();
    r->batches = json_array();
    return r;
}

static double rate(int n_frame, double decode)
{
    return n_frame > 1 && decode > 0 ? (n_frame - 1) / decode : 0;
}

void report_batch(report *r,
                  int n_prompt,
                  const kvref_generated *g,
                  const char *stop,
                  double prefill,
                  double decode)
{
    int batch = (int)json_array_size(r->batches), n = g->frames.n_frame;
    r->n_length += g->stop == KVREF_STOP_LENGTH;
    json_array_append_new(r->batches,
                          json_pack("{s:i,s:i,s:i,s:s,s:f,s:f,s:f}",
                                    "prompt_positions",
                                    n_prompt,
                                    "frames_decoded",
                                    n,
                                    "frames_kept",
                                    g->codes.n_frame,
                                    "stop",
                                    stop,
                                    "prefill_seconds",
                                    prefill,
                                    "decode_seconds",
                                    decode,
                                    "frames_per_second",
                                    rate(n, decode)));
    if (r->json) return;
    fprintf(r->to,
            "sample %d batch %d: %d positions, then %d frames (%d kept), stopped by %s; "
            "prefill %.2f s, %.1f frames/s\n",
            r->sample,
            batch,
            n_prompt,
            n,
            g->codes.n_frame,
            stop,
            prefill,
            rate(n, decode));
    fflush(r->to);
}

uint64_t report_hash_codes(const kvref_codes *codes)
{
    size_t n = (size_t)codes->n_book * (size_t)codes->n_frame;
    return kvref_fnv64(KVREF_FNV64, codes->code, n * sizeof *codes->code);
}

void report_sample(report *r,
                   const char *codes_path,
                   const kvref_codes *codes,
                   const char *sound_path,
                   const sound_made *sound)
{
    char hash[20], name[400];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)report_hash_codes(codes));
    json_t *o = json_pack("{s:s?,s:i,s:i,s:s,s:O}",
                          "file",
                          codes_path ? term_clean(name, sizeof name, codes_path) : NULL,
                          "books",
                          codes->n_book,
                          "frames",
                          codes->n_frame,
                          "hash",
                          hash,
                          "batches",
                          r->batches);
    if (sound) json_object_set_new(o, "sound", sound_json(sound_path, sound));
    json_array_append_new(r->samples, o);
    json_decref(r->batches);
    r->batches = json_array();
    r->sample++;
    if (r->json) return;
    if (codes_path)
        fprintf(r->to,
                "%s: %d books, %d frames, hash %s\n",
                term_clean(name, sizeof name, codes_path),
                codes->n_book,
                codes->n_frame,
                hash);
    if (sound) sound_print(r->to, sound_path, sound);
}

void report_setting(report *r, const char *key, const char *value)
{
    char text[400];
    json_object_set_new(r->settings, key, json_string(term_clean(text, sizeof text, value)));
}

void report_session(report *r, const session *s)
{
    const decoder_args *d = s->decoder_args;
    const sampling_args *p = s->sampling_args;
    char model[400], noise[400];
    json_object_update_new(r->settings,
                           json_pack("{s:s,s:s,s:i,s:s,s:s,s:s,s:f,s:f,s:i,s:s,s:s,s:i,s:i,"
                                     "s:b,s:b,s:i,s:i}",
                                     "model",
                                     term_clean(model, sizeof model, d->model),
                                     "backend",
                                     s->backend->name,
                                     "capacity",
                                     s->backend->capacity(s->decoder),
                                     "attention",
                                     d->attention == KVREF_ATTN_PREFIX ? "prefix" : "full",
                                     "linear",
                                     d->linear == KVREF_LINEAR_EXACT ? "exact" : "blas",
                                     "rope_table",
                                     d->rope_table == KVREF_ROPE_BF16 ? "bf16" : "f32",
                                     "temperature",
                                     (double)p->temperature,
                                     "top_p",
                                     (double)p->top_p,
                                     "top_k",
                                     p->top_k,
                                     "noise",
                                     term_clean(noise, sizeof noise, p->noise),
                                     "control",
                                     s->control == KVREF_CONTROL_HONOUR ? "honour" : "plain",
                                     "max_new_tokens",
                                     p->max_new_tokens,
                                     "min_frames",
                                     p->min_frames,
                                     "stop_at_first_end",
                                     p->stop_at_first_end,
                                     "keep_last_frame",
                                     p->keep_last_frame,
                                     "threads",
                                     d->n_thread,
                                     "chunk_length",
                                     s->text_args->chunk_length));
    char seed[24]; /* a string: JSON readers lose the low bits of large numbers */
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)p->seed);
    report_setting(r, "seed", seed);
    report_setting(r, "exec", d->exec == KVREF_EXEC_GRAPH ? "graph" : "eager");
}

void report_device(report *r, const session *s)
{
    if (!s->backend || !s->decoder || !s->backend->device_bytes) return;
    size_t n_byte = s->backend->device_bytes(s->decoder);
    json_object_set_new(r->settings, "device_bytes", json_integer((json_int_t)n_byte));
    if (!r->json) fprintf(r->to, "device memory: %s\n", term_bytes((double)n_byte));
}

int report_close(report **out, bool good)
{
    report *r = *out;
    if (!r) return 0;
    int n_length = r->n_length;
    json_object_set_new(r->root, "settings", r->settings);
    json_object_set_new(r->root, "samples", r->samples);
    if (good && r->json) {
        json_dumpf(r->root, r->to, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        fputc('\n', r->to);
    }
    json_decref(r->batches);
    json_decref(r->root);
    free(r);
    *out = NULL;
    return n_length;
}

kvref_status
report_numbered(char *out, size_t cap, const char *path, int number, kvref_error *err)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    size_t stem = dot && dot != name ? (size_t)(dot - path) : strlen(path);
    int n = snprintf(out, cap, "%.*s_%d%s", (int)stem, path, number, path + stem);
    if (n < 0 || (size_t)n >= cap)
        return kvref_fail(err, KVREF_E_ARG, "%s: the file name is too long", path);
    return KVREF_OK;
}
