/* SPDX-License-Identifier: Apache-2.0
 *
 * Cutting a comparison group's run into batches that can be compared.
 * Lives here: bins of self time (ranks.h) -> a table of batches x ranks.
 * Must not live here: tests, verdicts.
 *
 * Batches end at collectives and hold about equal shares of the median rank's self time: a step whose work sits before
 * one of its collectives is then never cut into batches without work, and a run of few steps gets few batches.
 */
#ifndef COMMTAP_STRAGGLERS_TIME_BATCHES_H
#define COMMTAP_STRAGGLERS_TIME_BATCHES_H

#include "analyzer/base/significance.h"
#include "analyzer/stragglers/ranks.h"

enum { BATCH_NS_LEAST = 10000000 }; /* within a few time slices of the scheduler nothing is independent */

struct time_batches {
    size_t *dumps; /* columns: dumps of the comparison group that have bins */
    size_t dump_count;
    int64_t *self_ns; /* count * dump_count, row by row */
    size_t count;
    enum significance_rows rows;
    size_t at_once; /* steps in one of them, where they are steps */
    bool marked;    /* those are marked, else from one collective of all to the next (own_steps.h) */
};

/* `members` lists the comparison group's dumps. Coarsens their bins to a common width. At most `most` batches. Returns
 * false when memory is short; the caller frees with time_batches_free in every case. */
bool time_batches_make(struct time_batches *batches, struct rank_times *times, const size_t *members,
                       size_t member_count, size_t most);
/* The same of marked steps: each is a batch, or several are one where they are more than TIME_BATCHES_MOST. None where
 * the ranks have not as many of them each, or too many or too few (own_steps.h, significance.h). */
bool time_batches_of_steps(struct time_batches *batches, const struct rank_times *times, const size_t *members,
                           size_t member_count);
void time_batches_free(struct time_batches *batches);

#endif
