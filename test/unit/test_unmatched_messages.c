/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages that were sent and that nobody received, as the clue to a hang.
 * Lives here: which of them are shown.
 * Must not live here: verdicts (test_hung_jobs.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/hung_job.h"

enum { RING = 16 };
#define MS UINT64_C(1000000)

/* ---- messages that nobody received ----------------------------------------------------------- */

/* Rank 0 receives from 1 with tag 24 on the world; rank `from` has sent it one with `tag` on communicator `comm`. All
 * but 0 wait in a collective. `received`: 0 has it. */
static const struct diagnosis *hung_sent(struct hung_job *hung, unsigned from, int32_t tag, uint32_t comm,
                                         bool received) {
    hung_make_living(hung, 3);
    const struct member_run all = {0, 3, 1};
    for (unsigned r = 0; r < 3; r++) {
        dump_builder_communicator(hung->builders[r], 77, "second", (int32_t)r, &all, 1);
        dump_builder_collective(hung->builders[r], 0, BUILDER_BARRIER, 0, 0, 0, 10, 20);
        struct progress *p = dump_builder_contents(hung->builders[r], SECTION_PROGRESS, 0);
        p->enqueued = r > 0 ? 2 : 1;
        hung_enter(hung, r, BUILDER_ALLREDUCE, FLAG_COLLECTIVE, PEER_NONE, TAG_NONE, 1);
    }
    hung_enter(hung, 0, BUILDER_RECV, FLAG_RECV, 1, 24, 0);
    dump_builder_p2p(hung->builders[from], 0, BUILDER_SEND, comm, FLAG_SEND, 0, tag, 0, 8, 30, 40);
    if (received)
        dump_builder_p2p(hung->builders[0], 0, BUILDER_RECV, comm, FLAG_RECV, (int32_t)from, tag, 0, 8, 35, 45);
    return hung_judge(hung, (struct diagnose_request){.settled = true});
}

static void a_message_with_a_wrong_tag_is_shown(void **state) {
    (void)state;
    static const struct {
        unsigned from;
        int32_t tag;
        uint32_t comm;
        enum message_difference difference;
    } sent[] = {{1, 42, 0, DIFFERENT_TAG}, {1, 24, 1, DIFFERENT_COMMUNICATOR}, {2, 24, 0, DIFFERENT_SOURCE}};
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
        struct hung_job hung;
        const struct diagnosis *diagnosis = hung_sent(&hung, sent[i].from, sent[i].tag, sent[i].comm, false);
        assert_int_equal(diagnosis->verdict, VERDICT_DEADLOCK);
        assert_int_equal(diagnosis->unmatched.count, 1);
        const struct unmatched_message *message = &diagnosis->unmatched.items[0];
        assert_int_equal(message->difference, sent[i].difference);
        assert_int_equal(message->wanted.tag, 24);
        assert_int_equal(message->sent.tag, sent[i].tag);
        assert_int_equal(message->sent.party, sent[i].from);
        bool said = false;
        for (size_t k = 0; k < hung.text.sentence_count; k++)
            said |= strncmp(hung.text.sentences[k], "not received: rank", 18) == 0;
        assert_true(said);
        hung_free(&hung);
    }
}

static void messages_that_were_received_are_not(void **state) {
    (void)state;
    struct hung_job hung;
    assert_int_equal(hung_sent(&hung, 1, 42, 0, true)->unmatched.count, 0);
    hung_free(&hung);
    assert_int_equal(hung_sent(&hung, 2, 42, 0, false)->unmatched.count, 0); /* differs in two points */
    hung_free(&hung);
    assert_int_equal(hung_sent(&hung, 1, 24, 0, false)->unmatched.count, 0); /* it is what is waited for */
    hung_free(&hung);
}

/* A receive that was posted before the send, and ended; or is posted still, but not what is waited for. */
static void messages_that_were_awaited_are_not(void **state) {
    (void)state;
    for (int over = 0; over < 2; over++) {
        struct hung_job hung;
        hung_make_living(&hung, 2);
        dump_builder_collective(hung.builders[0], 0, BUILDER_BARRIER, 0, 0, 0, 10, 20);
        struct record record = {.kind = RECORD_POST, .call = BUILDER_IRECV, .flags = FLAG_RECV, .peer = 1, .tag = 42};
        record.t0 = 21, record.t1 = 22, record.op = 5;
        dump_builder_record(hung.builders[0], 0, &record);
        record.kind = RECORD_DONE, record.t1 = 50;
        if (over) { /* beside a send that was over at once */
            dump_builder_record(hung.builders[0], 0, &record);
            record.flags = FLAG_SEND, record.t1 = 25, record.op = 6;
            dump_builder_record(hung.builders[0], 0, &record);
        }
        if (!over)
            hung_pending(&hung, 0, BUILDER_IRECV, FLAG_RECV, 1, 5, 0)->tag = 42;
        dump_builder_p2p(hung.builders[1], 0, BUILDER_SEND, 0, FLAG_SEND, 0, 42, 0, 8, 30, 40);
        hung_enter(&hung, 0, BUILDER_RECV, FLAG_RECV, 1, 24, 0);
        assert_int_equal(hung_judge(&hung, (struct diagnose_request){.settled = true})->unmatched.count, 0);
        hung_free(&hung);
    }
}

