/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts on jobs that live and hang, or only look like it.
 * Lives here: small jobs made by hand, one way to wait each.
 * Must not live here: jobs that are over (test_killed_jobs.c), random scenes (test_diagnose.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/wait_for_graph/ranks.h"
#include "test/unit/hung_job.h"

enum { RING = 16 };

enum { ALLREDUCE_INIT = 242, STARTS = 50 };

/* All of three ranks prepared an allreduce as their collective #0 and started it 50 times, the last but `fewer` times.
 * Those that are ahead wait. */
static void hung_starts(struct hung_job *hung, int32_t fewer, bool inside) {
    hung_make_living(hung, 3);
    for (unsigned r = 0; r < 3; r++) {
        bool behind = r == 2 && fewer > 0;
        dump_builder_call(hung->builders[r], ALLREDUCE_INIT, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_ALLREDUCE, 1,
                          "MPI_Allreduce_init");
        struct progress *progress = dump_builder_progress(hung->builders[r], 0);
        progress->enqueued = progress->started = 1;
        progress->completed = STARTS - 1;
        struct pending *p = hung_pending(hung, r, ALLREDUCE_INIT, FLAG_COLLECTIVE, PEER_NONE, 7, 0);
        p->flags |= fewer < STARTS || r < 2 ? FLAG_STARTED : 0;
        p->tag = STARTS - 1 - (behind ? fewer : 0);
        p->persistent = 1;
        p->active = !behind || inside;
        if (behind && !inside)
            continue;
        hung_enter(hung, r, BUILDER_WAIT, 0, PEER_NONE, TAG_NONE, SEQ_NONE);
        hung->slots[r]->op = 7;
        hung->slots[r]->comm = COMM_NONE;
    }
}

/* Who made fewer starts is missing in the newest, though all made the request. */
static void who_has_not_started_a_persistent_collective_is_missing(void **state) {
    (void)state;
    static const int32_t fewer[] = {1, 2, STARTS};
    for (size_t i = 0; i < sizeof fewer / sizeof *fewer; i++) {
        struct hung_job hung;
        hung_starts(&hung, fewer[i], false);
        const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = true});
        assert_int_equal(diagnosis->verdict, VERDICT_HANG);
        assert_int_equal(diagnosis->culprit_count, 1);
        assert_int_equal(diagnosis->culprits[0].party, 2);
        assert_int_equal(diagnosis->wait_for_graph.stalled_count, 1);
        assert_true(diagnosis->wait_for_graph.stalled[0].started);
        assert_int_equal(diagnosis->wait_for_graph.stalled[0].start, STARTS - 1);
        assert_true(hung_says(&hung, "start #49, on"));
        assert_true(hung_says(&hung, "rank 2 never started it"));
        hung_free(&hung);
    }
}

/* All in the same start: nobody is missing. One of them in an earlier start: that, too, is a collective of its own. */
static void a_start_that_all_have_made_misses_nobody(void **state) {
    (void)state;
    struct hung_job hung;
    hung_starts(&hung, 0, false);
    const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = true});
    assert_int_equal(diagnosis->culprit_count, 0);
    assert_int_equal(diagnosis->wait_for_graph.stalled_count, 1);
    assert_int_equal(diagnosis->wait_for_graph.stalled[0].missing, 0);
    hung_free(&hung);
    hung_starts(&hung, 1, true);
    diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = true});
    assert_int_equal(diagnosis->wait_for_graph.stalled_count, 2);
    assert_int_equal(diagnosis->wait_for_graph.stalled[0].start, STARTS - 2);
    assert_int_equal(diagnosis->wait_for_graph.stalled[0].missing, 0);
    assert_int_equal(diagnosis->wait_for_graph.stalled[1].missing, 1);
    hung_free(&hung);
}

enum { EXCHANGE = 243 };

/* Each of a ring, or of a chain from rank 0 on, is in its neighbourhood collective #count[rank] - 1, or, where
 * `inside` does not have it, in its own code. */
