/* SPDX-License-Identifier: Apache-2.0
 *
 * Rank classes of ranks: who may be compared with whom, and what follows; the chance of a difference between two runs.
 * Lives here: grids of pipelines by hand. Must not live here: whole jobs.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/profile/compare.h"
#include "analyzer/stragglers/rank_classes.h"

enum { DATA = 4, STAGES = 3, RANKS = DATA * STAGES, BATCHES = 16, WORLD = 0, PIPELINE = 1 };
enum { CALL_ALLREDUCE = 0, CALL_SEND = 1, CALL_RECV = 2, CALL_RARE = 3 };

/* Rank = stage * DATA + data. Communicator 0 is the world, 1 + data the pipelines; a rank's local indices are 0 and 1.
 */
struct grid {
    struct dump dumps[RANKS];
    struct dump *list[RANKS];
    struct match_place places[RANKS][2], *place_list[RANKS];
    struct match_communicator communicators[1 + DATA];
    uint32_t rank_of[RANKS];
    struct match_directory directory;
    struct call_profile profiles[RANKS];
    struct cut cuts[RANKS];
    size_t columns[RANKS];
    int64_t self_ns[BATCHES * RANKS];
    struct time_batches batches;
};

static void call(struct grid *grid, size_t rank, uint32_t comm, uint16_t number, uint16_t flags, unsigned times) {
    struct record record = {.kind = RECORD_CALL, .comm = comm, .flags = flags};
    struct match_record item = {.record = &record, .dump = rank, .call = number};
    for (unsigned i = 0; i < times; i++)
        call_profile_add(&grid->profiles[rank], &item);
}

static struct grid *make_grid(void) {
    struct grid *grid = calloc(1, sizeof *grid);
    assert_non_null(grid);
    grid->communicators[WORLD] =
        (struct match_communicator){.size = RANKS, .dump_count = RANKS, .rank_of = grid->rank_of};
    for (size_t d = 0; d < DATA; d++)
        grid->communicators[PIPELINE + d] =
            (struct match_communicator){.size = STAGES, .dump_count = STAGES, .rank_of = grid->rank_of};
    for (size_t r = 0; r < RANKS; r++) {
        grid->rank_of[r] = (uint32_t)r;
        grid->dumps[r].communicator_count = 2;
        grid->list[r] = &grid->dumps[r];
        grid->place_list[r] = grid->places[r];
        grid->places[r][0] = (struct match_place){WORLD, (uint32_t)r};
        grid->places[r][1] = (struct match_place){(uint32_t)(PIPELINE + r % DATA), (uint32_t)(r / DATA)};
        grid->columns[r] = r;
        grid->cuts[r] = (struct cut){.kind = CUT_COLLECTIVE, .comm = 0};
        call(grid, r, 0, CALL_ALLREDUCE, FLAG_COLLECTIVE, 40);
        call(grid, r, 1, CALL_SEND, FLAG_SEND, 40);
        call(grid, r, 1, CALL_RECV, FLAG_RECV, 40);
    }
    grid->directory = (struct match_directory){.dumps = grid->list,
                                               .dump_count = RANKS,
                                               .communicators = grid->communicators,
                                               .communicator_count = 1 + DATA,
                                               .places = grid->place_list};
    grid->batches =
        (struct time_batches){.dumps = grid->columns, .dump_count = RANKS, .self_ns = grid->self_ns, .count = BATCHES};
    for (size_t b = 0; b < BATCHES; b++)
        for (size_t r = 0; r < RANKS; r++)
            grid->self_ns[b * RANKS + r] = 1000000 * (int64_t)(1 + r / DATA) + (int64_t)((b * 7 + r * 3) % 11);
    return grid;
}

static struct rank_classes find(struct grid *grid) {
    struct rank_classes classes;
    assert_true(rank_classes_find(&classes, grid->profiles, grid->cuts, &grid->directory, RANKS, &grid->batches));
    return classes;
}

static void a_stage_is_a_rank_class(void **state) {
    (void)state;
    struct grid *grid = make_grid();
    struct rank_classes classes = find(grid);
    assert_int_equal(classes.count, STAGES);
    assert_true(classes.placed);
    for (size_t r = 0; r < RANKS; r++)
        assert_int_equal(classes.class_of[r], r / DATA);
    for (size_t r = 0; r < RANKS; r++)
        assert_int_equal(classes.stage_of[r], r / DATA + 1);
    struct significance ranks[RANKS], stages[STAGES];
    assert_true(rank_classes_judge_ranks(&classes, &grid->batches, ranks) >= 0);
    for (size_t r = 0; r < RANKS; r++)
        assert_true(ranks[r].ratio > 0.99 && ranks[r].ratio < 1.01);
    assert_true(rank_classes_judge(&classes, &grid->batches, stages) >= 0);
    assert_true(stages[2].ratio > 1.9 && stages[2].persistence == 1);
    /* one rank of the first stage is slow: still faster than the last stage, and yet its peers show it */
    for (size_t b = 0; b < BATCHES; b++)
        grid->self_ns[b * RANKS + 1] *= 2;
    assert_true(rank_classes_judge_ranks(&classes, &grid->batches, ranks) >= 0);
    assert_true(ranks[1].ratio > 1.9 && ranks[1].slowest == 1 && ranks[1].p < 1e-6);
    assert_true(ranks[0].ratio < 1.01 && ranks[2].ratio < 1.01);
    rank_classes_free(&classes);
    free(grid);
}

