/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends and receives inside NCCL groups: what each group is about, until its launch comes by.
 * Lives here: keeping the POST records of a group's messages by the number of the group.
 * Must not live here: times, pairing sends with receives (messages.h).
 *
 * A launch that never comes, because its record was lost or the process ended, leaves its messages behind: they are
 * given up when a fixed number of records has been walked since. Those of a group that a graph holds are kept: it may
 * be launched to the end.
 */
#ifndef COMMTAP_MATCH_GROUP_MESSAGES_H
#define COMMTAP_MATCH_GROUP_MESSAGES_H

#include "analyzer/base/hash_table.h"
#include "analyzer/match/instances.h"

struct group_key {
    uint32_t dump, op; /* op: of the group */
};

struct posted_group {
    struct group_key key;
    struct record *messages; /* as posted, in order */
    uint32_t count;
};

struct group_messages {
    struct hash_table young, old; /* of groups */
    struct hash_table captured;   /* of groups that graphs hold */
    uint64_t turn_at;             /* records walked at which young becomes old and old is given up */
    uint64_t interval;            /* from turn to turn */
};

/* `interval` >= 1 records. */
void group_messages_init(struct group_messages *groups, uint64_t interval);
void group_messages_free(struct group_messages *groups);

/* To be told how many records have been walked. */
void group_messages_walked(struct group_messages *groups, uint64_t records);

/* Whether this is the POST record of a send or receive inside a group; `call` may be NULL. */
static inline bool is_message_of_group(const struct record *record, const struct call_name *call) {
    return record->kind == RECORD_POST && record->flags & (FLAG_SEND | FLAG_RECV) && record->tag > 0 && call &&
           call->api == API_NCCL;
}

/* Keeps such a record. Returns false when memory is short. */
bool group_messages_post(struct group_messages *groups, uint32_t dump, const struct record *record);
/* That group, of which all is posted now, was captured: a graph holds it. Returns false when memory is short. */
bool group_messages_capture(struct group_messages *groups, uint32_t dump, uint32_t op);
/* What the group with that number posted, NULL where it is none; valid until the next call of another function. */
const struct posted_group *group_messages_find(const struct group_messages *groups, uint32_t dump, uint32_t op);
/* The same of a group that a graph holds. */
const struct posted_group *group_messages_captured(const struct group_messages *groups, uint32_t dump, uint32_t op);
/* The group's launch has come by. */
void group_messages_drop(struct group_messages *groups, uint32_t dump, uint32_t op);

#endif
