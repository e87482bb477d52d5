/* SPDX-License-Identifier: Apache-2.0
 *
 * Cutting a cohort's run into blocks that can be compared.
 * Lives here: bins of self time (ranks.h) -> a table of blocks x ranks.
 * Must not live here: tests, verdicts.
 *
 * Blocks end at collectives and hold about equal shares of the median rank's self time: a step whose work sits before
 * one of its collectives is then never cut into blocks without work, and a run of few steps gets few blocks.
 */
#ifndef COMMTAP_STRAGGLERS_TIME_BATCHES_H
#define COMMTAP_STRAGGLERS_TIME_BATCHES_H

#include "analyzer/stragglers/ranks.h"

struct blocks {
    size_t *dumps; /* columns: dumps of the cohort that have bins */
    size_t dump_count;
    int64_t *self_ns; /* count * dump_count, row by row */
    size_t count;
};

/* `members` lists the cohort's dumps. Coarsens their bins to a common width. At most `most` blocks. Returns false when
 * memory is short; the caller frees with blocks_free in every case. */
bool blocks_make(struct blocks *blocks, struct rank_times *times, const size_t *members, size_t member_count,
                 size_t most);
void blocks_free(struct blocks *blocks);

#endif
