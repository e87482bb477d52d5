/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks compared step by step: which step own time belongs to, the table of steps, and what few steps can tell.
 * Lives here: figures made by hand. Must not live here: whole traces (e2e).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/load/dump.h"
#include "analyzer/stragglers/time_batches.h"

enum { RANKS = 4 };

/* ---- which step ---------------------------------------------------------------------------------------------- */

static void what_is_launched_belongs_to_its_step(void **state) {
    (void)state;
    struct own_steps steps = {0};
    own_steps_launched(&steps, 1, 50); /* before the first step */
    assert_true(own_steps_mark(&steps, 100) && own_steps_mark(&steps, 200) && own_steps_mark(&steps, 300));
    own_steps_launched(&steps, 2, 110);
    own_steps_launched(&steps, 3, 120);
    own_steps_launched(&steps, 4, 310); /* the host has run ahead: nothing was launched in the second */
    assert_null(own_steps_at(&steps, 99));
    assert_ptr_equal(own_steps_at(&steps, 100), &steps.rows[0]);
    assert_ptr_equal(own_steps_at(&steps, 299), &steps.rows[1]);
    assert_null(own_steps_of_launch(&steps, 1));
    assert_ptr_equal(own_steps_of_launch(&steps, 3), &steps.rows[0]);
    assert_ptr_equal(own_steps_of_launch(&steps, 4), &steps.rows[2]);
    assert_ptr_equal(own_steps_of_launch(&steps, 9), &steps.rows[2]);
    own_steps_free(&steps);
}

static void beside_is_left_out_and_put_back(void **state) {
    (void)state;
    struct own_steps steps = {0};
    assert_true(own_steps_mark(&steps, 0));
    own_steps_add(own_steps_at(&steps, 5), 10, 40);
    own_steps_add(own_steps_at(&steps, 5), 40, 10); /* no time */
    own_steps_add(NULL, 10, 40);
    steps.rows[0].beside_ns = 12;
    own_steps_count_beside(&steps, -1);
    assert_int_equal(steps.rows[0].self_ns, 18);
    own_steps_count_beside(&steps, 1);
    assert_int_equal(steps.rows[0].self_ns, 30);
    own_steps_free(&steps);
}

static void of_more_than_64_steps_none_is_kept(void **state) {
    (void)state;
    struct own_steps steps = {0};
    for (int i = 0; i < 64; i++)
        assert_true(own_steps_mark(&steps, i));
    assert_int_equal(steps.count, 64);
    assert_true(own_steps_mark(&steps, 64));
    assert_int_equal(steps.count, 0);
    assert_null(own_steps_at(&steps, 64));
    assert_true(own_steps_mark(&steps, 65));
    assert_int_equal(steps.count, 0);
    own_steps_free(&steps);
}

static void collectives_of_all_part_steps_where_none_is_marked(void **state) {
    (void)state;
    struct own_steps steps = {0};
    assert_true(own_steps_meet(&steps, 100)); /* of another group */
    assert_int_equal(steps.count, 0);
    steps.meets = true;
    for (int i = 0; i < 4; i++)
        assert_true(own_steps_meet(&steps, 100 * i));
    assert_int_equal(own_steps_whole(&steps), 3); /* the last one has no end */
    assert_true(own_steps_mark(&steps, 400));
    assert_true(own_steps_meet(&steps, 450));
    assert_int_equal(steps.count, 1);
    assert_int_equal(own_steps_whole(&steps), 1);
    own_steps_free(&steps);
}

static void steps_travel(void **state) {
    (void)state;
    struct own_steps steps = {0}, other = {0};
    assert_true(own_steps_mark(&steps, 7) && own_steps_mark(&steps, 8));
    steps.rows[1].self_ns = 5;
    struct parcel sent = parcel_to_pack();
    own_steps_parcel(&steps, &sent);
    parcel_seal(&sent);
    struct parcel got = parcel_to_unpack(sent.bytes, sent.size);
    own_steps_parcel(&other, &got);
    assert_true(parcel_is_used_up(&got));
    assert_int_equal(other.count, 2);
    assert_memory_equal(other.rows, steps.rows, 2 * sizeof *steps.rows);
    parcel_free(&sent);
    own_steps_free(&steps);
    own_steps_free(&other);
}

/* ---- in a rank's own time ------------------------------------------------------------------------------------ */

static void add(struct rank_times *times, const struct call_name *call, struct record record) {
    const struct match_record item = {
        .record = &record, .t0 = (int64_t)record.t0, .begin = (int64_t)record.t0, .t1 = (int64_t)record.t1};
    assert_true(rank_times_add(times, &item, call));
}

