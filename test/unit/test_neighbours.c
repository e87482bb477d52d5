/* SPDX-License-Identifier: Apache-2.0
 *
 * Neighbourhood collectives: from whom each member takes, as its dump says, and whom it waited for.
 * Lives here: small worlds with round numbers, definitions that say nothing or what cannot be.
 * Must not live here: those of a hung job (test_hung_jobs.c), real jobs (test/e2e/test_rounds.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/match/match.h"
#include "analyzer/waits/waits.h"
#include "test/unit/job_builder.h"

enum { EXCHANGE = 142, RANKS = 4, MET_MOST = 64 };

struct meeting {
    int64_t at;
    uint64_t channel;
};

static struct hand_job job;
static struct waits waits;
static struct meeting met[MET_MOST];
static size_t met_count;

static void take_met(void *context, int64_t at, uint64_t channel) {
    (void)context;
    assert_true(met_count < MET_MOST);
    met[met_count++] = (struct meeting){at, channel};
}

static void take_instance(void *state, const struct match_instance *instance) {
    (void)state;
    waits_add(&waits, instance);
}

static int make(void **state) {
    (void)state;
    hand_job_make(&job, RANKS, (struct dump_plan){0});
    for (unsigned r = 0; r < RANKS; r++)
        dump_builder_call(job.builders[r], EXCHANGE, CLASS_COLLECTIVE, FLOW_NEIGHBOURS, BUSBW_NONE, 0,
                          "MPI_Neighbor_alltoall");
    return 0;
}

static void exchange(uint32_t seq, const uint64_t enter[RANKS], const uint64_t leave[RANKS]) {
    for (unsigned r = 0; r < RANKS; r++)
        dump_builder_collective(job.builders[r], 0, EXCHANGE, 0, seq, 8, enter[r], leave[r]);
}

/* Each takes from the one before it and the one behind it. */
static void make_ring(void) {
    for (int32_t r = 0; r < RANKS; r++) {
        const int32_t sources[] = {(r + RANKS - 1) % RANKS, (r + 1) % RANKS};
        dump_builder_neighbours(job.builders[r], 0, 0, sources, 2);
    }
}

static void analyse(void) {
    const struct match_sink sink = {.instance = take_instance};
    struct match_totals totals;
    void *states[1] = {NULL};
    hand_job_open(&job, RANKS);
    assert_true(waits_init(&waits, &job.clock, &job.directory));
    waits.listener.met = take_met;
    met_count = 0;
    assert_true(match_run(&job.clock, &job.directory, &sink, states, 1, &totals));
    waits_finish(&waits);
}

static int done(void **state) {
    (void)state;
    waits_free(&waits);
    hand_job_free(&job);
    return 0;
}

#define assert_waits(R, WAIT, IMPOSED, WAITED_FOR)                                                                     \
    do {                                                                                                               \
        assert_int_equal(waits.ranks[R].wait_ns, WAIT);                                                                \
        assert_int_equal(waits.ranks[R].states_ns[WAIT_AT_NEIGHBOURS], WAIT);                                          \
        assert_int_equal(waits.ranks[R].imposed_ns, IMPOSED);                                                          \
        assert_int_equal(waits.ranks[R].waited_for_ns, WAITED_FOR);                                                    \
    } while (0)

static void the_last_that_a_rank_takes_from_makes_it_wait(void **state) {
    (void)state;
    static const uint64_t enter[RANKS] = {100, 900, 300, 200}, leave[RANKS] = {910, 920, 930, 320};
    make_ring();
    exchange(0, enter, leave);
    analyse();
    /* ranks 0 and 2 for 1, ahead of which they would have waited for 3 until 200; rank 3 for 2, not for 1 */
    assert_waits(0, 800, 0, 0);
    assert_waits(1, 0, 700 + 600, 800 + 600);
    assert_waits(2, 600, 100, 100);
    assert_waits(3, 100, 0, 0);
    assert_int_equal(waits.ranks[1].last, 1); /* of one collective, however many waited */
    assert_int_equal(waits.ranks[1].mended_ns, 700);
    assert_int_equal(waits.ranks[2].mended_ns, 100);
    assert_int_equal(waits.ranks[0].transfer_ns, 10);
}

/* 0 gives to 1, 1 to 2, 2 to 3, and nobody to 0. */
static void who_takes_from_nobody_does_not_wait(void **state) {
    (void)state;
    static const uint64_t enter[RANKS] = {1000, 100, 50, 60}, leave[RANKS] = {1010, 1020, 150, 160};
    for (int32_t r = 0; r < RANKS; r++) {
        const int32_t source = r - 1;
        dump_builder_neighbours(job.builders[r], 0, 0, &source, r > 0);
    }
    exchange(0, enter, leave);
    analyse();
    assert_waits(0, 0, 900, 900);
    assert_waits(1, 900, 50, 50);
    assert_waits(2, 50, 0, 0);
    assert_waits(3, 0, 0, 0);
    assert_int_equal(waits.judged, 1);
}

static void who_came_after_it_had_left_gave_nothing(void **state) {
    (void)state;
    static const uint64_t enter[RANKS] = {100, 500, 110, 120}, leave[RANKS] = {150, 520, 510, 130};
    make_ring();
    exchange(0, enter, leave);
    analyse();
    assert_waits(0, 20, 0, 0); /* for 3 */
    assert_waits(2, 390, 0, 0);
    assert_waits(3, 0, 20, 20);
    assert_int_equal(waits.ranks[1].waited_for_ns, 390);
}

