/* SPDX-License-Identifier: Apache-2.0
 *
 * What NCCL's network proxies say of links: how long the steps of their sends were on the network, per peer.
 * Lives here: sums over the transfer rows of all dumps, by pair of ranks and size of step.
 * Must not live here: comparing (link_judge.h), what a proxy step is (shim/format.h).
 *
 * Only sends tell: a receive's step also lasts while the sender has nothing to send. Time that a send waited for its
 * own GPU or for room at the receiver is not counted.
 */
#ifndef COMMTAP_LINKS_LINK_TRANSFERS_H
#define COMMTAP_LINKS_LINK_TRANSFERS_H

#include "analyzer/match/directory.h"

struct link_transfer {
    uint32_t from, to; /* indices of dumps */
    uint32_t size;     /* log bin of a step's bytes */
    uint64_t operations, steps, bytes;
    uint64_t wire_ns;  /* sum over the steps */
    uint32_t channels; /* at most so many at once */
};

/* All pairs whose peers are known, sorted by size, from, to; to be freed. NULL: none (count 0), or memory is short. */
struct link_transfer *link_transfers_list(const struct match_directory *directory, size_t *count, bool *no_memory);

#endif
