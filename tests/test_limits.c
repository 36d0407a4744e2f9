/* SPDX-License-Identifier: MIT */
/* Limits by rule: the formulas, the table by name and precision, files of one's own. */
#include "kvref/limits.h"
#include "tests/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static kvref_error err;

START_TEST(t1_grows_with_the_root_of_the_length)
{
    ck_assert(fabs(kvref_t1(64, 1, 0, 0) / (16 * 0x1p-24) - 1) < 1e-12);
    ck_assert(fabs(kvref_t1(256, 3, 0, 0) / (96 * 0x1p-24) - 1) < 1e-12);
    ck_assert(fabs(kvref_t1(1, 0, -2, KVREF_U_F16) / 0x1p-10 - 1) < 1e-12);
    ck_assert(kvref_t1(5, 0, 0, KVREF_U_F32) > 0); /* zeros may differ by a little */
    ck_assert(isnan(kvref_t1(5, (double)NAN, 0, 0)));
}
END_TEST

START_TEST(t2_is_twice_the_plain_error_and_a_rounding)
{
    ck_assert(kvref_t2(1e-3, KVREF_U_F16) == 2e-3 + 0x1p-11);
    ck_assert(kvref_t2(0, KVREF_U_F32) == 0x1p-24);
}
END_TEST

START_TEST(t3_asks_for_a_gap_of_more_than_twice_the_error)
{
    ck_assert(kvref_t3_near_tie(0.5, 0.25) && kvref_t3_near_tie(0, 0));
    ck_assert(!kvref_t3_near_tie(0.5, 0.2499) && !kvref_t3_near_tie(1e-9, 0));
    ck_assert(!kvref_t3_near_tie((double)NAN, 1) && !kvref_t3_near_tie(1, (double)NAN));
}
END_TEST

START_TEST(names_give_tap_and_layer)
{
    static const struct {
        const char *name, *tap;
        int layer;
    } row[] = {
        {"slow.L07.q", "slow.q", 7},
        {"slow.L123.attn_norm", "slow.attn_norm", 123},
        {"fast.L00.k", "fast.k", 0},
        {"slow.embed", "slow.embed", -1},
        {"slow.Layer.q", "slow.Layer.q", -1},
        {"slow.L.q", "slow.L.q", -1},
        {"slow.L1x.q", "slow.L1x.q", -1},
        {"slow.L99999999.q", "slow.L99999999.q", -1}, /* no such layer */
        {"slow.L01.L02.q", "slow.L02.q", 1},
        {"decode5.post_module.L03", "decode.post_module", 3},
        {"encode307193.codes", "encode.codes", -1},
        {"frames", "frames", -1},
        {"", "", -1},
    };
    char tap[64], long_name[300];
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        ck_assert_int_eq(kvref_tap_of(tap, row[i].name), row[i].layer);
        ck_assert_str_eq(tap, row[i].tap);
    }
    memset(long_name, 'x', sizeof long_name);
    long_name[299] = 0;
    kvref_tap_of(tap, long_name);
    ck_assert_uint_eq(strlen(tap), 63);
}
END_TEST

START_TEST(every_tap_has_a_limit_in_each_precision)
{
    static const char *const part[] = {"embed",
                                       "attn_norm",
                                       "q",
                                       "k",
                                       "v",
                                       "attn",
                                       "attn_out",
                                       "ffn_norm",
                                       "ffn_act",
                                       "ffn_out",
                                       "out",
                                       "norm",
                                       "logits",
                                       "hidden"};
    char name[64];
    for (int fast = 0; fast < 2; fast++)
        for (int i = 0; i < 14 - fast; i++) {
            snprintf(name, sizeof name, "%s.L00.%s", fast ? "fast" : "slow", part[i]);
            kvref_tap_limit x = kvref_limit_of(KVREF_STORE_F32, name),
                            y = kvref_limit_of(KVREF_STORE_F16, name),
                            z = kvref_limit_of(KVREF_EXACT, name);
            ck_assert(x.rule == KVREF_T2 && x.limit.rel == 1e-5 && !x.limit.exact);
            ck_assert(y.rule == KVREF_T2 && y.limit.rel > 0x1p-11 && y.limit.rel < 8e-3 + 1e-9);
            ck_assert(z.rule == KVREF_T0 && z.limit.exact && z.limit.rel == 0);
        }
    for (int p = KVREF_EXACT; p <= KVREF_STORE_F16; p++) {
        kvref_precision at = (kvref_precision)p;
        ck_assert(kvref_limit_of(at, "prompt").limit.exact);
        ck_assert(kvref_limit_of(at, "frames").limit.exact);
        ck_assert(kvref_limit_of(at, "slow.kv_bytes").rule == KVREF_UNJUDGED);
        ck_assert(kvref_limit_of(at, "slow.decision").rule == KVREF_UNJUDGED);
    }
    ck_assert(kvref_limit_of(KVREF_STORE_F32, "frames").rule == KVREF_T3);
    ck_assert(kvref_limit_of(KVREF_STORE_F32, "decode5.z").limit.rel == 3e-5);
    ck_assert(kvref_limit_of(KVREF_STORE_F16, "decode1.audio").rule == KVREF_T4);
    ck_assert(kvref_limit_of(KVREF_STORE_F16, "decode1.audio").limit.abs == 1e-4);
    ck_assert(kvref_limit_of(KVREF_STORE_F32, "unheard.of").limit.rel == 1e-5);
    ck_assert_str_eq(kvref_rule_name(KVREF_T4), "T4");
}
END_TEST

