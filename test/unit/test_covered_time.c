/* SPDX-License-Identifier: Apache-2.0
 *
 * Where records are missing, and the time in which no rank's are.
 * Lives here: rings that wrapped, trace windows, torn slots, lost rings. Must not live here: what is made of the time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/job/covered_time.h"
#include "test/unit/job_builder.h"

enum { RING = 16 };

/* Calls number first to last of one rank; number n lasts from 100 n to 100 n + 60 + late. */
static void add_calls(struct hand_job *job, unsigned rank, unsigned calls, uint64_t late) {
    for (unsigned n = 0; n < calls; n++)
        dump_builder_collective(job->builders[rank], 0, BUILDER_ALLREDUCE, 0, n, 8, 100 * n, 100 * n + 60 + late);
    dump_builder_lane(job->builders[rank], 0)->head = calls;
}

/* Call number n as a trace window kept it. */
static void keep_in_window(struct trace_window_block *block, unsigned n) {
    block->records[block->used++] = (struct record){.commit = n + 1,
                                                    .t0 = 100 * n,
                                                    .t1 = 100 * n + 60,
                                                    .call = BUILDER_ALLREDUCE,
                                                    .seq = n,
                                                    .flags = FLAG_COLLECTIVE,
                                                    .kind = RECORD_CALL};
}

static struct covered_time find(struct hand_job *job, unsigned with_dump) {
    struct covered_time covered;
    hand_job_open(job, with_dump);
    assert_true(covered_time_find(&covered, &job->clock));
    return covered;
}

static void done(struct hand_job *job, struct covered_time *covered) {
    covered_time_free(covered);
    hand_job_free(job);
}

static void assert_stretch(const struct covered_time *covered, size_t i, int64_t from, int64_t to) {
    assert_true(i < covered->stretches.count);
    assert_int_equal(covered->stretches.items[i].from, from);
    assert_int_equal(covered->stretches.items[i].to, to);
}

static void all_records_cover_all_time(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){.ring_records = RING});
    add_calls(&job, 0, RING, 0); /* the other rank never called anything: nothing of it is missing */
    struct covered_time covered = find(&job, 2);
    assert_true(covered.whole);
    assert_int_equal(covered.stretches.count, 1);
    assert_stretch(&covered, 0, -NS_MOST, NS_MOST);
    assert_int_equal(covered_time_within(&covered, 100, 350), 250);
    done(&job, &covered);
}

/* The ring of rank 1 begins with call 14, that of rank 0 with call 4: what was before call 14 ended is not known. */
static void the_shortest_ring_decides(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){.ring_records = RING});
    add_calls(&job, 0, 20, 0);
    add_calls(&job, 1, 30, 5);
    struct covered_time covered = find(&job, 2);
    assert_false(covered.whole);
    assert_int_equal(covered.stretches.count, 1);
    assert_stretch(&covered, 0, 1465, NS_MOST);
    assert_int_equal(covered_time_at(&covered, 0, 1464), COVERED_NOWHERE);
    assert_int_equal(covered_time_at(&covered, 1400, 1465), 0);
    assert_false(covered_time_holds(&covered, 0, 1400, 1470));
    assert_true(covered_time_holds(&covered, 0, 1500, 1560));
    assert_int_equal(covered_time_within(&covered, 0, 2000), 535);
    done(&job, &covered);
}

static void windows_are_stretches_of_their_own(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){.ring_records = RING, .windows = 4});
    add_calls(&job, 0, 40, 0);
    add_calls(&job, 1, RING, 0);
    struct trace_window_block *block = dump_builder_window(job.builders[0], 0, 7);
    for (unsigned n = 0; n < 3; n++)
        keep_in_window(block, n);
    block = dump_builder_window(job.builders[0], 0, 9);
    for (unsigned n = 10; n < 12; n++)
        keep_in_window(block, n);
    struct covered_time covered = find(&job, 2);
    assert_int_equal(covered.stretches.count, 3);
    assert_stretch(&covered, 0, -NS_MOST, 260);              /* until call 2 ended */
    assert_stretch(&covered, 1, 1060, 1160);                 /* from the end of call 10 to that of call 11 */
    assert_stretch(&covered, 2, 2460, NS_MOST);              /* the ring begins with call 24 */
    assert_int_equal(covered_time_at(&covered, 0, 3000), 2); /* the last one that is touched */
    assert_int_equal(covered_time_at(&covered, 300, 1000), COVERED_NOWHERE);
    done(&job, &covered);
}