static void hung_exchange(struct hung_job *hung, bool ring, const uint32_t count[4], unsigned inside) {
    hung_make_living(hung, 4);
    for (int32_t r = 0; r < 4; r++) {
        const int32_t sources[] = {(r + 3) % 4, (r + 1) % 4};
        struct dump_builder *builder = hung->builders[r];
        dump_builder_call(builder, EXCHANGE, CLASS_COLLECTIVE, FLOW_NEIGHBOURS, BUSBW_NONE, 0, "MPI_Neighbor_alltoall");
        dump_builder_neighbours(builder, 0, 0, sources, ring ? 2 : r > 0);
        struct progress *progress = dump_builder_progress(builder, 0);
        progress->enqueued = progress->started = count[r];
        progress->completed = count[r] - (inside >> r & 1);
        if (inside >> r & 1)
            hung_enter(hung, (unsigned)r, EXCHANGE, FLAG_COLLECTIVE, PEER_NONE, TAG_NONE, count[r] - 1);
    }
}

static void assert_missing(struct hung_job *hung, size_t which, const char *expected) {
    struct diagnosis *diagnosis = &hung->diagnosis;
    int32_t ranks[4];
    char text[16] = "";
    size_t count = stalled_ranks(&diagnosis->wait_for_graph, &diagnosis->wait_for_graph.stalled[which], true, ranks, 4);
    for (size_t i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%d ", ranks[i]);
    assert_string_equal(text, expected);
}

/* Rank 1 is at work. 0 and 2 wait for it; 3, whose neighbours these are, is one collective further and waits for them.
 */
static void only_neighbours_are_missing_among_neighbours(void **state) {
    (void)state;
    static const uint32_t count[4] = {7, 6, 7, 8};
    struct hung_job hung;
    hung_exchange(&hung, true, count, 1 | 4 | 8);
    const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = true});
    assert_int_equal(diagnosis->verdict, VERDICT_HANG);
    assert_int_equal(diagnosis->culprit_count, 1);
    assert_int_equal(diagnosis->culprits[0].party, 1);
    assert_int_equal(diagnosis->wait_for_graph.stalled_count, 2);
    assert_missing(&hung, 0, "1 ");
    assert_missing(&hung, 1, "0 2 ");
    assert_true(hung_says(&hung, "rank 3 waits; ranks 0, 2 never entered it"));
    hung_free(&hung);
}

/* Of a chain nobody needs who comes behind: rank 3 at work holds nobody up that takes only from those before it, unless
 * one of them has all it takes and still sits there: then what it gives may need the one that takes it. */
static void who_gives_to_a_rank_may_wait_for_it(void **state) {
    (void)state;
    static const uint32_t first_is_missing[4] = {6, 7, 7, 7}, last_is_missing[4] = {7, 7, 7, 6};
    struct hung_job hung;
    hung_exchange(&hung, false, first_is_missing, 2 | 4 | 8);
    const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = true});
    assert_int_equal(diagnosis->culprit_count, 1);
    assert_int_equal(diagnosis->culprits[0].party, 0);
    assert_missing(&hung, 0, "0 ");
    hung_free(&hung);
    hung_exchange(&hung, false, last_is_missing, 4);
    diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = true});
    assert_int_equal(diagnosis->culprit_count, 1);
    assert_int_equal(diagnosis->culprits[0].party, 3);
    assert_missing(&hung, 0, "3 ");
    hung_free(&hung);
}

/* Rank 0 waits for a message of 1, which it has though nobody looked, and one of 2, which is at work; 1 waits for 0. */
static void a_message_that_has_come_is_not_waited_for(void **state) {
    (void)state;
    struct hung_job hung;
    hung_make_living(&hung, 3);
    hung_enter(&hung, 0, BUILDER_WAITALL, 0, PEER_NONE, 2, 6);
    hung.slots[0]->op = 5;
    hung_pending(&hung, 0, BUILDER_IRECV, FLAG_RECV, 1, 5, 0);
    hung_pending(&hung, 0, BUILDER_IRECV, FLAG_RECV, 2, 6, 0);
    dump_builder_p2p(hung.builders[1], 0, BUILDER_SEND, 0, FLAG_SEND, 0, 1, 0, 8, 10, 20);
    hung_enter(&hung, 1, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
    const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = true});
    assert_int_equal(diagnosis->verdict, VERDICT_HANG);
    assert_int_equal(diagnosis->culprit_count, 1);
    assert_int_equal(diagnosis->culprits[0].party, 2);
    hung_free(&hung);
}

