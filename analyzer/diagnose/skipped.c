/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: weighing the collectives of a circle against each other and against its messages.
 * Must not live here: finding circles, verdicts.
 */
#include "analyzer/diagnose/skipped.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/diagnose/unmatched_messages.h"
#include "analyzer/load/rows.h"
#include "analyzer/wait_for_graph/slots.h"

enum { RECORDS_LOOKED_AT = 4096 }; /* newest of a lane, as of messages (pending_messages.c) */

/* ---- who went on ----------------------------------------------------------------------------- */

static bool is_collective(const struct record *record) {
    return (record->kind == RECORD_CALL || record->kind == RECORD_POST) && record->flags & FLAG_COLLECTIVE;
}

/* Whether it is a collective that the other party has come to as well. */
static bool is_common(const struct world *world, uint32_t party, const struct record *record, uint32_t other) {
    const struct shared_communicator *communicator =
        is_collective(record) ? world_communicator(world, party, record->comm) : NULL;
    const struct membership *member = communicator ? world_membership(communicator, other) : NULL;
    return member && record->seq != SEQ_NONE && membership_enqueued(world, member) > record->seq;
}

/* Whether a lane has calls that wait for others, ended since the newest collective that the other party came to, too.
 */
static bool lane_has_ended_some(const struct world *world, uint32_t party, uint32_t lane, uint32_t other) {
    const struct dump *dump = world->parties[party].dump;
    const struct dump_lane *l = &dump->lanes[lane];
    struct record_reader reader;
    record_reader_begin(&reader, dump, lane);
    for (uint64_t t = l->end_ticket; t > l->first_ticket; t--) {
        const struct record *record = record_reader_at(&reader, t - 1);
        const struct call_name *call = record && record->kind == RECORD_CALL ? dump_call(dump, record->call) : NULL;
        if (record && is_common(world, party, record, other))
            return false;
        if (call && call_waits_for_others(call))
            return true;
    }
    return false;
}

static bool has_ended_some(const struct world *world, uint32_t party, uint32_t other) {
    const struct dump *dump = world->parties[party].dump;
    for (uint32_t lane = 0; dump && lane < dump->lane_count; lane++)
        if (!dump_lane_is_device(&dump->lanes[lane]) && lane_has_ended_some(world, party, lane, other))
            return true;
    return false;
}

/* Whether a party has ended calls since the newest collective that it has in common with another one, which has not. */
static bool went_on(const struct world *world, uint32_t party, uint32_t other) {
    return has_ended_some(world, party, other) && !has_ended_some(world, other, party);
}

/* ---- a collective ---------------------------------------------------------------------------- */

/* The collective that a wait is about; NULL: it is about something else. */
static const struct stalled *stalled_of(const struct wait_for_graph *waits, const struct wait *wait) {
    for (size_t i = 0; wait->collective && i < waits->stalled_count; i++)
        if (wait_is_in(wait, &waits->stalled[i]))
            return &waits->stalled[i];
    return NULL;
}

/* Who has not come, and does not just wait for others who have not: in the end it is one of these who waits for those
 * that have. */
static bool find_skippers(struct skipped *skipped, const struct wait_for_graph *waits) {
    const struct shared_communicator *communicator = skipped->stalled->communicator;
    uint8_t *marks = skipped->by = calloc((size_t)waits->graph.node_count + 1, 1);
    if (!marks)
        return false;
    for (size_t i = 0; i < waits->count; i++)
        if (wait_is_in(&waits->items[i], skipped->stalled))
            marks[waits->items[i].party] |= AND_OR_GRAPH_GOAL;
    for (uint32_t i = 0; i < communicator->present_count; i++) {
        const struct membership *member = &communicator->present[i];
        if (stalled_misses(waits->world, skipped->stalled, member) &&
            stalled_needs(skipped->stalled, (uint32_t)member->rank))
            marks[member->party] |= AND_OR_GRAPH_BORDER;
    }
    if (!and_or_graph_mark_waiters(&waits->graph, marks))
        return false;
    for (uint32_t p = 0; p < waits->world->party_count; p++) {
        marks[p] = (marks[p] & AND_OR_GRAPH_BORDER) && (marks[p] & AND_OR_GRAPH_WAITS);
        skipped->count += marks[p];
    }
    return true;
}

