/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/diagnose/unmatched_messages.h"

#include <limits.h>
#include <stdlib.h>

#include "analyzer/base/grow.h"
#include "analyzer/load/rows.h"
#include "analyzer/wait_for_graph/pending_messages.h"
#include "analyzer/wait_for_graph/slots.h"

enum {
    SENDS_LOOKED_AT = 1024, /* newest records of a ring */
    WANTED_MOST = 256,      /* receives that are waited for */
    SENT_MOST = 4096        /* messages to those who wait for some */
};
#define RECORDS_LOOKED_AT_MOST (UINT64_C(1) << 24) /* of all rings together */

struct sides {
    struct message_side *items;
    size_t count;
    bool no_memory;
};

struct search {
    struct world *world;
    const struct wait_for_graph *waits;
    struct sides wanted, sent;
    uint8_t *waiting; /* per party: it waits for a message */
    uint64_t looked;
};

static void add_side(struct sides *sides, size_t most, struct message_side side) {
    if (!side.communicator || !side.call || sides->count >= most)
        return;
    if (!grow_list(sides->items, sides->count)) {
        sides->no_memory = true;
        return;
    }
    sides->items[sides->count++] = side;
}

/* ---- receives that are waited for ------------------------------------------------------------ */

static struct message_side side_of_slot(struct search *s, uint32_t party, const struct in_flight *slot,
                                        const struct call_name *call) {
    return (struct message_side){.party = party,
                                 .peer_party = world_peer(s->world, party, slot->comm, slot->peer),
                                 .communicator = world_communicator(s->world, party, slot->comm),
                                 .local = slot->comm,
                                 .call = call,
                                 .tag = slot->tag,
                                 .seq = slot->seq,
                                 .bytes = slot->bytes,
                                 .stack = slot->stack,
                                 .ticks = slot->enter};
}

static struct message_side side_of_pending(struct search *s, uint32_t party, const struct pending *p) {
    return (struct message_side){.party = party,
                                 .peer_party = world_peer(s->world, party, p->comm, p->peer),
                                 .communicator = world_communicator(s->world, party, p->comm),
                                 .local = p->comm,
                                 .call = dump_call(s->world->parties[party].dump, p->call),
                                 .tag = p->tag,
                                 .seq = p->seq,
                                 .bytes = p->bytes,
                                 .stack = p->stack,
                                 .ticks = p->t0};
}

/* A source that cannot be told is not one that is taken from anybody. */
static bool source_is_known(int32_t peer, const struct message_side *side) {
    return peer == PEER_ANY || side->peer_party != NOBODY;
}

static void add_wanted(struct search *s, int32_t peer, struct message_side side) {
    if (source_is_known(peer, &side))
        add_side(&s->wanted, WANTED_MOST, side);
}

/* Of a party that is blocked: the receive or probe it is in, or all of its receives where it waits for requests. */
static void find_wanted(struct search *s, uint32_t party) {
    const struct dump *dump = s->world->parties[party].dump;
    bool waits = false;
    for (uint32_t i = 0; i < dump->in_flight_count; i++) {
        struct in_flight slot = slot_read(&dump->in_flight[i]);
        const struct call_name *call = slot.tid ? slot_call(dump, &slot) : NULL;
        if (!call || !slot_can_block(call, &slot))
            continue;
        waits |= call->call_class == CLASS_WAIT;
        if (call->call_class == CLASS_RECV || call->call_class == CLASS_PROBE)
            add_wanted(s, slot.peer, side_of_slot(s, party, &slot, call));
    }
    for (uint32_t i = 0; waits && i < dump->pending_count; i++) {
        struct pending pending;
        if (pending_read(dump, &dump->pending[i], &pending) && pending.flags & FLAG_RECV &&
            !(pending.flags & (FLAG_COLLECTIVE | FLAG_SEND)))
            add_wanted(s, pending.peer, side_of_pending(s, party, &pending));
    }
}

/* What a GPU sits in; NCCL's messages have no tags. */
static struct message_side side_of_wait(const struct wait *wait) {
    const struct membership *member = world_membership(wait->communicator, wait->party);
    return (struct message_side){.party = wait->party,
                                 .peer_party = wait->peer_party,
                                 .communicator = member ? wait->communicator : NULL,
                                 .local = member ? member->local : 0,
                                 .call = wait->call,
                                 .tag = TAG_NONE,
                                 .seq = wait->seq,
                                 .bytes = wait->bytes,
                                 .stack = wait->stack,
                                 .ticks = wait->enter};
}

