/* SPDX-License-Identifier: Apache-2.0
 *
 * Waits of single collectives, and one rank's times, with answers worked out by hand.
 * Lives here: small worlds with round numbers.
 * Must not live here: verdicts (test_stragglers.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/match/match.h"
#include "analyzer/stragglers/ranks.h"
#include "analyzer/waits/waits.h"
#include "test/unit/job_builder.h"

struct sums {
    struct waits waits;
    struct rank_times times[HAND_RANKS_MAX];
    const struct match_directory *directory;
};

static void take_instance(void *state, const struct match_instance *instance) {
    waits_add(&((struct sums *)state)->waits, instance);
}

static void take_message(void *state, const struct match_message *message) {
    waits_add_message(&((struct sums *)state)->waits, message);
}

static void take_record(void *state, const struct match_record *item) {
    struct sums *sums = state;
    rank_times_add(&sums->times[item->dump], item,
                   item->call == CALL_UNKNOWN ? NULL : sums->directory->calls[item->call].name);
}

/* The same sums from several workers. */
static void compare_workers(const struct hand_job *job, const struct sums *one) {
    enum { WORKERS = 4 };
    static struct sums sums[WORKERS];
    void *states[WORKERS];
    const struct match_sink sink = {.instance = take_instance, .message = take_message};
    struct match_totals totals;
    for (unsigned w = 0; w < WORKERS; w++) {
        states[w] = &sums[w];
        assert_true(waits_init(&sums[w].waits, &job->clock, &job->directory));
    }
    assert_true(match_run(&job->clock, &job->directory, &sink, states, WORKERS, &totals));
    for (unsigned w = 0; w < WORKERS; w++) {
        waits_finish(&sums[w].waits);
        if (w > 0)
            waits_merge(&sums[0].waits, &sums[w].waits);
    }
    assert_memory_equal(sums[0].waits.ranks, one->waits.ranks, job->directory.dump_count * sizeof *one->waits.ranks);
    assert_int_equal(sums[0].waits.transfers.rows.count, one->waits.transfers.rows.count);
    for (unsigned w = 0; w < WORKERS; w++)
        waits_free(&sums[w].waits);
}

/* Every wait has one state. */
static void check_states(const struct waits *waits) {
    for (size_t d = 0; d < waits->directory->dump_count; d++) {
        int64_t sum = 0;
        for (unsigned s = 0; s < WAIT_STATES; s++)
            sum += waits->ranks[d].states_ns[s];
        assert_int_equal(sum, waits->ranks[d].wait_ns);
    }
}

static void analyse(struct hand_job *job, unsigned with_dump, struct sums *sums) {
    struct covered_time covered;
    const struct match_sink sink = {
        .covered = &covered, .instance = take_instance, .record = take_record, .message = take_message};
    struct match_totals totals;
    void *states[1] = {sums};
    hand_job_open(job, with_dump);
    assert_true(covered_time_find(&covered, &job->clock));
    *sums = (struct sums){.directory = &job->directory};
    assert_true(waits_init(&sums->waits, &job->clock, &job->directory));
    for (unsigned r = 0; r < with_dump; r++)
        assert_true(rank_times_init(&sums->times[r], &(struct cut){.kind = CUT_COLLECTIVE}, 4, 2, false));
    assert_true(match_run(&job->clock, &job->directory, &sink, states, 1, &totals));
    covered_time_free(&covered);
    for (unsigned r = 0; r < with_dump; r++)
        rank_times_finish(&sums->times[r]);
    waits_finish(&sums->waits);
    check_states(&sums->waits);
    compare_workers(job, sums);
}

static void done(struct hand_job *job, struct sums *sums) {
    for (unsigned r = 0; r < HAND_RANKS_MAX; r++)
        rank_times_free(&sums->times[r]);
    waits_free(&sums->waits);
    hand_job_free(job);
}

#define assert_waits(R, WAIT, IMPOSED, WAITED_FOR)                                                                     \
    do {                                                                                                               \
        assert_int_equal(sums.waits.ranks[R].wait_ns, WAIT);                                                           \
        assert_int_equal(sums.waits.ranks[R].imposed_ns, IMPOSED);                                                     \
        assert_int_equal(sums.waits.ranks[R].waited_for_ns, WAITED_FOR);                                               \
    } while (0)

/* What the only row of the transfers says. */
static void assert_transfers(const struct sums *sums, int64_t wait_ns, int64_t transfer_ns) {
    struct transfer *rows = transfers_sorted(&sums->waits.transfers);
    assert_int_equal(sums->waits.transfers.rows.count, 1);
    assert_int_equal(rows[0].wait_ns, wait_ns);
    assert_int_equal(rows[0].transfer_ns, transfer_ns);
    free(rows);
}

static void the_last_of_all_makes_the_others_wait(void **state) {
    (void)state;
    static const uint64_t enter[3] = {1000, 2000, 5000}, leave[3] = {6000, 6100, 6050};
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++)
        dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, 0, 0, 8, enter[r], leave[r]);
    analyse(&job, 3, &sums);
    assert_waits(0, 4000, 0, 0);
    assert_waits(1, 3000, 0, 0);
    assert_waits(2, 0, 2 * (5000 - 2000), 7000);
    assert_int_equal(sums.waits.ranks[2].mended_ns, 3000);
    assert_int_equal(sums.waits.ranks[2].last, 1);
    /* t = 5000, 4100, 1050: the culprit has the least */
    assert_int_equal(sums.waits.ranks[0].deepspeed_ns, 3950);
    assert_int_equal(sums.waits.ranks[1].deepspeed_ns, 3050);
    assert_int_equal(sums.waits.ranks[2].deepspeed_ns, 0);
    done(&job, &sums);
}

