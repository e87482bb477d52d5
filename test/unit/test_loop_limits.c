/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of what makes a loop and which of nested loops is the step, from both sides.
 * Lives here: sequences of operations just below and just above a limit. Must not live here: how many steps are found
 * (test_step_loops.c), fixed periods (test_step_period.c).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/steps/step_period.h"
#include "test/scenes/scene.h"

enum { OPERATIONS_MOST = 1 << 15, SITES_MOST = 64, NO_STEP = SITES_MOST };

/* A rank's operations, each by the line of the program that makes it. */
struct job {
    uint64_t symbols[OPERATIONS_MOST], order[OPERATIONS_MOST];
    uint32_t numbers[OPERATIONS_MOST];
    size_t count;
    uint32_t collectives; /* so far */
    uint64_t random;
};

static struct job *new_job(uint64_t seed) {
    struct job *job = calloc(1, sizeof *job);
    assert_non_null(job);
    job->random = seed;
    return job;
}

static uint64_t symbol_of(unsigned site) {
    return (site + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static void put(struct job *job, unsigned site, uint64_t bytes, bool collective) {
    assert_true(job->count < OPERATIONS_MOST && site < SITES_MOST);
    job->symbols[job->count] = symbol_of(site);
    job->order[job->count] = bytes << 16 | (symbol_of(site) >> 40 & 0xffff);
    job->numbers[job->count++] = collective ? ++job->collectives : 0;
}

static void reduce(struct job *job, unsigned site, uint64_t bytes) {
    put(job, site, bytes, true);
}

static void message(struct job *job, unsigned site) {
    put(job, site, 4096, false);
}

static unsigned between(struct job *job, unsigned least, unsigned most) {
    return least + (unsigned)(scene_uniform(&job->random) * (most - least + 1));
}

/* Whether something that happens in so many of a hundred cases does so in this one. */
static bool happens(unsigned number, unsigned percent) {
    return number * 37 % 100 < percent;
}

/* The site whose operation begins the steps that are found. Frees the job. */
static unsigned step_of(struct job *job) {
    struct step_periods periods;
    unsigned site = NO_STEP;
    assert_true(step_periods_find(&periods, job->symbols, job->order, job->numbers, job->count));
    for (unsigned s = 0; s < SITES_MOST && periods.step < periods.count; s++)
        if (symbol_of(s) == periods.levels[periods.step].anchor)
            site = s;
    free(job);
    return site;
}

/* ---- what makes a loop --------------------------------------------------------------------------- */

enum { SURE = 0, OPTIONAL = 10, PASSING = 20, SETUP = 30 };

/* `sure` operations in all iterations, as many messages as there are neighbours at that moment, and `others` that come
 * by chance in so many of a hundred iterations each. */
static unsigned loop_with(unsigned sure, unsigned others, unsigned percent) {
    struct job *job = new_job(7);
    for (unsigned k = 0; k < 400; k++) {
        for (unsigned s = 0; s < sure; s++)
            reduce(job, SURE + s, 8);
        for (unsigned n = between(job, 1, 4); n > 0; n--)
            message(job, PASSING);
        for (unsigned o = 0, first = between(job, 0, others - 1); o < others; o++)
            if (scene_uniform(&job->random) * 100 < percent)
                message(job, OPTIONAL + (first + o) % others);
    }
    return step_of(job);
}

/* Five of seven operations come in so many of a hundred iterations: nearly all, or a part. */
static void what_nearly_all_iterations_have_is_of_the_loop(void **state) {
    (void)state;
    assert_int_equal(loop_with(1, 5, 89), SURE);
    assert_int_equal(loop_with(1, 5, 70), NO_STEP);
}

static void what_a_third_of_the_iterations_has_is_not_of_the_loop(void **state) {
    (void)state;
    assert_int_equal(loop_with(1, 5, 29), SURE);
    assert_int_equal(loop_with(1, 5, 50), NO_STEP);
}

/* Operations that are in four of ten iterations, beside four that are in all. */
static void half_of_the_operations_may_come_now_and_then(void **state) {
    (void)state;
    assert_in_range(loop_with(3, 3, 43), SURE, SURE + 2);
    assert_int_equal(loop_with(3, 6, 43), NO_STEP);
}

/* Of two operations that follow each other the rarer, which is wanted more as an anchor, is missing in so many
 * iterations; it is the anchor where it is of the same loop. */
static unsigned missing_in(unsigned iterations) {
    enum { ALL = 356, BEHIND = 60 };
    struct job *job = new_job(37);
    for (unsigned k = 0; k < ALL; k++) {
        reduce(job, SURE, 8);
        if (k < BEHIND || (k - BEHIND) * iterations / (ALL - BEHIND) == (k - BEHIND + 1) * iterations / (ALL - BEHIND))
            reduce(job, SURE + 1, 4);
        for (unsigned n = between(job, 1, 4); n > 0; n--)
            message(job, PASSING);
    }
    return step_of(job);
}

/* 2.5 and 4 in a hundred. */
static void what_one_in_thirty_iterations_lacks_is_of_the_loop(void **state) {
    (void)state;
    assert_int_equal(missing_in(8), SURE + 1);
    assert_int_equal(missing_in(13), SURE);
}

/* A setup whose calls come by chance, then iterations for so many of a hundred operations behind the first tenth. */
static unsigned loop_behind_setup(unsigned percent) {
    struct job *job = new_job(3);
    enum { ALL = 4000 };
    for (unsigned i = 0; i < ALL - ALL * 9 / 10 * percent / 100; i++)
        reduce(job, SETUP + between(job, 0, 12), 8);
    while (job->count < ALL) {
        reduce(job, SURE, 8);
        for (unsigned n = between(job, 1, 4); n > 0; n--)
            message(job, PASSING);
    }
    return step_of(job);
}

/* Time steps, the first tenth of the calls among them, that a solver needs some iterations for. */
static unsigned solves(unsigned steps) {
    struct job *job = new_job(31);
    for (unsigned k = 0; k < steps; k++) {
        reduce(job, SURE, 16);
        for (unsigned i = between(job, 9, 14); i > 0; i--)
            reduce(job, PASSING + between(job, 0, 1), 8);
    }
    return step_of(job);
}

/* Of six time steps the anchor of the first one lies in the first tenth, which is left out: five anchors are left. */
static void four_iterations_are_not_enough(void **state) {
    (void)state;
    assert_int_equal(solves(5), NO_STEP);
    assert_int_equal(solves(6), SURE);
}

static void a_loop_lasts_for_half_of_the_run(void **state) {
    (void)state;
    assert_int_equal(loop_behind_setup(65), SURE);
    assert_int_equal(loop_behind_setup(40), NO_STEP);
}

/* Four kinds of calls by chance, among them another one at distances of at least `least`, beyond which they are as
 * those of what comes by chance: exponential, 30 on average in all. */
static unsigned now_and_then(unsigned least) {
    enum { TIMES = 400 };
    struct job *job = new_job(5);
    for (unsigned i = 0; i < TIMES; i++) {
        double share = (double)(i * 37 % TIMES) / TIMES + 0.5 / TIMES;
        unsigned distance = least + (unsigned)(-(30.0 - least) * log(1 - share));
        reduce(job, SURE, 8);
        for (unsigned k = 1; k < distance; k++)
            message(job, OPTIONAL + between(job, 0, 3));
    }
    return step_of(job);
}

/* Standard deviation by mean of these distances: 0.6 and 0.77. */
static void a_loop_is_steadier_than_chance(void **state) {
    (void)state;
    assert_int_equal(now_and_then(12), SURE);
    assert_int_equal(now_and_then(7), NO_STEP);
}

/* ---- which of two loops is the step -------------------------------------------------------------- */

enum { OUTER = 50, OUTER_ALSO = 51, INNER = 55, INNER_PASSING = 56 };

static void iterate(struct job *job, unsigned times) {
    for (unsigned i = 0; i < times; i++) {
        reduce(job, INNER, 8);
        for (unsigned n = between(job, 1, 3); n > 0; n--)
            message(job, INNER_PASSING);
    }
}

/* Iterations of which so many of a hundred, by chance, end with one operation more, always at the same place. */
static unsigned one_more_in(unsigned percent) {
    struct job *job = new_job(23);
    for (unsigned k = 0; k < 600; k++) {
        iterate(job, 1);
        if (scene_uniform(&job->random) * 100 < percent)
            reduce(job, OUTER, 16);
    }
    return step_of(job);
}

/* A solver that needs one to three iterations. */
static unsigned short_solves(void) {
    struct job *job = new_job(29);
    for (unsigned k = 0; k < 300; k++) {
        reduce(job, OUTER, 16);
        iterate(job, between(job, 1, 3));
    }
    return step_of(job);
}

static void what_some_iterations_have_by_chance_is_no_step(void **state) {
    (void)state;
    assert_int_equal(one_more_in(90), INNER);
    assert_int_equal(one_more_in(60), INNER);
    assert_int_equal(one_more_in(30), INNER);
    assert_int_equal(short_solves(), OUTER);
}

/* Something after 12 iterations each, in so many of a hundred cases; after 6 or 18 in the others. */
static unsigned every_twelve(unsigned percent) {
    struct job *job = new_job(11);
    for (unsigned k = 0; k < 200; k++) {
        iterate(job, happens(k, percent) ? 12 : k % 2 ? 6 : 18);
        reduce(job, OUTER, 16);
    }
    return step_of(job);
}

/* What comes after equally many iterations is an interval, as that between evaluations; else these are a solver's. */
static void an_interval_is_equally_long_in_most_cases(void **state) {
    (void)state;
    assert_int_equal(every_twelve(85), INNER);
    assert_int_equal(every_twelve(65), OUTER);
}

/* A reduction after 8 to 16 iterations of two operations: in so many of a hundred cases behind the second one, else
 * between the two. */
static unsigned beside_the_second(unsigned percent) {
    struct job *job = new_job(13);
    for (unsigned k = 0; k < 200; k++) {
        for (unsigned i = between(job, 8, 16); i > 0; i--) {
            reduce(job, INNER, 8);
            if (i == 1 && !happens(k, percent))
                reduce(job, OUTER, 16);
            message(job, INNER_PASSING);
        }
        if (happens(k, percent))
            reduce(job, OUTER, 16);
    }
    return step_of(job);
}

/* What has its place ends a solver's iterations; what comes anywhere is no step. */
static void a_step_begins_in_its_place(void **state) {
    (void)state;
    assert_int_equal(beside_the_second(86), OUTER);
    assert_int_equal(beside_the_second(55), INNER);
}

/* Twelve sweeps in each time step, which has so many operations beside them. */
static unsigned sweeps_beside(unsigned others) {
    struct job *job = new_job(17);
    for (unsigned k = 0; k < 100; k++) {
        for (unsigned o = 0; o < others; o++)
            reduce(job, SETUP + o, 8);
        iterate(job, 12);
    }
    return step_of(job);
}

/* An interval adds little to what its iterations do. */
static void an_interval_has_few_operations_of_its_own(void **state) {
    (void)state;
    assert_int_equal(sweeps_beside(3), INNER);
    assert_in_range(sweeps_beside(7), SETUP, SETUP + 6);
}

/* A small network: its gradients are 1300 bytes. In every fifth step a validation of ten batches reduces 800 bytes for
 * each of them. */
static void a_kilobyte_tells_gradients_from_metrics(void **state) {
    (void)state;
    struct job *job = new_job(19);
    for (unsigned k = 0; k < 200; k++) {
        reduce(job, INNER, 1300);
        reduce(job, INNER + 1, 4);
        for (unsigned b = 0; k % 5 == 4 && b < 10; b++)
            reduce(job, OUTER, 800);
        if (k % 5 == 4)
            reduce(job, OUTER_ALSO, 0);
    }
    assert_in_range(step_of(job), INNER, INNER + 1);
}

/* One collective per step, and a small one after so many of them. */
static unsigned sole_collective(unsigned every, uint64_t bytes, uint64_t small) {
    struct job *job = new_job(41);
    for (unsigned k = 0; k < 40 * every; k++) {
        reduce(job, INNER, bytes);
        if (k % every == every - 1)
            reduce(job, OUTER, small);
    }
    return step_of(job);
}

static void what_comes_after_more_than_eight_is_no_part_of_the_step(void **state) {
    (void)state;
    assert_int_equal(sole_collective(8, 2048, 8), OUTER);
    assert_int_equal(sole_collective(10, 2048, 8), INNER);
}

static void beside_a_sole_collective_all_is_small(void **state) {
    (void)state;
    assert_int_equal(sole_collective(12, 1300, 800), INNER);
    assert_int_equal(sole_collective(12, 800, 800), OUTER);
    assert_int_equal(sole_collective(12, 1300, 1300), OUTER);
    assert_int_equal(sole_collective(12, 8, 0), INNER);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nearly_all_iterations_have_is_of_the_loop),
        cmocka_unit_test(what_a_third_of_the_iterations_has_is_not_of_the_loop),
        cmocka_unit_test(half_of_the_operations_may_come_now_and_then),
        cmocka_unit_test(what_one_in_thirty_iterations_lacks_is_of_the_loop),
        cmocka_unit_test(four_iterations_are_not_enough),
        cmocka_unit_test(a_loop_lasts_for_half_of_the_run),
        cmocka_unit_test(a_loop_is_steadier_than_chance),
        cmocka_unit_test(what_some_iterations_have_by_chance_is_no_step),
        cmocka_unit_test(an_interval_is_equally_long_in_most_cases),
        cmocka_unit_test(a_step_begins_in_its_place),
        cmocka_unit_test(an_interval_has_few_operations_of_its_own),
        cmocka_unit_test(a_kilobyte_tells_gradients_from_metrics),
        cmocka_unit_test(what_comes_after_more_than_eight_is_no_part_of_the_step),
        cmocka_unit_test(beside_a_sole_collective_all_is_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
