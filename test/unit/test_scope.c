/* SPDX-License-Identifier: Apache-2.0
 *
 * A part of the time: each rank's window, which records lie in it, what of it is on record.
 * Lives here: hand-made ranks with a record every 100 us, so that every count is known.
 * Must not live here: how values are written (test_options.c), what commands make of it (e2e).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/profile/recorded_calls.h"
#include "analyzer/profile/scope.h"
#include "test/unit/job_builder.h"

enum { US = 1000, EVERY = 100 * US, CALLS = 40, RANKS = 2 };

static const struct step_marker unmarked = {.any_level = true};

/* The job lasts from 0 to CALLS + 1 times 100 us; call k begins k + 1 times 100 us after the start and takes 10 us, on
 * rank 1 `late` later. */
struct told {
    struct hand_job hand;
    struct job job;
    struct filter filter;
    struct scope scope;
};

static void make(struct told *told, struct dump_plan plan) {
    *told = (struct told){0};
    hand_job_make(&told->hand, RANKS, plan);
    for (unsigned r = 0; r < RANKS; r++) {
        dump_builder_header(told->hand.builders[r])->activated_ticks = EVERY;
        dump_builder_header(told->hand.builders[r])->exited_ticks = (CALLS + 3) * EVERY;
        dump_builder_header(told->hand.builders[r])->state |= STATE_EXITED;
    }
}

/* When call k of the job begins, ticks: the job begins at EVERY, not at the clock's 0. */
static uint64_t at(unsigned k) {
    return (k + 2) * EVERY;
}

static void play(struct told *told, uint64_t late) {
    for (unsigned r = 0; r < RANKS; r++)
        for (uint32_t k = 0; k < CALLS; k++)
            dump_builder_collective(told->hand.builders[r], 0, BUILDER_ALLREDUCE, 0, k, k % 2 ? 8 : 4096,
                                    at(k) + r * late, at(k) + r * late + 10 * US);
}

static void look(struct told *told) {
    if (!told->job.dumps) {
        hand_job_open(&told->hand, RANKS);
        told->job = (struct job){.dumps = told->hand.dumps, .count = RANKS};
    }
    scope_free(&told->scope);
    assert_true(scope_build(&told->scope, &told->job, &told->hand.clock, &told->filter, &unmarked));
}

static void end(struct told *told) {
    scope_free(&told->scope);
    filter_free(&told->filter);
    hand_job_free(&told->hand);
}

static unsigned records_of(const struct told *told, size_t d) {
    struct scope_walk walk;
    unsigned count = 0;
    scope_walk_begin(&walk, &told->scope, told->hand.dumps[d], d);
    while (scope_walk_next(&walk))
        count++;
    assert_false(walk.no_memory);
    scope_walk_end(&walk);
    return count;
}

static void a_call_is_where_it_begins(void **state) {
    (void)state;
    struct told told;
    make(&told, (struct dump_plan){0});
    play(&told, 0);
    look(&told);
    assert_false(scope_is_limited(&told.scope));
    assert_int_equal(records_of(&told, 0), CALLS);
    /* 1 ms to 2 ms after the start: calls 9 to 18, the one that begins at 2 ms is outside */
    assert_int_equal(filter_set_from(&told.filter, "0.001"), 0);
    assert_int_equal(filter_set_to(&told.filter, "0.002"), 0);
    look(&told);
    assert_int_equal(told.scope.job_from_ns, EVERY);
    assert_int_equal(told.scope.from_ns - told.scope.job_from_ns, 1000 * US);
    assert_int_equal(told.scope.to_ns - told.scope.job_from_ns, 2000 * US);
    assert_int_equal(records_of(&told, 0), 10);
    assert_true(told.scope.complete);
    assert_int_equal(told.scope.seen_ns, told.scope.asked_ns);
    assert_int_equal(told.scope.asked_ns, RANKS * 1000 * US);
    /* a call that began before and ends inside belongs to what was before */
    assert_int_equal(filter_set_from(&told.filter, "0.001005"), 0);
    look(&told);
    assert_int_equal(records_of(&told, 0), 9);
    assert_int_equal(filter_set_from(&told.filter, "1000"), 0);
    assert_int_equal(filter_set_to(&told.filter, "2000"), 0);
    look(&told);
    assert_true(scope_is_empty(&told.scope));
    assert_int_equal(records_of(&told, 0), 0);
    end(&told);
}

