/* SPDX-License-Identifier: Apache-2.0
 *
 * Epochs of one-sided communication that are waited in.
 * Lives here: whom Start, Complete and Wait need, and who of them has done his part; who holds a lock.
 * Must not live here: epochs of a job that went on (analyzer/match/epochs.c), fences (they are collectives).
 *
 * The k-th Post of a rank that names another one belongs to the k-th Start of that one that names the first (MPI 4.1,
 * 12.5.2).
 */
#include "analyzer/wait_for_graph/graph_build.h"

#include "analyzer/load/rows.h"
#include "analyzer/wait_for_graph/slots.h"

enum {
    RECORDS_LOOKED_AT = 4096, /* newest of a lane, as of messages (pending_messages.c) */
    PARTNERS_MOST = 64,       /* the library names no more */
};

/* A call that waits, and whom it names. */
struct epoch_wait {
    const struct call_name *call;
    struct shared_communicator *window;
    int32_t rank; /* its own */
    unsigned count;
    struct epoch_peer {
        int32_t rank;
        uint32_t party;
        uint32_t ordinal; /* SEQ_NONE */
    } peers[PARTNERS_MOST];
};

enum part_done { DONE_NOT, DONE_IS, DONE_PERHAPS };

/* ---- whom a call names ----------------------------------------------------------------------- */

/* What names partners: of Start, which has not returned, what it announced; of what ends an epoch, what began it. */
static bool names_partner(const struct epoch_wait *wait, const struct in_flight *slot, const struct record *record) {
    if (record->comm != slot->comm)
        return false;
    if (wait->call->epoch == EPOCH_START)
        return record->kind == RECORD_AWAITED && record->call == slot->call && record->t0 == slot->enter;
    return record->kind == RECORD_PARTNER && record->flags & (wait->call->epoch == EPOCH_WAIT ? FLAG_SEND : FLAG_RECV);
}

static void add_peer(struct builder *b, uint32_t party, struct epoch_wait *wait, const struct record *record) {
    uint32_t peer = world_peer(b->world, party, record->comm, record->peer);
    if (peer != NOBODY && wait->count < PARTNERS_MOST)
        wait->peers[wait->count++] =
            (struct epoch_peer){record->peer, peer, record->flags & FLAG_ORDINAL_UNKNOWN ? SEQ_NONE : record->seq};
}

/* The newest group of partners that a lane holds. False where not all of it is there. */
static bool read_lane(struct builder *b, uint32_t party, const struct in_flight *slot, uint32_t lane,
                      struct epoch_wait *wait) {
    const struct dump *dump = b->world->parties[party].dump;
    const struct dump_lane *l = &dump->lanes[lane];
    struct record_reader reader;
    uint64_t looked = 0;
    uint32_t seen = 0, all = 0;
    record_reader_begin(&reader, dump, lane);
    for (uint64_t t = l->end_ticket; t > l->first_ticket && looked++ < RECORDS_LOOKED_AT; t--) {
        const struct record *record = record_reader_at(&reader, t - 1);
        if (!record || !names_partner(wait, slot, record))
            continue;
        all = record->op;
        seen++;
        add_peer(b, party, wait, record);
        if (record->tag == 0)
            break;
    }
    return all > 0 && seen == all;
}

static bool find_peers(struct builder *b, uint32_t party, const struct in_flight *slot, struct epoch_wait *wait) {
    const struct dump *dump = b->world->parties[party].dump;
    for (uint32_t i = 0; i < dump->lane_count; i++) { /* the thread's own lane, as a rule, is the only one with any */
        wait->count = 0;
        if (!dump_lane_is_device(&dump->lanes[i]) && read_lane(b, party, slot, i, wait))
            return wait->count > 0;
    }
    return false;
}

/* ---- who has done his part ------------------------------------------------------------------- */

