/* SPDX-License-Identifier: MIT */
/* A synthetic checkpoint for which memory runs out: whichever allocation of the library fails
 * (through --wrap; jansson aborts when its own do), the call says so and leaves no folder. */
#include "kvref/synth.h"
#include "tests/alloc.h"
#include "tests/support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const kvref_config config = {
    .model_type = "dual_ar",
    .slow = {1, 4, 2, 1, 2, 4, true, false, false},
    .fast = {1, 4, 2, 1, 2, 4, false, false, false},
    .n_vocab = 300,
    .n_codebook = 2,
    .n_code = 4,
    .max_seq_len = 16,
    .rope_base = 10000,
    .norm_eps = 1e-6f,
    .semantic_begin = 290,
    .semantic_end = 293,
    .im_end = 280,
};

/* Fails the n-th allocation for rising n, until the call succeeds; returns how many it makes.
 */
static long starve(const char *dir)
{
    kvref_synth_opts o = {.dtype = KVREF_BF16, .n_shard = 2, .tokenizer = true};
    for (long n = 0;; n++) {
        kvref_error err = {.status = KVREF_OK};
        alloc_failed = false;
        alloc_left = n;
        kvref_status s = kvref_synth_write(dir, &config, &o, &err);
        bool spent = alloc_failed;
        alloc_left = -1;
        if (s == KVREF_OK && !spent) return n;
        ck_assert_msg(s == KVREF_E_MEMORY, "allocation %ld: %s", n, err.text);
        ck_assert_msg(err.text[0] != 0 && access(dir, F_OK) != 0, "allocation %ld", n);
    }
}

START_TEST(memory_that_the_library_lacks_is_reported)
{
    ck_assert_int_gt(starve(support_path(support_temp_dir(), "model")), 50);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("synth_memory");
    TCase *tc = tcase_create("synth_memory");
    tcase_add_test(tc, memory_that_the_library_lacks_is_reported);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
