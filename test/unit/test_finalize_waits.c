/* SPDX-License-Identifier: Apache-2.0
 *
 * Who comes late to MPI_Finalize: from the headers of a few ranks.
 * Must not live here: the sentence (test/e2e/test_said.py), ranks that never come (test_hung_jobs.c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/waits/finalize_waits.h"
#include "test/unit/job_builder.h"

enum { RANKS = 4, NEVER = 0 };

/* When ranks come to MPI_Finalize and leave it. */
struct times {
    uint64_t came[RANKS], left[RANKS]; /* ms */
};

#define MS INT64_C(1000000)

static void find(struct hand_job *job, struct finalize_waits *waits, const struct times *times) {
    hand_job_make(job, RANKS, (struct dump_plan){0});
    for (unsigned r = 0; r < RANKS; r++) {
        dump_builder_header(job->builders[r])->finalise_ticks = times->came[r] * MS;
        dump_builder_header(job->builders[r])->finalised_ticks = times->left[r] * MS;
    }
    hand_job_open(job, RANKS);
    assert_true(finalize_waits_find(waits, &job->clock));
}

static void expect(const struct times *times, size_t late, int64_t waited_ms, size_t last) {
    struct hand_job job;
    struct finalize_waits waits;
    find(&job, &waits, times);
    assert_int_equal(waits.late, late);
    if (late > 0) {
        assert_int_equal(waits.count, RANKS);
        assert_int_equal(waits.waited_ns, waited_ms * MS);
        assert_int_equal(waits.dumps[RANKS - 1], last);
        assert_int_equal(waits.late_ns, to_common(&job.clock, last, times->came[waits.dumps[RANKS - late]] * MS));
    }
    finalize_waits_free(&waits);
    hand_job_free(&job);
}

static void who_comes_after_all_others_is_late(void **state) {
    (void)state;
    expect(&(struct times){{1000, 9000, 1300, 1200}, {9100, 9100, 9100, 9100}}, 1, 7700, 1);
    expect(&(struct times){{8000, 1100, 8500, 1200}, {9100, 9100, 9100, 9100}}, 2, 6800, 2);
}

/* One of four that was there long before the others did not make these late. */
static void most_are_not_late(void **state) {
    (void)state;
    expect(&(struct times){{1000, 8000, 8100, 8250}, {9100, 9100, 9100, 9100}}, 1, 150, 3);
}

/* MPI_Finalize of a library that waits for nobody; and a rank that was killed there, which may have waited. */
static void who_left_did_not_wait(void **state) {
    (void)state;
    expect(&(struct times){{1000, 9000, 1300, 1200}, {9100, 9100, 8900, 9100}}, 0, 0, 0);
    expect(&(struct times){{1000, 9000, 1300, 1200}, {9100, 9100, NEVER, 9100}}, 1, 7700, 1);
}

/* A tenth of a second: less is scheduling, or the end of the last step. */
static void a_tenth_of_a_second_is_late(void **state) {
    (void)state;
    expect(&(struct times){{1000, 1110, 1000, 1000}, {1200, 1200, 1200, 1200}}, 1, 110, 1);
    expect(&(struct times){{1000, 1090, 1000, 1000}, {1200, 1200, 1200, 1200}}, 0, 0, 0);
}

static void of_those_that_never_came_nothing_is_said(void **state) {
    (void)state;
    expect(&(struct times){{1000, 9000, 1300, NEVER}, {9100, 9100, 9100, NEVER}}, 0, 0, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_comes_after_all_others_is_late),
        cmocka_unit_test(most_are_not_late),
        cmocka_unit_test(who_left_did_not_wait),
        cmocka_unit_test(a_tenth_of_a_second_is_late),
        cmocka_unit_test(of_those_that_never_came_nothing_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
