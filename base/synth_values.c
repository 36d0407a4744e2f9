/* SPDX-License-Identifier: MIT */
/* The weight formula (spec appendix-golden): element i of a tensor is a function of the
 * tensor's name, its row length and i alone, so that any part of any checkpoint can be made
 * anywhere. Only the top byte of mix(name, i) reaches the value, so a tensor has at most 256
 * different values and one table of them, made once, serves every element. */
#include "kvref/synth.h"

#include "base/hash.h"
#include "base/synth.h"

#include <math.h>
#include <string.h>

uint32_t kvref_synth_fnv(const char *name)
{
    return kvref_fnv32(KVREF_FNV32, name, strlen(name));
}

uint32_t kvref_synth_mix(uint32_t fnv, uint32_t i)
{
    uint32_t x = fnv + i * 2654435761u;
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

/* value = base + v * scale, where v is the top 8 or the top 5 bits of mix, mapped to [-1, 1).
 */
typedef struct rule {
    bool five;
    float base, scale;
} rule;

static bool has(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

/* 2^-floor(e/2), e = floor(log2(product of all dimensions but the first)): sums over a row
 * then have the size of one element. */
static float row_scale(const int64_t *dim, int n_dim)
{
    uint64_t n = 1;
    for (int d = 1; d < n_dim; d++) n *= (uint64_t)dim[d];
    int e = 0;
    while (n >>= 1) e++;
    return ldexpf(1.0f, -(e / 2));
}

/* The first rule of the appendix that fits the name. */
static rule rule_of(const char *name, const int64_t *dim, int n_dim)
{
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
    bool weight = strcmp(last, "weight") == 0;
    if (strcmp(last, "alpha") == 0 || strcmp(last, "weight_g") == 0 ||
        strcmp(last, "original0") == 0 || (weight && has(name, "norm"))) {
        float down = strncmp(name, "decoder.model.6.", 16) == 0 ? 0.0625f : 1.0f;
        return (rule){true, down, 0.125f * down};
    }
    if (strcmp(last, "bias") == 0) return (rule){false, 0.0f, 0.125f};
    if (strcmp(last, "gamma") == 0) return (rule){false, 0.0f, 0.25f};
    if (has(name, "embeddings") || has(name, "codebook.weight"))
        return (rule){false, 0.0f, 1.0f};
    return (rule){false, 0.0f, row_scale(dim, n_dim)};
}

void kvref_synth_table(float *value, const char *name, const int64_t *dim, int n_dim)
{
    rule r = rule_of(name, dim, n_dim);
    for (int top = 0; top < 256; top++) {
        int five = top >> 3;
        float v = r.five ? (float)(five - 16) / 16.0f : (float)(top - 128) / 128.0f;
        value[top] = r.base + v * r.scale;
    }
}

void kvref_synth_fill(
    float *x, const char *name, const int64_t *dim, int n_dim, uint64_t first, size_t n)
{
    float value[256];
    kvref_synth_table(value, name, dim, n_dim);
    uint32_t fnv = kvref_synth_fnv(name);
    for (size_t i = 0; i < n; i++) {
        x[i] = value[kvref_synth_mix(fnv, (uint32_t)(first + i)) >> 24];
    }
}
