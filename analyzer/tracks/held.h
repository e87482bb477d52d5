/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of all ranks, lane by lane, that wait for what matching has to tell of them.
 * Lives here: keeping them in the order of their lane, finding one by its ticket or by a moment.
 * Must not live here: what is told, when they are let go.
 */
#ifndef COMMTAP_TRACKS_HELD_H
#define COMMTAP_TRACKS_HELD_H

#include "analyzer/tracks/tracks.h"

struct held_record {
    struct record record;
    int64_t begin, end;         /* common ns, as those below */
    int64_t wait_from, wait_to; /* the longest wait in it; from >= to: none */
    int64_t arrival;            /* on a GPU: when the device came to it; else its begin */
    uint64_t flow;
    uint64_t walked;     /* records before it */
    uint32_t waited_for; /* dump */
    uint8_t place;       /* enum flow_place */
    bool settled;        /* nothing more will be told of it */
    bool messages;       /* it sends or receives */
    bool matched;        /* an instance or a message has it */
};

struct held_lane {
    struct held_record *items; /* [first, first + count) by ticket */
    size_t first, count, room;
    uint32_t last_track; /* of the layout: where the last record went, a number from 1 on; 0: nowhere yet */
    bool out_of_order;   /* a record ended before one with a lower ticket */
};

/* The lanes of all dumps, side by side: a collective of thousands of ranks asks for one of each, over and over. */
struct held {
    size_t dump_count;
    size_t *first_lane; /* per dump; behind the last one the number of all */
    struct held_lane *lanes;
};

/* Returns false when memory is short; the caller frees with held_free in every case. */
bool held_init(struct held *held, const struct match_directory *directory);
void held_free(struct held *held);

/* NULL where the dump has no such lane. */
static inline struct held_lane *held_lane_of(const struct held *held, size_t dump, uint32_t lane) {
    if (dump >= held->dump_count || lane >= held->first_lane[dump + 1] - held->first_lane[dump])
        return NULL;
    return &held->lanes[held->first_lane[dump] + lane];
}

/* Room for one record more, all zero but for its ticket, by which it has its place, and its end. NULL when memory is
 * short. */
struct held_record *held_push(struct held_lane *lane, uint64_t ticket, int64_t end);
/* The oldest, NULL where there is none. */
struct held_record *held_front(const struct held_lane *lane);
void held_pop(struct held_lane *lane);

/* The record with that ticket, NULL where it is not held. */
struct held_record *held_find(const struct held_lane *lane, uint64_t ticket);

/* The first that may end at `at` or later; those behind it follow until the lane's end. */
size_t held_ending_from(const struct held_lane *lane, int64_t at);

#endif
