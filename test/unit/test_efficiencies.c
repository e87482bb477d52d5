/* SPDX-License-Identifier: Apache-2.0
 *
 * POP efficiencies: against values worked out by hand, and what holds of any of them.
 * Must not live here: the replay of single calls (test_replay.c).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/align/align.h"
#include "analyzer/stragglers/stragglers.h"
#include "test/scenes/workload.h"
#include "test/unit/job_builder.h"

static bool near(double a, double b) {
    return fabs(a - b) < 1e-12;
}

static struct efficiencies of(const struct rank_times *times, size_t count, int64_t saved_ns) {
    struct efficiencies found;
    efficiencies_find(&found, times, count, &(struct ideal_replay){.linked = true, .saved_ns = saved_ns});
    return found;
}

static const struct rank_times four[] = {{.window_ns = 100, .self_ns = 80},
                                         {.window_ns = 100, .self_ns = 60},
                                         {.window_ns = 90, .self_ns = 40},
                                         {.window_ns = 100, .self_ns = 20}};

static void the_ratios_are_those_of_pop(void **state) {
    (void)state;
    struct efficiencies found = of(four, 4, 15);
    assert_true(near(found.load_balance, 50.0 / 80));
    assert_true(near(found.communication, 80.0 / 100));
    assert_true(near(found.parallel, 50.0 / 100));
    assert_true(near(found.serialization, 80.0 / 85));
    assert_true(near(found.transfer, 85.0 / 100));
    assert_int_equal(found.missing, EFFICIENCIES_ALL_KNOWN);
    assert_true(near(found.parallel, found.load_balance * found.serialization * found.transfer));
}

static void nobody_is_done_before_the_longest_work(void **state) {
    (void)state;
    struct efficiencies much = of(four, 4, 40), less = of(four, 4, -3);
    assert_int_equal(much.ideal_runtime_ns, 80);
    assert_true(near(much.serialization, 1) && near(much.transfer, 0.8));
    assert_int_equal(less.ideal_runtime_ns, 100); /* an ideal network costs nothing */
    assert_true(near(less.serialization, 0.8) && near(less.transfer, 1));
}

/* The second rank was done early, the third one has nothing on record. */
static void who_has_nothing_on_record_counts_for_nothing(void **state) {
    (void)state;
    struct rank_times times[] = {{.window_ns = 100, .self_ns = 50}, {.window_ns = 50, .self_ns = 40}, {.window_ns = 0}};
    struct efficiencies found = of(times, 3, 0);
    assert_int_equal(found.useful_mean_ns, 45);
    assert_int_equal(found.useful_most_ns, 50);
}

static void what_is_not_known_is_not_told(void **state) {
    (void)state;
    struct rank_times idle[] = {{.window_ns = 100}, {.window_ns = 0}};
    struct efficiencies nothing = of(idle, 2, 0), found;
    assert_int_equal(nothing.missing, EFFICIENCIES_NO_TIME);
    assert_true(nothing.parallel == EFFICIENCY_UNKNOWN && nothing.load_balance == EFFICIENCY_UNKNOWN);
    assert_true(nothing.communication == EFFICIENCY_UNKNOWN && nothing.transfer == EFFICIENCY_UNKNOWN);
    const struct ideal_replay apart = {.linked = false, .saved_ns = 10};
    const struct ideal_replay end_only = {.linked = true, .end_only = true, .saved_ns = 10};
    efficiencies_find(&found, four, 4, &apart);
    assert_int_equal(found.missing, EFFICIENCIES_NOT_LINKED);
    assert_true(near(found.parallel, 0.5));
    assert_true(found.serialization == EFFICIENCY_UNKNOWN && found.transfer == EFFICIENCY_UNKNOWN);
    efficiencies_find(&found, four, 4, &end_only);
    assert_int_equal(found.missing, EFFICIENCIES_PARTIAL);
    assert_true(found.serialization == EFFICIENCY_UNKNOWN && found.ideal_runtime_ns == 0);
}

/* Rank 0 works 50, 30, 10 of the 215 between Init and Finalize, rank 1 150, 10, 10 of 260. A network without delay
 * saves 20 of the barrier and 50 of the message. */