static void steps_are_each_ranks_own(void **state) {
    (void)state;
    struct told told;
    make(&told, (struct dump_plan){0});
    play(&told, 120 * US); /* more than half a step: the same collective tells which step it is */
    assert_int_equal(filter_set_steps(&told.filter, "4-6"), 0);
    look(&told);
    assert_int_equal(records_of(&told, 0), 6);
    assert_int_equal(records_of(&told, 1), 6);
    assert_int_equal(told.scope.spans[1].from_ns - told.scope.spans[0].from_ns, 120 * US);
    assert_int_equal(told.scope.to_ns - told.scope.from_ns, 6 * EVERY + 120 * US);
    assert_int_equal(told.scope.ranks_without_step, 0);
    assert_in_range(told.scope.step_count, CALLS / 2 - 1, CALLS / 2);
    assert_int_equal(filter_set_steps(&told.filter, "400"), 0);
    look(&told);
    assert_true(scope_is_empty(&told.scope));
    assert_int_equal(told.scope.ranks_without_step, RANKS);
    end(&told);
}

static void what_the_ring_lost_is_not_seen(void **state) {
    (void)state;
    struct told told;
    make(&told, (struct dump_plan){.ring_records = 16});
    play(&told, 0);
    assert_int_equal(filter_set_from(&told.filter, "0"), 0);
    look(&told); /* of 40 calls the last 16 are there; the first of these ends 2.51 ms after the start of 4.2 ms */
    assert_int_equal(records_of(&told, 0), 16);
    assert_false(told.scope.complete);
    assert_int_equal(told.scope.asked_ns - told.scope.seen_ns, RANKS * 2510 * US);
    assert_int_equal(filter_set_ranks(&told.filter, "1"), 0);
    look(&told);
    assert_int_equal(told.scope.asked_ns - told.scope.seen_ns, 2510 * US);
    assert_int_equal(filter_set_from(&told.filter, "0.003"), 0);
    look(&told);
    assert_true(told.scope.complete);
    assert_int_equal(told.scope.seen_ns, 1200 * US);
    assert_int_equal(filter_set_from(&told.filter, "0"), 0);
    assert_int_equal(filter_set_to(&told.filter, "0.001"), 0);
    look(&told);
    assert_false(told.scope.complete);
    assert_int_equal(told.scope.seen_ns, 0);
    assert_int_equal(records_of(&told, 0), 0);
    end(&told);
}

static void enqueued_calls_are_where_they_ran(void **state) {
    (void)state;
    struct told told;
    make(&told, (struct dump_plan){.lanes = 2, .devices = 1});
    for (unsigned r = 0; r < RANKS; r++) {
        struct dump_builder *builder = told.hand.builders[r];
        dump_builder_header(builder)->gpu_timing = GPU_TIMING_EVENTS;
        dump_builder_lane(builder, 1)->device = 1;
        dump_builder_device(builder, EVERY, 100);
        for (uint32_t k = 0; k < 10; k++) { /* enqueued every 10 us, run every 100 us */
            struct record post = {.t0 = EVERY + k * 10 * US,
                                  .t1 = EVERY + k * 10 * US + US,
                                  .bytes = 64,
                                  .seq = k,
                                  .op = k + 1,
                                  .tag = TAG_NONE,
                                  .peer = PEER_NONE,
                                  .call = BUILDER_NCCL_ALL_REDUCE,
                                  .flags = FLAG_COLLECTIVE,
                                  .kind = RECORD_POST};
            dump_builder_record(builder, 0, &post);
            post.t0 = at(k);
            post.t1 = at(k) + 10 * US;
            post.kind = RECORD_GPU;
            post.tag = 0;
            dump_builder_record(builder, 1, &post);
        }
    }
    assert_int_equal(filter_set_from(&told.filter, "0.0005"), 0);
    assert_int_equal(filter_set_to(&told.filter, "0.0008"), 0);
    look(&told);
    assert_int_equal(records_of(&told, 0), 2 * 3);
    end(&told);
}