/* Two collectives that one Wait call completes, one on each communicator: rank 0 waits for rank 1 in both at once. */
static void what_waits_at_the_same_time_counts_once(void **state) {
    (void)state;
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 2, (struct dump_plan){0});
    const struct member_run run = {.start = 0, .count = 2, .stride = 1};
    for (unsigned r = 0; r < 2; r++) {
        struct dump_builder *builder = job.builders[r];
        uint32_t other = dump_builder_communicator(builder, 77, "other", (int32_t)r, &run, 1);
        uint64_t at = r == 0 ? 1000 : 5000;
        dump_builder_collective(builder, 0, BUILDER_ALLREDUCE, 0, 0, 8, at, 6000);
        dump_builder_collective(builder, 0, BUILDER_ALLREDUCE, other, 0, 8, at + 100, 6100);
    }
    analyse(&job, 2, &sums);
    assert_int_equal(sums.waits.ranks[0].wait_ns, 2 * 4000);
    waits_measure_wall(&sums.waits, 0, 5100);
    assert_int_equal(sums.waits.ranks[0].wall_wait_ns, 5100 - 1000);
    assert_int_equal(sums.waits.ranks[0].transfer_ns, 2 * 1000);
    assert_int_equal(sums.waits.ranks[0].wall_transfer_ns, 6100 - 5100);
    done(&job, &sums);
}

static void too_many_stretches_leave_bounds(void **state) {
    (void)state;
    struct wall_times times;
    struct wall_sums told;
    assert_true(wall_times_init(&times, 1));
    for (int64_t i = 0; i < WALL_STRETCHES_MOST; i++)
        wall_times_add(&times, 0, WALL_WAIT, 10 * i, 10 * i + 15);
    assert_true(wall_times_sum(&times, 0, &told));
    assert_int_equal(told.wait_ns, 10 * INT64_C(1) * WALL_STRETCHES_MOST + 5);
    wall_times_free(&times);
    assert_true(wall_times_init(&times, 1));
    for (int64_t i = 0; i <= WALL_STRETCHES_MOST; i++)
        wall_times_add(&times, 0, i % 2 ? WALL_WAIT : WALL_COLLECTIVE, 10 * i, 10 * i + 15);
    assert_false(wall_times_sum(&times, 0, &told));
    struct rank_waits rank = {.wait_ns = 900, .transfer_ns = 300};
    struct waits waits = {.ranks = &rank, .wall = times};
    waits_measure_wall(&waits, 0, 1000);
    assert_int_equal(rank.wall_wait_ns, 900);
    assert_int_equal(rank.wall_transfer_ns, 100);
    wall_times_free(&times);
}

static void costs_of_several_collectives_add_up(void **state) {
    (void)state;
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 4, (struct dump_plan){0});
    for (uint32_t seq = 0; seq < 3; seq++)
        for (unsigned r = 0; r < 4; r++) /* rank seq is late by 700, the others come 100 apart */
            dump_builder_collective(job.builders[r], 0, BUILDER_BARRIER, 0, seq, 0,
                                    10000 * seq + 100 * r + (r == seq ? 700 : 0), 10000 * seq + 2000);
    analyse(&job, 4, &sums);
    /* seq 0: e = 700, 100, 200, 300; seq 1: 0, 800, 200, 300; seq 2: 0, 100, 900, 300 */
    assert_waits(0, 800 + 900, 3 * 400, 600 + 500 + 400);
    assert_waits(1, 600 + 800, 3 * 500, 800 + 600 + 500);
    assert_waits(2, 500 + 600, 3 * 600, 900 + 800 + 600);
    assert_waits(3, 400 + 500 + 600, 0, 0);
    done(&job, &sums);
}

static void who_leaves_before_the_last_entered_waited_only_so_long(void **state) {
    (void)state;
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 2, (struct dump_plan){0});
    dump_builder_collective(job.builders[0], 0, BUILDER_ALLREDUCE, 0, 0, 8, 100, 400);
    dump_builder_collective(job.builders[1], 0, BUILDER_ALLREDUCE, 0, 0, 8, 900, 950);
    analyse(&job, 2, &sums);
    /* imposed is what was really waited, not the distance of the arrivals */
    assert_waits(0, 300, 0, 0);
    assert_waits(1, 0, 300, 300);
    done(&job, &sums);
}

static void a_late_root_makes_a_broadcast_wait(void **state) {
    (void)state;
    static const uint64_t enter[3] = {100, 900, 1500}, leave[3] = {1000, 1000, 1600};
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++)
        dump_builder_collective(job.builders[r], 0, BUILDER_BCAST, 0, 0, 8, enter[r], leave[r])->peer = 1;
    analyse(&job, 3, &sums);
    assert_waits(0, 800, 0, 0);
    assert_waits(1, 0, 0, 800); /* rank 2 came later still and kept nobody */
    assert_waits(2, 0, 0, 0);
    assert_int_equal(sums.waits.ranks[0].states_ns[WAIT_LATE_BROADCAST], 800);
    assert_transfers(&sums, 800, 100 + 100 + 100);
    done(&job, &sums);
}

static void only_the_root_of_a_reduction_waits(void **state) {
    (void)state;
    static const uint64_t enter[3] = {100, 300, 800}, leave[3] = {1000, 350, 850};
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++)
        dump_builder_collective(job.builders[r], 0, BUILDER_REDUCE, 0, 0, 8, enter[r], leave[r])->peer = 0;
    analyse(&job, 3, &sums);
    assert_waits(0, 700, 0, 0);
    assert_waits(1, 0, 0, 0);
    assert_waits(2, 0, 500, 700);
    done(&job, &sums);
}

