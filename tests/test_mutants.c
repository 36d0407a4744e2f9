/* SPDX-License-Identifier: MIT */
/* Whether the checks have teeth: attention, rotation, sampling and the decoder with one fault
 * each, planted here and not in the library, are put through the checks that the right ones
 * pass, and must be rejected. */
#include "kvref/sample.h"
#include "tests/golden.h"
#include "tests/scene.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- attention, by the limit of test_attention ---- */

typedef enum attention_fault {
    NO_FAULT,
    ONE_ROW_PAST_THE_PREFIX,
    NEWEST_ROW_MISSED,
    HEADS_INTERLEAVED,
    SCALE_FORGOTTEN,
    LARGEST_NOT_SUBTRACTED,
    DENOMINATOR_SHORT,
    N_ATTENTION_FAULT
} attention_fault;

static attention_fault planted;

static void attend(float *out, const float *q, const ref_kv *kv, int g, int n)
{
    int e = kv->d_head;
    const float *k = ref_kv_head(kv, 0, 0, g), *v = ref_kv_head(kv, 0, 1, g);
    float score[64], max = -INFINITY, total = 0;
    for (int r = 0; r < n; r++) {
        float dot = 0;
        for (int i = 0; i < e; i++) dot += q[i] * k[r * e + i];
        score[r] = planted == SCALE_FORGOTTEN ? dot : dot / sqrtf((float)e);
        if (score[r] > max) max = score[r];
    }
    if (planted == LARGEST_NOT_SUBTRACTED) max = 0;
    for (int r = 0; r < n; r++) {
        score[r] = expf(score[r] - max);
        if (planted != DENOMINATOR_SHORT || r > 0) total += score[r];
    }
    for (int i = 0; i < e; i++) {
        out[i] = 0;
        for (int r = 0; r < n; r++) out[i] += score[r] * v[r * e + i];
        out[i] /= total;
    }
}

static void faulty_attention(const ref_tools *tools,
                             float *out,
                             const float *q,
                             const ref_kv *kv,
                             int layer,
                             int n_past,
                             int n_row,
                             int n_head)
{
    (void)tools, (void)layer;
    for (int t = 0; t < n_row; t++)
        for (int h = 0; h < n_head; h++) {
            int at = (t * n_head + h) * kv->d_head, n = n_past + t + 1;
            int g = planted == HEADS_INTERLEAVED ? h % kv->n_head : h / (n_head / kv->n_head);
            n += (planted == ONE_ROW_PAST_THE_PREFIX) - (planted == NEWEST_ROW_MISSED);
            attend(out + at, q + at, kv, g, n);
        }
}

static double worst_share(void)
{
    double worst = 0;
    for (int kind = 0; kind < SCENE_N_INPUT; kind++) {
        scene s;
        scene_open(&s, 6, 3, 8, 60, 20, 2, (scene_input)kind);
        double share = scene_share(&s, scene_run(&s, faulty_attention));
        if (!(share <= worst)) worst = share;
        scene_close(&s);
    }
    return worst;
}

START_TEST(attention_with_a_fault_exceeds_its_limit)
{
    for (int f = 0; f < N_ATTENTION_FAULT; f++) {
        planted = (attention_fault)f;
        double worst = worst_share();
        printf("attention fault %d: %.3g of the limit\n", f, worst);
        if (f == NO_FAULT)
            ck_assert(worst <= 1);
        else
            ck_assert_msg(!(worst <= 1), "fault %d is not seen", f);
    }
}
END_TEST

/* ---- rotation ---- */

/* Largest distance of ref_rope_apply from pairs of elements i and i + step at position 7. */
static double rotation_distance(bool halves)
{
    enum { E = 16, P = 7 };
    float freq[E / 2], cosine[(P + 1) * E / 2], sine[(P + 1) * E / 2],
        *x = world_floats(E, 1, 3);
    double want[E], worst = 0;
    ref_rope rope = {.freq = freq, .cosine = cosine, .sine = sine};
    ref_rope_init(&rope, E, 1e4f, KVREF_ROPE_F32);
    ref_rope_reach(&rope, P + 1);
    for (int j = 0; j < E / 2; j++) {
        int a = halves ? j : 2 * j, b = halves ? j + E / 2 : 2 * j + 1;
        double angle = P * (double)freq[j], re = (double)x[a], im = (double)x[b];
        want[a] = re * cos(angle) - im * sin(angle);
        want[b] = im * cos(angle) + re * sin(angle);
    }
    ref_rope_apply(&rope, x, 1, 1, P);
    for (int i = 0; i < E; i++) worst = fmax(worst, fabs((double)x[i] - want[i]));
    free(x);
    return worst;
}

