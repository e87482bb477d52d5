/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps in streams whose true period is known: data parallel, sharded, pipelined, stencils and solvers.
 * Lives here: the streams as the frameworks issue them. Must not live here: records, times.
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

struct stream {
    uint64_t *symbols;
    size_t count, room;
    uint64_t random;
};

static void put(struct stream *s, uint64_t symbol) {
    if (s->count == s->room) {
        s->room = s->room ? s->room * 2 : 1024;
        s->symbols = realloc(s->symbols, s->room * sizeof *s->symbols);
        if (!s->symbols)
            abort();
    }
    s->symbols[s->count++] = symbol * UINT64_C(0x9e3779b97f4a7c15);
}

/* No symbol is wanted more than another. */
static bool find(struct step_periods *periods, const struct stream *s) {
    uint64_t *order = calloc(s->count + 1, sizeof *order);
    uint32_t *numbers = calloc(s->count + 1, sizeof *numbers);
    bool done = order && numbers && step_periods_find(periods, s->symbols, order, numbers, s->count);
    free(order);
    free(numbers);
    return done;
}

/* What a kind of job issues in one step. */
struct job {
    const char *name;
    void (*step)(struct stream *s, unsigned size);
    unsigned smallest, largest; /* of `size` */
};

enum { GATHER = 1000, SCATTER = 2000, REDUCE = 3000, SEND = 4000, RECV = 5000, OTHER = 6000 };

static void data_parallel(struct stream *s, unsigned buckets) {
    for (unsigned b = 0; b < buckets; b++)
        put(s, REDUCE + b);
    put(s, OTHER);
}

static void sharded(struct stream *s, unsigned layers) {
    for (unsigned l = 0; l < layers; l++)
        put(s, GATHER + l % 3);
    for (unsigned l = 0; l < layers; l++) {
        put(s, GATHER + l % 3);
        put(s, SCATTER + l % 3);
    }
    put(s, OTHER);
}

static void pass(struct stream *s, unsigned direction, unsigned layers) {
    put(s, RECV + direction);
    for (unsigned l = 0; l < 2 * layers; l++)
        put(s, REDUCE);
    put(s, SEND + direction);
}

/* One stage of a pipeline with tensor parallel layers, one forward one backward. */
static void pipelined(struct stream *s, unsigned size) {
    unsigned layers = 2 + size % 47, micro_batches = 8 + size % 56, warm_up = 3;
    put(s, GATHER);
    for (unsigned m = 0; m < warm_up; m++)
        pass(s, 1, layers);
    for (unsigned m = warm_up; m < micro_batches; m++) {
        pass(s, 1, layers);
        pass(s, 2, layers);
    }
    for (unsigned m = 0; m < warm_up; m++)
        pass(s, 2, layers);
    put(s, SCATTER);
    put(s, OTHER);
    put(s, OTHER + 1);
}

static void stencil(struct stream *s, unsigned neighbours) {
    for (unsigned n = 0; n < neighbours; n++)
        put(s, RECV + n);
    for (unsigned n = 0; n < neighbours; n++)
        put(s, SEND + n);
    put(s, OTHER); /* Waitall */
    put(s, REDUCE);
}

static void conjugate_gradients(struct stream *s, unsigned neighbours) {
    for (unsigned n = 0; n < neighbours; n++) {
        put(s, RECV + n);
        put(s, SEND + n);
    }
    put(s, REDUCE);
    put(s, REDUCE);
}

static const struct job jobs[] = {
    {"data parallel", data_parallel, 1, 60},
    {"sharded", sharded, 4, 96},
    {"pipelined", pipelined, 0, 200},
    {"stencil", stencil, 1, 26},
    {"conjugate gradients", conjugate_gradients, 1, 26},
};

/* Start-up, steps, and every `evaluation` steps something else. */
static size_t play(struct stream *s, const struct job *job, unsigned size, unsigned steps, unsigned evaluation) {
    size_t length = 0;
    unsigned start_up = 5 + (unsigned)(scene_uniform(&s->random) * 60);
    for (unsigned i = 0; i < start_up; i++)
        put(s, 9000 + (uint64_t)(scene_uniform(&s->random) * 9));
    for (unsigned k = 0; k < steps; k++) {
        size_t before = s->count;
        job->step(s, size);
        length = s->count - before;
        if (evaluation && k % evaluation == evaluation - 1) {
            for (size_t i = 0; i < length / 3; i++)
                put(s, s->symbols[before + i] * UINT64_C(0xf1de83e19937733d)); /* the inverse: the symbol itself */
            put(s, 7777);
        }
    }
    return length;
}

static void at_least_95_in_100_streams_have_their_exact_period(void **state) {
    (void)state;
    enum { STREAMS = 60 };
    for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
        unsigned exact = 0;
        for (unsigned i = 0; i < STREAMS; i++) {
            struct stream s = {.random = i * 77 + j};
            unsigned range = jobs[j].largest - jobs[j].smallest + 1;
            unsigned size = jobs[j].smallest + (unsigned)(scene_uniform(&s.random) * range);
            size_t truth = play(&s, &jobs[j], size, 30 + i, i % 3 ? 10 + i % 20 : 0);
            struct step_periods periods;
            assert_true(find(&periods, &s));
            if (periods.step < periods.count && periods.levels[periods.step].length == truth)
                exact++;
            free(s.symbols);
        }
        printf("%-20s exact %u of %u\n", jobs[j].name, exact, STREAMS);
        assert_true(exact * 100 >= 95 * STREAMS);
    }
}

