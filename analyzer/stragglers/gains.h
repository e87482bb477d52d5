/* SPDX-License-Identifier: Apache-2.0
 *
 * What mending those who are named would give, alone and together.
 * Lives here: replays of the job without them, or on an ideal network, and taking from the list whom nobody waits for.
 * Of analyse.c only.
 * Must not live here: the replay (what_if.h), who is slow (verdicts.h).
 *
 * A rank can be slow beyond doubt and cost nothing: while it works others work longer still. Named stay those without
 * which the job would take a hundredth less (VERDICT_SHARE); and those to whom as much of each other rank's time goes
 * back in waits, where mending them alone gains half as much, or where nobody is slower by SLOW_RATIO and mending all
 * others who are named gains a hundredth less than mending them, too. The rest is hidden.
 */
#ifndef COMMTAP_STRAGGLERS_GAINS_H
#define COMMTAP_STRAGGLERS_GAINS_H

#include "analyzer/base/team.h"
#include "analyzer/stragglers/stragglers.h"

enum { GAINS_AT_ONCE = 5 };

/* Fills in all gains of the analysis, its hidden ones and its efficiencies. Up to `threads` replays at the same time,
 * GAINS_AT_ONCE at most, each of which takes some 90 bytes per node; processes of a team, which all call this, share
 * them. Returns false when memory is short, in this process or another. */
bool gains_find(struct straggler_analysis *analysis, struct replay *replay, struct team *team, unsigned threads);

#endif
