/* SPDX-License-Identifier: Apache-2.0
 *
 * Is a rank slower than the others for a part of the run, more than chance allows?
 * Lives here: the test. Must not live here: leads (leads.h), what is said of the part (slow_stretches.h).
 *
 * The run is cut into 32 pieces; a rank's height in a piece is by how much it is usually (in the median stretch) above
 * the others' median there. Of all parts made of four pieces or more the one is taken in which the heights stand
 * highest. Two figures must be beyond chance, each tested as often as there are such parts: how far these heights stand
 * above none, beside how much heights vary within the part and outside it (Student), fewer of them where one resembles
 * the next; and the sum of the places that the rank has among the others, stretch by stretch, of which any is as likely
 * as any other where nobody is slow. Pauses and other rare long stretches change neither by much.
 */
#ifndef COMMTAP_LEADS_SLOW_PART_H
#define COMMTAP_LEADS_SLOW_PART_H

#include <stdbool.h>
#include <stddef.h>

#include "analyzer/base/significance.h"

enum { PIECES_MOST = TIME_BATCHES_MOST };

/* Of a rank in a piece. */
struct height {
    double height; /* 0: usually at the others' median */
    double places; /* sum over the stretches; of each the mean is 0 and the standard deviation 1 where nobody is slow */
};

struct slow_parts {
    size_t pieces, columns;
    double rows[PIECES_MOST]; /* stretches in a piece */
    struct height *heights;   /* columns * PIECES_MOST */
    double *correlations;     /* per column: how much one height resembles the next; sorted */
};

/* `self` (ns) and `places`: rows * columns; places from 0, ties share the mean place. `level`: heights are differences,
 * for values that are distances already and have any unit, else logarithms of ratios. Returns false when memory is
 * short; the caller frees with slow_parts_free in every case. */
bool slow_parts_find(struct slow_parts *parts, const double *self, const double *places, size_t rows, size_t columns,
                     bool level);

/* The chance, at most 1, that the column's best part stands as high. */
double slow_parts_chance(const struct slow_parts *parts, size_t column);

void slow_parts_free(struct slow_parts *parts);

#endif