enum { TEST = 240, IPROBE = 241 };

/* A series of polls of 100 ms that found nothing, of which so many per cent passed in own work. */
static void hung_polls(struct hung_job *hung, unsigned rank, uint16_t call, int32_t source, uint32_t own_percent) {
    struct record polls = {.t0 = 1000000,
                           .t1 = 101000000,
                           .seq = own_percent * 1000000,
                           .comm = call == IPROBE ? 0 : COMM_NONE,
                           .peer = source,
                           .tag = 1,
                           .stack = STACK_NONE,
                           .call = call,
                           .kind = RECORD_POLL};
    dump_builder_call(hung->builders[rank], TEST, CLASS_TEST, FLOW_NONE, BUSBW_NONE, 0, "MPI_Test");
    dump_builder_call(hung->builders[rank], IPROBE, CLASS_PROBE, FLOW_NONE, BUSBW_NONE, 0, "MPI_Iprobe");
    dump_builder_record(hung->builders[rank], 0, &polls);
}

/* Rank 0 tests a receive from 1, which asks whether 2 has sent; 2 is at work. */
static void who_only_polls_waits(void **state) {
    (void)state;
    for (int settled = 0; settled < 2; settled++) {
        struct hung_job hung;
        hung_make_living(&hung, 3);
        hung_polls(&hung, 0, TEST, PEER_NONE, 0);
        hung_pending(&hung, 0, BUILDER_IRECV, FLAG_RECV, 1, 5, 0);
        hung_polls(&hung, 1, IPROBE, 2, 0);
        const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = settled});
        assert_int_equal(diagnosis->verdict, settled ? VERDICT_HANG : VERDICT_OK); /* one look proves nothing */
        assert_int_equal(diagnosis->culprit_count, settled);
        assert_true(!settled || diagnosis->culprits[0].party == 2);
        hung_free(&hung);
    }
}

static void polling_in_a_circle_is_a_deadlock(void **state) {
    (void)state;
    struct hung_job hung;
    hung_make_living(&hung, 3);
    for (unsigned r = 0; r < 3; r++) {
        hung_polls(&hung, r, TEST, PEER_NONE, 0);
        hung_pending(&hung, r, BUILDER_IRECV, FLAG_RECV, (int32_t)(r + 1) % 3, 5, 0);
    }
    const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = true});
    assert_int_equal(diagnosis->verdict, VERDICT_DEADLOCK);
    assert_int_equal(diagnosis->cycle_count, 3);
    hung_free(&hung);
}

/* Who works for more than half of the time between its polls does not wait. */
static void who_works_between_polls_does_not_wait(void **state) {
    (void)state;
    for (uint32_t own = 40; own <= 60; own += 20) {
        struct hung_job hung;
        hung_make_living(&hung, 2);
        hung_polls(&hung, 0, TEST, PEER_NONE, own);
        hung_pending(&hung, 0, BUILDER_IRECV, FLAG_RECV, 1, 5, 0);
        const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = true});
        assert_int_equal(diagnosis->verdict, own < 50 ? VERDICT_HANG : VERDICT_OK);
        hung_free(&hung);
    }
}

/* The same without the message is a deadlock. */
static void a_message_that_never_comes_is(void **state) {
    (void)state;
    struct hung_job hung;
    hung_make_living(&hung, 3);
    hung_enter(&hung, 0, BUILDER_WAITALL, 0, PEER_NONE, 2, 6);
    hung.slots[0]->op = 5;
    hung_pending(&hung, 0, BUILDER_IRECV, FLAG_RECV, 1, 5, 0);
    hung_pending(&hung, 0, BUILDER_IRECV, FLAG_RECV, 2, 6, 0);
    hung_enter(&hung, 1, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
    const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = true});
    assert_int_equal(diagnosis->verdict, VERDICT_DEADLOCK);
    assert_int_equal(diagnosis->cycle_count, 2);
    hung_free(&hung);
}

