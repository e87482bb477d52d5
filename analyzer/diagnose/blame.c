/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/diagnose/blame.h"

#include <stdlib.h>

#include "analyzer/base/grow.h"
#include "analyzer/diagnose/skipped.h"
#include "analyzer/load/rows.h"
#include "analyzer/wait_for_graph/ranks.h"

enum { CYCLE_MOST = 4096 };
enum { REACHED = 1, PERHAPS_REACHED = 2 };

/* The newest call on record. */
static void find_last_call(const struct dump *dump, struct culprit *culprit) {
    uint64_t newest = 0;
    struct record_reader reader;
    for (uint32_t lane = 0; dump && lane < dump->lane_count; lane++) {
        const struct dump_lane *l = &dump->lanes[lane];
        record_reader_begin(&reader, dump, lane);
        for (uint64_t t = l->end_ticket; !dump_lane_is_device(l) && t > l->first_ticket; t--) {
            const struct record *r = record_reader_at(&reader, t - 1);
            if (!r || (r->kind != RECORD_CALL && r->kind != RECORD_POST))
                continue;
            if (!culprit->last_call || r->t1 > newest) {
                newest = r->t1;
                culprit->last_call = dump_call(dump, r->call);
                culprit->last_stack = r->stack;
            }
            break;
        }
    }
}

static struct culprit *add_culprit(struct diagnosis *diagnosis, uint32_t party, enum culprit_state state,
                                   enum blame blame) {
    if (!grow_list(diagnosis->culprits, diagnosis->culprit_count)) {
        diagnosis->no_memory = true;
        return NULL;
    }
    struct culprit *culprit = &diagnosis->culprits[diagnosis->culprit_count++];
    *culprit = (struct culprit){.party = party, .state = state, .blame = blame, .absence = {-1, -1}};
    find_last_call(diagnosis->world.parties[party].dump, culprit);
    return culprit;
}

static bool is_dead(const struct party_state *state) {
    return state->doing == DOING_GONE || state->doing == DOING_UNKNOWN;
}

static enum culprit_state culprit_state_of(const struct diagnosis *diagnosis, uint32_t party) {
    enum doing doing = diagnosis->wait_for_graph.parties[party].doing;
    bool held = diagnosis->wait_for_graph.parties[party].held || held_before(&diagnosis->wait_for_graph, party);
    if ((doing == DOING_USER_CODE || doing == DOING_CALL) && held)
        return CULPRIT_BLOCKED;
    switch (diagnosis->wait_for_graph.parties[party].doing) {
    case DOING_UNKNOWN:
        return party_is_untold(&diagnosis->world.parties[party]) ? CULPRIT_NOT_COLLECTED : CULPRIT_NO_DUMP;
    case DOING_GONE:
        return CULPRIT_DEAD;
    case DOING_FINALIZE:
    case DOING_FINISHED:
        return CULPRIT_FINALISED;
    case DOING_BLOCKED:
        return CULPRIT_BLOCKED;
    case DOING_CALL:
    case DOING_INIT:
        return CULPRIT_NEVER_ENTERED;
    default:
        return CULPRIT_IN_USER_CODE;
    }
}

static bool is_blocked(const struct diagnosis *diagnosis, uint32_t party) {
    return diagnosis->wait_for_graph.parties[party].doing == DOING_BLOCKED &&
           !diagnosis->wait_for_graph.parties[party].stopped;
}

/* A death that was seen ends the job whether anybody waits for the dead one or not. */
static bool has_died(const struct diagnosis *diagnosis, uint32_t party) {
    return certain_death(diagnosis) == party && diagnosis->wait_for_graph.parties[party].gone == GONE_DIED;
}

/* Is a party in waits that nobody is missing in: a collective to which all have come? */
static bool waits_for_nobody(const struct diagnosis *diagnosis, uint32_t party) {
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    const struct party_state *state = &waits->parties[party];
    for (uint32_t i = 0; i < state->wait_count; i++) {
        uint32_t node = waits->items[state->first_wait + i].node;
        if (waits->graph.first[node] != waits->graph.first[node + 1])
            return false;
    }
    return state->wait_count > 0;
}

