/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the peers of a rank work before calls of each kind (work_kinds.h).
 * Lives here: medians of the peers' means, and what a rank takes beyond them. Must not live here: what is made of it
 * (what_if.h).
 */
#ifndef COMMTAP_REPLAY_USUAL_WORK_H
#define COMMTAP_REPLAY_USUAL_WORK_H

#include "analyzer/replay/work_kinds.h"

struct usual_work {
    const struct replay *replay;
    const struct work_kinds *kinds;
    const uint32_t *peers; /* per dump: equal numbers are peers */
    const bool *left_out;  /* per dump: it does not count */
    /* private */
    struct usual_kind *of_kinds;
    int64_t *of_ranks; /* room for one of each */
};

/* Begins with what the dumps that are peers, and not left out, take on average: the median of their means, the lower
 * one of two. All four outlive it. Returns false when memory is short; the caller frees with usual_work_free in every
 * case. */
bool usual_work_begin(struct usual_work *usual, const struct replay *replay, const struct work_kinds *kinds,
                      const uint32_t *peers, const bool *left_out);
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
