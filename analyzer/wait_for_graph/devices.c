/* SPDX-License-Identifier: Apache-2.0
 *
 * GPU work that does not end.
 * Lives here: which collective, or which messages, a GPU sits in.
 * Must not live here: what lies on streams besides: nobody sees that.
 */
#include "analyzer/wait_for_graph/graph_build.h"

#include <stdlib.h>

#include "analyzer/wait_for_graph/moments.h"
#include "analyzer/wait_for_graph/signatures.h"

enum { ENDED_LOOKED_AT = 8 }; /* collectives of one member: each is looked for in its records */

/* How far the GPUs of a communicator's members came. */
struct reach {
    bool known;
    uint64_t least_enqueued, most_completed;
    uint32_t most_of; /* whose that is: an index of `present` */
};

/* NULL when memory is short. */
static const struct reach *reach_of(struct builder *b, const struct shared_communicator *communicator) {
    if (!b->reach && !(b->reach = calloc((size_t)b->world->communicator_count + 1, sizeof *b->reach))) {
        b->no_memory = true;
        return NULL;
    }
    struct reach *reach = &b->reach[communicator - b->world->communicators];
    if (reach->known)
        return reach;
    *reach = (struct reach){.known = true, .least_enqueued = UINT64_MAX};
    for (uint32_t i = 0; i < communicator->present_count; i++) {
        struct progress progress;
        uint64_t enqueued = membership_enqueued(b->world, &communicator->present[i]);
        reach->least_enqueued = enqueued < reach->least_enqueued ? enqueued : reach->least_enqueued;
        if (membership_progress(b->world, &communicator->present[i], &progress) &&
            progress.completed > reach->most_completed) {
            reach->most_completed = progress.completed;
            reach->most_of = i;
        }
    }
    return reach;
}

/* Whether a member has ended one of the collectives from number `from` on, up to the newest that it has ended, that
 * nobody comes out of before all have come to it. Data from a root may be out before the others ask for it. */
static bool ended_with_all(const struct builder *b, const struct membership *member, uint64_t from, uint64_t to) {
    for (uint64_t seq = to; seq > from && to - seq < ENDED_LOOKED_AT; seq--) {
        struct signature signature = signature_of(b->world, member, seq - 1);
        if (signature.call && !signature.told && signature.call->flow == FLOW_ALL) /* it was seen to end */
            return true;
    }
    return false;
}

/* A file that an earlier run left tells nothing of this one. */
static bool ended_before_it_began(const struct dump *other, const struct dump *dump) {
    struct moment last = moment_of(other, last_sign_of_life(other));
    struct moment first = moment_of(dump, dump->header->activated_ticks);
    return moment_is_earlier(&last, &first);
}

bool is_outdated(struct builder *b, uint32_t p) {
    const struct dump *dump = b->world->parties[p].dump;
    for (uint32_t local = 0; dump->header->pid == 0 && local < dump->communicator_count; local++) {
        const struct shared_communicator *communicator = world_communicator(b->world, p, local);
        const struct membership me = {.party = p, .local = local};
        const struct reach *reach = communicator ? reach_of(b, communicator) : NULL;
        uint64_t own = reach ? membership_enqueued(b->world, &me) : 0;
        if (!reach || own >= reach->most_completed)
            continue;
        const struct membership *most = &communicator->present[reach->most_of];
        if (!ended_before_it_began(b->world->parties[most->party].dump, dump) &&
            ended_with_all(b, most, own, reach->most_completed))
            return true;
    }
    return false;
}

void free_reach(struct builder *b) {
    free(b->reach);
    b->reach = NULL;
}

/* The oldest operation that the GPU has begun and not ended. Where nothing tells when GPU work begins and ends, those
 * ahead of the last member wait for it. A process that died could not note any more what its GPU ended just then: what
 * ended on another member had ended there. */
static bool unfinished(struct builder *b, const struct shared_communicator *communicator, const struct membership *me,
                       const struct progress *mine, uint32_t *seq) {
    const struct party *party = &b->world->parties[me->party];
    uint32_t timing = party->dump->header->gpu_timing;
    const struct reach *reach = reach_of(b, communicator);
    if (!reach)
        return false;
    if (timing == GPU_TIMING_EVENTS || timing == GPU_TIMING_KERNEL) {
        bool ended_elsewhere = reach->most_completed > mine->completed;
        *seq = (uint32_t)mine->completed;
        return mine->started > mine->completed && !(party->process == PROCESS_GONE && ended_elsewhere);
    }
    *seq = (uint32_t)reach->least_enqueued;
    return mine->enqueued > reach->least_enqueued;
}

