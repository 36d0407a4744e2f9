/* SPDX-License-Identifier: MIT */
/* Uniform numbers from three sources: torch's CPU stream, a counter that any program can
 * address, and a file (spec 04 section 5). The first two give 24 bits a number, k / 2^24. */
#include "base/base.h"
#include "base/npy.h"
#include "base/random.h"
#include "kvref/sample.h"

#include <stdlib.h>
#include <string.h>

typedef enum noise_kind { NOISE_MT19937, NOISE_COUNTER, NOISE_FILE } noise_kind;

/* number [sample, frame, 2*n_main + (n_codebook-1)*n_code], left in the mapped file and looked
 * at when it is used: the file may be far larger than what a run needs of it. */
typedef struct noise_table {
    char *path;
    kvref_map map;
    kvref_npy number;
    int64_t width;
    int n_main, n_code, n_codebook;
} noise_table;

struct kvref_noise {
    noise_kind kind;
    kvref_mt19937 mt;
    uint32_t key[2];
    noise_table table;
};

static float unit(uint32_t bits24)
{
    return (float)bits24 * 0x1p-24f;
}

static kvref_noise *noise_new(noise_kind kind, kvref_error *err)
{
    kvref_noise *noise = calloc(1, sizeof *noise);
    if (noise)
        noise->kind = kind;
    else
        kvref_fail(err, KVREF_E_MEMORY, "noise: out of memory");
    return noise;
}

kvref_status kvref_noise_mt19937(kvref_noise **out, uint64_t seed, kvref_error *err)
{
    if (!(*out = noise_new(NOISE_MT19937, err))) return KVREF_E_MEMORY;
    kvref_mt19937_seed(&(*out)->mt, (uint32_t)seed);
    return KVREF_OK;
}

kvref_status kvref_noise_counter(kvref_noise **out, uint64_t seed, kvref_error *err)
{
    if (!(*out = noise_new(NOISE_COUNTER, err))) return KVREF_E_MEMORY;
    (*out)->key[0] = (uint32_t)seed;
    (*out)->key[1] = (uint32_t)(seed >> 32);
    return KVREF_OK;
}

static kvref_status read_table(noise_table *t, const char *path, kvref_error *err)
{
    const kvref_npy *a = &t->number;
    if (!(t->path = strdup(path))) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    KVREF_TRY(kvref_map_open(&t->map, t->path, err));
    KVREF_TRY(kvref_npy_parse(&t->number, t->map.data, t->map.n_byte, t->path, err));
    if (a->kind != 'f' || a->size != 4)
        return kvref_fail(
            err, KVREF_E_FORMAT, "%s: expected float32 ('<f4'), found '%s'", path, a->descr);
    if (a->n_dim != 3)
        return kvref_fail(err,
                          KVREF_E_SHAPE,
                          "%s: expected 3 axes (sample, frame, number), found %d",
                          path,
                          a->n_dim);
    if (a->dim[2] != t->width)
        return kvref_fail(err,
                          KVREF_E_SHAPE,
                          "%s: expected %lld numbers a frame (2 x %d main-token candidates + "
                          "%d x %d codes), found %lld",
                          path,
                          (long long)t->width,
                          t->n_main,
                          t->n_codebook - 1,
                          t->n_code,
                          (long long)a->dim[2]);
    return KVREF_OK;
}

kvref_status kvref_noise_file(kvref_noise **out,
                              const char *path,
                              int n_main,
                              int n_code,
                              int n_codebook,
                              kvref_error *err)
{
    *out = NULL;
    if (n_main < 1 || n_code < 1 || n_codebook < 1)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "noise file: expected sizes from 1 on, found %d, %d, %d",
                          n_main,
                          n_code,
                          n_codebook);
    if (!(*out = noise_new(NOISE_FILE, err))) return KVREF_E_MEMORY;
    noise_table *t = &(*out)->table;
    t->n_main = n_main;
    t->n_code = n_code;
    t->n_codebook = n_codebook;
    t->width = 2 * (int64_t)n_main + (n_codebook - 1) * (int64_t)n_code;
    kvref_status status = read_table(t, path, err);
    if (status != KVREF_OK) kvref_noise_close(out);
    return status;
}

static int32_t wanted(const kvref_draw *draw, int i)
{
    return draw->index ? draw->index[i] : i;
}

