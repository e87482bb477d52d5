/* SPDX-License-Identifier: Apache-2.0
 *
 * The halves of messages that have not found each other, as one worker sees them.
 * Lives here: pairing a send with its receive by (communicator, sender, receiver, tag, ordinal).
 * Must not live here: records, threads, what a late half costs.
 *
 * A half is given up when a fixed number of records has been walked since it came. All workers walk the same records,
 * so what is given up does not depend on their number.
 */
#ifndef COMMTAP_MATCH_MESSAGES_H
#define COMMTAP_MATCH_MESSAGES_H

#include "analyzer/base/hash_table.h"
#include "analyzer/match/instances.h"

/* What a send and its receive have in common. */
struct message_key {
    uint32_t communicator; /* index into the directory */
    uint32_t from, to;     /* ranks of the communicator */
    int32_t tag;
    uint32_t ordinal;
};

struct message_half {
    struct message_key key;
    bool send; /* this half; else the receive */
    uint32_t dump;
    uint32_t receiver; /* the receiver's dump: its worker has the message */
    uint32_t sender;   /* the sender's */
    uint32_t op;
    bool synchronous, device;
    uint64_t bytes;
    struct match_member member;
    int64_t error; /* on a GPU: how far its clock may be off */
};

struct messages {
    struct hash_table young, old; /* of halves */
    struct hash_table taken;      /* of channels on GPUs: their last receives */
    uint64_t turn_at;             /* records walked at which young becomes old and old is given up */
    uint64_t interval;            /* from turn to turn */
};

enum { TAKEN_KEPT = 16 }; /* twice the slots of a connection's buffer (NCCL_STEPS in NCCL's source) */

/* `interval` >= 1 records. */
void messages_init(struct messages *messages, uint64_t interval);
/* Counts the halves that are left as given up. */
void messages_free(struct messages *messages, struct match_totals *totals);

/* To be told how many records have been walked. */
void messages_walked(struct messages *messages, uint64_t records, struct match_totals *totals);

/* Takes a half; hands the message out when its other half is there. Returns false when memory is short. */
bool messages_arrive(struct messages *messages, const struct message_half *half, const struct match_sink *sink,
                     void *state, struct match_totals *totals);

#endif