#define assert_state(R, STATE, NS) assert_int_equal(sums.waits.ranks[R].states_ns[STATE], NS)

/* e = 1000, 2000, 5000; x = 6000, 6100, 6050 */
static void time_in_a_collective_is_wait_transfer_and_completion(void **state) {
    (void)state;
    static const uint64_t enter[3] = {1000, 2000, 5000}, leave[3] = {6000, 6100, 6050};
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++)
        dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, 0, 0, 8, enter[r], leave[r]);
    analyse(&job, 3, &sums);
    for (unsigned r = 0; r < 3; r++) {
        assert_state(r, WAIT_AT_NXN, 5000 - (int64_t)enter[r]);
        assert_int_equal(sums.waits.ranks[r].transfer_ns, (int64_t)leave[r] - 5000);
        assert_int_equal(sums.waits.ranks[r].completion_ns, (int64_t)leave[r] - 6000);
    }
    struct transfer *rows = transfers_sorted(&sums.waits.transfers);
    assert_int_equal(sums.waits.transfers.rows.count, 1);
    assert_string_equal(job.directory.calls[rows[0].key.call].name->name, "MPI_Allreduce");
    assert_int_equal(rows[0].key.bytes, 8);
    assert_int_equal(rows[0].collectives, 1);
    assert_int_equal(rows[0].members, 3);
    assert_int_equal(rows[0].wait_ns, 4000 + 3000);
    assert_int_equal(rows[0].transfer_ns, 1000 + 1100 + 1050);
    assert_int_equal(rows[0].completion_ns, 100 + 50);
    assert_int_equal(rows[0].least_ns, 1000);
    assert_int_equal(rows[0].most_ns, 1100);
    free(rows);
    done(&job, &sums);
}

enum { FENCE = 425 };

/* A window of all ranks, and a fence on it. */
static void add_fence(struct dump_builder *builder, unsigned rank, uint8_t result, uint64_t enter, uint64_t leave) {
    struct member_run all = {0, 3, 1};
    uint32_t window = dump_builder_communicator(builder, 0x77, "", (int32_t)rank, &all, 1);
    dump_builder_definition(builder, window)->kind = COMMUNICATOR_WINDOW;
    dump_builder_call(builder, FENCE, CLASS_RMA_SYNC, FLOW_NONE, BUSBW_NONE, 0, "MPI_Win_fence");
    dump_builder_collective(builder, 0, FENCE, window, 0, 0, enter, leave)->result = result;
}

/* e = 1000, 2000, 5000: all in a barrier; in others nobody leaves before the third has come, or the first does. */
static void fences_are_waited_in_where_they_are_barriers_or_nobody_left_early(void **state) {
    (void)state;
    static const uint64_t enter[3] = {1000, 2000, 5000};
    static const struct {
        uint8_t result[3];
        uint64_t first_left;
        int64_t wait[3];
    } cases[] = {{{FENCE_IS_BARRIER, FENCE_IS_BARRIER, FENCE_IS_BARRIER}, 6000, {4000, 3000, 0}},
                 {{FENCE_IS_BARRIER, FENCE_IS_BARRIER, 0}, 4999, {0, 0, 0}},
                 {{0, 0, 0}, 4999, {0, 0, 0}},
                 {{0, 0, 0}, 5000, {4000, 3000, 0}},
                 {{2, 2, 2}, 4999, {0, 0, 0}}};
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct hand_job job;
        struct sums sums;
        hand_job_make(&job, 3, (struct dump_plan){0});
        for (unsigned r = 0; r < 3; r++)
            add_fence(job.builders[r], r, cases[c].result[r], enter[r], r == 0 ? cases[c].first_left : 6000);
        analyse(&job, 3, &sums);
        for (unsigned r = 0; r < 3; r++) {
            assert_state(r, WAIT_AT_FENCE, cases[c].wait[r]);
            assert_state(r, WAIT_AT_NXN, 0);
            assert_int_equal(sums.waits.ranks[r].wait_ns, cases[c].wait[r]);
        }
        assert_int_equal(sums.waits.ranks[2].waited_for_ns, cases[c].wait[0] + cases[c].wait[1]);
        done(&job, &sums);
    }
}

/* e = 1000, 2000, 5000: nobody leaves before the third has come, or the first does. */
static void making_a_communicator_is_waited_in_where_nobody_left_early(void **state) {
    (void)state;
    enum { COMM_DUP = 426, COMM_SPLIT_NCCL = 427 };
    static const uint64_t enter[3] = {1000, 2000, 5000};
    static const struct {
        uint64_t first_left;
        int64_t wait[3];
        uint16_t call;
    } cases[] = {{5000, {4000, 3000, 0}, COMM_DUP}, {4999, {0, 0, 0}, COMM_DUP}, {5000, {0, 0, 0}, COMM_SPLIT_NCCL}};
    for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct hand_job job;
        struct sums sums;
        hand_job_make(&job, 3, (struct dump_plan){0});
        for (unsigned r = 0; r < 3; r++) {
            dump_builder_call(job.builders[r], COMM_DUP, CLASS_COMMUNICATOR, FLOW_NONE, BUSBW_NONE, 0, "MPI_Comm_dup");
            dump_builder_call(job.builders[r], COMM_SPLIT_NCCL, CLASS_COMMUNICATOR, FLOW_NONE, BUSBW_NONE, 0,
                              "ncclCommSplit");
            dump_builder_collective(job.builders[r], 0, cases[c].call, 0, 0, 0, enter[r],
                                    r == 0 ? cases[c].first_left : 6000);
        }
        analyse(&job, 3, &sums);
        for (unsigned r = 0; r < 3; r++)
            assert_state(r, WAIT_AT_NXN, cases[c].wait[r]);
        assert_int_equal(sums.waits.ranks[2].waited_for_ns, cases[c].wait[0] + cases[c].wait[1]);
        /* waits are within the time in communication */
        assert_int_equal(sums.times[0].comm_ns, cases[c].call == COMM_DUP ? cases[c].first_left - 1000 : 0);
        done(&job, &sums);
    }
}

