/* SPDX-License-Identifier: MIT */
/* Comparison of traces row by row: files that keep some rows only, runs of other length, and
 * every type of number. */
#include "kvref/half.h"
#include "tests/trace_make.h"

#include <math.h>

static kvref_error err;
static trace_make a, b;

static void fresh(void)
{
    run_make(&a);
    run_make(&b);
}

static void done(void)
{
    trace_free(&a);
    trace_free(&b);
}

static float *floats(trace_make *m, const char *name)
{
    return trace_at(m, name);
}

static const kvref_tap_diff *tap(const compared *c, const char *name)
{
    for (int i = 0; i < c->d->n_tap; i++)
        if (strcmp(c->d->tap[i].a->name, name) == 0) return &c->d->tap[i];
    ck_abort_msg("no tap %s", name);
}

static void keep_only(trace_make *m, const char *x, const char *y)
{
    for (int i = m->n - 1; i >= 0; i--) {
        const char *name = m->t[i].name;
        if (strcmp(name, x) != 0 && strcmp(name, y) != 0) trace_drop(m, name);
    }
}

/* Copies rows of a tensor [n, width] into a new one of `to`. */
static void cut(trace_make *to, const trace_make *from, const char *name, const int *row, int n)
{
    for (int i = 0; i < from->n; i++) {
        const kvref_tensor *t = &from->t[i];
        if (strcmp(t->name, name) != 0) continue;
        int dim[KVREF_MAX_DIM];
        for (int d = 0; d < t->n_dim; d++) dim[d] = (int)t->dim[d];
        size_t n_byte = t->n_byte / (size_t)dim[0];
        dim[0] = n;
        trace_drop(to, name);
        char *x = trace_add(to, name, t->dtype, dim, t->n_dim);
        for (int k = 0; k < n; k++)
            memcpy(x + (size_t)k * n_byte,
                   (const char *)t->data + (size_t)row[k] * n_byte,
                   n_byte);
        return;
    }
}

START_TEST(cut_rows_are_compared_with_the_rows_they_came_from)
{
    static const int position[] = {1, 4, 5}, frame[] = {0, 2};
    fresh();
    cut(&a, &b, "slow.L00.k", position, 3);
    cut(&a, &b, "slow.logits", frame, 2);
    keep_only(&a, "slow.L00.k", "slow.logits");
    trace_note(&a, "rows.position", "1,4,5");
    trace_note(&a, "rows.frame", "0,2");
    compared c = compare_traces(&a, &b, KVREF_EXACT);
    ck_assert(c.d->verdict == KVREF_SAME && tap(&c, "slow.L00.k")->n == 24);
    ck_assert(tap(&c, "slow.logits")->n == 16 && c.d->n_prompt == RUN_P);
    compared_free(&c);
    floats(&b, "slow.L00.k")[5 * 8 + 1] += 1;
    floats(&b, "slow.L00.k")[2 * 8 + 1] += 1; /* not kept */
    c = compare_traces(&a, &b, KVREF_STORE_F32);
    const kvref_tap_diff *t = tap(&c, "slow.L00.k");
    ck_assert(t->n_bad == 1 && t->first.place.row == 5 && t->first.at[0] == 2);
    ck_assert(t->first.place.frame == 3);
    compared_free(&c);
    c = compare_traces(&b, &a, KVREF_STORE_F32); /* the other way round */
    t = tap(&c, "slow.L00.k");
    ck_assert(t->n_bad == 1 && t->n == 24 && t->first.place.row == 5 && t->first.at[0] == 5);
    compared_free(&c);
    done();
}
END_TEST

START_TEST(cut_codebook_positions_are_found)
{
    fresh();
    float *x = floats(&a, "fast.embed"), *to;
    trace_make cut_a = {0};
    to = ADD(&cut_a, "fast.embed", KVREF_F32, RUN_F, 1, 5);
    for (int f = 0; f < RUN_F; f++)
        memcpy(to + f * 5, x + f * 15 + 10, 5 * sizeof *x); /* position 2 */
    to = ADD(&cut_a, "fast.logits", KVREF_F32, RUN_F, 1, RUN_K);
    for (int f = 0; f < RUN_F; f++)
        memcpy(to + f * RUN_K, floats(&a, "fast.logits") + f * 12 + 6, RUN_K * sizeof *x);
    trace_note(&cut_a, "rows.book", "2");
    compared c = compare_traces(&cut_a, &b, KVREF_EXACT);
    ck_assert(c.d->verdict == KVREF_SAME && c.d->n_value == RUN_F * (5 + RUN_K));
    compared_free(&c);
    floats(&b, "fast.logits")[12 + 6 + 3] += 1;
    c = compare_traces(&cut_a, &b, KVREF_STORE_F32);
    ck_assert(c.d->first->first.place.frame == 1 && c.d->first->first.place.book == 2);
    compared_free(&c);
    trace_free(&cut_a);
    done();
}
END_TEST

static void refuse_rows(const char *key, const char *list, const char *contains)
{
    kvref_diff *d;
    kvref_limits *l;
    fresh();
    trace_note(&b, key, list);
    kvref_file *x = trace_open(&a, "a.st"), *y = trace_open(&b, "b.st");
    must(kvref_limits_open(&l, KVREF_STORE_F32, NULL, &err), err);
    must_fail(kvref_diff_open(&d, x, y, l, &err), KVREF_E_FORMAT, err, contains);
    ck_assert_ptr_null(d);
    kvref_limits_close(&l);
    kvref_file_close(&x);
    kvref_file_close(&y);
    done();
}

