/* SPDX-License-Identifier: Apache-2.0
 *
 * Waits of single collectives, and one rank's times, with answers worked out by hand.
 * Lives here: small worlds with round numbers.
 * Must not live here: verdicts (test_analyse_stragglers.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/analyse/ranks.h"
#include "analyzer/analyse/waits.h"
#include "test/unit/job_builder.h"

struct sums {
    struct waits waits;
    struct rank_times times[HAND_RANKS_MAX];
    const struct match_directory *directory;
};

static void take_instance(void *state, const struct match_instance *instance) {
    waits_add(&((struct sums *)state)->waits, instance);
}

static void take_record(void *state, const struct match_record *item) {
    struct sums *sums = state;
    rank_times_add(&sums->times[item->dump], item,
                   item->call == CALL_UNKNOWN ? NULL : sums->directory->calls[item->call].name);
}

static void analyse(struct hand_job *job, unsigned with_dump, struct sums *sums) {
    const struct match_sink sink = {.instance = take_instance, .record = take_record};
    struct match_totals totals;
    void *states[1] = {sums};
    hand_job_open(job, with_dump);
    *sums = (struct sums){.directory = &job->directory};
    assert_true(waits_init(&sums->waits, &job->clock, &job->directory));
    for (unsigned r = 0; r < with_dump; r++)
        assert_true(rank_times_init(&sums->times[r], 0, 4, 2, false));
    assert_true(match_run(&job->clock, &job->directory, &sink, states, 1, &totals));
    for (unsigned r = 0; r < with_dump; r++)
        rank_times_finish(&sums->times[r]);
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
        dump_builder_collective(job.builders[r], 0, BUILDER_COMM_DUP, 0, 2, 8, 700 + 50 * r, 900);
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
    assert_int_equal(sums.times[0].window_ns, 300 + 300);
    assert_int_equal(sums.times[0].comm_ns, 400);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_of_all_makes_the_others_wait),
        cmocka_unit_test(costs_of_several_collectives_add_up),
        cmocka_unit_test(who_leaves_before_the_last_entered_waited_only_so_long),
        cmocka_unit_test(a_late_root_makes_a_broadcast_wait),
        cmocka_unit_test(only_the_root_of_a_reduction_waits),
        cmocka_unit_test(computing_beside_an_operation_is_not_waiting),
        cmocka_unit_test(incomplete_and_mismatched_collectives_add_nothing),
        cmocka_unit_test(waits_below_the_clocks_error_are_none),
        cmocka_unit_test(communication_is_a_union_without_setup_files_and_creation),
        cmocka_unit_test(missing_records_end_a_stretch),
        cmocka_unit_test(self_time_is_binned_by_collective),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
