/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that are waited for.
 * Lives here: which pending operations a Wait is about, and what of them it needs.
 * Must not live here: the operations themselves (wait_for_graph_messages.c, wait_for_graph_collectives.c).
 */
#include "analyzer/diagnose/wait_for_graph_build.h"

#include "analyzer/diagnose/slots.h"
#include "analyzer/load/rows.h"

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
        struct pending copy;
        const struct pending *p = &copy;
        if (!pending_read(dump, &dump->pending[i], &copy))
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
    uint32_t node = and_or_graph_node(&b->waits->graph, any);
    size_t before = b->waits->graph.edge_count;
    wait->requests = told ? (uint32_t)slot->tag : 0;
    for (uint32_t i = 0; i < dump->pending_count; i++) {
        struct pending copy;
        const struct pending *p = &copy;
        if (!pending_read(dump, &dump->pending[i], &copy) ||
            (told && !(list.exact ? in_list(slot, p) : p->op == slot->op || p->op == slot->seq)))
            continue;
        struct operation o = pending_operation(dump, party, p);
        o.maybe_over = !any && list.inside > 1;
        and_or_graph_wait(&b->waits->graph, node, wait_for_operation(b, &o));
    }
    if (any && b->waits->graph.edge_count == before)
        and_or_graph_wait(&b->waits->graph, node, b->free_node);
    return node;
}

static uint32_t wait_for_some(struct builder *b, uint32_t party, const struct in_flight *slot, struct wait *wait) {
    const struct dump *dump = b->world->parties[party].dump;
    struct list list = look_at_list(dump, party, slot);
    uint32_t node = and_or_graph_node(&b->waits->graph, true);
    wait->requests = slot->tag > 0 && slot->seq != SEQ_NONE ? (uint32_t)slot->tag : 0;
    if (list.all == 0)
        and_or_graph_wait(&b->waits->graph, node, b->free_node);
    for (uint32_t i = 0; i < dump->pending_count; i++) {
        struct pending copy;
        const struct pending *p = &copy;
        if (!pending_read(dump, &dump->pending[i], &copy) || (list.exact && !in_list(slot, p)))
            continue;
        struct operation o = pending_operation(dump, party, p);
        and_or_graph_wait(&b->waits->graph, node, wait_for_operation(b, &o));
    }
    return node;
}

uint32_t wait_for_any_request(struct builder *b, uint32_t party, struct wait *wait) {
    return wait_for_some(b, party, &(struct in_flight){.seq = SEQ_NONE}, wait);
}

/* The one operation of a Wait; the wait then is about it. */
static uint32_t wait_for_one(struct builder *b, uint32_t party, const struct in_flight *slot, struct wait *wait) {
    const struct dump *dump = b->world->parties[party].dump;
    wait->requests = 1;
    for (uint32_t i = 0; slot->op && i < dump->pending_count; i++) {
        struct pending copy;
        const struct pending *p = &copy;
        if (!pending_read(dump, &dump->pending[i], &copy) || p->op != slot->op)
            continue;
        struct operation o = pending_operation(dump, party, p);
        wait->communicator = world_communicator(b->world, party, p->comm);
        wait->collective = (p->flags & FLAG_COLLECTIVE) != 0;
        wait->started = wait->collective && (p->flags & FLAG_STARTED);
        wait->seq = p->seq;
        wait->peer = p->peer;
        wait->peer_party = world_peer(b->world, party, p->comm, p->peer);
        wait->tag = p->tag;
        wait->bytes = p->bytes;
        return wait_for_operation(b, &o);
    }
    return b->free_node;
}

uint32_t wait_for_requests(struct builder *b, uint32_t party, const struct in_flight *slot, struct wait *wait) {
    if (call_takes_any(wait->call))
        return wait_for_some(b, party, slot, wait);
    return call_is_named(wait->call, "MPI_Wait") ? wait_for_one(b, party, slot, wait)
                                                 : wait_for_all(b, party, slot, wait);
}