static const char *file_of(const char *text)
{
    const char *path = support_path(support_temp_dir(), "limits.json");
    support_write(path, text, strlen(text));
    return path;
}

START_TEST(own_limits_come_first_tensor_before_tap_before_star)
{
    kvref_limits *l;
    const char *path = file_of("{\"taps\": {\"*\": {\"rule\": \"T2\", \"rel\": 0.5},\n"
                               "\"slow.q\": {\"rule\": \"T2\", \"rel\": 0.25, \"abs\": 2},"
                               "\"slow.L01.q\": {\"rule\": \"T0\"},"
                               "\"slow.kv_rows\": {\"rule\": \"T0\"},"
                               "\"slow.v\": {\"rule\": \"none\"}},"
                               "\"format\": \"kvref-limits-1\", \"by\": [1]}");
    must(kvref_limits_open(&l, KVREF_STORE_F16, path, &err), err);
    ck_assert(kvref_limits_precision(l) == KVREF_STORE_F16);
    ck_assert(kvref_limits_find(l, "slow.L00.q").limit.rel == 0.25);
    ck_assert(kvref_limits_find(l, "slow.L00.q").limit.abs == 2);
    ck_assert(kvref_limits_find(l, "slow.L01.q").limit.exact);
    ck_assert(kvref_limits_find(l, "slow.L01.k").limit.rel == 0.5);
    ck_assert(kvref_limits_find(l, "slow.L01.v").rule == KVREF_UNJUDGED);
    ck_assert(kvref_limits_find(l, "slow.kv_rows").rule == KVREF_T0);
    ck_assert(kvref_limits_find(l, "slow.kv_bytes").rule == KVREF_UNJUDGED);
    ck_assert(kvref_limits_find(l, "frames").limit.exact); /* "*" leaves what is exact */
    kvref_limits_close(&l);
    must(kvref_limits_open(&l, KVREF_STORE_F32, NULL, &err), err);
    ck_assert(kvref_limits_find(l, "slow.L00.q").limit.rel == 1e-5);
    kvref_limits_close(&l);
    kvref_limits_close(&l);
}
END_TEST

START_TEST(bad_files_of_limits_are_refused)
{
    static const char *const bad[][2] = {
        {"", "expected '{'"},
        {"[]", "expected '{'"},
        {"{}", "found no \"format\""},
        {"{\"format\": \"kvref-limits-1\"}", "found no \"taps\""},
        {"{\"format\": \"kvref-limits-2\", \"taps\": {}}", "expected \"kvref-limits-1\""},
        {"{\"format\": 1, \"taps\": {}}", "format: expected"},
        {"{\"format\": \"kvref-limits-1\", \"taps\": []}", "expected '{'"},
        {"{\"format\": \"kvref-limits-1\", \"taps\": {\"slow.q\": 1}}",
         "slow.q: expected an object"},
        {"{\"format\": \"kvref-limits-1\", \"taps\": {\"slow.q\": {}}}",
         "slow.q: rule: expected T0, T2"},
        {"{\"format\": \"kvref-limits-1\", \"taps\": {\"q\": {\"rule\": \"T9\"}}}",
         "found \"T9\""},
        {"{\"format\": \"kvref-limits-1\", \"taps\": {\"q\": {\"rule\": \"T2\", \"rel\": -1}}}",
         "rel: expected a number from 0 on"},
        {"{\"format\": \"kvref-limits-1\", \"taps\": {\"q\": {\"rule\": \"T2\", \"abs\": "
         "\"1\"}}}",
         "abs: expected a number"},
        {"{\"format\": \"kvref-limits-1\", \"taps\": {\"q\": {\"rule\": \"T2\", \"rel\": "
         "1e999}}}",
         ""},
        {"{\"format\": \"kvref-limits-1\", \"taps\": {\"q\": {\"rule\": \"T2\", \"rel\": "
         "NaN}}}",
         ""},
    };
    kvref_limits *l;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        must_fail(kvref_limits_open(&l, KVREF_STORE_F32, file_of(bad[i][0]), &err),
                  KVREF_E_FORMAT,
                  err,
                  bad[i][1]);
        ck_assert_ptr_null(l);
    }
    must_fail(kvref_limits_open(&l, KVREF_STORE_F32, "/absent/limits", &err),
              KVREF_E_MISSING,
              err,
              "/absent/limits");
    static char many[1 << 18];
    size_t n = (size_t)snprintf(
        many,
        sizeof many,
        "{\"format\": \"kvref-limits-1\", \"taps\": {\"t\": {\"rule\": \"T0\"}");
    for (int i = 0; i < 1024; i++)
        n += (size_t)snprintf(many + n, sizeof many - n, ",\"t%d\": {\"rule\": \"T0\"}", i);
    snprintf(many + n, sizeof many - n, "}}");
    must_fail(kvref_limits_open(&l, KVREF_STORE_F32, file_of(many), &err),
              KVREF_E_FORMAT,
              err,
              "more than 1024 taps");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("limits");
    TCase *tc = tcase_create("limits");
    tcase_add_test(tc, t1_grows_with_the_root_of_the_length);
    tcase_add_test(tc, t2_is_twice_the_plain_error_and_a_rounding);
    tcase_add_test(tc, t3_asks_for_a_gap_of_more_than_twice_the_error);
    tcase_add_test(tc, names_give_tap_and_layer);
    tcase_add_test(tc, every_tap_has_a_limit_in_each_precision);
    tcase_add_test(tc, own_limits_come_first_tensor_before_tap_before_star);
    tcase_add_test(tc, bad_files_of_limits_are_refused);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