/* A communicator lives again with other neighbours: each collective goes by those of its time. */
static void the_neighbours_are_those_of_the_number(void **state) {
    (void)state;
    static const int32_t first = 1, second = 2;
    for (unsigned r = 0; r < RANKS; r++)
        dump_builder_neighbours(job.builders[r], 0, 0, &first, r == 0);
    dump_builder_neighbours(job.builders[0], 0, 1, &second, 1);
    dump_builder_neighbours(job.builders[0], 0, 2, NULL, 0);
    for (uint32_t seq = 0; seq < 3; seq++) {
        const uint64_t start = 10000 * (uint64_t)(seq + 1);
        const uint64_t enter[RANKS] = {start, start + 300, start + 700, start};
        const uint64_t leave[RANKS] = {start + 900, start + 310, start + 710, start + 10};
        exchange(seq, enter, leave);
    }
    analyse();
    assert_waits(0, 300 + 700, 0, 0);
    assert_int_equal(waits.ranks[1].waited_for_ns, 300);
    assert_int_equal(waits.ranks[2].waited_for_ns, 700);
}

/* Dumps of older versions, and of libraries that do not tell. */
static void where_nobody_knows_there_is_no_wait(void **state) {
    (void)state;
    static const uint64_t enter[RANKS] = {100, 900, 300, 200}, leave[RANKS] = {910, 920, 930, 920};
    dump_builder_neighbours(job.builders[0], 0, 0, NULL, 0);
    exchange(0, enter, leave);
    analyse();
    for (unsigned r = 0; r < RANKS; r++)
        assert_waits(r, 0, 0, 0);
    assert_int_equal(waits.ranks[0].transfer_ns, 810);
    assert_int_equal(met_count, 0);
}

/* Delays go from neighbour to neighbour: two of them meet when both have come, and not with all others. */
static void neighbours_meet_each_other(void **state) {
    (void)state;
    static const uint64_t enter[RANKS] = {100, 900, 300, 200}, leave[RANKS] = {910, 920, 930, 320};
    make_ring();
    exchange(0, enter, leave);
    analyse();
    assert_int_equal(met_count, 2 * RANKS);
    for (size_t i = 0; i < met_count; i++) {
        uint32_t low = (uint32_t)(met[i].channel >> 32), high = (uint32_t)met[i].channel >> 1;
        assert_true(low < RANKS && high < RANKS);
        assert_true((high - low) % 2 == 1); /* no opposite ones of four */
        assert_int_equal(met[i].at, enter[low] > enter[high] ? enter[low] : enter[high]);
    }
}

/* What names no members of the communicator is a problem, and nobody's neighbours. */
static void what_cannot_be_is_left_out(void **state) {
    (void)state;
    static const uint64_t enter[RANKS] = {100, 900, 300, 200}, leave[RANKS] = {910, 920, 930, 920};
    static const int32_t outside[] = {1, RANKS}, negative[] = {-1};
    int32_t many[NEIGHBOURS_MOST + 1] = {0};
    const uint32_t below = RANKS;
    dump_builder_neighbours(job.builders[0], 0, 0, outside, 2);
    dump_builder_neighbours(job.builders[1], 0, 0, negative, 1);
    dump_builder_neighbours(job.builders[2], 0, 0, many, NEIGHBOURS_MOST + 1);
    dump_builder_neighbours(job.builders[3], below, 0, many, 1); /* of no communicator */
    exchange(0, enter, leave);
    analyse();
    for (unsigned r = 0; r < RANKS; r++) {
        assert_int_equal(job.dumps[r]->problems.count, 1);
        assert_waits(r, 0, 0, 0);
    }
    uint32_t ranks[NEIGHBOURS_MOST];
    assert_true(dump_neighbours_at(job.dumps[0], 0, 0, ranks) == SIZE_MAX);
}

/* A grid of two names one neighbour twice, a graph may name the rank itself. */
static void each_is_named_once_and_in_order(void **state) {
    (void)state;
    static const int32_t sources[] = {3, 0, 3, 1, 0};
    uint32_t ranks[NEIGHBOURS_MOST];
    dump_builder_neighbours(job.builders[0], 0, 5, sources, 5);
    dump_builder_neighbours(job.builders[1], 0, 0, sources, 0);
    analyse();
    assert_true(dump_neighbours_at(job.dumps[0], 0, 4, ranks) == SIZE_MAX);
    assert_int_equal(dump_neighbours_at(job.dumps[0], 0, 5, ranks), 3);
    assert_int_equal(ranks[0], 0);
    assert_int_equal(ranks[1], 1);
    assert_int_equal(ranks[2], 3);
    assert_int_equal(dump_neighbours_at(job.dumps[1], 0, 0, ranks), 0);
    assert_true(dump_neighbours_at(job.dumps[1], 1, 0, ranks) == SIZE_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_last_that_a_rank_takes_from_makes_it_wait, make, done),
        cmocka_unit_test_setup_teardown(who_takes_from_nobody_does_not_wait, make, done),
        cmocka_unit_test_setup_teardown(who_came_after_it_had_left_gave_nothing, make, done),
        cmocka_unit_test_setup_teardown(the_neighbours_are_those_of_the_number, make, done),
        cmocka_unit_test_setup_teardown(where_nobody_knows_there_is_no_wait, make, done),
        cmocka_unit_test_setup_teardown(neighbours_meet_each_other, make, done),
        cmocka_unit_test_setup_teardown(what_cannot_be_is_left_out, make, done),
        cmocka_unit_test_setup_teardown(each_is_named_once_and_in_order, make, done),
    };
    return cmocka_run_group_tests_name("neighbours", tests, NULL, NULL);
}
