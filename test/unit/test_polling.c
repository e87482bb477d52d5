/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that wait by asking again and again: what they waited, for whom, and what was work of their own.
 * Lives here: small worlds with round numbers, of a receiver that polls and a sender that comes late.
 * Must not live here: waiting inside one call (test_waits.c), how a series of polls is recorded (test_ring_pages.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/match/match.h"
#include "analyzer/stragglers/ranks.h"
#include "analyzer/waits/delay_costs.h"
#include "analyzer/waits/waits.h"
#include "test/unit/job_builder.h"

enum { TEST = 240, IPROBE = 241, SENDER = 0, RECEIVER = 1, US = 1000 };

struct sums {
    struct waits waits;
    struct rank_times times[HAND_RANKS_MAX];
    struct delay_costs costs;
};

struct worker {
    struct waits waits;
    struct rank_times *times;
    struct delay_costs_build *build;
    const struct match_directory *directory;
    unsigned number;
};

static void take_instance(void *state, const struct match_instance *instance) {
    waits_add(&((struct worker *)state)->waits, instance);
}

static void take_message(void *state, const struct match_message *message) {
    waits_add_message(&((struct worker *)state)->waits, message);
}

static void take_record(void *state, const struct match_record *item) {
    struct worker *worker = state;
    rank_times_add(&worker->times[item->dump], item,
                   item->call == CALL_UNKNOWN ? NULL : worker->directory->calls[item->call].name);
    delay_costs_add_record(worker->build, worker->number, item);
}

/* Walks a world with that many workers. */
static struct sums walk(struct hand_job *job, unsigned workers) {
    const struct match_sink sink = {.instance = take_instance, .record = take_record, .message = take_message};
    struct worker work[4] = {0};
    void *states[4];
    struct match_totals totals;
    struct sums sums = {0};
    struct delay_costs_build *build = delay_costs_begin(&job->clock, &job->directory, NULL, workers);
    assert_non_null(build);
    for (unsigned r = 0; r < job->ranks; r++)
        assert_true(rank_times_init(&sums.times[r], &(struct cut){.kind = CUT_NONE}, 4, 2, false));
    for (unsigned w = 0; w < workers; w++) {
        work[w] = (struct worker){.times = sums.times, .build = build, .directory = &job->directory, .number = w};
        states[w] = &work[w];
        assert_true(waits_init(&work[w].waits, &job->clock, &job->directory));
        work[w].waits.listener = delay_costs_listener(build, w);
    }
    assert_true(match_run(&job->clock, &job->directory, &sink, states, workers, &totals));
    for (unsigned w = 0; w < workers; w++)
        waits_finish(&work[w].waits);
    for (unsigned w = 1; w < workers; w++) {
        waits_merge(&work[0].waits, &work[w].waits);
        waits_free(&work[w].waits);
    }
    sums.waits = work[0].waits;
    assert_true(delay_costs_finish(&sums.costs, build, 1));
    return sums;
}

static void forget(struct sums *sums) {
    waits_free(&sums->waits);
    delay_costs_free(&sums->costs);
    for (unsigned r = 0; r < HAND_RANKS_MAX; r++)
        rank_times_free(&sums->times[r]);
}

/* What the receiver waited for the sender, and its own work; the same from one worker and from four. */
static void expect(struct hand_job *job, int64_t wait_ns, int64_t self_ns) {
    hand_job_open(job, 2);
    for (unsigned workers = 1; workers <= 4; workers *= 4) {
        struct sums sums = walk(job, workers);
        assert_int_equal(sums.waits.ranks[RECEIVER].wait_ns, wait_ns);
        assert_int_equal(sums.waits.ranks[SENDER].waited_for_ns, wait_ns);
        assert_int_equal(sums.times[RECEIVER].self_ns, self_ns);
        forget(&sums);
    }
    hand_job_free(job);
}

static void begin_world(struct hand_job *job, unsigned ranks) {
    hand_job_make(job, ranks, (struct dump_plan){0});
    for (unsigned r = 0; r < ranks; r++) {
        dump_builder_call(job->builders[r], TEST, CLASS_TEST, FLOW_NONE, BUSBW_NONE, 0, "MPI_Test");
        dump_builder_call(job->builders[r], IPROBE, CLASS_PROBE, FLOW_NONE, BUSBW_NONE, 0, "MPI_Iprobe");
    }
}

static void begin(struct hand_job *job) {
    begin_world(job, 2);
}

/* Polls without success from t0 to t1, with that much own work between them. */
static void polls(struct hand_job *job, uint16_t call, uint64_t t0, uint64_t t1, uint64_t worked) {
    dump_builder_record(job->builders[RECEIVER], 0,
                        &(struct record){.t0 = t0,
                                         .t1 = t1,
                                         .seq = (uint32_t)worked,
                                         .comm = call == IPROBE ? 0 : COMM_NONE,
                                         .peer = PEER_NONE,
                                         .tag = TAG_NONE,
                                         .call = call,
                                         .kind = RECORD_POLL});
}

static void asks(struct hand_job *job, uint16_t call, uint64_t t0, uint64_t t1) {
    dump_builder_plain(job->builders[RECEIVER], 0, call, t0, t1)->comm = call == IPROBE ? 0 : COMM_NONE;
}

static void part(struct hand_job *job, enum record_kind kind, uint64_t t0, uint64_t t1) {
    dump_builder_record(job->builders[RECEIVER], 0,
                        &(struct record){.t0 = t0,
                                         .t1 = t1,
                                         .op = 1,
                                         .peer = SENDER,
                                         .flags = FLAG_RECV,
                                         .call = BUILDER_IRECV,
                                         .kind = (uint8_t)kind});
}

static void sent(struct hand_job *job, uint64_t at) {
    dump_builder_p2p(job->builders[SENDER], 0, BUILDER_SEND, 0, FLAG_SEND, RECEIVER, 0, 0, 8, at, at + 500);
}

static void received(struct hand_job *job, uint64_t t0, uint64_t t1) {
    dump_builder_p2p(job->builders[RECEIVER], 0, BUILDER_RECV, 0, FLAG_RECV, SENDER, 0, 0, 8, t0, t1);
}

/* ---- Test ------------------------------------------------------------------------------------ */

static void polling_for_a_late_sender_is_waiting_for_it(void **state) {
    (void)state;
    struct hand_job job;
    begin(&job);
    part(&job, RECORD_POST, 1 * US, 2 * US);
    polls(&job, TEST, 10 * US, 810 * US, 0);
    asks(&job, TEST, 811 * US, 812 * US);
    part(&job, RECORD_DONE, 1 * US, 812 * US);
    sent(&job, 800 * US);
    expect(&job, 790 * US, 8 * US);
}

/* What lies between the last poll in vain and the one that found it is the loop, or work. */
static void polls_50_us_apart_are_one_wait(void **state) {
    (void)state;
    for (unsigned apart = 40; apart <= 60; apart += 20) {
        struct hand_job job;
        begin(&job);
        part(&job, RECORD_POST, 1 * US, 2 * US);
        polls(&job, TEST, 10 * US, 710 * US, 0);
        asks(&job, TEST, (710 + apart) * US, 812 * US);
        part(&job, RECORD_DONE, 1 * US, 812 * US);
        sent(&job, 800 * US);
        expect(&job, apart < 50 ? 790 * US : 730 * US, apart < 50 ? 8 * US : 68 * US);
    }
}

/* 300 us of work lie somewhere between the polls. */
static void work_between_polls_is_no_waiting(void **state) {
    (void)state;
    struct hand_job job;
    begin(&job);
    part(&job, RECORD_POST, 1 * US, 2 * US);
    polls(&job, TEST, 10 * US, 810 * US, 300 * US);
    asks(&job, TEST, 811 * US, 812 * US);
    part(&job, RECORD_DONE, 1 * US, 812 * US);
    sent(&job, 800 * US);
    expect(&job, 490 * US, 308 * US);
}

/* 100 us of work lie between the last poll in vain and the one that found it. */
static void work_before_the_last_poll_is_no_waiting(void **state) {
    (void)state;
    struct hand_job job;
    begin(&job);
    part(&job, RECORD_POST, 1 * US, 2 * US);
    polls(&job, TEST, 10 * US, 710 * US, 0);
    asks(&job, TEST, 810 * US, 812 * US);
    part(&job, RECORD_DONE, 1 * US, 812 * US);
    sent(&job, 800 * US);
    expect(&job, 690 * US, 108 * US);
}

/* A series that went on for so long that it takes two records is one wait, and so is a Wait at its end. */
static void a_long_series_is_one_wait(void **state) {
    (void)state;
    struct hand_job job;
    begin(&job);
    part(&job, RECORD_POST, 1 * US, 2 * US);
    polls(&job, TEST, 10 * US, 410 * US, 100 * US);
    polls(&job, TEST, 411 * US, 710 * US, 0);
    asks(&job, BUILDER_WAIT, 711 * US, 812 * US);
    part(&job, RECORD_DONE, 1 * US, 812 * US);
    sent(&job, 800 * US);
    expect(&job, 690 * US, 109 * US);
}

/* The polls before the other call were not for what came at last. */
static void another_call_ends_the_series(void **state) {
    (void)state;
    struct hand_job job;
    begin(&job);
    part(&job, RECORD_POST, 1 * US, 2 * US);
    polls(&job, TEST, 10 * US, 410 * US, 0);
    dump_builder_collective(job.builders[RECEIVER], 0, BUILDER_BARRIER, 0, 0, 0, 411 * US, 500 * US);
    polls(&job, TEST, 501 * US, 810 * US, 0);
    asks(&job, TEST, 811 * US, 812 * US);
    part(&job, RECORD_DONE, 1 * US, 812 * US);
    sent(&job, 800 * US);
    expect(&job, 299 * US, 10 * US);
}

/* More work than time passed: damage. */
static void work_is_never_more_than_the_time_that_passed(void **state) {
    (void)state;
    struct hand_job job;
    begin(&job);
    part(&job, RECORD_POST, 1 * US, 2 * US);
    polls(&job, TEST, 10 * US, 810 * US, UINT32_MAX);
    asks(&job, TEST, 811 * US, 812 * US);
    part(&job, RECORD_DONE, 1 * US, 812 * US);
    sent(&job, 800 * US);
    expect(&job, 0, 808 * US);
}

/* ---- Iprobe ---------------------------------------------------------------------------------- */

static void probing_for_a_late_sender_is_waiting_for_it(void **state) {
    (void)state;
    struct hand_job job;
    begin(&job);
    part(&job, RECORD_POST, 1 * US, 2 * US);
    polls(&job, IPROBE, 10 * US, 810 * US, 0);
    asks(&job, IPROBE, 811 * US, 812 * US);
    received(&job, 813 * US, 815 * US);
    sent(&job, 800 * US);
    expect(&job, 790 * US, 9 * US);
}

/* What was found was another message. */
static void a_receive_on_another_communicator_was_not_probed_for(void **state) {
    (void)state;
    struct hand_job job;
    begin(&job);
    dump_builder_plain(job.builders[RECEIVER], 0, IPROBE, 100 * US, 700 * US)->comm = 7;
    received(&job, 703 * US, 815 * US);
    sent(&job, 800 * US);
    expect(&job, 97 * US, 3 * US);
}

/* ---- collectives, and who pays --------------------------------------------------------------- */

static void polling_for_a_collective_is_waiting_for_the_last(void **state) {
    (void)state;
    struct hand_job job;
    begin(&job);
    for (unsigned r = 0; r < 2; r++)
        dump_builder_collective(job.builders[r], 0, BUILDER_BARRIER, 0, 0, 0, 0, 1 * US);
    struct record done = {.bytes = 8, .seq = 1, .op = 1, .flags = FLAG_COLLECTIVE, .call = BUILDER_IALLREDUCE};
    for (unsigned r = 0; r < 2; r++) {
        done.t0 = r == SENDER ? 600 * US : 10 * US;
        done.t1 = done.t0 + US;
        done.kind = RECORD_POST;
        dump_builder_record(job.builders[r], 0, &done);
        uint64_t seen = r == RECEIVER ? 606 * US : 611 * US; /* before the other one is back to look */
        if (r == RECEIVER)
            polls(&job, TEST, 20 * US, 605 * US, 0);
        dump_builder_plain(job.builders[r], 0, TEST, seen, seen + US);
        done.t1 = seen + US;
        done.kind = RECORD_DONE;
        dump_builder_record(job.builders[r], 0, &done);
    }
    hand_job_open(&job, 2);
    struct sums sums = walk(&job, 1);
    assert_int_equal(sums.waits.ranks[RECEIVER].states_ns[WAIT_AT_NXN], 580 * US);
    assert_int_equal(sums.costs.ranks[SENDER].delay_cost_ns, 580 * US);
    assert_int_equal(sums.costs.ranks[RECEIVER].delay_cost_ns, 0);
    forget(&sums);
    hand_job_free(&job);
}

static void meet(struct hand_job *job, unsigned rank, uint32_t seq, uint64_t enter, uint64_t leave) {
    dump_builder_collective(job->builders[rank], 0, BUILDER_BARRIER, 0, seq, 0, enter, leave);
}

/* A third rank waits at a barrier for the one that polls until the message comes: it waits for the sender in the end.
 */
static void what_polls_waited_for_is_passed_on(void **state) {
    (void)state;
    struct hand_job job;
    begin_world(&job, 3);
    for (unsigned r = 0; r < 3; r++)
        meet(&job, r, 0, 0, 1 * US);
    part(&job, RECORD_POST, 1 * US, 2 * US);
    polls(&job, TEST, 10 * US, 810 * US, 0);
    asks(&job, TEST, 811 * US, 830 * US);
    part(&job, RECORD_DONE, 1 * US, 830 * US);
    sent(&job, 820 * US);
    for (unsigned r = 0; r < 3; r++)
        meet(&job, r, 1, r == 2 ? 100 * US : 831 * US, 840 * US);
    hand_job_open(&job, 3);
    struct sums sums = walk(&job, 1);
    assert_int_equal(sums.waits.ranks[RECEIVER].wait_ns, 810 * US);
    assert_int_equal(sums.waits.ranks[2].wait_ns, 731 * US);
    assert_true(sums.costs.ranks[RECEIVER].delay_cost_ns < 731 * US / 20);
    assert_true(sums.costs.ranks[SENDER].delay_cost_ns > (810 + 731 * 19 / 20) * US);
    forget(&sums);
    hand_job_free(&job);
}

/* Nothing came of them: they are no work all the same. */
static void polls_in_vain_are_no_work_before_the_next_call(void **state) {
    (void)state;
    struct hand_job job;
    begin_world(&job, 3);
    for (unsigned r = 0; r < 3; r++)
        meet(&job, r, 0, 0, 1 * US);
    polls(&job, TEST, 2 * US, 810 * US, 0);
    for (unsigned r = 0; r < 3; r++)
        meet(&job, r, 1, r == RECEIVER ? 811 * US : 100 * US, 820 * US);
    hand_job_open(&job, 3);
    struct sums sums = walk(&job, 1);
    assert_int_equal(sums.times[RECEIVER].self_ns, 2 * US);
    for (size_t i = 0; i < sums.costs.site_count; i++)
        assert_true(sums.costs.sites[i].delay_cost_before_ns < 100 * US);
    forget(&sums);
    hand_job_free(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(polling_for_a_late_sender_is_waiting_for_it),
        cmocka_unit_test(polls_50_us_apart_are_one_wait),
        cmocka_unit_test(work_between_polls_is_no_waiting),
        cmocka_unit_test(work_before_the_last_poll_is_no_waiting),
        cmocka_unit_test(a_long_series_is_one_wait),
        cmocka_unit_test(another_call_ends_the_series),
        cmocka_unit_test(work_is_never_more_than_the_time_that_passed),
        cmocka_unit_test(probing_for_a_late_sender_is_waiting_for_it),
        cmocka_unit_test(a_receive_on_another_communicator_was_not_probed_for),
        cmocka_unit_test(polling_for_a_collective_is_waiting_for_the_last),
        cmocka_unit_test(what_polls_waited_for_is_passed_on),
        cmocka_unit_test(polls_in_vain_are_no_work_before_the_next_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
