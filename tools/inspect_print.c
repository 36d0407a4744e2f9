/* SPDX-License-Identifier: MIT */
/* The result of an inspection as lines for people or as one JSON object. */
#include "kvref/file.h"
#include "kvref/prompt.h"
#include "tools/inspect.h"
#include "tools/term.h"

#include <stdio.h>

typedef unsigned long long ull;

static void print_stack(const char *name, const kvref_stack *s)
{
    printf(
        "%-12s %d layers, width %d, %d query and %d key/value heads of %d, feed-forward %d%s%s"
        "%s\n",
        name,
        s->n_layer,
        s->d_model,
        s->n_head,
        s->n_kv_head,
        s->d_head,
        s->d_ff,
        s->qk_norm ? ", q/k norm" : "",
        s->qkv_bias ? ", qkv bias" : "",
        s->o_bias ? ", output bias" : "");
}

static void print_config(const inspection *in)
{
    const kvref_config *c = &in->config;
    char dir[400];
    printf("%-12s %s (%s)\n", "model", term_clean(dir, sizeof dir, in->dir), c->model_type);
    print_stack("slow", &c->slow);
    print_stack("fast", &c->fast);
    printf("%-12s %d ids, %s head; codebooks %d of %d codes; %d positions, %d for a prompt\n",
           "vocabulary",
           c->n_vocab,
           c->tie_word_embeddings ? "tied" : "separate",
           c->n_codebook,
           c->n_code,
           c->max_seq_len,
           kvref_prompt_limit(c->max_seq_len));
    printf("%-12s rope base %g, norm eps %g, codebook embeddings %s, fast input %s the norm\n",
           "details",
           (double)c->rope_base,
           (double)c->norm_eps,
           c->scale_codebook_embeddings ? "scaled" : "not scaled",
           c->norm_fastlayer_input ? "after" : "before");
    if (in->tokenizer) {
        printf("%-12s %d ids, %d semantic %d..%d, end %d\n",
               "tokenizer",
               in->n_token,
               in->n_semantic,
               in->semantic_begin,
               in->semantic_end,
               in->im_end);
    } else {
        printf("%-12s none: semantic ids %d..%d, end %d come from config.json; no text can be "
               "read\n",
               "tokenizer",
               c->semantic_begin,
               c->semantic_end,
               c->im_end);
    }
}

static void print_tensors(const inspection *in)
{
    printf("%-12s %d of %d that the config demands, %llu values, %s:",
           "tensors",
           in->n_found,
           in->n_need,
           (ull)in->n_value,
           term_bytes((double)in->n_byte));
    for (int t = 0; t <= KVREF_BOOL; t++)
        if (in->n_dtype[t]) printf(" %d %s", in->n_dtype[t], kvref_dtype_name((kvref_dtype)t));
    printf("\n%-12s %d", "surplus", in->n_surplus);
    for (int i = 0; i < in->n_surplus && i < 3; i++)
        printf("%s%s", i ? ", " : ": ", in->surplus[i]);
    printf("%s\n", in->n_surplus > 3 ? ", ..." : "");
}

static void print_part(const char *what, uint64_t value, uint64_t byte)
{
    printf("  %-44s %14llu values %10s\n", what, (ull)value, term_bytes((double)byte));
}

static void print_costs(const inspection *in)
{
    char text[60];
    printf("a decoded frame reads\n");
    print_part("slow layers", in->slow_layers.value, in->slow_layers.byte);
    snprintf(text, sizeof text, "head rows of the %d candidates", in->n_candidate);
    print_part(text, in->head.value, in->head.byte);
    snprintf(text, sizeof text, "fast layers, %d passes", in->n_pass);
    print_part(text, in->fast_layers.value, in->fast_layers.byte);
    snprintf(text, sizeof text, "fast head, %d passes", in->n_pass);
    print_part(text, in->fast_head.value, in->fast_head.byte);
    print_part("embedding rows, norms, projection", in->other.value, in->other.byte);
    print_part("together",
               in->slow_layers.value + in->head.value + in->fast_layers.value +
                   in->fast_head.value + in->other.value,
               in->slow_layers.byte + in->head.byte + in->fast_layers.byte +
                   in->fast_head.byte + in->other.byte);
    double kv = (double)in->kv_values, at = kv * in->capacity;
    printf("key/value cache\n");
    printf("  per position %llu bytes in float32 as here, %llu at 16 bit; each step reads that "
           "per filled position\n",
           (ull)in->kv_values * 4,
           (ull)in->kv_values * 2);
    printf("  at capacity %d: %s in float32, %s at 16 bit; the reference reserves %s of "
           "addresses and touches the filled part\n",
           in->capacity,
           term_bytes(at * 4),
           term_bytes(at * 2),
           term_bytes((double)in->reserved));
}

static void print_range(const inspection *in)
{
    const range_count *r = &in->range;
    if (!in->scanned) {
        printf("%-12s not scanned\n", "values");
        return;
    }
    printf("%-12s %llu NaN, %llu infinite, largest magnitude %g\n",
           "values",
           (ull)r->nan,
           (ull)r->inf,
           (double)r->largest);
    printf("%-12s %llu would become infinite, %llu zero, %llu another value",
           "in float16",
           (ull)r->overflow,
           (ull)r->flushed,
           (ull)r->inexact);
    printf(in->worst[0] ? "; most in %s\n" : "%s\n", in->worst);
}

