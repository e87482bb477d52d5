/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives that are waited in.
 * Lives here: who has come, who is missing, whom a member waits for.
 * Must not live here: messages, GPU work, verdicts.
 */
#include "analyzer/base/grow.h"
#include "analyzer/load/rows.h"
#include "analyzer/wait_for_graph/graph_build.h"

#include <stdlib.h>

/* Whether the member's graphs ran no more than that, and its GPU is through with them. Where it has called more outside
 * of graphs than others have, it may have called this there. */
static bool misses_replay(const struct world *world, const struct stalled *stalled, const struct membership *member) {
    struct captured_progress progress = captured_progress_read(world->parties[member->party].dump, member->local);
    return progress.known && !progress.running && progress.collectives <= stalled->seq &&
           membership_enqueued(world, member) <= stalled->called_least;
}

bool stalled_misses(const struct world *world, const struct stalled *stalled, const struct membership *member) {
    if (stalled->replayed)
        return misses_replay(world, stalled, member);
    if (stalled->device) {
        struct progress progress;
        return !membership_progress(world, member, &progress) || progress.started <= stalled->seq;
    }
    if (membership_enqueued(world, member) <= stalled->seq)
        return true;
    return stalled->started && membership_starts(world, member, stalled->seq) <= stalled->start;
}

bool wait_is_in(const struct wait *wait, const struct stalled *stalled) {
    return wait->collective && wait->communicator == stalled->communicator && wait->seq == stalled->seq &&
           wait->replayed == stalled->replayed && wait->started == stalled->started &&
           (!wait->started || (uint32_t)wait->tag == stalled->start);
}

bool stalled_needs(const struct stalled *stalled, uint32_t rank) {
    return !stalled->needed || (rank < stalled->communicator->side_size[0] && stalled->needed[rank]);
}

bool stalled_expects(const struct stalled *stalled, unsigned side, uint32_t rank) {
    return !stalled->rooted || side != stalled->root_side || (int32_t)rank == stalled->root_rank;
}

/* Somebody who has not come. */
static void add_missing(struct builder *b, struct stalled *stalled, unsigned side, uint32_t party) {
    struct and_or_graph *graph = &b->waits->graph;
    if (stalled->missing++ == 0) {
        stalled->all = and_or_graph_node(graph, false);
        stalled->any = and_or_graph_node(graph, true);
    }
    bool inter = stalled->communicator->kind == COMMUNICATOR_INTER;
    if (inter && stalled->all_of[side] == AND_OR_GRAPH_NO_NODE)
        stalled->all_of[side] = and_or_graph_node(graph, false);
    stalled->unknown += party == NOBODY;
    uint32_t node = party == NOBODY ? b->free_node : party;
    and_or_graph_wait(graph, stalled->all, node);
    and_or_graph_wait(graph, stalled->any, node);
    if (inter)
        and_or_graph_wait(graph, stalled->all_of[side], node);
}

