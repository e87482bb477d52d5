/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/match/walk.h"

#include <stdlib.h>

#include "analyzer/base/grow.h"

enum {
    GROUPS_INTERVAL = 1 << 20, /* records of all dumps after which the messages of a group may be given up ... */
    GROUPS_PER_DUMP = 4096,    /* ... and at least so many of the group's own dump */
};

HASH_TABLE_OF(walk_channels, struct walk_channel, struct channel_key);

/* ---- which dump is next ------------------------------------------------------------------------------------------ */

static bool before(const struct match_walk *walk, uint32_t a, uint32_t b) {
    return arrival_turn_before(&walk->dumps[a].turn, &walk->dumps[b].turn);
}

static void sift_down(struct match_walk *walk, size_t at) {
    uint32_t moving = walk->heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= walk->heap_count)
            break;
        if (child + 1 < walk->heap_count && before(walk, walk->heap[child + 1], walk->heap[child]))
            child++;
        if (!before(walk, walk->heap[child], moving))
            break;
        walk->heap[at] = walk->heap[child];
        at = child;
    }
    walk->heap[at] = moving;
}

/* When the dump's next batch is to come: never before the last one, whatever a damaged dump says. */
static void set_turn(struct match_walk *walk, uint32_t dump) {
    uint64_t ticks = record_stream_front(&walk->dumps[dump].stream);
    int64_t front = ticks == UINT64_MAX ? INT64_MAX : to_common(walk->clock, dump, ticks);
    struct arrival_turn *turn = &walk->dumps[dump].turn;
    *turn = (struct arrival_turn){front > turn->front ? front : turn->front, dump};
}

/* ---- telling those who pair -------------------------------------------------------------------------------------- */

/* NULL when memory is short. */
static struct walk_channel *walk_channel_of(struct match_walk *walk, const struct channel_key *key) {
    struct walk_channel *channel =
        key->started ? walk_channels_add(&walk->started, key) : &walk->channels[key->communicator];
    if (!channel)
        walk->failed = true;
    return channel;
}

void match_walk_pass_number(struct match_walk *walk, const struct channel_key *key, uint32_t seq) {
    struct walk_channel *channel = walk_channel_of(walk, key);
    if (!channel || (channel->any && seq <= channel->newest))
        return;
    channel->any = true;
    channel->newest = seq;
    if (channel->told_in == walk->batch)
        return;
    channel->told_in = walk->batch;
    if (grow_by_one(walk->to_tell, walk->to_tell_count, walk->to_tell_room))
        walk->to_tell[walk->to_tell_count++] = *key;
    else
        walk->failed = true;
}

void match_walk_tell_part(struct match_walk *walk, struct channel_arrival *part) {
    const struct channel_key *key = &part->channel;
    const struct walk_channel *channel = walk_channel_of(walk, key);
    if (!channel)
        return;
    part->newest = channel->newest;
    uint64_t uid = walk->directory->communicators[key->communicator].uid;
    arrivals_add(&walk->told[channel_worker(key, uid, part->seq, walk->workers)], ARRIVAL_PART, part, sizeof *part);
}

void match_walk_tell_half(struct match_walk *walk, enum arrival_kind kind, const struct message_half *half) {
    uint32_t dump = kind == ARRIVAL_SENT ? half->sender : half->receiver;
    arrivals_add(&walk->told[walk->worker_of[dump]], kind, half, sizeof *half);
}

static void begin_batch(struct match_walk *walk, uint32_t dump) {
    walk->batch++;
    walk->to_tell_count = 0;
    for (unsigned w = 0; w < walk->workers; w++)
        arrivals_begin_batch(&walk->told[w], &walk->dumps[dump].turn);
}

static void end_batch(struct match_walk *walk, unsigned taken) {
    for (size_t i = 0; i < walk->to_tell_count; i++) {
        const struct walk_channel *channel = walk_channel_of(walk, &walk->to_tell[i]);
        for (unsigned w = 0; channel && w < walk->workers; w++)
            arrivals_add(&walk->told[w], ARRIVAL_PASSED, &(struct channel_passed){walk->to_tell[i], channel->newest},
                         sizeof(struct channel_passed));
    }
    for (unsigned w = 0; w < walk->workers; w++) {
        arrivals_end_batch(&walk->told[w], taken);
        walk->failed |= walk->told[w].no_memory;
    }
}

/* ---- reading ------------------------------------------------------------------------------------------------------
 */

static bool begin_dump(struct match_walk *walk, uint32_t d) {
    const struct match_directory *directory = walk->directory;
    struct walk_dump *dump = &walk->dumps[d];
    uint32_t lanes = directory->dumps[d]->lane_count;
    uint64_t interval = GROUPS_INTERVAL / directory->dump_count;
    group_messages_init(&dump->groups, interval > GROUPS_PER_DUMP ? interval : GROUPS_PER_DUMP);
    dump->lanes = calloc(lanes ? lanes : 1, sizeof *dump->lanes);
    if (!dump->lanes || !record_stream_begin(&dump->stream, directory->dumps[d]))
        return false;
    for (uint32_t l = 0; l < lanes; l++) {
        dump->lanes[l].wait = match_no_waiting;
        dump->lanes[l].called = MATCH_ABSENT;
    }
    dump->turn.front = INT64_MIN;
    set_turn(walk, d);
    if (dump->turn.front != INT64_MAX)
        walk->heap[walk->heap_count++] = d;
    return true;
}

bool match_walk_begin(struct match_walk *walk) {
    const struct match_directory *directory = walk->directory;
    walk->heap = calloc(directory->dump_count, sizeof *walk->heap);
    walk->channels = calloc(directory->communicator_count ? directory->communicator_count : 1, sizeof *walk->channels);
    if (!walk->heap || !walk->channels)
        return false;
    for (uint32_t d = 0; d < directory->dump_count; d++)
        if (walk->worker_of[d] == walk->number && !begin_dump(walk, d))
            return false;
    for (size_t i = walk->heap_count; i-- > 0;)
        sift_down(walk, i);
    return true;
}

void match_walk_end_dump(struct walk_dump *dump, const struct dump *file) {
    record_stream_end(&dump->stream);
    for (uint32_t l = 0; dump->lanes && l < file->lane_count; l++)
        free(dump->lanes[l].completions);
    free(dump->lanes);
    group_messages_free(&dump->groups);
}

void match_walk_end(struct match_walk *walk) {
    epochs_free(&walk->epochs);
    hash_table_free(&walk->started);
    free(walk->to_tell);
    free(walk->channels);
    free(walk->heap);
}

void match_walk_read_batch(struct match_walk *walk) {
    uint32_t d = walk->heap[0];
    struct walk_dump *dump = &walk->dumps[d];
    const struct record *record = NULL;
    unsigned taken = 0;
    begin_batch(walk, d);
    while (taken < MATCH_BATCH && !walk->failed && (record = record_stream_next(&dump->stream)) != NULL) {
        match_walk_record(walk, d, record);
        taken++;
    }
    dump->walked += taken;
    walk->read += taken;
    group_messages_walked(&dump->groups, dump->walked);
    for (uint32_t l = 0; taken < MATCH_BATCH && l < walk->directory->dumps[d]->lane_count; l++)
        match_walk_settle(walk, &dump->lanes[l], &match_no_waiting);
    end_batch(walk, taken);
    if (taken == MATCH_BATCH)
        set_turn(walk, d);
    else
        walk->heap[0] = walk->heap[--walk->heap_count];
    if (walk->heap_count > 0)
        sift_down(walk, 0);
}