/* ---- calls ------------------------------------------------------------------------------------- */

struct counted {
    unsigned calls, untimed, incomplete;
    uint64_t ticks, posting, received;
};

static bool count(void *context, const struct recorded_call *call) {
    struct counted *counted = context;
    counted->calls++;
    counted->untimed += !call->timed;
    counted->incomplete += call->incomplete;
    counted->ticks += call->ticks;
    counted->posting += call->posting_ticks;
    counted->received += call->received_bytes;
    return true;
}

static void records_become_calls(void **state) {
    (void)state;
    struct told told;
    make(&told, (struct dump_plan){0});
    struct dump_builder *builder = told.hand.builders[0];
    dump_builder_collective(builder, 0, BUILDER_ALLREDUCE, 0, 0, 8, at(0), at(0) + 10);
    dump_builder_icollective(builder, 0, BUILDER_IALLREDUCE, 0, 1, 8, at(1), at(1) + 3, at(2)); /* takes 100 us */
    dump_builder_icollective(builder, 0, BUILDER_IALLREDUCE, 0, 2, 8, at(3), at(3) + 4, 0);     /* never seen done */
    struct record sent = {.t0 = at(4), .t1 = at(4) + 20, .op = 77, .bytes = 16, .kind = RECORD_CALL, .tag = 1};
    sent.call = BUILDER_SEND;
    struct record received = sent;
    received.bytes = 24;
    received.flags = FLAG_RECEIVE_HALF;
    dump_builder_record(builder, 0, &sent);
    dump_builder_record(builder, 0, &received);
    dump_builder_plain(builder, 0, BUILDER_WAIT, at(5), at(5) + 7);
    look(&told);
    struct counted counted = {0};
    assert_true(recorded_calls(NULL, told.hand.dumps[0], 0, count, &counted));
    assert_int_equal(counted.calls, 5);
    assert_int_equal(counted.incomplete, 1);
    assert_int_equal(counted.untimed, 1);
    assert_int_equal(counted.ticks, 10 + EVERY + 20 + 7);
    assert_int_equal(counted.posting, 3 + 4);
    assert_int_equal(counted.received, 24);
    /* the completion lies outside of the window in which it was posted, and belongs to it */
    assert_int_equal(filter_set_from(&told.filter, "0.00015"), 0);
    assert_int_equal(filter_set_to(&told.filter, "0.00025"), 0);
    look(&told);
    counted = (struct counted){0};
    assert_true(recorded_calls(&told.scope, told.hand.dumps[0], 0, count, &counted));
    assert_int_equal(counted.calls, 1);
    assert_int_equal(counted.incomplete, 0);
    assert_int_equal(counted.ticks, EVERY);
    end(&told);
}

static bool first_of_kind(void *context, const struct recorded_call *call) {
    struct recorded_call *first = context;
    if (first[call->source].count == 0)
        first[call->source] = *call;
    return true;
}

