/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages that one side has posted and the other may be waiting for; messages that may already be there.
 * Lives here: an index of sends and receives that have not ended, what the rings and the table of peers say of those
 * that have.
 * Must not live here: who waits.
 */
#ifndef COMMTAP_WAIT_FOR_GRAPH_PENDING_MESSAGES_H
#define COMMTAP_WAIT_FOR_GRAPH_PENDING_MESSAGES_H

#include "analyzer/wait_for_graph/world.h"

/* A send or receive that is in flight or pending. */
struct pending_message {
    uint32_t at; /* who could complete it: of a send the receiver, of a receive the sender (NOBODY: anybody) */
    uint32_t of; /* whose it is */
    uint64_t uid;
    int32_t tag;  /* TAG_ANY */
    uint32_t seq; /* SEQ_NONE where not known */
};

struct pending_messages {
    struct pending_message *items;
    size_t count;
    bool no_memory;
};

void pending_messages_add(struct pending_messages *messages, struct pending_message message);
void pending_messages_sort(struct pending_messages *messages);

/* Whether `messages` (sorted) hold a counterpart posted by `of` (NOBODY: by anybody) for `at`, or one of `of` that
 * takes anybody: same communicator, tags that fit, no older than number `seq`. */
bool pending_messages_match(const struct pending_messages *messages, uint32_t at, uint32_t of, uint64_t uid,
                            int32_t tag, uint32_t seq);

/* Messages of one direction (FLAG_SEND, FLAG_RECV) with `peer` (PEER_ANY: with anybody) that ended, or for NCCL were
 * called, as a dump's tables count them. *sure is cleared where rows were lost. */
uint64_t messages_counted(const struct dump *dump, uint32_t local, uint16_t direction, int32_t peer, bool *sure);

/* Whether `other`, a member of the communicator, may already have ended the counterpart of a message with `me` that
 * `me` has not seen complete. `theirs`: what the other did with it, FLAG_SEND or FLAG_RECV. Sure where the ring tells
 * (by `seq`), else from counts; true where neither rules it out. */
bool message_may_be_over(const struct world *world, const struct membership *me, const struct membership *other,
                         uint16_t theirs, int32_t tag, uint32_t seq);

/* Whether a message that `sender` has on record is known not to have been received: the receiver's records go back to
 * the moment when it was sent, and it is not among them. */
bool message_was_left(const struct world *world, const struct membership *sender, const struct membership *receiver,
                      const struct record *sent);

/* Whether anybody sent `me` something on the communicator that it has not received, by counts; of such messages those
 * that are known to be of another tag are left out. */
bool message_may_wait(const struct world *world, const struct shared_communicator *communicator,
                      const struct membership *me, int32_t tag);

#endif
