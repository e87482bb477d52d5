/* SPDX-License-Identifier: Apache-2.0
 *
 * Until when the processes of a job lived, as two of each node noted it while they did (format.h, struct beat_row).
 * Lives here: whose rows are about whom. Must not live here: what follows for a hang (standing.h, deaths.h).
 */
#ifndef COMMTAP_WAIT_FOR_GRAPH_BEATS_H
#define COMMTAP_WAIT_FOR_GRAPH_BEATS_H

#include "analyzer/wait_for_graph/world.h"

/* Fills `seen_ns` and `gone_ns` of the world's parties. Returns false when memory is short. */
bool beats_take_in(struct world *world);

/* Of processes on other hosts of which nothing is seen from here: where one that beats is known to live there, what it
 * notes of them holds, and becomes their `process`. To be called after that. Returns false when memory is short. */
bool beats_ask_the_living(struct world *world);

#endif
