/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/stragglers/slow_steps.h"

#include "analyzer/leads/slow_stretches.h"
#include "analyzer/steps/steps.h"

enum { STEPS_LOOKED_AT = 32 }; /* of each list, the costliest: a whole dump is read for each */

/* Leaves what is in one step once, and of two stretches in a row the first: what a rank does across the end of a
 * stretch is in both. What came before all steps is set-up. False where another one is in no step. */
static bool leave_once(const uint32_t *noted, uint32_t *steps, unsigned *count) {
    unsigned left = 0, taken = 0;
    for (unsigned i = 0; i < *count; i++) {
        if (steps[i] == NO_STEP && left == 0)
            continue;
        if (steps[i] == NO_STEP)
            return false;
        bool follows = left > 0 && taken == i - 1 && noted[i] == noted[i - 1] + 1;
        if (follows || (left > 0 && steps[left - 1] == steps[i]))
            continue;
        taken = i;
        steps[left++] = steps[i];
    }
    *count = left;
    return true;
}

static bool find_for(const struct straggler_analysis *analysis, struct straggler *straggler) {
    size_t dump = straggler->dumps[0];
    struct rank_leads *when = &straggler->when;
    const struct cut *cut = &analysis->comparison_groups.cuts[dump];
    const struct dump_communicator *comm = dump_communicator(analysis->clock->dumps[dump], cut->comm);
    uint32_t steps[SLOW_NOTED];
    unsigned count = when->noted_count;
    if (!straggler->at_times || count == 0 || cut->kind != CUT_COLLECTIVE || cut->replays || !comm)
        return true;
    if (!steps_of_collectives(steps, analysis->clock, dump, comm->definition->uid, when->noted, count))
        return false;
    if (leave_once(when->noted, steps, &count))
        when->every_steps = slow_stretches_distance(steps, count);
    return true;
}

bool slow_steps_find(struct straggler_analysis *analysis) {
    struct straggler *const lists[] = {analysis->stragglers, analysis->suspects, analysis->hidden};
    const size_t counts[] = {analysis->straggler_count, analysis->suspect_count, analysis->hidden_count};
    bool done = true;
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
        for (size_t i = 0; done && i < counts[k] && i < STEPS_LOOKED_AT; i++)
            done = find_for(analysis, &lists[k][i]);
    return done;
}
