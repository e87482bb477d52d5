/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose the leads are: tables of self times with a known answer, and the limits from both sides.
 * Must not live here: whole jobs (test_message_jobs.c, test_verdicts.c).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/base/significance.h"
#include "analyzer/leads/leads.h"
#include "analyzer/leads/slow_part.h"
#include "analyzer/leads/slow_stretches.h"
#include "analyzer/stragglers/verdicts.h"
#include "test/unit/leads_fixture.h"

/* Seven times as long in every 20th of 160 stretches: 1.3 times as long on average, and never in most of them. */
static void a_rank_slow_now_and_then_is_found(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct hand_table *hand = make_table(seed, 160, 8);
        for (size_t row = 19; row < 160; row += 20)
            slow_down(hand, row, 5, 7);
        judge(hand);
        assert_int_equal(sure(hand), 1);
        const struct rank_leads *found = &hand->found[5];
        assert_true(found->confidence >= CONFIDENCE_VERDICT);
        assert_int_equal(found->rows, 160);
        assert_int_equal(found->slow_rows, 8);
        assert_int_equal(found->every, 20);
        assert_true(fabs(found->slow_ratio / 7 - 1) < 0.2 && fabs(found->longer_ns / 60e6 - 1) < 0.2);
        assert_true(fabs(found->self_ratio / 1.3 - 1) < 0.03);
        assert_true(fabs(found->lead_ns / (60e6 / 20) - 1) < 0.1);
        free(hand);
    }
}

static void a_rank_slow_in_the_second_half_is_found(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct hand_table *hand = make_table(seed, 160, 8);
        for (size_t row = 80; row < 160; row++)
            slow_down(hand, row, 2, 1.3);
        judge(hand);
        assert_int_equal(sure(hand), 1);
        assert_true(hand->found[2].phase);
        assert_in_range(hand->found[2].slow_rows, 76, 84);
        assert_in_range(hand->found[2].first, 475, 525);
        assert_in_range(hand->found[2].last, 975, 1000);
        assert_true(fabs(hand->found[2].slow_ratio / 1.3 - 1) < 0.03);
        assert_true(fabs(hand->found[2].usual_ratio - 1) < 0.03);
        assert_int_equal(hand->found[2].every, 0);
        free(hand);
    }
}

/* Every other stretch is one of hardly any work, as between two collectives in a row. */
static struct hand_table *make_table_of_pairs(uint64_t seed) {
    struct hand_table *hand = make_table(seed, 160, 8);
    for (size_t row = 1; row < 160; row += 2)
        for (size_t c = 0; c < 8; c++)
            slow_down(hand, row, c, 0.001);
    return hand;
}

static void stretches_without_work_do_not_say_when_a_rank_is_slow(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct hand_table *hand = make_table_of_pairs(seed);
        for (size_t row = 0; row < 160; row++)
            slow_down(hand, row, 2, row % 2 == 0 || row < 80 ? 1.3 : 1);
        judge(hand);
        assert_false(hand->found[2].phase);
        assert_int_equal(hand->found[2].every, 2);
        assert_true(fabs(hand->found[2].usual_ratio / 1.3 - 1) < 0.03);
        free(hand);
        hand = make_table_of_pairs(seed);
        for (size_t row = 80; row < 160; row += 2)
            slow_down(hand, row, 2, 1.3);
        judge(hand);
        assert_true(hand->found[2].phase);
        assert_in_range(hand->found[2].first, 450, 550);
        assert_true(fabs(hand->found[2].usual_ratio - 1) < 0.03);
        free(hand);
    }
}

/* Tails of every weight, each value anybody's by chance: 400 tables, at most 4 of which name somebody. */
static void chance_names_nobody(void **state) {
    (void)state;
    size_t named = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct hand_table *hand = make_table(seed, 100 + seed % 100, 2 + seed % 14);
        uint64_t random = seed * 7919;
        for (size_t i = 0; i < hand->table.rows * hand->table.columns; i++)
            if (scene_uniform(&random) < 0.02) /* Pareto's tail: its variance is infinite */
                hand->self_ns[i] += (int64_t)(20e6 * pow(1 - scene_uniform(&random), -0.7));
        judge(hand);
        named += sure(hand) > 0;
        free(hand);
    }
    assert_in_range(named, 0, 4);
}

