/* SPDX-License-Identifier: Apache-2.0
 *
 * Circles of waits in which somebody left out a collective, in made-up dumps: exactly who is to blame.
 * Must not live here: other circles (test_hung_jobs.c), real jobs (test/e2e/test_diagnose.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/base/and_or_graph.h"
#include "test/unit/hung_job.h"

enum { STEPS = 3, SUB = 1 };

static const struct diagnose_request stands = {.settled = true};

static void expect(struct hung_job *hung, const char *culprits, const char *said) {
    char text[64];
    assert_int_equal(hung_judge(hung, stands)->verdict, VERDICT_DEADLOCK);
    assert_string_equal(hung_culprits(hung, text), culprits);
    assert_true(hung_says(hung, said));
    assert_false(hung_says(hung, "most others"));
}

static void in_collective(struct hung_job *hung, unsigned rank, uint16_t call, uint32_t comm, uint32_t seq,
                          uint64_t enter) {
    hung_progress(hung, rank, comm, seq + 1, seq);
    hung_call(hung, rank, call, FLAG_COLLECTIVE, comm, PEER_NONE, TAG_NONE, seq, enter);
}

/* ---- past a collective, to a message --------------------------------------------------------- */

/* Of four ranks 1 gave 2 a message in each step, then all reduced; after that all but 2 come to `collective`, and 2
 * receives from 1 with `tag`. */
static void make_steps(struct hung_job *hung, uint16_t collective, int32_t tag) {
    hung_make(hung, 4);
    for (unsigned r = 0; r < 4; r++) {
        uint64_t t = 100;
        for (uint32_t i = 0; i < STEPS; i++, t += 100) {
            if (r == 1 || r == 2)
                dump_builder_p2p(hung->builders[r], 0, r == 1 ? BUILDER_SEND : BUILDER_RECV, 0,
                                 r == 1 ? FLAG_SEND : FLAG_RECV, r == 1 ? 2 : 1, 7, i, 8, t, t + 10);
            dump_builder_collective(hung->builders[r], 0, BUILDER_ALLREDUCE, 0, i, 8, t + 20, t + 30);
        }
        hung_progress(hung, r, 0, STEPS, STEPS);
        if (r == 2)
            hung_call(hung, r, BUILDER_RECV, FLAG_RECV, 0, 1, tag, STEPS, 2000);
        else
            ((struct progress *)dump_builder_contents(hung->builders[r], SECTION_PROGRESS, 0))->enqueued = STEPS + 1;
        if (r != 2)
            hung_call(hung, r, collective, FLAG_COLLECTIVE, 0, PEER_NONE, TAG_NONE, STEPS, 1000);
    }
}

/* A message that comes before the reduction in all steps on record is not the one that lacks before a barrier. */
static void who_went_past_a_barrier_is_to_blame_alone(void **state) {
    (void)state;
    struct hung_job hung;
    make_steps(&hung, BUILDER_BARRIER, 7);
    expect(&hung, "2 ", "never entered MPI_Barrier #3 on MPI_COMM_WORLD, in which ranks 0, 1, 3 wait");
    assert_int_equal(hung.diagnosis.culprits[0].state, CULPRIT_NEVER_ENTERED);
    hung_free(&hung);
}

/* Before each reduction there was a message, and before this one there is none; or there never was one of that tag:
 * whether it was not sent, or is not to be received, nothing tells. */
static void a_message_that_was_not_sent_is_of_both(void **state) {
    (void)state;
    struct hung_job hung;
    make_steps(&hung, BUILDER_ALLREDUCE, 7);
    expect(&hung, "1 2 ", "waits for rank 1");
    hung_free(&hung);
    make_steps(&hung, BUILDER_BARRIER, 8);
    expect(&hung, "1 2 ", "waits for rank 1");
    hung_free(&hung);
}

/* Rank 1 has ended another call since the last reduction: it went on without having sent. What was before that tells
 * nothing. */
