/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: joining by uid, expanding members.
 * Must not live here: who waits for whom.
 */
#include "analyzer/job/crowding.h"
#include "analyzer/load/rows.h"
#include "analyzer/wait_for_graph/world.h"

#include <stdlib.h>
#include <string.h>

enum { READ_TRIES = 64 };
#define MEMBERS_LOOKED_AT_MOST (UINT64_C(1) << 25) /* each may become a wait of 16 bytes: half a gigabyte */

/* ---- parties --------------------------------------------------------------------------------- */

bool party_is_untold(const struct party *party) {
    return party->elsewhere || party->unread || party->outdated;
}

bool world_is_imported(const struct world *world) {
    return world->dump_count > 0 && world->parties[0].dump->header->pid == 0;
}

/* No process wrote it, and there was nothing to write. */
static bool is_unread(const struct dump_header *header) {
    return header->pid == 0 && header->state & STATE_SWITCHED_OFF;
}

static bool build_parties(struct world *world, const struct job *job, const enum process_state *states) {
    world->dump_count = (uint32_t)job->count;
    world->party_count = (uint32_t)(job->count + job->missing_count);
    world->parties = calloc(world->party_count + 1, sizeof *world->parties);
    world->rank_count = job->ranks_expected > 0 ? (uint32_t)job->ranks_expected : 0;
    world->party_of_rank = malloc((world->rank_count + 1) * sizeof *world->party_of_rank);
    if (!world->parties || !world->party_of_rank)
        return false;
    memset(world->party_of_rank, 0xff, (world->rank_count + 1) * sizeof *world->party_of_rank);
    for (size_t d = 0; d < job->count; d++)
        world->parties[d] = (struct party){.rank = job->dumps[d]->header->rank,
                                           .dump = job->dumps[d],
                                           .unread = is_unread(job->dumps[d]->header),
                                           .process = states[d]};
    for (size_t m = 0; m < job->missing_count; m++)
        world->parties[job->count + m] = (struct party){
            .rank = job->missing[m],
            .process = PROCESS_ELSEWHERE,
            .elsewhere = job->missing_stubs && job->missing_stubs[m] ? job->missing_stubs[m]->host : NULL};
    for (uint32_t p = 0; p < world->party_count; p++)
        if (world->parties[p].rank >= 0 && (uint32_t)world->parties[p].rank < world->rank_count)
            world->party_of_rank[world->parties[p].rank] = p;
    return true;
}

/* ---- communicators --------------------------------------------------------------------------- */

struct found {
    uint64_t uid, members_hash;
    struct membership member;
};

static int compare_found(const void *a, const void *b) {
    const struct found *left = a, *right = b;
    if (left->uid != right->uid)
        return left->uid < right->uid ? -1 : 1;
    if (left->members_hash != right->members_hash)
        return left->members_hash < right->members_hash ? -1 : 1;
    if (left->member.rank != right->member.rank)
        return left->member.rank < right->member.rank ? -1 : 1;
    return left->member.party < right->member.party ? -1 : left->member.party > right->member.party;
}

static const struct dump_communicator *local_of(const struct world *world, const struct membership *member) {
    return &world->parties[member->party].dump->communicators[member->local];
}

static bool is_shared(const struct dump_communicator *communicator) {
    return communicator->definition && communicator->definition->my_rank >= 0 &&
           !(communicator->definition->flags & (COMMUNICATOR_UID_UNSURE | COMMUNICATOR_FOREIGN));
}

static struct found *list_definitions(struct world *world, size_t *count) {
    size_t total = 0;
    for (uint32_t p = 0; p < world->dump_count; p++)
        total += world->parties[p].dump->communicator_count;
    struct found *found = malloc((total + 1) * sizeof *found);
    *count = 0;
    for (uint32_t p = 0; found && p < world->dump_count; p++) {
        const struct dump *dump = world->parties[p].dump;
        for (uint32_t local = 0; local < dump->communicator_count; local++) {
            const struct communicator_definition *definition = dump->communicators[local].definition;
            if (is_shared(&dump->communicators[local]))
                found[(*count)++] = (struct found){definition->uid,
                                                   definition->members_hash,
                                                   {.party = p, .local = local, .rank = definition->my_rank}};
        }
    }
    if (found)
        qsort(found, *count, sizeof *found, compare_found);
    return found;
}