/* Each rank's speed wanders, half forgotten after `memory` stretches. With 8 ranks some rank leads for a while. */
static void speeds_that_wander_name_nobody(void **state) {
    (void)state;
    size_t named = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct hand_table *hand = make_table(seed, 400, 8);
        uint64_t random = seed * 104729;
        for (size_t c = 0; c < 8; c++) {
            double speed = 0.1 * scene_gauss(&random), kept = 0.95;
            for (size_t row = 0; row < 400; row++) {
                speed = kept * speed + 0.1 * sqrt(1 - kept * kept) * scene_gauss(&random);
                slow_down(hand, row, c, exp(speed));
            }
        }
        judge(hand);
        named += sure(hand) > 0;
        free(hand);
    }
    assert_in_range(named, 0, 4);
}

/* Of one huge lead nobody is to blame, nor of three among eight ranks; of five it is somebody. */
static void several_leads_make_a_culprit(void **state) {
    (void)state;
    static const struct {
        size_t leads;
        bool named;
    } cases[] = {{1, false}, {2, false}, {5, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hand_table *hand = make_table(3, 160, 8);
        for (size_t k = 0; k < cases[i].leads; k++)
            slow_down(hand, 7 + 29 * k, 1, 30);
        judge(hand);
        assert_int_equal(sure(hand), cases[i].named);
        free(hand);
    }
}

static void fewer_than_sixteen_stretches_prove_nothing(void **state) {
    (void)state;
    for (size_t rows = 15; rows <= 16; rows++) {
        struct hand_table *hand = make_table(5, rows, 8);
        for (size_t row = 0; row < rows; row++)
            slow_down(hand, row, 3, 2);
        judge(hand);
        assert_int_equal(sure(hand), rows == 16);
        free(hand);
    }
}

/* Eight slow stretches, of whose seven distances so many are 20: from 70 % on they are said to come regularly. */
static void slow_stretches_that_are_alike_apart_come_regularly(void **state) {
    (void)state;
    for (size_t equal = 4; equal <= 5; equal++) {
        struct hand_table *hand = make_table(9, 300, 8);
        size_t row = 10;
        for (size_t k = 0; k < 8; k++) {
            slow_down(hand, row, 6, 9);
            row += k < equal ? 20 : 21 + 3 * k;
        }
        judge(hand);
        assert_int_equal(hand->found[6].slow_rows, 8);
        assert_int_equal(hand->found[6].every, equal == 5 ? 20 : 0);
        free(hand);
    }
}

/* Noise with heavy tails, in which the highest times say nothing of when a rank is slow. */
static void heavy_tails_do_not_hide_a_phase(void **state) {
    (void)state;
    unsigned phases = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct hand_table *hand = make_table(seed, 200, 6);
        uint64_t random = seed * 613;
        for (size_t row = 0; row < 200; row++)
            for (size_t c = 0; c < 6; c++)
                slow_down(hand, row, c, exp(0.3 * scene_gauss(&random)) * (c == 4 && row >= 120 ? 1.5 : 1));
        judge(hand);
        const struct rank_leads *found = &hand->found[4];
        phases += found->phase && found->first >= 500 && found->first <= 700 && found->last >= 900;
        free(hand);
    }
    assert_in_range(phases, 18, 20);
}

/* A rank that is as slow as a slow rank is at least, all the while, and one that is for a quarter of the run: its
 * places stand about six deviations higher there. */
static void a_phase_stands_four_deviations_higher(void **state) {
    (void)state;
    for (unsigned more = 0; more < 2; more++) {
        unsigned phases = 0;
        for (uint64_t seed = 1; seed <= 20; seed++) {
            struct hand_table *hand = make_table(seed, 400, 4);
            for (size_t row = 0; row < 400; row++)
                slow_down(hand, row, 1, !more ? SLOW_RATIO : row >= 100 && row < 200 ? 1.08 : 1.04);
            judge(hand);
            phases += hand->found[1].phase;
            free(hand);
        }
        assert_in_range(phases, more ? 17 : 0, more ? 20 : 1);
    }
}