static void levelled_stages_are_equal(void **state) {
    (void)state;
    struct grid *grid = make_grid();
    struct rank_classes classes = find(grid);
    assert_true(rank_classes_level(&classes, &grid->batches));
    for (size_t i = 0; i < (size_t)BATCHES * RANKS; i++)
        assert_true(grid->self_ns[i] > 1990000 && grid->self_ns[i] < 2010000);
    rank_classes_free(&classes);
    free(grid);
}

/* Messages on the world say nothing: every rank has a place of its own there. */
static void places_in_the_world_are_no_rank_classes(void **state) {
    (void)state;
    struct grid *grid = make_grid();
    for (size_t r = 0; r < RANKS; r++)
        grid->places[r][1] = grid->places[r][0];
    struct rank_classes classes = find(grid);
    assert_int_equal(classes.count, 1);
    for (size_t r = 0; r < RANKS; r++)
        assert_int_equal(classes.stage_of[r], 0);
    rank_classes_free(&classes);
    free(grid);
}

/* Neighbours along two sides of a grid: places tell ranks apart, but make no pipeline. */
static void who_has_neighbours_on_two_communicators_has_no_stage(void **state) {
    (void)state;
    struct grid *grid = make_grid();
    grid->places[0][0] = (struct match_place){PIPELINE + 1, 0};
    grid->communicators[PIPELINE + 1].rank_of = grid->rank_of;
    call(grid, 0, 0, CALL_SEND, FLAG_SEND, 40);
    struct rank_classes classes = find(grid);
    assert_true(classes.placed && classes.count > STAGES);
    for (size_t r = 0; r < RANKS; r++)
        assert_int_equal(classes.stage_of[r], 0);
    rank_classes_free(&classes);
    free(grid);
}

/* A pipeline without a second copy: nobody would have a peer, so all are compared. */
static void a_lone_pipeline_is_one_rank_class(void **state) {
    (void)state;
    struct grid *grid = make_grid();
    for (size_t s = 0; s < STAGES; s++)
        grid->columns[s] = s * DATA;
    grid->batches.dump_count = STAGES;
    struct rank_classes classes = find(grid);
    assert_int_equal(classes.count, 1);
    assert_false(classes.placed);
    for (size_t s = 0; s < STAGES; s++)
        assert_int_equal(classes.stage_of[s], 0);
    rank_classes_free(&classes);
    free(grid);
}

static void rare_calls_make_no_rank_class(void **state) {
    (void)state;
    struct grid *grid = make_grid();
    call(grid, 0, 0, CALL_RARE, FLAG_COLLECTIVE, 10);
    struct rank_classes classes = find(grid);
    assert_int_equal(classes.sizes[classes.class_of[0]], DATA);
    rank_classes_free(&classes);
    call(grid, 0, 0, CALL_RARE, FLAG_COLLECTIVE, 10);
    classes = find(grid);
    assert_int_equal(classes.sizes[classes.class_of[0]], 1);
    struct significance ranks[RANKS];
    assert_true(rank_classes_judge_ranks(&classes, &grid->batches, ranks) >= 0);
    assert_true(ranks[0].ratio == 0); /* alone in its place: not judged */
    rank_classes_free(&classes);
    free(grid);
}

/* The first `alone` ranks call something that nobody else calls: who calls what tells them apart as long as half of all
 * have a peer. */
static void half_of_the_ranks_need_a_peer(void **state) {
    (void)state;
    for (unsigned alone = 5; alone <= 7; alone += 2) {
        struct grid *grid = make_grid();
        for (uint16_t r = 0; r < alone; r++)
            call(grid, r, 0, (uint16_t)(CALL_RARE + r), FLAG_COLLECTIVE, 20);
        struct rank_classes classes = find(grid);
        assert_int_equal(classes.sizes[classes.class_of[0]], alone == 5 ? 1 : RANKS);
        assert_int_equal(classes.sizes[classes.class_of[RANKS - 1]], alone == 5 ? DATA : RANKS);
        rank_classes_free(&classes);
        free(grid);
    }
}

/* A lost dump moves nobody: places are the communicator's ranks. */
static void a_lost_dump_moves_no_place(void **state) {
    (void)state;
    struct grid *grid = make_grid();
    uint32_t left[STAGES - 1] = {1, 2};
    grid->communicators[PIPELINE].dump_count = STAGES - 1; /* the first pipeline's first rank left none */
    grid->communicators[PIPELINE].rank_of = left;
    for (size_t s = 1; s < STAGES; s++)
        grid->places[s * DATA][1].position = (uint32_t)(s - 1);
    memmove(grid->columns, grid->columns + 1, (RANKS - 1) * sizeof *grid->columns);
    grid->batches.dump_count = RANKS - 1;
    struct rank_classes classes = find(grid);
    assert_int_equal(classes.count, STAGES);
    for (size_t i = 0; i < RANKS - 1; i++)
        assert_int_equal(classes.class_of[i], (i + 1) / DATA);
    rank_classes_free(&classes);
    free(grid);
}