static void who_went_on_without_sending_is_named(void **state) {
    (void)state;
    for (int later = 0; later < 2; later++) {
        struct hung_job hung;
        make_steps(&hung, BUILDER_BARRIER, 7);
        dump_builder_p2p(hung.builders[1], 0, BUILDER_SEND, 0, FLAG_SEND, 3, 9, 0, 8, 500, 510);
        if (!later)
            dump_builder_p2p(hung.builders[2], 0, BUILDER_SEND, 0, FLAG_SEND, 3, 9, 0, 8, 500, 510);
        expect(&hung, later ? "1 2 " : "2 ", "waits for rank 1");
        hung_free(&hung);
    }
}

/* Of two ranks one is in the barrier: no more than the other one that is not. */
static void one_against_one_is_a_circle(void **state) {
    (void)state;
    struct hung_job hung;
    hung_make(&hung, 2);
    in_collective(&hung, 0, BUILDER_BARRIER, 0, 1, 1000);
    hung_progress(&hung, 1, 0, 1, 1);
    dump_builder_p2p(hung.builders[1], 0, BUILDER_RECV, 0, FLAG_RECV, 0, 7, 0, 8, 100, 110);
    dump_builder_collective(hung.builders[1], 0, BUILDER_ALLREDUCE, 0, 0, 8, 200, 210);
    hung_call(&hung, 1, BUILDER_RECV, FLAG_RECV, 0, 0, 7, 1, 2000);
    expect(&hung, "0 1 ", "waits for rank 0");
    hung_free(&hung);
}

/* ---- past a collective, to another one ------------------------------------------------------- */

static void define_group(struct hung_job *hung, unsigned members) {
    const struct member_run group = {0, members, 1};
    for (unsigned r = 0; r < members; r++)
        assert_int_equal(dump_builder_communicator(hung->builders[r], 0x77, "group", (int32_t)r, &group, 1), SUB);
}

/* Ranks 0 and 1 are a group. 1 waits there; 0, which may have sent something to 3 since the last reduction of all,
 * reduces as 3 does; 2 waits for a message of 1. */
static void make_pair(struct hung_job *hung, bool went_on) {
    hung_make(hung, 4);
    define_group(hung, 2);
    for (unsigned r = 0; r < 4; r++) {
        dump_builder_p2p(hung->builders[r], 0, BUILDER_SEND, 0, FLAG_SEND, PEER_NULL, 7, 0, 8, 100, 110);
        dump_builder_collective(hung->builders[r], 0, BUILDER_ALLREDUCE, 0, 4, 8, 200, 210);
        hung_progress(hung, r, 0, 5, 5);
    }
    for (unsigned r = 0; r < 4; r += 3) {
        ((struct progress *)dump_builder_contents(hung->builders[r], SECTION_PROGRESS, 0))->enqueued = 6;
        hung_call(hung, r, BUILDER_ALLREDUCE, FLAG_COLLECTIVE, 0, PEER_NONE, TAG_NONE, 5, 1000);
    }
    in_collective(hung, 1, BUILDER_BARRIER, SUB, 0, 1000);
    hung_progress(hung, 0, SUB, 0, 0);
    hung_call(hung, 2, BUILDER_RECV, FLAG_RECV, 0, 1, 7, 0, 1000);
    if (went_on)
        dump_builder_p2p(hung->builders[0], 0, BUILDER_SEND, 0, FLAG_SEND, 3, 7, 1, 8, 900, 910);
}

/* Who waits for a message of one in the group is no part of it, though it has not come to the reduction either. Where
 * nothing tells which of the two left something out, both are named. */
static void who_left_out_a_groups_barrier_and_went_on_is_to_blame(void **state) {
    (void)state;
    struct hung_job hung;
    make_pair(&hung, true);
    expect(&hung, "0 ",
           "never entered MPI_Barrier #0 on group, in which rank 1 waits, and has gone on with other calls");
    hung_free(&hung);
    make_pair(&hung, false);
    expect(&hung, "0 1 ", "2 ranks wait in a circle");
    hung_free(&hung);
}

