/* SPDX-License-Identifier: Apache-2.0
 *
 * In which steps of the job a rank is slow that is slow now and then.
 * Lives here: its slow stretches, counted in steps. Must not live here: which stretches these are (slow_stretches.h),
 * where steps begin (steps.h).
 *
 * A step may hold several collectives, or another number of them each time: how many stretches lie between two slow
 * ones is then no figure of the program's. Known where collectives end the stretches, each of them is on record, and
 * the rank's own steps are found, or marked.
 */
#ifndef COMMTAP_STRAGGLERS_SLOW_STEPS_H
#define COMMTAP_STRAGGLERS_SLOW_STEPS_H

#include "analyzer/stragglers/stragglers.h"

/* Fills in when.every_steps of all who are named. Returns false when memory is short. */
bool slow_steps_find(struct straggler_analysis *analysis);

#endif
