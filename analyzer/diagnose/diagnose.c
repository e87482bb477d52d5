/* SPDX-License-Identifier: Apache-2.0
 *
 * The verdict.
 * Lives here: which of the verdicts holds, the cycle, who is to blame.
 * Must not live here: sentences, how waits are found (wait_for_graph_build.c).
 */
#include "analyzer/diagnose/diagnose.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/statistics.h"
#include "analyzer/diagnose/beats.h"
#include "analyzer/diagnose/skipped.h"
#include "analyzer/load/rows.h"

enum { CYCLE_MOST = 4096 };
enum { REACHED = 1, PERHAPS_REACHED = 2 };

const char *verdict_name(enum verdict verdict) {
    static const char *const names[] = {"ok", "hang", "desync", "deadlock", "dead_rank", "unknown"};
    return names[verdict];
}

const char *culprit_state_name(enum culprit_state state) {
    static const char *const names[] = {"never_entered", "blocked",      "mismatch",  "dead",
                                        "no_dump",       "in_user_code", "finalised", "not_collected"};
    return names[state];
}

/* ---- who is waited for ----------------------------------------------------------------------- */

size_t stalled_ranks(struct diagnosis *diagnosis, const struct stalled *stalled, bool missing, int32_t *ranks,
                     size_t capacity) {
    struct world *world = &diagnosis->world;
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

static bool waits_in(const struct diagnosis *diagnosis, const struct stalled *stalled,
                     const struct membership *member) {
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    const struct party_state *state = &waits->parties[member->party];
    for (uint32_t i = 0; i < state->wait_count; i++)
        if (wait_is_in(&waits->items[state->first_wait + i], stalled))
            return true;
    return state->doing == DOING_BLOCKED && !stalled->device &&
           has_pending(diagnosis->world.parties[member->party].dump, member->local, stalled);
}

size_t stalled_waiting(const struct diagnosis *diagnosis, const struct stalled *stalled, int32_t *ranks,
                       size_t capacity) {
    size_t count = 0;
    for (uint32_t i = 0; i < stalled->communicator->present_count; i++) {
        const struct membership *member = &stalled->communicator->present[i];
        if (!waits_in(diagnosis, stalled, member))
            continue;
        if (count < capacity)
            ranks[count] = diagnosis->world.parties[member->party].rank;
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
static void collect_parties(const struct diagnosis *diagnosis, uint32_t node, uint8_t *seen, unsigned depth) {
    const struct and_or_graph *graph = &diagnosis->wait_for_graph.graph;
    if (seen[node])
        return;
    seen[node] = 1;
    if (node < diagnosis->world.party_count || depth == 8)
        return;
    for (size_t i = graph->first[node]; i < graph->first[node + 1]; i++)
        collect_parties(diagnosis, graph->targets[i], seen, depth + 1);
}

/* Ranks of the parties behind a node. */
static size_t ranks_behind(const struct diagnosis *diagnosis, uint32_t node, uint32_t self, int32_t *ranks,
                           size_t capacity) {
    uint8_t *seen = calloc((size_t)diagnosis->wait_for_graph.graph.node_count + 1, 1);
    size_t count = 0;
    if (!seen)
        return 0;
    collect_parties(diagnosis, node, seen, 0);
    for (uint32_t p = 0; p < diagnosis->world.party_count && count < capacity; p++)
        if (seen[p] && diagnosis->world.parties[p].rank >= 0 && p != self)
            ranks[count++] = diagnosis->world.parties[p].rank;
    if (seen[self] && count == 0 && capacity > 0) /* for itself */
        ranks[count++] = diagnosis->world.parties[self].rank;
    free(seen);
    qsort(ranks, count, sizeof *ranks, compare_int32);
    return count;
}

size_t wait_targets(const struct diagnosis *diagnosis, const struct wait *wait, int32_t *ranks, size_t capacity) {
    return ranks_behind(diagnosis, wait->node, wait->party, ranks, capacity);
}

size_t wait_possible_targets(const struct diagnosis *diagnosis, const struct wait *wait, int32_t *ranks,
                             size_t capacity) {
    return wait->perhaps == AND_OR_GRAPH_NO_NODE ? 0
                                                 : ranks_behind(diagnosis, wait->perhaps, wait->party, ranks, capacity);
}

/* ---- culprits -------------------------------------------------------------------------------- */

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

const struct stalled *held_before(const struct diagnosis *diagnosis, uint32_t party) {
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    for (size_t i = 0; i < waits->stalled_count; i++) {
        const struct stalled *stalled = &waits->stalled[i];
        const struct membership *member =
            stalled->device && !stalled->replayed ? world_membership(stalled->communicator, party) : NULL;
        if (member && membership_enqueued(&diagnosis->world, member) > stalled->seq &&
            stalled_misses(&diagnosis->world, stalled, member))
            return stalled;
    }
    return NULL;
}

bool not_begun_find(const struct diagnosis *diagnosis, uint32_t party, struct not_begun *found) {
    const struct world *world = &diagnosis->world;
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

static enum culprit_state culprit_state_of(const struct diagnosis *diagnosis, uint32_t party) {
    enum doing doing = diagnosis->wait_for_graph.parties[party].doing;
    bool held = diagnosis->wait_for_graph.parties[party].held || held_before(diagnosis, party);
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

/* The party that is known to have died before anybody else, NOBODY. Parties with a dump are numbered as the dumps. */
static uint32_t certain_death(const struct diagnosis *diagnosis) {
    if (diagnosis->end.dead_known && diagnosis->end.sure)
        return (uint32_t)diagnosis->end.dead;
    return diagnosis->first_death.missed ? diagnosis->first_death.party : NOBODY;
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
        collect_parties(diagnosis, waits->items[i].node, seen, 0);
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

/* ---- verdicts -------------------------------------------------------------------------------- */

static void blame_mismatch(struct diagnosis *diagnosis) {
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

static bool find_cycle(struct diagnosis *diagnosis) {
    const struct and_or_graph *graph = &diagnosis->wait_for_graph.graph;
    uint32_t start = 0, *nodes = malloc(CYCLE_MOST * sizeof *nodes);
    while (start < diagnosis->world.party_count && graph->released[start])
        start++;
    diagnosis->cycle = malloc(CYCLE_MOST * sizeof *diagnosis->cycle);
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

static void blame_cycle(struct diagnosis *diagnosis) {
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
static void blame_sinks(struct diagnosis *diagnosis, const uint8_t *sinks, bool dead) {
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
            add_culprit(diagnosis, p, culprit_state_of(diagnosis, p), BLAME_AWAITED);
    }
    diagnosis->partner_untold = untold && diagnosis->culprit_count == 0;
    if (diagnosis->partner_untold)
        diagnosis->verdict = VERDICT_UNKNOWN;
}

/* It goes on with what it does, and has not come to MPI_Finalize. */
static bool is_at_work(const struct party_state *state) {
    return state->doing == DOING_USER_CODE || state->doing == DOING_CALL || state->doing == DOING_POLL;
}

/* No MPI lets a process out of MPI_Finalize before all have come to it. */
static void judge_finalize(struct diagnosis *diagnosis) {
    for (uint32_t p = 0; p < diagnosis->world.party_count; p++)
        if (is_at_work(&diagnosis->wait_for_graph.parties[p]) &&
            !(diagnosis->world.parties[p].dump->header->state & STATE_SWITCHED_OFF)) {
            diagnosis->verdict = VERDICT_HANG;
            add_culprit(diagnosis, p, culprit_state_of(diagnosis, p), BLAME_AWAITED);
        }
}

/* Whether ranks wait in MPI_Finalize, or did. A library that has lost its launcher gives that up: in a job that is
 * over, whoever never came to it was waited for. */
static bool waits_in_finalize(const struct diagnosis *diagnosis) {
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    for (uint32_t p = 0; p < diagnosis->world.dump_count; p++)
        if (waits->parties[p].doing == DOING_FINALIZE ||
            (!waits->any_alive && waits->parties[p].doing == DOING_FINISHED &&
             diagnosis->world.parties[p].dump->header->finalise_ticks > 0))
            return true;
    return false;
}

/* Whether all are on record, and exited while nobody waited: a program may end so that has done its work. */
static bool all_left_by_exit(const struct world *world) {
    bool finalised = true;
    for (uint32_t p = 0; p < world->dump_count; p++) {
        if (!exited_at_work(world->parties[p].dump))
            return false;
        finalised &= has_finished(world->parties[p].dump);
    }
    return !finalised && world->party_count == world->dump_count;
}

/* Nobody waits in a call that tells for whom; what can still be said. */
static void judge_the_rest(struct diagnosis *diagnosis) {
    diagnosis->left_by_exit = certain_death(diagnosis) == NOBODY && all_left_by_exit(&diagnosis->world);
    if (diagnosis->left_by_exit) {
        diagnosis->verdict = VERDICT_UNKNOWN;
        return;
    }
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    uint32_t in_init = 0, gone = 0, missing = 0;
    for (uint32_t p = 0; p < diagnosis->world.party_count; p++) {
        in_init += waits->parties[p].doing == DOING_INIT;
        gone += waits->parties[p].doing == DOING_GONE;
        missing += waits->parties[p].doing == DOING_UNKNOWN;
    }
    bool dead = gone > 0 || (in_init > 0 && missing > 0);
    diagnosis->verdict = dead ? VERDICT_DEAD_RANK : in_init > 0 ? VERDICT_HANG : VERDICT_OK;
    if (diagnosis->verdict == VERDICT_OK && waits_in_finalize(diagnosis))
        judge_finalize(diagnosis);
    for (uint32_t p = 0; dead && p < diagnosis->world.party_count; p++)
        if (waits->parties[p].doing == DOING_GONE || (in_init > 0 && waits->parties[p].doing == DOING_UNKNOWN)) {
            add_culprit(diagnosis, p, culprit_state_of(diagnosis, p), BLAME_AWAITED);
        }
}

static bool anybody_waits(const struct diagnosis *diagnosis) {
    for (uint32_t p = 0; p < diagnosis->world.party_count; p++)
        if (diagnosis->wait_for_graph.parties[p].doing == DOING_BLOCKED || diagnosis->wait_for_graph.parties[p].stopped)
            return true;
    return false;
}

static bool lane_has_failed_collectives(const struct dump *dump, const struct dump_lane *lane) {
    for (uint32_t i = 0; i < lane->operation_count; i++) {
        struct operation_row row;
        enum row_state read = operation_row_read(dump, &lane->operations[i], &row);
        if ((read == ROW_STABLE || read == ROW_TORN) && row.failed > 0 &&
            dump_call(dump, row.call)->call_class == CLASS_COLLECTIVE)
            return true;
    }
    return false;
}

/* Ranks whose collectives returned errors have been told that they disagree: by lengths that do not fit, or by a call
 * that the others made and they did not. */
static bool collectives_failed(const struct diagnosis *diagnosis) {
    for (uint32_t p = 0; p < diagnosis->world.party_count; p++) {
        const struct dump *dump = diagnosis->world.parties[p].dump;
        for (uint32_t lane = 0; dump && lane < dump->lane_count; lane++)
            if (lane_has_failed_collectives(dump, &dump->lanes[lane]))
                return true;
    }
    return false;
}

/* NCCL moves as many bytes as both sides say; where they differ it never ends, or overwrites something. */
static bool find_unequal_message(struct diagnosis *diagnosis) {
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    for (size_t i = 0; i < waits->count; i++) {
        const struct wait *wait = &waits->items[i];
        if (!wait->unequal || wait->peer_party == NOBODY)
            continue;
        bool sends = wait->call->call_class == CLASS_SEND;
        const struct signature own = {
            .call = wait->call, .bytes = wait->bytes, .root = PEER_NONE, .stack = wait->stack};
        const struct signature other = {
            .call = wait->other_call, .bytes = wait->other_bytes, .root = PEER_NONE, .stack = wait->other_stack};
        bool done = mismatch_of_message(&diagnosis->mismatch, wait->communicator, wait->seq,
                                        sends ? wait->party : wait->peer_party, sends ? &own : &other,
                                        sends ? wait->peer_party : wait->party, sends ? &other : &own);
        diagnosis->mismatch.number = wait->number;
        diagnosis->mismatch.number_party = wait->party;
        return done;
    }
    return true;
}

/* A collective that all have come to, and that cannot end as they called it. */
static bool find_unfit_sizes(struct diagnosis *diagnosis) {
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    bool done = true;
    for (size_t i = 0; done && i < waits->stalled_count && !diagnosis->mismatch.communicator; i++)
        if (waits->stalled[i].device && !waits->stalled[i].replayed && waits->stalled[i].missing == 0)
            done = mismatch_of_sizes(&diagnosis->mismatch, &diagnosis->world, waits->stalled[i].communicator,
                                     waits->stalled[i].seq);
    return done;
}

static bool judge_waits(struct diagnosis *diagnosis) {
    bool dead = false;
    if (!desync_find(&diagnosis->mismatch, &diagnosis->overcome, &diagnosis->world))
        return false;
    /* a job may come to its end with it, and wrong results */
    bool differ = diagnosis->mismatch.communicator || diagnosis->overcome.communicator;
    if (differ && !anybody_waits(diagnosis) && collectives_failed(diagnosis)) {
        mismatch_free(&diagnosis->mismatch);
        mismatch_free(&diagnosis->overcome);
    }
    if (!diagnosis->mismatch.communicator && (!find_unequal_message(diagnosis) || !find_unfit_sizes(diagnosis)))
        return false;
    if (diagnosis->mismatch.communicator) {
        blame_mismatch(diagnosis);
        return true;
    }
    if (!anybody_waits(diagnosis)) {
        judge_the_rest(diagnosis);
        return true;
    }
    if (find_cycle(diagnosis)) {
        blame_cycle(diagnosis);
        return true;
    }
    uint8_t *sinks = find_sinks(diagnosis, &dead);
    if (sinks)
        blame_sinks(diagnosis, sinks, dead);
    free(sinks);
    return sinks != NULL && !diagnosis->no_memory;
}

static int compare_culprits(const void *a, const void *b) {
    const struct culprit *left = a, *right = b;
    return left->party < right->party ? -1 : left->party > right->party;
}

/* Which parties came on between two looks, or may have: of processes that cannot be asked there may be just a copy.
 * NULL when none is known to. *unknown is set where one is not known by its rank. */
static bool *moving_parties(struct diagnosis *diagnosis, const struct diagnose_request *request, bool *unknown) {
    const struct world *world = &diagnosis->world;
    bool *moving = request->moving_count > 0 ? calloc((size_t)world->party_count + 1, sizeof *moving) : NULL;
    diagnosis->no_memory |= request->moving_count > 0 && !moving;
    for (uint32_t p = 0; moving && p < world->dump_count; p++)
        moving[p] = world->parties[p].process != PROCESS_RUNS && world->parties[p].process != PROCESS_STOPPED;
    for (size_t i = 0; moving && i < request->moving_count; i++) {
        int32_t rank = request->moving[i];
        uint32_t party = rank >= 0 && (uint32_t)rank < world->rank_count ? world->party_of_rank[rank] : NOBODY;
        if (party == NOBODY)
            *unknown = true;
        else
            moving[party] = true;
    }
    return moving;
}

/* Whoever waits for one that moves may be released; a circle of those that do not never is. */
static void judge_those_that_stand(struct diagnosis *diagnosis) {
    diagnosis->verdict = VERDICT_OK;
    if (find_cycle(diagnosis))
        blame_cycle(diagnosis);
}

static bool find_waits(struct diagnosis *diagnosis, const struct diagnose_request *request, bool deaths_left_out) {
    bool unknown = false, *moving = moving_parties(diagnosis, request, &unknown);
    const struct circumstances circumstances = {.settled = request->settled || (request->moving_count > 0 && !unknown),
                                                .moving = moving,
                                                .now = request->settled ? request->now : NULL,
                                                .dead = certain_death(diagnosis),
                                                .first = &diagnosis->first_death,
                                                .deaths_left_out = deaths_left_out,
                                                .suspended = diagnosis->suspended};
    bool done = wait_for_graph_build(&diagnosis->wait_for_graph, &diagnosis->world, &circumstances);
    free(moving);
    return done && !diagnosis->no_memory;
}

/* A GPU that waits in one collective goes on with other streams, and begins there what others wait for: only time tells
 * that it does not. */
static bool circle_has_gpus(const struct diagnosis *diagnosis) {
    for (size_t i = 0; i < diagnosis->cycle_count; i++)
        if (diagnosis->wait_for_graph.items[diagnosis->cycle[i]].device)
            return diagnosis->verdict == VERDICT_DEADLOCK;
    return false;
}

/* Whether all that speaks against the job is that it was somewhere when it ended: ranks waited for others that were
 * elsewhere, or had not begun. */
static bool may_have_worked(const struct diagnosis *diagnosis) {
    bool nobody_dead = diagnosis->verdict == VERDICT_DEAD_RANK && diagnosis->wait_for_graph.count == 0;
    for (size_t i = 0; i < diagnosis->culprit_count; i++)
        nobody_dead &=
            diagnosis->culprits[i].state == CULPRIT_NO_DUMP || diagnosis->culprits[i].state == CULPRIT_NOT_COLLECTED;
    return diagnosis->verdict == VERDICT_HANG || diagnosis->partner_untold || nobody_dead || circle_has_gpus(diagnosis);
}

/* Whether somebody had not come to the end of its work, in a job that is over. */
static bool ended_at_work(const struct diagnosis *diagnosis) {
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    for (uint32_t p = 0; !waits->any_alive && p < diagnosis->world.dump_count; p++) {
        const struct dump_header *header = diagnosis->world.parties[p].dump->header;
        if (header->pid != 0 && !(header->state & STATE_SWITCHED_OFF) && is_at_work(&waits->parties[p]))
            return true;
    }
    return false;
}

/* A process that is killed, or leaves by _exit(), notes nothing in its dump, and where its launcher then ends the
 * others in the middle of their work nobody waits for it. That is fine only where all are known to have been ended
 * together. */
static void weigh_end(struct diagnosis *diagnosis) {
    bool together = diagnosis->end.monotonic_ns > 0 && !diagnosis->end.dead_known;
    if (diagnosis->verdict == VERDICT_OK && !together && ended_at_work(diagnosis))
        diagnosis->verdict = VERDICT_UNKNOWN;
}

/* Whether nobody is missing of those who are waited for, and somebody went on from there: the others were about to as
 * well. Where a transport fails, those that went on wait in the next call. */
static bool others_went_on(const struct diagnosis *diagnosis) {
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    bool went_on = false;
    for (uint32_t p = 0; p < diagnosis->world.dump_count; p++) {
        bool recorded = !(diagnosis->world.parties[p].dump->header->state & STATE_SWITCHED_OFF);
        went_on |= recorded && (is_at_work(&waits->parties[p]) || waits->parties[p].doing == DOING_GONE);
    }
    return went_on && diagnosis->culprit_count == 0 && diagnosis->cycle_count == 0;
}

/* Whether they are of one moment that is over, as a recorder of another tool wrote it: that they do not change tells
 * nothing. */
static bool is_imported(const struct world *world) {
    bool imported = world->dump_count > 0;
    for (uint32_t p = 0; p < world->dump_count; p++)
        imported &= world->parties[p].unread || world->parties[p].dump->lived_on_ms > 0;
    return imported;
}

/* Waits that were young when it was written are those of a job at work. */
static bool weigh_imported(struct diagnosis *diagnosis, const struct diagnose_request *request) {
    if (!standing_find(&diagnosis->standing, &diagnosis->wait_for_graph, request->end))
        return false;
    if (diagnosis->standing.kind == STANDING_BRIEF) {
        diagnosis->verdict = VERDICT_OK;
        diagnosis->culprit_count = diagnosis->cycle_count = 0;
    } else {
        diagnosis->standing = (struct standing){.party = NOBODY};
    }
    return true;
}

/* A job that nobody saw stand: does it look as if it had? */
static bool weigh(struct diagnosis *diagnosis, const struct diagnose_request *request) {
    weigh_end(diagnosis);
    if (is_imported(&diagnosis->world) && may_have_worked(diagnosis))
        return weigh_imported(diagnosis, request);
    bool stays = diagnosis->verdict == VERDICT_DEADLOCK && !circle_has_gpus(diagnosis);
    if (request->settled || request->moving_count > 0 || diagnosis->wait_for_graph.any_alive ||
        (!stays && !may_have_worked(diagnosis)))
        return true;
    if (!standing_find(&diagnosis->standing, &diagnosis->wait_for_graph, request->end))
        return false;
    if (stays) /* a circle never opens: for how long it stood is told, and decides nothing */
        return true;
    if (diagnosis->standing.kind == STANDING_BRIEF) {
        bool first_known = request->end && request->end->dead_known; /* of a sure one the verdict is another */
        diagnosis->verdict = first_known ? VERDICT_UNKNOWN : VERDICT_OK;
        diagnosis->culprit_count = diagnosis->cycle_count = 0;
    } else if (diagnosis->standing.kind == STANDING_UNTOLD && diagnosis->verdict == VERDICT_DEADLOCK) {
        diagnosis->verdict = VERDICT_HANG;
    } else if (diagnosis->standing.kind == STANDING_UNTOLD && others_went_on(diagnosis)) {
        diagnosis->verdict = VERDICT_UNKNOWN;
    }
    return true;
}

static struct absence absence_of(const struct diagnosis *diagnosis, const struct culprit *culprit,
                                 const struct moment *until) {
    const struct dump *dump = diagnosis->world.parties[culprit->party].dump;
    if (culprit->state == CULPRIT_BLOCKED) /* it was called, and a GPU has not begun it */
        return culprit->absence;
    return dump && dump->header->pid == 0 ? absence_of_import(&diagnosis->wait_for_graph, culprit->party)
                                          : absence_find(&diagnosis->wait_for_graph, culprit->party, until);
}

/* Until when absences are counted: while a job stands until it was seen to, of one that is over until its end. NULL:
 * that is not known, or nothing is to be weighed. */
static const struct moment *absent_until(const struct diagnosis *diagnosis, const struct diagnose_request *request) {
    enum standing_kind kind = diagnosis->standing.kind;
    if (diagnosis->verdict != VERDICT_HANG || diagnosis->culprit_count == 0 || diagnosis->cycle_count > 0)
        return NULL;
    if (kind == STANDING_LONG || kind == STANDING_UNTOLD)
        return &diagnosis->standing.until;
    if (is_imported(&diagnosis->world)) /* until its files were written */
        return &diagnosis->standing.until;
    return kind == STANDING_NONE && request->settled ? request->now : NULL;
}

/* Whether those that others wait for were away, all of them, for no longer than what may be work: then a job that
 * stands, or was killed meanwhile, need not hang. */
static void weigh_absences(struct diagnosis *diagnosis, const struct diagnose_request *request) {
    const struct moment *until = absent_until(diagnosis, request);
    bool asked = until != NULL;
    int64_t away = 0, longest = -1;
    diagnosis->may_come_back = asked;
    for (size_t i = 0; asked && i < diagnosis->culprit_count; i++) {
        struct culprit *culprit = &diagnosis->culprits[i];
        const struct dump *dump = diagnosis->world.parties[culprit->party].dump;
        if (culprit->state == CULPRIT_NO_DUMP) /* beside others, whose absences are known */
            continue;
        culprit->absence = absence_of(diagnosis, culprit, until);
        if (dump && dump->header->pid == 0) /* how long it lasted is known only where the file's time is */
            diagnosis->may_come_back &= dump->lived_on_ms > 0;
        diagnosis->may_come_back &= culprit->absence.away_ns >= 0;
        away = culprit->absence.away_ns > away ? culprit->absence.away_ns : away;
        longest = culprit->absence.longest_ns > longest ? culprit->absence.longest_ns : longest;
    }
    if (!diagnosis->may_come_back || away <= ABSENCE_GIVEN_NS)
        return;
    int64_t of_peers = absence_longest(&diagnosis->world);
    longest = of_peers > longest ? of_peers : longest;
    diagnosis->may_come_back = away / ABSENCE_FEW <= longest;
}

/* ---- before the first death ------------------------------------------------------------------ */

static bool is_blamed(const struct diagnosis *diagnosis, uint32_t party) {
    for (size_t i = 0; i < diagnosis->culprit_count; i++)
        if (diagnosis->culprits[i].party == party)
            return true;
    return false;
}

/* Whether the job stood already when the first of its processes ended. A circle of waits never opens, however young it
 * is. Other waits are more than work where they are older than is usual, unless they are for the one that ended, of
 * itself: the longer its work took. */
static bool judge_as_it_stood(struct diagnosis *diagnosis, bool *stood) {
    if (!judge_waits(diagnosis))
        return false;
    bool circle = diagnosis->verdict == VERDICT_DEADLOCK && !circle_has_gpus(diagnosis);
    *stood = circle || diagnosis->verdict == VERDICT_DESYNC;
    if (diagnosis->verdict == VERDICT_DESYNC || diagnosis->verdict == VERDICT_OK)
        return true;
    if (!standing_find_before(&diagnosis->standing, &diagnosis->wait_for_graph, &diagnosis->first_death.when))
        return false;
    bool explains = diagnosis->first_death.of_itself && is_blamed(diagnosis, diagnosis->first_death.party);
    *stood |= diagnosis->standing.kind == STANDING_LONG && !explains;
    return true;
}

static void forget_judgement(struct diagnosis *diagnosis) {
    free(diagnosis->culprits);
    free(diagnosis->cycle);
    mismatch_free(&diagnosis->mismatch);
    mismatch_free(&diagnosis->overcome);
    wait_for_graph_free(&diagnosis->wait_for_graph);
    diagnosis->culprits = NULL;
    diagnosis->cycle = NULL;
    diagnosis->culprit_count = diagnosis->cycle_count = 0;
    diagnosis->standing = (struct standing){.party = NOBODY};
    diagnosis->verdict = VERDICT_UNKNOWN;
    diagnosis->partner_untold = false;
}

/* What holds a job up comes before its end: launchers and users end what stands, one process after the other. */
static bool judge(struct diagnosis *diagnosis, const struct diagnose_request *request) {
    diagnosis->first_death = first_death_find(&diagnosis->world, request->end);
    if (diagnosis->first_death.known) {
        if (!find_waits(diagnosis, request, true) || !judge_as_it_stood(diagnosis, &diagnosis->stood_before_death))
            return false;
        if (diagnosis->stood_before_death)
            return true;
        forget_judgement(diagnosis);
    }
    return find_waits(diagnosis, request, false) && judge_waits(diagnosis) && weigh(diagnosis, request);
}

/* A job that is stopped as a whole waits for none of its ranks. */
static bool is_stopped_as_a_whole(const struct world *world) {
    for (uint32_t p = 0; p < world->dump_count; p++)
        if (world->parties[p].process != PROCESS_STOPPED)
            return false;
    return world->dump_count > 0;
}

/* Where ranks disagree, or wait in a circle, that stays true when they go on. */
static void judge_suspended(struct diagnosis *diagnosis) {
    diagnosis->suspended &= diagnosis->verdict == VERDICT_HANG || diagnosis->verdict == VERDICT_OK;
    if (!diagnosis->suspended)
        return;
    diagnosis->verdict = VERDICT_OK;
    diagnosis->culprit_count = 0;
}

/* What ranks did whose dumps are on other hosts is known there: that others wait for them says nothing of them. */
static void judge_uncollected(struct diagnosis *diagnosis) {
    diagnosis->uncollected = (diagnosis->verdict == VERDICT_HANG || diagnosis->verdict == VERDICT_DEAD_RANK) &&
                             diagnosis->culprit_count > 0 && diagnosis->cycle_count == 0;
    for (size_t i = 0; i < diagnosis->culprit_count; i++)
        diagnosis->uncollected &= diagnosis->culprits[i].state == CULPRIT_NOT_COLLECTED;
    if (diagnosis->uncollected)
        diagnosis->verdict = VERDICT_UNKNOWN;
}

/* Where nothing holds the job up, that ranks disagreed is what there is to say. */
static void judge_overcome(struct diagnosis *diagnosis) {
    bool nobody = diagnosis->verdict == VERDICT_OK || diagnosis->verdict == VERDICT_UNKNOWN;
    if (!diagnosis->overcome.communicator || !nobody || diagnosis->culprit_count > 0)
        return;
    diagnosis->mismatch = diagnosis->overcome;
    diagnosis->overcome = (struct mismatch){0};
    blame_mismatch(diagnosis);
}

/* A rank that reads its modules, or is on a node that comes up late, has no dump yet. */
static void judge_starting(struct diagnosis *diagnosis) {
    const struct wait_for_graph *waits = &diagnosis->wait_for_graph;
    diagnosis->starting = waits->any_alive && diagnosis->verdict == VERDICT_DEAD_RANK;
    for (uint32_t p = 0; p < diagnosis->world.dump_count; p++)
        diagnosis->starting &= waits->parties[p].doing == DOING_INIT;
    if (diagnosis->starting)
        diagnosis->verdict = VERDICT_UNKNOWN;
}

/* Whether nothing but that no rank waits in a call speaks for the verdict, or against another one. */
static bool nothing_is_seen(const struct diagnosis *diagnosis) {
    bool untold = diagnosis->verdict == VERDICT_UNKNOWN && !diagnosis->partner_untold && !diagnosis->left_by_exit &&
                  !diagnosis->starting && !diagnosis->uncollected;
    return (diagnosis->verdict == VERDICT_OK || untold) && diagnosis->standing.kind == STANDING_NONE &&
           !diagnosis->suspended && diagnosis->culprit_count == 0;
}

/* What graphs replay shows where it has ended. Ranks that replay some, and of which nothing has been seen for long, may
 * wait for each other there. */
static bool judge_silence(struct diagnosis *diagnosis, const struct diagnose_request *request) {
    bool stands = request->settled && request->now, over = !diagnosis->wait_for_graph.any_alive;
    if (request->moving_count > 0 || (!stands && !over) || !nothing_is_seen(diagnosis))
        return true;
    if (!standing_find_silence(&diagnosis->silence, &diagnosis->wait_for_graph, request->end,
                               stands ? request->now : NULL))
        return false;
    enum standing_kind kind = diagnosis->silence.standing.kind;
    diagnosis->in_graphs = kind == STANDING_LONG || kind == STANDING_UNTOLD;
    if (diagnosis->in_graphs)
        diagnosis->verdict = VERDICT_UNKNOWN;
    return true;
}

bool diagnose(struct diagnosis *diagnosis, const struct job *job, const struct diagnose_request *request) {
    *diagnosis = (struct diagnosis){.verdict = VERDICT_UNKNOWN};
    if (request->end)
        diagnosis->end = *request->end;
    if (!world_build(&diagnosis->world, job, request->states) || !beats_take_in(&diagnosis->world) ||
        !beats_ask_the_living(&diagnosis->world))
        return false;
    diagnosis->suspended = is_stopped_as_a_whole(&diagnosis->world);
    if (request->moving_count > 0) {
        if (!find_waits(diagnosis, request, false))
            return false;
        judge_those_that_stand(diagnosis);
    } else if (!judge(diagnosis, request)) {
        return false;
    }
    judge_suspended(diagnosis);
    judge_uncollected(diagnosis);
    judge_starting(diagnosis);
    judge_overcome(diagnosis);
    if (!judge_silence(diagnosis, request))
        return false;
    weigh_absences(diagnosis, request);
    if (diagnosis->culprit_count > 0 && diagnosis->verdict != VERDICT_DEADLOCK)
        qsort(diagnosis->culprits, diagnosis->culprit_count, sizeof *diagnosis->culprits, compare_culprits);
    bool waits = diagnosis->verdict != VERDICT_OK && diagnosis->verdict != VERDICT_UNKNOWN;
    return !diagnosis->no_memory &&
           (!waits || unmatched_messages_find(&diagnosis->unmatched, &diagnosis->wait_for_graph));
}

bool diagnose_waits(struct diagnosis *diagnosis, const struct job *job, const struct diagnose_request *request) {
    *diagnosis = (struct diagnosis){.verdict = VERDICT_UNKNOWN};
    if (request->end)
        diagnosis->end = *request->end;
    if (!world_build(&diagnosis->world, job, request->states))
        return false;
    diagnosis->first_death = first_death_find(&diagnosis->world, request->end);
    return find_waits(diagnosis, request, false);
}

void diagnosis_free(struct diagnosis *diagnosis) {
    unmatched_messages_free(&diagnosis->unmatched);
    free(diagnosis->culprits);
    free(diagnosis->cycle);
    mismatch_free(&diagnosis->mismatch);
    mismatch_free(&diagnosis->overcome);
    wait_for_graph_free(&diagnosis->wait_for_graph);
    world_free(&diagnosis->world);
    *diagnosis = (struct diagnosis){0};
}
