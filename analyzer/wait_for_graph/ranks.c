/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/wait_for_graph/ranks.h"

#include <stdlib.h>

#include "analyzer/base/statistics.h"
#include "analyzer/load/rows.h"
#include "analyzer/wait_for_graph/signatures.h"

size_t stalled_ranks(const struct wait_for_graph *waits, const struct stalled *stalled, bool missing, int32_t *ranks,
                     size_t capacity) {
    struct world *world = waits->world;
    struct shared_communicator *communicator = stalled->communicator;
    size_t count = 0, written;
    for (unsigned side = 0; side < 2; side++) {
        const uint32_t *members = world_members(world, communicator, side);
        uint8_t *came = calloc((size_t)communicator->side_size[side] + 1, 1);
        for (uint32_t i = 0; came && i < communicator->present_count; i++)
            if (communicator->present[i].side == side &&
                (uint32_t)communicator->present[i].rank < communicator->side_size[side])
                came[communicator->present[i].rank] = !stalled_misses(world, stalled, &communicator->present[i]);
        for (uint32_t r = 0; came && members && r < communicator->side_size[side]; r++) {
            if (members[r] == NOBODY || world->parties[members[r]].rank < 0 || (came[r] == 0) != missing ||
                !stalled_expects(stalled, side, r) || (missing && !stalled_needs(stalled, r)))
                continue;
            if (count < capacity)
                ranks[count] = world->parties[members[r]].rank;
            count++;
        }
        free(came);
    }
    written = count < capacity ? count : capacity;
    if (written > 0)
        qsort(ranks, written, sizeof *ranks, compare_int32);
    return count;
}

/* Whether the party has begun it without a call that waits for it alone: in a list of requests, or by asking. */
static bool has_pending(const struct dump *dump, uint32_t local, const struct stalled *stalled) {
    for (uint32_t i = 0; i < dump->pending_count; i++) {
        struct pending pending;
        bool alike = pending_read(dump, &dump->pending[i], &pending) && pending.flags & FLAG_COLLECTIVE &&
                     pending.comm == local && pending.seq == stalled->seq;
        bool started = alike && pending.flags & FLAG_STARTED;
        if (alike && started == stalled->started && (!started || (uint32_t)pending.tag == stalled->start))
            return true;
    }
    return false;
}

static bool waits_in(const struct wait_for_graph *waits, const struct stalled *stalled,
                     const struct membership *member) {
    const struct party_state *state = &waits->parties[member->party];
    for (uint32_t i = 0; i < state->wait_count; i++)
        if (wait_is_in(&waits->items[state->first_wait + i], stalled))
            return true;
    return state->doing == DOING_BLOCKED && !stalled->device &&
           has_pending(waits->world->parties[member->party].dump, member->local, stalled);
}

size_t stalled_waiting(const struct wait_for_graph *waits, const struct stalled *stalled, int32_t *ranks,
                       size_t capacity) {
    size_t count = 0;
    for (uint32_t i = 0; i < stalled->communicator->present_count; i++) {
        const struct membership *member = &stalled->communicator->present[i];
        if (!waits_in(waits, stalled, member))
            continue;
        if (count < capacity)
            ranks[count] = waits->world->parties[member->party].rank;
        count++;
    }
    size_t written = count < capacity ? count : capacity;
    if (written > 0)
        qsort(ranks, written, sizeof *ranks, compare_int32);
    return count;
}

bool stalled_is_open(const struct stalled *stalled) {
    return stalled->missing > 0;
}

/* Walks from a wait over nodes that are no parties to the parties behind them. */
static void mark_parties(const struct wait_for_graph *waits, uint32_t node, uint8_t *seen, unsigned depth) {
    const struct and_or_graph *graph = &waits->graph;
    if (seen[node])
        return;
    seen[node] = 1;
    if (node < waits->world->party_count || depth == 8)
        return;
    for (size_t i = graph->first[node]; i < graph->first[node + 1]; i++)
        mark_parties(waits, graph->targets[i], seen, depth + 1);
}

void wait_mark_parties(const struct wait_for_graph *waits, const struct wait *wait, uint8_t *seen) {
    mark_parties(waits, wait->node, seen, 0);
}

/* Ranks of the parties behind a node. */
static size_t ranks_behind(const struct wait_for_graph *waits, uint32_t node, uint32_t self, int32_t *ranks,
                           size_t capacity) {
    uint8_t *seen = calloc((size_t)waits->graph.node_count + 1, 1);
    size_t count = 0;
    if (!seen)
        return 0;
    mark_parties(waits, node, seen, 0);
    for (uint32_t p = 0; p < waits->world->party_count && count < capacity; p++)
        if (seen[p] && waits->world->parties[p].rank >= 0 && p != self)
            ranks[count++] = waits->world->parties[p].rank;
    if (seen[self] && count == 0 && capacity > 0) /* for itself */
        ranks[count++] = waits->world->parties[self].rank;
    free(seen);
    qsort(ranks, count, sizeof *ranks, compare_int32);
    return count;
}

size_t wait_targets(const struct wait_for_graph *waits, const struct wait *wait, int32_t *ranks, size_t capacity) {
    return ranks_behind(waits, wait->node, wait->party, ranks, capacity);
}

size_t wait_possible_targets(const struct wait_for_graph *waits, const struct wait *wait, int32_t *ranks,
                             size_t capacity) {
    return wait->perhaps == AND_OR_GRAPH_NO_NODE ? 0 : ranks_behind(waits, wait->perhaps, wait->party, ranks, capacity);
}

const struct stalled *held_before(const struct wait_for_graph *waits, uint32_t party) {
    for (size_t i = 0; i < waits->stalled_count; i++) {
        const struct stalled *stalled = &waits->stalled[i];
        const struct membership *member =
            stalled->device && !stalled->replayed ? world_membership(stalled->communicator, party) : NULL;
        if (member && membership_enqueued(waits->world, member) > stalled->seq &&
            stalled_misses(waits->world, stalled, member))
            return stalled;
    }
    return NULL;
}

bool not_begun_find(const struct world *world, uint32_t party, struct not_begun *found) {
    const struct dump *dump = party < world->dump_count ? world->parties[party].dump : NULL;
    uint32_t timing = dump ? dump->header->gpu_timing : GPU_TIMING_OFF;
    if (timing != GPU_TIMING_EVENTS && timing != GPU_TIMING_KERNEL)
        return false;
    for (uint32_t local = 0; local < dump->communicator_count; local++) {
        const struct membership me = {.party = party, .local = local};
        struct progress progress;
        *found = (struct not_begun){.communicator = world_communicator(world, party, local)};
        if (!found->communicator || !membership_progress(world, &me, &progress) ||
            progress.enqueued <= progress.started)
            continue;
        found->seq = progress.started;
        struct signature signature = signature_of(world, &me, progress.started);
        found->call = signature.call;
        if (found->call && found->call->api == API_NCCL && !signature.captured)
            return true;
    }
    return false;
}
