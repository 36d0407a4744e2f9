/* SPDX-License-Identifier: MIT */
/* Numbered parts of a codec file (books, stages, blocks, layers): a hole among them is found
 * whichever tensor is lacking and whichever side is opened. */
#include "tests/codec_toy.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const unsigned both = KVREF_CODEC_DECODE | KVREF_CODEC_ENCODE;

static kvref_status
open_part(const char *dir, unsigned parts, kvref_codec_info *info, kvref_error *err)
{
    kvref_codec *codec;
    kvref_codec_opts opts = {.n_thread = 1, .parts = parts};
    kvref_status s = kvref_codec_open(&codec, dir, &opts, err);
    if (s != KVREF_OK) return s;
    *info = *kvref_codec_about(codec);
    kvref_codec_close(&codec);
    return s;
}

/* Leaves out tensor number skip, or all whose name begins with prefix. */
typedef struct cut {
    int at, skip;
    const char *prefix;
    char name[160];
} cut;

static bool leave_out(void *user, char *name, kvref_tensor *t, float *x, size_t n)
{
    cut *c = user;
    (void)t, (void)x, (void)n;
    if (c->prefix) return strncmp(name, c->prefix, strlen(c->prefix)) != 0;
    if (c->at++ != c->skip) return true;
    snprintf(c->name, sizeof c->name, "%s", name);
    return false;
}

/* What a message must name: the tensor, or of a weight the layer it belongs to. */
static void layer_of(char *name)
{
    static const char *const end[] = {".parametrizations.weight.original0",
                                      ".parametrizations.weight.original1",
                                      ".weight_g",
                                      ".weight_v"};
    size_t n = strlen(name);
    for (size_t i = 0; i < 4; i++)
        if (n > strlen(end[i]) && strcmp(name + n - strlen(end[i]), end[i]) == 0)
            name[n - strlen(end[i])] = 0;
}

START_TEST(any_one_missing_tensor_is_named_and_never_shortens_a_codec)
{
    kvref_error err;
    kvref_codec_dims dims = toy_small_dims();
    kvref_codec_info whole, found;
    const char *dir = toy_write(&dims, false, 0);
    must(open_part(dir, both, &whole, &err), err);
    int n = 8;
    for (int i = _i; i < n; i += 8) {
        cut c = {.skip = i};
        const char *bad = toy_edit(dir, leave_out, &c, KVREF_F32);
        n = c.at;
        must_fail(open_part(bad, both, &found, &err), KVREF_E_MISSING, err, "");
        layer_of(c.name);
        ck_assert_msg(strstr(err.text, c.name), "%s: %s", c.name, err.text);
        int n_open = 0;
        for (unsigned part = 1; part <= 2; part++) {
            if (open_part(bad, part, &found, &err) != KVREF_OK) continue;
            n_open++;
            ck_assert_msg(found.frame == whole.frame && found.n_book == whole.n_book,
                          "%s: %d samples, %d books",
                          c.name,
                          found.frame,
                          found.n_book);
        }
        ck_assert_int_le(n_open, 1);
    }
    ck_assert_int_gt(n, 100);
}
END_TEST

static void refuse(
    const char *dir, const char *prefix, unsigned part, kvref_status status, const char *text)
{
    kvref_error err;
    kvref_codec_info info;
    cut c = {.prefix = prefix};
    must_fail(open_part(toy_edit(dir, leave_out, &c, KVREF_F32), part, &info, &err),
              status,
              err,
              text);
}

START_TEST(a_missing_part_is_found_from_either_side)
{
    kvref_codec_dims dims = toy_small_dims();
    const char *dir = toy_write(&dims, false, 0);
    for (unsigned part = 1; part <= 3; part++) {
        refuse(dir,
               "quantizer.quantizer.quantizers.1.",
               part,
               KVREF_E_MISSING,
               "quantizer.quantizer.quantizers.1.codebook.weight");
        refuse(dir,
               "quantizer.upsample.1.",
               part,
               KVREF_E_SHAPE,
               "and 2 stages, decoder of 4 and 1");
        refuse(dir,
               "quantizer.downsample.1.",
               part,
               KVREF_E_SHAPE,
               "and 1 stages, decoder of 4 and 2");
        refuse(dir,
               "quantizer.downsample.",
               part,
               KVREF_E_SHAPE,
               "and 0 stages, decoder of 4 and 2");
        refuse(dir,
               "decoder.model.4.block.",
               part,
               KVREF_E_SHAPE,
               "of 4 blocks and 2 stages, decoder of 3");
        refuse(dir,
               "encoder.block.4.",
               part,
               KVREF_E_SHAPE,
               "of 3 blocks and 2 stages, decoder of 4");
    }
    refuse(dir, "quantizer.upsample.0.", 1, KVREF_E_MISSING, "quantizer.upsample.0.0.conv");
    refuse(dir, "quantizer.downsample.0.", 2, KVREF_E_MISSING, "quantizer.downsample.0.0.conv");
    refuse(dir, "decoder.model.2.", 1, KVREF_E_MISSING, "decoder.model.2.block.0.alpha");
    refuse(dir, "encoder.block.2.", 2, KVREF_E_MISSING, "encoder.block.2.block.4.conv");
    refuse(dir, "quantizer.post_module.layers.0.", 1, KVREF_E_MISSING, "post_module.layers.0.");
    refuse(dir, "quantizer.pre_module.layers.0.", 2, KVREF_E_MISSING, "pre_module.layers.0.");
}
END_TEST