/* In each step of 1 ms a kernel of 600 us, which 300 us of a collective overlap. */
static void play_steps(struct rank_times *times, uint64_t first, uint64_t count) {
    static const struct call_name kernels = {.name = GPU_WORK_KERNELS, .api = API_TRACE},
                                  reduce = {.api = API_NCCL, .call_class = CLASS_COLLECTIVE};
    for (uint64_t step = first; step < first + count; step++) {
        uint64_t at = 1000000 * step;
        add(times, NULL, (struct record){.t0 = at, .t1 = at, .tag = STEP_MARK_LEVEL, .kind = RECORD_MARK});
        add(times, &reduce, (struct record){.t0 = at, .t1 = at + 10, .op = (uint32_t)step, .kind = RECORD_POST});
        add(times, &kernels, (struct record){.t0 = at + 100000, .t1 = at + 700000, .seq = 90, .kind = RECORD_CALL});
        add(times, &reduce,
            (struct record){.t0 = at + 400000, .t1 = at + 900000, .op = (uint32_t)step, .kind = RECORD_GPU});
    }
}

static void own_time_of_steps_is_work_and_what_is_neither(void **state) {
    (void)state;
    struct rank_times times;
    assert_true(rank_times_init(&times, &(struct cut){.kind = CUT_NONE}, 8, 2, true));
    play_steps(&times, 1, 3);
    assert_int_equal(times.steps.count, 3);
    /* 100 us up to the first record, then from the end of the collective to the next kernel */
    assert_int_equal(times.steps.rows[0].self_ns, 700000);
    assert_int_equal(times.steps.rows[1].self_ns, 600000 + 200000);
    assert_int_equal(times.steps.rows[1].beside_ns, 300000);
    rank_times_free(&times);
}

/* A kernel goes on while there come to be too many steps: what it belonged to is gone when a collective begins beside
 * it. */
static void too_many_steps_in_a_ranks_time(void **state) {
    (void)state;
    static const struct call_name kernels = {.name = GPU_WORK_KERNELS, .api = API_TRACE},
                                  reduce = {.api = API_NCCL, .call_class = CLASS_COLLECTIVE};
    const uint64_t at = 65000000;
    struct rank_times times;
    assert_true(rank_times_init(&times, &(struct cut){.kind = CUT_NONE}, 8, 2, true));
    play_steps(&times, 1, 64);
    assert_int_equal(times.steps.count, 64);
    add(&times, &kernels, (struct record){.t0 = at + 100000, .t1 = at + 700000, .seq = 90, .kind = RECORD_CALL});
    add(&times, NULL,
        (struct record){.t0 = at + 200000, .t1 = at + 200000, .tag = STEP_MARK_LEVEL, .kind = RECORD_MARK});
    assert_int_equal(times.steps.count, 0);
    add(&times, &reduce, (struct record){.t0 = at + 400000, .t1 = at + 900000, .op = 65, .kind = RECORD_GPU});
    assert_int_equal(times.self_ns, 600000 + 64 * 800000);
    rank_times_free(&times);
}

/* ---- the table ----------------------------------------------------------------------------------------------- */

static void make_ranks(struct rank_times *times, size_t steps) {
    memset(times, 0, RANKS * sizeof *times);
    for (size_t r = 0; r < RANKS; r++) {
        times[r].bins.count = 1;
        for (size_t i = 0; i < steps; i++)
            assert_true(own_steps_mark(&times[r].steps, (int64_t)i));
        for (size_t i = 0; i < times[r].steps.count; i++)
            times[r].steps.rows[i].self_ns = (int64_t)(100 * (i + 1) + r);
    }
}

static void free_ranks(struct rank_times *times) {
    for (size_t r = 0; r < RANKS; r++)
        own_steps_free(&times[r].steps);
}

static const size_t members[RANKS] = {0, 1, 2, 3};

static void each_step_is_a_row(void **state) {
    (void)state;
    struct rank_times times[RANKS];
    struct time_batches batches;
    make_ranks(times, 5);
    for (size_t r = 0; r < RANKS; r++)
        times[r].steps.rows[4].self_ns = 0; /* behind the last mark nothing is launched */
    assert_true(time_batches_of_steps(&batches, times, members, RANKS));
    assert_int_equal(batches.rows, ROWS_ARE_STEPS);
    assert_int_equal(batches.count, 4);
    assert_int_equal(batches.self_ns[2 * RANKS + 3], 303);
    time_batches_free(&batches);
    free_ranks(times);
}

static void of_many_steps_several_are_a_row(void **state) {
    (void)state;
    struct rank_times times[RANKS];
    struct time_batches batches;
    make_ranks(times, 35); /* two each, and one is left over */
    assert_true(time_batches_of_steps(&batches, times, members, RANKS));
    assert_int_equal(batches.count, 17);
    assert_int_equal(batches.at_once, 2);
    assert_int_equal(batches.self_ns[1], 101 + 201);
    time_batches_free(&batches);
    free_ranks(times);
}

