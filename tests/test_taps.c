/* SPDX-License-Identifier: MIT */
/* What a decoder reports: names, levels, shapes, and that reporting changes nothing. */
#include "tests/support.h"
#include "tests/world.h"

#include <stdlib.h>
#include <string.h>

typedef struct heard {
    int n;
    int of[32]; /* how often each name came */
    kvref_tap_data last;
    float x[150];      /* the last row of the last call            */
    const char *watch; /* when set, x keeps this name only         */
} heard;

static const char *const names[] = {
    "slow.embed",     "slow.attn_norm", "slow.q",        "slow.k",       "slow.v",
    "slow.attn",      "slow.attn_out",  "slow.ffn_norm", "slow.ffn_act", "slow.ffn_out",
    "slow.out",       "slow.norm",      "slow.logits",   "slow.hidden",  "fast.embed",
    "fast.attn_norm", "fast.q",         "fast.k",        "fast.v",       "fast.attn",
    "fast.attn_out",  "fast.ffn_norm",  "fast.ffn_act",  "fast.ffn_out", "fast.out",
    "fast.norm",      "fast.logits"};

enum { PROMPT = REF_ROWS + 2 };

static int index_of(const char *name)
{
    for (int i = 0; i < 27; i++)
        if (strcmp(name, names[i]) == 0) return i;
    ck_abort_msg("unknown tap %s", name);
    return -1;
}

static void listen(void *user, const kvref_tap_data *t)
{
    heard *h = user;
    h->n++;
    h->of[index_of(t->name)]++;
    ck_assert(t->n_row > 0 && t->width > 0 && t->first >= 0 && t->x &&
              (!t->head || t->width % t->head == 0));
    if (h->watch && strcmp(t->name, h->watch) != 0) return;
    h->last = *t;
    memcpy(h->x, t->x + (size_t)((t->n_row - 1) * t->width), (size_t)t->width * sizeof *t->x);
}

/* Calls of each name in: a prefill of PROMPT positions (two blocks of rows), one step, one
 * frame. */
static void count_taps(kvref_tap_level level, heard *h, kvref_config *config)
{
    *config = world_odd();
    world w;
    world_open(&w, config, KVREF_BF16, 0);
    kvref_decoder *d = world_decoder(
        &w, (kvref_decoder_opts){.capacity = PROMPT + 1, .tap = {listen, h, level}});
    int32_t *frames = world_frames(config, PROMPT + 1, 1);
    float logits[64];
    kvref_error err;
    must(ref_slow(d, logits, frames, PROMPT, &err), err);
    must(ref_slow(d, logits, frames + (size_t)(PROMPT * 6), 1, &err), err);
    for (int book = 1; book < 5; book++) must(ref_fast(d, logits, book, 0, &err), err);
    ref_decoder_close(&d);
    free(frames);
    world_close(&w);
}

START_TEST(each_tap_level_reports_what_it_promises)
{
    static const kvref_tap_level need[27] = {3, 4, 4, 3, 3, 3, 4, 4, 4, 4, 3, 3, 2, 2,
                                             3, 4, 4, 3, 3, 3, 4, 4, 4, 4, 3, 3, 2};
    for (int level = 0; level <= 4; level++) {
        heard h = {0};
        kvref_config c;
        count_taps((kvref_tap_level)level, &h, &c);
        for (int i = 0; i < 27; i++) {
            bool slow = i < 14, per_layer = (i > 0 && i < 11) || (i > 14 && i < 25);
            int want = slow ? (i < 11 ? 3 : 2) : 4; /* blocks of rows, calls, books */
            if (per_layer) want *= slow ? c.slow.n_layer : c.fast.n_layer;
            if (level < (int)need[i]) want = 0;
            ck_assert_msg(h.of[i] == want,
                          "level %d %s: %d, expected %d",
                          level,
                          names[i],
                          h.of[i],
                          want);
        }
    }
}
END_TEST

START_TEST(taps_carry_position_layer_and_shape)
{
    static const struct {
        const char *name;
        int layer, first, n_row, head, width;
    } want[] = {{"slow.embed", -1, PROMPT, 1, 0, 40},
                {"slow.q", 2, PROMPT, 1, 6, 60},
                {"slow.k", 2, PROMPT, 1, 3, 30},
                {"slow.attn", 2, PROMPT, 1, 6, 60},
                {"slow.ffn_act", 2, PROMPT, 1, 0, 72},
                {"slow.out", 2, PROMPT, 1, 0, 40},
                {"slow.norm", -1, 1, 1, 0, 40},
                {"slow.logits", -1, 1, 1, 0, 150},
                {"slow.hidden", -1, 1, 1, 0, 24},
                {"fast.v", 1, 4, 1, 1, 8},
                {"fast.norm", -1, 4, 1, 0, 24},
                {"fast.logits", -1, 4, 1, 0, 18}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        heard h = {.watch = want[i].name};
        kvref_config c;
        count_taps(KVREF_TAP_OPS, &h, &c);
        ck_assert_msg(h.last.layer == want[i].layer && h.last.first == want[i].first &&
                          h.last.n_row == want[i].n_row && h.last.head == want[i].head &&
                          h.last.width == want[i].width,
                      "%s: layer %d first %d rows %d head %d width %d",
                      want[i].name,
                      h.last.layer,
                      h.last.first,
                      h.last.n_row,
                      h.last.head,
                      h.last.width);
    }
}
END_TEST

/* Whole vocabulary with a tap, candidate rows without: the same bits. And k as used is k as
 * kept. */
