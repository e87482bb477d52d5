/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of self times with a known answer, judged by their leads.
 * Must not live here: tests.
 */
#ifndef COMMTAP_TEST_LEADS_FIXTURE_H
#define COMMTAP_TEST_LEADS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analyzer/base/significance.h"
#include "analyzer/leads/leads.h"
#include "test/scenes/scene.h"

enum { ROWS_MOST = 512, COLUMNS_MOST = 16 };

/* Times around 10 ms, by chance; what is slow is put in by hand. */
struct hand_table {
    int64_t self_ns[ROWS_MOST * COLUMNS_MOST];
    uint32_t numbers[ROWS_MOST];
    struct leads_table table;
    struct rank_leads found[COLUMNS_MOST];
};

static inline struct hand_table *make_table(uint64_t seed, size_t rows, size_t columns) {
    struct hand_table *hand = calloc(1, sizeof *hand);
    assert_non_null(hand);
    uint64_t random = seed;
    for (size_t i = 0; i < rows * columns; i++)
        hand->self_ns[i] = 10000000 + (int64_t)(500000 * scene_gauss(&random));
    for (size_t row = 0; row < rows; row++)
        hand->numbers[row] = (uint32_t)row;
    hand->table = (struct leads_table){rows, columns, hand->self_ns, hand->numbers, false, 1};
    return hand;
}

static inline void judge(struct hand_table *hand) {
    struct rank_leads *list[COLUMNS_MOST];
    assert_true(leads_judge(&hand->table, 2, hand->found));
    for (size_t c = 0; c < hand->table.columns; c++)
        list[c] = &hand->found[c];
    assert_true(leads_correct(list, hand->table.columns));
}

/* How many columns are beyond doubt. */
static inline size_t sure(const struct hand_table *hand) {
    size_t count = 0;
    for (size_t c = 0; c < hand->table.columns; c++)
        count += hand->found[c].confidence >= CONFIDENCE_VERDICT;
    return count;
}

static inline void slow_down(struct hand_table *hand, size_t row, size_t column, double factor) {
    int64_t *self = &hand->self_ns[row * hand->table.columns + column];
    *self = (int64_t)((double)*self * factor);
}

#endif
