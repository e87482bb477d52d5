/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the peers of a rank work before calls of each kind (work_kinds.h).
 * Lives here: medians of the peers' means, what a rank takes beyond them, and before which of several calls of a kind
 * it does. Must not live here: what is made of it (what_if.h).
 *
 * Calls of one kind come several times in a part of the run. Which of these a node is, is its turn: a rank may be late
 * before the first of them alone, as who launches a graph late, and not before those that the graph holds behind it.
 * Where a rank does other things than its peers, as the first stage of a pipeline beside the last, what it does before
 * a call tells nothing. But where nearly all parts of both have as many calls, these have as much work in another
 * order: a turn is then a place by mean length, and all work of one kind.
 */
#ifndef COMMTAP_REPLAY_USUAL_WORK_H
#define COMMTAP_REPLAY_USUAL_WORK_H

#include "analyzer/base/radix_sort.h"
#include "analyzer/replay/work_kinds.h"

struct usual_work {
    const struct replay *replay;
    const struct work_kinds *kinds;
    const uint32_t *peers; /* per dump: equal numbers are peers */
    const bool *left_out;  /* per dump: it does not count */
    /* private */
    struct usual_kind *of_kinds;
    struct usual_turn *turns; /* of all kinds, one after the other */
    uint32_t *turn_of;  /* per node: which one of its kind in its part it is, from 0; NOWHERE: it does not count */
    uint32_t *place_of; /* room for one of each node */
    uint32_t *pieces;   /* by length, per dump: so many nodes have nearly all of its parts; 0: no such number. Else
                           NULL */
    double *weight;     /* per node: how its kind's excess is shared out among its turns */
    int64_t *of_ranks;  /* room for one of each */
    int64_t *means;     /* room for one of each node, as have: */
    struct sort_key *keys, *scratch;
};

/* Begins with what the dumps that are peers, and not left out, take on average: the median of their means, the lower
 * one of two. All four outlive it. `by_length`: see above; `kinds` is then of one kind (work_kinds_find_one). Returns
 * false when memory is short; the caller frees with usual_work_free in every case. */
bool usual_work_begin(struct usual_work *usual, const struct replay *replay, const struct work_kinds *kinds,
                      const uint32_t *peers, const bool *left_out, bool by_length);
void usual_work_free(struct usual_work *usual);

/* Learns of all kinds of work of a dump that is left out what its peers take: the next two are then about this dump.
 * Before that no work is more than usual. */
void usual_work_of(struct usual_work *usual, size_t dump);

/* What the work of the nodes [from, to) of the dump takes beyond that, ns, kind by kind: kinds that no peer does, or
 * that take less, count as 0. */
int64_t usual_work_excess(struct usual_work *usual, size_t from, size_t to);
/* How much of a node's work, one of those that were asked for last, is such excess: 0 to 1. */
double usual_work_share(const struct usual_work *usual, size_t node);

#endif