/* `begun`: it is waited for in it, else behind something else that lies in front of it. The first member found in it
 * names it: the last call on its communicator where that is the one, else what is on record. */
static void add_device_wait(struct builder *b, struct shared_communicator *communicator, const struct membership *me,
                            const struct call_name *last, const struct progress *mine, uint32_t seq, bool begun) {
    size_t known = b->waits->stalled_count;
    struct wait *wait = add_wait(b, me->party);
    struct stalled *stalled = find_stalled(b, communicator, seq, last, begun, NULL);
    if (!wait || !stalled)
        return;
    bool is_last = mine->enqueued == (uint64_t)seq + 1;
    if (b->waits->stalled_count > known && !is_last) {
        struct signature signature = signature_of(b->world, me, seq);
        stalled->call = signature.call ? signature.call : last;
    }
    wait->call = is_last ? last : stalled->call; /* members may have called different ones */
    wait->communicator = communicator;
    wait->collective = wait->device = true;
    wait->seq = seq;
    wait->enter = mine->last_enter;
    wait->node = stalled->missing ? stalled->all : b->free_node;
}

void add_device_waits(struct builder *b, uint32_t p) {
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
        if (call && call->api == API_NCCL && unfinished(b, communicator, &me, &mine, &seq))
            add_device_wait(b, communicator, &me, call, &mine, seq, true);
    }
    if (b->waits->parties[p].wait_count > 0)
        b->waits->parties[p].doing = DOING_BLOCKED;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Whom a launch waits for. */
struct launch_wait {
    uint32_t node; /* AND_OR_GRAPH_NO_NODE: for nobody who is known */
    bool over;     /* the other halves have ended, or */
    bool own;      /* are another GPU's of the same process */
    bool untold;   /* nothing tells of one whether it was called, or has ended */
    bool met;      /* `subject` has begun on both sides */
    bool uncalled; /* the other half of `subject` was not called */
    const struct launched_message
        *perhaps;       /* a message of which nothing tells which one it is, while the launch runs */
    bool perhaps_alone; /* all that nothing is told of are such ones */
    const struct launched_message *subject;
    const struct launched_message *unequal,
        *other; /* a message that both are at, and its other half, of another size */
};

static void wait_for_partner(struct builder *b, const struct launched_message *message, struct launch_wait *launch) {
    uint32_t party;
    enum partner partner = launched_message_partner(&b->launched, b->world, message, &party);
    launch->over &= partner == PARTNER_ENDED;
    launch->untold |= partner == PARTNER_UNKNOWN;
    if (partner == PARTNER_UNKNOWN && message->seq == SEQ_NONE && message->seen)
        launch->perhaps = launch->perhaps ? launch->perhaps : message;
    else if (partner == PARTNER_UNKNOWN)
        launch->perhaps_alone = false;
    const struct launched_message *other =
        partner == PARTNER_THERE ? launched_message_other(&b->launched, b->world, message) : NULL;
    if (other && !launch->unequal && other->bytes != message->bytes && other->bytes != BYTES_UNKNOWN &&
        message->bytes != BYTES_UNKNOWN) {
        launch->unequal = message;
        launch->other = other;
    }
    bool awaited = partner == PARTNER_BEHIND || partner == PARTNER_ABSENT;
    launch->own |= awaited && party == message->party;
    if (!awaited || party == message->party) {
        bool there = launch->node == AND_OR_GRAPH_NO_NODE && partner == PARTNER_THERE;
        launch->subject = there ? message : launch->subject;
        launch->met |= there;
        return;
    }
    b->waits->parties[party].held |= partner == PARTNER_BEHIND;
    if (launch->node == AND_OR_GRAPH_NO_NODE) {
        launch->node = and_or_graph_node(&b->waits->graph, false);
        launch->subject = message;
        launch->uncalled = partner == PARTNER_ABSENT;
    }
    and_or_graph_wait(&b->waits->graph, launch->node, party);
}

/* A launch that runs, and of whose messages nothing tells which of them lack the other half, waits for one of those at
 * least that these are for. Where that is a single one, it waits for that. */
static uint32_t add_possible_waits(struct builder *b, const struct launched_message *from,
                                   const struct launched_message *to, struct launch_wait *launch) {
    uint32_t node = and_or_graph_node(&b->waits->graph, true), first = NOBODY;
    bool several = false;
    for (const struct launched_message *message = from; message < to; message++) {
        uint32_t party = world_peer(b->world, message->party, message->local, message->peer);
        bool begun, called;
        if (message->seq != SEQ_NONE)
            continue;
        if (party == NOBODY || party == message->party)
            return AND_OR_GRAPH_NO_NODE;
        called =
            party < b->world->dump_count && launched_message_may_have(&b->launched, b->world, message, party, &begun);
        b->waits->parties[party].held |= called && !begun;
        several |= first != NOBODY && party != first;
        first = party;
        and_or_graph_wait(&b->waits->graph, node, party);
    }
    if (!several) {
        launch->node = node;
        launch->subject = launch->perhaps;
        launch->untold = false;
    }
    return several ? node : AND_OR_GRAPH_NO_NODE;
}

