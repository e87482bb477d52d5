/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: who of two ranks that exchange messages begins. Must not live here: what follows from it (what_if.h).
 */
#include "analyzer/base/hash_table.h"
#include "analyzer/match/cut.h"
#include "analyzer/replay/replay_build.h"

struct partner_key {
    uint32_t comm;
    int32_t peer;
};

/* Messages that went to a rank, and that came from it, up to the last one on record of each: which replay of a graph
 * that was of, and its number there. */
struct partner {
    struct partner_key key;
    struct passed {
        uint32_t replay, count; /* 0: none on record */
    } sent, received;
};

HASH_TABLE_OF(partners, struct partner, struct partner_key);

/* A message to or from a GPU, by its launch's number. */
struct posted {
    uint32_t key;
    uint32_t role; /* enum replay_role */
};

HASH_TABLE_OF(posted_messages, struct posted, uint32_t);

static bool is_more(const struct passed *a, const struct passed *b) {
    return a->replay != b->replay ? a->replay > b->replay : a->count > b->count;
}

/* The role of a message, which counts from now on. False: memory is short. */
static bool count_message(struct hash_table *table, const struct match_record *item, bool sends,
                          enum replay_role *role) {
    const struct record *record = item->record;
    struct partner *partner = partners_add(table, &(struct partner_key){record->comm, record->peer});
    if (!partner)
        return false;
    struct passed *own = sends ? &partner->sent : &partner->received;
    *own = (struct passed){item->replay, record->seq + 1};
    /* this one counts already */
    bool answers = sends ? !is_more(&partner->sent, &partner->received) : is_more(&partner->received, &partner->sent);
    *role = answers ? REPLAY_ANSWERS : REPLAY_ASKS;
    return true;
}

bool replay_find_role(struct replay_roles *roles, const struct match_record *item, enum replay_role *role) {
    const struct record *record = item->record;
    bool sends = record->flags & FLAG_SEND, receives = record->flags & FLAG_RECV;
    bool launch = record->kind == RECORD_GPU || record->kind == RECORD_KERNEL;
    *role = REPLAY_NO_ROLE;
    if (sends == receives || !has_message_number(record) ||
        (!launch && record->kind != RECORD_CALL && record->kind != RECORD_POST))
        return true;
    const struct posted *known = launch && item->replay == 0 ? posted_messages_find(&roles->posted, &record->op) : NULL;
    if (known)
        *role = (enum replay_role)known->role;
    else if (!count_message(&roles->partners, item, sends, role))
        return false;
    if (record->kind != RECORD_POST || record->flags & FLAG_CAPTURED)
        return true;
    struct posted *posted = posted_messages_add(&roles->posted, &record->op);
    if (posted)
        posted->role = *role;
    return posted != NULL;
}

void replay_roles_free(struct replay_roles *roles) {
    hash_table_free(&roles->partners);
    hash_table_free(&roles->posted);
}