static bool is_on_gpu(const struct wait *wait, enum call_class call_class) {
    return wait->device && !wait->collective && wait->communicator && wait->call->call_class == call_class;
}

/* Receives that GPUs are in, and that were begun by nobody's send. */
static void find_wanted_on_gpus(struct search *s) {
    for (size_t i = 0; i < s->waits->count; i++)
        if (is_on_gpu(&s->waits->items[i], CLASS_RECV) && s->waits->items[i].uncalled)
            add_wanted(s, s->waits->items[i].peer, side_of_wait(&s->waits->items[i]));
}

/* ---- messages that were sent ----------------------------------------------------------------- */

static bool goes_to_waiting(const struct search *s, const struct message_side *side) {
    return side->peer_party != NOBODY && s->waiting[side->peer_party];
}

static void add_sent(struct search *s, struct message_side side) {
    if (goes_to_waiting(s, &side))
        add_side(&s->sent, SENT_MOST, side);
}

/* Where the receiver's dump shows that it got the message, it is none; nor where that cannot be told. */
static void add_recorded_send(struct search *s, uint32_t party, const struct record *r) {
    struct message_side side = {.party = party,
                                .peer_party = world_peer(s->world, party, r->comm, r->peer),
                                .communicator = world_communicator(s->world, party, r->comm),
                                .local = r->comm,
                                .call = dump_call(s->world->parties[party].dump, r->call),
                                .tag = r->tag,
                                .seq = r->seq,
                                .bytes = r->bytes,
                                .stack = r->stack,
                                .ticks = r->t0};
    if (!side.communicator || !goes_to_waiting(s, &side))
        return;
    const struct membership *me = world_membership(side.communicator, party);
    const struct membership *receiver = world_membership(side.communicator, side.peer_party);
    if (me && receiver && message_was_left(s->world, me, receiver, r))
        add_side(&s->sent, SENT_MOST, side);
}

/* A GPU that has come to a send stays in it until it is received, and whether that was called is known by counts. */
static void find_sent_by_gpus(struct search *s) {
    for (size_t i = 0; i < s->waits->count; i++)
        if (is_on_gpu(&s->waits->items[i], CLASS_SEND) && s->waits->items[i].uncalled)
            add_sent(s, side_of_wait(&s->waits->items[i]));
}

static bool is_send(const struct dump *dump, const struct record *r) {
    const struct call_name *call = dump_call(dump, r->call);
    return (r->kind == RECORD_CALL || r->kind == RECORD_POST) && r->flags & FLAG_SEND &&
           !(r->flags & (FLAG_COLLECTIVE | FLAG_RECV | FLAG_FAILED)) && call && call->api != API_NCCL;
}

static void find_recorded_sends(struct search *s, uint32_t party) {
    const struct dump *dump = s->world->parties[party].dump;
    struct record_reader reader;
    for (uint32_t lane = 0; lane < dump->lane_count; lane++) {
        const struct dump_lane *l = &dump->lanes[lane];
        record_reader_begin(&reader, dump, lane);
        for (uint64_t t = l->end_ticket, n = 0; t > l->first_ticket && n < SENDS_LOOKED_AT; t--, n++) {
            const struct record *r = record_reader_at(&reader, t - 1);
            if (++s->looked > RECORDS_LOOKED_AT_MOST)
                return;
            if (r && is_send(dump, r))
                add_recorded_send(s, party, r);
        }
    }
}

static void find_sent(struct search *s, uint32_t party) {
    const struct dump *dump = s->world->parties[party].dump;
    for (uint32_t i = 0; i < dump->in_flight_count; i++) {
        struct in_flight slot = slot_read(&dump->in_flight[i]);
        const struct call_name *call = slot.tid ? slot_call(dump, &slot) : NULL;
        if (call && call->call_class == CLASS_SEND && !call->nonblocking)
            add_sent(s, side_of_slot(s, party, &slot, call));
    }
    for (uint32_t i = 0; i < dump->pending_count; i++) {
        struct pending pending;
        if (pending_read(dump, &dump->pending[i], &pending) && pending.flags & FLAG_SEND &&
            !(pending.flags & (FLAG_COLLECTIVE | FLAG_RECV)))
            add_sent(s, side_of_pending(s, party, &pending));
    }
    find_recorded_sends(s, party);
}

