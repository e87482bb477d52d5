/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank that is slow in every so many-th stretch.
 * Lives here: at which distance, if any, and the chance of it. Must not live here: whether that accuses it (leads.h).
 *
 * A rank's stretches are put in order by how far its own time is above the others'. Where nothing comes regularly,
 * those that lie a given distance apart have any places in that order, each choice of m of the n with equal chance: how
 * many choices sum to as little is counted (as for Wilcoxon's rank sum), where m is small and the sum near the least.
 * Else the chance is at most s^m / m!, s the sum of the places from above, as parts of n (the lower tail of a sum of
 * uniform numbers: Irwin and Hall, 1927; places without repetition stand as high less often). Counted as often as there
 * are distances, and stretches to begin with.
 *
 * Pauses at other times, of anybody, do not hide it, and however long one stretch is, it counts as one.
 */
#ifndef COMMTAP_LEADS_REGULAR_ROWS_H
#define COMMTAP_LEADS_REGULAR_ROWS_H

#include "analyzer/leads/lead_rows.h"

struct regular_rows {
    double chance;         /* that it comes as regularly, or, where all have long ones, leads in as many; 1: none */
    uint32_t every, begin; /* stretches; their numbers modulo that */
    size_t count;          /* of those on record that it is slow in; several in a row count as one */
    double longer_ns, slow_ratio; /* usually, in one of them, beside the others' median */
    double lead_ns;               /* what they cost, per stretch of the run */
    uint32_t first, last;         /* places in the run between which they lie, in 1/1000 */
};

/* `single` are the table's rows one by one, `unit` what rows_single says of them. Returns false when memory is short.
 */
bool regular_rows_find(const struct leads_table *table, const struct lead_rows *single, const double *unit,
                       size_t column, struct regular_rows *out);

#endif
