/* SPDX-License-Identifier: Apache-2.0
 *
 * How long the peers of a rank work before calls of each kind (replay.h: `before`).
 * Lives here: means per kind, their medians. Must not live here: what is made of it (what_if.h).
 */
#ifndef COMMTAP_REPLAY_USUAL_WORK_H
#define COMMTAP_REPLAY_USUAL_WORK_H

#include "analyzer/base/hash_table.h"
#include "analyzer/replay/replay.h"

struct usual_work {
    struct hash_table kinds; /* private */
};

/* Learns of all kinds of work of `dump` what the dumps with the same number in `peers` take on average: the median of
 * their means, the lower one of two. Those that `left_out` marks do not count. Returns false when memory is short; the
 * caller frees with usual_work_free in every case. */
bool usual_work_find(struct usual_work *usual, const struct replay *replay, size_t dump, const uint32_t *peers,
                     const bool *left_out);
void usual_work_free(struct usual_work *usual);

/* What the work of the nodes [from, to) of the dump takes beyond that, ns, kind by kind: kinds that no peer does, or
 * that take less, count as 0. */
int64_t usual_work_excess(struct usual_work *usual, const struct replay *replay, size_t from, size_t to);
/* How much of a node's work, one of those that were asked for last, is such excess: 0 to 1. */
double usual_work_share(const struct usual_work *usual, const struct replay *replay, size_t node);

#endif
