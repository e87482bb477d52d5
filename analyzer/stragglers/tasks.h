/* SPDX-License-Identifier: Apache-2.0
 *
 * What the workers of a master were dealt out.
 * Lives here: who is one, how many tasks each did. Must not live here: whether one is slow (task_times.h, verdicts.h).
 */
#ifndef COMMTAP_STRAGGLERS_TASKS_H
#define COMMTAP_STRAGGLERS_TASKS_H

#include "analyzer/stragglers/stragglers.h"

/* Whether a rank of that comparison group is one. */
bool is_worker(const struct straggler_analysis *analysis, size_t dump, uint32_t group);
/* How many tasks a worker did. */
double tasks_done(const struct straggler_analysis *analysis, size_t dump);

/* All that the workers among some ranks did. */
struct task_totals {
    double tasks, own_ns; /* own time, summed over the tasks */
};

struct task_totals tasks_total(const struct straggler_analysis *analysis, const size_t *dumps, size_t count);

/* Whether a rank may be slow as far as its tasks tell: they take SLOW_RATIO times as long as those of the others on
 * average, or it is no worker. A worker that is handed more of them works for more of its time, and holds nobody up. */
bool tasks_allow(const struct straggler_analysis *analysis, size_t dump, const struct task_totals *totals);

#endif