void inspect_print(const inspection *in)
{
    print_config(in);
    print_tensors(in);
    print_costs(in);
    print_range(in);
    inspect_codec_print(in);
    for (int i = 0; i < in->n_problem && i < MAX_PROBLEM; i++)
        printf("%-12s %s\n", "problem", in->problem[i]);
    if (in->n_problem > MAX_PROBLEM)
        printf("%-12s and %d more\n", "problem", in->n_problem - MAX_PROBLEM);
    printf("%-12s %s\n", "verdict", in->n_problem ? "does not fit" : "fits");
}

static json_t *json_stack(const kvref_stack *s)
{
    return json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:b,s:b,s:b}",
                     "n_layer",
                     s->n_layer,
                     "dim",
                     s->d_model,
                     "n_head",
                     s->n_head,
                     "n_local_heads",
                     s->n_kv_head,
                     "head_dim",
                     s->d_head,
                     "intermediate_size",
                     s->d_ff,
                     "attention_qkv_bias",
                     s->qkv_bias,
                     "attention_o_bias",
                     s->o_bias,
                     "attention_qk_norm",
                     s->qk_norm);
}

static json_t *json_config(const inspection *in)
{
    const kvref_config *c = &in->config;
    return json_pack("{s:s,s:o,s:o,s:i,s:i,s:i,s:i,s:f,s:f,s:b,s:b,s:b,s:i,s:i,s:i}",
                     "model_type",
                     c->model_type,
                     "slow",
                     json_stack(&c->slow),
                     "fast",
                     json_stack(&c->fast),
                     "vocab_size",
                     c->n_vocab,
                     "num_codebooks",
                     c->n_codebook,
                     "codebook_size",
                     c->n_code,
                     "max_seq_len",
                     c->max_seq_len,
                     "rope_base",
                     (double)c->rope_base,
                     "norm_eps",
                     (double)c->norm_eps,
                     "tie_word_embeddings",
                     c->tie_word_embeddings,
                     "scale_codebook_embeddings",
                     c->scale_codebook_embeddings,
                     "norm_fastlayer_input",
                     c->norm_fastlayer_input,
                     "semantic_begin_id",
                     c->semantic_begin,
                     "semantic_end_id",
                     c->semantic_end,
                     "im_end",
                     c->im_end);
}

static json_t *part(uint64_t value, uint64_t byte)
{
    return json_pack("{s:I,s:I}", "values", (json_int_t)value, "bytes", (json_int_t)byte);
}

static json_t *json_costs(const inspection *in)
{
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:i,s:i,s:I,s:I,s:i,s:I}",
                     "slow_layers",
                     part(in->slow_layers.value, in->slow_layers.byte),
                     "head",
                     part(in->head.value, in->head.byte),
                     "fast_layers",
                     part(in->fast_layers.value, in->fast_layers.byte),
                     "fast_head",
                     part(in->fast_head.value, in->fast_head.byte),
                     "other",
                     part(in->other.value, in->other.byte),
                     "candidates",
                     in->n_candidate,
                     "fast_passes",
                     in->n_pass,
                     "kv_bytes_per_position_f32",
                     (json_int_t)in->kv_values * 4,
                     "kv_bytes_per_position_16bit",
                     (json_int_t)in->kv_values * 2,
                     "capacity",
                     in->capacity,
                     "reserved_bytes",
                     (json_int_t)in->reserved);
}

static json_t *json_range(const inspection *in)
{
    const range_count *r = &in->range;
    if (!in->scanned) return json_null();
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:f}",
                     "values",
                     (json_int_t)r->n,
                     "nan",
                     (json_int_t)r->nan,
                     "infinite",
                     (json_int_t)r->inf,
                     "f16_infinite",
                     (json_int_t)r->overflow,
                     "f16_zero",
                     (json_int_t)r->flushed,
                     "f16_inexact",
                     (json_int_t)r->inexact,
                     "largest",
                     (double)r->largest);
}

void inspect_print_json(const inspection *in)
{
    char dir[400];
    json_t *problems = json_array();
    for (int i = 0; i < in->n_problem && i < MAX_PROBLEM; i++)
        json_array_append_new(problems, json_string(in->problem[i]));
    json_t *o = json_pack("{s:s,s:o,s:{s:i,s:i,s:i,s:I,s:I},s:o,s:o,s:o,s:b,s:i,s:o,s:b}",
                          "model",
                          term_clean(dir, sizeof dir, in->dir),
                          "config",
                          json_config(in),
                          "tensors",
                          "demanded",
                          in->n_need,
                          "found",
                          in->n_found,
                          "surplus",
                          in->n_surplus,
                          "values",
                          (json_int_t)in->n_value,
                          "bytes",
                          (json_int_t)in->n_byte,
                          "frame_reads",
                          json_costs(in),
                          "range",
                          json_range(in),
                          "codec",
                          inspect_codec_json(in),
                          "tokenizer",
                          in->tokenizer,
                          "n_problem",
                          in->n_problem,
                          "problems",
                          problems,
                          "fits",
                          in->n_problem == 0);
    json_dumpf(o, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(o);
}
