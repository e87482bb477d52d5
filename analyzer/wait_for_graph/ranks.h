/* SPDX-License-Identifier: Apache-2.0
 *
 * Whom a graph of waits names: the ranks behind a wait, those that have come to a collective, and those that have not.
 * Lives here: from nodes and members to ranks. Must not live here: building the graph, who of them is to blame.
 */
#ifndef COMMTAP_WAIT_FOR_GRAPH_RANKS_H
#define COMMTAP_WAIT_FOR_GRAPH_RANKS_H

#include "analyzer/wait_for_graph/graph.h"

/* World ranks of a stalled collective's members that have come, or have not; ascending, written up to `capacity`.
 * Returns how many there are. Members without a known world rank are left out. */
size_t stalled_ranks(const struct wait_for_graph *waits, const struct stalled *stalled, bool missing, int32_t *ranks,
                     size_t capacity);
/* The same of those that wait in it. */
size_t stalled_waiting(const struct wait_for_graph *waits, const struct stalled *stalled, int32_t *ranks,
                       size_t capacity);
/* The collective that others wait in and that this party has called, but that its GPU has not begun; NULL: none. */
const struct stalled *held_before(const struct wait_for_graph *waits, uint32_t party);
/* A collective that a party has called, but that its GPU has not begun. */
struct not_begun {
    const struct shared_communicator *communicator;
    const struct call_name *call;
    uint64_t seq;
};

/* The oldest of a communicator, whether others wait in it or not: a broadcast may be over for them. False: there is
 * none, or when GPUs begin is not known. */
bool not_begun_find(const struct world *world, uint32_t party, struct not_begun *found);
/* Whether anybody is missing and known to be waited for: worth showing. */
bool stalled_is_open(const struct stalled *stalled);

/* Sets `seen` for the nodes that a wait leads to, up to the parties behind them; it has one byte per node of the graph.
 */
void wait_mark_parties(const struct wait_for_graph *waits, const struct wait *wait, uint8_t *seen);
/* Distinct world ranks that a wait cannot go on without, ascending, at most `capacity`. */
size_t wait_targets(const struct wait_for_graph *waits, const struct wait *wait, int32_t *ranks, size_t capacity);
/* The same of a launch of messages that waits for one or more of several ranks, of which nothing tells which. */
size_t wait_possible_targets(const struct wait_for_graph *waits, const struct wait *wait, int32_t *ranks,
                             size_t capacity);

#endif