/* ---- two runs -------------------------------------------------------------------------------- */

static struct compared_side side_of(struct summary_sample *samples, size_t count, double observations) {
    return (struct compared_side){.samples = samples, .sample_count = count, .observations = observations};
}

/* By hand: a = 1..5, b = 6..10: U = 0 of 25, sigma^2 = 25 * 11 / 12, z = -2.611, p = 0.00902. */
static void chance_is_mann_whitneys(void **state) {
    (void)state;
    struct summary_sample a[5], b[5];
    for (size_t i = 0; i < 5; i++) {
        a[i] = (struct summary_sample){i + 1, 1};
        b[i] = (struct summary_sample){i + 6, 1};
    }
    struct compared_side left = side_of(a, 5, 5), right = side_of(b, 5, 5);
    assert_true(compare_chance(&left, &right) > 0.0089 && compare_chance(&left, &right) < 0.0092);
    assert_true(compare_chance(&left, &left) > 0.999);
    assert_true(compare_chance(&right, &left) == compare_chance(&left, &right));
    /* all ranks of a collective are one observation: eight times the calls, the same chance */
    for (size_t i = 0; i < 5; i++)
        a[i].count = b[i].count = 8;
    assert_true(compare_chance(&left, &right) > 0.0089 && compare_chance(&left, &right) < 0.0092);
    left.observations = 3;
    assert_true(compare_chance(&left, &right) == 1);
}

/* Against the tables of Student's distribution that every textbook has. */
static void students_t_is_that_of_the_tables(void **state) {
    (void)state;
    static const struct {
        double t, p;
        unsigned degrees;
    } table[] = {{12.706, 0.05, 1}, {63.657, 0.01, 1}, {4.303, 0.05, 2},  {9.925, 0.01, 2},
                 {3.182, 0.05, 3},  {5.841, 0.01, 3},  {2.776, 0.05, 4},  {4.604, 0.01, 4},
                 {2.571, 0.05, 5},  {2.228, 0.05, 10}, {2.086, 0.05, 20}, {2.023, 0.05, 39}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        double p = student_both_tails(table[i].t, table[i].degrees);
        assert_true(fabs(p / table[i].p - 1) < 2e-3);
        assert_true(student_both_tails(-table[i].t, table[i].degrees) == p);
    }
    assert_true(student_both_tails(0, 7) == 1);
}

/* By hand: logarithms of the means 0, 0.1 and 0.4, 0.5; s^2 = (0.005 + 0.005) / 2, t = 0.4 / sqrt(s^2) = 5.657, 2
 * degrees of freedom: p = 1 - t / sqrt(t^2 + 2) = 0.0299. */
static void runs_differ_by_students_t(void **state) {
    (void)state;
    struct compared_run a[2] = {{10, 10000000}, {1, (uint64_t)(1e6 * exp(0.1))}};
    struct compared_run b[2] = {{2, (uint64_t)(2e6 * exp(0.4))}, {5, (uint64_t)(5e6 * exp(0.5))}};
    struct compared_row row = {.sides = {{.runs = a, .run_count = 2}, {.runs = b, .run_count = 2}}};
    assert_true(fabs(compare_chance_of_runs(&row, -1) - 0.0299) < 1e-4);
    assert_true(fabs(row.run_spread - sqrt(0.005)) < 1e-6);
    /* one of each: what the user says decides, z = 0.4 / (0.1 sqrt 2) */
    row.sides[0].run_count = row.sides[1].run_count = 1;
    assert_true(compare_chance_of_runs(&row, -1) == 1 && isnan(row.run_spread));
    assert_true(fabs(compare_chance_of_runs(&row, 0.1) - erfc(2)) < 1e-6);
    assert_true(row.run_spread == 0.1);
}

static void equal_times_are_no_difference(void **state) {
    (void)state;
    struct summary_sample one = {1000, 50}, other = {2000, 50};
    struct compared_side a = side_of(&one, 1, 50), b = side_of(&other, 1, 50);
    assert_true(compare_chance(&a, &a) == 1);
    assert_true(compare_chance(&a, &b) < 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_is_a_rank_class),
        cmocka_unit_test(levelled_stages_are_equal),
        cmocka_unit_test(places_in_the_world_are_no_rank_classes),
        cmocka_unit_test(who_has_neighbours_on_two_communicators_has_no_stage),
        cmocka_unit_test(a_lone_pipeline_is_one_rank_class),
        cmocka_unit_test(rare_calls_make_no_rank_class),
        cmocka_unit_test(half_of_the_ranks_need_a_peer),
        cmocka_unit_test(a_lost_dump_moves_no_place),
        cmocka_unit_test(chance_is_mann_whitneys),
        cmocka_unit_test(students_t_is_that_of_the_tables),
        cmocka_unit_test(runs_differ_by_students_t),
        cmocka_unit_test(equal_times_are_no_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
