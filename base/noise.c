/* SPDX-License-Identifier: MIT */
/* Uniform numbers from torch's CPU stream or from a counter that any program can address
 * (spec 04 section 5). 24 bits a number, k / 2^24. */
#include "base/base.h"
#include "base/random.h"
#include "kvref/sample.h"

#include <stdlib.h>

typedef enum noise_kind { NOISE_MT19937, NOISE_COUNTER } noise_kind;

struct kvref_noise {
    noise_kind kind;
    kvref_mt19937 mt;
    uint32_t key[2];
};

static float unit(uint32_t bits24)
{
    return (float)bits24 * 0x1p-24f;
}

static kvref_status noise_new(kvref_noise **out, noise_kind kind, kvref_error *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out) return kvref_fail(err, KVREF_E_MEMORY, "noise: out of memory");
    (*out)->kind = kind;
    return KVREF_OK;
}

kvref_status kvref_noise_mt19937(kvref_noise **out, uint64_t seed, kvref_error *err)
{
    KVREF_TRY(noise_new(out, NOISE_MT19937, err));
    kvref_mt19937_seed(&(*out)->mt, (uint32_t)seed);
    return KVREF_OK;
}

kvref_status kvref_noise_counter(kvref_noise **out, uint64_t seed, kvref_error *err)
{
    KVREF_TRY(noise_new(out, NOISE_COUNTER, err));
    (*out)->key[0] = (uint32_t)seed;
    (*out)->key[1] = (uint32_t)(seed >> 32);
    return KVREF_OK;
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

kvref_status
kvref_noise_fill(kvref_noise *noise, float *u, const kvref_draw *draw, kvref_error *err)
{
    KVREF_TRY(check_draw(draw, err));
    if (noise->kind == NOISE_MT19937)
        fill_mt19937(&noise->mt, u, draw);
    else
        fill_counter(noise->key, u, draw);
    return KVREF_OK;
}

void kvref_noise_close(kvref_noise **noise)
{
    free(*noise);
    *noise = NULL;
}