static void the_anchor_occurs_once_per_step(void **state) {
    (void)state;
    struct stream s = {.random = 5};
    size_t truth = play(&s, &jobs[2], 20, 40, 0);
    struct step_periods periods;
    assert_true(find(&periods, &s));
    assert_true(periods.step < periods.count);
    const struct step_period *step = &periods.levels[periods.step];
    assert_int_equal(step->length, truth);
    assert_in_range(step->count, 35, 37); /* without the first tenth */
    assert_int_equal(s.symbols[step->first], step->anchor);
    assert_true(periods.step > 0); /* micro-batches and layers are levels inside */
    free(s.symbols);
}

static void evaluations_are_a_level_above(void **state) {
    (void)state;
    struct stream s = {.random = 5};
    size_t truth = play(&s, &jobs[0], 12, 200, 10);
    struct step_periods periods;
    assert_true(find(&periods, &s));
    assert_true(periods.step + 1 < periods.count);
    assert_int_equal(periods.levels[periods.step + 1].length, 10 * truth + truth / 3 + 1);
    free(s.symbols);
}

static void noise_and_nothing_have_no_steps(void **state) {
    (void)state;
    struct stream s = {.random = 9};
    struct step_periods periods;
    assert_true(find(&periods, &s));
    assert_int_equal(periods.step, periods.count);
    for (unsigned i = 0; i < 3000; i++)
        put(&s, (uint64_t)(scene_uniform(&s.random) * 50));
    assert_true(find(&periods, &s));
    assert_int_equal(periods.step, periods.count);
    free(s.symbols);
}

static void one_operation_per_step_is_a_step(void **state) {
    (void)state;
    struct stream s = {0};
    struct step_periods periods;
    for (unsigned i = 0; i < 100; i++)
        put(&s, REDUCE);
    assert_true(find(&periods, &s));
    assert_int_equal(periods.step, 0);
    assert_int_equal(periods.levels[0].length, 1);
    free(s.symbols);
}

/* Three distances have a median; the first tenth does not count. */
static void four_occurrences_make_a_period(void **state) {
    (void)state;
    for (unsigned steps = 3; steps <= 5; steps += 2) {
        struct stream s = {0};
        struct step_periods periods;
        for (unsigned k = 0; k < steps; k++)
            data_parallel(&s, 12);
        assert_true(find(&periods, &s));
        assert_int_equal(periods.step < periods.count, steps == 5);
        free(s.symbols);
    }
}

/* Alike operations, among them another one that comes after five of them half of the time, else by chance: that is no
 * step, though most positions repeat themselves. */
static void what_comes_by_chance_among_calls_alike_is_no_step(void **state) {
    (void)state;
    struct stream s = {.random = 21};
    struct step_periods periods;
    for (unsigned k = 0; k < 400; k++) {
        double chance = scene_uniform(&s.random);
        for (unsigned i = k % 2 ? 5 : 1 + (unsigned)(-6 * log(1 - chance)); i > 0; i--)
            put(&s, REDUCE);
        put(&s, OTHER);
    }
    assert_true(find(&periods, &s));
    assert_int_equal(periods.step, periods.count);
    free(s.symbols);
}

/* Alike operations, among them another one that comes after eleven of them half of the time, else at once or after
 * twenty-one: in nearly every dozen, and most positions repeat themselves, yet it comes by chance. */
static void what_comes_in_its_place_half_of_the_time_is_no_step(void **state) {
    (void)state;
    struct stream s = {.random = 33};
    struct step_periods periods;
    for (unsigned k = 0; k < 600; k++) {
        double chance = scene_uniform(&s.random);
        for (unsigned i = chance < 0.52 ? 11 : chance < 0.9 ? 0 : 21; i > 0; i--)
            put(&s, REDUCE);
        put(&s, OTHER);
    }
    assert_true(find(&periods, &s));
    assert_int_equal(periods.step, periods.count);
    free(s.symbols);
}

/* Of two collectives of one kind in each step, all ranks take the same one, whichever their records begin and end with.
 */
static void ranks_agree_about_the_anchor(void **state) {
    (void)state;
    enum { STEPS = 50, IN_STEP = 3 };
    uint64_t symbols[STEPS * IN_STEP], order[STEPS * IN_STEP] = {0}, anchor = 0;
    uint32_t numbers[STEPS * IN_STEP];
    for (uint32_t i = 0; i < STEPS * IN_STEP; i++) {
        symbols[i] = 100 + i % IN_STEP;
        numbers[i] = 7 + i;
        order[i] = i % IN_STEP == 0; /* less wanted */
    }
    for (size_t skipped = 0; skipped < IN_STEP; skipped++)
        for (size_t cut = 0; cut < IN_STEP; cut++) {
            struct step_periods periods;
            assert_true(step_periods_find(&periods, symbols + skipped, order + skipped, numbers + skipped,
                                          STEPS * IN_STEP - skipped - cut));
            assert_true(periods.step < periods.count);
            assert_int_equal(periods.levels[periods.step].length, IN_STEP);
            if (skipped == 0 && cut == 0)
                anchor = periods.levels[periods.step].anchor;
            assert_true(anchor != 100 && periods.levels[periods.step].anchor == anchor);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_agree_about_the_anchor),
        cmocka_unit_test(at_least_95_in_100_streams_have_their_exact_period),
        cmocka_unit_test(the_anchor_occurs_once_per_step),
        cmocka_unit_test(evaluations_are_a_level_above),
        cmocka_unit_test(noise_and_nothing_have_no_steps),
        cmocka_unit_test(one_operation_per_step_is_a_step),
        cmocka_unit_test(four_occurrences_make_a_period),
        cmocka_unit_test(what_comes_in_its_place_half_of_the_time_is_no_step),
        cmocka_unit_test(what_comes_by_chance_among_calls_alike_is_no_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
