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

static bool is_more(const struct passed *a, const struct passed *b) {
    return a->replay != b->replay ? a->replay > b->replay : a->count > b->count;
}

bool replay_find_role(struct hash_table *table, const struct match_record *item, enum replay_role *role) {
    const struct record *record = item->record;
    bool sends = record->flags & FLAG_SEND, receives = record->flags & FLAG_RECV;
    bool goes_on = record->kind == RECORD_CALL || record->kind == RECORD_GPU || record->kind == RECORD_KERNEL;
    *role = REPLAY_NO_ROLE;
    if (!goes_on || sends == receives || !has_message_number(record))
        return true;
    struct partner_key key = {record->comm, record->peer};
    struct partner *partner = partners_add(table, &key);
    if (!partner)
        return false;
    struct passed *own = sends ? &partner->sent : &partner->received;
    *own = (struct passed){item->replay, record->seq + 1};
    /* this one counts already */
    bool answers = sends ? !is_more(&partner->sent, &partner->received) : is_more(&partner->received, &partner->sent);
    *role = answers ? REPLAY_ANSWERS : REPLAY_ASKS;
    return true;
}