/* Marks who has come, by side and rank, and makes nodes for those who have not. */
static void find_missing_members(struct builder *b, struct stalled *stalled) {
    struct shared_communicator *communicator = stalled->communicator;
    for (unsigned side = 0; side < 2; side++) {
        if (!world_may_look_at(b->world, communicator->side_size[side]))
            return;
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

static bool is_among_neighbours(const struct shared_communicator *communicator, const struct operation *o) {
    return o && o->call->flow == FLOW_NEIGHBOURS && communicator->kind == COMMUNICATOR_INTRA;
}

/* Who is missing among neighbours is found wait by wait. */
static void begin_missing(struct builder *b, struct stalled *stalled, const struct operation *o) {
    uint32_t size = stalled->communicator->side_size[0];
    if (!is_among_neighbours(stalled->communicator, o))
        find_missing_members(b, stalled);
    else if (world_may_look_at(b->world, size) && !(stalled->needed = calloc((size_t)size + 1, 1)))
        b->no_memory = true;
}

struct stalled_key {
    uint64_t communicator; /* its address */
    uint32_t seq;
    uint32_t kind;
    uint64_t start;
};

struct stalled_number {
    struct stalled_key key;
    size_t number; /* index into waits->stalled + 1; 0: new */
};

HASH_TABLE_OF(stalled_numbers, struct stalled_number, struct stalled_key);

/* Both what the root passes and what the others name tells which of the groups it is in. */
static void find_root(struct stalled *stalled, const struct operation *o, const struct membership *me) {
    bool root = o->flags & FLAG_ROOT;
    if (!me || (o->call->flow != FLOW_FROM_ROOT && o->call->flow != FLOW_TO_ROOT) || (!root && o->peer < 0))
        return;
    stalled->rooted = true;
    stalled->root_side = root ? me->side : me->side == 0;
    stalled->root_rank = root ? me->rank : o->peer;
}

/* The one that is as `wanted` says, made as a copy of that where there is none. */
static struct stalled *find_alike(struct builder *b, const struct stalled *wanted, const struct operation *o) {
    struct wait_for_graph *waits = b->waits;
    enum { OF_CALLS, OF_STARTS, OF_REPLAYS };
    uint32_t kind = wanted->replayed ? OF_REPLAYS : wanted->started ? OF_STARTS : OF_CALLS;
    struct stalled_key key = {(uintptr_t)wanted->communicator, wanted->seq, kind, wanted->start};
    struct stalled_number *known = stalled_numbers_add(&b->stalled_numbers, &key);
    if (known && known->number > 0)
        return &waits->stalled[known->number - 1];
    if (!known || !grow_list(waits->stalled, waits->stalled_count)) {
        b->no_memory = true;
        return NULL;
    }
    struct stalled *stalled = &waits->stalled[waits->stalled_count++];
    *stalled = *wanted;
    stalled->all = stalled->any = stalled->all_of[0] = stalled->all_of[1] = AND_OR_GRAPH_NO_NODE;
    if (wanted->communicator->kind == COMMUNICATOR_INTER && o)
        find_root(stalled, o, world_membership(wanted->communicator, o->party));
    known->number = waits->stalled_count;
    begin_missing(b, stalled, o);
    return stalled;
}

struct stalled *find_stalled(struct builder *b, struct shared_communicator *communicator, uint32_t seq,
                             const struct call_name *call, bool device, const struct operation *o) {
    bool started = o && o->flags & FLAG_STARTED;
    const struct stalled wanted = {.communicator = communicator,
                                   .seq = seq,
                                   .started = started,
                                   .start = started ? (uint32_t)o->tag : 0,
                                   .call = call,
                                   .device = device};
    return find_alike(b, &wanted, o);
}

struct stalled *find_stalled_replay(struct builder *b, struct shared_communicator *communicator, uint32_t seq,
                                    const struct call_name *call) {
    struct stalled wanted = {.communicator = communicator,
                             .seq = seq,
                             .call = call,
                             .device = true,
                             .replayed = true,
                             .called_least = UINT64_MAX};
    for (uint32_t i = 0; i < communicator->present_count; i++) {
        uint64_t called = membership_enqueued(b->world, &communicator->present[i]);
        wanted.called_least = called < wanted.called_least ? called : wanted.called_least;
    }
    return find_alike(b, &wanted, NULL);
}

/* A group waits for the other one, or for the root there. What the library makes it wait for besides nobody knows. */
static uint32_t wait_between_groups(struct builder *b, const struct operation *o,
                                    const struct shared_communicator *communicator, const struct stalled *stalled) {
    const struct membership *me = world_membership(communicator, o->party);
    bool root = o->flags & FLAG_ROOT;
    bool everybody = o->call->flow == FLOW_ALL || o->call->flow == (root ? FLOW_TO_ROOT : FLOW_FROM_ROOT);
    uint32_t others = me ? stalled->all_of[me->side == 0] : AND_OR_GRAPH_NO_NODE;
    if (everybody && others != AND_OR_GRAPH_NO_NODE)
        return others;
    return o->maybe_over ? b->free_node : stalled->any;
}

/* The members with a dump are in the order of their ranks. */
static const struct membership *find_member(const struct shared_communicator *communicator, uint32_t rank) {
    uint32_t low = 0, high = communicator->present_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((uint32_t)communicator->present[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < communicator->present_count && (uint32_t)communicator->present[low].rank == rank;
    return found ? &communicator->present[low] : NULL;
}

/* Lets *node wait for a neighbour that has not come; makes it, of that kind, for the first. */
static void wait_for_neighbour(struct builder *b, struct stalled *stalled, uint32_t rank, uint32_t party, bool any,
                               uint32_t *node) {
    if (!stalled->needed[rank])
        add_missing(b, stalled, 0, party);
    stalled->needed[rank] = 1;
    if (*node == AND_OR_GRAPH_NO_NODE)
        *node = and_or_graph_node(&b->waits->graph, any);
    and_or_graph_wait(&b->waits->graph, *node, party == NOBODY ? b->free_node : party);
}

/* Whether the member takes from `rank` there, as far as anybody knows. */
static bool may_take_from(const struct world *world, const struct membership *member, uint32_t seq, uint32_t rank) {
    uint32_t ranks[NEIGHBOURS_MOST];
    size_t count = dump_neighbours_at(world->parties[member->party].dump, member->local, seq, ranks);
    for (size_t i = 0; count != SIZE_MAX && i < count; i++)
        if (ranks[i] == rank)
            return true;
    return count == SIZE_MAX;
}

/* Who has from everybody what it takes may wait for one that takes from it, as with a message too large to be buffered;
 * where its neighbours are not known, for anybody. */
static uint32_t wait_for_any_taker(struct builder *b, const struct operation *o, struct stalled *stalled,
                                   const uint32_t *members) {
    struct shared_communicator *communicator = stalled->communicator;
    const struct membership *me = world_membership(communicator, o->party);
    uint32_t node = AND_OR_GRAPH_NO_NODE;
    if (!me || o->maybe_over || !world_may_look_at(b->world, communicator->side_size[0]))
        return b->free_node;
    for (uint32_t rank = 0; rank < communicator->side_size[0]; rank++) {
        const struct membership *member = find_member(communicator, rank);
        if (member ? stalled_misses(b->world, stalled, member) &&
                         may_take_from(b->world, member, stalled->seq, (uint32_t)me->rank)
                   : true)
            wait_for_neighbour(b, stalled, rank, members[rank], true, &node);
    }
    return node == AND_OR_GRAPH_NO_NODE ? b->free_node : node;
}

/* It needs all that it takes from. */
static uint32_t wait_among_neighbours(struct builder *b, const struct operation *o, struct stalled *stalled) {
    struct shared_communicator *communicator = stalled->communicator;
    const uint32_t *members = world_members(b->world, communicator, 0);
    uint32_t ranks[NEIGHBOURS_MOST], node = AND_OR_GRAPH_NO_NODE;
    if (!members || !stalled->needed) /* others of its number called something else */
        return b->free_node;
    size_t count = dump_neighbours_at(b->world->parties[o->party].dump, o->local, o->seq, ranks);
    bool known = count != SIZE_MAX && world_may_look_at(b->world, (uint32_t)count);
    for (size_t i = 0; known && i < count; i++) {
        const struct membership *member = find_member(communicator, ranks[i]);
        if (!member || stalled_misses(b->world, stalled, member))
            wait_for_neighbour(b, stalled, ranks[i], members[ranks[i]], false, &node);
    }
    return node == AND_OR_GRAPH_NO_NODE ? wait_for_any_taker(b, o, stalled, members) : node;
}

static bool needs_everybody(const struct operation *o, const struct shared_communicator *communicator) {
    bool everybody = o->call->flow == FLOW_ALL || o->call->call_class == CLASS_COMMUNICATOR ||
                     (o->call->flow == FLOW_TO_ROOT && (o->flags & FLAG_ROOT));
    return everybody && communicator->kind != COMMUNICATOR_FILE && communicator->kind != COMMUNICATOR_WINDOW;
}

/* The root of a collective in which data flows from the root, where that has not come; NOBODY: it has, or is not known.
 */
static uint32_t missing_root(const struct builder *b, const struct operation *o,
                             const struct shared_communicator *communicator, const struct stalled *stalled) {
    if (o->call->flow != FLOW_FROM_ROOT || (o->flags & FLAG_ROOT) || o->peer < 0)
        return NOBODY;
    uint32_t from = world_peer(b->world, o->party, o->local, o->peer);
    for (uint32_t i = 0; from != NOBODY && i < communicator->present_count; i++)
        if (communicator->present[i].party == from && stalled_misses(b->world, stalled, &communicator->present[i]))
            return from;
    return from != NOBODY && !b->world->parties[from].dump ? from : NOBODY;
}

/* Nobody knows how a library passes data on: whoever sits in a rooted collective with its root there may wait for any
 * one of those missing, and all are needed only where everybody depends on everybody. */
uint32_t wait_in_collective(struct builder *b, const struct operation *o) {
    struct shared_communicator *communicator = world_communicator(b->world, o->party, o->local);
    if (!communicator || o->seq == SEQ_NONE)
        return b->free_node;
    bool bystander = communicator->kind == COMMUNICATOR_INTER && o->peer == PEER_NULL;
    struct stalled *stalled = bystander ? NULL : find_stalled(b, communicator, o->seq, o->call, false, o);
    if (stalled && is_among_neighbours(communicator, o))
        return wait_among_neighbours(b, o, stalled);
    if (!stalled || stalled->missing == 0)
        return b->free_node;
    if (communicator->kind == COMMUNICATOR_INTER && o->call->call_class == CLASS_COLLECTIVE)
        return wait_between_groups(b, o, communicator, stalled);
    if (needs_everybody(o, communicator))
        return stalled->all;
    uint32_t root = missing_root(b, o, communicator, stalled);
    if (root != NOBODY)
        return root;
    return o->maybe_over ? b->free_node : stalled->any;
}
