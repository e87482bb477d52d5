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

struct stream_lane {
    struct record_cursor cursor;
    const struct record *record; /* next one, NULL at the end */
    uint64_t key;                /* its place in time, ticks */
    uint64_t ticket;             /* expected of the next record */
    bool gap;                    /* records before it are missing */
    uint32_t lane;
};

struct record_stream {
    struct stream_lane *lanes;
    size_t lane_count;
    struct stream_lane *current; /* whose record was handed out last */
};

/* Starts the merge. Returns false when memory is short. record_stream_end frees in every case. */
bool record_stream_begin(struct record_stream *stream, const struct dump *dump);
void record_stream_end(struct record_stream *stream);

/* The next record, NULL at the end; valid until the next call. Records of one lane keep their order; between lanes
 * order is by t0, of DONE records by t1. */
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

#endif
