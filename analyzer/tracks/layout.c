/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/tracks/layout.h"

struct track_key {
    uint32_t kind, dump, which, comm, number;
    uint32_t of;   /* a bandwidth's: the kind of the track beside it */
    uint32_t call; /* a memory's */
};

struct placed_track {
    struct track_key key;
    struct track track;
    int64_t free_from; /* since the origin: the last slice ended there */
};

HASH_TABLE_OF(placed_tracks, struct placed_track, struct track_key);

void layout_free(struct layout *layout) {
    hash_table_free(&layout->tracks);
}

/* The track of that key, handed out where it is new. NULL when memory is short. */
static struct placed_track *track_of(struct layout *layout, const struct track_key *key) {
    struct placed_track *placed = placed_tracks_add(&layout->tracks, key);
    if (!placed)
        layout->no_memory = true;
    else if (placed->track.id == 0)
        placed->track = (struct track){.id = ++layout->last_id,
                                       .kind = (enum track_kind)key->kind,
                                       .dump = key->dump,
                                       .which = key->which,
                                       .comm = key->comm,
                                       .call = (uint16_t)key->call,
                                       .number = key->number};
    return placed;
}

static void hand_out(struct layout *layout, const struct track *track) {
    layout->request->sink.track(layout->request->sink.context, track);
}

/* The parent of a rank's tracks. 0 when memory is short. */
static uint32_t rank_track(struct layout *layout, uint32_t dump) {
    const struct track_key key = {.kind = TRACK_RANK, .dump = dump};
    struct placed_track *placed = placed_tracks_find(&layout->tracks, &key);
    if (placed)
        return placed->track.id;
    placed = track_of(layout, &key);
    if (placed)
        hand_out(layout, &placed->track);
    return placed ? placed->track.id : 0;
}

/* The same for any other track; `beside` where it is the counter of another one. Its place holds until the next one is
 * asked for. */
static struct placed_track *child_track(struct layout *layout, const struct track_key *key, uint32_t beside) {
    struct placed_track *placed = placed_tracks_find(&layout->tracks, key);
    if (placed)
        return placed;
    uint32_t parent = rank_track(layout, key->dump);
    placed = track_of(layout, key);
    if (placed) {
        placed->track.parent = parent;
        placed->track.beside = beside;
        hand_out(layout, &placed->track);
    }
    return placed;
}

static int64_t since_origin(const struct layout *layout, int64_t common_ns) {
    int64_t at = add_ns(common_ns, -layout->request->origin_ns);
    return at > 0 ? at : 0;
}

/* The same, where it was `*last` most often. */
static struct placed_track *track_like_last(struct layout *layout, const struct track_key *key, uint32_t *last) {
    struct placed_track *placed = *last ? &placed_tracks_items(&layout->tracks)[*last - 1] : NULL;
    if (placed && memcmp(&placed->key, key, sizeof *key) == 0)
        return placed;
    placed = child_track(layout, key, 0);
    *last = placed ? (uint32_t)(placed - placed_tracks_items(&layout->tracks)) + 1 : 0;
    return placed;
}

/* Sets the slice's track to the first of its kind that is free by then. False: there is none, it is left out. */
static bool place(struct layout *layout, struct track_key *key, struct slice *slice, uint32_t *last_track) {
    for (key->number = 0; key->number < TRACKS_SIDE_BY_SIDE; key->number++) {
        struct placed_track *placed = track_like_last(layout, key, last_track);
        if (!placed)
            return false;
        if (placed->free_from > slice->begin)
            continue;
        placed->free_from = slice->end;
        slice->track = placed->track.id;
        return true;
    }
    layout->totals->left_out++;
    return false;
}

static void hand_out_slice(struct layout *layout, const struct slice *slice) {
    layout->totals->slices++;
    layout->request->sink.slice(layout->request->sink.context, slice);
}

static enum track_kind kind_of(const struct record *record) {
    switch (record->kind) {
    case RECORD_DONE:
        return TRACK_IN_FLIGHT;
    case RECORD_GPU:
    case RECORD_KERNEL:
        return TRACK_DEVICE;
    case RECORD_EXPOSED:
        return TRACK_EXPOSED;
    case RECORD_PROXY:
        return TRACK_PROXY;
    case RECORD_MEMORY:
        return TRACK_MEMORY;
    default:
        return TRACK_THREAD;
    }
}

