/* SPDX-License-Identifier: Apache-2.0
 *
 * What of its own flow a node needs, while the nodes are gone through in their order. Inside of analyzer/replay only.
 * Lives here: when all had ended that a node can need. Must not live here: needs of others (links), durations.
 *
 * A node needs what had ended before it. A profiler's trace tells more: streams wait only for what was enqueued before,
 * so that a kernel needs nothing that was launched after it, whatever had ended by then. A receive that is posted ahead
 * and ends early does not keep the work that is launched before it.
 */
#ifndef COMMTAP_REPLAY_REPLAY_ENDED_H
#define COMMTAP_REPLAY_REPLAY_ENDED_H

#include "analyzer/replay/replay.h"

struct replay_ended {
    const struct replay *replay;
    int64_t *pieces, *sends, *others; /* the latest end of GPU's pieces of work, of sends, and of all else: per flow;
                                         where launches are told, of each flow a tree over them */
};

/* Nothing has ended yet. Returns false when memory is short; replay_ended_free in every case. */
bool replay_ended_begin(struct replay_ended *ended, const struct replay *replay);
void replay_ended_free(struct replay_ended *ended);

void replay_ended_add(struct replay_ended *ended, uint32_t node, int64_t at);
/* INT64_MIN: nothing. */
int64_t replay_ended_pieces(const struct replay_ended *ended, uint32_t node);
int64_t replay_ended_others(const struct replay_ended *ended, uint32_t node);

#endif
