/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/base/cache_lines.h"
#include "analyzer/base/sort.h"
#include "analyzer/base/statistics.h"

enum { MOST = 20000 };

/* ---- as qsort does ----------------------------------------------------------------------------------------------- */

enum kind { ASCENDING, DESCENDING, UP_AND_DOWN, SAWTOOTH, ALIKE, FEW_VALUES, DRAWN, KINDS };

static int64_t value_of(enum kind kind, size_t i, size_t count) {
    switch (kind) {
    case ASCENDING:
        return (int64_t)i;
    case DESCENDING:
        return -(int64_t)i;
    case UP_AND_DOWN:
        return (int64_t)(i < count / 2 ? i : count - i);
    case SAWTOOTH:
        return (int64_t)(i % 37);
    case ALIKE:
        return 7;
    case FEW_VALUES:
        return (int64_t)(i * UINT64_C(0x9e3779b97f4a7c15) >> 62);
    default:
        return (int64_t)(i * UINT64_C(0x9e3779b97f4a7c15) ^ i << 40);
    }
}

static void numbers_are_sorted_as_qsort_sorts_them(void **state) {
    (void)state;
    static const size_t counts[] = {0, 1, 2, 3, SORT_FEW, SORT_FEW + 1, 64, 1000, MOST};
    static int64_t own[MOST], peers[MOST];
    static double real[MOST];
    for (enum kind kind = 0; kind < KINDS; kind++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            for (size_t i = 0; i < counts[c]; i++) {
                own[i] = peers[i] = value_of(kind, i, counts[c]);
                real[i] = (double)own[i];
            }
            sort_int64(own, counts[c]);
            sort_double(real, counts[c]);
            qsort(peers, counts[c], sizeof *peers, compare_int64);
            assert_memory_equal(own, peers, counts[c] * sizeof *own);
            for (size_t i = 0; i < counts[c]; i++)
                assert_true(real[i] == (double)peers[i]);
        }
}

/* Nothing has a place beside what is not a number, but all of it stays there. */
static void what_is_no_number_stays_within_the_list(void **state) {
    (void)state;
    static double values[1002];
    for (unsigned every = 1; every < 5; every++) {
        double *inside = values + 1;
        size_t numbers = 0, none = 0;
        values[0] = values[1001] = -1;
        for (size_t i = 0; i < 1000; i++)
            inside[i] = i % every == 0 ? NAN : (double)(i * 7919 % 1000);
        sort_double(inside, 1000);
        for (size_t i = 0; i < 1000; i++) {
            none += isnan(inside[i]) != 0;
            numbers += inside[i] >= 0 && inside[i] < 1000;
        }
        assert_int_equal(none, (999 / every) + 1);
        assert_int_equal(none + numbers, 1000);
        assert_true(values[0] == -1 && values[1001] == -1);
    }
}

/* ---- against an adversary ---------------------------------------------------------------------------------------- */

/* M. D. McIlroy, A Killer Adversary for Quicksort, Software: Practice and Experience 29(4), 1999: values are made up
 * while they are compared, so that every pivot turns out to be one of the least. */
static struct {
    uint32_t values[MOST], solid, candidate;
    uint64_t compared;
} adversary;

enum { GAS = MOST }; /* not decided yet: above all that is */

static bool is_less(const uint32_t *a, const uint32_t *b) {
    uint32_t *left = &adversary.values[*a], *right = &adversary.values[*b];
    adversary.compared++;
    if (*left == GAS && *right == GAS)
        *(*a == adversary.candidate ? left : right) = adversary.solid++;
    if (*left == GAS)
        adversary.candidate = *a;
    else if (*right == GAS)
        adversary.candidate = *b;
    return *left < *right;
}

static int compare(const void *a, const void *b) {
    return is_less(b, a) - is_less(a, b);
}

DEFINE_SORT(sort_against, uint32_t, is_less, compare)

static void nobody_can_make_it_slow(void **state) {
    (void)state;
    static uint32_t items[MOST];
    for (uint32_t i = 0; i < MOST; i++) {
        items[i] = i;
        adversary.values[i] = GAS;
    }
    sort_against(items, MOST);
    for (size_t i = 1; i < MOST; i++)
        assert_true(adversary.values[items[i - 1]] < adversary.values[items[i]]);
    /* 64 parts, each gone through once, then qsort's; all parts, as without an end to it, would be MOST * MOST / 4 */
    assert_true(adversary.compared < (uint64_t)(64 + 2 * 2 * 15) * MOST);
}

/* ---- cache lines ------------------------------------------------------------------------------------------------- */

static void memory_on_own_lines_is_zero_and_begins_one(void **state) {
    (void)state;
    struct counter {
        ON_OWN_LINES uint64_t count;
    };
    struct counter *counters = calloc_on_own_lines(3, sizeof *counters);
    assert_non_null(counters);
    assert_int_equal((uintptr_t)counters % OWN_LINES_BYTES, 0);
    assert_int_equal((char *)&counters[1] - (char *)&counters[0], OWN_LINES_BYTES);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(counters[i].count, 0);
    free(counters);
    assert_null(calloc_on_own_lines(SIZE_MAX / 2, 3));
    assert_null(calloc_on_own_lines(SIZE_MAX, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_sorted_as_qsort_sorts_them),
        cmocka_unit_test(what_is_no_number_stays_within_the_list),
        cmocka_unit_test(nobody_can_make_it_slow),
        cmocka_unit_test(memory_on_own_lines_is_zero_and_begins_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
