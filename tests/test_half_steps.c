/* SPDX-License-Identifier: MIT */
/* The float16 emulation step by step: every tapped row is computed again from the rows tapped
 * before it, by the words of gpu/gpu.h and spec 02 and 03, and must have the same bits. So a
 * rounding point that is missing, doubled or at another place is found, wherever it is. */
#include "base/rope.h"
#include "kvref/fmath.h"
#include "tests/half_math.h"
#include "tests/narrowed.h"
#include "tests/support.h"
#include "tests/tape.h"
#include "tests/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_FRAME = 70, MOST = 512 }; /* past one chunk; the widest row */

/* One of the two transformers: n_seq sequences of n_row rows each, from position 0 on. */
typedef struct side {
    const char *prefix;
    const kvref_stack *s;
    const kvref_layer *layer;
    int n_seq, n_row;
} side;

typedef struct played {
    kvref_config c;
    kvref_rope_table table;
    narrowed n;
    int32_t *frames;
    tape t;
    long n_checked;
} played;

/* Row i of a track as float32, in which it was tapped. */
static const float *row(const played *p, const char *prefix, const char *name, int l, int i)
{
    static float ring[8][MOST];
    static int turn;
    char full[32];
    (void)snprintf(full, sizeof full, "%s.%s", prefix, name);
    for (int k = 0; k < p->t.n_track; k++) {
        const tape_track *t = &p->t.track[k];
        if (t->layer != l || strcmp(t->name, full) != 0) continue;
        ck_assert(t->width <= MOST && (size_t)(i + 1) * (size_t)t->width <= t->n);
        float *x = ring[turn++ % 8];
        for (int j = 0; j < t->width; j++) x[j] = (float)t->x[(size_t)(i * t->width + j)];
        return x;
    }
    ck_abort_msg("no %s of layer %d", full, l);
    return NULL;
}

static void
must_be(played *p, const float *want, int n, const char *prefix, const char *name, int l, int i)
{
    const float *x = row(p, prefix, name, l, i);
    for (int j = 0; j < n; j++, p->n_checked++)
        ck_assert_msg(kvref_f32_bits(x[j]) == kvref_f32_bits(want[j]),
                      "%s.%s layer %d row %d value %d: %a, expected %a",
                      prefix,
                      name,
                      l,
                      i,
                      j,
                      (double)x[j],
                      (double)want[j]);
}

static const uint16_t *half_row(const kvref_weight *w, int i)
{
    ck_assert(w->dtype == KVREF_F16);
    return (const uint16_t *)w->data + (size_t)i * (size_t)w->n_col;
}

static void linear(float *y, const kvref_weight *w, const kvref_weight *b, const float *x)
{
    for (int o = 0; o < w->n_row; o++) {
        float sum = half_dot(half_row(w, o), x, w->n_col);
        if (b && b->data) sum = sum + kvref_f16_f32(half_row(b, 0)[o]);
        y[o] = half_round(sum);
    }
}

static float inverse_rms(const float *x, int n, float eps)
{
    uint16_t h[MOST];
    for (int i = 0; i < n; i++) h[i] = kvref_f32_f16(x[i]);
    return 1.0f / sqrtf(half_dot(h, x, n) / (float)n + eps);
}

static void norm(float *y, const kvref_weight *w, const float *x, float eps)
{
    float s = inverse_rms(x, w->n_col, eps);
    for (int i = 0; i < w->n_col; i++)
        y[i] = half_round(half_round(x[i] * s) * kvref_f16_f32(half_row(w, 0)[i]));
}