START_TEST(row_lists_that_make_no_sense_are_refused)
{
    static const char *const bad[] = {
        "", "1,", "x", "-1", "2,1", "1,1", "1;2", " 1", "0x1", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        refuse_rows("rows.position", bad[i], "B: rows.position: expected ascending numbers");
    refuse_rows(
        "rows.position", "0,1,2", "expected the 3 rows that its metadata lists, found 6");
    refuse_rows("rows.frame", "0,1,2,3,4", "expected the 5 rows");
    refuse_rows("rows.book", "0", "expected the 1 rows");
}
END_TEST

START_TEST(fewer_rows_are_judged_as_far_as_they_go)
{
    static const int row[] = {0, 1, 2, 3};
    fresh();
    cut(&b, &a, "slow.L01.out", row, 4);
    compared c = compare_traces(&a, &b, KVREF_EXACT);
    ck_assert(c.d->verdict == KVREF_SAME && tap(&c, "slow.L01.out")->n == 20);
    ck_assert(c.d->n_value + 10 == c.d->n_value_a);
    compared_free(&c);
    done();
}
END_TEST

START_TEST(runs_of_other_length_differ_unless_a_forced_one_was_given_less)
{
    static const int row[] = {0, 1, 2};
    fresh();
    cut(&b, &a, "frames", row, 3);
    ck_assert(verdict_of(&a, &b, KVREF_STORE_F32) == KVREF_DIFFERS);
    ck_assert(verdict_of(&b, &a, KVREF_STORE_F32) == KVREF_DIFFERS);
    trace_note(&b, "stop", "forced");
    ck_assert(verdict_of(&a, &b, KVREF_STORE_F32) == KVREF_SAME);
    ck_assert(verdict_of(&b, &a, KVREF_STORE_F32) == KVREF_SAME);
    done();
}
END_TEST

START_TEST(other_prompts_end_the_judging)
{
    fresh();
    ((int32_t *)trace_at(&b, "prompt"))[2 * 4] = 9;
    floats(&b, "slow.embed")[0] = NAN;
    compared c = compare_traces(&a, &b, KVREF_STORE_F32);
    ck_assert(c.d->verdict == KVREF_DIFFERS && c.d->inputs == KVREF_INPUTS_PROMPT);
    ck_assert(c.d->first == tap(&c, "prompt") && c.d->first->first.at[0] == 2);
    ck_assert(tap(&c, "slow.embed")->state == KVREF_TAP_BEYOND);
    compared_free(&c);
    done();
    static const int row[] = {0, 1};
    fresh(); /* the same positions, but fewer */
    cut(&b, &a, "prompt", row, 2);
    for (int way = 0; way < 2; way++) {
        c = compare_traces(way ? &b : &a, way ? &a : &b, KVREF_STORE_F32);
        ck_assert(c.d->verdict == KVREF_DIFFERS && c.d->inputs == KVREF_INPUTS_PROMPT);
        ck_assert(c.d->first == NULL);
        compared_free(&c);
    }
    done();
}
END_TEST

/* ---- number types ---- */

START_TEST(every_number_type_is_read)
{
    static const kvref_dtype f[] = {KVREF_F16, KVREF_BF16, KVREF_F64};
    for (int i = 0; i < 3; i++) {
        fresh();
        float *x = floats(&a, "slow.hidden");
        trace_drop(&b, "slow.hidden");
        void *y = ADD(&b, "slow.hidden", f[i], RUN_F, 5);
        for (int k = 0; k < RUN_F * 5; k++) {
            uint16_t h = f[i] == KVREF_F16 ? kvref_f32_f16(x[k]) : kvref_f32_bf16(x[k]);
            double d = (double)x[k];
            if (f[i] == KVREF_F64) memcpy((char *)y + k * 8, &d, 8);
            if (f[i] != KVREF_F64) memcpy((char *)y + k * 2, &h, 2);
            if (f[i] == KVREF_F16) x[k] = kvref_f16_f32(h);
            if (f[i] == KVREF_BF16) x[k] = kvref_bf16_f32(h);
        }
        ck_assert(verdict_of(&a, &b, KVREF_EXACT) == KVREF_SAME);
        x[3] += 1;
        ck_assert(verdict_of(&a, &b, KVREF_STORE_F16) == KVREF_DIFFERS);
        done();
    }
    static const kvref_dtype n[] = {KVREF_I64, KVREF_I16, KVREF_I8, KVREF_U8};
    for (int i = 0; i < 4; i++) {
        fresh();
        const int32_t *x = trace_at(&a, "frames");
        trace_drop(&b, "frames");
        char *y = ADD(&b, "frames", n[i], RUN_F, 1 + RUN_N);
        for (int k = 0; k < RUN_F * (1 + RUN_N); k++) {
            int64_t v = x[k]; /* the low bytes come first */
            memcpy(y + (size_t)k * kvref_dtype_size(n[i]), &v, kvref_dtype_size(n[i]));
        }
        ck_assert(verdict_of(&a, &b, KVREF_EXACT) == KVREF_SAME);
        y[0] ^= 1;
        ck_assert(verdict_of(&a, &b, KVREF_EXACT) == KVREF_DIFFERS);
        done();
    }
}
END_TEST

static Suite *suite_rows(void)
{
    Suite *suite = suite_create("diff_rows");
    TCase *tc = tcase_create("diff_rows");
    tcase_add_test(tc, cut_rows_are_compared_with_the_rows_they_came_from);
    tcase_add_test(tc, cut_codebook_positions_are_found);
    tcase_add_test(tc, row_lists_that_make_no_sense_are_refused);
    tcase_add_test(tc, fewer_rows_are_judged_as_far_as_they_go);
    tcase_add_test(tc, runs_of_other_length_differ_unless_a_forced_one_was_given_less);
    tcase_add_test(tc, other_prompts_end_the_judging);
    tcase_add_test(tc, every_number_type_is_read);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    return support_run(suite_rows());
}