/* Of a long run samples of 64 stretches are on record, one of each 1024: every 24th stretch is slow all the same. */
static void slow_stretches_of_samples_come_regularly(void **state) {
    (void)state;
    struct hand_table *hand = make_table(31, 512, 8);
    size_t slow = 0;
    for (size_t row = 0; row < 512; row++) {
        hand->numbers[row] = (uint32_t)(row / 64 * 1024 + row % 64);
        if (hand->numbers[row] % 24 == 23) {
            slow_down(hand, row, 5, 4);
            slow++;
        }
    }
    judge(hand);
    assert_int_equal(hand->found[5].slow_rows, slow);
    assert_int_equal(hand->found[5].every, 24);
    free(hand);
}

/* A rank whose speed wanders half as much again is ahead more often; its distance from its own median says so. */
static void ranks_of_different_work_are_levelled(void **state) {
    (void)state;
    for (unsigned level = 0; level < 2; level++) {
        struct hand_table *hand = make_table(41, 200, 4);
        for (size_t row = 0; row < 200; row++)
            slow_down(hand, row, 2, 3); /* three times the work, three times the noise */
        hand->table.level = level == 1;
        judge(hand);
        assert_int_equal(sure(hand), level == 0);
        for (size_t row = 19; row < 200; row += 20)
            slow_down(hand, row, 1, 7);
        judge(hand);
        assert_true(hand->found[1].confidence >= CONFIDENCE_VERDICT);
        assert_int_equal(sure(hand), level == 1 ? 1 : 2);
        if (level == 1)
            assert_true(fabs(hand->found[1].lead_ns / (60e6 / 20) - 1) < 0.1);
        free(hand);
    }
}

/* Speeds wander, and a rank takes seven times as long in every 25th stretch: these are far enough apart. */
static void slow_stretches_far_apart_count_although_neighbours_are_alike(void **state) {
    (void)state;
    static const struct {
        double kept;
        size_t rows;
    } cases[] = {{0.8, 400}, {0.4, 250}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned found = 0;
        for (uint64_t seed = 1; seed <= 40; seed++) {
            struct hand_table *hand = make_table(seed, cases[i].rows, 4);
            uint64_t random = seed * 15485863;
            for (size_t c = 0; c < 4; c++) {
                double speed = 0.1 * scene_gauss(&random), kept = cases[i].kept;
                for (size_t row = 0; row < cases[i].rows; row++) {
                    speed = kept * speed + 0.1 * sqrt(1 - kept * kept) * scene_gauss(&random);
                    slow_down(hand, row, c, exp(speed) * (c == 3 && row % 25 == 24 ? 7 : 1));
                }
            }
            judge(hand);
            found += hand->found[3].confidence >= CONFIDENCE_VERDICT && sure(hand) == 1;
            free(hand);
        }
        assert_in_range(found, 35, 40);
    }
}

/* A rank is behind for as long as another process has its processor, whatever number of stretches that holds: what lies
 * in one time slice is one observation. Slices of 24 stretches prove nothing where 24 are one, and 8 of 8 do. */
static void stretches_within_a_time_slice_count_once(void **state) {
    (void)state;
    static const struct {
        uint32_t at_once;
        size_t rows;
        bool sure;
    } cases[] = {{1, 72, true}, {24, 72, false}, {24, 7 * 24, false}, {24, 8 * 24, true}, {48, 8 * 24, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hand_table *hand = make_table(31, cases[i].rows, 4);
        hand->table.at_once = cases[i].at_once;
        for (size_t row = 0; row < cases[i].rows; row += 3)
            slow_down(hand, row, 2, 1.5);
        judge(hand);
        assert_int_equal(sure(hand), cases[i].sure);
        assert_true(!cases[i].sure || hand->found[2].slow_rows == cases[i].rows / 3);
        free(hand);
    }
}

/* Whatever it is slower by in a part of the run, a rank that is slow in the rest of it, too, is slow all the while. */
static void a_rank_slow_in_the_rest_too_has_no_phase(void **state) {
    (void)state;
    for (unsigned rest = 0; rest < 2; rest++)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            struct hand_table *hand = make_table(seed, 400, 4);
            for (size_t row = 0; row < 400; row++)
                slow_down(hand, row, 1,
                          row >= 100 && row < 200 ? 1.5
                          : rest                  ? 2 * SLOW_RATIO - 1
                                                  : SLOW_RATIO / 2 + 0.5);
            judge(hand);
            assert_int_equal(hand->found[1].phase, !rest);
            free(hand);
        }
}

