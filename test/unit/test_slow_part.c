/* SPDX-License-Identifier: Apache-2.0
 *
 * Slow for a part of the run: drawn tables with a known answer, and the limits from both sides.
 * Must not live here: leads (test_leads.c).
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/leads/slow_part.h"
#include "test/scenes/scene.h"

enum { ROWS_MOST = 512, COLUMNS_MOST = 8, TABLES = 300 };

/* Column 0 takes `times` as long from row `from` to `to`; the noise of each column keeps `kept` of itself per row. */
struct drawing {
    uint64_t seed;
    size_t rows, columns, from, to;
    double times, noise, kept;
    bool level; /* values are distances from 0 */
};

static void draw(const struct drawing *drawing, double *self) {
    uint64_t random = drawing->seed;
    for (size_t c = 0; c < drawing->columns; c++) {
        double carried = scene_gauss(&random), fresh = sqrt(1 - drawing->kept * drawing->kept);
        for (size_t row = 0; row < drawing->rows; row++) {
            carried = drawing->kept * carried + fresh * scene_gauss(&random);
            double usual = 1 + drawing->noise * carried;
            bool slow = c == 0 && row >= drawing->from && row < drawing->to;
            self[row * drawing->columns + c] = (usual * (slow ? drawing->times : 1) - drawing->level) * 5e6;
        }
    }
}

static void place(const double *self, size_t rows, size_t columns, double *places) {
    for (size_t i = 0; i < rows * columns; i++) {
        const double *row = self + i / columns * columns;
        for (size_t c = 0; c < columns; c++)
            places[i] += c == i % columns ? 0 : row[c] < self[i] ? 1 : row[c] == self[i] ? 0.5 : 0;
    }
}

/* The chances of all columns. */
static void judge(const struct drawing *drawing, double *chances) {
    double *self = calloc(ROWS_MOST * COLUMNS_MOST, sizeof *self),
           *places = calloc(ROWS_MOST * COLUMNS_MOST, sizeof *places);
    struct slow_parts parts;
    assert_true(self && places);
    draw(drawing, self);
    place(self, drawing->rows, drawing->columns, places);
    assert_true(slow_parts_find(&parts, self, places, drawing->rows, drawing->columns, drawing->level));
    for (size_t c = 0; c < drawing->columns; c++)
        chances[c] = slow_parts_chance(&parts, c);
    slow_parts_free(&parts);
    free(self);
    free(places);
}

struct hits {
    unsigned first, others; /* tables in which column 0, or another one, has a chance of at most that asked for */
};

static struct hits hits_of(struct drawing drawing, double chance) {
    struct hits hits = {0};
    for (unsigned i = 0; i < TABLES; i++) {
        double chances[COLUMNS_MOST];
        bool other = false;
        drawing.seed = 40000 + i;
        judge(&drawing, chances);
        for (size_t c = 1; c < drawing.columns; c++)
            other |= chances[c] <= chance;
        hits.first += chances[0] <= chance;
        hits.others += other;
    }
    return hits;
}

static void a_rank_slow_in_the_second_half_is_found(void **state) {
    (void)state;
    for (size_t columns = 2; columns <= COLUMNS_MOST; columns += 3) {
        struct hits hits = hits_of((struct drawing){0, 200, columns, 100, 200, 1.3, 0.05, 0, false}, 1e-4);
        assert_in_range(hits.first, TABLES - 3, TABLES);
        assert_int_equal(hits.others, 0);
    }
}

/* Values that are distances may be below 0, and have no ratio. */
static void distances_are_compared_as_they_are(void **state) {
    (void)state;
    struct hits hits = hits_of((struct drawing){0, 200, 4, 100, 200, 1.3, 0.05, 0, true}, 1e-4);
    assert_in_range(hits.first, TABLES - 3, TABLES);
    assert_int_equal(hits.others, 0);
}

/* However long what makes a rank slow by chance lasts, up to a twentieth of the run: one in a hundred for all ranks
 * together, and so for each of eight of them one in eight hundred. */
