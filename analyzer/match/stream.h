/* SPDX-License-Identifier: Apache-2.0
 *
 * One dump's records, merged over its lanes in time order.
 * Lives here: the merge of a few lanes' cursors, and where records are missing.
 * Must not live here: anything that needs a second dump.
 */
#ifndef COMMTAP_MATCH_STREAM_H
#define COMMTAP_MATCH_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/load/dump.h"
#include "analyzer/load/replays.h"

/* A record of a GPU's lane that was read before its turn. */
struct stream_ahead {
    struct record record;
    uint64_t key;
    struct record_replay replay;
    bool gap;
};

struct stream_lane {
    struct record_cursor cursor;
    const struct record *record; /* next one, NULL at the end */
    uint64_t key;                /* its place in time, ticks */
    uint64_t ticket;             /* expected of the next record read */
    bool gap;                    /* records before it are missing */
    struct record_replay replay; /* of a captured launch */
    struct replay_reader replays;
    uint32_t lane;
    struct stream_ahead *ahead; /* by key: [ahead_first, + ahead_count); NULL: the lane is in order as it is */
    size_t ahead_first, ahead_count;
};

struct record_stream {
    struct stream_lane *lanes;
    size_t lane_count;
    struct stream_lane *current; /* whose record was handed out last */
    uint32_t *enqueued;          /* STREAM_CALLS: numbers of the launches whose calls came last; NULL without a GPU */
};

enum {
    STREAM_AHEAD = 64,   /* launches of other streams that began and ended while one went on */
    STREAM_CALLS = 1024, /* launches that a GPU has before it; those further behind began long after their calls */
    STREAM_LAUNCH_NS = 200000, /* twice what a device's clock is off in normal operation, and the call itself */
};

/* Starts the merge. Returns false when memory is short. record_stream_end frees in every case. */
bool record_stream_begin(struct record_stream *stream, const struct dump *dump);
void record_stream_end(struct record_stream *stream);

/* The next record, NULL at the end; valid until the next call. Records of one lane of a host keep their order; between
 * lanes order is by t0, of DONE records by t1. A GPU's lane holds launches as they were seen to end, those of several
 * streams mixed: they are put in the order of t0, as far as STREAM_AHEAD records tell. A launch on a GPU comes after
 * the call that enqueued it, as it did, though the GPU's clock may say otherwise by up to STREAM_LAUNCH_NS. */
const struct record *record_stream_next(struct record_stream *stream);

/* Place in time of the record that comes next, in ticks; UINT64_MAX at the end. */
uint64_t record_stream_front(const struct record_stream *stream);

/* Of the record handed out last: its lane, and whether records between it and the one before on that lane are
 * missing. The first one of a lane has a gap when older ones were overwritten. */
static inline uint32_t record_stream_lane(const struct record_stream *stream) {
    return stream->current->lane;
}
static inline bool record_stream_gap(const struct record_stream *stream) {
    return stream->current->gap;
}

/* ... and, of a captured launch, which replay of it this was. */
static inline struct record_replay record_stream_replay(const struct record_stream *stream) {
    return stream->current->replay;
}

#endif
