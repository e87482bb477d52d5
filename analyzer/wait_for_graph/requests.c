/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that are waited for, in a Wait or by asking again and again.
 * Lives here: which pending operations a Wait is about, and what of them it needs; when polling is waiting.
 * Must not live here: the operations themselves (messages.c, collectives.c).
 */
#include "analyzer/wait_for_graph/graph_build.h"

#include "analyzer/load/rows.h"
#include "analyzer/wait_for_graph/slots.h"
#include "analyzer/wait_for_graph/standing_limits.h"

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

/* A wait for one operation is about that. */
static void describe(struct builder *b, uint32_t party, const struct pending *p, struct wait *wait) {
    wait->communicator = world_communicator(b->world, party, p->comm);
    wait->collective = (p->flags & FLAG_COLLECTIVE) != 0;
    wait->started = wait->collective && (p->flags & FLAG_STARTED);
    wait->seq = p->seq;
    wait->peer = p->peer;
    wait->peer_party = world_peer(b->world, party, p->comm, p->peer);
    wait->tag = p->tag;
    wait->bytes = p->bytes;
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
        if (list.all == 1)
            describe(b, party, p, wait);
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
        describe(b, party, p, wait);
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

/* ---- polls ----------------------------------------------------------------------------------- */

enum {
    OWN_WORK_BELOW = 2, /* less than one part in so many of the time is own work: most of it passes in polls */
    RECORDS_MOST = 64,  /* a record holds seconds of polls */
};

/* What a thread did last, as long as it polled with one function: `polls` is the last record. */
struct last_polls {
    struct record polls;
    uint32_t lane;
    uint64_t began, own_ticks;
    int64_t usual_ns; /* the second longest time that it did so before; -1: it did so less than twice */
};

static bool read_polls(const struct dump *dump, uint32_t lane, struct last_polls *last) {
    const struct dump_lane *l = &dump->lanes[lane];
    struct record_reader reader;
    uint32_t records = 0;
    record_reader_begin(&reader, dump, lane);
    for (uint64_t t = l->end_ticket; t > l->first_ticket && records < RECORDS_MOST; t--, records++) {
        const struct record *record = record_reader_at(&reader, t - 1);
        if (!record || record->kind != RECORD_POLL || (records > 0 && record->call != last->polls.call))
            break;
        last->polls = records == 0 ? *record : last->polls;
        last->began = record->t0;
        last->own_ticks += record->seq;
    }
    return records > 0;
}

/* Whether the only thread that left records polls since then. */
static bool only_polls(const struct dump *dump, struct last_polls *last) {
    uint32_t threads = 0, polling = 0;
    *last = (struct last_polls){.own_ticks = 0};
    for (uint32_t i = 0; i < dump->lane_count && threads < 2; i++) {
        if (dump_lane_is_device(&dump->lanes[i]) || dump->lanes[i].end_ticket <= dump->lanes[i].first_ticket)
            continue;
        threads++;
        last->lane = i;
        polling += read_polls(dump, i, last);
    }
    return threads == 1 && polling == 1 && last->polls.t1 > last->began;
}

static int64_t usual_polls_ns(const struct dump *dump, const struct last_polls *last) {
    const struct dump_lane *l = &dump->lanes[last->lane];
    struct record_reader reader;
    uint64_t longest = 0, second = 0;
    record_reader_begin(&reader, dump, last->lane);
    for (uint64_t t = l->end_ticket; t > l->first_ticket; t--) {
        const struct record *record = record_reader_at(&reader, t - 1);
        if (!record || record->kind != RECORD_POLL || record->call != last->polls.call || record->t0 >= last->began)
            continue;
        uint64_t length = record->t1 > record->t0 ? record->t1 - record->t0 : 0;
        second = length > longest ? longest : length > second ? length : second;
        longest = length > longest ? length : longest;
    }
    return second > 0 ? dump_duration_ns(dump, second) : -1;
}

/* Up to when a process that is over may have polled: until the first one of the job ended, or until it was last seen to
 * live. */
static uint64_t end_of_polls(const struct builder *b, uint32_t party, const struct last_polls *last) {
    const struct party *p = &b->world->parties[party];
    bool death = b->known->first && b->known->first->known;
    struct moment end = death ? b->known->first->when : last_known_alive(p);
    int64_t here = moment_here(p->dump, &end);
    uint64_t ticks = here > 0 ? dump_ticks_at(p->dump, (uint64_t)here) : 0;
    return death || ticks > last->polls.t1 ? ticks : last->polls.t1;
}

/* Whether it waited that way: it works less than it polls. One look at a process that polls proves nothing; of one that
 * is over it counts that it polled for longer than it does at work, and did not leave off. */
static bool polls_are_waiting(const struct builder *b, uint32_t party, const struct last_polls *last) {
    const struct dump *dump = b->world->parties[party].dump;
    uint64_t end = b->known->settled ? last->polls.t1 : end_of_polls(b, party, last);
    if (end <= last->began || (!b->known->settled && b->waits->any_alive))
        return false;
    uint64_t length = end - last->began, away = end > last->polls.t1 ? end - last->polls.t1 : 0;
    if (last->own_ticks + away >= length / OWN_WORK_BELOW)
        return false;
    int64_t most = last->usual_ns < 0 ? STANDING_UNLIKE_NS : standing_most_ns(b->world, last->usual_ns, false);
    return b->known->settled || dump_duration_ns(dump, length) > most;
}

static uint32_t wait_of_polls(struct builder *b, uint32_t party, const struct record *polls, struct wait *wait) {
    if (wait->call->epoch != EPOCH_NONE) {
        wait->communicator = world_communicator(b->world, party, polls->comm);
        return wait_in_epoch(b, party, &(struct in_flight){.call = polls->call, .comm = polls->comm}, wait->call);
    }
    if (wait->call->call_class == CLASS_TEST)
        return wait_for_any_request(b, party, wait);
    const struct operation o = {.party = party,
                                .call = wait->call,
                                .local = polls->comm,
                                .seq = SEQ_NONE,
                                .peer = polls->peer,
                                .tag = polls->tag};
    wait->communicator = world_communicator(b->world, party, polls->comm);
    wait->peer = polls->peer;
    wait->tag = polls->tag;
    wait->peer_party = world_peer(b->world, party, polls->comm, polls->peer);
    return wait_for_message(b, &o);
}

void add_poll_wait(struct builder *b, uint32_t party) {
    const struct dump *dump = b->world->parties[party].dump;
    struct party_state *state = &b->waits->parties[party];
    struct last_polls last;
    if (!only_polls(dump, &last))
        return;
    last.usual_ns = usual_polls_ns(dump, &last);
    if (!polls_are_waiting(b, party, &last))
        return;
    const struct call_name *call = dump_call(dump, last.polls.call);
    struct wait *added = call && call_only_asks(call) ? add_wait(b, party) : NULL;
    if (!added)
        return;
    struct wait wait = *added;
    wait.call = call;
    wait.stack = last.polls.stack;
    wait.enter = last.began;
    wait.polled = true;
    wait.usual_ns = last.usual_ns;
    wait.node = wait_of_polls(b, party, &last.polls, &wait);
    b->waits->items[b->waits->count - 1] = wait;
    state->doing = DOING_BLOCKED;
}
