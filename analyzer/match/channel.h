/* SPDX-License-Identifier: Apache-2.0
 *
 * The open instances of one communicator, as one worker sees them.
 * Lives here: a window over sequence numbers that closes what fell behind.
 * Must not live here: records, threads, order between communicators.
 *
 * Numbers are dealt to the workers in blocks of 64. A worker's window is an array indexed by its own count of numbers;
 * its length doubles up to a fixed share of CHANNEL_REACH. A number that lies that far behind the newest one of any
 * member is closed: how far is the same for any number of workers.
 */
#ifndef COMMTAP_MATCH_CHANNEL_H
#define COMMTAP_MATCH_CHANNEL_H

#include "analyzer/match/instances.h"

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

struct channel {
    const struct match_communicator *communicator;
    uint32_t start_of; /* persistent collectives: number of the initialising call; `seq` counts its starts. Captured
                          ones: their number; `seq` counts the replays */
    bool started;      /* this is such a channel */
    bool any;          /* newest is valid */
    uint32_t newest;   /* largest number that any member has reached */
    uint32_t reach;    /* in numbers */
    uint32_t capacity; /* slots, a power of two, 0 before the first */
    struct channel_slot *slots;
    struct match_member *members; /* capacity * communicator->dump_count */
};

/* What one record says about its member. */
struct channel_arrival {
    uint32_t seq, position;
    uint16_t call, base; /* base: compared between members */
    int32_t root;
    uint64_t bytes;
    bool device, fence; /* fence: as in an instance, as far as this member tells */
    struct match_member member;
};

/* Of one worker; `shift` is log2 of the number of workers. */
struct channel_owner {
    unsigned worker, shift;
    const struct match_directory *directory;
    const struct match_sink *sink;
    void *state;
    struct match_totals *totals;
};

void channel_init(struct channel *channel, const struct match_communicator *communicator);
void channel_free(struct channel *channel);

/* Whether that number is this worker's. */
static inline bool channel_owns(const struct channel_owner *owner, const struct channel *channel, uint32_t seq) {
    uint64_t block = (seq >> CHANNEL_BLOCK_SHIFT) + channel->communicator->uid + channel->start_of;
    return (block & ((1u << owner->shift) - 1)) == owner->worker;
}

/* Every worker reports every number that passes, so that all agree on what is too far behind. */
static inline void channel_passed(struct channel *channel, uint32_t seq) {
    if (!channel->any || seq > channel->newest) {
        channel->newest = seq;
        channel->any = true;
    }
}

/* Takes one member's part of an own number; hands the instance out when it is complete. False: memory is short. */
bool channel_arrive(struct channel *channel, const struct channel_owner *owner, const struct channel_arrival *arrival);

/* Closes all that is still open. */
void channel_close(struct channel *channel, const struct channel_owner *owner);

#endif