static void ranks_without_equal_steps_have_no_rows(void **state) {
    (void)state;
    struct rank_times times[RANKS];
    struct time_batches batches;
    make_ranks(times, 5);
    assert_true(own_steps_mark(&times[2].steps, 9));
    assert_true(time_batches_of_steps(&batches, times, members, RANKS));
    assert_int_equal(batches.count, 0);
    time_batches_free(&batches);
    free_ranks(times);
    make_ranks(times, 2); /* too few */
    assert_true(time_batches_of_steps(&batches, times, members, RANKS));
    assert_int_equal(batches.count, 0);
    time_batches_free(&batches);
    free_ranks(times);
}

/* ---- what few steps can tell --------------------------------------------------------------------------------- */

/* The last of the ranks takes `slow` per cent longer in each of the steps, in which all vary by 1 %. */
static double confidence_in(size_t steps, size_t ranks, int slow, enum significance_rows rows) {
    int64_t table[40 * 8];
    struct significance judged[8], *all[8];
    for (size_t s = 0; s < steps; s++)
        for (size_t r = 0; r < ranks; r++)
            table[s * ranks + r] = (1000 + (int64_t)((7 * s + 3 * r) % 5) * 5) * (r == ranks - 1 ? 100 + slow : 100);
    assert_true(significance_judge(table, steps, ranks, rows, judged) >= 0);
    for (size_t r = 0; r < ranks; r++)
        all[r] = &judged[r];
    assert_true(significance_correct(all, ranks));
    for (size_t r = 0; r + 1 < ranks; r++)
        assert_true(judged[r].confidence < CONFIDENCE_SUSPECT);
    return judged[ranks - 1].confidence;
}

static void three_steps_tell_who_is_far_slower(void **state) {
    (void)state;
    assert_true(confidence_in(3, 4, 40, ROWS_ARE_STEPS) >= CONFIDENCE_VERDICT);
    assert_true(confidence_in(3, 4, 0, ROWS_ARE_STEPS) < CONFIDENCE_SUSPECT);
    assert_true(confidence_in(4, 2, 40, ROWS_ARE_STEPS) >= CONFIDENCE_VERDICT);
    assert_true(confidence_in(2, 8, 40, ROWS_ARE_STEPS) <= 0); /* what two differ by is nothing to measure with */
    assert_true(confidence_in(7, 4, 40, ROWS_ARE_TIME) <= 0);  /* parts of a step are not alike */
}

/* Where it is the slowest but for one step its distance says nothing: that is counted. */
static void one_step_of_few_that_is_not_slow_leaves_doubt(void **state) {
    (void)state;
    for (size_t steps = 4; steps <= 8; steps += 4) {
        int64_t table[8 * 4];
        struct significance judged[4], *all[4] = {&judged[0], &judged[1], &judged[2], &judged[3]};
        for (size_t s = 0; s < steps; s++)
            for (size_t r = 0; r < 4; r++)
                table[s * 4 + r] = 1000 + (int64_t)((5 * s + 3 * r) % 7) + (r == 1 && s != 2 ? 400 : 0);
        significance_judge(table, steps, 4, ROWS_ARE_STEPS, judged);
        significance_correct(all, 4);
        assert_int_equal(judged[1].confidence >= CONFIDENCE_VERDICT, steps == 8);
    }
}

/* A rank that another process keeps busy for a while is slow in steps that follow each other: of 16 and more that is
 * seen (their autocorrelation), of fewer it is not. It is not the slowest in all of them: then its distance would do.
 */
static void steps_in_a_row_count_for_less_from_sixteen_on(void **state) {
    (void)state;
    for (size_t steps = 15; steps <= 16; steps++) {
        int64_t table[16 * 2];
        struct significance judged[2], *all[2] = {&judged[0], &judged[1]};
        for (size_t s = 0; s < steps; s++) {
            table[2 * s] = 1000;
            table[2 * s + 1] = s == 0 ? 900 : 1000 + 100 * (int64_t)s;
        }
        significance_judge(table, steps, 2, ROWS_ARE_STEPS, judged);
        significance_correct(all, 2);
        assert_int_equal(judged[1].confidence >= CONFIDENCE_VERDICT, steps == 15);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_launched_belongs_to_its_step),
        cmocka_unit_test(beside_is_left_out_and_put_back),
        cmocka_unit_test(of_more_than_64_steps_none_is_kept),
        cmocka_unit_test(collectives_of_all_part_steps_where_none_is_marked),
        cmocka_unit_test(steps_travel),
        cmocka_unit_test(own_time_of_steps_is_work_and_what_is_neither),
        cmocka_unit_test(too_many_steps_in_a_ranks_time),
        cmocka_unit_test(each_step_is_a_row),
        cmocka_unit_test(of_many_steps_several_are_a_row),
        cmocka_unit_test(ranks_without_equal_steps_have_no_rows),
        cmocka_unit_test(three_steps_tell_who_is_far_slower),
        cmocka_unit_test(one_step_of_few_that_is_not_slow_leaves_doubt),
        cmocka_unit_test(steps_in_a_row_count_for_less_from_sixteen_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
