/* SPDX-License-Identifier: Apache-2.0
 *
 * The open instances of one communicator, as one worker sees them.
 * Lives here: a window over sequence numbers that closes what fell behind.
 * Must not live here: records, threads, order between communicators.
 *
 * Numbers are dealt to the workers in blocks of 64. A worker's window is an array indexed by its own count of numbers;
 * its length doubles up to its share of CHANNEL_REACH. A number that lies that far behind the newest one of any member
 * is closed: how far is the same for any number of workers.
 */
#ifndef COMMTAP_MATCH_CHANNEL_H
#define COMMTAP_MATCH_CHANNEL_H

#include "analyzer/match/instances.h"

enum { CHANNEL_FIRST = 8 }; /* slots to begin with: many jobs have a few operations on each of many channels */
enum { CHANNEL_BLOCK_SHIFT = 6, CHANNEL_REACH_MIN = 1 << 9, CHANNEL_REACH_MAX = 1 << 13, CHANNEL_CELLS = 1 << 22 };

struct channel_slot {
    uint32_t seq;
    uint32_t seen; /* 0 = free */
    uint32_t others;
    uint32_t other_position;
    uint16_t call, other_call;
    int32_t root;
    uint64_t bytes;
    bool device, fence;
};

/* Which collectives are counted together: those of a communicator, or the starts of a persistent one. */
struct channel_key {
    uint32_t communicator; /* index into the directory */
    uint32_t started;      /* 1: the starts of a persistent collective, or the replays of a captured one; else 0 */
    uint32_t start_of;     /* 1: number of the initialising call, or of the captured one */
};

struct channel {
    const struct match_communicator *communicator;
    uint32_t start_of; /* as in the key; `seq` then counts starts or replays */
    bool started;
    bool any;          /* newest is valid */
    uint32_t newest;   /* largest number that any member has reached */
    uint32_t reach;    /* in numbers */
    uint32_t capacity; /* slots, a power of two, 0 before the first */
    struct channel_slot *slots;
    struct match_member *members; /* capacity * communicator->dump_count */
};

/* A number that a member has reached. Whoever pairs is told each that is larger than all that the teller saw before, so
 * that all agree on what is too far behind. */
struct channel_passed {
    struct channel_key channel;
    uint32_t newest;
};

/* What one record says about its member. */
struct channel_arrival {
    struct channel_key channel;
    uint32_t newest; /* as in channel_passed */
    uint32_t seq, position;
    uint16_t call, base; /* base: compared between members */
    int32_t root;
    uint64_t bytes;
    bool device, fence; /* fence: as in an instance, as far as this member tells */
    struct match_member member;
};

struct channel_owner {
    unsigned workers; /* that pair */
    const struct match_directory *directory;
    const struct match_sink *sink;
    void *state;
    struct match_totals *totals;
};

void channel_init(struct channel *channel, const struct match_communicator *communicator);
void channel_free(struct channel *channel);

/* Which of so many workers pairs that number; `uid`: of the communicator. */
static inline unsigned channel_worker(const struct channel_key *channel, uint64_t uid, uint32_t seq, unsigned workers) {
    return ((seq >> CHANNEL_BLOCK_SHIFT) % workers + uid % workers + channel->start_of % workers) % workers;
}

static inline void channel_pass(struct channel *channel, uint32_t newest) {
    if (!channel->any || newest > channel->newest) {
        channel->newest = newest;
        channel->any = true;
    }
}

/* Takes one member's part of an own number; hands the instance out when it is complete. False: memory is short. */
bool channel_arrive(struct channel *channel, const struct channel_owner *owner, const struct channel_arrival *arrival);

/* Closes all that is still open. */
void channel_close(struct channel *channel, const struct channel_owner *owner);

#endif