static void sizes_and_functions_have_transfers_of_their_own(void **state) {
    (void)state;
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (unsigned r = 0; r < 2; r++) {
        dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, 0, 0, 8, 100, 200);
        dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, 0, 1, 16, 300, 500);
        dump_builder_collective(job.builders[r], 0, BUILDER_ALLGATHER, 0, 2, 8, 600, 900);
        dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, 0, 3, 8, 1000, 1400);
    }
    analyse(&job, 2, &sums);
    struct transfer *rows = transfers_sorted(&sums.waits.transfers);
    int64_t of_eight = 0;
    assert_int_equal(sums.waits.transfers.rows.count, 3);
    for (size_t i = 0; i < 3; i++)
        if (rows[i].key.bytes == 8 && rows[i].collectives == 2)
            of_eight = rows[i].transfer_ns;
    assert_int_equal(of_eight, 2 * (100 + 400));
    free(rows);
    done(&job, &sums);
}

/* Who came last among those that nobody has a dump of is not known, so neither is what was transfer. */
static void transfers_are_unknown_where_members_have_no_dump(void **state) {
    (void)state;
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++)
        dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, 0, 0, 8, 100 * r, 1000);
    analyse(&job, 2, &sums);
    assert_state(0, WAIT_AT_NXN, 100);
    assert_int_equal(sums.waits.transfers.rows.count, 0);
    done(&job, &sums);
}

/* e = 100 (root), 300, 500, 800. By the reference the root could do nothing until 300; it could not leave until 800. */
static void early_reduce_ends_when_the_first_comes_and_the_wait_when_the_last_does(void **state) {
    (void)state;
    static const uint64_t enter[4] = {100, 300, 500, 800}, leave[4] = {1000, 310, 520, 830};
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 4, (struct dump_plan){0});
    for (unsigned r = 0; r < 4; r++)
        dump_builder_collective(job.builders[r], 0, BUILDER_REDUCE, 0, 0, 8, enter[r], leave[r])->peer = 0;
    analyse(&job, 4, &sums);
    assert_state(0, WAIT_AT_NX1, 700);
    assert_int_equal(sums.waits.ranks[0].early_reduce_ns, 200);
    assert_waits(3, 0, 300, 700); /* 300 behind the second last */
    assert_int_equal(sums.waits.ranks[0].transfer_ns, 200);
    for (unsigned r = 1; r < 4; r++) { /* they wait for nobody */
        assert_int_equal(sums.waits.ranks[r].transfer_ns, (int64_t)(leave[r] - enter[r]));
        assert_int_equal(sums.waits.ranks[r].early_reduce_ns, 0);
        assert_int_equal(sums.waits.ranks[r].completion_ns, 0);
    }
    assert_transfers(&sums, 700, 200 + 10 + 20 + 30);
    done(&job, &sums);
}

/* The root comes when some are there: it waits for the others, early reduce is none. */
static void a_root_that_comes_in_between_waits_for_the_rest(void **state) {
    (void)state;
    static const uint64_t enter[3] = {400, 100, 900};
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++)
        dump_builder_collective(job.builders[r], 0, BUILDER_REDUCE, 0, 0, 8, enter[r], 1000)->peer = 0;
    analyse(&job, 3, &sums);
    assert_waits(0, 500, 0, 0);
    assert_waits(2, 0, 500, 500);
    assert_int_equal(sums.waits.ranks[0].early_reduce_ns, 0);
    done(&job, &sums);
}

/* e = 100, 700, 300, 200, 900: rank 1 keeps ranks 2 and 3 waiting, nobody waits for rank 4. */
static void in_a_scan_only_lower_ranks_are_waited_for(void **state) {
    (void)state;
    static const uint64_t enter[5] = {100, 700, 300, 200, 900}, leave[5] = {110, 720, 730, 740, 950};
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 5, (struct dump_plan){0});
    for (unsigned r = 0; r < 5; r++) {
        dump_builder_call(job.builders[r], 70, CLASS_COLLECTIVE, FLOW_PREFIX, BUSBW_NONE, 0, "MPI_Scan");
        dump_builder_collective(job.builders[r], 0, 70, 0, 0, 8, enter[r], leave[r]);
    }
    analyse(&job, 5, &sums);
    assert_waits(0, 0, 0, 0);
    /* with rank 1 at 100, when the other lower one came, rank 2 would not have waited; with rank 1 at 300 rank 3
     * would have waited 100 still */
    assert_waits(1, 0, 400 + 400, 400 + 500);
    assert_waits(2, 400, 0, 0);
    assert_waits(3, 500, 0, 0);
    assert_waits(4, 0, 0, 0);
    assert_state(2, WAIT_EARLY_SCAN, 400);
    assert_state(3, WAIT_EARLY_SCAN, 500);
    assert_int_equal(sums.waits.ranks[1].last, 1);
    assert_int_equal(sums.waits.ranks[1].mended_ns, 400);
    assert_int_equal(sums.waits.ranks[0].transfer_ns, 10);
    assert_int_equal(sums.waits.ranks[1].transfer_ns, 20);
    assert_int_equal(sums.waits.ranks[2].transfer_ns, 30);
    assert_int_equal(sums.waits.ranks[3].transfer_ns, 40);
    assert_int_equal(sums.waits.ranks[4].transfer_ns, 50);
    assert_transfers(&sums, 400 + 500, 10 + 20 + 30 + 40 + 50);
    done(&job, &sums);
}

