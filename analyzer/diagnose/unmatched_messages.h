/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages that were sent and not received beside receives that wait for nearly the same one: a wrong tag, a wrong
 * communicator, a wrong source.
 * Lives here: finding such pairs. Must not live here: who waits for whom, who is to blame.
 */
#ifndef COMMTAP_DIAGNOSE_UNMATCHED_MESSAGES_H
#define COMMTAP_DIAGNOSE_UNMATCHED_MESSAGES_H

#include "analyzer/wait_for_graph/graph.h"

/* One side of a message. */
struct message_side {
    uint32_t party;                           /* whose call it is */
    uint32_t peer_party;                      /* to whom, or from whom; NOBODY: from anybody */
    struct shared_communicator *communicator; /* never NULL */
    uint32_t local;                           /* the party's index of that */
    const struct call_name *call;
    int32_t tag; /* TAG_ANY */
    uint32_t seq;
    uint64_t bytes;
    uint32_t stack;
    uint64_t ticks; /* of the party: the send began */
};

/* They differ in just one of these. */
enum message_difference { DIFFERENT_TAG = 0, DIFFERENT_COMMUNICATOR, DIFFERENT_SOURCE };

struct unmatched_message {
    struct message_side wanted, sent;
    enum message_difference difference;
};

struct unmatched_messages {
    struct unmatched_message *items; /* by the rank that waits */
    size_t count;
};

enum { UNMATCHED_MOST = 64 };

/* Looks for what those who wait for messages could be meant to get: at most one message for each receive, and
 * UNMATCHED_MOST in all. Returns false when memory is short; the caller frees in every case. */
bool unmatched_messages_find(struct unmatched_messages *unmatched, const struct wait_for_graph *waits);
void unmatched_messages_free(struct unmatched_messages *unmatched);

#endif
