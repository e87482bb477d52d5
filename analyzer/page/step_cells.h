/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of every rank as a grid of numbers: the block "steps".
 * Lives here: columns, how many steps one cell is the mean of.
 * Must not live here: finding steps.
 */
#ifndef COMMTAP_PAGE_STEP_CELLS_H
#define COMMTAP_PAGE_STEP_CELLS_H

#include <jansson.h>

#include "analyzer/job/job.h"
#include "analyzer/steps/steps.h"

/* Cells that a page holds: 1024 ranks of 128 steps; beyond that several steps share a cell. About 5 bytes for each of
 * its figures. */
enum { STEP_CELLS_MOST = 1 << 17 };

/* Of steps whose waits were filled in. NULL when memory is short. */
json_t *step_cells_to_json(const struct steps *steps, const struct job *job, int64_t job_start_ns);

#endif