/* A launch of alike operations is as many; a send and a receive that belong together are one. */
static void launches_of_groups_are_their_operations(void **state) {
    (void)state;
    enum { EXCHANGE = 2072 };
    static const struct {
        uint16_t call;
        uint64_t bytes, count, each;
    } cases[] = {{BUILDER_NCCL_ALL_REDUCE, 6000, 6, 1000}, {EXCHANGE, 6000, 3, 1000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct told told;
        make(&told, (struct dump_plan){.lanes = 2, .devices = 1});
        struct dump_builder *builder = told.hand.builders[0];
        dump_builder_call(builder, EXCHANGE, CLASS_GROUP, FLOW_NONE, BUSBW_ONE, false, "ncclSend+ncclRecv");
        dump_builder_header(builder)->gpu_timing = GPU_TIMING_EVENTS;
        dump_builder_lane(builder, 1)->device = 1;
        dump_builder_device(builder, EVERY, 100);
        struct record record = {.t0 = at(0), .t1 = at(0) + 40, .bytes = 1000, .op = 1, .tag = 9, .kind = RECORD_POST};
        record.call = BUILDER_NCCL_ALL_REDUCE;
        dump_builder_record(builder, 0, &record); /* gathered by group 9 */
        record = (struct record){.t0 = at(1), .t1 = at(1) + 600, .bytes = cases[i].bytes, .op = 9, .result = 5};
        record.kind = RECORD_GPU;
        record.call = cases[i].call;
        dump_builder_record(builder, 1, &record);
        look(&told);
        struct recorded_call first[SOURCE_IN_KERNEL + 1] = {0};
        assert_true(recorded_calls(NULL, told.hand.dumps[0], 0, first_of_kind, first));
        assert_true(first[SOURCE_HOST].timed);
        assert_int_equal(first[SOURCE_HOST].ticks, 40);
        assert_int_equal(first[SOURCE_GPU_EVENT].count, cases[i].count);
        assert_int_equal(first[SOURCE_GPU_EVENT].bytes, cases[i].each);
        assert_int_equal(first[SOURCE_GPU_EVENT].ticks, 600);
        end(&told);
    }
}

/* What one MPI_Startall starts has its time once; the second half of an MPI_Isendrecv is no operation of its own. */
static void time_inside_a_call_counts_once(void **state) {
    (void)state;
    struct told told;
    make(&told, (struct dump_plan){0});
    struct record post = {.t0 = at(0), .t1 = at(0) + 30, .op = 50, .bytes = 8, .tag = 1, .kind = RECORD_POST};
    post.call = BUILDER_ISEND;
    post.flags = FLAG_STARTED | FLAG_SEND;
    for (uint32_t i = 0; i < 3; i++, post.op++) {
        dump_builder_record(told.hand.builders[0], 0, &post);
        struct record done = post;
        done.kind = RECORD_DONE;
        done.t1 = at(1);
        dump_builder_record(told.hand.builders[0], 0, &done);
    }
    post = (struct record){.t0 = at(2), .t1 = at(2) + 9, .op = 60, .bytes = 8, .tag = 1, .kind = RECORD_POST};
    post.call = BUILDER_ISEND;
    dump_builder_record(told.hand.builders[0], 0, &post);
    struct record half = post;
    half.flags = FLAG_RECEIVE_HALF;
    dump_builder_record(told.hand.builders[0], 0, &half);
    post.kind = RECORD_DONE;
    post.t1 = at(3);
    dump_builder_record(told.hand.builders[0], 0, &post);
    look(&told);
    struct counted counted = {0};
    assert_true(recorded_calls(NULL, told.hand.dumps[0], 0, count, &counted));
    assert_int_equal(counted.calls, 4);
    assert_int_equal(counted.incomplete, 0);
    assert_int_equal(counted.posting, 30 + 9);
    end(&told);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_where_it_begins),      cmocka_unit_test(steps_are_each_ranks_own),
        cmocka_unit_test(what_the_ring_lost_is_not_seen), cmocka_unit_test(enqueued_calls_are_where_they_ran),
        cmocka_unit_test(records_become_calls),           cmocka_unit_test(launches_of_groups_are_their_operations),
        cmocka_unit_test(time_inside_a_call_counts_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