static void noise_that_lasts_is_no_part(void **state) {
    (void)state;
    static const double kept[] = {0, 0.8, 0.9};
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++)
        for (size_t columns = 2; columns <= COLUMNS_MOST; columns *= 2) {
            struct hits hits =
                hits_of((struct drawing){0, 400, columns, 0, 0, 1, 0.1, kept[k], false}, 0.01 / (double)columns);
            assert_in_range(hits.first + hits.others, 0, TABLES / 100 + 2);
        }
}

/* Of 32 pieces four are an eighth; in two of them chance has too many places to choose from. */
static void a_part_is_an_eighth_of_the_run(void **state) {
    (void)state;
    struct hits eighth = hits_of((struct drawing){0, 320, 4, 160, 200, 2, 0.03, 0, false}, 1e-3);
    struct hits sixteenth = hits_of((struct drawing){0, 320, 4, 160, 170, 2, 0.03, 0, false}, 1e-3);
    assert_in_range(eighth.first, TABLES - 3, TABLES);
    assert_in_range(sixteenth.first, 0, 3);
}

static void fewer_than_sixteen_stretches_have_no_part(void **state) {
    (void)state;
    double chances[COLUMNS_MOST];
    judge(&(struct drawing){7, 15, 4, 0, 15, 5, 0.01, 0, false}, chances);
    assert_true(chances[0] == 1);
    judge(&(struct drawing){7, 16, 8, 0, 16, 5, 0.01, 0, false}, chances);
    assert_true(chances[0] < 0.01);
}

/* Of two ranks with 30 stretches one is ahead in all: each of 2^30 orders is as likely, however far it is ahead, and
 * the normal tail of that is 2e-8; there are as many parts of 30 pieces, of 3 or more, as 28 * 29 / 2. */
static void places_alone_bound_the_chance(void **state) {
    (void)state;
    double chances[COLUMNS_MOST];
    judge(&(struct drawing){7, 30, 2, 0, 30, 100, 0.001, 0, false}, chances);
    assert_true(fabs(chances[0] / (28 * 29 / 2 * erfc(sqrt(30.0 / 2)) / 2) - 1) < 1e-6);
    assert_true(chances[1] == 1);
}

/* Pauses of fifty times the usual length, of any rank, neither hide a part nor make one. */
static void pauses_change_little(void **state) {
    (void)state;
    unsigned found = 0, others = 0;
    for (unsigned i = 0; i < TABLES; i++) {
        const struct drawing drawing = {60000 + i, 200, 4, 100, 200, 1.3, 0.05, 0, false};
        double *self = calloc(ROWS_MOST * COLUMNS_MOST, sizeof *self);
        double *places = calloc(ROWS_MOST * COLUMNS_MOST, sizeof *places);
        uint64_t random = drawing.seed;
        struct slow_parts parts;
        assert_true(self && places);
        draw(&drawing, self);
        for (size_t k = 0; k < drawing.rows * drawing.columns; k++)
            self[k] *= scene_uniform(&random) < 0.02 ? 50 : 1;
        place(self, drawing.rows, drawing.columns, places);
        assert_true(slow_parts_find(&parts, self, places, drawing.rows, drawing.columns, false));
        found += slow_parts_chance(&parts, 0) <= 1e-4;
        for (size_t c = 1; c < drawing.columns; c++)
            others += slow_parts_chance(&parts, c) <= 1e-3;
        slow_parts_free(&parts);
        free(self);
        free(places);
    }
    assert_in_range(found, TABLES - 5, TABLES);
    assert_int_equal(others, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_slow_in_the_second_half_is_found),
        cmocka_unit_test(distances_are_compared_as_they_are),
        cmocka_unit_test(noise_that_lasts_is_no_part),
        cmocka_unit_test(a_part_is_an_eighth_of_the_run),
        cmocka_unit_test(fewer_than_sixteen_stretches_have_no_part),
        cmocka_unit_test(places_alone_bound_the_chance),
        cmocka_unit_test(pauses_change_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
