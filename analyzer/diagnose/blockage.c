/* SPDX-License-Identifier: Apache-2.0
 *
 * Implementation of blockage.h.
 * Lives here: reading what each thread does, turning it into the graph.
 * Must not live here: verdicts, messages that ended (messages.c).
 */
#include "analyzer/diagnose/blockage.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/diagnose/messages.h"
#include "analyzer/load/rows.h"

enum { READ_TRIES = 64 };
#define LOOKS_MOST (UINT64_C(1) << 22) /* tables of members gone through to rule out messages under way */

struct builder {
    struct blockage *waits;
    struct world *world;
    struct messages sends, receives; /* posted, not seen complete */
    uint32_t *members_of;            /* per communicator and side: node of any member, GRAPH_NO_NODE */
    uint32_t *index;                 /* hash of stalled: number + 1, 0 = free */
    size_t index_size;
    size_t room, stalled_room;
    uint32_t free_node; /* waits for nobody */
    uint64_t looks;
    const struct circumstances *known;
    bool no_memory;
};

/* What a blocked call or a pending operation is about: the fields that both have. */
struct operation {
    uint32_t party;
    const struct call_name *call;
    uint32_t local, seq;
    int32_t peer, tag;
    uint64_t bytes;
    uint32_t flags;
    bool maybe_over; /* one of several of a Wait: may be complete, only that nobody has looked */
};

/* ---- reading slots --------------------------------------------------------------------------- */

/* A copy of a slot whose call did not change meanwhile; call 0 where it did not hold still. */
static struct in_flight read_slot(const struct in_flight *slot) {
    struct in_flight copy = {0};
    for (int i = 0; i < READ_TRIES; i++) {
        uint32_t call = __atomic_load_n(&slot->call, __ATOMIC_ACQUIRE);
        copy = *slot;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (copy.call == call && __atomic_load_n(&slot->call, __ATOMIC_RELAXED) == call)
            return copy;
    }
    copy.call = 0;
    return copy;
}

static const struct call_name *slot_call(const struct dump *dump, const struct in_flight *slot) {
    return slot->call && slot->call <= UINT16_MAX ? dump_call(dump, (uint16_t)slot->call) : NULL;
}

static bool is_named(const struct call_name *call, const char *name) {
    size_t length = strlen(name);
    return strncmp(call->name, name, length) == 0 &&
           (call->name[length] == '\0' || strcmp(call->name + length, "_c") == 0);
}

static bool only_asks(const struct call_name *call) {
    return call->call_class == CLASS_TEST || is_named(call, "MPI_Iprobe") || is_named(call, "MPI_Improbe");
}

static bool waits_for_one_of_many(const struct call_name *call) {
    return is_named(call, "MPI_Waitany") || is_named(call, "MPI_Waitsome");
}

/* Calls that end only when somebody else does something. */
static bool can_block(const struct call_name *call, const struct in_flight *slot) {
    if (call->nonblocking || only_asks(call))
        return false;
    switch (call->call_class) {
    case CLASS_COLLECTIVE:
    case CLASS_SEND:
    case CLASS_RECV:
    case CLASS_SENDRECV:
    case CLASS_WAIT:
    case CLASS_PROBE:
        return true;
    case CLASS_COMMUNICATOR:
    case CLASS_RMA_SYNC:
        return slot->comm != COMM_NONE;
    case CLASS_FILE:
        return (slot->flags & FLAG_COLLECTIVE) != 0;
    default:
        return false;
    }
}

/* ---- collectives ----------------------------------------------------------------------------- */

bool stalled_misses(const struct world *world, const struct stalled *stalled, const struct membership *member) {
    if (stalled->device) {
        struct progress progress;
        return !membership_progress(world, member, &progress) || progress.started <= stalled->seq;
    }
    return membership_enqueued(world, member) <= stalled->seq;
}

bool stalled_expects(const struct stalled *stalled, unsigned side, uint32_t rank) {
    return !stalled->rooted || side != stalled->root_side || (int32_t)rank == stalled->root_rank;
}

/* Somebody who has not come. */
static void add_missing(struct builder *b, struct stalled *stalled, unsigned side, uint32_t party) {
    struct graph *graph = &b->waits->graph;
    if (stalled->missing++ == 0) {
        stalled->all = graph_node(graph, false);
        stalled->any = graph_node(graph, true);
    }
    bool inter = stalled->communicator->kind == COMMUNICATOR_INTER;
    if (inter && stalled->all_of[side] == GRAPH_NO_NODE)
        stalled->all_of[side] = graph_node(graph, false);
    stalled->unknown += party == NOBODY;
    uint32_t node = party == NOBODY ? b->free_node : party;
    graph_wait(graph, stalled->all, node);
    graph_wait(graph, stalled->any, node);
    if (inter)
        graph_wait(graph, stalled->all_of[side], node);
}