/* A slot that was never committed: only what lies between its neighbours is unknown. */
static void a_torn_slot_is_a_small_hole(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 1, (struct dump_plan){.ring_records = RING});
    add_calls(&job, 0, RING, 0);
    ((struct record *)dump_builder_contents(job.builders[0], SECTION_RING, 0))[5].commit = 0;
    struct covered_time covered = find(&job, 1);
    assert_int_equal(covered.stretches.count, 2);
    assert_stretch(&covered, 0, -NS_MOST, 460);
    assert_stretch(&covered, 1, 660, NS_MOST);
    done(&job, &covered);
}

/* The lane counts more than its ring holds at the end: what came last is missing. */
static void the_end_can_be_missing(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 1, (struct dump_plan){.ring_records = RING});
    add_calls(&job, 0, 10, 0);
    dump_builder_lane(job.builders[0], 0)->head = 14;
    struct covered_time covered = find(&job, 1);
    assert_int_equal(covered.stretches.count, 1);
    assert_stretch(&covered, 0, -NS_MOST, 960);
    done(&job, &covered);
}

/* A rank without any record of its calls is left out, whatever it counted: the others can still be looked at. */
static void a_rank_without_records_is_silent(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 3, (struct dump_plan){.ring_records = RING});
    for (unsigned r = 0; r < 3; r++)
        add_calls(&job, r, 30, 0);
    memset(dump_builder_contents(job.builders[1], SECTION_RING, 0), 0, RING * sizeof(struct record));
    struct covered_time covered = find(&job, 3);
    assert_false(covered.whole);
    assert_true(covered.silent[1] && !covered.silent[0] && !covered.silent[2]);
    assert_int_equal(covered.stretches.count, 1);
    assert_stretch(&covered, 0, 1460, NS_MOST);
    done(&job, &covered);
}

static void mark(struct hand_job *job, unsigned rank, unsigned ticket, uint64_t at, int32_t level) {
    struct record *records = dump_builder_contents(job->builders[rank], SECTION_RING, 0);
    records[ticket] = (struct record){.commit = ticket + 1,
                                      .t0 = at,
                                      .t1 = at,
                                      .comm = COMM_NONE,
                                      .seq = SEQ_NONE,
                                      .tag = level,
                                      .kind = RECORD_MARK};
    dump_builder_header(job->builders[rank])->pauses += level == 0;
}

/* MPI_Pcontrol: 1 that ends nothing, 0 twice, 1, a step, and a pause that does not end. */
static void pauses_are_holes(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){.ring_records = RING});
    add_calls(&job, 0, RING, 0);
    add_calls(&job, 1, RING, 0);
    static const struct {
        uint64_t at;
        int32_t level;
    } marks[] = {{210, 1}, {310, 0}, {410, 0}, {510, 1}, {610, 100}, {710, 0}};
    for (unsigned i = 0; i < 6; i++)
        mark(&job, 1, i + 2, marks[i].at, marks[i].level);
    struct covered_time covered = find(&job, 2);
    assert_int_equal(covered.stretches.count, 2);
    assert_stretch(&covered, 0, -NS_MOST, 310);
    assert_stretch(&covered, 1, 510, NS_MOST);
    assert_false(covered.silent[1]);
    done(&job, &covered);
}

static void where_all_are_silent_nothing_is_covered(void **state) {
    (void)state;
    struct hand_job job;
    hand_job_make(&job, 2, (struct dump_plan){.ring_records = RING});
    for (unsigned r = 0; r < 2; r++) {
        add_calls(&job, r, 30, 0);
        memset(dump_builder_contents(job.builders[r], SECTION_RING, 0), 0, RING * sizeof(struct record));
    }
    struct covered_time covered = find(&job, 2);
    assert_int_equal(covered.stretches.count, 0);
    assert_int_equal(covered_time_at(&covered, -NS_MOST, NS_MOST), COVERED_NOWHERE);
    assert_int_equal(covered_time_within(&covered, 0, 1000), 0);
    done(&job, &covered);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_records_cover_all_time),
        cmocka_unit_test(the_shortest_ring_decides),
        cmocka_unit_test(windows_are_stretches_of_their_own),
        cmocka_unit_test(a_torn_slot_is_a_small_hole),
        cmocka_unit_test(the_end_can_be_missing),
        cmocka_unit_test(a_rank_without_records_is_silent),
        cmocka_unit_test(pauses_are_holes),
        cmocka_unit_test(where_all_are_silent_nothing_is_covered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
