/* SPDX-License-Identifier: MIT */
/* Case C: the true S2-Pro widths, 449,618,432 parameters, made by formula in a temporary folder
 * (0.9 GB in BF16, below $TMPDIR). Compared with the rows kept in golden/, or with all rows
 * where the uncut file is at hand. */
#include "tests/golden.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

/* Room for the checkpoint and the trace. */
static bool has_room(void)
{
    struct statvfs fs;
    const char *base = getenv("TMPDIR");
    return statvfs(base && *base ? base : "/tmp", &fs) != 0 ||
           (uint64_t)fs.f_bavail * fs.f_frsize > 1000000000u;
}

START_TEST(case_c_with_true_widths_agrees_at_every_tap_and_in_every_bit)
{
    golden_case g;
    const char *uncut = support_shared("golden/upstream-C.safetensors");
    golden_open(&g,
                "C",
                support_source("golden/lm/C.json"),
                uncut ? uncut : support_source("golden/lm/C.safetensors"));
    printf("case C: comparing %s\n", uncut ? "all rows" : "the rows kept in golden/lm");
    kvref_model *model = golden_model(&g.config, KVREF_BF16);
    uint64_t hash = golden_check(&g, kvref_backend_ref(), model, &(kvref_decoder_opts){0});
    printf("C %016" PRIx64 "\n", hash);
    (void)fflush(stdout);
    ck_assert(hash == golden_hash("C"));
    kvref_model_close(&model);
    golden_close(&g);
}
END_TEST

int main(void)
{
    if (!has_room()) {
        printf("skipped: case C needs 1 GB below $TMPDIR or /tmp\n");
        return SUPPORT_SKIP;
    }
    Suite *suite = suite_create("golden_c");
    TCase *tc = tcase_create("golden_c");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, case_c_with_true_widths_agrees_at_every_tap_and_in_every_bit);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
