/* SPDX-License-Identifier: Apache-2.0
 *
 * Own work before calls, kind by kind (replay.h: `before`) and rank by rank.
 * Lives here: how long each rank works before calls of a kind, what of it waits may hide. Known once for all that is
 * asked of a replay.
 * Must not live here: who is compared with whom, and what is made of it (usual_work.h, what_if.h).
 */
#ifndef COMMTAP_REPLAY_WORK_KINDS_H
#define COMMTAP_REPLAY_WORK_KINDS_H

#include "analyzer/replay/alike.h"

/* One rank's work before one kind of call. */
struct rank_work {
    uint32_t kind, dump;
    uint32_t begin, count; /* of its nodes in the list of all kinds' nodes (alike.h) */
    int64_t ns, mean_ns;
};

struct work_kinds {
    struct alike nodes;      /* by kind; the first node of a flow has none */
    struct rank_work *works; /* by kind, then dump */
    size_t count;
    size_t *first;      /* per kind: kind k's are works[first[k] .. first[k + 1]) */
    int64_t *hidden_ns; /* per node: own work that may have been done besides while its rank waited for others, at most;
                           NULL: nowhere any */
};

/* Of the replay as it is now. Returns false when memory is short; the caller frees with work_kinds_free in every case.
 */
bool work_kinds_find(struct work_kinds *kinds, const struct replay *replay);
/* The same of all work as one kind, of which nothing hides. */
bool work_kinds_find_one(struct work_kinds *kinds, const struct replay *replay);
void work_kinds_free(struct work_kinds *kinds);

static inline int64_t work_kinds_hidden(const struct work_kinds *kinds, size_t node) {
    return kinds->hidden_ns ? kinds->hidden_ns[node] : 0;
}

#endif
