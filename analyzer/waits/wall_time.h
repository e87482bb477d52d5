/* SPDX-License-Identifier: Apache-2.0
 *
 * How much of a rank's time passed waiting, by the clock on the wall.
 * Lives here: stretches of waiting and of time in collectives, and the length of what they cover together.
 * Must not live here: what a wait is (waits.h).
 *
 * Streams of a GPU, threads, and operations that one Wait call completes wait at the same time: the sum over them may
 * be longer than the rank ran.
 */
#ifndef COMMTAP_WAITS_WALL_TIME_H
#define COMMTAP_WAITS_WALL_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/base/parcel.h"

/* Stretches that are kept, 64 MiB: of jobs with more only the sums are known, and bounds. */
enum { WALL_STRETCHES_MOST = 1 << 22 };

enum wall_kind { WALL_WAIT, WALL_COLLECTIVE, WALL_KINDS };

struct wall_stretches {
    struct wall_stretch {
        int64_t from, to;
    } * items;
    size_t count;
};

/* One rank's. */
struct wall_rank {
    struct wall_stretches kinds[WALL_KINDS];
};

struct wall_times {
    struct wall_rank *ranks; /* per dump */
    size_t rank_count;
    size_t count; /* stretches in all */
    bool too_many, no_memory;
};

/* Returns false when memory is short. wall_times_free frees in every case. */
bool wall_times_init(struct wall_times *times, size_t ranks);
void wall_times_free(struct wall_times *times);

void wall_times_add(struct wall_times *times, size_t rank, enum wall_kind kind, int64_t from, int64_t to);
/* Whatever the order of adding and merging, the sums are the same. */
void wall_times_merge(struct wall_times *into, const struct wall_times *from);
void wall_times_parcel(struct wall_times *times, struct parcel *parcel);

struct wall_sums {
    int64_t wait_ns;     /* at least one wait was going on */
    int64_t transfer_ns; /* the rank was in a collective, and in no wait */
};

/* False: there were too many stretches. Sorts the rank's stretches. */
bool wall_times_sum(struct wall_times *times, size_t rank, struct wall_sums *sums);

#endif
