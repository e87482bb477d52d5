/* SPDX-License-Identifier: Apache-2.0
 *
 * Receives from any source that nobody sends to, in made-up dumps: who is to blame.
 * Must not live here: circles of messages between two (test_hung_jobs.c), real jobs (test/e2e/test_diagnose.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/base/and_or_graph.h"
#include "test/unit/hung_job.h"

static void receives(struct hung_job *hung, unsigned rank, int32_t from, int32_t tag) {
    hung_call(hung, rank, BUILDER_RECV, FLAG_RECV, 0, from, tag, SEQ_NONE, 1000);
}

static void expect(struct hung_job *hung, bool settled, const char *culprits, const char *said) {
    char text[64];
    assert_int_equal(hung_judge(hung, (struct diagnose_request){.settled = settled})->verdict, VERDICT_DEADLOCK);
    assert_string_equal(hung_culprits(hung, text), culprits);
    assert_true(hung_says(hung, said));
    hung_free(hung);
}

/* Counts a message and has it on record. */
static void moved(struct hung_job *hung, unsigned rank, bool sent, int32_t peer, int32_t tag, uint32_t seq) {
    struct peer_row *row = dump_builder_peer(hung->builders[rank], 0);
    row->comm_epoch = 0;
    row->peer = peer;
    row->direction = sent ? FLAG_SEND : FLAG_RECV;
    row->count = 1;
    dump_builder_p2p(hung->builders[rank], 0, sent ? BUILDER_SEND : BUILDER_RECV, 0, sent ? FLAG_SEND : FLAG_RECV, peer,
                     tag, seq, 8, sent ? 500 : 505, 510);
}

/* Rank 0 has the messages of the others and waits for one more, 1 waits for 0, and the others for both; 3 has sent 0
 * another one, with `tag`. */
static void make_once_too_often(struct hung_job *hung, int32_t tag) {
    hung_make(hung, 4);
    dump_builder_plain(hung->builders[0], 0, BUILDER_BARRIER, 100, 110);
    for (unsigned r = 0; r < 4; r++) {
        hung_progress(hung, r, 0, r > 1, 0);
        if (r > 1)
            hung_call(hung, r, BUILDER_BARRIER, FLAG_COLLECTIVE, 0, PEER_NONE, TAG_NONE, 0, 1000);
        if (r == 0)
            continue;
        moved(hung, r, true, 0, 6, 0);
        moved(hung, 0, false, (int32_t)r, 6, 0);
    }
    moved(hung, 3, true, 0, tag, 1);
    receives(hung, 0, PEER_ANY, 6);
    receives(hung, 1, 0, 1);
}

/* Looked at twice, and killed, where the message of 3 is known to be another one. */
static void who_receives_once_too_often_is_to_blame(void **state) {
    (void)state;
    struct hung_job hung;
    for (int settled = 0; settled < 2; settled++) {
        make_once_too_often(&hung, 1);
        expect(
            &hung, settled, "0 ",
            "waits for a message from any source, tag 6, that nobody sends; on record it has received 3 such before");
    }
    make_once_too_often(&hung, 6);
    assert_int_equal(hung_judge(&hung, (struct diagnose_request){0})->verdict, VERDICT_HANG); /* it may be that one */
    hung_free(&hung);
}

/* Ranks 1 and 2 wait for each other, so that they send nothing to 0, for which 3 waits. */
static void a_circle_of_others_is_the_cause(void **state) {
    (void)state;
    struct hung_job hung;
    hung_make(&hung, 4);
    receives(&hung, 0, PEER_ANY, 6);
    receives(&hung, 1, 2, 6);
    receives(&hung, 2, 1, 6);
    receives(&hung, 3, 0, 6);
    expect(&hung, true, "1 2 ", "2 ranks wait in a circle");
}

/* All take from anybody; or of two, each can mean only the other one. */
static void where_all_are_alike_all_are_named(void **state) {
    (void)state;
    struct hung_job hung;
    hung_make(&hung, 3);
    for (unsigned r = 0; r < 3; r++)
        receives(&hung, r, PEER_ANY, 6);
    expect(&hung, true, "0 1 ", "2 ranks wait in a circle");
    hung_make(&hung, 2);
    receives(&hung, 0, PEER_ANY, 6);
    receives(&hung, 1, 0, 6);
    expect(&hung, true, "0 1 ", "2 ranks wait in a circle");
}

/* 0 and 1 wait for each other, 2 for 0, 3 for itself. */
static void free_nodes_release_who_waits_for_them(void **state) {
    (void)state;
    struct and_or_graph graph = {0};
    for (int i = 0; i < 4; i++)
        and_or_graph_node(&graph, false);
    and_or_graph_wait(&graph, 0, 1);
    and_or_graph_wait(&graph, 1, 0);
    and_or_graph_wait(&graph, 2, 0);
    and_or_graph_wait(&graph, 3, 3);
    assert_true(and_or_graph_release(&graph));
    bool released[4] = {[3] = true};
    assert_true(and_or_graph_release_with(&graph, (bool[4]){[1] = true}, released));
    assert_true(released[0] && released[1] && released[2] && !released[3]);
    assert_false(graph.released[0] || graph.released[1] || graph.released[2] || graph.released[3]);
    and_or_graph_free(&graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_receives_once_too_often_is_to_blame),
        cmocka_unit_test(a_circle_of_others_is_the_cause),
        cmocka_unit_test(where_all_are_alike_all_are_named),
        cmocka_unit_test(free_nodes_release_who_waits_for_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