/* One of a group of three left out its barrier; that more ranks are in what it came to does not make the others err. */
static void the_fewest_err(void **state) {
    (void)state;
    struct hung_job hung;
    hung_make(&hung, 6);
    define_group(&hung, 3);
    for (unsigned r = 0; r < 6; r++) {
        if (r == 1 || r == 2) {
            hung_progress(&hung, r, 0, 5, 5);
            in_collective(&hung, r, BUILDER_BARRIER, SUB, 0, 1000);
        } else {
            in_collective(&hung, r, BUILDER_ALLREDUCE, 0, 5, 1000);
        }
    }
    hung_progress(&hung, 0, SUB, 0, 0);
    expect(&hung, "0 ", "in which ranks 1, 2 wait");
    hung_free(&hung);
}

/* Ranks 0 and 1 wait for a list of requests with the reduction in it, and 2 is away. */
static void who_waits_for_a_list_waits_for_what_is_in_it(void **state) {
    (void)state;
    struct hung_job hung;
    hung_make(&hung, 3);
    for (unsigned r = 0; r < 3; r++) {
        hung_progress(&hung, r, 0, r < 2, 0);
        if (r == 2)
            continue;
        for (uint32_t op = 5; op < 7; op++) {
            struct pending *pending = dump_builder_pending(hung.builders[r]);
            *pending = (struct pending){.request = pending->request,
                                        .call = op == 5 ? BUILDER_IALLREDUCE : BUILDER_IRECV,
                                        .flags = op == 5 ? FLAG_COLLECTIVE : FLAG_RECV,
                                        .peer = op == 5 ? PEER_NONE : 2,
                                        .tag = op == 5 ? TAG_NONE : 1,
                                        .op = op,
                                        .active = 1};
        }
        hung_call(&hung, r, BUILDER_WAITALL, 0, COMM_NONE, PEER_NONE, 2, 6, 1000)->op = 5;
    }
    assert_int_equal(hung_judge(&hung, stands)->verdict, VERDICT_HANG);
    assert_true(hung_says(&hung, "MPI_Iallreduce #0 on MPI_COMM_WORLD: ranks 0, 1 wait; rank 2 never entered it"));
    hung_free(&hung);
}

/* ---- who waits for whom ---------------------------------------------------------------------- */

/* 0 waits for 1, 1 for 2, 2 for 3, 3 for 0 and for 4, which is free. */
static void waiters_are_found_up_to_a_border(void **state) {
    (void)state;
    struct and_or_graph graph = {0};
    for (int i = 0; i < 5; i++)
        and_or_graph_node(&graph, false);
    for (uint32_t i = 0; i < 4; i++)
        and_or_graph_wait(&graph, i, (i + 1) % 4);
    and_or_graph_wait(&graph, 3, 4);
    assert_true(and_or_graph_release(&graph));
    uint8_t marks[5] = {[1] = AND_OR_GRAPH_BORDER, [2] = AND_OR_GRAPH_GOAL, [4] = AND_OR_GRAPH_GOAL};
    assert_true(and_or_graph_mark_waiters(&graph, marks));
    const uint8_t expected[5] = {[1] = AND_OR_GRAPH_BORDER | AND_OR_GRAPH_WAITS,
                                 [2] = AND_OR_GRAPH_GOAL,
                                 [3] = AND_OR_GRAPH_WAITS,
                                 [4] = AND_OR_GRAPH_GOAL};
    /* 3 waits for 4, and 2 for 3 */
    assert_int_equal(marks[0], expected[0]);
    assert_int_equal(marks[1], expected[1]);
    assert_int_equal(marks[2], expected[2] | AND_OR_GRAPH_WAITS);
    assert_int_equal(marks[3], expected[3]);
    and_or_graph_free(&graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_went_past_a_barrier_is_to_blame_alone),
        cmocka_unit_test(a_message_that_was_not_sent_is_of_both),
        cmocka_unit_test(who_went_on_without_sending_is_named),
        cmocka_unit_test(one_against_one_is_a_circle),
        cmocka_unit_test(who_left_out_a_groups_barrier_and_went_on_is_to_blame),
        cmocka_unit_test(the_fewest_err),
        cmocka_unit_test(who_waits_for_a_list_waits_for_what_is_in_it),
        cmocka_unit_test(waiters_are_found_up_to_a_border),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
