/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds the wait-for graph.
 * Lives here: what each process does, its waits put together to the graph.
 * Must not live here: the kinds of waits (wait_for_graph_*.c), verdicts.
 */
#include "analyzer/wait_for_graph/graph_build.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/wait_for_graph/deaths.h"
#include "analyzer/wait_for_graph/slots.h"

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
        uint32_t node = and_or_graph_node(&b->waits->graph, true);
        if (o->peer != PEER_NULL)
            and_or_graph_wait(&b->waits->graph, node, wait_for_receiver(b, &send));
        and_or_graph_wait(&b->waits->graph, node, told ? wait_for_message(b, &receive) : b->free_node);
        return node;
    }
    uint32_t node = and_or_graph_node(&b->waits->graph, false);
    and_or_graph_wait(&b->waits->graph, node, from);
    and_or_graph_wait(&b->waits->graph, node, to);
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
        return wait_for_requests(b, party, slot, wait);
    case CLASS_SEND:
        return wait_for_receiver(b, &o);
    case CLASS_RECV:
    case CLASS_PROBE:
        return wait_for_message(b, &o);
    case CLASS_SENDRECV:
        return wait_for_both(b, &o, wait);
    default:
        if (wait->call->epoch != EPOCH_NONE)
            return wait_in_epoch(b, party, slot, wait->call);
        if (call_is_named(wait->call, "MPI_Win_lock"))
            return wait_for_lock(b, party, slot, wait);
        return slot->flags & FLAG_COLLECTIVE ? wait_in_collective(b, &o) : wait_for_any_member(b, party, slot->comm);
    }
}

struct wait *add_wait(struct builder *b, uint32_t party) {
    struct wait_for_graph *waits = b->waits;
    if (!grow_list(waits->items, waits->count)) {
        b->no_memory = true;
        return NULL;
    }
    struct party_state *state = &waits->parties[party];
    if (state->wait_count++ == 0)
        state->first_wait = (uint32_t)waits->count;
    struct wait *wait = &waits->items[waits->count++];
    *wait = (struct wait){.party = party,
                          .peer_party = NOBODY,
                          .peer = PEER_NONE,
                          .source = PEER_NONE,
                          .tag = TAG_NONE,
                          .seq = SEQ_NONE,
                          .number = SEQ_NONE,
                          .perhaps = AND_OR_GRAPH_NO_NODE};
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

static enum gone gone_of(const struct builder *b, uint32_t p) {
    const struct party *party = &b->world->parties[p];
    uint32_t state = party->dump->header->state;
    if (has_finished(party->dump) || b->known->deaths_left_out)
        return GONE_NOT;
    if (state & STATE_ABORTING)
        return GONE_ABORTED;
    if (state & STATE_EXITED)
        return exit_is_a_consequence(b->world, p, b->known->first) ? GONE_NOT : GONE_EXITED;
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
        struct in_flight slot = slot_read(&dump->in_flight[i]);
        const struct call_name *call = slot_call(dump, &slot);
        if (slot.tid == 0)
            continue;
        if (!call) {
            free_threads++;
            if (slot.last_leave > state->since && !state->call)
                state->since = slot.last_leave;
        } else if (slot_can_block(call, &slot)) {
            blocked++;
        } else {
            free_threads++;
            state->call = call;
            state->stack = slot.stack;
            state->since = slot.enter;
            state->doing = call_is_named(call, "MPI_Finalize") ? DOING_FINALIZE
                           : call->call_class == CLASS_SETUP   ? DOING_INIT
                           : call_only_asks(call)              ? DOING_POLL
                                                               : DOING_CALL;
        }
    }
    if (blocked > 0 && (!together || free_threads == 0))
        state->doing = DOING_BLOCKED;
}

/* Launching a graph is no call, but a thread that does so is not away. */
static void note_newest_launch(struct party_state *state, const struct dump *dump) {
    for (uint32_t i = 0; state->doing == DOING_USER_CODE && i < dump->capture_count; i++) {
        const struct capture_row *row = &dump->captures[i];
        uint64_t launched_ns = __atomic_load_n(&row->used, __ATOMIC_ACQUIRE) ? row->launched_ns : 0;
        uint64_t launched = launched_ns ? dump_ticks_at(dump, launched_ns) : 0;
        state->since = launched > state->since ? launched : state->since;
    }
}

