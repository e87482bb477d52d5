/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/stragglers/tasks.h"

#include "analyzer/base/significance.h"

double tasks_done(const struct straggler_analysis *analysis, size_t dump) {
    const struct rank_bins *bins = &analysis->tasks[dump].bins;
    double tasks = 0;
    for (uint32_t i = 0; i < bins->count; i++)
        tasks += bins->calls[i];
    return tasks;
}

bool is_worker(const struct straggler_analysis *analysis, size_t dump, uint32_t group) {
    return analysis->comparison_groups.tasks[dump].kind != CUT_NONE &&
           analysis->comparison_groups.group_of[dump] == group;
}

struct task_totals tasks_total(const struct straggler_analysis *analysis, const size_t *dumps, size_t count) {
    struct task_totals totals = {0};
    for (size_t i = 0; analysis->tasks && i < count; i++)
        if (analysis->comparison_groups.tasks[dumps[i]].kind != CUT_NONE) {
            totals.tasks += tasks_done(analysis, dumps[i]);
            totals.own_ns += (double)analysis->tasks[dumps[i]].self_ns;
        }
    return totals;
}

bool tasks_allow(const struct straggler_analysis *analysis, size_t dump, const struct task_totals *totals) {
    if (!analysis->tasks || analysis->comparison_groups.tasks[dump].kind == CUT_NONE)
        return true;
    double tasks = tasks_done(analysis, dump), own_ns = (double)analysis->tasks[dump].self_ns;
    double others = totals->tasks - tasks, others_ns = totals->own_ns - own_ns;
    return tasks == 0 || others <= 0 || own_ns / tasks >= SLOW_RATIO * others_ns / others;
}
