/* SPDX-License-Identifier: Apache-2.0
 *
 * Replays of CUDA graphs that do not end, since others have not launched theirs.
 * Lives here: whose GPU is in a replay, and who has launched less of what all do there.
 * Must not live here: what was called outside of graphs (devices.c).
 *
 * A replay is on its way from its launch on, whether it is at its communication or at work. So somebody is waited for
 * only where it launched less, and where its GPU is through with all that it launched: then no replay of more can end.
 * That holds for whatever divides the same operations into graphs in another way. Of whoever's counts are not complete,
 * and of members that all have launched as much, nothing follows.
 */
#include "analyzer/wait_for_graph/graph_build.h"

#include <stdlib.h>

#include "analyzer/load/rows.h"
#include "analyzer/wait_for_graph/moments.h"
#include "analyzer/wait_for_graph/standing_limits.h"

/* How far the graphs of a communicator's members came. */
struct captured_members {
    bool asked;
    uint64_t least;                    /* collectives of those of whom it is known */
    struct captured_progress *members; /* as `present`; NULL: nobody's is running */
};

/* Messages from one member to another, as one of the two has launched them in graphs. */
struct message_key {
    uint32_t communicator;
    int32_t from, to;
    uint32_t send;
};

struct message_total {
    struct message_key key;
    uint64_t count;
};

HASH_TABLE_OF(message_totals, struct message_total, struct message_key);

static bool anybody_runs(const struct world *world, const struct shared_communicator *communicator) {
    bool runs = false;
    for (uint32_t i = 0; i < communicator->present_count && !runs; i++) {
        const struct membership *member = &communicator->present[i];
        runs = captured_progress_read(world->parties[member->party].dump, member->local).running;
    }
    return runs;
}

/* NULL when memory is short. */
static struct captured_members *captured_of(struct builder *b, const struct shared_communicator *communicator) {
    if (!b->captured)
        b->captured = calloc((size_t)b->world->communicator_count + 1, sizeof *b->captured);
    struct captured_members *captured = b->captured ? &b->captured[communicator - b->world->communicators] : NULL;
    b->no_memory |= !captured;
    if (!captured || captured->asked)
        return captured;
    captured->asked = true;
    captured->least = UINT64_MAX;
    if (!anybody_runs(b->world, communicator))
        return captured;
    captured->members = calloc((size_t)communicator->present_count + 1, sizeof *captured->members);
    b->no_memory |= !captured->members;
    for (uint32_t i = 0; captured->members && i < communicator->present_count; i++) {
        const struct membership *member = &communicator->present[i];
        struct captured_progress *progress = &captured->members[i];
        *progress = captured_progress_read(b->world->parties[member->party].dump, member->local);
        if (progress->known && progress->collectives < captured->least)
            captured->least = progress->collectives;
    }
    return captured;
}

void free_captured(struct builder *b) {
    for (uint32_t i = 0; b->captured && i < b->world->communicator_count; i++)
        free(b->captured[i].members);
    free(b->captured);
    b->captured = NULL;
    hash_table_free(&b->captured_messages);
}

