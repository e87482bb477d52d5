/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages that are waited for.
 * Lives here: sends, receives and probes, what may be under way or buffered.
 * Must not live here: messages that ended (pending_messages.c), lists of requests.
 */
#include "analyzer/wait_for_graph/graph_build.h"

#include "analyzer/load/rows.h"
#include "analyzer/wait_for_graph/slots.h"

#define LOOKS_MOST (UINT64_C(1) << 22) /* tables of members gone through to rule out messages under way */

enum { OTHERS_TOLD_APART = 64 }; /* members of a communicator: their pairs are no more than a graph has room for */

/* A node of its own, that the process itself is not in: nobody is a circle by himself. */
static uint32_t wait_for_any_other(struct builder *b, uint32_t party, const uint32_t *members, uint32_t count) {
    uint32_t node = and_or_graph_node(&b->waits->graph, true);
    for (uint32_t rank = 0; rank < count; rank++)
        if (members[rank] != party)
            and_or_graph_wait(&b->waits->graph, node, members[rank] == NOBODY ? b->free_node : members[rank]);
    return node;
}

uint32_t wait_for_any_member(struct builder *b, uint32_t party, uint32_t local) {
    struct shared_communicator *communicator = world_communicator(b->world, party, local);
    if (!communicator)
        return b->free_node;
    unsigned side = 0;
    if (communicator->kind == COMMUNICATOR_INTER) {
        const struct membership *me = world_membership(communicator, party);
        side = me && me->side == 0;
    }
    uint32_t *node = &b->members_of[2 * (communicator - b->world->communicators) + side];
    if (*node == AND_OR_GRAPH_NO_NODE && !world_may_look_at(b->world, communicator->side_size[side]))
        return b->free_node;
    const uint32_t *members = world_members(b->world, communicator, side);
    if (members && communicator->side_size[side] > 1 && communicator->side_size[side] <= OTHERS_TOLD_APART)
        return wait_for_any_other(b, party, members, communicator->side_size[side]);
    if (*node != AND_OR_GRAPH_NO_NODE || !members)
        return *node != AND_OR_GRAPH_NO_NODE ? *node : b->free_node;
    *node = and_or_graph_node(&b->waits->graph, true);
    for (uint32_t rank = 0; rank < communicator->side_size[side]; rank++)
        and_or_graph_wait(&b->waits->graph, *node, members[rank] == NOBODY ? b->free_node : members[rank]);
    return *node;
}

/* Whether nothing can be under way between two parties; NOBODY: any. */
static bool is_settled(const struct builder *b, uint32_t party, uint32_t peer) {
    const bool *moving = b->known->moving;
    return b->known->settled && (!moving || (peer != NOBODY && !moving[party] && !moving[peer]));
}

/* May a partner's half of this message have ended without our knowing? */
static bool may_be_over(struct builder *b, const struct operation *o, uint32_t peer_party, uint16_t theirs) {
    struct shared_communicator *communicator = world_communicator(b->world, o->party, o->local);
    if (is_settled(b, o->party, peer_party) && !o->maybe_over)
        return false;
    if (!communicator || b->looks > LOOKS_MOST)
        return true;
    b->looks += communicator->present_count;
    const struct membership *me = world_membership(communicator, o->party);
    if (!me)
        return true;
    if (peer_party == NOBODY)
        return message_may_wait(b->world, communicator, me, o->tag);
    const struct membership *other = world_membership(communicator, peer_party);
    return other && message_may_be_over(b->world, me, other, theirs, o->tag, o->seq);
}

static uint64_t uid_of_local(const struct world *world, uint32_t party, uint32_t local) {
    const struct shared_communicator *communicator = world_communicator(world, party, local);
    return communicator ? communicator->uid : 0;
}

/* Both halves are posted: what is missing is only that a living partner comes back into the library. */
static uint32_t wait_for_transfer(struct builder *b, uint32_t partner) {
    enum doing doing = b->waits->parties[partner].doing;
    return doing == DOING_USER_CODE || doing == DOING_CALL ? partner : b->free_node;
}

