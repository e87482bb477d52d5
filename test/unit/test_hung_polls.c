/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs that are over and whose ranks polled, in made-up dumps: when that was waiting, and who was waited for.
 * Must not live here: polls of jobs that live (test_diagnose.c), how polls are recorded (test_polling.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/hung_job.h"

enum { RANKS = 4, TEST = 240, AWAY = 3 };
#define MS UINT64_C(1000000)

/* Polls that found nothing from `begin` on. */
static void polled(struct hung_job *hung, unsigned rank, uint64_t begin, uint64_t end) {
    const struct record polls = {.t0 = begin,
                                 .t1 = end,
                                 .comm = COMM_NONE,
                                 .peer = PEER_NONE,
                                 .tag = TAG_NONE,
                                 .stack = STACK_NONE,
                                 .call = TEST,
                                 .kind = RECORD_POLL};
    dump_builder_record(hung->builders[rank], 0, &polls);
}

/* All but AWAY ask for their nonblocking reduction from 20 s on up to `end`; before that they did so for `before`,
 * twice. */
static void make(struct hung_job *hung, uint64_t before, uint64_t end) {
    hung_make(hung, RANKS);
    for (unsigned r = 0; r < RANKS; r++) {
        dump_builder_call(hung->builders[r], TEST, CLASS_TEST, FLOW_NONE, BUSBW_NONE, 0, "MPI_Test");
        dump_builder_plain(hung->builders[r], 0, BUILDER_BARRIER, MS, 2 * MS);
        struct operation_row *row = dump_builder_operation(hung->builders[r], 0);
        row->call = BUILDER_BARRIER;
        row->comm_epoch = 0;
        dump_builder_count(row, 0, MS);
        dump_builder_count(row, 0, MS);
        hung_progress(hung, r, 0, r != AWAY, 0);
        if (r == AWAY)
            continue;
        for (uint64_t i = 0; i < 2 && before > 0; i++) {
            polled(hung, r, 10 * MS + i * 5000 * MS, 10 * MS + i * 5000 * MS + before);
            dump_builder_plain(hung->builders[r], 0, BUILDER_BARRIER, 19990 * MS, 19991 * MS);
        }
        polled(hung, r, 20000 * MS, end);
        struct pending *pending = dump_builder_pending(hung->builders[r]);
        pending->call = BUILDER_IALLREDUCE;
        pending->flags = FLAG_COLLECTIVE;
        pending->peer = PEER_NONE;
        pending->tag = TAG_NONE;
        pending->op = 5;
        pending->active = 1;
    }
}

static void expect(struct hung_job *hung, const struct job_end *end, enum verdict verdict, const char *culprits) {
    char text[64];
    assert_int_equal(hung_judge(hung, (struct diagnose_request){.end = end})->verdict, verdict);
    assert_string_equal(hung_culprits(hung, text), culprits);
    hung_free(hung);
}

/* What is no usual time of polls has a second: with nothing to compare it with it is waiting from there on. */
static void who_polled_for_long_waited(void **state) {
    (void)state;
    struct hung_job hung;
    make(&hung, 0, 21100 * MS);
    assert_int_equal(hung_judge(&hung, (struct diagnose_request){0})->verdict, VERDICT_HANG);
    assert_true(hung_says(&hung, "MPI_Iallreduce #0 on MPI_COMM_WORLD: ranks 0-2 wait; rank 3 never entered it"));
    assert_int_equal(hung.diagnosis.culprits[0].party, AWAY);
    hung_free(&hung);
    make(&hung, 0, 20900 * MS);
    expect(&hung, NULL, VERDICT_UNKNOWN, "");
}

/* Three times what was usual. */
static void polls_are_compared_with_those_before(void **state) {
    (void)state;
    struct hung_job hung;
    make(&hung, 800 * MS, 22300 * MS);
    expect(&hung, NULL, VERDICT_UNKNOWN, "");
    make(&hung, 800 * MS, 22500 * MS);
    expect(&hung, NULL, VERDICT_HANG, "3 ");
    make(&hung, 20 * MS, 20110 * MS);
    expect(&hung, NULL, VERDICT_HANG, "3 ");
    make(&hung, 20 * MS, 20090 * MS);
    expect(&hung, NULL, VERDICT_UNKNOWN, "");
}

/* `end_ms`: when rank 0 was killed, as was noted. */
static void expect_at(struct hung_job *hung, uint64_t end_ms, enum verdict verdict, const char *culprits) {
    struct job_end end = {.dead_known = true, .sure = true, .signal = 9, .status = -1, .dead = 0};
    end.monotonic_ns = (int64_t)(end_ms * MS);
    memcpy(end.boot_id, dump_builder_header(hung->builders[0])->boot_id, sizeof end.boot_id - 1);
    expect(hung, &end, verdict, culprits);
}

/* The first to die of a job that stood is not the cause; nor does it stand who left off polling, or just began. */
static void the_first_to_die_is_not_accused(void **state) {
    (void)state;
    struct hung_job hung;
    make(&hung, 0, 25000 * MS);
    expect_at(&hung, 25000, VERDICT_HANG, "3 ");
    make(&hung, 0, 25000 * MS);
    expect_at(&hung, 20900, VERDICT_DEAD_RANK, "0 ");
    make(&hung, 0, 22000 * MS);
    expect_at(&hung, 23900, VERDICT_HANG, "3 ");
    make(&hung, 0, 22000 * MS);
    expect_at(&hung, 24100, VERDICT_DEAD_RANK, "0 ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_polled_for_long_waited),
        cmocka_unit_test(polls_are_compared_with_those_before),
        cmocka_unit_test(the_first_to_die_is_not_accused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
