/* SPDX-License-Identifier: Apache-2.0
 *
 * One dump's records, merged over its lanes in time order.
 * Lives here: the merge, by a linear look at the few lanes' next records.
 * Must not live here: anything that needs a second dump.
 */
#include "analyzer/match/stream.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/load/gpu_view.h"

/* The dump's next record on that lane, with its gap and replay. */
static void find_next(struct stream_lane *lane) {
    lane->gap = false;
    while ((lane->record = record_cursor_next(&lane->cursor)) != NULL) {
        lane->gap |= lane->record->commit - 1 != lane->ticket;
        lane->ticket = lane->record->commit;
        lane->replay = replay_of_record(&lane->replays, lane->record);
        if (dump_shows(lane->cursor.dump, lane->record))
            return;
    }
}

/* The record that was written next: its record, key, gap and replay. */
static void read_lane(struct stream_lane *lane) {
    find_next(lane);
    if (!lane->record) {
        lane->key = UINT64_MAX;
        return;
    }
    lane->key = lane->record->kind == RECORD_DONE ? lane->record->t1 : lane->record->t0;
    if (record_is_device(lane->record))
        lane->key = dump_ticks_at(lane->cursor.dump, lane->record->t0);
    if (lane->key == UINT64_MAX)
        lane->key--;
}

/* Puts the record just read behind those that are not later. */
static void keep_ahead(struct stream_lane *lane) {
    if (lane->ahead_first == STREAM_AHEAD) {
        memmove(lane->ahead, lane->ahead + lane->ahead_first, lane->ahead_count * sizeof *lane->ahead);
        lane->ahead_first = 0;
    }
    size_t at = lane->ahead_first + lane->ahead_count++;
    for (; at > lane->ahead_first && lane->ahead[at - 1].key > lane->key; at--)
        lane->ahead[at] = lane->ahead[at - 1];
    lane->ahead[at] = (struct stream_ahead){*lane->record, lane->key, lane->replay, lane->gap};
}

static void advance_lane(struct stream_lane *lane) {
    if (!lane->ahead) {
        read_lane(lane);
        return;
    }
    if (lane->ahead_count > 0) {
        lane->ahead_first++;
        lane->ahead_count--;
    }
    while (lane->ahead_count < STREAM_AHEAD) {
        read_lane(lane);
        if (!lane->record)
            break;
        keep_ahead(lane);
    }
    const struct stream_ahead *next = lane->ahead_count > 0 ? &lane->ahead[lane->ahead_first] : NULL;
    lane->record = next ? &next->record : NULL;
    lane->key = next ? next->key : UINT64_MAX;
    lane->gap = next && next->gap;
    lane->replay = next ? next->replay : (struct record_replay){0};
}

bool record_stream_begin(struct record_stream *stream, const struct dump *dump) {
    *stream = (struct record_stream){.lanes = calloc(dump->lane_count ? dump->lane_count : 1, sizeof *stream->lanes)};
    if (dump_has_device_times(dump))
        stream->enqueued = calloc(STREAM_CALLS, sizeof *stream->enqueued);
    if (!stream->lanes || (dump_has_device_times(dump) && !stream->enqueued))
        return false;
    for (uint32_t i = 0; i < dump->lane_count; i++) {
        struct stream_lane *lane = &stream->lanes[stream->lane_count];
        if (!record_cursor_begin(&lane->cursor, dump, i))
            return false;
        stream->lane_count++;
        lane->lane = i;
        if (dump_lane_is_device(&dump->lanes[i]) &&
            !(lane->ahead = calloc((size_t)2 * STREAM_AHEAD, sizeof *lane->ahead)))
            return false;
        advance_lane(lane);
    }
    return true;
}

void record_stream_end(struct record_stream *stream) {
    for (size_t i = 0; i < stream->lane_count; i++) {
        record_cursor_end(&stream->lanes[i].cursor);
        free(stream->lanes[i].ahead);
    }
    free(stream->lanes);
    free(stream->enqueued);
    *stream = (struct record_stream){0};
}

/* Whether the record is a launch whose call has not come yet. */
static bool precedes_its_call(const struct record_stream *stream, const struct record *record) {
    return (record->kind == RECORD_GPU || record->kind == RECORD_KERNEL) && !(record->flags & FLAG_CAPTURED) &&
           stream->enqueued[record->op % STREAM_CALLS] != record->op;
}

/* The lane of the host whose next record is the earliest, where that is before `until`; NULL: none. */
static struct stream_lane *earliest_of_host(const struct record_stream *stream, uint64_t until) {
    struct stream_lane *best = NULL;
    for (size_t i = 0; i < stream->lane_count; i++) {
        struct stream_lane *lane = &stream->lanes[i];
        if (lane->record && !record_is_device(lane->record) && lane->key < (best ? best->key : until))
            best = lane;
    }
    return best;
}

static struct stream_lane *earliest_lane(const struct record_stream *stream) {
    struct stream_lane *best = NULL;
    for (size_t i = 0; i < stream->lane_count; i++) {
        struct stream_lane *lane = &stream->lanes[i];
        if (lane->record && (!best || lane->key < best->key))
            best = lane;
    }
    if (!best || !stream->enqueued || !precedes_its_call(stream, best->record))
        return best;
    uint64_t until = dump_ticks_at(best->cursor.dump, best->record->t0 + STREAM_LAUNCH_NS);
    struct stream_lane *host = earliest_of_host(stream, until);
    return host ? host : best;
}

/* Notes which launch a call enqueued. */
static void note_call(struct record_stream *stream, const struct record *record) {
    if (stream->enqueued && (record->kind == RECORD_POST || record->kind == RECORD_GROUP))
        stream->enqueued[record->op % STREAM_CALLS] = record->op;
}

const struct record *record_stream_next(struct record_stream *stream) {
    /* the record handed out last is dropped only now: the cursor's copy must stay valid until this call */
    if (stream->current)
        advance_lane(stream->current);
    stream->current = stream->lane_count == 1 ? &stream->lanes[0] : earliest_lane(stream);
    if (!stream->current || !stream->current->record)
        return NULL;
    note_call(stream, stream->current->record);
    return stream->current->record;
}

uint64_t record_stream_front(const struct record_stream *stream) {
    const struct stream_lane *lane = earliest_lane(stream);
    return lane ? lane->key : UINT64_MAX;
}
