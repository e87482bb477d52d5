/* SPDX-License-Identifier: Apache-2.0
 *
 * Training on GPUs whose communication runs beside computation on a stream of its own: a step gathers, works forward,
 * and reduces piece by piece while it goes on working.
 * Lives here: a small generator of what the two streams do, which tells how long the job takes with and without its
 * late rank, and what the analysis says of it. Must not live here: messages (test_gpu_grids.c).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/stragglers/stragglers.h"
#include "test/unit/job_builder.h"

enum {
    GROUP_END = 2100,
    RANKS = 4,
    PIECES = 3,
    STEPS = 60,
    TRANSFER_NS = 200000,
    LAUNCH_NS = 2000,
    FORWARD_NS = 8000000,
    PIECE_NS = 2000000,
};

struct plan {
    int late; /* rank, -1: none */
    int64_t late_gpu_ns, late_host_ns;
    int64_t gap_ns; /* from the end of a launch to the next one that lay ready */
    bool groups;    /* of several collectives, which tell their bytes only */
};

static unsigned long long random_state;

/* Within 5 % of `ns`. */
static int64_t about(int64_t ns) {
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return ns + (int64_t)((double)ns * 0.05 * ((double)(random_state >> 11) / (double)(1ull << 52) - 1));
}

static void record(struct dump_builder *builder, const struct plan *plan, uint32_t number, int64_t begin, int64_t end) {
    bool gather = number % (PIECES + 1) == 0;
    struct record launch = {.kind = plan->groups ? RECORD_GROUP : RECORD_POST,
                            .call = plan->groups ? GROUP_END
                                    : gather     ? BUILDER_NCCL_ALL_GATHER
                                                 : BUILDER_NCCL_ALL_REDUCE,
                            .flags = FLAG_COLLECTIVE,
                            .peer = PEER_NONE,
                            .tag = TAG_NONE,
                            .seq = number,
                            .op = number + 1,
                            .bytes = gather ? 64000 : 64064,
                            .t0 = (uint64_t)begin - LAUNCH_NS,
                            .t1 = (uint64_t)begin - LAUNCH_NS / 2};
    dump_builder_record(builder, 0, &launch);
    launch.kind = RECORD_GPU;
    launch.tag = 0;
    launch.t0 = (uint64_t)begin;
    launch.t1 = (uint64_t)end;
    dump_builder_record(builder, 1, &launch);
}

/* One collective: all come when their computation, and what they communicated before, is done. */
static void meet(struct hand_job *job, const struct plan *plan, uint32_t number, const int64_t *compute,
                 int64_t *communicate) {
    int64_t begin[RANKS], last = 0;
    for (unsigned r = 0; r < RANKS; r++) {
        int64_t ready = communicate[r] + plan->gap_ns;
        begin[r] = compute[r] > ready ? compute[r] : ready;
        last = begin[r] > last ? begin[r] : last;
    }
    for (unsigned r = 0; r < RANKS; r++) {
        communicate[r] = last + about(TRANSFER_NS);
        if (job)
            record(job->builders[r], plan, number, begin[r], communicate[r]);
    }
}

/* How long the job takes. */
static int64_t play(struct hand_job *job, const struct plan *plan) {
    int64_t compute[RANKS], communicate[RANKS] = {0};
    uint32_t number = 0;
    random_state = 12345;
    for (unsigned r = 0; r < RANKS; r++)
        compute[r] = 1000000;
    for (unsigned step = 0; step < STEPS; step++) {
        if (plan->late >= 0)
            compute[plan->late] += plan->late_host_ns;
        meet(job, plan, number++, compute, communicate);
        for (unsigned r = 0; r < RANKS; r++)
            compute[r] = communicate[r] + about(FORWARD_NS);
        if (plan->late >= 0)
            compute[plan->late] += plan->late_gpu_ns;
        for (unsigned piece = 0; piece < PIECES; piece++) {
            for (unsigned r = 0; r < RANKS; r++)
                compute[r] += about(PIECE_NS);
            meet(job, plan, number++, compute, communicate);
        }
        for (unsigned r = 0; r < RANKS; r++)
            compute[r] = communicate[r] > compute[r] ? communicate[r] : compute[r];
    }
    return compute[0] - 1000000;
}

static void make(struct hand_job *job, const struct plan *plan, int64_t *took) {
    hand_job_make(job, RANKS, (struct dump_plan){.lanes = 2, .devices = 1, .ring_records = 1024});
    for (unsigned r = 0; r < RANKS; r++) {
        struct dump_builder *builder = job->builders[r];
        dump_builder_header(builder)->gpu_timing = GPU_TIMING_EVENTS;
        dump_builder_lane(builder, 1)->device = 1;
        dump_builder_device(builder, 0, 2000);
        dump_builder_call(builder, GROUP_END, CLASS_GROUP, FLOW_NONE, BUSBW_NONE, 1, "ncclGroupEnd");
    }
    *took = play(job, plan);
    hand_job_open(job, RANKS);
}

/* What mending the late rank is said to give, over what it gives. */
static double said_of_true(struct plan plan) {
    struct hand_job job;
    struct straggler_analysis analysis;
    struct plan without = plan;
    int64_t took;
    without.late = -1;
    make(&job, &plan, &took);
    assert_true(straggler_analyse(&analysis, &job.clock, &job.directory, &(struct straggler_request){.workers = 1}));
    assert_int_equal(analysis.straggler_count, 1);
    assert_int_equal(analysis.stragglers[0].kind, STRAGGLER_RANK);
    assert_int_equal(analysis.stragglers[0].dumps[0], plan.late);
    double gain = (double)took / (double)play(NULL, &without), said = analysis.stragglers[0].what_if_speedup;
    straggler_analysis_free(&analysis);
    hand_job_free(&job);
    return said / gain;
}

/* While the others wait for a GPU that is late forward they work backward; mended, they no longer can. */
static void work_beside_a_wait_is_not_gained(void **state) {
    (void)state;
    for (int groups = 0; groups < 2; groups++)
        assert_true(fabs(said_of_true((struct plan){.late = 1, .late_gpu_ns = 8000000, .groups = groups}) - 1) < 0.05);
}

/* It lay ready where it began within 10 us. */
static void a_launch_that_begins_later_did_not_lie_ready(void **state) {
    (void)state;
    assert_true(fabs(said_of_true((struct plan){.late = 1, .late_gpu_ns = 8000000, .gap_ns = 8000}) - 1) < 0.05);
    assert_true(said_of_true((struct plan){.late = 1, .late_gpu_ns = 8000000, .gap_ns = 12000}) > 1.1);
}

/* What a late host loses at the beginning of a step it is not given back for its work in the middle, which is as long.
 */
static void a_late_host_is_mended_where_it_is_late(void **state) {
    (void)state;
    for (int groups = 0; groups < 2; groups++)
        assert_true(fabs(said_of_true((struct plan){.late = 2, .late_host_ns = 8000000, .groups = groups}) - 1) < 0.05);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_beside_a_wait_is_not_gained),
        cmocka_unit_test(a_launch_that_begins_later_did_not_lie_ready),
        cmocka_unit_test(a_late_host_is_mended_where_it_is_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
