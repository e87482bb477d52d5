/* SPDX-License-Identifier: Apache-2.0
 *
 * How long each rank waited for others in each of its steps.
 * Lives here: the waits of matched collectives and messages (waits.h), by the step that they lie in.
 * Must not live here: what a wait is (waits.h), where steps are (steps.h), averages.
 *
 * A wait that lasts beyond a step's end counts for each step as far as it lies in it. Waits in a step are known where
 * every part that its rank took in collectives and messages found its counterparts; a part belongs to the step in which
 * it was entered. What a rank waits for at several places at once counts once.
 */
#ifndef COMMTAP_STEPS_STEP_WAITS_H
#define COMMTAP_STEPS_STEP_WAITS_H

#include "analyzer/base/team.h"
#include "analyzer/steps/steps.h"
#include "analyzer/match/directory.h"

/* Walks all records once more and sets wait_ns of every step, STEP_UNKNOWN where it is not known: everywhere where
 * there are more waits than are kept (8 million). The steps are of the dumps of `clock`, in their order. `counted`:
 * only waits in these functions on these communicators, NULL = all. Returns false when memory is short. */
bool step_waits_fill(struct steps *steps, const struct common_clock *clock, const struct match_directory *directory,
                     const struct filter *counted, struct team *team, unsigned threads);

#endif
