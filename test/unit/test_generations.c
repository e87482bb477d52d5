/* SPDX-License-Identifier: Apache-2.0
 *
 * What became of a rank's place when an elastic job was started anew (job/generations.h).
 * Must not live here: telling starts apart (test_job.c), real restarts (test/e2e/test_generations.py).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/job/generations.h"

enum { RANKS_MAX = 16 };

/* Two starts: a letter per rank, its host. */
static void follow(struct generation_row rows[2], const char *before, const char *now) {
    static struct dump dumps[RANKS_MAX];
    static struct dump *pointers[RANKS_MAX];
    static bool duplicate[RANKS_MAX];
    static char hosts[RANKS_MAX][2];
    static struct listed_job jobs[2];
    size_t first = strlen(before), count = first + strlen(now);
    for (size_t i = 0; i < count; i++) {
        hosts[i][0] = i < first ? before[i] : now[i - first];
        dumps[i] = (struct dump){.host = hosts[i]};
        pointers[i] = &dumps[i];
    }
    const struct dump_set set = {.dumps = pointers, .duplicate = duplicate, .count = count};
    jobs[0] = (struct listed_job){.first = 0, .count = first};
    jobs[1] = (struct listed_job){.first = first, .count = count - first};
    rows[0].listed = &jobs[0];
    rows[1].listed = &jobs[1];
    generations_follow(rows, 2, &set);
}

#define NOBODY     ((struct generation_rank){-1, NULL, 0})
#define RANK(R, H) ((struct generation_rank){R, H, 0})

static void test_places(void **state) {
    static const struct {
        const char *before, *now;
        struct generation_rank slow, dead;
        enum rank_after slow_after, dead_after;
    } cases[] = {
        {"aabb", "aabb", RANK(2, "b"), NOBODY, AFTER_STAYED, AFTER_NOT_KNOWN},
        {"aabb", "aa", RANK(2, "b"), NOBODY, AFTER_LEFT, AFTER_NOT_KNOWN},
        {"aabb", "aacc", RANK(-1, "b"), NOBODY, AFTER_LEFT, AFTER_NOT_KNOWN},
        {"aabb", "aab", RANK(2, "b"), NOBODY, AFTER_NOT_KNOWN, AFTER_NOT_KNOWN}, /* that one, or rank 3 */
        {"aabb", "aab", RANK(2, "b"), RANK(3, "b"), AFTER_STAYED, AFTER_LEFT},
        {"aabb", "aab", RANK(2, "b"), RANK(2, "b"), AFTER_LEFT, AFTER_LEFT},
        {"aabbb", "aab", RANK(2, "b"), RANK(3, "b"), AFTER_NOT_KNOWN, AFTER_LEFT}, /* two went, of which one is known */
        {"aabb", "aab", RANK(-1, "b"), RANK(3, "b"), AFTER_NOT_KNOWN, AFTER_LEFT}, /* a half of the host */
        {"aabb", "aabb", RANK(0, "a"), RANK(3, "b"), AFTER_STAYED, AFTER_REPLACED},
        {"aabb", "aabb", RANK(3, "b"), RANK(3, "b"), AFTER_REPLACED, AFTER_REPLACED},
        {"aabb", "aabbb", RANK(3, "b"), RANK(1, "a"), AFTER_STAYED, AFTER_REPLACED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct generation_row rows[2] = {{.slow = cases[i].slow, .dead = cases[i].dead},
                                         {.slow = cases[i].slow, .dead = NOBODY}};
        follow(rows, cases[i].before, cases[i].now);
        assert_int_equal(rows[0].slow.after, cases[i].slow_after);
        assert_int_equal(rows[0].dead.after, cases[i].dead_after);
        assert_int_equal(rows[1].slow.after, AFTER_NOT_KNOWN); /* there is no next one */
    }
}

static void test_programs(void **state) {
    (void)state;
    assert_true(generations_are_alike("./train --new", "./train --resume 3"));
    assert_true(generations_are_alike("python3 train.py", "python3 train.py --resume"));
    assert_false(generations_are_alike("python3 train.py", "python3 plot.py"));
    assert_false(generations_are_alike("./train", "./trainer"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
