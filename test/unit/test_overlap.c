/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole jobs on GPUs whose communication overlaps computation that is not on record: who is named, and what that costs.
 * Lives here: a few ranks in lockstep but for an offset, by the rules of streams. Must not live here: single waits
 * (test_hidden_work.c), jobs that run (test/e2e).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "analyzer/stragglers/stragglers.h"
#include "test/scenes/scene.h"
#include "test/unit/job_builder.h"

enum { RANKS = 4, STEPS = 400, US = 1000, WORK = 1300 * US, TRANSFER = 100 * US, AHEAD = 3 * WORK, DEVICE_LANE = 1 };

/* Of every step of a rank. */
struct plan {
    int64_t offset[RANKS]; /* late from the first step on */
    int64_t extra[RANKS];  /* work more in each step */
};

static void put(struct dump_builder *builder, uint32_t lane, uint32_t step, struct record record) {
    record.op = step + 1;
    dump_builder_record(builder, lane, &record);
}

/* A reduction, enqueued well ahead of its begin, beside the step's computation, then the wait for it. */
static void put_step(struct dump_builder *builder, uint32_t step, int64_t begin, int64_t end, int64_t reached) {
    struct record record = {.t0 = (uint64_t)(begin - AHEAD),
                            .t1 = (uint64_t)(begin - AHEAD + 5 * US),
                            .bytes = 1 << 20,
                            .seq = step,
                            .peer = PEER_NONE,
                            .tag = TAG_NONE,
                            .call = BUILDER_NCCL_ALL_REDUCE,
                            .flags = FLAG_COLLECTIVE,
                            .kind = RECORD_POST};
    put(builder, 0, step, record);
    record.kind = RECORD_GPU;
    record.tag = 0;
    record.t0 = (uint64_t)begin;
    record.t1 = (uint64_t)end;
    put(builder, DEVICE_LANE, step, record);
    put(builder, DEVICE_LANE, step,
        (struct record){.t0 = (uint64_t)reached,
                        .t1 = (uint64_t)(end > reached ? end : reached),
                        .seq = SEQ_NONE,
                        .comm = COMM_NONE,
                        .peer = PEER_NONE,
                        .kind = RECORD_EXPOSED});
}

/* Each piece of work differs by up to 4 %. */
static void write_steps(struct hand_job *job, const struct plan *plan) {
    int64_t now[RANKS], reached[RANKS];
    uint64_t random = 7;
    for (unsigned r = 0; r < RANKS; r++)
        now[r] = 2 * AHEAD + plan->offset[r];
    for (uint32_t step = 0; step < STEPS; step++) {
        int64_t end = 0;
        for (unsigned r = 0; r < RANKS; r++) {
            end = now[r] + TRANSFER > end ? now[r] + TRANSFER : end;
            reached[r] = now[r] + plan->extra[r] + (int64_t)(WORK * (0.98 + 0.04 * scene_uniform(&random)));
        }
        for (unsigned r = 0; r < RANKS; r++) {
            put_step(job->builders[r], step, now[r], end, reached[r]);
            now[r] = (end > reached[r] ? end : reached[r]) + 10 * US;
        }
    }
}

static void analyse(struct hand_job *job, const struct plan *plan, struct straggler_analysis *analysis) {
    hand_job_make(job, RANKS, (struct dump_plan){.lanes = 2, .ring_records = 4096, .devices = 1});
    for (unsigned r = 0; r < RANKS; r++) {
        dump_builder_header(job->builders[r])->gpu_timing = GPU_TIMING_EVENTS;
        dump_builder_lane(job->builders[r], DEVICE_LANE)->device = 1;
        dump_builder_device(job->builders[r], 0, 2000);
    }
    write_steps(job, plan);
    hand_job_open(job, RANKS);
    assert_true(straggler_analyse(analysis, &job->clock, &job->directory, &(struct straggler_request){.workers = 1}));
}

static void put_away(struct hand_job *job, struct straggler_analysis *analysis) {
    straggler_analysis_free(analysis);
    hand_job_free(job);
}

/* Who is late by less than the work that hides it makes the others wait inside of their communication, and nobody
 * outside of it: all work as long, and next to nothing can be gained. */
static void an_offset_that_hides_is_nobodys_work(void **state) {
    (void)state;
    const struct plan plan = {.offset = {[1] = 900 * US, [3] = 900 * US}};
    struct hand_job job;
    struct straggler_analysis analysis;
    analyse(&job, &plan, &analysis);
    assert_true(straggler_analysis_clears_all(&analysis));
    for (unsigned r = 0; r < RANKS; r++)
        assert_true(analysis.ranks[r].ratio > 0.95 && analysis.ranks[r].ratio < 1.05);
    assert_true(analysis.what_if.slowdown >= 1 && analysis.what_if.slowdown < 1.1);
    assert_true(analysis.even_speedup < 1.1);
    put_away(&job, &analysis);
}

static void who_works_longer_beside_communication_is_named_alone(void **state) {
    (void)state;
    const struct plan plan = {.offset = {[1] = 900 * US, [3] = 900 * US}, .extra = {[2] = 700 * US}};
    const double truth = (WORK + 700.0 * US) / WORK;
    struct hand_job job;
    struct straggler_analysis analysis;
    analyse(&job, &plan, &analysis);
    assert_int_equal(analysis.straggler_count, 1);
    assert_int_equal(analysis.suspect_count + analysis.hidden_count, 0);
    assert_int_equal(analysis.stragglers[0].dumps[0], 2);
    assert_true(analysis.stragglers[0].slowdown_ratio > 0.95 * truth);
    assert_true(analysis.stragglers[0].slowdown_ratio < 1.05 * truth);
    assert_true(analysis.even_speedup < 1.05 * truth);
    put_away(&job, &analysis);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_offset_that_hides_is_nobodys_work),
        cmocka_unit_test(who_works_longer_beside_communication_is_named_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