/* ---- messages -------------------------------------------------------------------------------- */

static struct record *message_half(struct hand_job *job, unsigned rank, uint16_t call, uint16_t flag, unsigned peer,
                                   uint32_t ordinal, uint64_t enter, uint64_t leave) {
    return dump_builder_p2p(job->builders[rank], 0, call, 0, flag, (int32_t)peer, 0, ordinal, 8, enter, leave);
}

/* A posted operation, seen complete by a Wait call that is recorded next. */
static void posted_half(struct hand_job *job, unsigned rank, uint16_t flag, unsigned peer, uint32_t ordinal,
                        uint32_t op, uint64_t post, uint64_t seen) {
    struct record record = {.call = flag == FLAG_SEND ? BUILDER_ISEND : BUILDER_IRECV,
                            .comm = 0,
                            .flags = flag,
                            .peer = (int32_t)peer,
                            .seq = ordinal,
                            .op = op,
                            .bytes = 8,
                            .kind = RECORD_DONE,
                            .t0 = post,
                            .t1 = seen};
    dump_builder_record(job->builders[rank], 0, &record);
}

static void a_late_sender_and_a_late_receiver(void **state) {
    (void)state;
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 3, (struct dump_plan){0});
    /* rank 1 receives at 100 what rank 0 sends at 900 */
    message_half(&job, 1, BUILDER_RECV, FLAG_RECV, 0, 0, 100, 960);
    message_half(&job, 0, BUILDER_SEND, FLAG_SEND, 1, 0, 900, 950);
    /* rank 2 sends at 200, and leaves only after rank 1 receives at 1500; to rank 0 it sends without waiting */
    message_half(&job, 2, BUILDER_SEND, FLAG_SEND, 1, 0, 200, 1510);
    message_half(&job, 1, BUILDER_RECV, FLAG_RECV, 2, 0, 1500, 1520);
    message_half(&job, 2, BUILDER_SEND, FLAG_SEND, 0, 0, 1600, 1620);
    message_half(&job, 0, BUILDER_RECV, FLAG_RECV, 2, 0, 1700, 1710);
    analyse(&job, 3, &sums);
    assert_state(1, WAIT_LATE_SENDER, 800);
    assert_state(2, WAIT_LATE_RECEIVER, 1300);
    assert_waits(0, 0, 800, 800);
    assert_waits(1, 800, 1300, 1300);
    assert_waits(2, 1300, 0, 0);
    done(&job, &sums);
}

/* A send of 1000 ns is over 120 or 130 ns after its receiver was back in the library, for a send of its own, and before
 * it came to its receive. */
static void a_held_send_is_over_within_an_eighth(void **state) {
    (void)state;
    static const uint64_t back[] = {980, 970};
    for (size_t i = 0; i < 2; i++) {
        struct hand_job job;
        struct sums sums;
        hand_job_make(&job, 3, (struct dump_plan){0});
        message_half(&job, 0, BUILDER_SEND, FLAG_SEND, 1, 0, 100, 1100);
        message_half(&job, 1, BUILDER_SEND, FLAG_SEND, 2, 0, back[i], back[i] + 10);
        message_half(&job, 1, BUILDER_RECV, FLAG_RECV, 0, 0, 1200, 1210);
        message_half(&job, 2, BUILDER_RECV, FLAG_RECV, 1, 0, 1500, 1510);
        analyse(&job, 3, &sums);
        assert_state(0, WAIT_LATE_RECEIVER, i == 0 ? 880 : 0);
        assert_waits(1, 0, i == 0 ? 880 : 0, i == 0 ? 880 : 0);
        done(&job, &sums);
    }
}

/* Rank 0 waits from 1000 on for three messages, sent at 400, 1500 and 1800: 800 in all, for the last of them. */
static void of_several_receives_in_one_wait_the_last_sender_counts(void **state) {
    (void)state;
    static const uint64_t sent[4] = {0, 400, 1500, 1800};
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 4, (struct dump_plan){0});
    for (unsigned peer = 1; peer < 4; peer++)
        posted_half(&job, 0, FLAG_RECV, peer, 0, peer, 100 + peer, 1900);
    dump_builder_plain(job.builders[0], 0, BUILDER_WAITALL, 1000, 1900);
    for (unsigned peer = 1; peer < 4; peer++)
        message_half(&job, peer, BUILDER_SEND, FLAG_SEND, 0, 0, sent[peer], sent[peer] + 10);
    analyse(&job, 4, &sums);
    assert_state(0, WAIT_LATE_SENDER, 800);
    assert_waits(0, 800, 0, 0);
    assert_waits(1, 0, 0, 0);
    assert_waits(2, 0, 0, 0);
    assert_waits(3, 0, 300, 800); /* without it until 1500 */
    assert_int_equal(sums.waits.messages, 3);
    done(&job, &sums);
}