/* Marks who has come, by side and rank, and makes nodes for those who have not. */
static void find_missing(struct builder *b, struct stalled *stalled) {
    struct shared_communicator *communicator = stalled->communicator;
    for (unsigned side = 0; side < 2; side++) {
        const uint32_t *members = world_members(b->world, communicator, side);
        uint8_t *came = calloc((size_t)communicator->side_size[side] + 1, 1);
        if (!members || !came) {
            b->no_memory = true;
            free(came);
            return;
        }
        for (uint32_t i = 0; i < communicator->present_count; i++)
            if (communicator->present[i].side == side &&
                (uint32_t)communicator->present[i].rank < communicator->side_size[side] &&
                !stalled_misses(b->world, stalled, &communicator->present[i]))
                came[communicator->present[i].rank] = 1;
        for (uint32_t rank = 0; rank < communicator->side_size[side]; rank++)
            if (!came[rank] && stalled_expects(stalled, side, rank))
                add_missing(b, stalled, side, members[rank]);
        free(came);
    }
}

static size_t hash_of(const struct builder *b, const struct shared_communicator *communicator, uint32_t seq) {
    return (size_t)((communicator->uid ^ seq * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xd6e8feb86659fd93) >> 20) &
           (b->index_size - 1);
}

static bool grow_index(struct builder *b) {
    size_t size = b->index_size ? 2 * b->index_size : 1024;
    uint32_t *index = calloc(size, sizeof *index);
    if (!index)
        return false;
    free(b->index);
    b->index = index;
    b->index_size = size;
    for (size_t i = 0; i < b->waits->stalled_count; i++) {
        const struct stalled *stalled = &b->waits->stalled[i];
        size_t at = hash_of(b, stalled->communicator, stalled->seq);
        while (index[at])
            at = (at + 1) & (size - 1);
        index[at] = (uint32_t)i + 1;
    }
    return true;
}

/* Both what the root passes and what the others name tells which of the groups it is in. */
static void find_root(struct stalled *stalled, const struct operation *o, const struct membership *me) {
    bool root = o->flags & FLAG_ROOT;
    if (!me || (o->call->flow != FLOW_FROM_ROOT && o->call->flow != FLOW_TO_ROOT) || (!root && o->peer < 0))
        return;
    stalled->rooted = true;
    stalled->root_side = root ? me->side : me->side == 0;
    stalled->root_rank = root ? me->rank : o->peer;
}

/* `o`: the operation of somebody who waits in it, NULL on a device. */
static struct stalled *find_stalled(struct builder *b, struct shared_communicator *communicator, uint32_t seq,
                                    const struct call_name *call, bool device, const struct operation *o) {
    struct blockage *waits = b->waits;
    if (2 * (waits->stalled_count + 1) > b->index_size && !grow_index(b)) {
        b->no_memory = true;
        return NULL;
    }
    size_t at = hash_of(b, communicator, seq);
    for (; b->index[at]; at = (at + 1) & (b->index_size - 1)) {
        struct stalled *stalled = &waits->stalled[b->index[at] - 1];
        if (stalled->communicator == communicator && stalled->seq == seq)
            return stalled;
    }
    if (waits->stalled_count == b->stalled_room) {
        size_t room = b->stalled_room ? 2 * b->stalled_room : 64;
        struct stalled *items = realloc(waits->stalled, room * sizeof *items);
        if (!items) {
            b->no_memory = true;
            return NULL;
        }
        waits->stalled = items;
        b->stalled_room = room;
    }
    struct stalled *stalled = &waits->stalled[waits->stalled_count++];
    *stalled = (struct stalled){.communicator = communicator,
                                .seq = seq,
                                .call = call,
                                .device = device,
                                .all = GRAPH_NO_NODE,
                                .any = GRAPH_NO_NODE,
                                .all_of = {GRAPH_NO_NODE, GRAPH_NO_NODE}};
    if (communicator->kind == COMMUNICATOR_INTER && o)
        find_root(stalled, o, world_membership(communicator, o->party));
    b->index[at] = (uint32_t)waits->stalled_count;
    find_missing(b, stalled);
    return stalled;
}