/* `reached`: per party, whether somebody who is blocked waits for it, or for it or another one. Of the latter only
 * those are meant whose GPU has not begun what they called. */
static bool is_sink(const struct diagnosis *diagnosis, const uint8_t *reached, uint32_t party) {
    bool meant = reached[party] == REACHED || (reached[party] && diagnosis->wait_for_graph.parties[party].held);
    return (meant && !is_blocked(diagnosis, party)) || diagnosis->wait_for_graph.parties[party].stopped ||
           has_died(diagnosis, party);
}

/* Those that a wait may be for; nothing tells which of them it is. */
static void mark_possible(const struct diagnosis *diagnosis, const struct wait *wait, uint8_t *seen) {
    const struct and_or_graph *graph = &diagnosis->wait_for_graph.graph;
    if (wait->perhaps == AND_OR_GRAPH_NO_NODE)
        return;
    for (size_t i = graph->first[wait->perhaps]; i < graph->first[wait->perhaps + 1]; i++)
        if (!seen[graph->targets[i]])
            seen[graph->targets[i]] = PERHAPS_REACHED;
}

/* Of a message that both sides have called either may be to blame, where nothing tells whether their GPUs began it. */
static void mark_other_half(const struct diagnosis *diagnosis, const struct wait *wait, uint8_t *seen) {
    const struct dump *dump = diagnosis->world.parties[wait->party].dump;
    bool untold = dump->header->pid == 0 && dump->header->gpu_timing_why[0] != '\0';
    if (untold && wait->met && wait->peer_party != NOBODY && seen[wait->party] == REACHED &&
        waits_for_nobody(diagnosis, wait->party))
        seen[wait->peer_party] = REACHED;
}

/* Marks the parties that are not blocked and that somebody who is waits for. Where there are none, those that others
 * wait for while nobody keeps them: left behind in a collective that all have come to. */
static uint8_t *find_sinks(struct diagnosis *diagnosis, bool *dead) {
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    uint8_t *seen = calloc((size_t)waits->graph.node_count + 1, 1);
    bool any = false;
    if (!seen)
        return NULL;
    for (size_t i = 0; i < waits->count; i++)
        wait_mark_parties(waits, &waits->items[i], seen);
    for (size_t i = 0; i < waits->count; i++)
        mark_possible(diagnosis, &waits->items[i], seen);
    for (uint32_t p = 0; p < diagnosis->world.party_count; p++)
        any |= is_sink(diagnosis, seen, p);
    for (size_t i = 0; !any && i < waits->count; i++)
        mark_other_half(diagnosis, &waits->items[i], seen);
    for (uint32_t p = 0; p < diagnosis->world.party_count; p++) {
        seen[p] = any ? is_sink(diagnosis, seen, p) : seen[p] == REACHED && waits_for_nobody(diagnosis, p);
        *dead |= seen[p] && is_dead(&waits->parties[p]) && !party_is_untold(&diagnosis->world.parties[p]);
    }
    return seen;
}

void blame_awaited(struct diagnosis *diagnosis, uint32_t party) {
    add_culprit(diagnosis, party, culprit_state_of(diagnosis, party), BLAME_AWAITED);
}

void blame_mismatch(struct diagnosis *diagnosis) {
    const struct mismatch *mismatch = &diagnosis->mismatch;
    size_t from = mismatch->tie ? 0 : mismatch->expected_count;
    diagnosis->verdict = VERDICT_DESYNC;
    for (size_t i = from; i < mismatch->expected_count + mismatch->other_count; i++) {
        struct culprit *culprit = add_culprit(diagnosis, mismatch->parties[i], CULPRIT_MISMATCH, BLAME_MISMATCH);
        if (culprit)
            culprit->other_side = i >= mismatch->expected_count;
    }
}

/* The wait of a party that the graph's node stands for, where a cycle goes through both. */
static size_t wait_behind(const struct diagnosis *diagnosis, uint32_t party, const uint32_t *nodes, size_t count) {
    const struct party_state *state = &diagnosis->wait_for_graph.parties[party];
    for (uint32_t i = 0; i < state->wait_count; i++)
        for (size_t n = 0; n < count; n++)
            if (diagnosis->wait_for_graph.items[state->first_wait + i].node == nodes[n])
                return state->first_wait + i;
    return state->first_wait;
}

