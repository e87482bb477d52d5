/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that ask again and again, and do nothing else.
 * Lives here: when polling is waiting, and for what. Must not live here: what the operations need (wait_for_graph_*.c).
 */
#include "analyzer/diagnose/wait_for_graph_build.h"

#include "analyzer/diagnose/slots.h"

enum {
    OWN_WORK_BELOW = 2, /* less than one part in so many of the time is own work: most of it passes in polls */
    RECORDS_MOST = 64,  /* a record holds seconds of polls */
};

/* What a thread did last, as long as it polled with one function: `polls` is the last record. */
struct last_polls {
    struct record polls;
    uint64_t began, own_ticks;
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

/* Whether the only thread that left records polls since then, and works less than it polls. */
static bool only_polls(const struct dump *dump, struct last_polls *last) {
    uint32_t threads = 0, polling = 0;
    *last = (struct last_polls){.own_ticks = 0};
    for (uint32_t i = 0; i < dump->lane_count && threads < 2; i++) {
        if (dump_lane_is_device(&dump->lanes[i]) || dump->lanes[i].end_ticket <= dump->lanes[i].first_ticket)
            continue;
        threads++;
        polling += read_polls(dump, i, last);
    }
    return threads == 1 && polling == 1 && last->polls.t1 > last->began &&
           last->own_ticks < (last->polls.t1 - last->began) / OWN_WORK_BELOW;
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
    if (!b->known->settled || !only_polls(dump, &last))
        return;
    const struct call_name *call = dump_call(dump, last.polls.call);
    struct wait *added = call && call_only_asks(call) ? add_wait(b, party) : NULL;
    if (!added)
        return;
    struct wait wait = *added;
    wait.call = call;
    wait.stack = last.polls.stack;
    wait.enter = last.began;
    wait.node = wait_of_polls(b, party, &last.polls, &wait);
    b->waits->items[b->waits->count - 1] = wait;
    state->doing = DOING_BLOCKED;
}
