/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps, and what GPUs did in them, as tables: one row per rank, per step, or per both.
 * Lives here: averaging over steps or ranks, keys and looks of the columns.
 * Must not live here: how steps are found (steps/steps.h), sums of what a GPU did (steps/gpu_times.h).
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
    int32_t rank;                   /* RANK_UNKNOWN: over several */
    int64_t number;                 /* -1: over several */
    int64_t stage;                  /* 0: unknown, or over several */
    const struct device_state *gpu; /* of a process that has several; NULL: it has one, or over several */
    const char *host;
    uint64_t count;
    struct step sum;
    uint64_t wait_steps;            /* whose waits are known, and summed up */
    uint64_t unresolved_wait_steps; /* whose waits are all shorter than the clocks' error: they add none */
    int64_t start_ns;               /* the first's, since the job's start */
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

struct gpu_row {
    int32_t rank;                   /* RANK_UNKNOWN: mean over several */
    int64_t number;                 /* of the step, -1: all that are asked for, together */
    uint64_t steps;                 /* how many; 0: the rank has no steps, and all that ran counts */
    uint64_t ranks;                 /* that `times` is the sum of */
    const struct device_state *gpu; /* NULL: not known, or several */
    struct gpu_times times;
};

extern const struct column gpu_columns[];

/* The GPU that a process, or that view of it, worked on; NULL where it is not told, or it worked on several. */
const struct device_state *gpu_of(const struct dump *dump);

/* The number of the GPU that the dump is a view of; unknown where it is a whole process. */
struct cell gpu_cell(const struct dump *dump);

/* Rows of the ranks of which all that ran on the GPU is known, of the steps that the filter lets pass. NULL when memory
 * is short; the caller frees. */
struct gpu_row *gpu_rows(const struct steps *steps, const struct job *job, const struct filter *filter,
                         enum step_grouping grouping, int64_t job_start_ns, size_t *count);

#endif