static kvref_status check_draw(const kvref_draw *draw, kvref_error *err)
{
    if (draw->sample < 0 || draw->frame < 0 || draw->set < 0)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "draw: expected sample, frame and set from 0 on, found %d, %d, %d",
                          draw->sample,
                          draw->frame,
                          draw->set);
    if (draw->n < 0 || draw->n > draw->n_set)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "draw: expected 0..%d numbers of the set, found %d",
                          draw->n_set,
                          draw->n);
    int32_t last = -1;
    for (int i = 0; i < draw->n; last = wanted(draw, i++))
        if (wanted(draw, i) <= last || wanted(draw, i) >= draw->n_set)
            return kvref_fail(err,
                              KVREF_E_ARG,
                              "draw: index %d: expected %d..%d, ascending, found %d",
                              i,
                              (int)last + 1,
                              draw->n_set - 1,
                              (int)wanted(draw, i));
    return KVREF_OK;
}

/* The stream passes over every number of the set, wanted or not. */
static void fill_mt19937(kvref_mt19937 *mt, float *u, const kvref_draw *draw)
{
    int at = 0;
    for (int i = 0; i < draw->n; i++) {
        kvref_mt19937_skip(mt, wanted(draw, i) - at);
        u[i] = unit(kvref_mt19937_next(mt) & 0xffffffu);
        at = wanted(draw, i) + 1;
    }
    kvref_mt19937_skip(mt, draw->n_set - at);
}

static void fill_counter(const uint32_t key[2], float *u, const kvref_draw *draw)
{
    for (int i = 0; i < draw->n; i++) {
        uint32_t word[4];
        const uint32_t counter[4] = {(uint32_t)wanted(draw, i),
                                     (uint32_t)draw->set,
                                     (uint32_t)draw->frame,
                                     (uint32_t)draw->sample};
        kvref_philox(word, counter, key);
        u[i] = unit(word[0] >> 8);
    }
}

/* Number i of a frame; one outside [0, 1) is an error of the file. */
static kvref_status
take(const noise_table *t, float *u, const kvref_draw *draw, int64_t i, kvref_error *err)
{
    const size_t *stride = t->number.stride;
    uint32_t bits =
        (uint32_t)kvref_npy_bits(&t->number,
                                 (size_t)draw->sample * stride[0] +
                                     (size_t)draw->frame * stride[1] + (size_t)i * stride[2]);
    memcpy(u, &bits, sizeof *u);
    if (*u >= 0 && *u < 1) return KVREF_OK;
    return kvref_fail(err,
                      KVREF_E_FORMAT,
                      "%s: sample %d, frame %d, number %lld: expected 0 <= u < 1, found %g",
                      t->path,
                      draw->sample,
                      draw->frame,
                      (long long)i,
                      (double)*u);
}

/* Main-token sets hold the candidates alone, in their order; code sets are whole. */
static kvref_status
fill_file(const noise_table *t, float *u, const kvref_draw *draw, kvref_error *err)
{
    const int64_t *dim = t->number.dim;
    if (draw->sample >= dim[0] || draw->frame >= dim[1])
        return kvref_fail(err,
                          KVREF_E_CAPACITY,
                          "noise file: expected sample below %lld and frame below %lld, "
                          "found %d and %d",
                          (long long)dim[0],
                          (long long)dim[1],
                          draw->sample,
                          draw->frame);
    bool main_token = draw->set < 2;
    int found = main_token ? draw->n : draw->n_set,
        expected = main_token ? t->n_main : t->n_code;
    if (draw->set > t->n_codebook || found != expected)
        return kvref_fail(err,
                          KVREF_E_ARG,
                          "noise file: set %d of %d numbers: expected %d (sets 0..%d)",
                          draw->set,
                          found,
                          expected,
                          t->n_codebook);
    int64_t from = main_token ? draw->set * (int64_t)t->n_main
                              : 2 * (int64_t)t->n_main + (draw->set - 2) * (int64_t)t->n_code;
    for (int i = 0; i < draw->n; i++)
        KVREF_TRY(take(t, &u[i], draw, from + (main_token ? i : wanted(draw, i)), err));
    return KVREF_OK;
}

kvref_status
kvref_noise_fill(kvref_noise *noise, float *u, const kvref_draw *draw, kvref_error *err)
{
    KVREF_TRY(check_draw(draw, err));
    switch (noise->kind) {
    case NOISE_MT19937:
        fill_mt19937(&noise->mt, u, draw);
        break;
    case NOISE_COUNTER:
        fill_counter(noise->key, u, draw);
        break;
    case NOISE_FILE:
        return fill_file(&noise->table, u, draw, err);
    }
    return KVREF_OK;
}

void kvref_noise_close(kvref_noise **noise)
{
    if (*noise) {
        kvref_map_close(&(*noise)->table.map);
        free((*noise)->table.path);
    }
    free(*noise);
    *noise = NULL;
}
