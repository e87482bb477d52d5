/* SPDX-License-Identifier: Apache-2.0
 *
 * Stretches that are slow at regular distances: chances worked out by hand, and what does not count as such.
 */
#include <math.h>

#include "test/unit/leads_fixture.h"

/* Two ranks that take the same time, but for the rows listed, in which the first one takes longer. */
static struct hand_table *pauses_of_the_first(size_t rows, const size_t *pauses, size_t count) {
    struct hand_table *hand = make_table(1, rows, 2);
    for (size_t i = 0; i < 2 * rows; i++)
        hand->self_ns[i] = 10000000;
    for (size_t i = 0; i < count; i++)
        slow_down(hand, pauses[i], 0, 14);
    judge(hand);
    return hand;
}

static double choose(unsigned of, unsigned count) {
    double ways = 1;
    for (unsigned i = 0; i < count; i++)
        ways *= (double)(of - i) / (double)(i + 1);
    return ways;
}

/* Of one of two. Five pauses are its own with chance 2^-5. That the five highest of 107 places are these comes to one
 * in 107 over 5 for each of the 2 + ... + 26 stretches to begin with. */
static void pauses_that_come_regularly_count_for_more(void **state) {
    (void)state;
    static const size_t regular[] = {19, 39, 59, 79, 99}, at_random[] = {13, 39, 52, 88, 97};
    struct hand_table *hand = pauses_of_the_first(107, regular, 5);
    assert_true(fabs(hand->found[0].p / (8.0 * 350 / choose(107, 5)) - 1) < 1e-6);
    assert_int_equal(hand->found[0].every, 20);
    assert_int_equal(sure(hand), 1);
    free(hand);
    hand = pauses_of_the_first(107, at_random, 5);
    assert_true(fabs(hand->found[0].p * 32 - 1) < 1e-6);
    assert_int_equal(sure(hand), 0);
    free(hand);
}

/* Three pauses come regularly too often, four do not: one in 200 over 4 for each of the 2 + ... + 50. */
static void four_pauses_may_come_regularly(void **state) {
    (void)state;
    static const size_t regular[] = {19, 69, 119, 169};
    struct hand_table *hand = pauses_of_the_first(200, regular, 3);
    assert_true(fabs(hand->found[0].p * 8 - 1) < 1e-6);
    free(hand);
    hand = pauses_of_the_first(200, regular, 4);
    assert_true(fabs(hand->found[0].p / (8.0 * 1274 / choose(200, 4)) - 1) < 1e-6);
    free(hand);
}

/* One of two pauses in every 20th stretch, both pause now and then, the other for longer in all. */
static void pauses_at_random_do_not_hide_regular_ones(void **state) {
    (void)state;
    size_t found = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct hand_table *hand = make_table(seed, 240, 2);
        uint64_t random = 900 + seed;
        for (size_t i = 0; i < 240 * 2; i++)
            if (scene_uniform(&random) < (i % 2 ? 0.05 : 0.02))
                hand->self_ns[i] += (int64_t)(120e6 * scene_uniform(&random));
        for (size_t row = 19; row < 240; row += 20)
            slow_down(hand, row, 0, 7);
        judge(hand);
        found += hand->found[0].confidence >= CONFIDENCE_VERDICT && hand->found[0].every == 20 &&
                 fabs(hand->found[0].lead_ns / 3e6 - 1) < 0.15;
        assert_true(hand->found[1].confidence < CONFIDENCE_VERDICT);
        free(hand);
    }
    assert_in_range(found, 19, 20);
}

/* Every 20th stretch is ten times as long, and as uneven, for both, as where all evaluate: that says nothing of whose
 * the leads in them are. */
static void regular_stretches_of_all_accuse_nobody(void **state) {
    (void)state;
    size_t named = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct hand_table *hand = make_table(seed, 120, 2);
        for (size_t row = 19; row < 120; row += 20)
            for (size_t c = 0; c < 2; c++)
                slow_down(hand, row, c, 10);
        judge(hand);
        named += sure(hand) > 0;
        free(hand);
    }
    assert_in_range(named, 0, 4);
}

/* Each of two pauses in every 20th stretch, at its own time: they take turns. */
static void ranks_that_take_turns_are_not_named_as_regular(void **state) {
    (void)state;
    struct hand_table *hand = make_table(1, 240, 2);
    for (size_t row = 19; row < 240; row += 20) {
        slow_down(hand, row, 0, 7);
        slow_down(hand, row - 10, 1, 7);
    }
    judge(hand);
    assert_int_equal(sure(hand), 0);
    free(hand);
}

/* Two ranks, 100 rows: places from above, 1 to 100, of how much longer the first takes, and of what the second takes.
 * Row 19 and every 20th after it are the first five of the one; `beside` are the rows after those in the one,
 * `of_other` these rows in the other, each from there on; all other rows have any other place. */