/* One communicator from all definitions of its uid, which begin at `found`. */
static void join_found(struct world *world, const struct found *found, size_t count) {
    struct shared_communicator *communicator = &world->communicators[world->communicator_count];
    const struct communicator_definition *first = local_of(world, &found[0].member)->definition;
    *communicator = (struct shared_communicator){.uid = found[0].uid, .name = "", .kind = first->kind};
    communicator->present = world->memberships;
    bool inter = first->kind == COMMUNICATOR_INTER;
    communicator->side_size[0] = first->size;
    communicator->side_size[1] = inter ? first->remote_size : 0;
    for (size_t i = 0; i < count; i++) {
        const struct dump_communicator *local = local_of(world, &found[i].member);
        unsigned side = inter && found[i].members_hash != found[0].members_hash;
        if (local->definition->kind != first->kind || local->definition->size != communicator->side_size[side])
            continue; /* contradicts the first: not the same thing */
        if (!communicator->name[0])
            communicator->name = local->name;
        communicator->present[communicator->present_count] = found[i].member;
        communicator->present[communicator->present_count++].side = (uint8_t)side;
        world->places[found[i].member.party][found[i].member.local] = world->communicator_count;
    }
    world->memberships += communicator->present_count;
    world->communicator_count++;
}

static bool build_places(struct world *world) {
    world->places = calloc(world->dump_count + 1, sizeof *world->places);
    for (uint32_t p = 0; world->places && p < world->dump_count; p++) {
        size_t bytes = (world->parties[p].dump->communicator_count + 1) * sizeof **world->places;
        if (!(world->places[p] = malloc(bytes)))
            return false;
        memset(world->places[p], 0xff, bytes);
    }
    return world->places != NULL;
}

bool world_build(struct world *world, const struct job *job, const enum process_state *states) {
    struct crowding worst;
    *world = (struct world){.crowded = crowding_find(job->dumps, job->count, &worst)};
    if (!build_parties(world, job, states) || !build_places(world))
        return false;
    size_t count;
    struct found *found = list_definitions(world, &count);
    world->communicators = malloc((count + 1) * sizeof *world->communicators);
    struct membership *all = world->memberships = malloc((count + 1) * sizeof *world->memberships);
    bool done = found && world->communicators && all;
    for (size_t i = 0, end; done && i < count; i = end) {
        for (end = i + 1; end < count && found[end].uid == found[i].uid; end++)
            ;
        join_found(world, &found[i], end - i);
    }
    world->memberships = all;
    free(found);
    return done;
}

void world_free(struct world *world) {
    for (uint32_t c = 0; c < world->communicator_count; c++) {
        free(world->communicators[c].side_parties[0]);
        free(world->communicators[c].side_parties[1]);
    }
    for (uint32_t p = 0; world->places && p < world->dump_count; p++)
        free(world->places[p]);
    free(world->places);
    free(world->communicators);
    free(world->memberships);
    free(world->party_of_rank);
    free(world->parties);
    *world = (struct world){0};
}

struct shared_communicator *world_communicator(const struct world *world, uint32_t party, uint32_t local) {
    if (party >= world->dump_count || local >= world->parties[party].dump->communicator_count ||
        world->places[party][local] == NOBODY)
        return NULL;
    return &world->communicators[world->places[party][local]];
}

/* ---- members --------------------------------------------------------------------------------- */

static uint32_t party_of(const struct world *world, int64_t rank) {
    return rank >= 0 && rank < world->rank_count ? world->party_of_rank[rank] : NOBODY;
}

/* Members from a list of world ranks that one of them wrote. */
static bool members_from_runs(const struct world *world, const struct shared_communicator *communicator, unsigned side,
                              uint32_t *parties) {
    for (uint32_t i = 0; i < communicator->present_count; i++) {
        const struct dump_communicator *local = local_of(world, &communicator->present[i]);
        if (communicator->present[i].side != side || !local->runs)
            continue;
        uint32_t at = 0;
        for (uint32_t run = 0; run < local->definition->run_count; run++)
            for (uint32_t k = 0; k < local->runs[run].count && at < communicator->side_size[side]; k++)
                parties[at++] = party_of(world, local->runs[run].start + (int64_t)local->runs[run].stride * k);
        return true;
    }
    return false;
}

/* The same from the other side of an intercommunicator, where nobody of this one left a dump. */
static bool members_from_remote(const struct world *world, const struct shared_communicator *communicator,
                                unsigned side, uint32_t *parties) {
    for (uint32_t i = 0; i < communicator->present_count; i++) {
        const struct dump_communicator *local = local_of(world, &communicator->present[i]);
        if (communicator->present[i].side == side || !local->remote_runs)
            continue;
        for (uint32_t rank = 0; rank < communicator->side_size[side]; rank++)
            parties[rank] = party_of(world, dump_peer_rank(local, (int32_t)rank));
        return true;
    }
    return false;
}