/* Heads of q or k at position pos: norm with one rounding, if any, then rotation. */
static void
turn_heads(const played *p, float *x, const kvref_weight *w, int n_head, int e, int pos)
{
    float freq[64], c[64], s[64];
    for (int j = 0; j < e / 2; j++) freq[j] = kvref_rope_frequency(p->c.rope_base, e, j);
    kvref_rope_row(c, s, freq, e / 2, pos, p->table);
    for (int h = 0; h < n_head; h++, x += e) {
        float scale = w->data ? inverse_rms(x, e, p->c.norm_eps) : 0;
        for (int i = 0; i < e && w->data; i++)
            x[i] = half_round((x[i] * scale) * kvref_f16_f32(half_row(w, 0)[i]));
        for (int j = 0; j < e / 2; j++) {
            bool f32 = p->table == KVREF_ROPE_F32;
            float cosine = f32 ? c[j] : half_round(c[j]), sine = f32 ? s[j] : half_round(s[j]);
            float a = x[2 * j], b = x[2 * j + 1];
            x[2 * j] = half_round(a * cosine - b * sine);
            x[2 * j + 1] = half_round(b * cosine + a * sine);
        }
    }
}

/* q . k_r for r < n, q one head at row `at`, k in rows from `from` on. */
static void
scores(const played *p, const side *a, int l, int h, int at, int from, int n, float *score)
{
    int e = a->s->d_head, g = h / (a->s->n_head / a->s->n_kv_head);
    uint16_t q[MOST];
    const float *x = row(p, a->prefix, "q", l, at) + h * e;
    for (int i = 0; i < e; i++) q[i] = kvref_f32_f16(x[i]);
    for (int r = 0; r < n; r++)
        score[r] = half_dot(q, row(p, a->prefix, "k", l, from + r) + g * e, e);
}

/* w_r = e^(s_r - m), s_r = q . k_r c; sums in chunks of 64; one R (gpu_attention_prefix). */
static void slow_head(const played *p, const side *a, int l, int h, int pos, float *out)
{
    int e = a->s->d_head, g = h / (a->s->n_head / a->s->n_kv_head), n = pos + 1;
    float w[N_FRAME], m = -INFINITY, total = 0, c = 1.0f / sqrtf((float)e);
    scores(p, a, l, h, pos, 0, n, w);
    for (int r = 0; r < n; r++) m = w[r] * c > m ? w[r] * c : m;
    for (int r = 0; r < n; r++) w[r] = kvref_expf(w[r] * c - m);
    for (int i = 0; i < e; i++) out[i] = 0;
    for (int first = 0; first < n; first += 64) {
        float part[MOST] = {0}, sum = 0;
        for (int r = first; r < n && r < first + 64; r++) {
            const float *v = row(p, a->prefix, "v", l, r) + g * e;
            sum += w[r];
            for (int i = 0; i < e; i++) part[i] += w[r] * v[i];
        }
        total += sum;
        for (int i = 0; i < e; i++) out[i] += part[i];
    }
    for (int i = 0; i < e; i++) out[i] = half_round(out[i] / total);
}

/* s_r = R(R(q . k_r) c), p_r = R(e^(s_r - m) / sum), R(sum of p_r v_r) (gpu_attention_books).
 */
static void
fast_head(const played *p, const side *a, int l, int h, int from, int pos, float *out)
{
    int e = a->s->d_head, g = h / (a->s->n_head / a->s->n_kv_head), n = pos + 1;
    float s[64], m = -INFINITY, total = 0, c = 1.0f / sqrtf((float)e);
    scores(p, a, l, h, from + pos, from, n, s);
    for (int r = 0; r < n; r++) s[r] = half_round(half_round(s[r]) * c);
    for (int r = 0; r < n; r++) m = s[r] > m ? s[r] : m;
    for (int r = 0; r < n; r++) total += kvref_expf(s[r] - m);
    for (int i = 0; i < e; i++) {
        float sum = 0;
        for (int r = 0; r < n; r++) {
            float weight = half_round(kvref_expf(s[r] - m) / total);
            sum += weight * row(p, a->prefix, "v", l, from + r)[g * e + i];
        }
        out[i] = half_round(sum);
    }
}

