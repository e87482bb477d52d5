/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/stragglers/pauses.h"

enum { RANKS = 3, BINS = 64, MS = 1000000 };

/* The third rank's stretches, of 10 ms like those of the others but for what a test adds. */
struct hand {
    int64_t self_ns[RANKS][BINS];
    uint32_t calls[BINS], group_of[RANKS];
    struct rank_times times[RANKS];
    struct match_directory directory;
    struct straggler_analysis analysis;
};

static void hand_make(struct hand *hand) {
    memset(hand, 0, sizeof *hand);
    for (unsigned r = 0; r < RANKS; r++) {
        for (unsigned i = 0; i < BINS; i++)
            hand->self_ns[r][i] = 10 * MS;
        hand->times[r].bins = (struct rank_bins){.count = BINS, .self_ns = hand->self_ns[r], .calls = hand->calls};
    }
    for (unsigned i = 0; i < BINS; i++)
        hand->calls[i] = 1;
    hand->directory.dump_count = RANKS;
    hand->analysis.directory = &hand->directory;
    hand->analysis.times = hand->times;
    hand->analysis.comparison_groups.group_of = hand->group_of;
}

static struct pauses find(const struct hand *hand) {
    bool no_memory = false;
    struct pauses pauses = pauses_find(&hand->analysis, 2, &no_memory);
    assert_false(no_memory);
    return pauses;
}

static void up_to_nine_pauses_are_a_few(void **state) {
    (void)state;
    for (unsigned times = 0; times <= 10; times++) {
        struct hand hand;
        hand_make(&hand);
        for (unsigned i = 0; i < times; i++)
            hand.self_ns[2][6 * i] += 200 * MS;
        struct pauses pauses = find(&hand);
        assert_int_equal(pauses.count, times <= 9 ? times : 0);
        assert_int_equal(pauses.in_all_ns, times <= 9 ? (int64_t)times * 200 * MS : 0);
    }
}

/* As a first step in which a program is compiled: a tenth of the longest goes on with it, less does not. */
static void stretches_in_a_row_are_one_pause(void **state) {
    (void)state;
    struct hand hand;
    hand_make(&hand);
    hand.self_ns[2][20] += 200 * MS;
    hand.self_ns[2][21] += 150 * MS;
    hand.self_ns[2][22] += 21 * MS;
    hand.self_ns[2][23] += 19 * MS;
    struct pauses pauses = find(&hand);
    assert_int_equal(pauses.count, 1);
    assert_int_equal(pauses.in_all_ns, 371 * MS);
}

/* Half as long as the longest is another one, a third is none; what is none may be half of all at most. */
static void what_is_much_shorter_is_no_pause(void **state) {
    (void)state;
    struct hand hand;
    hand_make(&hand);
    hand.self_ns[2][10] += 200 * MS;
    hand.self_ns[2][20] += 101 * MS;
    hand.self_ns[2][30] += 99 * MS;
    assert_int_equal(find(&hand).count, 2);
    assert_int_equal(find(&hand).in_all_ns, 301 * MS);
    for (unsigned i = 40; i < 42; i++)
        hand.self_ns[2][2 * i - 40] += 99 * MS;
    assert_int_equal(find(&hand).count, 2); /* 301 of 598 ms */
    hand.self_ns[2][50] += 10 * MS;
    assert_int_equal(find(&hand).count, 0);
}

/* Nor is what the others did as well, or what nobody can be compared by. */
static void what_its_peers_do_is_no_pause(void **state) {
    (void)state;
    struct hand hand;
    hand_make(&hand);
    for (unsigned r = 0; r < RANKS; r++)
        hand.self_ns[r][5] += 500 * MS;
    assert_int_equal(find(&hand).count, 0);
    hand.self_ns[2][40] += 200 * MS;
    assert_int_equal(find(&hand).count, 1);
    hand.group_of[2] = NOWHERE;
    assert_int_equal(find(&hand).count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(up_to_nine_pauses_are_a_few),
        cmocka_unit_test(stretches_in_a_row_are_one_pause),
        cmocka_unit_test(what_is_much_shorter_is_no_pause),
        cmocka_unit_test(what_its_peers_do_is_no_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
