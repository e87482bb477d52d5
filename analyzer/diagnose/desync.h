/* SPDX-License-Identifier: Apache-2.0
 *
 * Members of a communicator that did not call the same collectives.
 * Lives here: comparing histories by prefix hashes, and single collectives by their signatures.
 * Must not live here: who waits, reading a signature (wait_for_graph/signatures.h).
 */
#ifndef COMMTAP_DIAGNOSE_DESYNC_H
#define COMMTAP_DIAGNOSE_DESYNC_H

#include "analyzer/wait_for_graph/signatures.h"

struct mismatch {
    struct shared_communicator *communicator; /* NULL: none was found */
    uint64_t from_seq, to_seq; /* the first differing collective is one of these; equal: it is this one */
    uint32_t *parties;         /* of members that can be compared there, by side: the expected ones first */
    size_t expected_count, other_count;
    bool message;    /* it is a message that its sender and its receiver take for different sizes */
    uint32_t number; /* ... which the recorder of `number_party` calls so, SEQ_NONE: none does */
    uint32_t number_party;
    bool unfit;                   /* all called the same, with sizes that do not fit: those of the other side, or all */
    uint64_t total_in, total_out; /* ... of all members */
    bool tie;                     /* as many on one side as on the other: neither is expected */
    struct signature expected, other; /* of the first of each side */
    uint32_t other_party;             /* whose `other` is */
    uint32_t expected_party;
};

/* How many more collectives of NCCL's all members have ended after one about which they disagree, where that is not
 * what they wait in: a sender is at most NCCL_STEPS (8) steps ahead of its receiver, and each collective takes one or
 * more on every connection, so that those who are out of step by it stand before as many are over. */
#define MISMATCH_OVERCOME 8

/* Finds the communicator whose members disagree, the earliest in the job by the number of its first differing
 * collective. *overcome: the same of those where all went on from that, as far as GPUs tell. Returns false when memory
 * is short. Free both with mismatch_free. */
bool desync_find(struct mismatch *mismatch, struct mismatch *overcome, struct world *world);
/* The same of a message: its sender is the first party. False: memory is short. */
bool mismatch_of_message(struct mismatch *mismatch, struct shared_communicator *communicator, uint32_t seq,
                         uint32_t sender, const struct signature *sent, uint32_t receiver,
                         const struct signature *received);
/* The collective that all members are in: whether it has sizes that do not fit. False: memory is short. */
bool mismatch_of_sizes(struct mismatch *mismatch, const struct world *world, struct shared_communicator *communicator,
                       uint64_t seq);
void mismatch_free(struct mismatch *mismatch);

/* The hash of the first `k` collectives, where the row still has it. `uid` is that of none. */
bool prefix_hash(const struct progress *progress, uint64_t uid, uint64_t k, uint64_t *hash);

/* Of two histories: the most collectives that are known to be equal, and the least that are known to differ. Returns
 * false when nothing differs as far as both go. */
bool histories_differ(const struct progress *a, const struct progress *b, uint64_t uid, uint64_t *equal,
                      uint64_t *differ);

#endif