/* The place of a rank among the members with a dump, which are in the order of their ranks; `present_count`: none. */
static uint32_t place_of(const struct shared_communicator *communicator, int32_t rank) {
    uint32_t low = 0, high = communicator->present_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (communicator->present[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < communicator->present_count && communicator->present[low].rank == rank;
    return found ? low : communicator->present_count;
}

/* ---- a wait ---------------------------------------------------------------------------------- */

static int64_t usual_ns(const struct captured_progress *mine) {
    return mine->row->second_ns > 0 ? (int64_t)mine->row->second_ns : -1;
}

/* Of a job that lives: for longer than a replay may take at work. Of others that is weighed when all is known. */
static bool stands(const struct builder *b, uint32_t p, const struct captured_progress *mine) {
    if (!b->known->now)
        return true;
    int64_t now = moment_here(b->world->parties[p].dump, b->known->now);
    return difference_ns(now, (int64_t)mine->row->launched_ns) > standing_most_ns(b->world, usual_ns(mine), false);
}

static struct wait *add_replay_wait(struct builder *b, uint32_t p, struct shared_communicator *communicator,
                                    const struct captured_progress *mine, uint32_t call) {
    struct wait *wait = add_wait(b, p);
    if (!wait)
        return NULL;
    const struct dump *dump = b->world->parties[p].dump;
    wait->call = dump_call(dump, (uint16_t)call);
    wait->communicator = communicator;
    wait->device = wait->replayed = true;
    wait->launched = mine->launched;
    wait->usual_ns = usual_ns(mine);
    wait->enter = dump_ticks_at(dump, mine->row->launched_ns);
    b->waits->parties[p].doing = DOING_BLOCKED;
    return wait;
}

/* ---- collectives ----------------------------------------------------------------------------- */

static void wait_for_collectives(struct builder *b, uint32_t p, struct shared_communicator *communicator,
                                 const struct captured_members *captured, const struct captured_progress *mine) {
    if (mine->row->collectives == 0 || captured->least >= mine->collectives || captured->least >= SEQ_NONE)
        return;
    const struct call_name *call = dump_call(b->world->parties[p].dump, (uint16_t)mine->row->call);
    struct stalled *stalled = find_stalled_replay(b, communicator, (uint32_t)captured->least, call);
    if (!stalled || stalled->missing == 0)
        return;
    struct wait *wait = add_replay_wait(b, p, communicator, mine, mine->row->call);
    if (!wait)
        return;
    wait->call = stalled->call;
    wait->collective = true;
    wait->seq = stalled->seq;
    wait->stack = mine->row->stack;
    wait->node = stalled->all;
}

/* ---- messages -------------------------------------------------------------------------------- */

static void note_row(struct builder *b, uint32_t communicator, const struct membership *member,
                     const struct capture_row *row) {
    const struct dump *dump = b->world->parties[member->party].dump;
    uint64_t launched = __atomic_load_n(&row->launched, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < row->message_count && !b->no_memory; i++) {
        const struct capture_message *message = &dump->capture_messages[row->first_message + i];
        bool send = message->flags == FLAG_SEND;
        const struct message_key key = {.communicator = communicator,
                                        .from = send ? member->rank : message->peer,
                                        .to = send ? message->peer : member->rank,
                                        .send = send};
        struct message_total *total = message_totals_add(&b->captured_messages, &key);
        b->no_memory |= !total;
        if (total)
            total->count += launched * message->count;
    }
}

/* Sums over all rows of all members, once. */
static void note_captured_messages(struct builder *b) {
    for (uint32_t c = 0; c < b->world->communicator_count && !b->captured_noted; c++) {
        const struct shared_communicator *communicator = &b->world->communicators[c];
        for (uint32_t i = 0; i < communicator->present_count; i++) {
            const struct membership *member = &communicator->present[i];
            const struct dump *dump = b->world->parties[member->party].dump;
            for (uint32_t r = 0; r < dump->capture_count; r++)
                if (__atomic_load_n(&dump->captures[r].used, __ATOMIC_ACQUIRE) &&
                    dump->captures[r].comm == member->local)
                    note_row(b, c, member, &dump->captures[r]);
        }
    }
    b->captured_noted = true;
}

static uint64_t total_of(const struct builder *b, struct message_key key, bool send) {
    key.send = send;
    const struct message_total *total = message_totals_find(&b->captured_messages, &key);
    return total ? total->count : 0;
}

/* A message that a running replay holds, and its other half. */
struct half {
    const struct capture_message *message;
    struct message_key key;
    const struct membership *me, *other;
};

/* The other half may have been called outside of graphs, where more of them were called in all. */
static bool was_called_apart(const struct world *world, const struct half *half) {
    bool sure = true, send = half->message->flags == FLAG_SEND;
    uint64_t mine = messages_counted(world->parties[half->me->party].dump, half->me->local,
                                     send ? FLAG_SEND : FLAG_RECV, half->other->rank, &sure);
    uint64_t theirs = messages_counted(world->parties[half->other->party].dump, half->other->local,
                                       send ? FLAG_RECV : FLAG_SEND, half->me->rank, &sure);
    return !sure || theirs > mine;
}

/* The party that has not launched the other half, NOBODY: it has, or that is not known. */
static uint32_t absent_partner(const struct builder *b, const struct shared_communicator *communicator,
                               const struct captured_members *captured, const struct membership *me,
                               const struct capture_message *message) {
    bool send = message->flags == FLAG_SEND;
    uint32_t at = place_of(communicator, message->peer);
    if (at == communicator->present_count) {
        uint32_t party = world_peer(b->world, me->party, me->local, message->peer);
        return party != NOBODY && !b->world->parties[party].dump ? party : NOBODY;
    }
    struct half half = {.message = message, .me = me, .other = &communicator->present[at]};
    half.key = (struct message_key){.communicator = (uint32_t)(communicator - b->world->communicators),
                                    .from = send ? me->rank : message->peer,
                                    .to = send ? message->peer : me->rank};
    const struct captured_progress *theirs = &captured->members[at];
    bool absent = half.other->party != me->party && theirs->known && !theirs->running &&
                  total_of(b, half.key, !send) < total_of(b, half.key, send) && !was_called_apart(b->world, &half);
    return absent ? half.other->party : NOBODY;
}

/* All messages of a replay are needed, or it does not end. */
static void wait_for_messages(struct builder *b, const struct membership *me, struct shared_communicator *communicator,
                              const struct captured_members *captured, const struct captured_progress *mine) {
    const struct dump *dump = b->world->parties[me->party].dump;
    const struct capture_message *subject = NULL;
    uint32_t node = AND_OR_GRAPH_NO_NODE, peer = NOBODY;
    note_captured_messages(b);
    for (uint32_t i = 0; i < mine->row->message_count && !b->no_memory; i++) {
        const struct capture_message *message = &dump->capture_messages[mine->row->first_message + i];
        uint32_t absent = absent_partner(b, communicator, captured, me, message);
        if (absent == NOBODY)
            continue;
        if (!subject) {
            node = and_or_graph_node(&b->waits->graph, false);
            subject = message;
            peer = absent;
        }
        and_or_graph_wait(&b->waits->graph, node, absent);
    }
    struct wait *wait = subject ? add_replay_wait(b, me->party, communicator, mine, subject->call) : NULL;
    if (!wait)
        return;
    wait->seq = wait->number = SEQ_NONE;
    wait->peer = subject->peer;
    wait->peer_party = peer;
    wait->stack = subject->stack;
    wait->bytes = BYTES_UNKNOWN;
    wait->node = node;
}

void add_captured_waits(struct builder *b, uint32_t p) {
    const struct dump *dump = b->world->parties[p].dump;
    for (uint32_t local = 0; dump->capture_count > 0 && local < dump->communicator_count && !b->no_memory; local++) {
        struct shared_communicator *communicator = world_communicator(b->world, p, local);
        const struct captured_members *captured = communicator ? captured_of(b, communicator) : NULL;
        if (!captured || !captured->members || communicator->kind == COMMUNICATOR_INTER)
            continue;
        uint32_t at = place_of(communicator, dump->communicators[local].definition->my_rank);
        const struct captured_progress *mine = &captured->members[at];
        if (!mine->known || !mine->running || !stands(b, p, mine))
            continue;
        wait_for_collectives(b, p, communicator, captured, mine);
        wait_for_messages(b, &communicator->present[at], communicator, captured, mine);
    }
}
