/* SPDX-License-Identifier: Apache-2.0
 *
 * Who there is to wait for: every process of the job with or without a dump, and the communicators they share.
 * Lives here: joining communicators by uid, members as processes, how far each member came.
 * Must not live here: who waits for whom.
 */
#ifndef COMMTAP_WAIT_FOR_GRAPH_WORLD_H
#define COMMTAP_WAIT_FOR_GRAPH_WORLD_H

#include "analyzer/dumps/process_state.h"
#include "analyzer/job/job.h"

#define NOBODY UINT32_MAX

/* A process: those with a dump come first and in the order of the job's dumps, then the ranks without one. */
struct party {
    int32_t rank;            /* world rank, RANK_UNKNOWN */
    const struct dump *dump; /* NULL: it left none */
    const char *elsewhere;   /* the host on which its dump lies, which has not been collected; NULL: that is not told */
    bool unread;             /* imported: nothing of what it recorded could be read */
    bool outdated;           /* ... or others ended a collective with it that is not in there: it was at work when that
                                was written, before the others' was. Set with the graph of waits */
    enum process_state process;
    int64_t seen_ns; /* when it was last noted to live; 0: nobody did */
    int64_t gone_ns; /* when it was first noted not to; 0: never. Both CLOCK_MONOTONIC of its host (beats.h) */
};

/* A member of a communicator that has a dump. */
struct membership {
    uint32_t party, local; /* its own index of the communicator */
    int32_t rank;          /* in its group */
    uint8_t side;          /* 0, or 1 in the second group of an intercommunicator */
};

struct shared_communicator {
    uint64_t uid;
    const char *name; /* "" when nobody names it */
    uint32_t kind;    /* enum communicator_kind */
    struct membership *present;
    uint32_t present_count;
    uint32_t side_size[2];
    uint32_t *side_parties[2]; /* by rank; NOBODY where a member cannot be told. NULL until world_members asks */
};

struct world {
    struct party *parties;
    uint32_t party_count, dump_count;
    uint32_t *party_of_rank; /* by world rank */
    uint32_t rank_count;
    struct shared_communicator *communicators;
    uint32_t communicator_count;
    struct membership *memberships;
    uint32_t **places;          /* per dump and local index: communicator, NOBODY */
    bool crowded;               /* ranks outnumber the processors of a host */
    uint64_t members_looked_at; /* private */
};

/* Whether there are records of what it did, which are not here, or cannot be read; or it did more than is on record. */
bool party_is_untold(const struct party *party);

/* Whether it is what another tool recorded: no process of the job wrote its dumps. */
bool world_is_imported(const struct world *world);

/* Takes in a job's dumps; `states` is per dump. Communicators whose uid may differ between ranks are left out. Returns
 * false when memory is short; the caller frees with world_free in every case. The job must outlive it. */
bool world_build(struct world *world, const struct job *job, const enum process_state *states);
void world_free(struct world *world);

/* The shared communicator behind a dump's local index, NULL when there is none. */
struct shared_communicator *world_communicator(const struct world *world, uint32_t party, uint32_t local);
/* Counts members that are to be looked at one by one. False: they are too many in all; what waits for them is then
 * taken not to wait. A definition of 80 bytes may claim 16 million. */
bool world_may_look_at(struct world *world, uint32_t members);
/* Parties by rank of one side (0; intercommunicators: 0 and 1); NULL when memory is short. Owned by the world. */
const uint32_t *world_members(struct world *world, struct shared_communicator *communicator, unsigned side);
/* The member of a communicator that `party` is, NULL when it has no dump or does not know the communicator. */
const struct membership *world_membership(const struct shared_communicator *communicator, uint32_t party);
/* Who a peer number in a dump's call means, NOBODY when that cannot be told. */
uint32_t world_peer(struct world *world, uint32_t party, uint32_t local, int32_t peer);

/* How far a member came: collectives entered; of a freed communicator those before its end. */
uint64_t membership_enqueued(const struct world *world, const struct membership *member);

/* How often the member has started the persistent collective that its collective `seq` prepared. UINT64_MAX: its table
 * of requests does not have it, since it was freed or had no room. */
uint64_t membership_starts(const struct world *world, const struct membership *member, uint32_t seq);
/* The member's progress row read whole. False where it has none. */
bool membership_progress(const struct world *world, const struct membership *member, struct progress *copy);
/* The same of a freed communicator, too, whose row is gone: of its history the length and the last hash are left. False
 * where they are not known, as of one that was freed with operations in flight. */
bool membership_history(const struct world *world, const struct membership *member, struct progress *copy);

#endif