/* Rank 0 takes what comes first of 1, which waits for it, and of 2, which is at work or waits for it as well. */
static void hung_waitany(struct hung_job *hung, bool at_work) {
    hung_make_living(hung, 3);
    hung_enter(hung, 0, BUILDER_WAITANY, 0, PEER_NONE, 2, 6);
    hung->slots[0]->op = 5;
    hung_pending(hung, 0, BUILDER_IRECV, FLAG_RECV, 1, 5, 0);
    hung_pending(hung, 0, BUILDER_IRECV, FLAG_RECV, 2, 6, 0);
    hung_enter(hung, 1, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
    if (!at_work)
        hung_enter(hung, 2, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
}

static void a_waitany_needs_only_one(void **state) {
    (void)state;
    struct hung_job hung;
    hung_waitany(&hung, true);
    const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = true});
    assert_int_equal(diagnosis->verdict, VERDICT_HANG);
    assert_int_equal(diagnosis->culprit_count, 1);
    assert_int_equal(diagnosis->culprits[0].party, 2);
    hung_free(&hung);
}

static void a_waitany_that_none_can_end(void **state) {
    (void)state;
    struct hung_job hung;
    hung_waitany(&hung, false);
    const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = true});
    assert_int_equal(diagnosis->verdict, VERDICT_DEADLOCK);
    assert_int_equal(diagnosis->cycle_count, 2);
    hung_free(&hung);
}

/* An elastic job came up again: what its first generation waited for is past. */
static void only_the_newest_generation_is_judged(void **state) {
    (void)state;
    struct hung_job hung;
    hung_make_worlds(&hung, 6, 3, RING);
    hung_enter(&hung, 0, BUILDER_RECV, FLAG_RECV, 1, 1, 0);
    hung_enter(&hung, 1, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
    hung_enter(&hung, 3, BUILDER_RECV, FLAG_RECV, 2, 1, 0);
    const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = true});
    assert_int_equal(diagnosis->verdict, VERDICT_HANG);
    assert_int_equal(diagnosis->world.dump_count, 3);
    assert_int_equal(diagnosis->culprit_count, 1);
    assert_int_equal(diagnosis->world.parties[diagnosis->culprits[0].party].rank, 2);
    hung_free(&hung);
}

