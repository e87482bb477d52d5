/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs whose non-blocking collectives go on only while the ranks are in the library.
 * Lives here: what such a job is said to wait for, and to gain. Must not live here: the limits of single waits
 * (test_waits.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/stragglers/stragglers.h"
#include "test/unit/job_builder.h"

enum { RANKS = 4, STEPS = 120, US = 1000, MS = 1000 * US, SLOW = 2 };

/* Ranks of a recursive doubling: `gone`, beside the slow one, has all it needs before that one computes. */
enum { GONE = 0, NOBODY_GONE = RANKS };

struct job {
    struct hand_job hand;
    struct straggler_analysis analysis;
    uint64_t wall_ns;
};

/* Each rank posts an Iallreduce, works for 10 ms, the slow one for longer in every so many-th step, and waits. */
static void play(struct job *job, unsigned pause_ms, unsigned every, unsigned gone) {
    uint64_t now[RANKS];
    hand_job_make(&job->hand, RANKS, (struct dump_plan){.ring_records = 1024});
    for (unsigned r = 0; r < RANKS; r++)
        now[r] = 1000 * MS;
    for (uint32_t step = 0; step < STEPS; step++) {
        uint64_t back[RANKS], last = 0, last_fast = 0;
        for (unsigned r = 0; r < RANKS; r++) {
            uint64_t noise = (step * 7919 + r * 104729) % 100 * US;
            back[r] = now[r] + 10 * MS + noise + (r == SLOW && step % every == every / 2 ? pause_ms * (uint64_t)MS : 0);
            last = back[r] > last ? back[r] : last;
            last_fast = r != SLOW && back[r] > last_fast ? back[r] : last_fast;
        }
        for (unsigned r = 0; r < RANKS; r++) {
            uint64_t over = (r == gone ? last_fast : last) + 20 * US;
            dump_builder_icollective(job->hand.builders[r], 0, BUILDER_IALLREDUCE, 0, step, 8, now[r], now[r] + US,
                                     over);
            dump_builder_plain(job->hand.builders[r], 0, BUILDER_WAIT, back[r], over + US);
            now[r] = over + 2 * US;
        }
    }
    job->wall_ns = now[SLOW] - 1000 * MS;
    hand_job_open(&job->hand, RANKS);
    assert_true(straggler_analyse(&job->analysis, &job->hand.clock, &job->hand.directory,
                                  &(struct straggler_request){.workers = 2}));
}

static void put_away(struct job *job) {
    straggler_analysis_free(&job->analysis);
    hand_job_free(&job->hand);
}

static void assert_about(double said, double really) {
    if (said < really / 1.03 || said > really * 1.03)
        fail_msg("said %.3f, really %.3f", said, really);
}

static void a_pause_behind_the_post_is_what_all_wait_for(void **state) {
    (void)state;
    struct job without, job;
    play(&without, 0, 1, NOBODY_GONE);
    assert_int_equal(without.analysis.straggler_count, 0);
    play(&job, 60, 6, NOBODY_GONE);
    assert_int_equal(job.analysis.straggler_count, 1);
    assert_int_equal(job.analysis.stragglers[0].dumps[0], SLOW);
    assert_about(job.analysis.stragglers[0].what_if_speedup, (double)job.wall_ns / (double)without.wall_ns);
    /* by replay alone: the mean of all four would be 25 ms where rank 2 takes 70, and 10 elsewhere */
    assert_about(job.analysis.what_if.slowdown, (5 * 10 + 70) / (5 * 10 + 25.0));
    for (unsigned r = 0; r < RANKS; r++)
        if (r != SLOW) /* 20 pauses */
            assert_about((double)job.analysis.waits.ranks[r].wait_ns,
                         20 * 60.0 * MS + (double)without.analysis.waits.ranks[r].wait_ns);
    assert_true(job.analysis.delay_costs.ranks[SLOW].delay_cost_ns > job.analysis.delay_costs.waits_ns * 9 / 10);
    put_away(&job);
    put_away(&without);
}

/* Of a rank that is slow in each step the gain comes from a replay. */
static void mending_a_rank_that_is_slow_in_each_step_gains_what_it_costs(void **state) {
    (void)state;
    struct job without, job;
    play(&without, 0, 1, GONE);
    play(&job, 7, 1, GONE);
    assert_int_equal(job.analysis.straggler_count, 1);
    assert_false(job.analysis.stragglers[0].at_times);
    assert_about(job.analysis.stragglers[0].what_if_speedup, (double)job.wall_ns / (double)without.wall_ns);
    put_away(&job);
    put_away(&without);
}

/* Who needed nothing any more waits in the next operation instead, which the others post only then. */
static void who_was_done_before_waits_in_the_next_one(void **state) {
    (void)state;
    struct job job;
    play(&job, 60, 6, GONE);
    assert_int_equal(job.analysis.straggler_count, 1);
    assert_int_equal(job.analysis.stragglers[0].dumps[0], SLOW);
    assert_true(job.analysis.waits.ranks[GONE].wait_ns > (int64_t)20 * 45 * MS);
    assert_true(job.analysis.delay_costs.ranks[SLOW].delay_cost_ns > job.analysis.delay_costs.waits_ns * 9 / 10);
    put_away(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pause_behind_the_post_is_what_all_wait_for),
        cmocka_unit_test(mending_a_rank_that_is_slow_in_each_step_gains_what_it_costs),
        cmocka_unit_test(who_was_done_before_waits_in_the_next_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