/* A wait is told where the Wait is, and whoever was waited for where it sent: not where the receive was posted. */
static void a_wait_belongs_to_the_line_of_its_wait(void **state) {
    (void)state;
    enum { POSTED = 5, WAITED = 6, SENT = 7 };
    struct hand_job job;
    struct sums sums;
    struct record completion = {.call = BUILDER_IRECV, .flags = FLAG_RECV, .peer = 1, .op = 1, .kind = RECORD_DONE};
    hand_job_make(&job, 2, (struct dump_plan){0});
    dump_builder_plain(job.builders[0], 0, BUILDER_WAIT, 1000, 1900)->stack = WAITED;
    completion.stack = POSTED;
    completion.t0 = 100;
    completion.t1 = 1900;
    dump_builder_record(job.builders[0], 0, &completion);
    message_half(&job, 1, BUILDER_SEND, FLAG_SEND, 0, 0, 1800, 1810)->stack = SENT;
    analyse(&job, 2, &sums);
    assert_int_equal(sums.waits.sites.sums.count, 2);
    assert_int_equal(site_waits_of(&sums.waits.sites, 0, WAITED).wait_ns, 800);
    assert_int_equal(site_waits_of(&sums.waits.sites, 1, SENT).waited_for_ns, 800);
    done(&job, &sums);
}

/* Each exchanges with its neighbours through one Waitall; all of rank 1's waiting is for rank 2, once. */
static void an_exchange_is_waited_for_once(void **state) {
    (void)state;
    static const uint64_t posted[3] = {200, 100, 900};
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++) {
        unsigned left = (r + 2) % 3, right = (r + 1) % 3;
        posted_half(&job, r, FLAG_RECV, left, 0, 1, posted[r], 1000);
        posted_half(&job, r, FLAG_RECV, right, 0, 2, posted[r] + 1, 1000);
        posted_half(&job, r, FLAG_SEND, left, 0, 3, posted[r] + 2, 1000);
        posted_half(&job, r, FLAG_SEND, right, 0, 4, posted[r] + 3, 1000);
        dump_builder_plain(job.builders[r], 0, BUILDER_WAITALL, posted[r] + 10, 1000);
    }
    analyse(&job, 3, &sums);
    /* rank 2 sends to its left (1) at 902, to its right (0) at 903 */
    assert_state(0, WAIT_LATE_SENDER, 903 - 210);
    assert_state(1, WAIT_LATE_SENDER, 902 - 110);
    assert_state(0, WAIT_LATE_RECEIVER, 0);           /* not told apart in a shared Wait */
    assert_waits(2, 0, 693 + (902 - 203), 693 + 792); /* without it rank 1 would have waited for rank 0, until 203 */
    done(&job, &sums);
}

/* A single Isend and its Wait: what the sender waited for the receiver counts, from the Wait on. */
static void a_send_alone_in_its_wait_tells_of_a_late_receiver(void **state) {
    (void)state;
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 2, (struct dump_plan){0});
    posted_half(&job, 0, FLAG_SEND, 1, 0, 1, 100, 1010);
    dump_builder_plain(job.builders[0], 0, BUILDER_WAIT, 400, 1010);
    message_half(&job, 1, BUILDER_RECV, FLAG_RECV, 0, 0, 1000, 1020);
    analyse(&job, 2, &sums);
    assert_state(0, WAIT_LATE_RECEIVER, 600);
    assert_waits(1, 0, 600, 600);
    done(&job, &sums);
}

static void both_halves_of_a_sendrecv_are_one_wait(void **state) {
    (void)state;
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (unsigned r = 0; r < 2; r++) {
        dump_builder_call(job.builders[r], 80, CLASS_SENDRECV, FLOW_NONE, BUSBW_ONE, 0, "MPI_Sendrecv");
        message_half(&job, r, 80, FLAG_SEND, 1 - r, 0, r ? 700 : 100, 720);
        message_half(&job, r, 80, FLAG_RECV, 1 - r, 0, r ? 700 : 100, 720);
    }
    analyse(&job, 2, &sums);
    assert_state(0, WAIT_LATE_SENDER, 600);
    assert_waits(0, 600, 0, 0);
    assert_waits(1, 0, 600, 600);
    done(&job, &sums);
}

/* ---- what is no wait ------------------------------------------------------------------------- */

static void computing_beside_an_operation_is_not_waiting(void **state) {
    (void)state;
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 2, (struct dump_plan){0});
    dump_builder_icollective(job.builders[0], 0, BUILDER_IALLREDUCE, 0, 0, 8, 100, 110, 900);
    dump_builder_plain(job.builders[0], 0, BUILDER_WAIT, 650, 905);
    dump_builder_icollective(job.builders[1], 0, BUILDER_IALLREDUCE, 0, 0, 8, 700, 710, 900);
    dump_builder_plain(job.builders[1], 0, BUILDER_WAIT, 720, 905);
    analyse(&job, 2, &sums);
    assert_waits(0, 50, 0, 0);
    assert_waits(1, 0, 50, 50);
    done(&job, &sums);
}

/* An Iallreduce of three, each of which posts at 100, waits since `waits` and is done at `leaves`. */
static void play_iallreduce(struct hand_job *job, const uint64_t waits[3], const uint64_t leaves[3]) {
    hand_job_make(job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++) {
        dump_builder_icollective(job->builders[r], 0, BUILDER_IALLREDUCE, 0, 0, 8, 100, 110, leaves[r]);
        dump_builder_plain(job->builders[r], 0, BUILDER_WAIT, waits[r], leaves[r] + 5)->stack = 7 + r;
    }
}

/* Rank 2 has posted and computes until 8000. Rank 0 is done soon after that one is back: it waited for it. Rank 1 was
 * handed all it needed before. */
