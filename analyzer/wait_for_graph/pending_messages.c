/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: the index, looking into rings and counts.
 * Must not live here: who waits.
 */
#include "analyzer/wait_for_graph/pending_messages.h"

#include <stdlib.h>

#include "analyzer/base/grow.h"
#include "analyzer/load/rows.h"
#include "analyzer/wait_for_graph/moments.h"

enum {
    RECORDS_LOOKED_AT = 4096, /* newest of a ring */
    SENDS_ASKED_FOR = 64      /* ... messages of other tags, each of them looked for at its receiver's */
};

void pending_messages_add(struct pending_messages *messages, struct pending_message message) {
    if (!grow_list(messages->items, messages->count)) {
        messages->no_memory = true;
        return;
    }
    messages->items[messages->count++] = message;
}

static int compare_keys(const struct pending_message *a, uint32_t at, uint64_t uid, uint32_t of) {
    if (a->at != at)
        return a->at < at ? -1 : 1;
    if (a->uid != uid)
        return a->uid < uid ? -1 : 1;
    return a->of < of ? -1 : a->of > of;
}

static int compare_messages(const void *a, const void *b) {
    const struct pending_message *right = b;
    return compare_keys(a, right->at, right->uid, right->of);
}

void pending_messages_sort(struct pending_messages *messages) {
    if (messages->count > 0)
        qsort(messages->items, messages->count, sizeof *messages->items, compare_messages);
}

static bool fits(const struct pending_message *message, int32_t tag, uint32_t seq) {
    bool tags = message->tag == tag || message->tag == TAG_ANY || tag == TAG_ANY;
    return tags && (message->seq == SEQ_NONE || seq == SEQ_NONE || message->seq >= seq);
}

static bool match_range(const struct pending_messages *messages, uint32_t at, uint32_t of, uint64_t uid, int32_t tag,
                        uint32_t seq) {
    size_t low = 0, high = messages->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare_keys(&messages->items[middle], at, uid, of == NOBODY ? 0 : of) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < messages->count; low++) {
        const struct pending_message *message = &messages->items[low];
        if (message->at != at || message->uid != uid || (of != NOBODY && message->of != of))
            return false;
        if (fits(message, tag, seq))
            return true;
    }
    return false;
}

bool pending_messages_match(const struct pending_messages *messages, uint32_t at, uint32_t of, uint64_t uid,
                            int32_t tag, uint32_t seq) {
    return match_range(messages, at, of, uid, tag, seq) ||
           (at != NOBODY && of != NOBODY && match_range(messages, NOBODY, of, uid, tag, seq));
}

/* ---- what has ended -------------------------------------------------------------------------- */

enum ring_answer { NO, YES, PERHAPS };

/* What the newest records of a party say: did it end a message of that direction with `peer`, number `seq` or later. */
static enum ring_answer ring_says(const struct dump *dump, uint32_t local, uint16_t theirs, int32_t peer, int32_t tag,
                                  uint32_t seq) {
    bool all_there = true;
    struct record_reader reader;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++) {
        const struct dump_lane *l = &dump->lanes[lane];
        record_reader_begin(&reader, dump, lane);
        uint64_t first = l->first_ticket, looked = 0;
        all_there &= first == 0 && l->torn == 0;
        for (uint64_t t = l->end_ticket; t > first; t--) {
            const struct record *r = record_reader_at(&reader, t - 1);
            if (looked++ == RECORDS_LOOKED_AT) {
                all_there = false;
                break;
            }
            if (!r || (r->kind != RECORD_CALL && r->kind != RECORD_POST) || r->comm != local || !(r->flags & theirs) ||
                r->peer != peer || (tag != TAG_ANY && r->tag != tag && r->tag != TAG_ANY))
                continue;
            if (seq == SEQ_NONE || r->seq == SEQ_NONE)
                all_there = false; /* cannot tell which message this was */
            else if (r->seq >= seq)
                return YES;
        }
    }
    return all_there ? NO : PERHAPS;
}

uint64_t messages_counted(const struct dump *dump, uint32_t local, uint16_t direction, int32_t peer, bool *sure) {
    uint64_t count = 0;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++) {
        const struct dump_lane *l = &dump->lanes[lane];
        *sure &= !l->state || l->state->peers_lost == 0;
        for (uint32_t i = 0; i < l->peer_count; i++) {
            struct peer_row row;
            if (peer_row_read(dump, &l->peers[i], &row) && row.direction == direction &&
                (row.comm_epoch & ROW_COMM_NONE) == local && (peer == PEER_ANY || row.peer == peer))
                count += row.count;
        }
    }
    return count;
}

/* Whether the records of a lane that were looked at go back to `ticks`. */
static bool goes_back_to(const struct dump_lane *lane, uint64_t oldest, uint64_t looked, uint64_t ticks) {
    return (lane->first_ticket == 0 && lane->torn == 0 && looked >= lane->end_ticket) ||
           (looked > 0 && oldest <= ticks);
}

/* What the receiver's lane says of a message of that tag and number, which was sent at `ticks` of its clock: YES it has
 * it, NO it has not, PERHAPS it does not tell. Receives are on record when they are over, after the send began. */
