/* SPDX-License-Identifier: Apache-2.0
 *
 * What commtap itself took of a job's time, and what it left out to stay within COMMTAP_BUDGET.
 * Lives here: sums and the worst rank, from what processes measured (struct own_cost in shim/format.h).
 * Must not live here: sentences, what was lost by leaving out (load/losses.h).
 */
#ifndef COMMTAP_JOB_OWN_COST_H
#define COMMTAP_JOB_OWN_COST_H

#include "analyzer/job/job.h"

/* One step of what is left out, over all processes. */
struct shed_sums {
    size_t ranks;   /* that took it */
    uint64_t times; /* how often, all together */
    int64_t ns;     /* how long it was in force, all together */
};

/* Times are wall time of calls, all threads of a process together; shares are of processes' wall time, from activation
 * to the last that their dumps tell of. */
struct own_cost_sums {
    size_t ranks;     /* that measured any call; 0: nothing is known, and all below is 0 */
    uint64_t samples; /* calls measured */
    uint64_t calls;   /* that they stand for */
    int64_t ns;
    double share;
    double most_share; /* the largest of a rank */
    int32_t most_rank;
    double budget;                  /* the largest that was set, 0: none */
    size_t over;                    /* ranks that took more than their budget by more than OWN_COST_OVER */
    double over_share, over_budget; /* of the one that did most */
    int32_t over_rank;
    struct shed_sums shed[SHED_STEPS];
};

enum { OWN_COST_OVER = 20 /* per cent of the budget: how near it is kept where leaving out suffices */ };

/* "gpu_timing", "stacks", "records" */
extern const char *const shed_step_names[SHED_STEPS];

struct own_cost_sums own_cost_sum(const struct job *job);

/* Of one call in the mean, ns. */
double own_cost_of_call(const struct own_cost_sums *sums);

#endif