/* A part of the run is an eighth of it at least: 60 of 400 stretches are one, of 36 it is the eighth around them. */
static void a_phase_is_an_eighth_of_the_run(void **state) {
    (void)state;
    static const struct { size_t slow, least, most; } cases[] = {{36, 51, 56}, {60, 57, 64}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hand_table *hand = make_table(23, 400, 4);
        for (size_t row = 150; row < 150 + cases[i].slow; row++)
            slow_down(hand, row, 1, 2);
        judge(hand);
        assert_true(hand->found[1].phase);
        assert_in_range(hand->found[1].slow_rows, cases[i].least, cases[i].most);
        free(hand);
    }
}

/* This test is one of two: a chance of 1 in 200 is where claims begin. */
static void a_chance_counts_twice(void **state) {
    (void)state;
    static const struct {
        double p;
        bool claimed;
    } cases[] = {{0.0045, true}, {0.0055, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rank_leads leads = {.p = cases[i].p}, *list[] = {&leads};
        assert_true(leads_correct(list, 1));
        assert_int_equal(leads.confidence >= CONFIDENCE_VERDICT, cases[i].claimed);
    }
}

/* Two ranks: of 16 stretches the first is ahead by as much in all but two, and of `long_rows` more, which take `times`
 * as long, in none. */
static struct hand_table *fourteen_of_sixteen(size_t long_rows, int64_t times) {
    struct hand_table *hand = make_table(1, 16 + long_rows, 2);
    for (size_t row = 0; row < hand->table.rows; row++) {
        bool is_long = row >= 16, other = row == 4 || row == 11 || is_long;
        hand->self_ns[2 * row + other] = 20000000 * (is_long ? times : 1);
        hand->self_ns[2 * row + !other] = 10000000 * (is_long ? times : 1);
    }
    judge(hand);
    return hand;
}

/* 14 or more of 16, each with chance 1/2: (1 + 16 + 120) / 2^16, where Chernoff's bound is three times that. */
static void a_chance_is_exact(void **state) {
    (void)state;
    struct hand_table *hand = fourteen_of_sixteen(0, 1);
    assert_true(fabs(hand->found[0].p / (137.0 / 65536) - 1) < 1e-6);
    free(hand);
}

/* Beside two stretches that are a hundred times as long, as of a warm-up, the usual ones count, at twice the chance. */
static void usual_stretches_count_twice(void **state) {
    (void)state;
    struct hand_table *hand = fourteen_of_sixteen(2, 100);
    assert_true(fabs(hand->found[0].p / (2 * 137.0 / 65536) - 1) < 1e-6);
    assert_int_equal(hand->found[0].rows, 18);
    free(hand);
}

/* Two stretches of 18 that are `times` as long: three times leaves 14.2 effective ones, more than half of them, twelve
 * times 5.3, and one of them beside 16 others 4.9. */
static void long_stretches_are_left_out_where_few_are_most(void **state) {
    (void)state;
    static const struct {
        int64_t times;
        bool left_out;
    } cases[] = {{3, false}, {12, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hand_table *hand = fourteen_of_sixteen(2, cases[i].times);
        assert_int_equal(hand->found[0].p < 0.01, cases[i].left_out);
        free(hand);
    }
}

/* The second of two takes 3 % longer all the while, and pauses once, for 150 stretches: what it is slow by is told, and
 * counted, without the pause, which may have been anybody's. */
static void a_pause_is_not_what_a_steady_rank_costs(void **state) {
    (void)state;
    struct hand_table *hand = make_table(1, 240, 2);
    for (size_t row = 0; row < 240; row++)
        slow_down(hand, row, 1, 1.03);
    slow_down(hand, 120, 1, 150);
    judge(hand);
    const struct rank_leads *found = &hand->found[1];
    assert_true(found->p < 1e-3 && found->rows == 240);
    assert_true(found->slow_ratio < 1.2 && found->lead_ns < 0.03 * 1e7);
    assert_true(found->self_ratio > 1.6); /* of all stretches, with the pause */
    free(hand);
}

/* Ten pauses of one of four, each its own, and 3 % all the while: the pauses are beyond doubt, and what it is about. */
static void pauses_beyond_doubt_are_what_a_steady_rank_costs(void **state) {
    (void)state;
    struct hand_table *hand = make_table(1, 240, 4);
    for (size_t row = 0; row < 240; row++)
        slow_down(hand, row, 1, 1.03);
    for (size_t row = 15; row < 240; row += 19 + row % 7)
        slow_down(hand, row, 1, 100);
    judge(hand);
    const struct rank_leads *found = &hand->found[1];
    assert_true(found->confidence >= CONFIDENCE_VERDICT && found->lead_ns > 30e6);
    assert_in_range(found->slow_rows, 9, 12);
    free(hand);
}

/* The same in the second half alone, 8 % longer there: it is slow, and costs what that is. */
static void a_pause_is_not_what_a_slow_part_costs(void **state) {
    (void)state;
    struct hand_table *hand = make_table(1, 240, 2);
    for (size_t row = 120; row < 240; row++)
        slow_down(hand, row, 1, 1.08);
    slow_down(hand, 180, 1, 15);
    judge(hand);
    const struct rank_leads *found = &hand->found[1];
    assert_true(found->p < 1e-4 && found->phase);
    assert_true(found->lead_ns > 0.02 * 1e7 && found->lead_ns < 0.06 * 1e7);
    free(hand);
}

/* One of two takes 1.2 times as long in the second half, where the other pauses for longer than all of that: it costs
 * what it leads by between these pauses: 0.92 ms, of which noise and the pauses hide less than half. */
static void pauses_of_others_do_not_pay_for_a_slow_part(void **state) {
    (void)state;
    struct hand_table *hand = make_table(1, 240, 2);
    for (size_t row = 120; row < 240; row++)
        slow_down(hand, row, 1, 1.2);
    for (size_t row = 125; row < 240; row += 9 + row % 5)
        slow_down(hand, row, 0, 6);
    judge(hand);
    const struct rank_leads *found = &hand->found[1];
    assert_true(found->confidence >= CONFIDENCE_VERDICT && found->phase);
    assert_true(found->lead_ns > 0.5e6 && found->lead_ns < 1.0e6);
    free(hand);
}

/* Seven times as long in eight stretches, and once thirty times: nine stretches are what it is about. */
static void a_pause_hides_no_slow_stretches(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct hand_table *hand = make_table(seed, 160, 4);
        for (size_t row = 15; row < 160; row += 17 + row % 7)
            slow_down(hand, row, 2, 7);
        slow_down(hand, 77, 2, 30);
        judge(hand);
        assert_true(hand->found[2].confidence >= CONFIDENCE_VERDICT && hand->found[2].lead_ns > 0.4 * 1e7);
        assert_int_equal(sure(hand), 1);
        free(hand);
    }
}

/* Of eight ranks one pauses for 10 stretches, and for `second` tenths of that, others three times for `others`. Twice
 * is due to one of 64 ranks, as long as the second is half as long, and those of the others are less than that. */
static void pauses_half_as_long_count_with_the_longest(void **state) {
    (void)state;
    static const struct {
        double second, others;
        bool its_own;
    } cases[] = {{6, 3, true}, {4, 0.1, false}, {6, 5.5, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hand_table *hand = make_table(1, 240, 8);
        for (size_t k = 0; k < 240 * 8; k++)
            hand->self_ns[k] = 10000000;
        slow_down(hand, 10, 0, 11);
        slow_down(hand, 81, 0, 1 + cases[i].second);
        for (size_t k = 1; k <= 3; k++)
            slow_down(hand, 40 + 50 * k, k, 1 + cases[i].others);
        judge(hand);
        assert_int_equal(hand->found[0].p < 0.03, cases[i].its_own);
        free(hand);
    }
}

/* The second of two ranks takes 1.3 times as long in the second half, and what a stretch takes resembles the one
 * before: four fifths of how far it is from usual remain. */
static struct hand_table *slow_in_the_second_half(uint64_t seed) {
    struct hand_table *hand = make_table(seed, 400, 2);
    uint64_t random = 500 + seed;
    for (size_t c = 0; c < 2; c++) {
        double kept = scene_gauss(&random);
        for (size_t row = 0; row < 400; row++) {
            kept = 0.8 * kept + 0.6 * scene_gauss(&random);
            hand->self_ns[2 * row + c] = (int64_t)(1e7 * (1 + 0.05 * kept) * (c == 1 && row >= 200 ? 1.3 : 1));
        }
    }
    judge(hand);
    return hand;
}

static void one_of_two_slow_in_the_second_half_is_found(void **state) {
    (void)state;
    unsigned found = 0, others = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct hand_table *hand = slow_in_the_second_half(seed);
        found += hand->found[1].confidence >= CONFIDENCE_VERDICT && hand->found[1].phase &&
                 abs((int)hand->found[1].first - 500) < 50;
        others += hand->found[0].confidence >= CONFIDENCE_VERDICT;
        free(hand);
    }
    assert_in_range(found, 36, 40);
    assert_int_equal(others, 0);
}

static double chance_of_a_part(const struct hand_table *hand, size_t column) {
    size_t rows = hand->table.rows, n = hand->table.columns;
    double *self = calloc(rows * n, sizeof *self), *places = calloc(rows * n, sizeof *places);
    struct slow_parts parts;
    assert_true(self && places);
    for (size_t i = 0; i < rows * n; i++) {
        self[i] = (double)hand->self_ns[i];
        for (size_t c = 0; c < n; c++)
            places[i] += hand->self_ns[i / n * n + c] < hand->self_ns[i];
    }
    assert_true(slow_parts_find(&parts, self, places, rows, n, false));
    double chance = slow_parts_chance(&parts, column);
    slow_parts_free(&parts);
    free(self);
    free(places);
    return chance;
}

/* Of two ranks that are like themselves from stretch to stretch only the part tells. */
static void a_part_counts_eight_times(void **state) {
    (void)state;
    struct hand_table *hand = slow_in_the_second_half(1);
    double chance = chance_of_a_part(hand, 1);
    assert_true(chance > 0 && chance < 1e-4);
    assert_true(fabs(hand->found[1].p / (8 * chance) - 1) < 1e-9);
    free(hand);
}

/* Two ranks with seven slow stretches each: of all leads neither has more than chance may give one of six. */
static void two_ranks_do_not_hide_each_other(void **state) {
    (void)state;
    unsigned both = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct hand_table *hand = make_table(seed, 160, 6);
        for (size_t row = 19; row < 160; row += 21)
            slow_down(hand, row, 1, 7);
        for (size_t row = 12; row < 160; row += 23)
            slow_down(hand, row, 4, 7);
        judge(hand);
        const struct rank_leads *one = &hand->found[1], *other = &hand->found[4];
        both += sure(hand) == 2 && one->confidence >= CONFIDENCE_VERDICT && other->confidence >= CONFIDENCE_VERDICT &&
                one->every == 21 && other->every == 23;
        free(hand);
    }
    assert_in_range(both, 18, 20);
}