/* The receive came 20 ticks after the send, by the counter that both share; by what each process knows of its rate it
 * came before. */
static void clocks_that_drift_lose_no_message(void **state) {
    (void)state;
    struct hung_job hung;
    hung_make_living(&hung, 2);
    for (unsigned r = 0; r < 2; r++) {
        dump_builder_host(hung.builders[r], "host0", "the boot", 0);
        dump_builder_header(hung.builders[r])->clock_kind = CLOCK_KIND_TSC;
        dump_builder_anchor(hung.builders[r], 0, 1000, 1000 * MS, 0);
        dump_builder_anchor(hung.builders[r], 1000000, 1000000 + (r ? 1000 : 0), 1001 * MS, 0);
    }
    dump_builder_p2p(hung.builders[1], 0, BUILDER_SEND, 0, FLAG_SEND, 0, 42, 0, 8, 500000, 500010);
    dump_builder_p2p(hung.builders[0], 0, BUILDER_RECV, 0, FLAG_RECV, 1, 42, 0, 8, 500005, 500020);
    dump_builder_collective(hung.builders[0], 0, BUILDER_BARRIER, 0, 0, 0, 500022, 500030);
    hung_enter(&hung, 0, BUILDER_RECV, FLAG_RECV, 1, 24, 0);
    assert_int_equal(hung_judge(&hung, (struct diagnose_request){.settled = true})->unmatched.count, 0);
    hung_free(&hung);
}

/* Where the receiver's ring does not go back to the send, it may have been received. */
static void messages_of_long_ago_are_not_said_to_be_left(void **state) {
    (void)state;
    struct hung_job hung;
    hung_make_living(&hung, 2);
    dump_builder_p2p(hung.builders[1], 0, BUILDER_SEND, 0, FLAG_SEND, 0, 42, 0, 8, 30, 40);
    for (unsigned i = 0; i < 2 * RING; i++)
        dump_builder_collective(hung.builders[0], 0, BUILDER_BARRIER, 0, i, 0, 100 + 10 * i, 105 + 10 * i);
    hung_enter(&hung, 0, BUILDER_RECV, FLAG_RECV, 1, 24, 0);
    assert_int_equal(hung_judge(&hung, (struct diagnose_request){.settled = true})->unmatched.count, 0);
    hung_free(&hung);
}

/* Rank 1 has made so many calls since it sent what nobody received. */
static void sends_are_looked_for_among_the_last_calls(void **state) {
    (void)state;
    for (unsigned since = 1000; since <= 1100; since += 100) {
        struct hung_job hung;
        hung_make_worlds(&hung, 2, 2, 4096);
        dump_builder_collective(hung.builders[0], 0, BUILDER_BARRIER, 0, 0, 0, 10, 20);
        dump_builder_p2p(hung.builders[1], 0, BUILDER_SEND, 0, FLAG_SEND, 0, 42, 0, 8, 30, 40);
        for (unsigned i = 0; i < since; i++)
            dump_builder_plain(hung.builders[1], 0, BUILDER_WAIT, 100 + 10 * i, 105 + 10 * i);
        hung_enter(&hung, 0, BUILDER_RECV, FLAG_RECV, 1, 24, 0);
        assert_int_equal(hung_judge(&hung, (struct diagnose_request){.settled = true})->unmatched.count, since == 1000);
        hung_free(&hung);
    }
}

/* Rank 0 and 1 receive from each other; both have sent one, `tag`, that the other has not got. Once they were killed it
 * may just have come where it is the one that is waited for. */
static void a_message_of_another_tag_is_not_the_one_under_way(void **state) {
    (void)state;
    for (int32_t tag = 24; tag <= 42; tag += 18) {
        struct hung_job hung;
        hung_make_living(&hung, 2);
        for (unsigned r = 0; r < 2; r++) {
            int32_t other = 1 - (int32_t)r;
            for (unsigned i = 0; i < 2 * RING; i++) /* the ring does not hold all there was */
                dump_builder_collective(hung.builders[r], 0, BUILDER_BARRIER, 0, i, 0, 10 + i, 11 + i);
            dump_builder_p2p(hung.builders[r], 0, BUILDER_SEND, 0, FLAG_SEND, other, tag, 0, 8, 90, 95);
            struct peer_row *row = dump_builder_peer(hung.builders[r], 0);
            row->peer = other;
            row->direction = FLAG_SEND;
            row->call = BUILDER_SEND;
            row->count = 1;
            hung_enter(&hung, r, BUILDER_RECV, FLAG_RECV, other, 24, SEQ_NONE);
            hung.states[r] = PROCESS_GONE;
        }
        assert_int_equal(hung_judge(&hung, (struct diagnose_request){.settled = false})->verdict,
                         tag == 24 ? VERDICT_HANG : VERDICT_DEADLOCK);
        hung_free(&hung);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_with_a_wrong_tag_is_shown),
        cmocka_unit_test(messages_that_were_received_are_not),
        cmocka_unit_test(messages_that_were_awaited_are_not),
        cmocka_unit_test(clocks_that_drift_lose_no_message),
        cmocka_unit_test(messages_of_long_ago_are_not_said_to_be_left),
        cmocka_unit_test(sends_are_looked_for_among_the_last_calls),
        cmocka_unit_test(a_message_of_another_tag_is_not_the_one_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
