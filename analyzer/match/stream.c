/* SPDX-License-Identifier: Apache-2.0
 *
 * One dump's records, merged over its lanes in time order.
 * Lives here: the merge, by a linear look at the few lanes' next records.
 * Must not live here: anything that needs a second dump.
 */
#include "analyzer/match/stream.h"

#include <stdlib.h>

static void advance_lane(struct stream_lane *lane) {
    uint64_t expected = lane->ticket;
    lane->record = record_cursor_next(&lane->cursor);
    if (!lane->record) {
        lane->key = UINT64_MAX;
        return;
    }
    lane->key = lane->record->kind == RECORD_DONE ? lane->record->t1 : lane->record->t0;
    if (record_is_device(lane->record))
        lane->key = dump_ticks_at(lane->cursor.dump, lane->record->t0);
    if (lane->key == UINT64_MAX)
        lane->key--;
    lane->ticket = lane->record->commit;
    lane->gap = lane->record->commit - 1 != expected;
}

bool record_stream_begin(struct record_stream *stream, const struct dump *dump) {
    *stream = (struct record_stream){.lanes = calloc(dump->lane_count ? dump->lane_count : 1, sizeof *stream->lanes)};
    if (!stream->lanes)
        return false;
    for (uint32_t i = 0; i < dump->lane_count; i++) {
        struct stream_lane *lane = &stream->lanes[stream->lane_count];
        if (!record_cursor_begin(&lane->cursor, dump, i))
            return false;
        stream->lane_count++;
        lane->lane = i;
        advance_lane(lane);
    }
    return true;
}

void record_stream_end(struct record_stream *stream) {
    for (size_t i = 0; i < stream->lane_count; i++)
        record_cursor_end(&stream->lanes[i].cursor);
    free(stream->lanes);
    *stream = (struct record_stream){0};
}

static struct stream_lane *earliest_lane(const struct record_stream *stream) {
    struct stream_lane *best = NULL;
    for (size_t i = 0; i < stream->lane_count; i++) {
        struct stream_lane *lane = &stream->lanes[i];
        if (lane->record && (!best || lane->key < best->key))
            best = lane;
    }
    return best;
}

const struct record *record_stream_next(struct record_stream *stream) {
    /* the record handed out last is dropped only now: the cursor's copy must stay valid until this call */
    if (stream->current)
        advance_lane(stream->current);
    stream->current = stream->lane_count == 1 ? &stream->lanes[0] : earliest_lane(stream);
    return stream->current ? stream->current->record : NULL;
}

uint64_t record_stream_front(const struct record_stream *stream) {
    const struct stream_lane *lane = earliest_lane(stream);
    return lane ? lane->key : UINT64_MAX;
}