static enum ring_answer lane_has_received(const struct dump *dump, uint32_t lane, uint32_t local, int32_t source,
                                          const struct record *sent, uint64_t ticks) {
    const struct dump_lane *l = &dump->lanes[lane];
    struct record_reader reader;
    uint64_t looked = 0, oldest = UINT64_MAX;
    record_reader_begin(&reader, dump, lane);
    for (uint64_t t = l->end_ticket; t > l->first_ticket && looked < RECORDS_LOOKED_AT && oldest > ticks;
         t--, looked++) {
        const struct record *r = record_reader_at(&reader, t - 1);
        if (!r || (r->kind != RECORD_CALL && r->kind != RECORD_DONE))
            continue;
        if (r->kind == RECORD_CALL) /* sends are on record as over before the Wait that they are seen in */
            oldest = r->t1 < oldest ? r->t1 : oldest;
        bool unclear = (r->flags & FLAG_SEND) || r->peer == PEER_ANY || r->tag == TAG_ANY;
        if (r->comm != local || !(r->flags & FLAG_RECV) || (!unclear && (r->peer != source || r->tag != sent->tag)))
            continue;
        if (unclear || r->seq == SEQ_NONE)
            return PERHAPS;
        return r->seq >= sent->seq ? YES : NO;
    }
    return goes_back_to(l, oldest, looked, ticks) ? NO : PERHAPS;
}

/* Whether a receive that would take it is posted, and not known to be over. */
static bool is_awaited(const struct dump *dump, uint32_t local, int32_t source, int32_t tag) {
    struct pending pending;
    for (uint32_t i = 0; i < dump->pending_count; i++)
        if (pending_read(dump, &dump->pending[i], &pending) && pending.flags & FLAG_RECV && pending.comm == local &&
            (pending.peer == source || pending.peer == PEER_ANY) && (pending.tag == tag || pending.tag == TAG_ANY))
            return true;
    return false;
}

static bool is_pending(const struct dump *dump, const struct record *record) {
    struct pending pending;
    for (uint32_t i = 0; record->kind == RECORD_POST && i < dump->pending_count; i++)
        if (pending_read(dump, &dump->pending[i], &pending) && pending.op == record->op)
            return true;
    return false;
}

bool message_was_left(const struct world *world, const struct membership *sender, const struct membership *receiver,
                      const struct record *sent) {
    const struct dump *from = world->parties[sender->party].dump, *at = world->parties[receiver->party].dump;
    uint64_t ticks = ticks_elsewhere(from, sent->t0, at);
    bool any = false;
    if (sent->seq == SEQ_NONE || ticks == 0 || is_awaited(at, receiver->local, sender->rank, sent->tag))
        return false;
    for (uint32_t lane = 0; lane < at->lane_count; lane++) {
        if (dump_lane_is_device(&at->lanes[lane]))
            continue;
        if (lane_has_received(at, lane, receiver->local, sender->rank, sent, ticks) != NO)
            return false;
        any |= at->lanes[lane].end_ticket > at->lanes[lane].first_ticket;
    }
    return any;
}

/* Messages of other tags that ended for `other` and that `me` has not received: up to `most`. */
static uint64_t count_left(const struct world *world, const struct membership *me, const struct membership *other,
                           int32_t tag, uint64_t most) {
    const struct dump *dump = world->parties[other->party].dump;
    struct record_reader reader;
    uint64_t count = 0;
    unsigned asked = 0;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++) {
        const struct dump_lane *l = &dump->lanes[lane];
        record_reader_begin(&reader, dump, lane);
        for (uint64_t t = l->end_ticket, n = 0; t > l->first_ticket && n < RECORDS_LOOKED_AT; t--, n++) {
            const struct record *r = record_reader_at(&reader, t - 1);
            if (!r || (r->kind != RECORD_CALL && r->kind != RECORD_POST) || r->comm != other->local ||
                r->peer != me->rank || (r->flags & (FLAG_SEND | FLAG_RECV)) != FLAG_SEND || r->tag == tag)
                continue;
            if (count == most || ++asked > SENDS_ASKED_FOR)
                return count;
            count += !is_pending(dump, r) && message_was_left(world, other, me, r);
        }
    }
    return count;
}

bool message_may_be_over(const struct world *world, const struct membership *me, const struct membership *other,
                         uint16_t theirs, int32_t tag, uint32_t seq) {
    const struct dump *dump = world->parties[other->party].dump;
    enum ring_answer answer = ring_says(dump, other->local, theirs, me->rank, tag, seq);
    if (answer != PERHAPS)
        return answer == YES;
    bool sure = true;
    uint64_t they = messages_counted(dump, other->local, theirs, me->rank, &sure);
    uint64_t mine = messages_counted(world->parties[me->party].dump, me->local,
                                     theirs == FLAG_SEND ? FLAG_RECV : FLAG_SEND, other->rank, &sure);
    if (!sure || they <= mine)
        return !sure;
    bool told = theirs == FLAG_SEND && tag != TAG_ANY;
    return !told || count_left(world, me, other, tag, they - mine) < they - mine;
}

bool message_may_wait(const struct world *world, const struct shared_communicator *communicator,
                      const struct membership *me, int32_t tag) {
    bool sure = true;
    uint64_t sent = 0, left = 0,
             received = messages_counted(world->parties[me->party].dump, me->local, FLAG_RECV, PEER_ANY, &sure);
    for (uint32_t i = 0; i < communicator->present_count; i++) {
        const struct membership *from = &communicator->present[i];
        sent += messages_counted(world->parties[from->party].dump, from->local, FLAG_SEND, me->rank, &sure);
    }
    if (!sure || sent <= received)
        return !sure;
    for (uint32_t i = 0; tag != TAG_ANY && i < communicator->present_count && left < sent - received; i++)
        left += count_left(world, me, &communicator->present[i], tag, sent - received - left);
    return left < sent - received;
}
