/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL's sends and receives on GPUs that do not end: who waits for whom, and who does not.
 * Lives here: dumps as the library leaves them at such a moment.
 * Must not live here: collectives (test_diagnose.c), jobs that run (test/e2e/test_diagnose_nccl.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/diagnose/diagnose.h"
#include "analyzer/findings/diagnosis_text.h"
#include "test/support/dump_builder.h"

enum { RANKS_MOST = 4, RING = 64, BYTES = 4096 };

static struct play {
    unsigned ranks;
    struct dump_builder *builders[RANKS_MOST];
    struct dump *dumps[RANKS_MOST];
    enum process_state states[RANKS_MOST];
    bool duplicate[RANKS_MOST];
    uint32_t ops[RANKS_MOST];
    uint64_t clock;
    struct job job;
    struct diagnosis diagnosis;
    struct diagnosis_text text;
} play;

static struct progress *progress_of(unsigned rank) {
    return dump_builder_contents(play.builders[rank], SECTION_PROGRESS, 0);
}

/* Ranks that use NCCL, each with a GPU; their hosts are in their own code. */
static void make(unsigned ranks) {
    play = (struct play){.ranks = ranks, .clock = 1000};
    for (unsigned r = 0; r < ranks; r++) {
        const struct dump_plan plan = {
            .rank = (int32_t)r, .world_size = (int32_t)ranks, .ring_records = RING, .devices = 1};
        play.builders[r] = dump_builder_new(&plan);
        dump_builder_standard_calls(play.builders[r]);
        dump_builder_world(play.builders[r]);
        dump_builder_progress(play.builders[r], 0)->prefix_hash = BUILDER_WORLD_UID;
        dump_builder_in_flight(play.builders[r])->comm = COMM_NONE;
        dump_builder_header(play.builders[r])->nccl_version = 22809;
        dump_builder_header(play.builders[r])->gpu_timing = GPU_TIMING_EVENTS;
        play.states[r] = PROCESS_RUNS;
    }
}

static void leave(void) {
    diagnosis_text_free(&play.text);
    diagnosis_free(&play.diagnosis);
    job_free(&play.job);
    for (unsigned r = 0; r < play.ranks; r++) {
        dump_close(play.dumps[r]);
        dump_builder_free(play.builders[r]);
    }
}

static enum verdict judge(void) {
    for (unsigned r = 0; r < play.ranks; r++) {
        size_t bytes;
        const void *data = dump_builder_data(play.builders[r], &bytes);
        assert_non_null(play.dumps[r] = dump_open_buffer("made", data, bytes));
    }
    const struct dump_set set = {
        .directory = "made", .dumps = play.dumps, .count = play.ranks, .duplicate = play.duplicate};
    const struct diagnose_request request = {.states = play.states, .settled = true};
    assert_int_equal(job_select(&play.job, &set, NULL, NULL), 0);
    assert_true(diagnose(&play.diagnosis, &play.job, &request));
    assert_true(diagnosis_text_make(&play.text, &play.diagnosis, &request, NULL));
    return play.diagnosis.verdict;
}

static void count_call(unsigned rank, uint16_t direction, int32_t peer) {
    struct peer_row *rows = dump_builder_contents(play.builders[rank], SECTION_PEERS, 0);
    unsigned at = 0;
    while (rows[at].version && (rows[at].peer != peer || rows[at].direction != direction))
        at++;
    struct peer_row *row = rows[at].version ? &rows[at] : dump_builder_peer(play.builders[rank], 0);
    row->peer = peer;
    row->direction = direction;
    row->call = direction == FLAG_SEND ? BUILDER_NCCL_SEND : BUILDER_NCCL_RECV;
    row->count++;
}

/* A message of a group that has that number; 0: it is alone. Returns the record. */
static struct record *call_in(unsigned rank, uint16_t direction, int32_t peer, uint32_t seq, uint32_t group) {
    play.clock += 100;
    count_call(rank, direction, peer);
    return dump_builder_record(play.builders[rank], 0,
                               &(struct record){.kind = RECORD_POST,
                                                .call = direction == FLAG_SEND ? BUILDER_NCCL_SEND : BUILDER_NCCL_RECV,
                                                .flags = direction,
                                                .seq = seq,
                                                .op = ++play.ops[rank],
                                                .bytes = BYTES,
                                                .peer = peer,
                                                .tag = group ? (int32_t)group : TAG_NONE,
                                                .t0 = play.clock,
                                                .t1 = play.clock + 10});
}

/* Alone, and launched. */
static void call(unsigned rank, uint16_t direction, int32_t peer, uint32_t seq) {
    progress_of(rank)->launched_op = call_in(rank, direction, peer, seq, 0)->op;
}

static struct record *end_group(unsigned rank, uint32_t group, uint16_t end) {
    progress_of(rank)->launched_op = group;
    return dump_builder_record(play.builders[rank], 0,
                               &(struct record){.kind = RECORD_GROUP,
                                                .call = end,
                                                .seq = SEQ_NONE,
                                                .op = group,
                                                .peer = PEER_NONE,
                                                .tag = TAG_NONE,
                                                .t0 = play.clock + 20,
                                                .t1 = play.clock + 30});
}

static void begin(unsigned rank) {
    progress_of(rank)->begun_op = progress_of(rank)->launched_op;
}

static void end(unsigned rank) {
    begin(rank);
    progress_of(rank)->ended_op = progress_of(rank)->launched_op;
}

static int32_t next(unsigned rank) {
    return (int32_t)((rank + 1) % play.ranks);
}

static int32_t previous(unsigned rank) {
    return (int32_t)((rank + play.ranks - 1) % play.ranks);
}

static bool says(const char *text) {
    for (size_t i = 0; i < play.text.sentence_count; i++)
        if (strstr(play.text.sentences[i], text))
            return true;
    return false;
}

static void expect_culprit(uint32_t party, enum culprit_state state) {
    assert_int_equal(play.diagnosis.culprit_count, 1);
    assert_int_equal(play.diagnosis.culprits[0].party, party);
    assert_int_equal(play.diagnosis.culprits[0].state, state);
}

/* ---- who waits ------------------------------------------------------------------------------- */

/* Each rank receives before it sends: what it sends is launched, or never comes. */
static void a_ring_of_receives_is_a_deadlock(void **state) {
    (void)state;
    for (unsigned launched = 0; launched < 2; launched++) {
        make(4);
        for (unsigned r = 0; r < 4; r++) {
            call(r, FLAG_RECV, previous(r), 0);
            begin(r);
            if (launched)
                call(r, FLAG_SEND, next(r), 0);
        }
        assert_int_equal(judge(), VERDICT_DEADLOCK);
        assert_int_equal(play.diagnosis.cycle_count, 4);
        assert_true(says("rank 0 in ncclRecv(source 3, message #0) on"));
        assert_true(says("on its GPU waits for rank 3"));
        leave();
    }
}

static void a_message_that_is_never_received(void **state) {
    (void)state;
    make(3);
    for (uint32_t i = 0; i < 5; i++) {
        call(0, FLAG_SEND, 1, i);
        if (i < 4)
            call(1, FLAG_RECV, 0, i);
    }
    end(1);
    progress_of(0)->ended_op = 4;
    progress_of(0)->begun_op = 5;
    assert_int_equal(judge(), VERDICT_HANG);
    expect_culprit(1, CULPRIT_IN_USER_CODE);
    assert_true(says("rank 0 in ncclSend(destination 1, message #4)"));
    leave();
}

static void a_receive_that_has_not_begun(void **state) {
    (void)state;
    make(2);
    call(0, FLAG_SEND, 1, 0);
    begin(0);
    call(1, FLAG_RECV, 0, 0);
    assert_int_equal(judge(), VERDICT_HANG);
    expect_culprit(1, CULPRIT_BLOCKED);
    assert_true(says("its GPU has not begun it"));
    leave();
}

/* All ranks but the last exchange with all. */
static void a_group_waits_for_whoever_is_not_in_it(void **state) {
    (void)state;
    make(4);
    for (unsigned r = 0; r < 3; r++) {
        for (int32_t peer = 0; peer < 4; peer++) {
            call_in(r, FLAG_SEND, peer, 0, 2);
            play.ops[r] += peer == 0; /* the second operation makes a group of it */
            call_in(r, FLAG_RECV, peer, 0, 2);
        }
        end_group(r, 2, BUILDER_NCCL_GROUP_END);
        begin(r);
    }
    assert_int_equal(judge(), VERDICT_HANG);
    expect_culprit(3, CULPRIT_IN_USER_CODE);
    leave();
}

/* A library that connects ranks at their first message keeps their hosts in the call. */
static void a_ring_of_hosts_in_their_calls(void **state) {
    (void)state;
    make(3);
    for (unsigned r = 0; r < 3; r++) {
        struct in_flight *slot = dump_builder_contents(play.builders[r], SECTION_IN_FLIGHT, 0);
        slot->call = BUILDER_NCCL_RECV;
        slot->comm = 0;
        slot->peer = previous(r);
        slot->seq = SEQ_NONE;
        slot->op = 1;
        slot->flags = FLAG_RECV;
        slot->enter = 500;
    }
    assert_int_equal(judge(), VERDICT_DEADLOCK);
    assert_int_equal(play.diagnosis.cycle_count, 3);
    assert_false(says("on its GPU"));
    leave();
}

/* ---- who does not ---------------------------------------------------------------------------- */

static void both_halves_that_have_begun_miss_nobody(void **state) {
    (void)state;
    make(2);
    call(0, FLAG_SEND, 1, 0);
    call(1, FLAG_RECV, 0, 0);
    begin(0);
    begin(1);
    assert_int_equal(judge(), VERDICT_HANG);
    assert_int_equal(play.diagnosis.culprit_count, 0);
    assert_true(says("rank 0 in ncclSend(destination 1, message #0) on MPI_COMM_WORLD, on its GPU: has not come out of "
                     "it, though rank 1 has come to its half, too: it does not move, which points at the transport "
                     "between the two."));
    leave();
}

/* Rank 2 waits for rank 1, which is nowhere else. */
static void others_wait_for_two_whose_message_does_not_move(void **state) {
    (void)state;
    make(3);
    call(0, FLAG_SEND, 1, 0);
    call(1, FLAG_RECV, 0, 0);
    call(2, FLAG_RECV, 1, 0);
    for (unsigned r = 0; r < 3; r++)
        begin(r);
    assert_int_equal(judge(), VERDICT_HANG);
    expect_culprit(1, CULPRIT_BLOCKED);
    assert_true(says("hang: the others wait for rank 1, which is in what all have come to and what does not end."));
    assert_true(
        says("rank 1 on host0, in ncclRecv(source 0, message #0) on MPI_COMM_WORLD, on its GPU: has not come out "
             "of it, though rank 0 has come to its half, too: it does not move, which points at the transport "
             "between the two."));
    leave();
}

/* Rank 2 receives from rank 3 what rank 1 sends; `behind`: from rank 1 afterwards. */
static void a_message_that_another_ones_receive_was_meant_for(void **state) {
    (void)state;
    for (unsigned behind = 0; behind < 2; behind++) {
        make(4);
        call(1, FLAG_SEND, 2, 0);
        call(2, FLAG_RECV, 3, 0);
        call(3, FLAG_RECV, 2, 0);
        for (unsigned r = 1; r < 4; r++)
            begin(r);
        if (behind)
            call(2, FLAG_RECV, 1, 0);
        assert_int_equal(judge(), VERDICT_DEADLOCK);
        assert_int_equal(play.diagnosis.cycle_count, 2);
        assert_int_equal(says("not received: rank 1 called ncclSend(destination 2) on MPI_COMM_WORLD; rank 2 waits in "
                              "ncclRecv(source 3) on MPI_COMM_WORLD: it waits for another rank's."),
                         !behind);
        assert_true(
            says("rank 1 in ncclSend(destination 2, message #0) on MPI_COMM_WORLD, on its GPU waits for rank 2."));
        leave();
    }
}

static void what_has_not_begun_waits_for_nobody(void **state) {
    (void)state;
    make(2);
    call(0, FLAG_SEND, 1, 0);
    call(1, FLAG_SEND, 0, 0);
    assert_int_equal(judge(), VERDICT_OK);
    leave();
}

/* Launches that never ran, ran in graphs alone, or that nobody followed. */
static void launches_that_are_none(void **state) {
    (void)state;
    enum { GATHERED, FAILED, SIMULATED, CAPTURED, LONE_CAPTURED, UNFOLLOWED, KINDS };
    for (unsigned kind = 0; kind < KINDS; kind++) {
        make(2);
        bool alone = kind == LONE_CAPTURED || kind == UNFOLLOWED;
        struct record *record = call_in(0, FLAG_SEND, 1, 0, alone ? 0 : 2);
        if (!alone) {
            play.ops[0]++;
            call_in(0, FLAG_SEND, 1, 1, 2);
        }
        if (kind == FAILED)
            end_group(0, 2, BUILDER_NCCL_GROUP_END)->flags = FLAG_FAILED;
        if (kind == SIMULATED)
            end_group(0, 2, BUILDER_NCCL_GROUP_SIMULATE_END);
        if (kind == CAPTURED)
            end_group(0, 2, BUILDER_NCCL_GROUP_END)->flags = FLAG_CAPTURED;
        if (kind == LONE_CAPTURED)
            record->flags |= FLAG_CAPTURED;
        progress_of(0)->begun_op = progress_of(0)->launched_op = 9;
        progress_of(0)->unfollowed_op = kind == UNFOLLOWED ? 9 : 0;
        assert_int_equal(judge(), VERDICT_OK);
        leave();
    }
}

/* A partner some of whose calls were not counted may have called it. */
static void calls_that_were_not_counted_accuse_nobody(void **state) {
    (void)state;
    for (unsigned paused = 0; paused < 2; paused++) {
        make(2);
        call(0, FLAG_SEND, 1, 0);
        begin(0);
        dump_builder_header(play.builders[1])->pauses = paused;
        assert_int_equal(judge(), VERDICT_HANG);
        assert_int_equal(play.diagnosis.culprit_count, paused ? 0 : 1);
        leave();
    }
}

/* The rank died before it could note that its GPU was through: the other half had ended. */
static void what_ended_elsewhere_had_ended(void **state) {
    (void)state;
    make(2);
    call(0, FLAG_SEND, 1, 0);
    begin(0);
    call(1, FLAG_RECV, 0, 0);
    end(1);
    play.states[0] = PROCESS_GONE;
    play.states[1] = PROCESS_GONE;
    judge();
    assert_int_equal(play.diagnosis.wait_for_graph.count, 0);
    leave();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_of_receives_is_a_deadlock),
        cmocka_unit_test(a_message_that_is_never_received),
        cmocka_unit_test(a_receive_that_has_not_begun),
        cmocka_unit_test(a_group_waits_for_whoever_is_not_in_it),
        cmocka_unit_test(a_ring_of_hosts_in_their_calls),
        cmocka_unit_test(both_halves_that_have_begun_miss_nobody),
        cmocka_unit_test(others_wait_for_two_whose_message_does_not_move),
        cmocka_unit_test(a_message_that_another_ones_receive_was_meant_for),
        cmocka_unit_test(what_has_not_begun_waits_for_nobody),
        cmocka_unit_test(launches_that_are_none),
        cmocka_unit_test(calls_that_were_not_counted_accuse_nobody),
        cmocka_unit_test(what_ended_elsewhere_had_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