static struct hand_table *placed_rows(size_t beside, size_t of_other) {
    struct hand_table *hand = make_table(1, 100, 2);
    size_t next_above = 6, next_other = 1, order[100] = {0};
    uint64_t random = 5;
    for (size_t i = 0; i < 100; i++) {
        size_t at = (size_t)(scene_uniform(&random) * (double)(i + 1));
        order[i] = order[at];
        order[at] = i;
    }
    for (size_t i = 0; i < 100; i++) {
        size_t row = order[i], k = row / 20;
        size_t above = row % 20 == 19 ? k + 1 : row % 20 == 18 ? beside + k : next_above;
        size_t other = row % 20 == 19 ? of_other + k : next_other;
        if (above == next_above)
            next_above = next_above + 1 == beside ? beside + 5 : next_above + 1;
        if (other == next_other)
            next_other = next_other + 1 == of_other ? of_other + 5 : next_other + 1;
        hand->self_ns[2 * row + 1] = 10000000 + (int64_t)(100 - other) * 1000;
        hand->self_ns[2 * row] = hand->self_ns[2 * row + 1] + (50 - (int64_t)above) * 100000;
    }
    judge(hand);
    return hand;
}

/* Places 0.17 to 0.21, or 0.20 to 0.24: (0.95)^5 / 5! = 0.0064, (1.1)^5 / 5! = 0.0134. */
static void what_is_slow_beside_regular_stretches_counts_with_them(void **state) {
    (void)state;
    for (size_t beside = 17; beside <= 20; beside += 3) {
        struct hand_table *hand = placed_rows(beside, 48);
        const struct rank_leads *found = &hand->found[0];
        assert_true(found->regular && found->every == 20 && found->slow_rows == 5);
        assert_true(fabs(found->longer_ns / (beside == 17 ? 47e5 + 31e5 : 47e5) - 1) < 1e-6);
        free(hand);
    }
}

/* Places 0.25 to 0.29 of what the other takes, or 0.29 to 0.33: 0.037 and 0.075. */
static void regular_stretches_that_are_long_for_all_count_as_leads(void **state) {
    (void)state;
    for (size_t of_other = 25; of_other <= 29; of_other += 4) {
        struct hand_table *hand = placed_rows(60, of_other);
        assert_int_equal(hand->found[0].regular, of_other == 29);
        free(hand);
    }
}

/* Two stretches a step, of which one holds the work, uneven for all. In every 20th step the first rank pauses, or all
 * evaluate, as uneven again. */
static struct hand_table *steps_of_two(uint64_t seed, double pause, double evaluation) {
    struct hand_table *hand = make_table(seed, 320, 2);
    uint64_t random = 5000 + seed;
    for (size_t row = 0; row < 320; row++)
        for (size_t c = 0; c < 2; c++) {
            double work = row % 40 == 38 ? evaluation : 1;
            hand->self_ns[row * 2 + c] = (int64_t)(work * 5e6 * exp(0.3 * scene_gauss(&random)));
            if (row % 2)
                hand->self_ns[row * 2 + c] = 1000 + (int64_t)(500 * scene_uniform(&random));
        }
    for (size_t row = 38; row < 320; row += 40)
        hand->self_ns[row * 2] += (int64_t)pause;
    judge(hand);
    return hand;
}

static void regular_pauses_are_told_beside_what_holds_work(void **state) {
    (void)state;
    size_t found = 0, accused = 0;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct hand_table *hand = steps_of_two(seed, 30e6, 1);
        found += seed <= 20 && hand->found[0].confidence >= CONFIDENCE_VERDICT && hand->found[0].every == 40;
        free(hand);
        hand = steps_of_two(seed, 0, seed % 2 ? 1 : 10);
        accused += sure(hand) > 0;
        free(hand);
    }
    assert_in_range(found, 19, 20);
    assert_in_range(accused, 0, 3);
}

/* What is done across the end of a stretch is in two of them, or three. */
static void stretches_in_a_row_count_as_one(void **state) {
    (void)state;
    for (size_t in_a_row = 2; in_a_row <= 3; in_a_row++) {
        struct hand_table *hand = make_table(3, 160, 8);
        for (size_t row = 17; row + in_a_row <= 160; row += 20)
            for (size_t k = 0; k < in_a_row; k++)
                slow_down(hand, row + k, 5, 5);
        judge(hand);
        const struct rank_leads *found = &hand->found[5];
        assert_int_equal(found->every, 20);
        assert_int_equal(found->slow_rows, 8);
        assert_true(fabs(found->longer_ns / (40e6 * (double)in_a_row) - 1) < 0.1);
        assert_true(fabs(found->lead_ns / (2e6 * (double)in_a_row) - 1) < 0.1);
        free(hand);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses_that_come_regularly_count_for_more),
        cmocka_unit_test(four_pauses_may_come_regularly),
        cmocka_unit_test(pauses_at_random_do_not_hide_regular_ones),
        cmocka_unit_test(regular_stretches_of_all_accuse_nobody),
        cmocka_unit_test(ranks_that_take_turns_are_not_named_as_regular),
        cmocka_unit_test(what_is_slow_beside_regular_stretches_counts_with_them),
        cmocka_unit_test(regular_stretches_that_are_long_for_all_count_as_leads),
        cmocka_unit_test(regular_pauses_are_told_beside_what_holds_work),
        cmocka_unit_test(stretches_in_a_row_count_as_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
