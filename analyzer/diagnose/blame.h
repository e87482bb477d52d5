/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is to blame for what a graph of waits shows.
 * Lives here: sinks, circles and disagreeing calls become culprits, and the verdict that they make.
 * Must not live here: which of these a job is judged by (diagnose.h), whether it stood at all (weigh.h).
 *
 * All of these set `no_memory` of the diagnosis when memory is short.
 */
#ifndef COMMTAP_DIAGNOSE_BLAME_H
#define COMMTAP_DIAGNOSE_BLAME_H

#include "analyzer/diagnose/diagnosis.h"

/* Adds a party that others wait for, or that is dead. */
void blame_awaited(struct diagnosis *diagnosis, uint32_t party);
/* Desync: those that called what the others did not, all where neither side is expected. */
void blame_mismatch(struct diagnosis *diagnosis);
/* Finds a circle of waits among the parties that nobody can release. False: there is none, or memory is short. */
bool find_cycle(struct diagnosis *diagnosis);
/* Deadlock: those that left out a collective of the circle that was found, or take what nobody sends; else all of it.
 */
void blame_cycle(struct diagnosis *diagnosis);
/* Hang, or dead rank: those that somebody blocked waits for and that are not blocked themselves. False: memory is
 * short. */
bool blame_sinks(struct diagnosis *diagnosis);

#endif