START_TEST(rotation_of_half_split_pairs_is_another_one)
{
    ck_assert(rotation_distance(false) <= 1e-6);
    ck_assert(!(rotation_distance(true) <= 1e-2));
}
END_TEST

/* ---- sampling ---- */

typedef enum sampling_fault {
    NONE,
    TOP_P_SHIFTED,
    TEMPERATURE_FIRST,
    TOP_K_SHIFTED
} sampling_fault;

enum { N_CANDIDATE = 40 };

/* Spec 04 section 2 in double. */
static void
filter(double *p, const float *logits, const kvref_sampling *s, sampling_fault fault)
{
    int order[N_CANDIDATE];
    double x[N_CANDIDATE], total = 0, sum = 0, kept = 0, t = (double)s->temperature;
    for (int i = 0; i < N_CANDIDATE; i++) {
        int j = i;
        for (; j > 0 && logits[order[j - 1]] < logits[i]; j--) order[j] = order[j - 1];
        order[j] = i;
    }
    for (int i = 0; i < N_CANDIDATE; i++) {
        x[i] = (double)logits[i] / (fault == TEMPERATURE_FIRST ? t : 1);
        total += exp(x[i]);
    }
    for (int rank = 0; rank < N_CANDIDATE; rank++) {
        int i = order[rank];
        double before = sum;
        sum += exp(x[i]) / total;
        bool cut = (fault == TOP_P_SHIFTED ? before : sum) > (double)s->top_p ||
                   rank >= s->top_k + (fault == TOP_K_SHIFTED);
        p[i] = rank > 0 && cut ? 0 : exp((double)logits[i] / t);
        kept += p[i];
    }
    for (int i = 0; i < N_CANDIDATE; i++) p[i] /= kept;
}

static double filter_distance(sampling_fault fault)
{
    double worst = 0;
    for (uint32_t table = 1; table <= 40; table++) {
        float *logits = world_floats(N_CANDIDATE, 4, table), p[N_CANDIDATE];
        int32_t scratch[2 * N_CANDIDATE];
        double want[N_CANDIDATE];
        kvref_error err;
        const kvref_sampling s = {0.7f, 0.8f, table % 2 ? 30 : 5};
        must(kvref_sample_probs(p, logits, N_CANDIDATE, &s, scratch, &err), err);
        filter(want, logits, &s, fault);
        for (int i = 0; i < N_CANDIDATE; i++) worst = fmax(worst, fabs((double)p[i] - want[i]));
        free(logits);
    }
    return worst;
}

START_TEST(filters_shifted_or_in_another_order_give_other_probabilities)
{
    ck_assert_uint_le(kvref_sample_scratch(N_CANDIDATE), 2 * N_CANDIDATE * sizeof(int32_t));
    ck_assert(filter_distance(NONE) <= 1e-6);
    ck_assert(!(filter_distance(TOP_P_SHIFTED) <= 1e-3));
    ck_assert(!(filter_distance(TEMPERATURE_FIRST) <= 1e-3));
    ck_assert(!(filter_distance(TOP_K_SHIFTED) <= 1e-3));
}
END_TEST

/* ---- the decoder, by the golden frames of case A ---- */

typedef enum decoder_fault {
    NO_DECODER_FAULT,
    FIRST_HIDDEN_STATE_KEPT,
    CACHED_K_NOT_TURNED,
    PREFILL_WITHOUT_CODEBOOKS,
    N_DECODER_FAULT
} decoder_fault;

static decoder_fault broken;
static float first_hidden[256];