uint32_t wait_for_message(struct builder *b, const struct operation *o) {
    if (o->peer == PEER_NULL)
        return b->free_node;
    uint64_t uid = uid_of_local(b->world, o->party, o->local);
    if (o->peer == PEER_ANY) {
        if (!uid || pending_messages_match(&b->sends, o->party, NOBODY, uid, o->tag, SEQ_NONE) ||
            may_be_over(b, o, NOBODY, FLAG_SEND))
            return b->free_node;
        return wait_for_any_member(b, o->party, o->local);
    }
    uint32_t from = world_peer(b->world, o->party, o->local, o->peer);
    if (from == NOBODY)
        return b->free_node;
    if (uid && pending_messages_match(&b->sends, o->party, from, uid, o->tag, o->seq))
        return wait_for_transfer(b, from);
    return may_be_over(b, o, from, FLAG_SEND) ? b->free_node : from;
}

bool may_be_buffered(const struct operation *o) {
    return !(o->flags & FLAG_SYNCHRONOUS) && (o->bytes == BYTES_UNKNOWN || o->bytes < NEVER_BUFFERED);
}

uint32_t wait_for_receiver(struct builder *b, const struct operation *o) {
    uint32_t to = world_peer(b->world, o->party, o->local, o->peer);
    if (to == NOBODY || (o->maybe_over && may_be_buffered(o)))
        return b->free_node;
    uint64_t uid = uid_of_local(b->world, o->party, o->local);
    if (uid && pending_messages_match(&b->receives, o->party, to, uid, o->tag, o->seq))
        return wait_for_transfer(b, to);
    return may_be_over(b, o, to, FLAG_RECV) ? b->free_node : to;
}

uint32_t wait_for_operation(struct builder *b, const struct operation *o) {
    if (o->flags & FLAG_COLLECTIVE)
        return wait_in_collective(b, o);
    if (o->call->call_class == CLASS_SENDRECV) /* pending: which half is not known */
        return b->free_node;
    if (o->flags & FLAG_SEND)
        return wait_for_receiver(b, o);
    return o->flags & FLAG_RECV ? wait_for_message(b, o) : b->free_node;
}

/* ---- what is posted --------------------------------------------------------------------------- */

static void note_message(struct builder *b, uint32_t party, uint32_t local, int32_t peer, int32_t tag, uint32_t seq,
                         bool send) {
    uint64_t uid = uid_of_local(b->world, party, local);
    uint32_t at = peer == PEER_ANY ? NOBODY : world_peer(b->world, party, local, peer);
    if (uid && (at != NOBODY || (peer == PEER_ANY && !send)))
        pending_messages_add(send ? &b->sends : &b->receives,
                             (struct pending_message){.at = at, .of = party, .uid = uid, .tag = tag, .seq = seq});
}

void note_messages(struct builder *b, uint32_t p) {
    const struct dump *dump = b->world->parties[p].dump;
    for (uint32_t i = 0; i < dump->in_flight_count; i++) {
        struct in_flight slot = slot_read(&dump->in_flight[i]);
        const struct call_name *call = slot.tid ? slot_call(dump, &slot) : NULL;
        if (!call || call_only_asks(call) || slot.flags & FLAG_COLLECTIVE)
            continue;
        if (call->call_class == CLASS_SENDRECV) {
            note_message(b, p, slot.comm, slot.peer, slot.tag, slot.seq, true);
            if (slot.flags & FLAG_RECV)
                note_message(b, p, slot.comm, (int32_t)slot.op, TAG_ANY, SEQ_NONE, false);
        } else if (call->call_class == CLASS_SEND || call->call_class == CLASS_RECV ||
                   call->call_class == CLASS_PROBE) {
            note_message(b, p, slot.comm, slot.peer, slot.tag, slot.seq, call->call_class == CLASS_SEND);
        }
    }
    for (uint32_t i = 0; i < dump->pending_count; i++) {
        struct pending pending;
        if (pending_read(dump, &dump->pending[i], &pending) && pending.flags & (FLAG_SEND | FLAG_RECV) &&
            !(pending.flags & FLAG_COLLECTIVE))
            note_message(b, p, pending.comm, pending.peer, pending.tag, pending.seq, pending.flags & FLAG_SEND);
    }
}