/* `waiting`: one of the circle that waits in it. */
static bool weigh(struct skipped *skipped, const struct wait_for_graph *waits, const struct stalled *stalled,
                  uint32_t waiting) {
    *skipped = (struct skipped){.stalled = stalled};
    for (size_t i = 0; i < waits->count; i++)
        skipped->waiting += wait_is_in(&waits->items[i], stalled);
    if (!find_skippers(skipped, waits))
        return false;
    skipped->went_on = skipped->count > 0;
    for (uint32_t p = 0; skipped->went_on && p < waits->world->party_count; p++)
        skipped->went_on = !skipped->by[p] || went_on(waits->world, p, waiting);
    return true;
}

/* Fewer ranks err than many, and who went on with other calls left something out. 0: nothing tells. */
static int compare(const struct skipped *a, const struct skipped *b) {
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    return (int)b->went_on - (int)a->went_on;
}

/* ---- messages of a circle -------------------------------------------------------------------- */

/* What a rank of a circle waits for, as its records have it. */
struct awaited {
    uint32_t local, op; /* op: of the request, 0 none */
    int32_t peer, tag;  /* in the communicator; TAG_ANY */
    uint32_t direction; /* FLAG_SEND, FLAG_RECV */
};

static bool is_alike(const struct record *record, const struct awaited *awaited) {
    bool message = (record->kind == RECORD_CALL || record->kind == RECORD_POST) && !(record->flags & FLAG_COLLECTIVE);
    return message && record->comm == awaited->local && record->flags & awaited->direction &&
           record->peer == awaited->peer && (awaited->tag == TAG_ANY || record->tag == awaited->tag) &&
           (awaited->op == 0 || record->op != awaited->op);
}

/* What the records tell of messages like that: whether there were any, and whether one belonged before a collective
 * like the one that the others wait in, or came after the last of all collectives. */
struct earlier {
    bool any, before_it;
};

static void look_at_earlier(struct earlier *earlier, const struct dump *dump, uint32_t lane,
                            const struct awaited *awaited, const struct membership *me, const struct stalled *stalled) {
    const struct dump_lane *l = &dump->lanes[lane];
    struct record_reader reader;
    bool next_is_alike = true; /* the collective that came next */
    record_reader_begin(&reader, dump, lane);
    for (uint64_t t = l->end_ticket; t > l->first_ticket && l->end_ticket - t < RECORDS_LOOKED_AT; t--) {
        const struct record *record = record_reader_at(&reader, t - 1);
        const struct call_name *call = record ? dump_call(dump, record->call) : NULL;
        if (call && is_collective(record)) {
            next_is_alike = record->comm == me->local && strcmp(call->name, stalled->call->name) == 0;
        } else if (call && is_alike(record, awaited)) {
            earlier->any = true;
            earlier->before_it |= next_is_alike;
        }
    }
}

/* Whether the program has that message behind other collectives, and never right before one like the one that it would
 * be missing before. */
static bool belongs_elsewhere(const struct wait_for_graph *waits, uint32_t party, const struct awaited *awaited,
                              const struct stalled *stalled) {
    const struct dump *dump = waits->world->parties[party].dump;
    const struct membership *me = world_membership(stalled->communicator, party);
    struct earlier earlier = {false, false};
    for (uint32_t lane = 0; me && lane < dump->lane_count; lane++)
        if (!dump_lane_is_device(&dump->lanes[lane]))
            look_at_earlier(&earlier, dump, lane, awaited, me, stalled);
    return earlier.any && !earlier.before_it;
}

/* The same of a request that has to do with the other party. */
static bool request_belongs_elsewhere(const struct wait_for_graph *waits, const struct wait *wait, uint32_t other,
                                      const struct stalled *stalled) {
    const struct dump *dump = waits->world->parties[wait->party].dump;
    for (uint32_t i = 0; i < dump->pending_count; i++) {
        struct pending pending;
        if (!pending_read(dump, &dump->pending[i], &pending) || pending.flags & FLAG_COLLECTIVE ||
            world_peer(waits->world, wait->party, pending.comm, pending.peer) != other)
            continue;
        const struct awaited awaited = {pending.comm, pending.op, pending.peer, pending.tag,
                                        pending.flags & (FLAG_SEND | FLAG_RECV)};
        if (belongs_elsewhere(waits, wait->party, &awaited, stalled))
            return true;
    }
    return false;
}