/* Turns the K rows from `first` on back to position 0. */
static void turn_back(kvref_decoder *d, int first)
{
    const ref_rope *rope = &d->slow.rope;
    int half = rope->d_head / 2;
    for (int l = 0; l < d->slow.kv.n_layer; l++)
        for (int g = 0; g < d->slow.kv.n_head; g++)
            for (int r = first; r < d->n_pos; r++)
                for (int j = 0; j < half; j++) {
                    float *x = ref_kv_head(&d->slow.kv, l, 0, g) + r * 2 * half + 2 * j;
                    float c = rope->cosine[r * half + j], s = rope->sine[r * half + j];
                    float re = x[0] * c + x[1] * s, im = x[1] * c - x[0] * s;
                    x[0] = re;
                    x[1] = im;
                }
}

static kvref_status
broken_slow(kvref_decoder *d, float *logits, const int32_t *frames, int n, kvref_error *err)
{
    int first = d->n_pos;
    const kvref_weights *weights = d->weights;
    kvref_weights bare = *weights;
    bool scaled = d->config.scale_codebook_embeddings;
    size_t n_weight = (size_t)bare.codebook_embed.n_row * (size_t)bare.codebook_embed.n_col;
    void *nothing = calloc(n_weight, sizeof(float));
    ck_assert_ptr_nonnull(nothing);
    bare.codebook_embed.data = nothing;
    if (broken == PREFILL_WITHOUT_CODEBOOKS && n > 1) {
        d->weights = &bare;
        d->config.scale_codebook_embeddings = false;
    }
    kvref_status status = ref_slow(d, logits, frames, n, err);
    d->weights = weights;
    d->config.scale_codebook_embeddings = scaled;
    free(nothing);
    size_t n_hidden = (size_t)d->config.fast.d_model;
    ck_assert_uint_le(n_hidden, sizeof first_hidden / sizeof *first_hidden);
    if (first == 0) memcpy(first_hidden, d->hidden, n_hidden * sizeof(float));
    if (broken == FIRST_HIDDEN_STATE_KEPT)
        memcpy(d->hidden, first_hidden, n_hidden * sizeof(float));
    if (broken == CACHED_K_NOT_TURNED) turn_back(d, first);
    return status;
}

/* The first frame that is not the golden one; how many there are if all are. */
static int first_wrong(const golden_case *g, const kvref_model *model)
{
    kvref_backend backend = *kvref_backend_ref();
    backend.slow = broken_slow;
    kvref_decoder_opts opts = {.n_thread = 1, .rope_table = g->rope_table};
    kvref_frames prompt = golden_frames(g->ref, "prompt"),
                 want = golden_frames(g->ref, "frames");
    kvref_generated got = golden_generate(&backend, model, &opts, &g->run, &prompt, NULL);
    int f = 0;
    while (f < want.n_frame && f < got.frames.n_frame &&
           memcmp(got.frames.value + f * want.n_row,
                  want.value + f * want.n_row,
                  (size_t)want.n_row * sizeof *want.value) == 0)
        f++;
    if (f == want.n_frame && got.frames.n_frame == f) f = INT32_MAX;
    kvref_generated_clear(&got);
    kvref_frames_clear(&prompt);
    kvref_frames_clear(&want);
    return f;
}

START_TEST(golden_frames_show_every_fault_of_the_decoder)
{
    golden_case g;
    golden_open(
        &g, "A", support_source("golden/lm/A.json"), support_source("golden/lm/A.safetensors"));
    kvref_model *model = golden_model(&g.config, KVREF_F32);
    for (int f = 0; f < N_DECODER_FAULT; f++) {
        broken = (decoder_fault)f;
        int frame = first_wrong(&g, model);
        if (f == NO_DECODER_FAULT) {
            ck_assert_int_eq(frame, INT32_MAX);
            continue;
        }
        printf("decoder fault %d: seen at frame %d\n", f, frame);
        ck_assert_msg(frame != INT32_MAX, "fault %d is not seen", f);
        if (f == FIRST_HIDDEN_STATE_KEPT) ck_assert_int_le(frame, 2);
    }
    kvref_model_close(&model);
    golden_close(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mutants");
    TCase *tc = tcase_create("mutants");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, attention_with_a_fault_exceeds_its_limit);
    tcase_add_test(tc, rotation_of_half_split_pairs_is_another_one);
    tcase_add_test(tc, filters_shifted_or_in_another_order_give_other_probabilities);
    tcase_add_test(tc, golden_frames_show_every_fault_of_the_decoder);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