/* ---- pairs ----------------------------------------------------------------------------------- */

/* In how many points they differ; *which is the last of them. */
static unsigned differences(const struct message_side *wanted, const struct message_side *sent,
                            enum message_difference *which) {
    unsigned count = 0;
    if (wanted->peer_party != NOBODY && wanted->peer_party != sent->party) {
        *which = DIFFERENT_SOURCE;
        count++;
    }
    if (wanted->communicator != sent->communicator) {
        *which = DIFFERENT_COMMUNICATOR;
        count++;
    }
    if (wanted->tag != TAG_ANY && wanted->tag != sent->tag) {
        *which = DIFFERENT_TAG;
        count++;
    }
    return count;
}

/* Marks the messages that some receive waits for, which then will have them. */
static uint8_t *find_those_that_come(const struct search *s) {
    enum message_difference which;
    uint8_t *come = calloc(s->sent.count + 1, sizeof *come);
    for (size_t i = 0; come && i < s->sent.count; i++)
        for (size_t w = 0; w < s->wanted.count && !come[i]; w++)
            come[i] = s->wanted.items[w].party == s->sent.items[i].peer_party &&
                      differences(&s->wanted.items[w], &s->sent.items[i], &which) == 0;
    return come;
}

static bool is_better(const struct unmatched_message *old, const struct message_side *sent,
                      enum message_difference which) {
    if (!old->sent.call || which != old->difference)
        return !old->sent.call || which < old->difference;
    return sent->party == old->sent.party ? sent->ticks > old->sent.ticks : sent->party < old->sent.party;
}

/* The message that may have been meant for a receive; `sent.call` NULL: there is none, or what is wanted comes. */
static struct unmatched_message find_partner(const struct search *s, const struct message_side *wanted,
                                             const uint8_t *come) {
    struct unmatched_message best = {.wanted = *wanted};
    for (size_t i = 0; i < s->sent.count; i++) {
        const struct message_side *sent = &s->sent.items[i];
        enum message_difference which = DIFFERENT_TAG;
        unsigned count = sent->peer_party == wanted->party ? differences(wanted, sent, &which) : UINT_MAX;
        if (count == 0)
            return (struct unmatched_message){0};
        if (count == 1 && !come[i] && is_better(&best, sent, which)) {
            best.sent = *sent;
            best.difference = which;
        }
    }
    return best;
}

static bool find_pairs(struct unmatched_messages *unmatched, const struct search *s) {
    uint8_t *come = find_those_that_come(s);
    bool done = come != NULL;
    for (size_t w = 0; done && w < s->wanted.count && unmatched->count < UNMATCHED_MOST; w++) {
        struct unmatched_message pair = find_partner(s, &s->wanted.items[w], come);
        if (!pair.sent.call)
            continue;
        done = grow_list(unmatched->items, unmatched->count);
        if (done)
            unmatched->items[unmatched->count++] = pair;
    }
    free(come);
    return done;
}

bool unmatched_messages_find(struct unmatched_messages *unmatched, const struct wait_for_graph *waits) {
    struct search s = {.world = waits->world, .waits = waits};
    *unmatched = (struct unmatched_messages){0};
    s.waiting = calloc((size_t)s.world->party_count + 1, sizeof *s.waiting);
    if (!s.waiting)
        return false;
    for (uint32_t p = 0; p < s.world->dump_count; p++)
        if (waits->parties[p].doing == DOING_BLOCKED)
            find_wanted(&s, p);
    find_wanted_on_gpus(&s);
    for (size_t i = 0; i < s.wanted.count; i++)
        s.waiting[s.wanted.items[i].party] = 1;
    for (uint32_t p = 0; s.wanted.count > 0 && p < s.world->dump_count; p++)
        find_sent(&s, p);
    find_sent_by_gpus(&s);
    bool done = !s.wanted.no_memory && !s.sent.no_memory && find_pairs(unmatched, &s);
    free(s.wanted.items);
    free(s.sent.items);
    free(s.waiting);
    return done;
}

void unmatched_messages_free(struct unmatched_messages *unmatched) {
    free(unmatched->items);
    *unmatched = (struct unmatched_messages){0};
}