/* A request that the Wait is not about does not count: 0 has a receive from 1 pending, but waits for 2. */
static void a_pending_request_outside_the_list_does_not_count(void **state) {
    (void)state;
    struct hung_job hung;
    hung_make_living(&hung, 3);
    hung_enter(&hung, 0, BUILDER_WAITALL, 0, PEER_NONE, 1, 6);
    hung.slots[0]->op = 6;
    hung_pending(&hung, 0, BUILDER_IRECV, FLAG_RECV, 1, 5, 0);
    hung_pending(&hung, 0, BUILDER_IRECV, FLAG_RECV, 2, 6, 0);
    hung_enter(&hung, 1, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
    assert_int_equal(hung_judge(&hung, (struct diagnose_request){.settled = true})->verdict, VERDICT_HANG);
    hung_free(&hung);
}

/* Two that receive from each other with a message under way: no deadlock once killed, where it may just have come. */
static void a_message_under_way_when_all_were_killed(void **state) {
    (void)state;
    struct hung_job hung;
    hung_make_living(&hung, 2);
    hung_enter(&hung, 0, BUILDER_RECV, FLAG_RECV, 1, 1, 0);
    hung_enter(&hung, 1, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
    dump_builder_p2p(hung.builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 1, 1, 0, 8, 10, 20);
    hung.states[0] = hung.states[1] = PROCESS_GONE;
    assert_int_equal(hung_judge(&hung, (struct diagnose_request){.settled = false})->verdict, VERDICT_HANG);
    hung_free(&hung);
}

static void a_send_to_a_posted_receive_is_no_deadlock(void **state) {
    (void)state;
    struct hung_job hung;
    hung_make_living(&hung, 3);
    hung_enter(&hung, 0, BUILDER_SEND, FLAG_SEND, 1, 1, 0);
    hung.slots[0]->bytes = 1 << 20;
    hung_pending(&hung, 1, BUILDER_IRECV, FLAG_RECV, 0, 9, 0);
    hung_enter(&hung, 1, BUILDER_RECV, FLAG_RECV, 2, 1, 0);
    hung_enter(&hung, 2, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
    assert_int_equal(hung_judge(&hung, (struct diagnose_request){.settled = true})->verdict, VERDICT_HANG);
    hung_free(&hung);
}

/* 0 waits for its sends to 1 and to 2; 1 waits for something else from 0; 2 is in its own code. Sends that may be
 * buffered need not be waited for both: 2 may be all that 0 lacks. From 256 KiB on they are: a deadlock of 0 and 1. */
static void sends_of_a_quarter_megabyte_wait_for_their_receivers(void **state) {
    (void)state;
    for (unsigned large = 0; large < 2; large++) {
        struct hung_job hung;
        hung_make_living(&hung, 3);
        hung_enter(&hung, 0, BUILDER_WAITALL, 0, PEER_NONE, 2, 6);
        hung.slots[0]->op = 5;
        hung_pending(&hung, 0, BUILDER_ISEND, FLAG_SEND, 1, 5, 0)->bytes = (256 << 10) - 1 + large;
        hung_pending(&hung, 0, BUILDER_ISEND, FLAG_SEND, 2, 6, 0)->bytes = (256 << 10) - 1 + large;
        hung_enter(&hung, 1, BUILDER_RECV, FLAG_RECV, 0, 9, 0);
        assert_int_equal(hung_judge(&hung, (struct diagnose_request){.settled = true})->verdict,
                         large ? VERDICT_DEADLOCK : VERDICT_HANG);
        hung_free(&hung);
    }
}

static void waiting_for_oneself(void **state) {
    (void)state;
    struct hung_job hung;
    hung_make_living(&hung, 2);
    hung_enter(&hung, 0, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
    const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = true});
    assert_int_equal(diagnosis->verdict, VERDICT_DEADLOCK);
    assert_int_equal(diagnosis->cycle_count, 1);
    hung_free(&hung);
}

/* 0 and 1 receive from each other; 2 and 3 come on all the time, and 4 waits for one of these. */
static void a_circle_beside_ranks_that_move(void **state) {
    (void)state;
    struct hung_job hung;
    const int32_t moving[] = {2, 3};
    hung_make_living(&hung, 5);
    hung_enter(&hung, 0, BUILDER_RECV, FLAG_RECV, 1, 1, 0);
    hung_enter(&hung, 1, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
    hung_enter(&hung, 2, BUILDER_RECV, FLAG_RECV, 3, 1, 0);
    hung_enter(&hung, 3, BUILDER_RECV, FLAG_RECV, 2, 1, 0);
    hung_enter(&hung, 4, BUILDER_RECV, FLAG_RECV, 2, 1, 0);
    const struct diagnosis *diagnosis =
        hung_judge(&hung, (struct diagnose_request){.moving = moving, .moving_count = 2});
    assert_int_equal(diagnosis->verdict, VERDICT_DEADLOCK);
    assert_int_equal(diagnosis->culprit_count, 2);
    assert_int_equal(diagnosis->culprits[0].party + diagnosis->culprits[1].party, 1);
    hung_free(&hung);
}

/* The same where one of the two may have been sent something by one that moves, or receives from anybody. */
static void waiting_for_ranks_that_move_is_no_hang(void **state) {
    (void)state;
    struct hung_job hung;
    const int32_t moving[] = {2};
    hung_make_living(&hung, 3);
    hung_enter(&hung, 0, BUILDER_RECV, FLAG_RECV, PEER_ANY, 1, 0);
    hung_enter(&hung, 1, BUILDER_RECV, FLAG_RECV, 0, 1, 0);
    assert_int_equal(hung_judge(&hung, (struct diagnose_request){.moving = moving, .moving_count = 1})->verdict,
                     VERDICT_OK);
    hung_free(&hung);
}

/* All are gone; who had gone first is the cause, though the others wait for somebody else. */
static void the_first_that_died_is_to_blame(void **state) {
    (void)state;
    struct hung_job hung;
    const struct job_end end = {.dead_known = true, .dead = 2, .sure = true, .signal = 11, .status = -1};
    hung_make_living(&hung, 3);
    for (unsigned r = 0; r < 3; r++)
        hung.states[r] = PROCESS_GONE;
    hung_enter(&hung, 0, BUILDER_RECV, FLAG_RECV, 1, 1, 0);
    const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.end = &end});
    assert_int_equal(diagnosis->verdict, VERDICT_DEAD_RANK);
    assert_int_equal(diagnosis->culprit_count, 1);
    assert_int_equal(diagnosis->culprits[0].party, 2);
    assert_string_equal(hung.text.culprits[0].reason, "was the first to die, of signal 11");
    hung_free(&hung);
}

/* All have come to collective `behind`; from rank `others` on they are still in it, the ranks before have gone on to
 * the next one. */
static void hung_leave_behind(struct hung_job *hung, unsigned ranks, unsigned others, uint32_t behind) {
    hung_make_living(hung, ranks);
    for (unsigned r = 0; r < ranks; r++) {
        struct progress *p = dump_builder_contents(hung->builders[r], SECTION_PROGRESS, 0);
        uint32_t seq = r < others ? behind + 1 : behind;
        p->enqueued = seq + 1;
        hung_enter(hung, r, BUILDER_ALLREDUCE, FLAG_COLLECTIVE, PEER_NONE, TAG_NONE, seq);
    }
}

static void who_is_left_behind_is_named(void **state) {
    (void)state;
    struct hung_job hung;
    hung_leave_behind(&hung, 4, 3, 7);
    const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = true});
    assert_int_equal(diagnosis->verdict, VERDICT_HANG);
    assert_int_equal(diagnosis->culprit_count, 1);
    assert_int_equal(diagnosis->culprits[0].party, 3);
    assert_int_equal(diagnosis->culprits[0].state, CULPRIT_BLOCKED);
    hung_free(&hung);
}

