/* SPDX-License-Identifier: Apache-2.0
 *
 * What the workers of one process tell those of others during a walk.
 * Lives here: exchanging queues after a round of reading, and what the consumers have gathered after the last one.
 * Must not live here: reading and pairing (match.c), how bytes travel (base/team.h).
 *
 * Workers are numbered through all processes: process p has those from p * own on. What is another process's is there
 * as an empty place, which these functions fill: its queues to own workers, its turns, the states of its consumers.
 */
#ifndef COMMTAP_MATCH_BETWEEN_H
#define COMMTAP_MATCH_BETWEEN_H

#include "analyzer/base/team.h"
#include "analyzer/match/arrivals.h"
#include "analyzer/match/instances.h"

enum { BETWEEN_OWN_MOST = 8 }; /* workers of one process */

struct between {
    struct team *team;
    unsigned count;            /* workers of all processes */
    unsigned own;              /* of each process that has any: those behind count / own have none */
    uint64_t fingerprint;      /* of what is walked: the same in all processes */
    struct arrivals *told;     /* by worker w to worker v: told[w * count + v] */
    struct arrival_turn *next; /* per worker: of its next batch that is not read yet */
};

/* How far a process, or all of them, have come. */
struct between_round {
    bool more;     /* there is something left to read */
    uint64_t read; /* records */
};

/* The first worker of a process, and how many it has. */
static inline unsigned between_first(const struct between *between, unsigned process) {
    return process * between->own < between->count ? process * between->own : between->count;
}
static inline unsigned between_own(const struct between *between, unsigned process) {
    return between_first(between, process + 1) - between_first(between, process);
}

/* Makes `round`, of this process, that of all, and hands queues over. Returns false where a process has failed, this
 * one (`failed`) or another. */
bool between_rounds(const struct between *between, bool failed, struct between_round *round);

/* Hands the states of the own consumers, packed by `sink`, to all other processes, and unpacks theirs; `totals` becomes
 * the sum of all processes'. Returns as between_rounds does. */
bool between_states(const struct between *between, bool failed, const struct match_sink *sink, void *const *states,
                    struct match_totals *totals);

#endif