/* Calls on the window that do that to an epoch, as the tables count them. *sure is cleared where rows were lost. */
static uint64_t count_calls(const struct dump *dump, uint32_t local, enum epoch_part part, bool *sure) {
    uint64_t count = 0;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++) {
        const struct dump_lane *l = &dump->lanes[lane];
        *sure &= !l->state || l->state->operations_lost == 0;
        for (uint32_t i = 0; i < l->operation_count; i++) {
            struct operation_row row;
            enum row_state read = operation_row_read(dump, &l->operations[i], &row);
            if ((read == ROW_STABLE || read == ROW_TORN) && (row.comm_epoch & ROW_COMM_NONE) == local &&
                dump_call(dump, row.call) && dump_call(dump, row.call)->epoch == part)
                count += row.count;
        }
    }
    return count;
}

/* The newest record that says that `member` let `rank` in, or was let in by it. */
struct newest {
    bool any, completed; /* completed: and it was ended since, by Complete */
    uint32_t seq;
};

static struct newest find_newest(const struct dump *dump, uint32_t local, uint16_t direction, int32_t rank) {
    struct newest newest = {.any = false};
    struct record_reader reader;
    for (uint32_t lane = 0; lane < dump->lane_count && !newest.any; lane++) {
        const struct dump_lane *l = &dump->lanes[lane];
        uint64_t looked = 0;
        newest.completed = false;
        record_reader_begin(&reader, dump, lane);
        for (uint64_t t = l->end_ticket; t > l->first_ticket && looked++ < RECORDS_LOOKED_AT && !newest.any; t--) {
            const struct record *r = record_reader_at(&reader, t - 1);
            if (!r || r->comm != local)
                continue;
            const struct call_name *call = dump_call(dump, r->call);
            newest.completed |= r->kind == RECORD_CALL && call && call->epoch == EPOCH_COMPLETE;
            newest.any = r->kind == RECORD_PARTNER && r->flags & direction && r->peer == rank;
            newest.seq = r->seq;
        }
    }
    return newest;
}

/* Whether a partner has posted what Start or Complete need, or completed what Wait needs. */
static enum part_done has_done(const struct builder *b, const struct epoch_wait *wait, const struct epoch_peer *peer) {
    const struct dump *dump = b->world->parties[peer->party].dump;
    const struct membership *member = world_membership(wait->window, peer->party);
    bool completes = wait->call->epoch == EPOCH_WAIT, sure = true;
    if (!dump || !member)
        return DONE_NOT;
    uint64_t calls = count_calls(dump, member->local, completes ? EPOCH_COMPLETE : EPOCH_POST, &sure);
    if (peer->ordinal == SEQ_NONE)
        return calls == 0 && sure ? DONE_NOT : DONE_PERHAPS;
    if (sure && calls <= peer->ordinal)
        return DONE_NOT;
    struct newest newest = find_newest(dump, member->local, completes ? FLAG_RECV : FLAG_SEND, wait->rank);
    if (!newest.any || newest.seq == SEQ_NONE)
        return DONE_PERHAPS;
    if (newest.seq == peer->ordinal)
        return completes && !newest.completed ? DONE_NOT : DONE_IS;
    return newest.seq > peer->ordinal ? DONE_IS : DONE_NOT;
}

/* ---- the node -------------------------------------------------------------------------------- */

/* All of those who have not done their part; where nobody is known not to, any of those who may not have. Where all
 * have, what was put may need a partner that is not in the library. */
static uint32_t node_of(struct builder *b, const struct epoch_wait *wait) {
    struct and_or_graph *graph = &b->waits->graph;
    uint32_t by_answer[] = {
        [DONE_NOT] = AND_OR_GRAPH_NO_NODE, [DONE_IS] = AND_OR_GRAPH_NO_NODE, [DONE_PERHAPS] = AND_OR_GRAPH_NO_NODE};
    for (unsigned i = 0; i < wait->count; i++) {
        enum part_done answer = has_done(b, wait, &wait->peers[i]);
        enum doing doing = b->waits->parties[wait->peers[i].party].doing;
        if (answer == DONE_IS && doing != DOING_USER_CODE && doing != DOING_CALL)
            continue;
        if (by_answer[answer] == AND_OR_GRAPH_NO_NODE)
            by_answer[answer] = and_or_graph_node(graph, answer != DONE_NOT);
        and_or_graph_wait(graph, by_answer[answer], wait->peers[i].party);
    }
    static const enum part_done order[] = {DONE_NOT, DONE_PERHAPS, DONE_IS};
    for (unsigned i = 0; i < sizeof order / sizeof *order; i++)
        if (by_answer[order[i]] != AND_OR_GRAPH_NO_NODE)
            return by_answer[order[i]];
    return b->free_node;
}

