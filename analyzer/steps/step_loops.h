/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops in a sequence of operations whose iterations need not be alike.
 * Lives here: which symbols begin the iterations of a loop, and which of nested loops is the step.
 * Must not live here: fixed periods (step_period.h), records, times.
 *
 * A symbol is the anchor of a loop if its occurrences cut the sequence into stretches of the same kind: every symbol is
 * in nearly all of them, or in few (evaluations, checkpoints, what the loop around does). How often a symbol occurs in
 * a stretch does not matter: solvers take as many iterations as they take.
 *
 * Of nested loops the outermost is the step, unless it is an interval: the inner loop goes through it equally often
 * each time, more than eight times, and does most of what the job does. Evaluations and checkpoints come so. Fewer
 * iterations make a step of several micro-batches, unless what lies between them is seen to be an evaluation.
 * One collective alone is no loop, for nothing recurs within it; it is the step where all else is small and comes so.
 */
#ifndef COMMTAP_STEPS_STEP_LOOPS_H
#define COMMTAP_STEPS_STEP_LOOPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOOP_UNKNOWN = UINT32_MAX };

/* A symbol that occurs often enough to be looked at. */
struct loop_symbol {
    uint32_t count;
    bool collective;
    uint64_t order;     /* as for step_periods_find; the bytes of a call in the bits from 16 up */
    uint32_t remainder; /* orders symbols that are wanted equally; then `first` does */
    size_t first;
};

/* `which` says of each of `count` positions its symbol, LOOP_UNKNOWN where it is none of them. `periodic` is the symbol
 * that a fixed period suggests, LOOP_UNKNOWN without one. Sets *anchor, LOOP_UNKNOWN where there is no loop. Returns
 * false when memory is short. */
bool step_loops_find(uint32_t *anchor, const struct loop_symbol *symbols, uint32_t symbol_count, const uint32_t *which,
                     size_t count, uint32_t periodic);

#endif