/* Half of the ranks and the other half take turns, so that two are slow in each stretch: nobody is all the while. */
static void two_at_a_time_that_take_turns_are_not_named(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct hand_table *hand = make_table(seed, 160, 8);
        for (size_t row = 0; row < 160; row++) {
            slow_down(hand, row, row % 4, 5);
            slow_down(hand, row, row % 4 + 4, 5);
        }
        judge(hand);
        assert_int_equal(sure(hand), 0);
        free(hand);
    }
}

/* That a rank was compared with all but one counts twice more. Of two with five leads each in five (alone 4^-5) and
 * with four each in seven (6^-4) the former is just sure, the latter is just not. */
static void a_rank_left_out_counts_twice(void **state) {
    (void)state;
    static const struct { size_t columns, leads, sure; } cases[] = {{5, 5, 2}, {7, 4, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hand_table *hand = make_table(47, 160, cases[i].columns);
        for (size_t k = 0; k < 160 * cases[i].columns; k++) /* of the noise a thousandth, so that leads alone count */
            hand->self_ns[k] = 10000000 + (hand->self_ns[k] - 10000000) / 1000;
        for (size_t k = 0; k < cases[i].leads; k++) {
            slow_down(hand, 5 + 31 * k, 1, 7);
            slow_down(hand, 20 + 31 * k, 3, 7);
        }
        judge(hand);
        assert_int_equal(sure(hand), cases[i].sure);
        free(hand);
    }
}

/* Two of eight, seven times as long in the same ten of 160 stretches: none of them is ahead of the other. */
static void two_ranks_slow_in_the_same_stretches_are_found(void **state) {
    (void)state;
    size_t both = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct hand_table *hand = make_table(seed, 160, 8);
        for (size_t row = 9; row < 160; row += 16) {
            slow_down(hand, row, 1, 7);
            slow_down(hand, row, 6, 7);
        }
        judge(hand);
        both += hand->found[1].confidence >= CONFIDENCE_VERDICT && hand->found[6].confidence >= CONFIDENCE_VERDICT;
        assert_in_range(sure(hand), 0, 2);
        assert_int_equal(hand->found[1].slow_rows, 10);
        assert_true(fabs(hand->found[6].lead_ns / (60e6 / 16) - 1) < 0.1);
        free(hand);
    }
    assert_in_range(both, 48, 50);
}