uint32_t wait_in_epoch(struct builder *b, uint32_t party, const struct in_flight *slot, const struct call_name *call) {
    struct epoch_wait wait = {.call = call, .window = world_communicator(b->world, party, slot->comm)};
    const struct membership *me = wait.window ? world_membership(wait.window, party) : NULL;
    if (call->epoch == EPOCH_POST && !b->known->settled) /* it needs nobody, and others may have seen it already */
        return b->free_node;
    if (!me || call->epoch == EPOCH_POST || !find_peers(b, party, slot, &wait))
        return wait_for_any_member(b, party, slot->comm);
    wait.rank = me->rank;
    return node_of(b, &wait);
}

/* ---- locks ----------------------------------------------------------------------------------- */

enum lock { LOCK_UNTOLD, LOCK_HELD, LOCK_FREE };

/* What a call that was over said of the lock on that rank's part of the window. */
static enum lock lock_after(const struct call_name *call, int32_t peer, int32_t target) {
    if (call_is_named(call, "MPI_Win_lock_all") || (peer == target && call_is_named(call, "MPI_Win_lock")))
        return LOCK_HELD;
    bool all = call_is_named(call, "MPI_Win_unlock_all");
    return all || (peer == target && call_is_named(call, "MPI_Win_unlock")) ? LOCK_FREE : LOCK_UNTOLD;
}

/* The newest that a member's records say of it. */
static enum lock find_lock(const struct dump *dump, uint32_t local, int32_t target) {
    struct record_reader reader;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++) {
        const struct dump_lane *l = &dump->lanes[lane];
        uint64_t looked = 0;
        record_reader_begin(&reader, dump, lane);
        for (uint64_t t = l->end_ticket; t > l->first_ticket && looked++ < RECORDS_LOOKED_AT; t--) {
            const struct record *r = record_reader_at(&reader, t - 1);
            const struct call_name *call =
                r && r->kind == RECORD_CALL && r->comm == local ? dump_call(dump, r->call) : NULL;
            enum lock lock = call && !(r->flags & FLAG_FAILED) ? lock_after(call, r->peer, target) : LOCK_UNTOLD;
            if (lock != LOCK_UNTOLD)
                return lock;
        }
    }
    return LOCK_UNTOLD;
}

/* Whether it is just giving it back, which may be done. */
static bool is_unlocking(const struct dump *dump, uint32_t local, int32_t target) {
    for (uint32_t i = 0; i < dump->in_flight_count; i++) {
        struct in_flight slot = slot_read(&dump->in_flight[i]);
        const struct call_name *call = slot.tid && slot.comm == local ? slot_call(dump, &slot) : NULL;
        if (call && lock_after(call, slot.peer, target) == LOCK_FREE)
            return true;
    }
    return false;
}

/* All who hold it; a library may let somebody else in between, but not before they have given it back. */
uint32_t wait_for_lock(struct builder *b, uint32_t party, const struct in_flight *slot, struct wait *wait) {
    const struct shared_communicator *window = world_communicator(b->world, party, slot->comm);
    uint32_t node = AND_OR_GRAPH_NO_NODE;
    for (uint32_t i = 0; window && i < window->present_count; i++) {
        const struct membership *member = &window->present[i];
        const struct dump *dump = b->world->parties[member->party].dump;
        if (member->party == party || find_lock(dump, member->local, slot->peer) != LOCK_HELD)
            continue;
        if (!b->known->settled && is_unlocking(dump, member->local, slot->peer))
            return b->free_node;
        if (node == AND_OR_GRAPH_NO_NODE)
            node = and_or_graph_node(&b->waits->graph, false);
        and_or_graph_wait(&b->waits->graph, node, member->party);
    }
    wait->locked = node != AND_OR_GRAPH_NO_NODE;
    return wait->locked ? node : wait_for_any_member(b, party, slot->comm);
}