/* Without a list: who has a dump says who it is; in a communicator of all, where everybody's rank is its world rank,
 * the others are known as well. */
static void members_from_dumps(const struct world *world, const struct shared_communicator *communicator, unsigned side,
                               uint32_t *parties) {
    bool like_world = communicator->side_size[side] == world->rank_count;
    for (uint32_t i = 0; i < communicator->present_count; i++) {
        const struct membership *member = &communicator->present[i];
        if (member->side != side || (uint32_t)member->rank >= communicator->side_size[side])
            continue;
        parties[member->rank] = member->party;
        like_world &= world->parties[member->party].rank == member->rank;
    }
    for (uint32_t rank = 0; like_world && rank < communicator->side_size[side]; rank++)
        if (parties[rank] == NOBODY)
            parties[rank] = world->party_of_rank[rank];
}

bool world_may_look_at(struct world *world, uint32_t members) {
    world->members_looked_at += members;
    return world->members_looked_at <= MEMBERS_LOOKED_AT_MOST;
}

const uint32_t *world_members(struct world *world, struct shared_communicator *communicator, unsigned side) {
    if (communicator->side_parties[side])
        return communicator->side_parties[side];
    size_t bytes = ((size_t)communicator->side_size[side] + 1) * sizeof(uint32_t);
    uint32_t *parties = malloc(bytes);
    if (!parties)
        return NULL;
    memset(parties, 0xff, bytes);
    if (!members_from_runs(world, communicator, side, parties) &&
        !members_from_remote(world, communicator, side, parties))
        members_from_dumps(world, communicator, side, parties);
    return communicator->side_parties[side] = parties;
}

const struct membership *world_membership(const struct shared_communicator *communicator, uint32_t party) {
    for (uint32_t i = 0; i < communicator->present_count; i++)
        if (communicator->present[i].party == party)
            return &communicator->present[i];
    return NULL;
}

/* What one dump's own list of members says. */
static uint32_t peer_by_own_list(const struct world *world, uint32_t party, uint32_t local, int32_t peer) {
    return party_of(world, dump_peer_rank(dump_communicator(world->parties[party].dump, local), peer));
}

uint32_t world_peer(struct world *world, uint32_t party, uint32_t local, int32_t peer) {
    if (peer < 0)
        return NOBODY;
    struct shared_communicator *communicator = world_communicator(world, party, local);
    if (!communicator)
        return peer_by_own_list(world, party, local, peer);
    unsigned side = 0;
    if (communicator->kind == COMMUNICATOR_INTER) {
        const struct membership *member = world_membership(communicator, party);
        side = member && member->side == 0;
    }
    const uint32_t *members = world_members(world, communicator, side);
    return members && (uint32_t)peer < communicator->side_size[side] ? members[peer] : NOBODY;
}

/* ---- progress -------------------------------------------------------------------------------- */

uint64_t membership_enqueued(const struct world *world, const struct membership *member) {
    const struct dump_communicator *local = local_of(world, member);
    if (local->freed)
        return local->freed_enqueued;
    return local->progress ? __atomic_load_n(&local->progress->enqueued, __ATOMIC_ACQUIRE) : 0;
}

uint64_t membership_starts(const struct world *world, const struct membership *member, uint32_t seq) {
    return persistent_starts(world->parties[member->party].dump, member->local, seq);
}

bool membership_history(const struct world *world, const struct membership *member, struct progress *copy) {
    const struct dump_communicator *local = local_of(world, member);
    if (!local->freed)
        return membership_progress(world, member, copy);
    *copy = (struct progress){.comm = member->local,
                              .enqueued = local->freed_enqueued,
                              .completed = local->freed_completed,
                              .hashed = local->freed_enqueued,
                              .prefix_hash = local->freed_hash};
    return local->freed_completed == local->freed_enqueued;
}

bool membership_progress(const struct world *world, const struct membership *member, struct progress *copy) {
    const struct dump_communicator *local = local_of(world, member);
    for (int i = 0; i < READ_TRIES && local->progress && !local->freed; i++) {
        uint64_t version = __atomic_load_n(&local->progress->version, __ATOMIC_ACQUIRE);
        if (version % 2 != 0 || version == 0)
            continue;
        *copy = *local->progress;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&local->progress->version, __ATOMIC_RELAXED) == version)
            return copy->comm == member->local;
    }
    return false;
}