static void who_is_away_from_a_posted_collective_is_waited_for(void **state) {
    (void)state;
    struct hand_job job;
    struct sums sums;
    play_iallreduce(&job, (const uint64_t[3]){1000, 1000, 8000}, (const uint64_t[3]){8100, 1200, 8150});
    analyse(&job, 3, &sums);
    assert_waits(0, 7000, 0, 0);
    assert_waits(1, 0, 0, 0);
    assert_waits(2, 0, 7000, 7000);
    assert_int_equal(sums.waits.ranks[0].states_ns[WAIT_AT_NXN], 7000);
    done(&job, &sums);
}

/* Within an eighth of the time since the away one had posted (7900), and of the wait (7000), after which it was over.
 */
static void what_is_over_long_after_the_return_did_not_wait_for_it(void **state) {
    (void)state;
    struct hand_job job;
    struct sums sums;
    for (unsigned late = 0; late < 2; late++) {
        uint64_t over = late ? 9001 : 9000;
        play_iallreduce(&job, (const uint64_t[3]){1000, 1000, 8000}, (const uint64_t[3]){over, over, 9100});
        analyse(&job, 3, &sums);
        assert_waits(0, late ? 0 : 7000, 0, 0);
        assert_waits(2, 0, late ? 0 : 14000, late ? 0 : 14000);
        done(&job, &sums);
    }
}

/* Of two that are away the last to be back was waited for, by as much as it came after the other one. */
static void the_last_to_be_back_is_waited_for(void **state) {
    (void)state;
    struct hand_job job;
    struct sums sums;
    play_iallreduce(&job, (const uint64_t[3]){1000, 6000, 8000}, (const uint64_t[3]){8010, 8020, 8030});
    analyse(&job, 3, &sums);
    assert_waits(0, 7000, 0, 0);
    assert_waits(1, 2000, 0, 0);
    assert_waits(2, 0, 4000, 9000);
    done(&job, &sums);
}

static void incomplete_and_mismatched_collectives_add_nothing(void **state) {
    (void)state;
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 3, (struct dump_plan){0});
    for (unsigned r = 0; r < 3; r++) {
        dump_builder_collective(job.builders[r], 0, r ? BUILDER_BARRIER : BUILDER_ALLREDUCE, 0, 0, 8, 100 + 50 * r,
                                300);
        if (r < 2)
            dump_builder_collective(job.builders[r], 0, BUILDER_BARRIER, 0, 1, 8, 400 + 50 * r, 600);
    }
    analyse(&job, 3, &sums);
    for (unsigned r = 0; r < 3; r++)
        assert_waits(r, 0, 0, 0);
    assert_int_equal(sums.waits.judged, 0);
    assert_true(sums.waits.mismatch.any);
    assert_int_equal(sums.waits.mismatch.seq, 0);
    assert_int_equal(sums.waits.mismatch.others, 2);
    done(&job, &sums);
}

static void waits_below_the_clocks_error_are_none(void **state) {
    (void)state;
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 2, (struct dump_plan){0});
    for (unsigned r = 0; r < 2; r++) {
        struct clock_anchor *anchor = dump_builder_contents(job.builders[r], SECTION_ANCHORS, 0);
        anchor->width_ticks = 100; /* each reading is good to 50 ns */
        dump_builder_collective(job.builders[r], 0, BUILDER_BARRIER, 0, 0, 0, 1000 + 100 * r, 2000);
        dump_builder_collective(job.builders[r], 0, BUILDER_BARRIER, 0, 1, 0, 3000 + 101 * r, 4000);
    }
    analyse(&job, 2, &sums);
    assert_waits(0, 101, 0, 0);
    assert_waits(1, 0, 101, 101);
    assert_int_equal(sums.waits.ranks[0].unresolved_ns, 100);
    assert_int_equal(sums.waits.ranks[1].unresolved_ns, 0);
    done(&job, &sums);
}

/* ---- one rank's times ------------------------------------------------------------------------ */

static void communication_is_a_union_without_setup_files_and_creation(void **state) {
    (void)state;
    struct hand_job job;
    struct sums sums;
    struct dump_plan plan = {.lanes = 2};
    hand_job_make(&job, 1, plan);
    struct dump_builder *b = job.builders[0];
    dump_builder_plain(b, 0, BUILDER_INIT, 0, 1000);
    dump_builder_p2p(b, 0, BUILDER_RECV, 0, FLAG_RECV, 0, 1, 0, 8, 1500, 2500); /* thread 0 */
    dump_builder_p2p(b, 1, BUILDER_SEND, 0, FLAG_SEND, 0, 1, 0, 8, 1400, 1600); /* thread 1, overlapping */
    dump_builder_p2p(b, 1, BUILDER_SEND, 0, FLAG_SEND, 0, 1, 1, 8, 2000, 2700);
    dump_builder_plain(b, 0, BUILDER_COMM_DUP, 3000, 3500);
    dump_builder_plain(b, 0, BUILDER_FILE_WRITE_ALL, 4000, 4600);
    dump_builder_plain(b, 0, BUILDER_WAIT, 5000, 5100);
    dump_builder_plain(b, 0, BUILDER_FINALIZE, 6000, 9000);
    analyse(&job, 1, &sums);
    /* 1400-2700 and 5000-5100; the window is from the end of Init to the entry of Finalize */
    assert_int_equal(sums.times[0].comm_ns, 1300 + 100);
    assert_int_equal(sums.times[0].window_ns, 5000);
    /* own time: 1000-1400, 2700-3000, 3500-5000 (the file is its own doing), 5100-6000 */
    assert_int_equal(sums.times[0].self_ns, 400 + 300 + 1500 + 900);
    done(&job, &sums);
}