/* ... and 1.4 times as long in all of the second half, which the six others have nothing to do with. */
static void two_ranks_slow_in_the_second_half_are_found(void **state) {
    (void)state;
    size_t both = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct hand_table *hand = make_table(seed, 160, 8);
        for (size_t row = 80; row < 160; row++) {
            slow_down(hand, row, 1, 1.4);
            slow_down(hand, row, 6, 1.4);
        }
        judge(hand);
        both += hand->found[1].confidence >= CONFIDENCE_VERDICT && hand->found[6].confidence >= CONFIDENCE_VERDICT;
        assert_in_range(sure(hand), 0, 2);
        free(hand);
    }
    assert_in_range(both, 48, 50);
}

/* That two lead together counts four times: of two with six such leads each, among eight ranks (4^-6) both are just
 * sure, among seven (3.5^-6) just not. */
static void what_two_lead_by_together_counts_four_times(void **state) {
    (void)state;
    for (size_t columns = 7; columns <= 8; columns++) {
        struct hand_table *hand = make_table(48, 160, columns);
        for (size_t k = 0; k < 160 * columns; k++) /* of the noise a thousandth, so that leads alone count */
            hand->self_ns[k] = 10000000 + (hand->self_ns[k] - 10000000) / 1000;
        for (size_t row = 5; row < 6 * 26; row += 26)
            hand->self_ns[row * columns + 1] = hand->self_ns[row * columns + 3] = 70000000;
        judge(hand);
        assert_int_equal(sure(hand), columns == 8 ? 2 : 0);
        free(hand);
    }
}