/* The messages from `from` up to `to` are one launch, which ends with the last of them. A process that died could not
 * note any more what its GPU ended just then; and none waits for itself. */
static void add_launch_wait(struct builder *b, const struct launched_message *from, const struct launched_message *to) {
    struct launch_wait launch = {.node = AND_OR_GRAPH_NO_NODE, .over = true, .perhaps_alone = true, .subject = from};
    for (const struct launched_message *message = from; message < to; message++)
        wait_for_partner(b, message, &launch);
    bool over = launch.over && b->world->parties[from->party].process == PROCESS_GONE;
    if (over || (launch.own && launch.node == AND_OR_GRAPH_NO_NODE))
        return;
    uint32_t perhaps = AND_OR_GRAPH_NO_NODE;
    if (launch.node == AND_OR_GRAPH_NO_NODE && launch.perhaps && launch.perhaps_alone && !launch.unequal)
        perhaps = add_possible_waits(b, from, to, &launch);
    const struct launched_message *subject = launch.unequal ? launch.unequal : launch.subject;
    struct wait *wait = add_wait(b, subject->party);
    if (!wait)
        return;
    wait->call = subject->call;
    wait->communicator = subject->communicator;
    wait->device = !subject->calling;
    wait->seq = subject->seq;
    wait->number = subject->number;
    wait->peer = subject->peer;
    wait->peer_party = world_peer(b->world, subject->party, subject->local, subject->peer);
    wait->bytes = subject->bytes;
    wait->stack = subject->stack;
    wait->enter = subject->enter;
    if (launch.unequal) {
        wait->unequal = true;
        wait->other_bytes = launch.other->bytes;
        wait->other_stack = launch.other->stack;
        wait->other_call = launch.other->call;
    }
    wait->met = launch.met && launch.node == AND_OR_GRAPH_NO_NODE && !launch.untold;
    wait->uncalled = launch.uncalled;
    wait->never =
        launch.uncalled && subject->number != SEQ_NONE && launched_message_is_the_only_side(b->world, subject);
    wait->perhaps = perhaps;
    wait->node = launch.node == AND_OR_GRAPH_NO_NODE ? b->free_node : launch.node;
    b->waits->parties[subject->party].doing = DOING_BLOCKED;
    b->waits->parties[subject->party].partner_untold |= launch.node == AND_OR_GRAPH_NO_NODE && launch.untold;
}

/* What nothing tells the partner of holds up what the process has launched behind it, too: collectives that others have
 * not called wait for these in any case. */
static void add_waits_behind(struct builder *b, uint32_t p) {
    const struct dump *dump = b->world->parties[p].dump;
    for (uint32_t local = 0; local < dump->communicator_count; local++) {
        struct shared_communicator *communicator = world_communicator(b->world, p, local);
        const struct reach *reach =
            communicator && dump->communicators[local].progress ? reach_of(b, communicator) : NULL;
        const struct membership me = {.party = p, .local = local};
        struct progress mine;
        if (!reach || !membership_progress(b->world, &me, &mine) || mine.enqueued <= reach->least_enqueued ||
            mine.completed > reach->least_enqueued || mine.last_call > UINT16_MAX)
            continue;
        const struct call_name *call = dump_call(dump, (uint16_t)mine.last_call);
        if (!call || call->api != API_NCCL)
            continue;
        size_t count = b->waits->count;
        add_device_wait(b, communicator, &me, call, &mine, (uint32_t)reach->least_enqueued, false);
        for (size_t i = count; i < b->waits->count; i++)
            b->waits->parties[p].partner_untold &= b->waits->items[i].node == b->free_node;
    }
}

void add_launched_waits(struct builder *b, uint32_t p) {
    const struct launched_message *items = b->launched.items;
    for (size_t from = b->launched.first[p], end = b->launched.first[p + 1], to; from < end; from = to) {
        for (to = from + 1; to < end && items[to].local == items[from].local && items[to].launch == items[from].launch;)
            to++;
        if (items[from].first && items[from].begun)
            add_launch_wait(b, &items[from], &items[to]);
    }
    if (b->waits->parties[p].partner_untold)
        add_waits_behind(b, p);
}