/* The same of whatever message, with the other party, a wait is about. */
static bool wait_belongs_elsewhere(const struct wait_for_graph *waits, const struct wait *wait, uint32_t other,
                                   const struct stalled *stalled) {
    const struct membership *me = wait->communicator ? world_membership(wait->communicator, wait->party) : NULL;
    enum call_class call_class = wait->call->call_class;
    if (call_class == CLASS_WAIT || call_class == CLASS_TEST)
        return request_belongs_elsewhere(waits, wait, other, stalled);
    bool receives = call_class == CLASS_RECV || call_class == CLASS_PROBE, both = call_class == CLASS_SENDRECV;
    bool takes = both && me && world_peer(waits->world, wait->party, me->local, wait->source) == other;
    if (!me || (!receives && !both && call_class != CLASS_SEND))
        return false;
    const struct awaited awaited = {.local = me->local,
                                    .peer = takes ? wait->source : wait->peer,
                                    .tag = takes ? TAG_ANY : wait->tag,
                                    .direction = receives || takes ? FLAG_RECV : FLAG_SEND};
    return belongs_elsewhere(waits, wait->party, &awaited, stalled);
}

static bool is_meant_for(const struct unmatched_messages *unmatched, uint32_t party) {
    for (size_t i = 0; i < unmatched->count; i++)
        if (unmatched->items[i].wanted.party == party)
            return true;
    return false;
}

/* Whether what a rank waits for in the circle, with the next one, may be what it is all about: that one went on without
 * it, another message was sent that may have been meant, or it may be missing before the collective. */
static bool may_be_to_blame(const struct wait_for_graph *waits, const struct skipped *skipped, const struct wait *wait,
                            uint32_t other, const struct unmatched_messages *unmatched) {
    if (is_meant_for(unmatched, wait->party) || went_on(waits->world, other, wait->party))
        return true;
    return skipped->by[wait->party] && !wait_belongs_elsewhere(waits, wait, other, skipped->stalled);
}

/* A message that nobody sends makes a circle as well as a collective that somebody leaves out does. */
static bool weigh_messages(struct skipped *skipped, const struct wait_for_graph *waits, const uint32_t *cycle,
                           size_t count) {
    struct unmatched_messages unmatched;
    bool done = unmatched_messages_find(&unmatched, waits), doubtful = skipped->waiting <= skipped->count;
    for (size_t i = 0; done && i < count && !doubtful; i++) {
        const struct wait *wait = &waits->items[cycle[i]];
        uint32_t other = waits->items[cycle[(i + 1) % count]].party;
        doubtful = !stalled_of(waits, wait) && may_be_to_blame(waits, skipped, wait, other, &unmatched);
    }
    if (doubtful)
        skipped->stalled = NULL;
    unmatched_messages_free(&unmatched);
    return done;
}

/* ---- together -------------------------------------------------------------------------------- */

void skipped_free(struct skipped *skipped) {
    free(skipped->by);
    *skipped = (struct skipped){0};
}

/* Takes `next` where it is better. *tie: it is as good. */
static void take_better(struct skipped *best, struct skipped *next, bool *tie) {
    int order = best->stalled ? compare(next, best) : -1;
    *tie = order == 0 || (*tie && order > 0);
    if (order < 0) {
        struct skipped worse = *best;
        *best = *next;
        *next = worse;
    }
    skipped_free(next);
}

bool skipped_find(struct skipped *skipped, const struct wait_for_graph *waits, const uint32_t *cycle, size_t count) {
    bool done = true, tie = false, messages = false;
    *skipped = (struct skipped){0};
    for (size_t i = 0; i < count; i++) /* GPUs go on with other streams */
        if (waits->items[cycle[i]].device)
            return true;
    for (size_t i = 0; done && i < count; i++) {
        const struct stalled *stalled = stalled_of(waits, &waits->items[cycle[i]]);
        struct skipped next;
        messages |= !stalled;
        if (!stalled || stalled == skipped->stalled)
            continue;
        done = weigh(&next, waits, stalled, waits->items[cycle[i]].party);
        take_better(skipped, &next, &tie);
    }
    if (done && messages && skipped->stalled)
        done = weigh_messages(skipped, waits, cycle, count);
    if (tie || skipped->count == 0)
        skipped->stalled = NULL;
    return done;
}