static void make_two_ranks(struct hand_job *job) {
    hand_job_make(job, 2, (struct dump_plan){0});
    dump_builder_plain(job->builders[0], 0, BUILDER_INIT, 1000, 1050);
    dump_builder_collective(job->builders[0], 0, BUILDER_BARRIER, 0, 0, 0, 1100, 1220);
    dump_builder_p2p(job->builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 0, 0, 8, 1250, 1255);
    dump_builder_plain(job->builders[0], 0, BUILDER_FINALIZE, 1265, 1275);
    dump_builder_plain(job->builders[1], 0, BUILDER_INIT, 1000, 1050);
    dump_builder_collective(job->builders[1], 0, BUILDER_BARRIER, 0, 0, 0, 1200, 1220);
    dump_builder_p2p(job->builders[1], 0, BUILDER_RECV, 0, FLAG_RECV, 0, 0, 0, 8, 1230, 1300);
    dump_builder_plain(job->builders[1], 0, BUILDER_FINALIZE, 1310, 1320);
}

static void a_small_job_has_the_values_worked_out_by_hand(void **state) {
    (void)state;
    struct hand_job job;
    struct straggler_analysis analysis;
    make_two_ranks(&job);
    hand_job_open(&job, 2);
    for (unsigned workers = 1; workers <= 4; workers += 3) {
        assert_true(
            straggler_analyse(&analysis, &job.clock, &job.directory, &(struct straggler_request){.workers = workers}));
        const struct efficiencies *found = &analysis.efficiencies;
        assert_int_equal(found->missing, EFFICIENCIES_ALL_KNOWN);
        assert_int_equal(found->runtime_ns, 260);
        assert_int_equal(found->useful_mean_ns, 130);
        assert_int_equal(found->useful_most_ns, 170);
        assert_int_equal(found->ideal_runtime_ns, 260 - 70);
        assert_true(near(found->parallel, 130.0 / 260));
        assert_true(near(found->load_balance, 130.0 / 170));
        assert_true(near(found->serialization, 170.0 / 190));
        assert_true(near(found->transfer, 190.0 / 260));
        straggler_analysis_free(&analysis);
    }
    hand_job_free(&job);
}

static bool is_share(double value) {
    return value > 0 && value <= 1;
}

/* Whatever the job, wrapped rings and half of the ranks missing included. */
static void shares_lie_between_0_and_1(void **state) {
    (void)state;
    unsigned wrapped = 0;
    for (unsigned seed = 0; seed < 2 * WORKLOADS; seed++) {
        struct workload w = workload_standard((enum workload_kind)(seed % WORKLOADS));
        bool torn = seed >= WORKLOADS;
        w.steps = 30;
        w.seed = seed;
        w.outliers = 0.05;
        w.ring_records = torn ? 64 : w.ring_records;
        struct stage *stage = workload_play(&w);
        struct dump **dumps = stage_open(stage);
        struct common_clock clock;
        struct match_directory directory;
        struct straggler_analysis analysis;
        unsigned ranks = torn ? w.ranks / 2 : w.ranks;
        assert_true(common_clock_build(&clock, dumps, ranks));
        assert_true(match_directory_build(&directory, dumps, ranks));
        assert_true(straggler_analyse(&analysis, &clock, &directory, &(struct straggler_request){.workers = 2}));
        const struct efficiencies *found = &analysis.efficiencies;
        assert_true(is_share(found->parallel) && is_share(found->load_balance) && is_share(found->communication));
        assert_true(torn || analysis.covered.whole);
        wrapped += !analysis.covered.whole;
        if (!torn)
            assert_int_equal(found->missing, EFFICIENCIES_ALL_KNOWN);
        if (found->missing == EFFICIENCIES_ALL_KNOWN) {
            assert_true(is_share(found->serialization) && is_share(found->transfer));
            assert_true(fabs(found->communication - found->serialization * found->transfer) < 1e-12);
        }
        straggler_analysis_free(&analysis);
        match_directory_free(&directory);
        common_clock_free(&clock);
        stage_free(stage);
    }
    assert_true(wrapped > WORKLOADS / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ratios_are_those_of_pop),
        cmocka_unit_test(nobody_is_done_before_the_longest_work),
        cmocka_unit_test(who_has_nothing_on_record_counts_for_nothing),
        cmocka_unit_test(what_is_not_known_is_not_told),
        cmocka_unit_test(a_small_job_has_the_values_worked_out_by_hand),
        cmocka_unit_test(shares_lie_between_0_and_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
