/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps as a table: one row per rank, per step, or per both.
 * Lives here: averaging over steps or ranks, keys and looks of the columns.
 * Must not live here: how steps are found (steps/steps.h).
 */
#ifndef COMMTAP_RENDER_STEPS_TABLE_H
#define COMMTAP_RENDER_STEPS_TABLE_H

#include "analyzer/job/job.h"
#include "analyzer/steps/steps.h"
#include "analyzer/render/table.h"

enum step_grouping { STEPS_BY_RANK, STEPS_BY_STEP, STEPS_BY_BOTH };

/* Sums over `count` steps; a figure that is unknown in one of them is unknown, but for waits: a step whose counterparts
 * were overwritten says nothing about the others. */
struct step_row {
    int32_t rank;   /* RANK_UNKNOWN: over several */
    int64_t number; /* -1: over several */
    int64_t stage;  /* 0: unknown, or over several */
    const char *host;
    uint64_t count;
    struct step sum;
    uint64_t wait_steps; /* whose waits are known, and summed up */
    int64_t start_ns;    /* the first's, since the job's start */
    int64_t longest_ns;
    bool selected; /* the figures are about some operations only: the rest of a step is not known */
};

extern const struct column step_columns[];

/* Rows of the steps that the filter lets pass (--rank, --step; --from, --to: steps that begin there), in order of rank,
 * then number; steps without a number count where no numbers are asked for. `job_start_ns` is common time; `stage_of`
 * is per dump (stragglers.h). NULL when
 * memory is short; the caller frees. */
struct step_row *step_rows(const struct steps *steps, const struct job *job, const uint32_t *stage_of,
                           const struct filter *filter, enum step_grouping grouping, int64_t job_start_ns,
                           size_t *count);

#endif