static void read_party(struct builder *b, uint32_t p) {
    const struct party *party = &b->world->parties[p];
    struct party_state *state = &b->waits->parties[p];
    if (party->dump && !party->unread)
        b->world->parties[p].outdated = is_outdated(b, p);
    if (!party->dump || party->unread || party->outdated) {
        state->doing = DOING_UNKNOWN;
        return;
    }
    state->stopped = party->process == PROCESS_STOPPED && !b->known->suspended;
    state->gone = gone_of(b, p);
    if (has_finished(party->dump))
        state->doing = DOING_FINISHED;
    else if (state->gone != GONE_NOT)
        state->doing = DOING_GONE;
    else
        read_threads(b, p);
    note_newest_launch(state, party->dump);
    if (state->doing == DOING_USER_CODE && !(party->dump->header->state & STATE_INITIALISED))
        state->doing = DOING_INIT;
    if (party->dump->header->state & STATE_FINALISING && state->doing != DOING_FINISHED && state->gone == GONE_NOT)
        state->doing = DOING_FINALIZE;
}

/* ---- all together ---------------------------------------------------------------------------- */

static void add_party_waits(struct builder *b, uint32_t p) {
    const struct dump *dump = b->world->parties[p].dump;
    struct party_state *state = &b->waits->parties[p];
    if (state->doing == DOING_FINISHED || state->doing == DOING_GONE || state->doing == DOING_FINALIZE ||
        (b->known->moving && b->known->moving[p]))
        return;
    for (uint32_t i = 0; i < dump->in_flight_count; i++) {
        struct in_flight slot = slot_read(&dump->in_flight[i]);
        const struct call_name *call = slot.tid ? slot_call(dump, &slot) : NULL;
        if (call && slot_can_block(call, &slot))
            add_slot_wait(b, p, &slot, call);
    }
    if (state->doing == DOING_USER_CODE || state->doing == DOING_POLL)
        add_poll_wait(b, p);
    bool in_nccl = state->doing == DOING_CALL && state->call->api == API_NCCL;
    bool may_launch = in_nccl || state->doing == DOING_USER_CODE;
    if (state->doing == DOING_USER_CODE) {
        add_device_waits(b, p);
        add_captured_waits(b, p);
    }
    if (may_launch)
        add_launched_waits(b, p);
    if (state->doing != DOING_BLOCKED || state->stopped || state->wait_count == 0)
        return;
    b->waits->graph.any[p] = true;
    for (uint32_t i = 0; i < state->wait_count; i++)
        and_or_graph_wait(&b->waits->graph, p, b->waits->items[state->first_wait + i].node);
}

static int compare_stalled(const void *a, const void *b) {
    const struct stalled *left = a, *right = b;
    if (left->communicator != right->communicator)
        return left->communicator < right->communicator ? -1 : 1;
    if (left->seq != right->seq)
        return left->seq < right->seq ? -1 : 1;
    if (left->started != right->started)
        return left->started ? 1 : -1;
    if (left->replayed != right->replayed)
        return left->replayed ? 1 : -1;
    return left->start < right->start ? -1 : left->start > right->start;
}

static bool begin(struct builder *b, struct wait_for_graph *waits, struct world *world) {
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
        and_or_graph_node(&waits->graph, false);
    b->free_node = and_or_graph_node(&waits->graph, false);
    return !waits->graph.no_memory;
}

bool wait_for_graph_build(struct wait_for_graph *waits, struct world *world,
                          const struct circumstances *circumstances) {
    *waits = (struct wait_for_graph){0};
    struct builder b = {.waits = waits, .world = world, .known = circumstances};
    bool done = begin(&b, waits, world);
    for (uint32_t p = 0; done && p < world->party_count; p++)
        read_party(&b, p);
    for (uint32_t p = 0; done && p < world->dump_count; p++)
        note_messages(&b, p);
    pending_messages_sort(&b.sends);
    pending_messages_sort(&b.receives);
    done = done && launched_messages_find(&b.launched, world);
    for (uint32_t p = 0; done && p < world->dump_count; p++)
        add_party_waits(&b, p);
    if (waits->stalled_count > 0)
        qsort(waits->stalled, waits->stalled_count, sizeof *waits->stalled, compare_stalled);
    done = done && !b.no_memory && !b.sends.no_memory && !b.receives.no_memory && and_or_graph_release(&waits->graph);
    free(b.members_of);
    hash_table_free(&b.stalled_numbers);
    free_reach(&b);
    free_captured(&b);
    launched_messages_free(&b.launched);
    free(b.sends.items);
    free(b.receives.items);
    return done;
}

void wait_for_graph_free(struct wait_for_graph *waits) {
    and_or_graph_free(&waits->graph);
    free(waits->parties);
    free(waits->items);
    for (size_t i = 0; i < waits->stalled_count; i++)
        free(waits->stalled[i].needed);
    free(waits->stalled);
    *waits = (struct wait_for_graph){0};
}