bool find_cycle(struct diagnosis *diagnosis) {
    const struct and_or_graph *graph = &diagnosis->wait_for_graph.graph;
    uint32_t start = 0, *nodes = malloc(CYCLE_MOST * sizeof *nodes);
    while (start < diagnosis->world.party_count && graph->released[start])
        start++;
    diagnosis->cycle = malloc(CYCLE_MOST * sizeof *diagnosis->cycle);
    diagnosis->cycle_count = 0;
    if (start == diagnosis->world.party_count || !nodes || !diagnosis->cycle) {
        diagnosis->no_memory |= !nodes || !diagnosis->cycle;
        free(nodes);
        return false;
    }
    size_t length = and_or_graph_cycle(graph, start, nodes, CYCLE_MOST), first = 0, count = 0;
    length = length < CYCLE_MOST ? length : CYCLE_MOST;
    for (size_t i = 0; i < length; i++) { /* begin with the lowest party */
        if (nodes[i] >= diagnosis->world.party_count)
            continue;
        if (nodes[first] >= diagnosis->world.party_count || nodes[i] < nodes[first])
            first = i;
    }
    for (size_t i = 0; i < length; i++) {
        uint32_t node = nodes[(first + i) % length];
        if (node < diagnosis->world.party_count)
            diagnosis->cycle[count++] = (uint32_t)wait_behind(diagnosis, node, nodes, length);
    }
    diagnosis->cycle_count = count;
    diagnosis->no_memory |= count == 0;
    free(nodes);
    return count > 0;
}

/* Those that left out what the others of the circle wait in; who waits for these, in whatever it is, is not to blame.
 */
static void blame_skippers(struct diagnosis *diagnosis) {
    struct skipped skipped;
    diagnosis->no_memory |=
        !skipped_find(&skipped, &diagnosis->wait_for_graph, diagnosis->cycle, diagnosis->cycle_count);
    for (uint32_t p = 0; skipped.stalled && p < diagnosis->world.party_count; p++) {
        struct culprit *culprit = skipped.by[p] ? add_culprit(diagnosis, p, CULPRIT_NEVER_ENTERED, BLAME_ABSENT) : NULL;
        if (!culprit)
            continue;
        culprit->absent_from = skipped.stalled;
        culprit->went_on = skipped.went_on;
    }
    skipped_free(&skipped);
}

/* Whether it is for a message from any of several. */
static bool takes_from_any(const struct wait *wait) {
    const struct shared_communicator *communicator = wait->collective ? NULL : wait->communicator;
    return communicator && wait->peer == PEER_ANY && communicator->side_size[0] + communicator->side_size[1] > 2;
}

static uint64_t count_received(const struct diagnosis *diagnosis, const struct wait *wait) {
    const struct membership *me = world_membership(wait->communicator, wait->party);
    const struct dump *dump = diagnosis->world.parties[wait->party].dump;
    struct record_reader reader;
    uint64_t count = 0;
    for (uint32_t lane = 0; me && lane < dump->lane_count; lane++) {
        const struct dump_lane *l = &dump->lanes[lane];
        record_reader_begin(&reader, dump, lane);
        for (uint64_t t = l->end_ticket; t > l->first_ticket; t--) {
            const struct record *r = record_reader_at(&reader, t - 1);
            count += r && (r->kind == RECORD_CALL || r->kind == RECORD_DONE) && r->comm == me->local &&
                     (r->flags & (FLAG_RECV | FLAG_COLLECTIVE)) == FLAG_RECV &&
                     (wait->tag == TAG_ANY || r->tag == wait->tag);
        }
    }
    return count;
}

/* Sets those aside who take from any of several: each of these would let them go on. Where others still cannot go on
 * the circle is among these, and it is looked for there. Returns false where there are no others. */
