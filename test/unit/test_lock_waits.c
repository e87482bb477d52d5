/* SPDX-License-Identifier: Apache-2.0
 *
 * Locks on windows that are waited for, in made-up dumps: exactly who holds them.
 * Must not live here: other one-sided epochs (test_epoch_waits.c), real jobs (test/e2e/test_diagnose.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/wait_for_graph/ranks.h"
#include "test/unit/hung_job.h"

enum { RANKS = 4, WINDOW = 1, LOCK = 430, UNLOCK = 431, LOCK_ALL = 432, UNLOCK_ALL = 433 };

static void make(struct hung_job *hung) {
    static const struct member_run all = {0, RANKS, 1};
    hung_make(hung, RANKS);
    for (unsigned r = 0; r < RANKS; r++) {
        struct dump_builder *builder = hung->builders[r];
        assert_int_equal(dump_builder_communicator(builder, 0x77, "", (int32_t)r, &all, 1), WINDOW);
        dump_builder_definition(builder, WINDOW)->kind = COMMUNICATOR_WINDOW;
        dump_builder_call(builder, LOCK, CLASS_RMA_SYNC, FLOW_NONE, BUSBW_NONE, 0, "MPI_Win_lock");
        dump_builder_call(builder, UNLOCK, CLASS_RMA_SYNC, FLOW_NONE, BUSBW_NONE, 0, "MPI_Win_unlock");
        dump_builder_call(builder, LOCK_ALL, CLASS_RMA_SYNC, FLOW_NONE, BUSBW_NONE, 0, "MPI_Win_lock_all");
        dump_builder_call(builder, UNLOCK_ALL, CLASS_RMA_SYNC, FLOW_NONE, BUSBW_NONE, 0, "MPI_Win_unlock_all");
    }
}

static void ended(struct hung_job *hung, unsigned rank, uint16_t call, int32_t target) {
    struct record *record = dump_builder_plain(hung->builders[rank], 0, call, 100, 110);
    record->comm = WINDOW;
    record->peer = target;
}

/* Rank 2 waits for the lock on rank 0's part. */
static void assert_waits_for(struct hung_job *hung, bool settled, const char *expected) {
    int32_t ranks[RANKS];
    char text[RANKS + 1] = "";
    hung_call(hung, 2, LOCK, 0, WINDOW, 0, TAG_NONE, SEQ_NONE, 1000);
    const struct diagnosis *diagnosis = hung_judge(hung, (struct diagnose_request){.settled = settled});
    size_t count = wait_targets(&diagnosis->wait_for_graph, &diagnosis->wait_for_graph.items[0], ranks, RANKS);
    for (size_t i = 0; i < count; i++)
        text[i] = (char)('0' + ranks[i]);
    assert_string_equal(text, expected);
    hung_free(hung);
}

/* What counts is the newest that was done to that rank's part; other parts do not. */
static void whoever_has_it_and_has_not_given_it_back_is_waited_for(void **state) {
    (void)state;
    struct hung_job hung;
    make(&hung);
    ended(&hung, 1, UNLOCK, 0);
    ended(&hung, 1, LOCK, 0);
    ended(&hung, 1, UNLOCK, 3);
    ended(&hung, 3, LOCK, 0);
    ended(&hung, 3, UNLOCK, 0);
    assert_waits_for(&hung, true, "1");
    make(&hung);
    ended(&hung, 1, LOCK_ALL, PEER_NONE);
    ended(&hung, 3, LOCK_ALL, PEER_NONE);
    assert_waits_for(&hung, true, "13");
    make(&hung);
    ended(&hung, 1, LOCK_ALL, PEER_NONE);
    ended(&hung, 1, UNLOCK_ALL, PEER_NONE);
    ended(&hung, 3, LOCK, 3);
    assert_waits_for(&hung, true, "013"); /* nobody is known to have it */
}

/* Of a job that was killed at work it may be back already. */
static void who_is_giving_it_back_is_not_waited_for_at_work(void **state) {
    (void)state;
    for (int settled = 0; settled < 2; settled++) {
        struct hung_job hung;
        make(&hung);
        ended(&hung, 1, LOCK, 0);
        hung_call(&hung, 1, UNLOCK, 0, WINDOW, 0, TAG_NONE, SEQ_NONE, 1000);
        int32_t ranks[RANKS];
        hung_call(&hung, 2, LOCK, 0, WINDOW, 0, TAG_NONE, SEQ_NONE, 1000);
        const struct diagnosis *diagnosis = hung_judge(&hung, (struct diagnose_request){.settled = settled});
        const struct wait *wait = &diagnosis->wait_for_graph.items[1];
        assert_int_equal(wait->party, 2);
        assert_int_equal(wait_targets(&diagnosis->wait_for_graph, wait, ranks, RANKS), settled);
        hung_free(&hung);
    }
}

/* Rank 1 has the lock and waits for a message of 3, 3 for one of 2, and 2 for the lock; 0, whose memory it is, waits in
 * a barrier. */
static void a_circle_goes_over_who_has_the_lock(void **state) {
    (void)state;
    for (int settled = 0; settled < 2; settled++) {
        struct hung_job hung;
        char text[64];
        make(&hung);
        for (unsigned r = 0; r < RANKS; r++)
            hung_progress(&hung, r, 0, r == 0, 0);
        hung_call(&hung, 0, BUILDER_BARRIER, FLAG_COLLECTIVE, 0, PEER_NONE, TAG_NONE, 0, 1000);
        ended(&hung, 1, LOCK, 0);
        hung_call(&hung, 1, BUILDER_RECV, FLAG_RECV, 0, 3, 77, 0, 1000);
        hung_call(&hung, 2, LOCK, 0, WINDOW, 0, TAG_NONE, SEQ_NONE, 1000);
        hung_call(&hung, 3, BUILDER_RECV, FLAG_RECV, 0, 2, 1, 0, 1000);
        assert_int_equal(hung_judge(&hung, (struct diagnose_request){.settled = settled})->verdict, VERDICT_DEADLOCK);
        assert_string_equal(hung_culprits(&hung, text), "1 3 2 ");
        assert_true(hung_says(&hung, "waits for rank 1, which holds the lock"));
        hung_free(&hung);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_has_it_and_has_not_given_it_back_is_waited_for),
        cmocka_unit_test(who_is_giving_it_back_is_not_waited_for_at_work),
        cmocka_unit_test(a_circle_goes_over_who_has_the_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
