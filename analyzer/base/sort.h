/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorting where libc's qsort, which calls a function for each comparison, is what takes the time.
 * Lives here: a quicksort to be compiled for one type and one order.
 * Must not live here: sorting by digits (radix_sort.h), which needs room for a copy and wins where there are thousands.
 *
 * Introsort: D. Musser, Introspective Sorting and Selection Algorithms, Software: Practice and Experience 27(8), 1997.
 */
#ifndef COMMTAP_BASE_SORT_H
#define COMMTAP_BASE_SORT_H

#include <stddef.h>
#include <stdlib.h>

enum { SORT_FEW = 24 }; /* are brought to their places one by one */

/* Defines `static void name(type *items, size_t count)`, which sorts ascending by less(const type *, const type *), and
 * does not keep equal ones in their order. Parts that keep shrinking by little only go to qsort and compare(). An order
 * that is none (not-a-number among doubles) sorts in some way, within the items. */
#define DEFINE_SORT(name, type, less, compare)                                                                         \
    static void name##_few(type *items, size_t count) {                                                                \
        for (size_t i = 1; i < count; i++) {                                                                           \
            type item = items[i];                                                                                      \
            size_t at = i;                                                                                             \
            for (; at > 0 && less(&item, &items[at - 1]); at--)                                                        \
                items[at] = items[at - 1];                                                                             \
            items[at] = item;                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* Hoare's: how many items go to the left part; none of it is above the pivot, none of the rest below. */          \
    static size_t name##_split(type *items, size_t count) {                                                            \
        const type *a = &items[0], *b = &items[count / 2], *c = &items[count - 1];                                     \
        type pivot = less(a, b) ? (less(b, c) ? *b : less(a, c) ? *c : *a) : (less(a, c) ? *a : less(b, c) ? *c : *b); \
        for (size_t i = 0, k = count - 1;; i++, k--) {                                                                 \
            while (less(&items[i], &pivot))                                                                            \
                i++;                                                                                                   \
            while (less(&pivot, &items[k]))                                                                            \
                k--;                                                                                                   \
            if (i >= k)                                                                                                \
                return i == k ? i : k + 1;                                                                             \
            type item = items[i];                                                                                      \
            items[i] = items[k];                                                                                       \
            items[k] = item;                                                                                           \
        }                                                                                                              \
    }                                                                                                                  \
    static void name(type *items, size_t count) {                                                                      \
        for (size_t splits = 0; count > SORT_FEW; splits++) {                                                          \
            if (splits > 64) {                                                                                         \
                qsort(items, count, sizeof *items, compare);                                                           \
                return;                                                                                                \
            }                                                                                                          \
            size_t left = name##_split(items, count);                                                                  \
            if (left < count - left) {                                                                                 \
                name(items, left);                                                                                     \
                items += left;                                                                                         \
                count -= left;                                                                                         \
            } else {                                                                                                   \
                name(items + left, count - left);                                                                      \
                count = left;                                                                                          \
            }                                                                                                          \
        }                                                                                                              \
        name##_few(items, count);                                                                                      \
    }

#endif