START_TEST(a_side_that_the_file_has_not_is_said)
{
    kvref_error err;
    kvref_codec_info info;
    kvref_codec_dims dims = toy_small_dims();
    const char *dir = toy_write(&dims, false, 0);
    refuse(dir, "encoder.", KVREF_CODEC_ENCODE, KVREF_E_MISSING, "expected an encoder");
    refuse(dir, "encoder.", both, KVREF_E_MISSING, "expected an encoder");
    refuse(dir, "decoder.", KVREF_CODEC_DECODE, KVREF_E_MISSING, "expected a decoder");
    cut c = {.prefix = "decoder."};
    must(open_part(toy_edit(dir, leave_out, &c, KVREF_F32), KVREF_CODEC_ENCODE, &info, &err),
         err);
}
END_TEST

static bool rename_one(void *user, char *name, kvref_tensor *t, float *x, size_t n)
{
    (void)t, (void)x, (void)n;
    if (strcmp(name, "encoder.block.0.conv.bias") == 0)
        snprintf(name, 160, "%s", (const char *)user);
    return true;
}

START_TEST(numbers_are_read_as_written)
{
    static char *const taken[] = {"quantizer.upsample.7.x",
                                  "quantizer.quantizer.quantizers.30.x",
                                  "quantizer.post_module.layers.63.x"};
    static char *const refused[] = {"quantizer.upsample.8.x",
                                    "quantizer.quantizer.quantizers.99999999999999999999.x",
                                    "quantizer.post_module.layers.64.x",
                                    "quantizer.semantic_quantizer.quantizers.1.x"};
    static char *const other[] = {"quantizer.upsample.01.x",
                                  "quantizer.upsample..x",
                                  "quantizer.upsample.7",
                                  "quantizer.upsample.7a.x",
                                  "xquantizer.upsample.7.x"};
    kvref_error err;
    kvref_codec_info info;
    kvref_codec_dims dims = toy_small_dims();
    const char *dir = toy_write(&dims, false, 0);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        ck_assert_int_ne(
            open_part(toy_edit(dir, rename_one, taken[i], KVREF_F32), 1, &info, &err),
            KVREF_OK);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        must_fail(open_part(toy_edit(dir, rename_one, refused[i], KVREF_F32), 1, &info, &err),
                  KVREF_E_UNSUPPORTED,
                  err,
                  refused[i]);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        must(open_part(toy_edit(dir, rename_one, other[i], KVREF_F32), 1, &info, &err), err);
}
END_TEST

static bool spoil_entry(void *user, char *name, kvref_tensor *t, float *x, size_t n)
{
    (void)t, (void)n;
    if (strcmp(name, "quantizer.quantizer.quantizers.1.codebook.weight") == 0)
        x[8 * 5 + 3] = *(const float *)user;
    return true;
}

START_TEST(entries_that_are_not_finite_are_refused_at_opening)
{
    kvref_error err;
    kvref_codec_info info;
    kvref_codec_dims dims = toy_small_dims();
    const char *dir = toy_write(&dims, false, 0);
    float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3; i++)
        for (unsigned part = 1; part <= 3; part++)
            must_fail(
                open_part(toy_edit(dir, spoil_entry, &bad[i], KVREF_F32), part, &info, &err),
                KVREF_E_FORMAT,
                err,
                "book 2, entry 5 is not finite");
}
END_TEST

START_TEST(strides_of_codec_json_are_counted_whichever_side_is_opened)
{
    static const char json[] = "{\"head_dim\": 12, \"decoder_strides\": [4, 3, 2]}";
    kvref_error err;
    kvref_codec_info info;
    kvref_codec_dims dims = toy_small_dims();
    const char *dir = toy_write(&dims, false, 0);
    support_write(support_path(dir, "codec.json"), json, sizeof json - 1);
    for (unsigned part = 1; part <= 3; part++)
        must_fail(open_part(dir, part, &info, &err), KVREF_E_SHAPE, err, "expected 4, as the");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("codec_numbering");
    TCase *tc = tcase_create("codec_numbering");
    tcase_add_loop_test(tc, any_one_missing_tensor_is_named_and_never_shortens_a_codec, 0, 8);
    tcase_add_test(tc, a_missing_part_is_found_from_either_side);
    tcase_add_test(tc, a_side_that_the_file_has_not_is_said);
    tcase_add_test(tc, numbers_are_read_as_written);
    tcase_add_test(tc, entries_that_are_not_finite_are_refused_at_opening);
    tcase_add_test(tc, strides_of_codec_json_are_counted_whichever_side_is_opened);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