static bool find_cycle_of_others(struct diagnosis *diagnosis) {
    struct and_or_graph *graph = &diagnosis->wait_for_graph.graph;
    bool *aside = calloc((size_t)graph->node_count + 1, sizeof *aside), others = false;
    bool *released = calloc((size_t)graph->node_count + 1, sizeof *released);
    for (size_t i = 0; aside && i < diagnosis->wait_for_graph.count; i++)
        aside[diagnosis->wait_for_graph.items[i].node] |= takes_from_any(&diagnosis->wait_for_graph.items[i]);
    bool done = aside && released && and_or_graph_release_with(graph, aside, released);
    for (uint32_t p = 0; done && p < diagnosis->world.party_count; p++)
        others |= !released[p];
    free(aside);
    diagnosis->no_memory |= !done;
    if (!others) {
        free(released);
        return false;
    }
    free(graph->released);
    free(diagnosis->cycle);
    graph->released = released;
    return find_cycle(diagnosis);
}

/* Of a circle that is there only since nobody sends what some of it take from anybody these are to blame, unless all of
 * it is of that kind: the others wait for one rank each, which does not come to that. */
static void blame_takers(struct diagnosis *diagnosis) {
    size_t takers = 0;
    for (size_t i = 0; i < diagnosis->cycle_count; i++)
        takers += takes_from_any(&diagnosis->wait_for_graph.items[diagnosis->cycle[i]]);
    if (takers == diagnosis->cycle_count)
        return;
    for (size_t i = 0; i < diagnosis->cycle_count && takers > 0; i++) {
        const struct wait *wait = &diagnosis->wait_for_graph.items[diagnosis->cycle[i]];
        struct culprit *culprit =
            takes_from_any(wait) ? add_culprit(diagnosis, wait->party, CULPRIT_BLOCKED, BLAME_UNSENT) : NULL;
        if (!culprit)
            continue;
        culprit->wait = diagnosis->cycle[i];
        culprit->received = count_received(diagnosis, wait);
    }
}

void blame_cycle(struct diagnosis *diagnosis) {
    diagnosis->verdict = VERDICT_DEADLOCK;
    if (!find_cycle_of_others(diagnosis))
        blame_takers(diagnosis);
    if (diagnosis->culprit_count == 0)
        blame_skippers(diagnosis);
    if (diagnosis->culprit_count > 0)
        return;
    for (size_t i = 0; i < diagnosis->cycle_count; i++) {
        const struct wait *wait = &diagnosis->wait_for_graph.items[diagnosis->cycle[i]];
        struct culprit *culprit = add_culprit(diagnosis, wait->party, CULPRIT_BLOCKED, BLAME_CYCLE);
        if (culprit)
            culprit->wait = diagnosis->cycle[i];
    }
}

/* Who waits for a message of which nothing tells whether anybody misses is not to blame. Nor is whoever is not on
 * record here, as long as others are known not to have come. Of an import no file may just mean that it was not
 * fetched: whose own record tells that it did not come is to blame, whether others are missing or not. */
static void blame_these(struct diagnosis *diagnosis, const uint8_t *sinks, bool dead) {
    const struct world *world = &diagnosis->world;
    bool untold = false, known = false, there = false;
    for (uint32_t p = 0; p < world->party_count; p++) {
        bool tells =
            sinks[p] && !party_is_untold(&world->parties[p]) && !diagnosis->wait_for_graph.parties[p].partner_untold;
        known |= tells;
        there |= tells && world->parties[p].dump && world_is_imported(world);
    }
    bool only_dead = dead && !there;
    diagnosis->verdict = only_dead ? VERDICT_DEAD_RANK : VERDICT_HANG;
    for (uint32_t p = 0; p < world->party_count; p++) {
        const struct party_state *state = &diagnosis->wait_for_graph.parties[p];
        untold |= state->partner_untold && (sinks[p] || world_is_imported(world));
        if (!sinks[p] || (only_dead && !is_dead(state)) || (known && party_is_untold(&world->parties[p])))
            continue;
        if (!state->partner_untold)
            blame_awaited(diagnosis, p);
    }
    diagnosis->partner_untold = untold && diagnosis->culprit_count == 0;
    if (diagnosis->partner_untold)
        diagnosis->verdict = VERDICT_UNKNOWN;
}

bool blame_sinks(struct diagnosis *diagnosis) {
    bool dead = false;
    uint8_t *sinks = find_sinks(diagnosis, &dead);
    if (sinks)
        blame_these(diagnosis, sinks, dead);
    free(sinks);
    return sinks != NULL && !diagnosis->no_memory;
}
