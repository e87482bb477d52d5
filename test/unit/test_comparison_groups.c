/* SPDX-License-Identifier: Apache-2.0
 *
 * Which communicator ranks are compared by: cases just below and just above every limit, in jobs of four ranks that
 * meet in pairs and now and then all together. Must not live here: comparing (test_stragglers.c), rank classes
 * (test_rank_classes.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/stragglers/comparison_groups.h"
#include "test/unit/job_builder.h"

enum { RANKS = 4, PARTS = 16, CALLS_MOST = 1000 };

/* Which of a rank's calls are those of all: at the beginning, or evenly in the first `parts` of sixteen. */
static void spread(bool *of_all, unsigned calls, unsigned all, unsigned parts) {
    for (unsigned i = 0; i < all; i++) {
        unsigned at = parts ? i % parts * calls / PARTS + i / parts : i;
        assert_true(at < calls && !of_all[at]);
        of_all[at] = true;
    }
}

/* How many groups are compared in a job of so many calls of pairs and of all: one where all are compared with each
 * other, else one for each pair. */
static size_t count_groups(unsigned pairs, unsigned all, unsigned parts) {
    struct hand_job job;
    struct comparison_groups groups;
    bool of_all[CALLS_MOST] = {false};
    unsigned calls = pairs + all;
    assert_true(calls <= CALLS_MOST);
    spread(of_all, calls, all, parts);
    hand_job_make(&job, RANKS, (struct dump_plan){.ring_records = 1024});
    for (unsigned r = 0; r < RANKS; r++) {
        struct member_run pair = {(int32_t)(r / 2 * 2), 2, 1};
        uint32_t comm = dump_builder_communicator(job.builders[r], 0x50 + r / 2, "pair", (int32_t)(r % 2), &pair, 1);
        uint32_t seq[2] = {0, 0};
        for (unsigned i = 0; i < calls; i++) {
            uint64_t now = 1000000 + i * UINT64_C(1000);
            dump_builder_collective(job.builders[r], 0, BUILDER_ALLREDUCE, of_all[i] ? 0 : comm, seq[of_all[i]]++, 8,
                                    now, now + 500);
        }
    }
    hand_job_open(&job, RANKS);
    assert_true(comparison_groups_choose(&groups, &job.directory));
    size_t count = groups.count;
    comparison_groups_free(&groups);
    hand_job_free(&job);
    return count;
}

static void sixteen_calls_are_often(void **state) {
    (void)state;
    assert_int_equal(count_groups(100, 17, 0), 1);
    assert_int_equal(count_groups(85, 15, 0), 2);
}

static void an_eighth_of_the_calls_is_often(void **state) {
    (void)state;
    assert_int_equal(count_groups(260, 40, 0), 1); /* 13 % */
    assert_int_equal(count_groups(300, 40, 0), 2); /* 12 % */
}

/* Of rare ones one for each batch that is asked for, in three quarters of the run. */
static void rare_calls_count_where_they_are_everywhere(void **state) {
    (void)state;
    assert_int_equal(count_groups(600, 33, PARTS), 1);
    assert_int_equal(count_groups(600, 31, PARTS), 2);
    assert_int_equal(count_groups(600, 52, 13), 1);
    assert_int_equal(count_groups(600, 44, 11), 2);
}

/* Calls of all ranks on one communicator, of that kind and function, that nothing else happens beside. */
static void choose_by(struct comparison_groups *groups, struct hand_job *job, enum communicator_kind kind,
                      uint16_t call, bool started) {
    hand_job_make(job, RANKS, (struct dump_plan){.ring_records = 1024});
    for (unsigned r = 0; r < RANKS; r++) {
        struct member_run all = {0, RANKS, 1};
        struct member_run half = {(int32_t)(r / 2 * 2), 2, 1}, other = {2 - (int32_t)(r / 2 * 2), 2, 1};
        uint32_t comm = kind == COMMUNICATOR_INTER
                            ? dump_builder_intercommunicator(job->builders[r], 0x60, (int32_t)(r % 2), &half, &other)
                            : dump_builder_communicator(job->builders[r], 0x60, "all", (int32_t)r, &all, 1);
        dump_builder_definition(job->builders[r], comm)->kind = kind;
        dump_builder_call(job->builders[r], 320, CLASS_COMMUNICATOR, FLOW_NONE, BUSBW_NONE, 0, "MPI_Comm_dup");
        for (uint32_t i = 0; i < 20; i++) {
            uint64_t now = 1000000 + i * UINT64_C(1000);
            struct record *record =
                dump_builder_collective(job->builders[r], 0, call, comm, started ? 3 : i, 8, now, now + 500);
            record->kind = started ? RECORD_POST : RECORD_CALL;
            record->flags |= started ? FLAG_STARTED : 0;
            record->tag = started ? (int32_t)i : record->tag;
        }
    }
    hand_job_open(job, RANKS);
    assert_true(comparison_groups_choose(groups, &job->directory));
}

/* All ranks are one group by each of them, and by files none. */
static void what_ranks_are_compared_by(void **state) {
    (void)state;
    static const struct {
        enum communicator_kind kind;
        uint16_t call;
        bool started;
        size_t groups;
    } cases[] = {{COMMUNICATOR_INTRA, BUILDER_ALLREDUCE, false, 1},
                 {COMMUNICATOR_INTRA, BUILDER_ALLREDUCE, true, 1},
                 {COMMUNICATOR_INTRA, 320, false, 1},
                 {COMMUNICATOR_INTER, BUILDER_ALLREDUCE, false, 1},
                 {COMMUNICATOR_FILE, BUILDER_ALLREDUCE, false, 0}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct hand_job job;
        struct comparison_groups groups;
        choose_by(&groups, &job, cases[c].kind, cases[c].call, cases[c].started);
        assert_int_equal(groups.count, cases[c].groups);
        for (unsigned r = 0; r < RANKS && groups.count > 0; r++) {
            assert_int_equal(groups.cuts[r].replays, cases[c].started);
            assert_int_equal(groups.cuts[r].captured, cases[c].started ? 3 : 0);
        }
        comparison_groups_free(&groups);
        hand_job_free(&job);
    }
}

/* The k-th start ends the k-th stretch; those of another persistent collective, and other collectives, end none. */
static void starts_end_stretches(void **state) {
    (void)state;
    const struct cut cut = {.kind = CUT_COLLECTIVE, .comm = 1, .replays = true, .captured = 3};
    struct record record = {
        .kind = RECORD_POST, .flags = FLAG_COLLECTIVE | FLAG_STARTED, .comm = 1, .seq = 3, .tag = 7};
    const struct match_record item = {.record = &record};
    assert_int_equal(cut_ends_at(&cut, &item), 7);
    record.seq = 4;
    assert_int_equal(cut_ends_at(&cut, &item), SEQ_NONE);
    record = (struct record){.kind = RECORD_CALL, .flags = FLAG_COLLECTIVE, .comm = 1, .seq = 3};
    assert_int_equal(cut_ends_at(&cut, &item), SEQ_NONE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixteen_calls_are_often),
        cmocka_unit_test(an_eighth_of_the_calls_is_often),
        cmocka_unit_test(rare_calls_count_where_they_are_everywhere),
        cmocka_unit_test(what_ranks_are_compared_by),
        cmocka_unit_test(starts_end_stretches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