/* All are in it: which of them does not go on cannot be told. */
static void a_collective_that_all_are_in_names_nobody(void **state) {
    (void)state;
    struct hung_job hung;
    hung_leave_behind(&hung, 4, 0, 7);
    const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = true});
    assert_int_equal(diagnosis->verdict, VERDICT_HANG);
    assert_int_equal(diagnosis->culprit_count, 0);
    hung_free(&hung);
}

/* Ranks that sit in one collective by two names of it have not disagreed; by names of two they have. */
static void twins_of_a_collective_are_one_operation(void **state) {
    (void)state;
    static const struct {
        const char *others, *last;
        enum verdict verdict;
    } pairs[] = {{"ncclAllReduce", "ncclAllReduceConfig", VERDICT_HANG},
                 {"MPI_Bcast", "MPI_Bcast_c", VERDICT_HANG},
                 {"ncclAllReduce", "ncclReduceConfig", VERDICT_DESYNC},
                 {"ncclAllGatherConfig", "ncclReduceScatterConfig", VERDICT_DESYNC}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct hung_job hung;
        hung_leave_behind(&hung, 3, 0, 7);
        for (unsigned r = 0; r < 3; r++) {
            struct progress *p = dump_builder_contents(hung.builders[r], SECTION_PROGRESS, 0);
            p->hashed = p->completed = 7;
            dump_builder_call(hung.builders[r], 3000, CLASS_COLLECTIVE, FLOW_ALL, BUSBW_ONE, 0,
                              r < 2 ? pairs[i].others : pairs[i].last);
            hung_enter(&hung, r, 3000, FLAG_COLLECTIVE, PEER_NONE, TAG_NONE, 7);
        }
        assert_int_equal(hung_judge(&hung, (struct diagnose_request){.settled = true})->verdict, pairs[i].verdict);
        hung_free(&hung);
    }
}

/* A communicator was freed, and the job came to its end: of its history the length and the last hash are left, which
 * tell where the lengths are equal and nothing was in flight. */
static void ranks_may_have_disagreed_on_a_freed_communicator(void **state) {
    (void)state;
    static const struct {
        uint64_t enqueued, completed, hash; /* of rank 2; the others: 6, 6, 111 */
        enum verdict verdict;
    } freed[] = {
        {6, 6, 222, VERDICT_DESYNC}, {6, 6, 111, VERDICT_OK}, {5, 5, 222, VERDICT_OK}, {6, 5, 222, VERDICT_OK}};
    for (size_t i = 0; i < sizeof freed / sizeof *freed; i++) {
        struct hung_job hung;
        const struct member_run all = {0, 3, 1};
        hung_make_living(&hung, 3);
        for (unsigned r = 0; r < 3; r++) {
            dump_builder_communicator(hung.builders[r], 77, "second", (int32_t)r, &all, 1);
            struct communicator_freed_definition *end = dump_builder_freed(hung.builders[r], 1, 1000, 6);
            end->prefix_hash = r < 2 ? 111 : freed[i].hash;
            end->enqueued = r < 2 ? 6 : freed[i].enqueued;
            end->completed = r < 2 ? 6 : freed[i].completed;
            dump_builder_header(hung.builders[r])->state |= STATE_FINALISING | STATE_FINALISED;
            hung.states[r] = PROCESS_GONE;
        }
        const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = false});
        assert_int_equal(diagnosis->verdict, freed[i].verdict);
        assert_int_equal(diagnosis->culprit_count, freed[i].verdict == VERDICT_DESYNC);
        assert_true(diagnosis->culprit_count == 0 || diagnosis->culprits[0].party == 2);
        hung_free(&hung);
    }
}

