/* SPDX-License-Identifier: Apache-2.0
 *
 * Who of several processes died first, from how they ended.
 * Lives here: ends as launchers and people cause them. Must not live here: processes (test/e2e/test_diagnose.py).
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/run/first_death.h"

enum { RANKS = 4, EXIT_1 = 1 << 8, NOT_SURE = 100 };

/* Rank r ended with status[r] as number order[r]; the dump of `said` tells of it, `alone` was seen to be alone. Who was
 * first, and NOT_SURE more where that may be chance. */
static size_t judge(const int *status, const unsigned *order, int said, int alone) {
    struct ending endings[RANKS];
    for (int r = 0; r < RANKS; r++)
        endings[r] = (struct ending){.end = r == said ? END_SAID : END_BAD,
                                     .order = order[r],
                                     .status = status[r],
                                     .pid = 100 + r,
                                     .alone = r == alone};
    bool sure;
    size_t first = first_death(endings, RANKS, &sure);
    return first < RANKS && !sure ? NOT_SURE + first : first;
}

/* Calls `check` with the four orders in which rank 2 comes first, second, third and last. */
static void in_any_order(void (*check)(const unsigned *order, unsigned place)) {
    static const unsigned orders[][RANKS] = {{2, 3, 1, 4}, {1, 3, 2, 4}, {1, 2, 3, 4}, {1, 2, 4, 3}};
    for (unsigned i = 0; i < 4; i++)
        check(orders[i], i + 1);
}

static void check_crash(const unsigned *order, unsigned place) {
    (void)place;
    const int killed[] = {SIGKILL, SIGKILL, SIGSEGV, SIGKILL}, mixed[] = {SIGKILL, EXIT_1, SIGBUS, SIGKILL};
    assert_int_equal(judge(killed, order, -1, -1), 2);
    assert_int_equal(judge(mixed, order, -1, -1), 2);
}

static void a_crash_tells_in_any_order(void **state) {
    (void)state;
    in_any_order(check_crash);
}

/* Others may abort or exit because the first is gone: these two are sure only where they came first. */
static void check_abort(const unsigned *order, unsigned place) {
    const int aborted[] = {SIGKILL, SIGKILL, SIGABRT, SIGKILL}, exited[] = {SIGTERM, SIGKILL, EXIT_1, SIGKILL};
    assert_int_equal(judge(aborted, order, -1, -1), place == 1 ? 2 : NOT_SURE);
    assert_int_equal(judge(exited, order, -1, -1), place == 1 ? 2 : RANKS);
}

static void an_abort_tells_where_it_was_first(void **state) {
    (void)state;
    in_any_order(check_abort);
}

/* Nobody can be told from the others, unless somebody saw. */
static void check_killed(const unsigned *order, unsigned place) {
    const int killed[] = {SIGKILL, SIGKILL, SIGKILL, SIGKILL}, asked[] = {SIGTERM, SIGTERM, SIGKILL, SIGTERM};
    assert_int_equal(judge(killed, order, -1, -1), NOT_SURE + (place == 1 ? 2 : 0));
    assert_int_equal(judge(killed, order, -1, 2), place == 1 ? 2 : NOT_SURE);
    assert_int_equal(judge(asked, order, -1, -1), place == 1 ? NOT_SURE + 2 : RANKS);
}

static void killed_all_together(void **state) {
    (void)state;
    in_any_order(check_killed);
}

/* Asked to end first: a crash on the way out is no cause. */
static void crashing_when_told_to_end(void **state) {
    (void)state;
    const int status[] = {SIGTERM, SIGTERM, SIGSEGV, SIGTERM};
    const unsigned order[] = {1, 2, 3, 4};
    assert_int_equal(judge(status, order, -1, -1), RANKS);
    assert_int_equal(judge(status, order, -1, 0), RANKS);
}

static void several_crash(void **state) {
    (void)state;
    const int same[] = {SIGKILL, SIGSEGV, SIGSEGV, SIGKILL}, other[] = {SIGABRT, SIGABRT, SIGSEGV, SIGABRT};
    const unsigned order[] = {3, 2, 1, 4};
    assert_int_equal(judge(same, order, -1, -1), NOT_SURE + 2);
    assert_int_equal(judge(other, order, -1, -1), 2);
}

/* MPI_Abort is in the dump, and what the launcher does then is a consequence. */
static void an_abort_that_was_said(void **state) {
    (void)state;
    const int status[] = {SIGKILL, EXIT_1, SIGKILL, SIGKILL};
    const unsigned order[] = {2, 1, 3, 4};
    assert_int_equal(judge(status, order, 1, -1), RANKS);
}

static void nobody_died(void **state) {
    (void)state;
    const struct ending endings[RANKS] = {{.pid = 1}, {.pid = 2}, {.pid = 3}, {.pid = 4}};
    bool sure;
    assert_int_equal(first_death(endings, RANKS, &sure), RANKS);
    assert_int_equal(first_death(endings, 0, &sure), 0);
}

/* A memory watcher asks one process to end, and the launcher kills the rest. */
static void one_that_was_asked_alone_may_be_the_first(void **state) {
    (void)state;
    const int one[] = {SIGKILL, SIGTERM, SIGKILL, SIGKILL}, two[] = {SIGKILL, SIGTERM, SIGTERM, SIGKILL};
    const int exits[] = {EXIT_1, SIGTERM, EXIT_1, EXIT_1};
    const unsigned order[] = {2, 1, 3, 4}, late[] = {1, 2, 3, 4};
    assert_int_equal(judge(one, order, -1, 1), NOT_SURE + 1);
    assert_int_equal(judge(one, order, -1, -1), NOT_SURE + 1);
    assert_int_equal(judge(one, late, -1, -1), NOT_SURE + 1); /* a busy host sees ends in any order */
    assert_int_equal(judge(two, order, -1, 1), RANKS);
    assert_int_equal(judge(exits, order, -1, 1), RANKS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_was_asked_alone_may_be_the_first),
        cmocka_unit_test(a_crash_tells_in_any_order),
        cmocka_unit_test(an_abort_tells_where_it_was_first),
        cmocka_unit_test(killed_all_together),
        cmocka_unit_test(crashing_when_told_to_end),
        cmocka_unit_test(several_crash),
        cmocka_unit_test(an_abort_that_was_said),
        cmocka_unit_test(nobody_died),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
