/* SPDX-License-Identifier: Apache-2.0
 *
 * A job as a time line shows it: records as slices on tracks, with the waits in them and the flows between them.
 * Lives here: tracks, slices, who takes them.
 * Must not live here: making them (draw.h), names and file formats (traces/).
 *
 * Every rank has a track per thread, one for its operations in flight, one per GPU and communicator (dumps do not tell
 * streams apart; a communicator's operations follow each other), and one for its steps. What overlaps goes to further
 * tracks of the same kind, so that slices of one track never overlap. In the order in which they are handed out, slices
 * of one track follow each other.
 */
#ifndef COMMTAP_TRACKS_TRACKS_H
#define COMMTAP_TRACKS_TRACKS_H

#include "analyzer/match/instances.h"
#include "analyzer/profile/scope.h"

enum track_kind {
    TRACK_RANK, /* the parent of a rank's other tracks */
    TRACK_STEPS,
    TRACK_THREAD,
    TRACK_IN_FLIGHT, /* non-blocking operations, from posting to completion seen */
    TRACK_DEVICE,    /* what ran on a GPU, of one communicator */
    TRACK_EXPOSED,   /* streams that waited for communication */
    TRACK_PROXY,     /* network proxy operations */
    TRACK_BANDWIDTH, /* a counter, GB/s, beside one of the others */
    TRACK_MEMORY,    /* a counter, bytes of a GPU in use */
    TRACK_KINDS
};

struct track {
    uint32_t id;     /* 1, 2, ... in the order in which they are handed out */
    uint32_t parent; /* 0: none */
    uint32_t beside; /* a bandwidth's: the track it belongs to */
    enum track_kind kind;
    size_t dump;
    uint32_t which;  /* the lane of THREAD and IN_FLIGHT, the device of DEVICE, EXPOSED and MEMORY */
    uint32_t comm;   /* of DEVICE: local index */
    uint16_t call;   /* of MEMORY: what says which part of it, 0: all that is in use */
    uint32_t number; /* 0, 1, ... of several that take what overlaps; a bandwidth's is that of the track beside it */
};

/* Where the flow through a slice goes. A collective's flow goes through its members in the order in which they began, a
 * message's from the beginning of the send to the end of the receive. */
enum flow_place { FLOW_NOT, FLOW_FIRST, FLOW_THROUGH, FLOW_LAST, FLOW_SENT, FLOW_RECEIVED };

/* Times are ns since the request's origin, from 0 on. */
struct slice {
    uint32_t track;
    size_t dump;
    uint32_t lane;
    const struct record *record; /* NULL: a step */
    uint32_t step;               /* its number */
    bool instant;                /* a mark: no slice */
    int64_t begin, end;
    bool waited; /* from wait_from to wait_to, within the slice, for dump `waited_for` */
    int64_t wait_from, wait_to;
    size_t waited_for;
    bool transferred; /* from transfer_from to the end, behind any wait */
    int64_t transfer_from;
    uint64_t flow;
    enum flow_place place;
};

/* Consumers. A track comes before what is on it. */
struct track_sink {
    void *context;
    void (*track)(void *context, const struct track *track);
    void (*slice)(void *context, const struct slice *slice);
    void (*counter)(void *context, const struct track *track, int64_t at, double value);
};

struct track_request {
    const struct common_clock *clock;
    const struct match_directory *directory;
    const struct scope *scope;        /* may be without limits */
    const struct filter *filter;      /* ranks, functions and communicators to show */
    const struct step_marker *marker; /* what begins a step */
    bool without_steps;               /* nobody wants them: they need not be found */
    bool without_bandwidths;          /* likewise */
    int64_t origin_ns;                /* common ns, time 0 of what is handed out */
    struct track_sink sink;
    void (*progress)(void *context, unsigned permille);
    void *progress_context;
};

/* Overlapping slices of one kind that are drawn; a viewer's screen has no room for more tracks of one thread. */
enum { TRACKS_SIDE_BY_SIDE = 64 };

struct track_totals {
    uint64_t slices;   /* steps and instants among them */
    uint64_t flows;    /* each has at least two ends */
    uint64_t left_out; /* overlapped TRACKS_SIDE_BY_SIDE others */
};

#endif