/* ---- of rank classes ------------------------------------------------------------------------- */

enum { WRITERS = 8 };

/* So many ranks that compute, and eight that write something in every tenth stretch, for which they are there. In the
 * same stretches rank 0, which computes, is slow: its confidence. */
static double confidence_among(size_t computing) {
    enum { ROWS = 160 };
    size_t count = computing + WRITERS, dumps[COLUMNS_MOST], sizes[] = {computing, WRITERS};
    uint32_t class_of[COLUMNS_MOST];
    struct rank_times times[COLUMNS_MOST];
    struct rank_leads leads[COLUMNS_MOST], *list[COLUMNS_MOST];
    struct hand_table *hand = make_table(31, ROWS, count);
    for (size_t c = 0; c < count; c++) {
        dumps[c] = c;
        class_of[c] = c >= computing;
        leads[c] = (struct rank_leads){0};
        list[c] = &leads[c];
        assert_true(sampled_collectives_init(&times[c].sampled, 8));
        for (uint32_t row = 0; row < ROWS; row++) {
            if (row % 10 == 9 && (c == 0 || c >= computing))
                slow_down(hand, row, c, c == 0 ? 2 : 20);
            sampled_collectives_add(&times[c].sampled, row, hand->self_ns[row * count + c]);
        }
    }
    struct straggler_analysis analysis = {.times = times, .leads = leads};
    const struct rank_classes classes = {.count = 2, .class_of = class_of, .sizes = sizes};
    const struct time_batches batches = {.dumps = dumps, .dump_count = count};
    assert_true(verdicts_judge_leads(&analysis, &classes, &batches));
    assert_true(leads_correct(list, count));
    for (size_t c = 0; c < count; c++)
        sampled_collectives_free(&times[c].sampled);
    free(hand);
    return leads[0].confidence;
}

