/* SPDX-License-Identifier: Apache-2.0
 *
 * How one rank's GPU launches relate to the calls that enqueued them.
 * Lives here: joining a launch with its call, how long it lay in its stream, exposed communication, memory.
 * Must not live here: other ranks, verdicts.
 *
 * A launch that begins before its call has returned found an idle stream: it is bound by the host, and its interval
 * holds what the call did (a connection's set-up, for one). A launch that begins long after its call returned waited in
 * the stream behind earlier work.
 */
#ifndef COMMTAP_WAITS_LAUNCHES_H
#define COMMTAP_WAITS_LAUNCHES_H

#include "analyzer/base/parcel.h"
#include "analyzer/match/instances.h"

enum {
    LAUNCHES_AHEAD = 512, /* calls that wait for their launch's record; a power of two */
    LAUNCHES_COMMS = 64,  /* communicators whose last launch is remembered; a power of two */
};

struct launch_call {
    uint32_t op;
    int64_t left_ns; /* the call returned */
};

struct launch_end {
    uint32_t comm;
    int64_t ended_ns;
};

struct rank_launches {
    uint64_t launches;         /* timed */
    uint64_t replayed;         /* of these, by graphs */
    uint64_t joined;           /* of these, launches whose call's record is there */
    uint64_t host_bound;       /* of these */
    int64_t held_up_ns;        /* sum over the others: from the call's return, and the end of the communicator's launch
                                  before, to the start on the GPU: what other GPU work kept it waiting */
    uint64_t waits;            /* times a stream was made to wait for communication */
    int64_t exposed_ns;        /* sum of what these waits really took */
    struct launch_call *calls; /* private */
    struct launch_end *ends;   /* private */
};

/* Takes the rank's next record. Returns false when memory is short. */
bool rank_launches_add(struct rank_launches *launches, const struct match_record *item);
/* Packs a rank's figures, or unpacks them: no more records are added to those. */
void rank_launches_parcel(struct rank_launches *launches, struct parcel *parcel);
void rank_launches_free(struct rank_launches *launches);

#endif
