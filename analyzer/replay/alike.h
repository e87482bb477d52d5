/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes of a replay that are alike.
 * Lives here: putting them in groups. Must not live here: what is made of a group.
 */
#ifndef COMMTAP_REPLAY_ALIKE_H
#define COMMTAP_REPLAY_ALIKE_H

#include "analyzer/replay/replay.h"

/* Groups, in the order of their first nodes: list[first[g] .. first[g + 1]), ascending. */
struct alike {
    uint32_t *of; /* per node; NOWHERE: in none */
    uint32_t *list, *first;
    uint32_t count;
};

/* What is equal for nodes of one group; false where a node is in none. */
typedef bool alike_key(const struct replay *replay, size_t node, uint64_t *key);

/* Returns false when memory is short; the caller frees with alike_free in every case. */
bool alike_find(struct alike *groups, const struct replay *replay, alike_key *key_of);
void alike_free(struct alike *groups);

static inline size_t alike_size(const struct alike *groups, uint32_t group) {
    return groups->first[group + 1] - groups->first[group];
}

#endif