static void missing_records_end_a_stretch(void **state) {
    (void)state;
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 1, (struct dump_plan){0});
    dump_builder_plain(job.builders[0], 0, BUILDER_WAIT, 100, 200);
    dump_builder_plain(job.builders[0], 0, BUILDER_WAIT, 300, 400);
    struct record *torn = dump_builder_plain(job.builders[0], 0, BUILDER_WAIT, 500, 600);
    dump_builder_plain(job.builders[0], 0, BUILDER_WAIT, 5000, 5100);
    dump_builder_plain(job.builders[0], 0, BUILDER_WAIT, 5200, 5300);
    torn->commit = 0;
    analyse(&job, 1, &sums);
    /* the missing call ended before the next one did, at 5100 */
    assert_int_equal(sums.times[0].window_ns, 300 + 200);
    assert_int_equal(sums.times[0].comm_ns, 300);
    assert_int_equal(sums.times[0].self_ns, 100 + 100);
    done(&job, &sums);
}

static void self_time_is_binned_by_collective(void **state) {
    (void)state;
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 1, (struct dump_plan){0});
    uint64_t now = 1000;
    for (uint32_t seq = 5; seq < 15; seq++) { /* 10 * seq of own time before each, 7 of it inside a Wait */
        dump_builder_plain(job.builders[0], 0, BUILDER_WAIT, now + 1, now + 8);
        dump_builder_collective(job.builders[0], 0, BUILDER_BARRIER, 0, seq, 0, now + 10 * seq + 7, now + 10 * seq + 9);
        now += 10 * seq + 9;
    }
    analyse(&job, 1, &sums);
    /* room for 4 bins: 6..14 in bins of 4 numbers: 4-7, 8-11, 12-15; the first one has no beginning */
    const struct rank_bins *bins = &sums.times[0].bins;
    assert_int_equal(bins->shift, 2);
    assert_int_equal(bins->first, 1);
    assert_int_equal(bins->count, 3);
    assert_int_equal(bins->self_ns[0], 60 + 70);
    assert_int_equal(bins->calls[0], 2);
    assert_int_equal(bins->self_ns[1], 80 + 90 + 100 + 110);
    assert_int_equal(bins->self_ns[2], 120 + 130 + 140);
    done(&job, &sums);
}

/* The loop around two questions 40 us apart is no work, what lies between 60 us apart is. */
static void polls_within_50_us_are_one_wait(void **state) {
    (void)state;
    struct hand_job job;
    struct sums sums;
    hand_job_make(&job, 1, (struct dump_plan){0});
    dump_builder_call(job.builders[0], 240, CLASS_TEST, FLOW_NONE, BUSBW_NONE, 0, "MPI_Test");
    dump_builder_plain(job.builders[0], 0, 240, 1000, 1001);
    dump_builder_plain(job.builders[0], 0, 240, 41001, 41002);
    dump_builder_plain(job.builders[0], 0, 240, 101002, 101003);
    analyse(&job, 1, &sums);
    assert_int_equal(sums.times[0].self_ns, 60000);
    done(&job, &sums);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_of_all_makes_the_others_wait),
        cmocka_unit_test(what_waits_at_the_same_time_counts_once),
        cmocka_unit_test(too_many_stretches_leave_bounds),
        cmocka_unit_test(costs_of_several_collectives_add_up),
        cmocka_unit_test(who_leaves_before_the_last_entered_waited_only_so_long),
        cmocka_unit_test(a_late_root_makes_a_broadcast_wait),
        cmocka_unit_test(only_the_root_of_a_reduction_waits),
        cmocka_unit_test(time_in_a_collective_is_wait_transfer_and_completion),
        cmocka_unit_test(fences_are_waited_in_where_they_are_barriers_or_nobody_left_early),
        cmocka_unit_test(making_a_communicator_is_waited_in_where_nobody_left_early),
        cmocka_unit_test(sizes_and_functions_have_transfers_of_their_own),
        cmocka_unit_test(transfers_are_unknown_where_members_have_no_dump),
        cmocka_unit_test(early_reduce_ends_when_the_first_comes_and_the_wait_when_the_last_does),
        cmocka_unit_test(a_root_that_comes_in_between_waits_for_the_rest),
        cmocka_unit_test(in_a_scan_only_lower_ranks_are_waited_for),
        cmocka_unit_test(a_late_sender_and_a_late_receiver),
        cmocka_unit_test(a_held_send_is_over_within_an_eighth),
        cmocka_unit_test(of_several_receives_in_one_wait_the_last_sender_counts),
        cmocka_unit_test(a_wait_belongs_to_the_line_of_its_wait),
        cmocka_unit_test(an_exchange_is_waited_for_once),
        cmocka_unit_test(a_send_alone_in_its_wait_tells_of_a_late_receiver),
        cmocka_unit_test(both_halves_of_a_sendrecv_are_one_wait),
        cmocka_unit_test(computing_beside_an_operation_is_not_waiting),
        cmocka_unit_test(who_is_away_from_a_posted_collective_is_waited_for),
        cmocka_unit_test(what_is_over_long_after_the_return_did_not_wait_for_it),
        cmocka_unit_test(the_last_to_be_back_is_waited_for),
        cmocka_unit_test(incomplete_and_mismatched_collectives_add_nothing),
        cmocka_unit_test(waits_below_the_clocks_error_are_none),
        cmocka_unit_test(communication_is_a_union_without_setup_files_and_creation),
        cmocka_unit_test(missing_records_end_a_stretch),
        cmocka_unit_test(self_time_is_binned_by_collective),
        cmocka_unit_test(polls_within_50_us_are_one_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