static struct track_key key_of(size_t d, uint32_t lane, const struct record *record) {
    struct track_key key = {.kind = (uint32_t)kind_of(record), .dump = (uint32_t)d};
    if (key.kind == TRACK_THREAD || key.kind == TRACK_IN_FLIGHT)
        key.which = lane;
    else if (key.kind != TRACK_PROXY)
        key.which = (uint32_t)record->tag;
    if (key.kind == TRACK_DEVICE)
        key.comm = record->comm;
    if (key.kind == TRACK_MEMORY)
        key.call = record->call;
    return key;
}

static void count(struct layout *layout, const struct track *track, int64_t at, double value) {
    layout->request->sink.counter(layout->request->sink.context, track, at, value);
}

/* Bytes per nanosecond are GB/s: of the operation's bytes, over the time in which it did not wait. The size of a
 * receive's buffer tells nothing of what came, nor a share of an interval of what it took. */
static void draw_bandwidth(struct layout *layout, struct track_key key, const struct slice *slice) {
    const struct record *record = slice->record;
    int64_t from = slice->waited && slice->wait_to > slice->begin ? slice->wait_to : slice->begin;
    bool moves = record->kind == RECORD_CALL || record->kind == RECORD_DONE || record->kind == RECORD_GPU ||
                 record->kind == RECORD_KERNEL || record->kind == RECORD_PROXY;
    if (!moves || record_is_share(record) || record->flags & FLAG_BYTES_POSTED || record->bytes == BYTES_UNKNOWN ||
        record->bytes == 0 || from >= slice->end)
        return;
    uint32_t beside = slice->track;
    key.of = key.kind;
    key.kind = TRACK_BANDWIDTH;
    struct placed_track *placed = child_track(layout, &key, beside);
    if (!placed)
        return;
    count(layout, &placed->track, from, (double)record->bytes / (double)(slice->end - from));
    count(layout, &placed->track, slice->end, 0);
}

static struct slice slice_of(const struct layout *layout, size_t d, uint32_t lane, const struct held_record *held) {
    struct slice slice = {.dump = d,
                          .lane = lane,
                          .record = &held->record,
                          .instant = held->record.kind == RECORD_MARK || held->record.kind == RECORD_THREAD,
                          .begin = since_origin(layout, held->begin),
                          .end = since_origin(layout, held->end),
                          .flow = held->flow,
                          .place = (enum flow_place)held->place};
    bool blocks = kind_of(&held->record) == TRACK_THREAD || kind_of(&held->record) == TRACK_DEVICE;
    slice.waited = held->wait_from < held->wait_to;
    if (slice.waited) {
        slice.wait_from = since_origin(layout, held->wait_from);
        slice.wait_to = since_origin(layout, held->wait_to);
        slice.waited_for = held->waited_for;
    }
    slice.transfer_from = slice.waited ? slice.wait_to : since_origin(layout, held->arrival);
    slice.transferred = blocks && (held->matched || slice.waited) && slice.transfer_from < slice.end;
    return slice;
}

void layout_draw_record(struct layout *layout, size_t d, uint32_t lane, const struct held_record *held,
                        uint32_t *last_track) {
    struct slice slice = slice_of(layout, d, lane, held);
    struct track_key key = key_of(d, lane, &held->record);
    if (key.kind == TRACK_MEMORY) {
        struct placed_track *placed = child_track(layout, &key, 0);
        if (placed && held->record.bytes != BYTES_UNKNOWN)
            count(layout, &placed->track, slice.begin, (double)held->record.bytes);
        return;
    }
    if (!place(layout, &key, &slice, last_track))
        return;
    hand_out_slice(layout, &slice);
    if (!layout->request->without_bandwidths)
        draw_bandwidth(layout, key, &slice);
}

void layout_draw_step(struct layout *layout, size_t d, const struct step *step) {
    struct slice slice = {.dump = d,
                          .step = step->number,
                          .begin = since_origin(layout, step->start_ns),
                          .end = since_origin(layout, step->end_ns)};
    struct track_key key = {.kind = TRACK_STEPS, .dump = (uint32_t)d};
    if (slice.end < slice.begin)
        slice.end = slice.begin;
    uint32_t last_track = 0;
    if (place(layout, &key, &slice, &last_track))
        hand_out_slice(layout, &slice);
}
