/* SPDX-License-Identifier: Apache-2.0
 *
 * How many letters two names differ by: for "did you mean". The analyzer uses it, too.
 * Lives here: the distance of Levenshtein, without memory of its own.
 * Must not live here: which distance is near enough.
 */
#ifndef COMMTAP_SHIM_BASE_EDIT_DISTANCE_H
#define COMMTAP_SHIM_BASE_EDIT_DISTANCE_H

#include <stddef.h>
#include <string.h>
#include <stdint.h>

enum { EDIT_DISTANCE_NAME_MAX = 64 };

/* Letters to insert, to remove or to replace to make `b` of the first `length` characters of `a`. SIZE_MAX where `b` is
 * longer than EDIT_DISTANCE_NAME_MAX. */
static inline size_t edit_distance(const char *a, size_t length, const char *b) {
    size_t row[EDIT_DISTANCE_NAME_MAX + 1], columns = 0;
    for (; b[columns]; columns++)
        if (columns == EDIT_DISTANCE_NAME_MAX)
            return SIZE_MAX;
    for (size_t j = 0; j <= columns; j++)
        row[j] = j;
    for (size_t i = 0; i < length; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < columns; j++) {
            size_t best = diagonal + (a[i] != b[j]);
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j + 1] + 1 < best ? row[j + 1] + 1 : best;
            diagonal = row[j + 1];
            row[j + 1] = best;
        }
    }
    return row[columns];
}

/* How far a name may be from one that was meant: a third of its letters, three at most. What all knobs begin with is no
 * likeness. */
static inline size_t edit_distance_most(const char *name, size_t length) {
    static const char prefix[] = "COMMTAP_";
    size_t common = sizeof prefix - 1;
    size_t own = length > common && strncmp(name, prefix, common) == 0 ? length - common : length;
    size_t most = (own + 2) / 3;
    return most < 3 ? most : 3;
}

#endif