/* A group waits for the other one, or for the root there. What the library makes it wait for besides nobody knows. */
static uint32_t wait_between_groups(struct builder *b, const struct operation *o,
                                    const struct shared_communicator *communicator, const struct stalled *stalled) {
    const struct membership *me = world_membership(communicator, o->party);
    bool root = o->flags & FLAG_ROOT, started = o->flags & FLAG_STARTED;
    bool everybody = o->call->flow == FLOW_ALL || o->call->flow == (root ? FLOW_TO_ROOT : FLOW_FROM_ROOT);
    uint32_t others = me ? stalled->all_of[me->side == 0] : GRAPH_NO_NODE;
    if (everybody && !started && others != GRAPH_NO_NODE)
        return others;
    return o->maybe_over ? b->free_node : stalled->any;
}

/* Nobody knows how a library passes data on: whoever sits in a rooted collective with its root there may wait for any
 * one of those missing, and all are needed only where everybody depends on everybody. */
static uint32_t wait_in_collective(struct builder *b, const struct operation *o) {
    struct shared_communicator *communicator = world_communicator(b->world, o->party, o->local);
    if (!communicator || o->seq == SEQ_NONE)
        return b->free_node;
    bool bystander = communicator->kind == COMMUNICATOR_INTER && o->peer == PEER_NULL;
    struct stalled *stalled = bystander ? NULL : find_stalled(b, communicator, o->seq, o->call, false, o);
    if (!stalled || stalled->missing == 0)
        return b->free_node;
    if (communicator->kind == COMMUNICATOR_INTER && o->call->call_class == CLASS_COLLECTIVE)
        return wait_between_groups(b, o, communicator, stalled);
    bool root = o->flags & FLAG_ROOT, started = o->flags & FLAG_STARTED;
    bool everybody = o->call->flow == FLOW_ALL || o->call->call_class == CLASS_COMMUNICATOR ||
                     (o->call->flow == FLOW_TO_ROOT && root);
    if (everybody && !started && communicator->kind != COMMUNICATOR_FILE && communicator->kind != COMMUNICATOR_WINDOW)
        return stalled->all;
    if (o->call->flow == FLOW_FROM_ROOT && !root && o->peer >= 0) {
        uint32_t from = world_peer(b->world, o->party, o->local, o->peer);
        for (uint32_t i = 0; from != NOBODY && i < communicator->present_count; i++)
            if (communicator->present[i].party == from && stalled_misses(b->world, stalled, &communicator->present[i]))
                return from;
        if (from != NOBODY && !b->world->parties[from].dump)
            return from;
    }
    return o->maybe_over ? b->free_node : stalled->any;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Any member of the communicator (of the other side of an intercommunicator). */
static uint32_t wait_for_any_member(struct builder *b, uint32_t party, uint32_t local) {
    struct shared_communicator *communicator = world_communicator(b->world, party, local);
    if (!communicator)
        return b->free_node;
    unsigned side = 0;
    if (communicator->kind == COMMUNICATOR_INTER) {
        const struct membership *me = world_membership(communicator, party);
        side = me && me->side == 0;
    }
    uint32_t *node = &b->members_of[2 * (communicator - b->world->communicators) + side];
    const uint32_t *members = world_members(b->world, communicator, side);
    if (*node != GRAPH_NO_NODE || !members)
        return *node != GRAPH_NO_NODE ? *node : b->free_node;
    *node = graph_node(&b->waits->graph, true);
    for (uint32_t rank = 0; rank < communicator->side_size[side]; rank++)
        graph_wait(&b->waits->graph, *node, members[rank] == NOBODY ? b->free_node : members[rank]);
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
        return message_may_wait(b->world, communicator, me);
    const struct membership *other = world_membership(communicator, peer_party);
    return other && message_may_be_over(b->world, me, other, theirs, o->tag, o->seq);
}

static uint64_t uid_of(const struct world *world, uint32_t party, uint32_t local) {
    const struct shared_communicator *communicator = world_communicator(world, party, local);
    return communicator ? communicator->uid : 0;
}

/* Both halves are posted: what is missing is only that a living partner comes back into the library. */
static uint32_t wait_for_transfer(struct builder *b, uint32_t partner) {
    enum doing doing = b->waits->parties[partner].doing;
    return doing == DOING_USER_CODE || doing == DOING_CALL ? partner : b->free_node;
}

static uint32_t wait_for_message(struct builder *b, const struct operation *o) {
    if (o->peer == PEER_NULL)
        return b->free_node;
    uint64_t uid = uid_of(b->world, o->party, o->local);
    if (o->peer == PEER_ANY) {
        if (!uid || messages_match(&b->sends, o->party, NOBODY, uid, o->tag, SEQ_NONE) ||
            may_be_over(b, o, NOBODY, FLAG_SEND))
            return b->free_node;
        return wait_for_any_member(b, o->party, o->local);
    }
    uint32_t from = world_peer(b->world, o->party, o->local, o->peer);
    if (from == NOBODY)
        return b->free_node;
    if (uid && messages_match(&b->sends, o->party, from, uid, o->tag, o->seq))
        return wait_for_transfer(b, from);
    return may_be_over(b, o, from, FLAG_SEND) ? b->free_node : from;
}

static bool may_be_buffered(const struct operation *o) {
    return !(o->flags & FLAG_SYNCHRONOUS) && (o->bytes == BYTES_UNKNOWN || o->bytes < NEVER_BUFFERED);
}

static uint32_t wait_for_receiver(struct builder *b, const struct operation *o) {
    uint32_t to = world_peer(b->world, o->party, o->local, o->peer);
    if (to == NOBODY || (o->maybe_over && may_be_buffered(o)))
        return b->free_node;
    uint64_t uid = uid_of(b->world, o->party, o->local);
    if (uid && messages_match(&b->receives, o->party, to, uid, o->tag, o->seq))
        return wait_for_transfer(b, to);
    return may_be_over(b, o, to, FLAG_RECV) ? b->free_node : to;
}

static uint32_t wait_for_operation(struct builder *b, const struct operation *o) {
    if (o->flags & FLAG_COLLECTIVE)
        return wait_in_collective(b, o);
    if (o->call->call_class == CLASS_SENDRECV) /* pending: which half is not known */
        return b->free_node;
    if (o->flags & FLAG_SEND)
        return wait_for_receiver(b, o);
    return o->flags & FLAG_RECV ? wait_for_message(b, o) : b->free_node;
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct operation pending_operation(const struct dump *dump, uint32_t party, const struct pending *p) {
    return (struct operation){.party = party,
                              .call = dump_call(dump, p->call),
                              .local = p->comm,
                              .seq = p->seq,
                              .peer = p->peer,
                              .tag = p->tag,
                              .bytes = p->bytes,
                              .flags = p->flags};
}

/* Whether a Wait's slot tells that it waits for this operation. Lists are told by their first and last operation and
 * their length (format.h). */
static bool in_list(const struct in_flight *slot, const struct pending *p) {
    uint32_t low = slot->op < slot->seq ? slot->op : slot->seq, high = slot->op < slot->seq ? slot->seq : slot->op;
    return p->op >= low && p->op <= high;
}

struct list {
    uint32_t all;    /* operations that are pending */
    uint32_t inside; /* of these, between the first and the last of the list */
    uint32_t sends;  /* of those inside, sends that may be buffered */
    bool exact;      /* the list is known: it is those inside */
};

static struct list look_at_list(const struct dump *dump, uint32_t party, const struct in_flight *slot) {
    struct list list = {0};
    bool told = slot->tag > 0 && slot->seq != SEQ_NONE;
    for (uint32_t i = 0; i < dump->pending_count; i++) {
        const struct pending *p = &dump->pending[i];
        if (!pending_is_active(dump, p))
            continue;
        list.all++;
        if (!told || !in_list(slot, p))
            continue;
        struct operation o = pending_operation(dump, party, p);
        list.inside++;
        list.sends += (o.flags & FLAG_SEND) && may_be_buffered(&o);
    }
    list.exact = told && list.inside == (uint32_t)slot->tag;
    return list;
}

/* All of a list: what of it is known to be waited for. A list of sends alone that may be buffered waits for one of
 * them, since it is blocked. Where the list is not known, its first and last are; where not even they, anything. */
static uint32_t wait_for_all(struct builder *b, uint32_t party, const struct in_flight *slot, struct wait *wait) {
    const struct dump *dump = b->world->parties[party].dump;
    struct list list = look_at_list(dump, party, slot);
    bool told = slot->tag > 0 && slot->seq != SEQ_NONE;
    bool sends_alone = list.exact && list.sends == list.inside, any = !told || sends_alone;
    uint32_t node = graph_node(&b->waits->graph, any);
    size_t before = b->waits->graph.edge_count;
    wait->requests = told ? (uint32_t)slot->tag : 0;
    for (uint32_t i = 0; i < dump->pending_count; i++) {
        const struct pending *p = &dump->pending[i];
        if (!pending_is_active(dump, p) ||
            (told && !(list.exact ? in_list(slot, p) : p->op == slot->op || p->op == slot->seq)))
            continue;
        struct operation o = pending_operation(dump, party, p);
        o.maybe_over = !any && list.inside > 1;
        graph_wait(&b->waits->graph, node, wait_for_operation(b, &o));
    }
    if (any && b->waits->graph.edge_count == before)
        graph_wait(&b->waits->graph, node, b->free_node);
    return node;
}

static uint32_t wait_for_some(struct builder *b, uint32_t party, const struct in_flight *slot, struct wait *wait) {
    const struct dump *dump = b->world->parties[party].dump;
    struct list list = look_at_list(dump, party, slot);
    uint32_t node = graph_node(&b->waits->graph, true);
    wait->requests = slot->tag > 0 && slot->seq != SEQ_NONE ? (uint32_t)slot->tag : 0;
    if (list.all == 0)
        graph_wait(&b->waits->graph, node, b->free_node);
    for (uint32_t i = 0; i < dump->pending_count; i++) {
        const struct pending *p = &dump->pending[i];
        if (!pending_is_active(dump, p) || (list.exact && !in_list(slot, p)))
            continue;
        struct operation o = pending_operation(dump, party, p);
        graph_wait(&b->waits->graph, node, wait_for_operation(b, &o));
    }
    return node;
}

/* The one operation of a Wait; the wait then is about it. */
static uint32_t wait_for_one(struct builder *b, uint32_t party, const struct in_flight *slot, struct wait *wait) {
    const struct dump *dump = b->world->parties[party].dump;
    wait->requests = 1;
    for (uint32_t i = 0; slot->op && i < dump->pending_count; i++) {
        const struct pending *p = &dump->pending[i];
        if (p->op != slot->op || !pending_is_active(dump, p))
            continue;
        struct operation o = pending_operation(dump, party, p);
        wait->communicator = world_communicator(b->world, party, p->comm);
        wait->collective = (p->flags & FLAG_COLLECTIVE) != 0;
        wait->seq = p->seq;
        wait->peer = p->peer;
        wait->peer_party = world_peer(b->world, party, p->comm, p->peer);
        wait->tag = p->tag;
        wait->bytes = p->bytes;
        return wait_for_operation(b, &o);
    }
    return b->free_node;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Its send and its receive are both needed, but either may be over. The slot names the source beside the destination
 * (format.h); the receive's tag and number are not known. */
static uint32_t wait_for_both(struct builder *b, const struct operation *o, struct wait *wait) {
    struct operation receive = *o, send = *o;
    bool told = o->flags & FLAG_RECV;
    receive.peer = wait->source;
    receive.tag = TAG_ANY;
    receive.seq = SEQ_NONE;
    receive.maybe_over = send.maybe_over = true;
    uint32_t from = told ? wait_for_message(b, &receive) : b->free_node, to = wait_for_receiver(b, &send);
    if (from == b->free_node && to == b->free_node) { /* one of them it must be */
        send.maybe_over = receive.maybe_over = false;
        uint32_t node = graph_node(&b->waits->graph, true);
        if (o->peer != PEER_NULL)
            graph_wait(&b->waits->graph, node, wait_for_receiver(b, &send));
        graph_wait(&b->waits->graph, node, told ? wait_for_message(b, &receive) : b->free_node);
        return node;
    }
    uint32_t node = graph_node(&b->waits->graph, false);
    graph_wait(&b->waits->graph, node, from);
    graph_wait(&b->waits->graph, node, to);
    return node;
}

static uint32_t wait_of_slot(struct builder *b, uint32_t party, const struct in_flight *slot, struct wait *wait) {
    const struct operation o = {.party = party,
                                .call = wait->call,
                                .local = slot->comm,
                                .seq = slot->seq,
                                .peer = slot->peer,
                                .tag = slot->tag,
                                .bytes = slot->bytes,
                                .flags = slot->flags};
    switch (wait->call->call_class) {
    case CLASS_WAIT:
        if (waits_for_one_of_many(wait->call))
            return wait_for_some(b, party, slot, wait);
        return is_named(wait->call, "MPI_Wait") ? wait_for_one(b, party, slot, wait)
                                                : wait_for_all(b, party, slot, wait);
    case CLASS_SEND:
        return wait_for_receiver(b, &o);
    case CLASS_RECV:
    case CLASS_PROBE:
        return wait_for_message(b, &o);
    case CLASS_SENDRECV:
        return wait_for_both(b, &o, wait);
    default:
        return slot->flags & FLAG_COLLECTIVE ? wait_in_collective(b, &o) : wait_for_any_member(b, party, slot->comm);
    }
}

static struct wait *add_wait(struct builder *b, uint32_t party) {
    struct blockage *waits = b->waits;
    if (waits->count == b->room) {
        size_t room = b->room ? 2 * b->room : 256;
        struct wait *items = realloc(waits->items, room * sizeof *items);
        if (!items) {
            b->no_memory = true;
            return NULL;
        }
        waits->items = items;
        b->room = room;
    }
    struct party_state *state = &waits->parties[party];
    if (state->wait_count++ == 0)
        state->first_wait = (uint32_t)waits->count;
    struct wait *wait = &waits->items[waits->count++];
    *wait = (struct wait){
        .party = party, .peer_party = NOBODY, .peer = PEER_NONE, .source = PEER_NONE, .tag = TAG_NONE, .seq = SEQ_NONE};
    return wait;
}

static void add_slot_wait(struct builder *b, uint32_t party, const struct in_flight *slot,
                          const struct call_name *call) {
    struct wait *added = add_wait(b, party);
    if (!added)
        return;
    struct wait wait = *added;
    bool about_message = call->call_class != CLASS_WAIT;
    wait.call = call;
    wait.stack = slot->stack;
    wait.enter = slot->enter;
    wait.bytes = slot->bytes;
    if (about_message) {
        wait.communicator = world_communicator(b->world, party, slot->comm);
        wait.collective = (slot->flags & FLAG_COLLECTIVE) != 0;
        wait.seq = slot->seq;
        wait.peer = slot->peer;
        wait.tag = slot->tag;
        wait.peer_party = world_peer(b->world, party, slot->comm, slot->peer);
    }
    if (call->call_class == CLASS_SENDRECV && slot->flags & FLAG_RECV)
        wait.source = (int32_t)slot->op;
    wait.node = wait_of_slot(b, party, slot, &wait);
    b->waits->items[b->waits->count - 1] = wait;
}

/* ---- what a process does --------------------------------------------------------------------- */

/* NCCL alone has no Finalize: a normal exit is its end. */
static bool has_finished(const struct dump *dump) {
    uint32_t state = dump->header->state;
    return state & STATE_FINALISED ||
           (state & STATE_EXITED && state & STATE_INITIALISED && dump->header->mpi_family == 0);
}

static enum gone gone_of(const struct builder *b, uint32_t p) {
    const struct party *party = &b->world->parties[p];
    uint32_t state = party->dump->header->state;
    if (has_finished(party->dump))
        return GONE_NOT;
    if (state & STATE_ABORTING)
        return GONE_ABORTED;
    if (state & STATE_EXITED)
        return GONE_EXITED;
    bool died = b->known->dead != NOBODY ? p == b->known->dead : b->waits->any_alive && party->process == PROCESS_GONE;
    return died ? GONE_DIED : GONE_NOT; /* others that are gone went after the first */
}

/* Sets what the process does as far as its threads' slots tell. Without threads in the library at once, a blocked one
 * blocks all; with them, one that is free may do what others wait for. */
static void read_threads(struct builder *b, uint32_t p) {
    const struct dump *dump = b->world->parties[p].dump;
    struct party_state *state = &b->waits->parties[p];
    bool together = dump->header->state & STATE_THREAD_MULTIPLE;
    uint32_t blocked = 0, free_threads = 0;
    state->doing = DOING_USER_CODE;
    for (uint32_t i = 0; i < dump->in_flight_count; i++) {
        struct in_flight slot = read_slot(&dump->in_flight[i]);
        const struct call_name *call = slot_call(dump, &slot);
        if (slot.tid == 0)
            continue;
        if (!call) {
            free_threads++;
            if (slot.last_leave > state->since && !state->call)
                state->since = slot.last_leave;
        } else if (can_block(call, &slot)) {
            blocked++;
        } else {
            free_threads++;
            state->call = call;
            state->stack = slot.stack;
            state->since = slot.enter;
            state->doing = is_named(call, "MPI_Finalize")    ? DOING_FINALIZE
                           : call->call_class == CLASS_SETUP ? DOING_INIT
                           : only_asks(call)                 ? DOING_POLL
                                                             : DOING_CALL;
        }
    }
    if (blocked > 0 && (!together || free_threads == 0))
        state->doing = DOING_BLOCKED;
}

static void read_party(struct builder *b, uint32_t p) {
    const struct party *party = &b->world->parties[p];
    struct party_state *state = &b->waits->parties[p];
    if (!party->dump) {
        state->doing = DOING_UNKNOWN;
        return;
    }
    state->stopped = party->process == PROCESS_STOPPED;
    state->gone = gone_of(b, p);
    if (has_finished(party->dump))
        state->doing = DOING_FINISHED;
    else if (state->gone != GONE_NOT)
        state->doing = DOING_GONE;
    else
        read_threads(b, p);
    if (state->doing == DOING_USER_CODE && !(party->dump->header->state & STATE_INITIALISED))
        state->doing = DOING_INIT;
    if (party->dump->header->state & STATE_FINALISING && state->doing != DOING_FINISHED && state->gone == GONE_NOT)
        state->doing = DOING_FINALIZE;
}

/* ---- GPU work -------------------------------------------------------------------------------- */

static bool ended_elsewhere(const struct world *world, const struct shared_communicator *communicator, uint32_t seq) {
    for (uint32_t i = 0; i < communicator->present_count; i++) {
        struct progress progress;
        if (membership_progress(world, &communicator->present[i], &progress) && progress.completed > seq)
            return true;
    }
    return false;
}

/* The oldest operation that the GPU has begun and not ended. Where nothing tells when GPU work begins and ends, those
 * ahead of the last member wait for it. A process that died could not note any more what its GPU ended just then: what
 * ended on another member had ended there. */
static bool unfinished(const struct world *world, const struct shared_communicator *communicator,
                       const struct membership *me, const struct progress *mine, uint32_t *seq) {
    uint32_t timing = world->parties[me->party].dump->header->gpu_timing;
    if (timing == GPU_TIMING_EVENTS || timing == GPU_TIMING_KERNEL) {
        *seq = (uint32_t)mine->completed;
        return mine->started > mine->completed &&
               !(world->parties[me->party].process == PROCESS_GONE && ended_elsewhere(world, communicator, *seq));
    }
    uint64_t least = mine->enqueued;
    for (uint32_t i = 0; i < communicator->present_count; i++) {
        uint64_t enqueued = membership_enqueued(world, &communicator->present[i]);
        least = enqueued < least ? enqueued : least;
    }
    *seq = (uint32_t)least;
    return mine->enqueued > least;
}

static void add_device_wait(struct builder *b, struct shared_communicator *communicator, const struct membership *me,
                            const struct call_name *call, const struct progress *mine, uint32_t seq) {
    struct wait *wait = add_wait(b, me->party);
    struct stalled *stalled = find_stalled(b, communicator, seq, call, true, NULL);
    if (!wait || !stalled)
        return;
    wait->call = call;
    wait->communicator = communicator;
    wait->collective = wait->device = true;
    wait->seq = seq;
    wait->enter = mine->last_enter;
    wait->node = stalled->missing ? stalled->all : b->free_node;
}

/* Processes in their own code whose GPU sits in a collective: the host as a rule waits for the GPU. */
static void add_device_waits(struct builder *b, uint32_t p) {
    const struct dump *dump = b->world->parties[p].dump;
    for (uint32_t local = 0; local < dump->communicator_count; local++) {
        struct shared_communicator *communicator = world_communicator(b->world, p, local);
        struct progress mine;
        uint32_t seq;
        if (!communicator || !dump->communicators[local].progress)
            continue;
        const struct membership me = {.party = p, .local = local};
        if (!membership_progress(b->world, &me, &mine) || mine.enqueued == 0 || mine.last_call > UINT16_MAX)
            continue;
        const struct call_name *call = dump_call(dump, (uint16_t)mine.last_call);
        if (call && call->api == API_NCCL && unfinished(b->world, communicator, &me, &mine, &seq))
            add_device_wait(b, communicator, &me, call, &mine, seq);
    }
    if (b->waits->parties[p].wait_count > 0)
        b->waits->parties[p].doing = DOING_BLOCKED;
}

/* ---- messages that are posted ---------------------------------------------------------------- */

static void note_message(struct builder *b, uint32_t party, uint32_t local, int32_t peer, int32_t tag, uint32_t seq,
                         bool send) {
    uint64_t uid = uid_of(b->world, party, local);
    uint32_t at = peer == PEER_ANY ? NOBODY : world_peer(b->world, party, local, peer);
    if (uid && (at != NOBODY || (peer == PEER_ANY && !send)))
        messages_add(send ? &b->sends : &b->receives,
                     (struct message){.at = at, .of = party, .uid = uid, .tag = tag, .seq = seq});
}

static void note_messages(struct builder *b, uint32_t p) {
    const struct dump *dump = b->world->parties[p].dump;
    for (uint32_t i = 0; i < dump->in_flight_count; i++) {
        struct in_flight slot = read_slot(&dump->in_flight[i]);
        const struct call_name *call = slot.tid ? slot_call(dump, &slot) : NULL;
        if (!call || only_asks(call) || slot.flags & FLAG_COLLECTIVE)
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
        const struct pending *pending = &dump->pending[i];
        if (pending_is_active(dump, pending) && pending->flags & (FLAG_SEND | FLAG_RECV) &&
            !(pending->flags & FLAG_COLLECTIVE))
            note_message(b, p, pending->comm, pending->peer, pending->tag, pending->seq, pending->flags & FLAG_SEND);
    }
}

/* ---- all together ---------------------------------------------------------------------------- */

static void add_waits(struct builder *b, uint32_t p) {
    const struct dump *dump = b->world->parties[p].dump;
    struct party_state *state = &b->waits->parties[p];
    if (state->doing == DOING_FINISHED || state->doing == DOING_GONE || state->doing == DOING_FINALIZE ||
        (b->known->moving && b->known->moving[p]))
        return;
    for (uint32_t i = 0; i < dump->in_flight_count; i++) {
        struct in_flight slot = read_slot(&dump->in_flight[i]);
        const struct call_name *call = slot.tid ? slot_call(dump, &slot) : NULL;
        if (call && can_block(call, &slot))
            add_slot_wait(b, p, &slot, call);
    }
    if (state->doing == DOING_USER_CODE)
        add_device_waits(b, p);
    if (state->doing != DOING_BLOCKED || state->stopped || state->wait_count == 0)
        return;
    b->waits->graph.any[p] = true;
    for (uint32_t i = 0; i < state->wait_count; i++)
        graph_wait(&b->waits->graph, p, b->waits->items[state->first_wait + i].node);
}

static int compare_stalled(const void *a, const void *b) {
    const struct stalled *left = a, *right = b;
    if (left->communicator != right->communicator)
        return left->communicator < right->communicator ? -1 : 1;
    return left->seq < right->seq ? -1 : left->seq > right->seq;
}

static bool begin(struct builder *b, struct blockage *waits, struct world *world) {
    waits->world = world;
    waits->parties = calloc((size_t)world->party_count + 1, sizeof *waits->parties);
    size_t nodes = 2 * (size_t)world->communicator_count + 1;
    b->members_of = malloc(nodes * sizeof *b->members_of);
    if (!waits->parties || !b->members_of)
        return false;
    memset(b->members_of, 0xff, nodes * sizeof *b->members_of);
    for (uint32_t p = 0; p < world->dump_count; p++)
        waits->any_alive |= world->parties[p].process == PROCESS_RUNS || world->parties[p].process == PROCESS_STOPPED;
    for (uint32_t p = 0; p < world->party_count; p++)
        graph_node(&waits->graph, false);
    b->free_node = graph_node(&waits->graph, false);
    return !waits->graph.no_memory;
}

bool blockage_find(struct blockage *waits, struct world *world, const struct circumstances *circumstances) {
    *waits = (struct blockage){0};
    struct builder b = {.waits = waits, .world = world, .known = circumstances};
    bool done = begin(&b, waits, world);
    for (uint32_t p = 0; done && p < world->party_count; p++)
        read_party(&b, p);
    for (uint32_t p = 0; done && p < world->dump_count; p++)
        note_messages(&b, p);
    messages_sort(&b.sends);
    messages_sort(&b.receives);
    for (uint32_t p = 0; done && p < world->dump_count; p++)
        add_waits(&b, p);
    if (waits->stalled_count > 0)
        qsort(waits->stalled, waits->stalled_count, sizeof *waits->stalled, compare_stalled);
    done = done && !b.no_memory && !b.sends.no_memory && !b.receives.no_memory && graph_release(&waits->graph);
    free(b.members_of);
    free(b.index);
    free(b.sends.items);
    free(b.receives.items);
    return done;
}

void blockage_free(struct blockage *waits) {
    graph_free(&waits->graph);
    free(waits->parties);
    free(waits->items);
    free(waits->stalled);
    *waits = (struct blockage){0};
}
