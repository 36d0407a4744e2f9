/* SPDX-License-Identifier: MIT */
/* The codec beside a model: the tensors of its file against the table of spec 06 section 8 for
 * the sizes that the file shows, whichever way its weights are named. */
#include "base/base.h"
#include "kvref/synth_codec.h"
#include "tools/inspect.h"
#include "tools/term.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef unsigned long long ull;

/* A tensor under the name that the table is searched by: without "generator.", gain and
 * direction of a weight as weight_g and weight_v. */
typedef struct entry {
    char name[128];
    const kvref_tensor *tensor; /* NULL in the table */
    bool used;
} entry;

typedef struct entries {
    entry *at; /* [n] in order of name */
    int n;
} entries;

static void plain_name(char out[128], const char *name)
{
    static const char mark[] = "generator.", pair[] = "parametrizations.weight.original";
    size_t n = 0;
    while (*name && n < 127) {
        if (strncmp(name, mark, sizeof mark - 1) == 0) {
            name += sizeof mark - 1;
        } else if (strncmp(name, pair, sizeof pair - 1) == 0 && n < 110) {
            name += sizeof pair - 1;
            n += (size_t)snprintf(out + n, 128 - n, "weight_%c", *name == '0' ? 'g' : 'v');
            if (*name) name++;
        } else {
            out[n++] = *name++;
        }
    }
    out[n] = 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

static kvref_status read_names(entries *out, const kvref_file *file, kvref_error *err)
{
    out->n = kvref_file_count(file);
    out->at = calloc((size_t)out->n + 1, sizeof *out->at);
    if (!out->at) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    for (int i = 0; i < out->n; i++) {
        out->at[i].tensor = kvref_file_at(file, i);
        plain_name(out->at[i].name, out->at[i].tensor->name);
    }
    qsort(out->at, (size_t)out->n, sizeof *out->at, by_name);
    return KVREF_OK;
}

static entry *find(const entries *e, const char *name)
{
    entry key;
    snprintf(key.name, sizeof key.name, "%s", name);
    return bsearch(&key, e->at, (size_t)e->n, sizeof *e->at, by_name);
}

/* ---- the sizes that the file shows ---- */

/* Extent d of a tensor, 0 when there is none or it is out of any range. */
static int extent(const entries *e, int d, const char *format, int i)
{
    char name[128];
    snprintf(name, sizeof name, format, i);
    entry *have = find(e, name);
    size_t end = strlen(name) - 2;
    if (!have && strcmp(name + end, "_v") == 0) { /* folded already */
        name[end] = 0;
        have = find(e, name);
    }
    if (!have || d >= have->tensor->n_dim || have->tensor->dim[d] > 1 << 20) return 0;
    return (int)have->tensor->dim[d];
}

static int count(const entries *e, const char *format)
{
    int n = 0;
    while (n < 65 && extent(e, 0, format, n)) n++;
    return n;
}

static kvref_codec_dims shown_dims(const entries *e)
{
    kvref_codec_dims d = {.window = 1, .encoder_window = 1, .head_dim = 2};
    d.encoder_dim = extent(e, 0, "encoder.block.0.conv.bias", 0);
    d.decoder_dim = extent(e, 0, "decoder.model.0.conv.bias", 0);
    d.latent_dim = extent(e, 0, "quantizer.semantic_quantizer.quantizers.0.out_proj.bias", 0);
    for (int i = 0; i < 4; i++) {
        d.encoder_strides[i] =
            extent(e, 2, "encoder.block.%d.block.4.conv.weight_v", i + 1) / 2;
        d.decoder_strides[i] =
            extent(e, 2, "decoder.model.%d.block.1.conv.weight_v", i + 1) / 2;
    }
    d.n_layer = count(e, "quantizer.post_module.layers.%d.attention.wqkv.weight");
    d.n_encoder_layer = count(e, "encoder.block.4.block.5.layers.%d.attention.wqkv.weight");
    d.d_ff = extent(e, 0, "quantizer.post_module.layers.0.feed_forward.w1.weight", 0);
    d.encoder_d_ff = extent(e, 0, "encoder.block.4.block.5.layers.0.feed_forward.w1.weight", 0);
    d.n_semantic = extent(e, 0, "quantizer.semantic_quantizer.quantizers.0.codebook.weight", 0);
    d.n_book = count(e, "quantizer.quantizer.quantizers.%d.codebook.weight");
    d.n_code = extent(e, 0, "quantizer.quantizer.quantizers.%d.codebook.weight", 0);
    return d;
}

/* ---- comparison ---- */

static void problem(inspection *in, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void problem(inspection *in, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    inspect_problem(in, text);
}

static bool ends(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* Adds a tensor that is used to the sums; gains vanish when weights are folded. */
static void add(codec_inspection *c, const entry *have, const char *name)
{
    const kvref_tensor *t = have->tensor;
    uint64_t n = t->n_byte / kvref_dtype_size(t->dtype);
    bool both = strstr(name, ".out_proj.") || ends(name, ".codebook.weight");
    bool decode = strncmp(name, "decoder.", 8) == 0 ||
                  strncmp(name, "quantizer.post_module.", 22) == 0 ||
                  strncmp(name, "quantizer.upsample.", 19) == 0;
    c->n_value += n;
    c->n_byte += t->n_byte;
    if (ends(name, ".weight_g")) return;
    c->decode += both || decode ? n : 0;
    c->encode += both || !decode ? n : 0;
}

static bool same_shape(const kvref_tensor *a, const kvref_tensor *b)
{
    return a->n_dim == b->n_dim &&
           memcmp(a->dim, b->dim, (size_t)a->n_dim * sizeof a->dim[0]) == 0;
}

static void compare_one(inspection *in, const entries *e, const kvref_tensor *want)
{
    codec_inspection *c = &in->codec;
    char name[128];
    plain_name(name, want->name);
    entry *have = find(e, name);
    bool gain = ends(name, ".weight_g");
    if (!have && (gain || ends(name, ".weight_v"))) {
        char folded[128];
        snprintf(folded, sizeof folded, "%.*s", (int)strlen(name) - 2, name);
        have = find(e, folded);
        if (have && gain) return;
        if (have) snprintf(name, sizeof name, "%s", folded);
    }
    c->n_need++;
    if (!have) {
        problem(in, "codec: %s: missing", name);
        return;
    }
    have->used = true;
    c->n_found++;
    if (!same_shape(have->tensor, want))
        problem(in, "codec: %s: shape does not go with the others", name);
    add(c, have, name);
}

static void leftovers(codec_inspection *c, const entries *e)
{
    for (int i = 0; i < e->n; i++) {
        const entry *have = &e->at[i];
        if (have->used) continue;
        if (ends(have->name, ".freqs_cis") || ends(have->name, ".causal_mask")) {
            c->n_dead++;
            c->dead_byte += have->tensor->n_byte;
        } else {
            if (c->n_surplus++ == 0)
                term_clean(c->surplus, sizeof c->surplus, have->tensor->name);
        }
    }
}

/* How the file names its tensors. */
static void naming(codec_inspection *c, const kvref_file *file)
{
    for (int i = 0; i < kvref_file_count(file); i++) {
        const char *name = kvref_file_at(file, i)->name;
        c->generator |= strstr(name, "generator.") != NULL;
        if (strstr(name, "in_proj") || strstr(name, "out_proj")) continue;
        c->parametrized |= strstr(name, "parametrizations.weight.original0") != NULL;
        c->old_pairs |= ends(name, ".weight_g");
    }
}

/* NaN and infinity among the tensors that are used. */
static kvref_status scan_used(inspection *in, const entries *e, kvref_error *err)
{
    int n = 0;
    const kvref_tensor **used = calloc((size_t)e->n + 1, sizeof *used);
    if (!used) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
    for (int i = 0; i < e->n; i++)
        if (e->at[i].used) used[n++] = e->at[i].tensor;
    kvref_status s = inspect_range(in, "codec: weights", &in->codec.range, NULL, used, n, err);
    free(used);
    return s;
}

static kvref_status compare(inspection *in, const kvref_file *file, bool scan, kvref_error *err)
{
    entries e = {0};
    kvref_synth_codec_list list = {0};
    kvref_error unused;
    KVREF_TRY(read_names(&e, file, err));
    kvref_codec_dims dims = shown_dims(&e);
    naming(&in->codec, file);
    in->codec.tabled = kvref_synth_codec_tensors(&list, &dims, 0, &unused) == KVREF_OK;
    for (int i = 0; i < list.n; i++) compare_one(in, &e, &list.tensor[i]);
    if (in->codec.tabled) leftovers(&in->codec, &e);
    kvref_status s = scan ? scan_used(in, &e, err) : KVREF_OK;
    kvref_synth_codec_free(&list);
    free(e.at);
    return s;
}

/* What the codec itself makes of the file; reads every weight. */
static kvref_status open_codec(inspection *in, const char *path, kvref_error *err)
{
    kvref_codec *codec;
    kvref_codec_opts opts = {.n_thread = 1, .conv = KVREF_CONV_EXACT};
    int before = in->n_problem;
    kvref_status s = kvref_codec_open(&codec, path, &opts, err);
    if (s == KVREF_E_MISSING || s == KVREF_E_SHAPE) {
        if (before == 0) problem(in, "codec: %s", err->text);
        return KVREF_OK;
    }
    KVREF_TRY(s);
    in->codec.opened = true;
    in->codec.info = *kvref_codec_about(codec);
    if (in->codec.info.n_book != in->config.n_codebook)
        problem(in,
                "codec: %d books, the model has %d",
                in->codec.info.n_book,
                in->config.n_codebook);
    kvref_codec_close(&codec);
    return KVREF_OK;
}

kvref_status inspect_codec(inspection *in, bool scan, kvref_error *err)
{
    static const char *const name[] = {"codec.pth", "codec.safetensors"};
    struct stat st;
    kvref_status s = KVREF_OK;
    for (int i = 0; i < 2 && !in->codec.file && s == KVREF_OK; i++) {
        char *path = kvref_path_join(in->dir, name[i]);
        if (!path) return kvref_fail(err, KVREF_E_MEMORY, "out of memory");
        if (stat(path, &st) == 0) {
            kvref_file *file;
            in->codec.file = name[i];
            s = kvref_file_open(&file, path, NULL, err);
            if (s == KVREF_OK) s = compare(in, file, scan, err);
            kvref_file_close(&file);
            if (s == KVREF_OK && scan) s = open_codec(in, path, err);
        }
        free(path);
    }
    return s;
}

/* ---- saying so ---- */

static const char *naming_text(const codec_inspection *c)
{
    return c->parametrized ? "parametrizations"
           : c->old_pairs  ? "weight_g and weight_v"
                           : "folded weights";
}

void inspect_codec_print(const inspection *in)
{
    const codec_inspection *c = &in->codec;
    if (!c->file) {
        printf("%-12s none: no sound can be made or read\n", "codec");
        return;
    }
    printf("%-12s %s, named by %s%s\n",
           "codec",
           c->file,
           naming_text(c),
           c->generator ? ", under \"generator.\"" : "");
    if (c->tabled)
        printf("  %d of %d tensors that its sizes demand, %llu values, %s; %d dead (%s)%s%s\n"
               "  decoding uses %llu values (%s folded), encoding %llu (%s)\n",
               c->n_found,
               c->n_need,
               (ull)c->n_value,
               term_bytes((double)c->n_byte),
               c->n_dead,
               term_bytes((double)c->dead_byte),
               c->n_surplus ? "; surplus: " : "",
               c->surplus,
               (ull)c->decode,
               term_bytes(4.0 * (double)c->decode),
               (ull)c->encode,
               term_bytes(4.0 * (double)c->encode));
    if (c->opened)
        printf("  %d books of %d and %d codes; frames of %d samples at %d Hz; latent width "
               "%d\n",
               c->info.n_book,
               c->info.n_code[0],
               c->info.n_code[c->info.n_book - 1],
               c->info.frame,
               c->info.sample_rate,
               c->info.latent);
}

json_t *inspect_codec_json(const inspection *in)
{
    const codec_inspection *c = &in->codec;
    if (!c->file) return json_null();
    return json_pack("{s:s,s:s,s:b,s:b,s:i,s:i,s:i,s:i,s:I,s:I,s:I,s:I,s:I,s:i,s:i,s:i,s:i}",
                     "file",
                     c->file,
                     "naming",
                     naming_text(c),
                     "generator",
                     c->generator,
                     "opened",
                     c->opened,
                     "demanded",
                     c->n_need,
                     "found",
                     c->n_found,
                     "surplus",
                     c->n_surplus,
                     "dead",
                     c->n_dead,
                     "dead_bytes",
                     (json_int_t)c->dead_byte,
                     "values",
                     (json_int_t)c->n_value,
                     "bytes",
                     (json_int_t)c->n_byte,
                     "decode_values",
                     (json_int_t)c->decode,
                     "encode_values",
                     (json_int_t)c->encode,
                     "books",
                     c->info.n_book,
                     "frame",
                     c->info.frame,
                     "sample_rate",
                     c->info.sample_rate,
                     "latent",
                     c->info.latent);
}