/* ---- circles of collectives ------------------------------------------------------------------ */

/* Of so many ranks the last `others` are in a collective of another communicator, for which all others wait. */
static void expect_absent(unsigned ranks, unsigned others, size_t culprits) {
    struct hung_job hung;
    hung_make_living(&hung, ranks);
    const struct member_run all = {0, ranks, 1};
    for (unsigned r = 0; r < ranks; r++) {
        dump_builder_communicator(hung.builders[r], 77, "second", (int32_t)r, &all, 1);
        dump_builder_progress(hung.builders[r], 1)->prefix_hash = 77;
        bool other = r >= ranks - others;
        hung_enter(&hung, r, BUILDER_ALLREDUCE, FLAG_COLLECTIVE, PEER_NONE, TAG_NONE, 0);
        hung.slots[r]->comm = other;
        ((struct progress *)dump_builder_contents(hung.builders[r], SECTION_PROGRESS, 0))[other].enqueued = 1;
    }
    const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = true});
    assert_int_equal(diagnosis->verdict, VERDICT_DEADLOCK);
    assert_int_equal(diagnosis->culprit_count, culprits);
    for (size_t i = 0; 2 * others != ranks && i < culprits; i++) {
        assert_in_range(diagnosis->culprits[i].party, ranks - others, ranks - 1);
        assert_int_equal(diagnosis->culprits[i].state, CULPRIT_NEVER_ENTERED);
    }
    hung_free(&hung);
}

static void who_is_not_where_most_are_is_to_blame(void **state) {
    (void)state;
    expect_absent(4, 1, 1);
    expect_absent(5, 2, 2);
    expect_absent(4, 2, 2); /* a tie: the circle itself, of one on each side */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waitany_needs_only_one),
        cmocka_unit_test(a_waitany_that_none_can_end),
        cmocka_unit_test(only_the_newest_generation_is_judged),
        cmocka_unit_test(who_has_not_started_a_persistent_collective_is_missing),
        cmocka_unit_test(a_start_that_all_have_made_misses_nobody),
        cmocka_unit_test(only_neighbours_are_missing_among_neighbours),
        cmocka_unit_test(who_gives_to_a_rank_may_wait_for_it),
        cmocka_unit_test(a_message_that_has_come_is_not_waited_for),
        cmocka_unit_test(a_message_that_never_comes_is),
        cmocka_unit_test(who_only_polls_waits),
        cmocka_unit_test(polling_in_a_circle_is_a_deadlock),
        cmocka_unit_test(who_works_between_polls_does_not_wait),
        cmocka_unit_test(a_pending_request_outside_the_list_does_not_count),
        cmocka_unit_test(a_message_under_way_when_all_were_killed),
        cmocka_unit_test(a_send_to_a_posted_receive_is_no_deadlock),
        cmocka_unit_test(sends_of_a_quarter_megabyte_wait_for_their_receivers),
        cmocka_unit_test(waiting_for_oneself),
        cmocka_unit_test(a_circle_beside_ranks_that_move),
        cmocka_unit_test(waiting_for_ranks_that_move_is_no_hang),
        cmocka_unit_test(the_first_that_died_is_to_blame),
        cmocka_unit_test(who_is_left_behind_is_named),
        cmocka_unit_test(twins_of_a_collective_are_one_operation),
        cmocka_unit_test(a_collective_that_all_are_in_names_nobody),
        cmocka_unit_test(ranks_may_have_disagreed_on_a_freed_communicator),
        cmocka_unit_test(who_is_not_where_most_are_is_to_blame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
