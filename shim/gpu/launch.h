/* SPDX-License-Identifier: Apache-2.0
 *
 * One launch of GPU work as a communication library describes it; from there to its record it stays as it is.
 */
#ifndef COMMTAP_GPU_LAUNCH_H
#define COMMTAP_GPU_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/format.h"

/* What was launched. A group of several operations is one launch. */
struct gpu_launch {
    uint64_t bytes;
    uint32_t seq;
    uint32_t op; /* of the POST or GROUP record */
    uint32_t comm;
    int32_t peer;
    uint32_t stack;
    uint32_t ranks; /* of the communicator */
    uint16_t call;
    uint16_t flags;
    uint8_t dtype;
    uint8_t redop;
    uint16_t parts; /* alike operations of a group, together `bytes`; 0: a single one, or a mixture */
    uint16_t count; /* what they count for: each for one, or a send and a receive for an exchange */
    /* Launches of one group on one stream have one interval, and operations of theirs lie before and behind this one's:
       each gets its share. share_all 0: the interval is its own. */
    uint32_t share_before, share_own, share_all;
    bool overlaps;              /* it may begin before the kernel in front of it on the stream has ended */
    uint32_t replay;            /* number of the replay that this was, from 1; 0: none, or not known */
    uint64_t graph_launched_ns; /* when it was launched, CLOCK_MONOTONIC; 0: not known */
    uint8_t quiet;              /* QUIET_*: followed for what hangs, in no total */
    struct progress *progress;  /* of the communicator; may be NULL */
    uint32_t collectives;       /* how many of its collectives this launch ends; when it is not 0, started and completed
                                   reach what `enqueued` is at gpu_span_end */
};

/* How many operations its row counts. */
static inline uint32_t launch_count(const struct gpu_launch *launch) {
    return launch->count ? launch->count : 1;
}

/* Bytes of one of these. */
static inline uint64_t launch_bytes_of_one(const struct gpu_launch *launch) {
    return launch->parts && launch->bytes != BYTES_UNKNOWN ? launch->bytes / launch->parts : launch->bytes;
}

#endif