/* Row i of a side, at position pos of its sequence, through the attention half of layer l. */
static void check_attention(played *p, const side *a, int l, int i, int pos)
{
    const kvref_stack *s = a->s;
    const kvref_layer *w = &a->layer[l];
    float y[MOST], q[MOST], k[MOST], v[MOST];
    int e = s->d_head;
    const float *x = row(p, a->prefix, l ? "out" : "embed", l - 1, i);
    norm(y, &w->attn_norm, x, p->c.norm_eps);
    must_be(p, y, s->d_model, a->prefix, "attn_norm", l, i);
    linear(q, &w->wq, &w->bq, y);
    linear(k, &w->wk, &w->bk, y);
    linear(v, &w->wv, &w->bv, y);
    turn_heads(p, q, &w->q_norm, s->n_head, e, pos);
    turn_heads(p, k, &w->k_norm, s->n_kv_head, e, pos);
    must_be(p, q, s->n_head * e, a->prefix, "q", l, i);
    must_be(p, k, s->n_kv_head * e, a->prefix, "k", l, i);
    must_be(p, v, s->n_kv_head * e, a->prefix, "v", l, i);
    for (int h = 0; h < s->n_head; h++)
        if (a->n_seq == 1)
            slow_head(p, a, l, h, pos, y + h * e);
        else
            fast_head(p, a, l, h, i - pos, pos, y + h * e);
    must_be(p, y, s->n_head * e, a->prefix, "attn", l, i);
    linear(q, &w->wo, &w->bo, y);
    must_be(p, q, s->d_model, a->prefix, "attn_out", l, i);
}

static void check_ffn(played *p, const side *a, int l, int i)
{
    const kvref_layer *w = &a->layer[l];
    float x[MOST], y[MOST], gate[MOST], up[MOST];
    int d = a->s->d_model;
    const float *from = row(p, a->prefix, l ? "out" : "embed", l - 1, i),
                *out = row(p, a->prefix, "attn_out", l, i);
    for (int j = 0; j < d; j++) x[j] = half_round(from[j] + out[j]);
    norm(y, &w->ffn_norm, x, p->c.norm_eps);
    must_be(p, y, d, a->prefix, "ffn_norm", l, i);
    linear(gate, &w->w1, NULL, y);
    linear(up, &w->w3, NULL, y);
    for (int j = 0; j < a->s->d_ff; j++)
        gate[j] = half_round(half_round(kvref_siluf(gate[j])) * up[j]);
    must_be(p, gate, a->s->d_ff, a->prefix, "ffn_act", l, i);
    linear(y, &w->w2, NULL, gate);
    must_be(p, y, d, a->prefix, "ffn_out", l, i);
    for (int j = 0; j < d; j++) y[j] = half_round(x[j] + y[j]);
    must_be(p, y, d, a->prefix, "out", l, i);
}

static void check_layers(played *p, const side *a)
{
    for (int l = 0; l < a->s->n_layer; l++)
        for (int i = 0; i < a->n_seq * a->n_row; i++) {
            check_attention(p, a, l, i, i % a->n_row);
            check_ffn(p, a, l, i);
        }
}

static void check_embedding(played *p, int i)
{
    const kvref_config *c = &p->c;
    const kvref_weights *w = &p->n.weights;
    const int32_t *f = p->frames + i * (1 + c->n_codebook);
    float x[MOST];
    for (int j = 0; j < c->slow.d_model; j++) {
        float sum = 0;
        for (int b = 0; b < c->n_codebook; b++)
            sum += kvref_f16_f32(half_row(&w->codebook_embed, b * c->n_code + f[1 + b])[j]);
        x[j] = kvref_f16_f32(half_row(&w->embed, f[0])[j]);
        if (f[0] < c->semantic_begin || f[0] > c->semantic_end) continue;
        x[j] = half_round(x[j] + half_round(sum));
        if (c->scale_codebook_embeddings)
            x[j] = half_round(x[j] / sqrtf((float)(c->n_codebook + 1)));
    }
    must_be(p, x, c->slow.d_model, "slow", "embed", -1, i);
}