START_TEST(a_tap_changes_no_bit)
{
    kvref_config config = _i ? world_odd() : world_tiny();
    world w;
    world_open(&w, &config, KVREF_BF16, 0);
    heard h = {.watch = "slow.logits"}, k = {.watch = "slow.k"};
    kvref_decoder *plain = world_decoder(&w, (kvref_decoder_opts){.capacity = 30});
    kvref_decoder *tapped = world_decoder(
        &w, (kvref_decoder_opts){.capacity = 30, .tap = {listen, &h, KVREF_TAP_OPS}});
    kvref_decoder *keys = world_decoder(
        &w, (kvref_decoder_opts){.capacity = 30, .tap = {listen, &k, KVREF_TAP_LAYERS}});
    int32_t *frames = world_frames(&config, 9, 1);
    float a[64], b[64];
    kvref_error err;
    must(ref_slow(plain, a, frames, 9, &err), err);
    must(ref_slow(tapped, b, frames, 9, &err), err);
    must(ref_slow(keys, b, frames, 9, &err), err);
    ck_assert_uint_eq(world_differ(a, b, (size_t)plain->n_candidate), 0);
    for (int i = 0; i < plain->n_candidate; i++) ck_assert(a[i] == h.x[plain->candidate[i]]);
    for (int g = 0; g < config.slow.n_kv_head; g++) {
        const float *row =
            ref_kv_head(&keys->slow.kv, config.slow.n_layer - 1, 0, g) + 8 * config.slow.d_head;
        ck_assert_uint_eq(
            world_differ(row, k.x + g * config.slow.d_head, (size_t)config.slow.d_head), 0);
    }
    ref_decoder_close(&plain);
    ref_decoder_close(&tapped);
    ref_decoder_close(&keys);
    free(frames);
    world_close(&w);
}
END_TEST

/* All rows of k and v that came, and the rows that joined the two transformers. */
typedef struct kept {
    float row[2][4][32][64]; /* [k or v, layer, position, G*E] */
    float hidden[8][64];     /* [frame]                        */
    float fast_in[8][64];    /* [frame]                        */
    int n_frame;
} kept;

static void keep(void *user, const kvref_tap_data *t)
{
    kept *k = user;
    size_t n = (size_t)t->width * sizeof *t->x;
    int value = strcmp(t->name, "slow.v") == 0;
    if (value || strcmp(t->name, "slow.k") == 0)
        for (int i = 0; i < t->n_row; i++)
            memcpy(k->row[value][t->layer][t->first + i], t->x + (ptrdiff_t)i * t->width, n);
    if (strcmp(t->name, "slow.hidden") == 0) memcpy(k->hidden[t->first], t->x, n);
    if (strcmp(t->name, "fast.embed") == 0 && t->first == 0)
        memcpy(k->fast_in[k->n_frame++], t->x, n);
}

/* A prefill of 9 and 4 steps, every book of each frame. */
static kvref_decoder *decode_kept(const world *w, kept *k)
{
    const kvref_config *c = &w->config;
    memset(k, 0, sizeof *k);
    kvref_decoder *d = world_decoder(
        w, (kvref_decoder_opts){.capacity = 30, .tap = {keep, k, KVREF_TAP_LAYERS}});
    int32_t *frames = world_frames(c, 13, 1);
    size_t n_row = (size_t)c->n_codebook + 1;
    float logits[64];
    kvref_error err;
    for (int at = 0, n = 9; at < 13; at += n, n = 1) {
        must(ref_slow(d, logits, frames + (size_t)at * n_row, n, &err), err);
        for (int book = 1; book < c->n_codebook; book++)
            must(ref_fast(d, logits, book, 0, &err), err);
    }
    free(frames);
    return d;
}

START_TEST(the_cache_holds_the_keys_and_values_that_are_used_bit_for_bit)
{
    kvref_config config = _i ? world_odd() : world_tiny();
    world w;
    static kept k;
    world_open(&w, &config, KVREF_BF16, 0);
    kvref_decoder *d = decode_kept(&w, &k);
    size_t width = (size_t)config.slow.d_head;
    ck_assert_int_eq(d->n_pos, 13);
    for (int value = 0; value < 2; value++)
        for (int l = 0; l < config.slow.n_layer; l++)
            for (int g = 0; g < config.slow.n_kv_head; g++) {
                const float *row = ref_kv_head(&d->slow.kv, l, value, g);
                for (size_t p = 0; p < 13; p++)
                    ck_assert_mem_eq(row + p * width,
                                     k.row[value][l][p] + (size_t)g * width,
                                     width * sizeof(float));
            }
    ref_decoder_close(&d);
    world_close(&w);
}
END_TEST

START_TEST(the_fast_part_of_a_frame_begins_with_the_hidden_state_of_that_frame)
{
    kvref_config config = _i ? world_odd() : world_tiny();
    world w;
    static kept k;
    world_open(&w, &config, KVREF_BF16, 0);
    kvref_decoder *d = decode_kept(&w, &k);
    size_t n_byte = (size_t)config.fast.d_model * sizeof(float);
    ck_assert_int_eq(k.n_frame, 5);
    for (int f = 0; f < 5; f++) {
        ck_assert_mem_eq(k.fast_in[f], k.hidden[f], n_byte);
        if (f) ck_assert_mem_ne(k.fast_in[f], k.hidden[f - 1], n_byte);
    }
    ref_decoder_close(&d);
    world_close(&w);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("taps");
    TCase *tc = tcase_create("taps");
    tcase_add_test(tc, each_tap_level_reports_what_it_promises);
    tcase_add_test(tc, taps_carry_position_layer_and_shape);
    tcase_add_loop_test(tc, a_tap_changes_no_bit, 0, 2);
    tcase_add_loop_test(
        tc, the_cache_holds_the_keys_and_values_that_are_used_bit_for_bit, 0, 2);
    tcase_add_loop_test(
        tc, the_fast_part_of_a_frame_begins_with_the_hidden_state_of_that_frame, 0, 2);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