/* Four ranks of a class are compared among themselves; three, with all: there others are slow in these stretches, too.
 */
static void four_of_a_class_are_compared_with_each_other(void **state) {
    (void)state;
    assert_true(confidence_among(4) >= CONFIDENCE_VERDICT);
    assert_true(confidence_among(3) < CONFIDENCE_VERDICT);
}

/* Of 60 slow stretches 8 are at other distances, then 24 three apart, then others again. */
static void the_first_32_slow_stretches_tell_how_regularly_they_come(void **state) {
    (void)state;
    struct hand_table *hand = make_table(1, 400, 2);
    struct rank_leads found = {0}, gap = {0};
    for (uint32_t i = 0, number = 0; i < 60; i++) {
        slow_stretches_note(&hand->table, &found, number);
        number += i >= 7 && i < 31 ? 3 : 4 + i % 4;
    }
    assert_int_equal(slow_stretches_distance(found.noted, found.noted_count), 3);
    assert_int_equal(slow_stretches_distance(found.noted, 8), 0);
    assert_int_equal(slow_stretches_distance((const uint32_t[]){5, 9}, 2), 0);
    hand->numbers[399] = 400; /* one is not on record */
    slow_stretches_note(&hand->table, &gap, 7);
    assert_int_equal(gap.noted_count, 0);
    free(hand);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_32_slow_stretches_tell_how_regularly_they_come),
        cmocka_unit_test(a_rank_slow_now_and_then_is_found),
        cmocka_unit_test(a_rank_slow_in_the_second_half_is_found),
        cmocka_unit_test(stretches_without_work_do_not_say_when_a_rank_is_slow),
        cmocka_unit_test(chance_names_nobody),
        cmocka_unit_test(speeds_that_wander_name_nobody),
        cmocka_unit_test(several_leads_make_a_culprit),
        cmocka_unit_test(fewer_than_sixteen_stretches_prove_nothing),
        cmocka_unit_test(slow_stretches_that_are_alike_apart_come_regularly),
        cmocka_unit_test(heavy_tails_do_not_hide_a_phase),
        cmocka_unit_test(a_phase_stands_four_deviations_higher),
        cmocka_unit_test(a_rank_slow_in_the_rest_too_has_no_phase),
        cmocka_unit_test(slow_stretches_of_samples_come_regularly),
        cmocka_unit_test(ranks_of_different_work_are_levelled),
        cmocka_unit_test(slow_stretches_far_apart_count_although_neighbours_are_alike),
        cmocka_unit_test(stretches_within_a_time_slice_count_once),
        cmocka_unit_test(a_phase_is_an_eighth_of_the_run),
        cmocka_unit_test(a_chance_counts_twice),
        cmocka_unit_test(a_chance_is_exact),
        cmocka_unit_test(usual_stretches_count_twice),
        cmocka_unit_test(long_stretches_are_left_out_where_few_are_most),
        cmocka_unit_test(a_pause_is_not_what_a_steady_rank_costs),
        cmocka_unit_test(pauses_beyond_doubt_are_what_a_steady_rank_costs),
        cmocka_unit_test(a_pause_is_not_what_a_slow_part_costs),
        cmocka_unit_test(pauses_of_others_do_not_pay_for_a_slow_part),
        cmocka_unit_test(a_pause_hides_no_slow_stretches),
        cmocka_unit_test(pauses_half_as_long_count_with_the_longest),
        cmocka_unit_test(a_part_counts_eight_times),
        cmocka_unit_test(one_of_two_slow_in_the_second_half_is_found),
        cmocka_unit_test(two_ranks_do_not_hide_each_other),
        cmocka_unit_test(two_at_a_time_that_take_turns_are_not_named),
        cmocka_unit_test(a_rank_left_out_counts_twice),
        cmocka_unit_test(two_ranks_slow_in_the_same_stretches_are_found),
        cmocka_unit_test(two_ranks_slow_in_the_second_half_are_found),
        cmocka_unit_test(what_two_lead_by_together_counts_four_times),
        cmocka_unit_test(four_of_a_class_are_compared_with_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