/* What leaves slow call i, which ends at row `last`, and what the fast side makes of it. */
static void check_ends(played *p, int i, int last)
{
    const kvref_config *c = &p->c;
    const kvref_weights *w = &p->n.weights;
    float z[MOST], y[MOST];
    const float *x = row(p, "slow", "out", c->slow.n_layer - 1, last);
    norm(z, &w->norm, x, c->norm_eps);
    must_be(p, z, c->slow.d_model, "slow", "norm", -1, i);
    linear(y, &w->head, NULL, z);
    must_be(p, y, c->n_vocab, "slow", "logits", -1, i);
    const float *hidden = c->norm_fastlayer_input ? z : x;
    if (w->fast_in.data) {
        linear(y, &w->fast_in, &w->fast_in_bias, hidden);
        hidden = y;
    }
    must_be(p, hidden, c->fast.d_model, "slow", "hidden", -1, i);
    must_be(p, hidden, c->fast.d_model, "fast", "embed", -1, i * c->n_codebook);
    for (int pos = 0; pos < c->n_codebook; pos++) {
        int at = i * c->n_codebook + pos;
        norm(z, &w->fast_norm, row(p, "fast", "out", c->fast.n_layer - 1, at), c->norm_eps);
        must_be(p, z, c->fast.d_model, "fast", "norm", -1, at);
        if (pos == 0) continue;
        linear(y, &w->fast_head, NULL, z);
        must_be(p, y, c->n_code, "fast", "logits", -1, i * (c->n_codebook - 1) + pos - 1);
    }
}

/* Values with all of their eleven bits, so that sums of a few must be rounded. */
static void fill(const kvref_weight *w, uint32_t seed)
{
    uint16_t *h = (uint16_t *)(uintptr_t)w->data; /* the copy's own */
    for (int i = 0; i < w->n_row * w->n_col; i++) h[i] = kvref_f32_f16(world_noise(&seed));
}

/* A prefill that crosses a chunk of 64 rows, then steps. sqrt(N + 1) is never a whole number.
 */
static void play(played *p, int kind)
{
    static const int piece[] = {66, 1, 0};
    kvref_error err;
    world w;
    kvref_decoder *d;
    *p = (played){.c = kind % 2 ? world_odd() : world_tiny(),
                  .table = kind < 2 ? KVREF_ROPE_BF16 : KVREF_ROPE_F32};
    if (kind % 2 == 0) p->c.n_codebook = 4;
    world_open(&w, &p->c, KVREF_F32, 0);
    narrowed_open(&p->n, &p->c, &w.weights);
    fill(&p->n.weights.embed, 1);
    fill(&p->n.weights.codebook_embed, 2);
    p->frames = world_frames(&p->c, N_FRAME, 1);
    kvref_decoder_opts o = {.capacity = N_FRAME,
                            .n_thread = 1,
                            .rope_table = p->table,
                            .tap = tape_tap(&p->t, KVREF_TAP_OPS)};
    must(ref_decoder_open(&d, &p->c, &p->n.weights, &o, &err), err);
    tape_play(kvref_backend_ref(), d, &p->c, p->frames, N_FRAME, piece);
    ref_decoder_close(&d);
    world_close(&w);
}

START_TEST(every_step_follows_from_the_one_before_bit_for_bit)
{
    enum { N_CALL = 1 + N_FRAME - 66 };
    played p;
    play(&p, _i);
    side slow = {"slow", &p.c.slow, p.n.weights.slow, 1, N_FRAME};
    side fast = {"fast", &p.c.fast, p.n.weights.fast, N_CALL, p.c.n_codebook};
    for (int i = 0; i < N_FRAME; i++) check_embedding(&p, i);
    check_layers(&p, &slow);
    check_layers(&p, &fast);
    for (int i = 0; i < N_CALL; i++) check_ends(&p, i, 65 + i);
    printf("%ld values\n", p.n_checked);
    size_t n_value = 0;
    for (int k = 0; k < p.t.n_track; k++) n_value += p.t.track[k].n;
    /* All but the fast embeddings, of which the hidden state alone is looked at. */
    size_t left = (size_t)(N_CALL * (p.c.n_codebook - 1) * p.c.fast.d_model);
    ck_assert_uint_eq((size_t)p.n_checked, n_value - left);
    tape_clear(&p.t);
    narrowed_close(&p.n);
    free(p.frames);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("half_steps");
    TCase *tc = tcase_create("half_steps");
    tcase_add_loop_test(tc, every_step_follows_from_the_one_before_bit_for_bit, 0, 4);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
