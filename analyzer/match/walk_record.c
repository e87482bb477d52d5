/* SPDX-License-Identifier: Apache-2.0
 *
 * What a record says about a collective or a message (walk.h).
 */
#include <stdlib.h>

#include "analyzer/match/walk.h"

enum { DONES_MAX = 256 /* completions of one lane that wait for the record of their Wait call */ };

const struct waiting match_no_waiting = {INT64_MAX, INT64_MIN, STACK_NONE};

/* Tells of a completion, which was waited for in `in` if it lies there. */
static void complete(struct match_walk *walk, struct completion *completion, const struct waiting *in, bool shared) {
    struct match_member *member = completion->message ? &completion->half.member : &completion->part.member;
    member->shared = shared;
    member->wait = member->leave;
    if (in->from <= member->leave && member->leave <= in->to) {
        member->wait = in->from > member->enter ? in->from : member->enter;
        member->wait_stack = in->stack;
    }
    if (completion->message)
        match_walk_tell_half(walk, ARRIVAL_HALF, &completion->half);
    else
        match_walk_tell_part(walk, &completion->part);
}

/* Tells of all completions of a lane. */
void match_walk_settle(struct match_walk *walk, struct walk_lane *lane, const struct waiting *in) {
    for (uint32_t i = 0; i < lane->count; i++)
        complete(walk, &lane->completions[i], in, lane->count > 1 || lane->overrun);
    lane->count = 0;
    lane->overrun = false;
}

/* The record of its Wait or Test call is the last of its kind: it came before. */
static bool is_behind_its_wait(const struct walk_lane *lane, int64_t leave) {
    return lane->wait.from <= leave && leave <= lane->wait.to;
}

/* Tells of a completion whose Wait call is known, or keeps it until that call's record comes. */
static void hold(struct match_walk *walk, struct walk_lane *lane, struct completion *completion) {
    int64_t leave = completion->message ? completion->half.member.leave : completion->part.member.leave;
    if (is_behind_its_wait(lane, leave)) {
        complete(walk, completion, &lane->wait, true);
        return;
    }
    if (!lane->completions && !(lane->completions = calloc(DONES_MAX, sizeof *lane->completions))) {
        walk->failed = true;
        return;
    }
    if (lane->count == DONES_MAX) {
        match_walk_settle(walk, lane, &match_no_waiting);
        lane->overrun = true;
    }
    lane->completions[lane->count++] = *completion;
}

/* When the device came to a launch. The event before it is recorded just before the call that launches, and passes on
 * an idle stream at once: where the call took its time until after that, the launch came at the end of the call. A
 * kernel that tells its own beginning began then, be it before its call returned. */
static int64_t arrival_of(struct match_walk *walk, const struct match_record *item) {
    int64_t begin = item->begin;
    bool kernels = walk->directory->dumps[item->dump]->header->gpu_timing == GPU_TIMING_KERNEL;
    if (item->record->kind == RECORD_POLL)
        return to_common(walk->clock, item->dump, record_polls_since(item->record));
    if (!record_is_device(item->record) || kernels || (item->record->flags & FLAG_CAPTURED))
        return begin;
    const struct enqueuing_call *call = &walk->dumps[item->dump].launch_calls[item->record->op % LAUNCH_CALLS];
    if (call->op != item->record->op || call->left <= begin || call->left > item->t1)
        return begin;
    return call->left;
}

static void note_launch_call(struct match_walk *walk, const struct match_record *item) {
    walk->dumps[item->dump].launch_calls[item->record->op % LAUNCH_CALLS] =
        (struct enqueuing_call){item->record->op, item->t1};
}

/* With processes that another MPI_Init made (spawned, connected): nothing common to both names a communicator. */
static bool is_foreign(const struct match_walk *walk, const struct match_record *item) {
    const struct dump_communicator *communicator =
        dump_communicator(walk->directory->dumps[item->dump], item->record->comm);
    return communicator && communicator->definition->flags & COMMUNICATOR_FOREIGN;
}

/* A member's part in an operation that can be matched. */
static struct channel_arrival collective_arrival(struct match_walk *walk, const struct match_record *item,
                                                 const struct channel_key *channel, uint32_t position, uint32_t seq) {
    const struct record *record = item->record;
    const struct match_communicator *communicator = &walk->directory->communicators[channel->communicator];
    struct channel_arrival arrival = {
        .channel = *channel,
        .seq = seq,
        .position = position,
        .call = item->call,
        .base = item->call == CALL_UNKNOWN ? CALL_UNKNOWN : walk->directory->calls[item->call].base,
        .root = match_rank_of(communicator, position, record->peer),
        .bytes = record->bytes,
        .device = record_is_device(record),
        .fence = item->call != CALL_UNKNOWN && record_is_barrier(record, walk->directory->calls[item->call].name),
        .member = {.enter = arrival_of(walk, item),
                   .leave = item->t1,
                   .stack = record->stack,
                   .call = item->call,
                   .lane = item->lane,
                   .ticket = record->commit - 1,
                   .parts = record_parts(record),
                   .share = record_is_share(record),
                   .bystander = communicator->kind == COMMUNICATOR_INTER && record->peer == PEER_NULL},
    };
    if (arrival.member.leave < arrival.member.enter) /* damage */
        arrival.member.leave = arrival.member.enter;
    arrival.member.wait = record->kind == RECORD_DONE ? arrival.member.leave : arrival.member.enter;
    return arrival;
}

static void take_collective(struct match_walk *walk, const struct match_record *item, struct walk_lane *lane) {
    const struct record *record = item->record;
    struct match_place place = match_place_of(walk->directory, item->dump, record->comm);
    bool replayed = (record->flags & FLAG_CAPTURED) != 0;
    walk->totals.collective++;
    if (place.communicator == NOWHERE || record->seq == SEQ_NONE || (replayed && !item->replay)) {
        walk->totals.unmatchable++;
        walk->totals.foreign += is_foreign(walk, item);
        return;
    }
    struct channel_key channel = {.communicator = place.communicator};
    uint32_t seq = record->seq + slips_before(&walk->slips[item->dump], record->comm, record->seq);
    /* what a graph replays has its number from the capture: the same at every replay */
    if (replayed || record->flags & FLAG_STARTED) {
        channel.started = 1;
        channel.start_of = seq;
        seq = replayed ? item->replay : (uint32_t)record->tag;
    }
    match_walk_pass_number(walk, &channel, seq);
    struct completion completion = {.part = collective_arrival(walk, item, &channel, place.position, seq)};
    if (record->kind == RECORD_DONE && !(record->flags & FLAG_UNOBSERVED))
        hold(walk, lane, &completion);
    else
        match_walk_tell_part(walk, &completion.part);
}

static struct match_member half_member(struct match_walk *walk, const struct match_record *item) {
    const struct record *record = item->record;
    struct match_member member = {.enter = record->kind == RECORD_CALL ? item->since : arrival_of(walk, item),
                                  .leave = item->t1,
                                  .stack = record->stack,
                                  .call = item->call,
                                  .lane = item->lane,
                                  .ticket = record->commit - 1,
                                  .share = record_is_share(item->record)};
    if (member.leave < member.enter) /* damage */
        member.leave = member.enter;
    member.wait = record->kind == RECORD_DONE ? member.leave : member.enter;
    member.shared = item->message_count > 0;
    member.in_collective = member.shared && record->flags & FLAG_COLLECTIVE;
    return member;
}

static uint32_t ordinal_of(const struct match_walk *walk, size_t dump, const struct record *record) {
    return record->flags & FLAG_ORDINAL_UNKNOWN ? wildcards_ordinal(&walk->wildcards[dump], record->op) : record->seq;
}

/* Half of a message, or false where nothing can tell which. `record` says what it is: that of the item, or one of the
 * messages of the group that the item is the launch of. NCCL has no tags, and keeps other things there; what a graph
 * replays has the same ordinal at every replay. */
static bool make_half(struct match_walk *walk, const struct match_record *item, const struct record *record,
                      struct message_half *half) {
    const struct match_directory *directory = walk->directory;
    bool device = record_is_device(item->record);
    struct match_place place = match_place_of(directory, item->dump, record->comm);
    bool send = (record->flags & FLAG_SEND) != 0;
    uint32_t ordinal = ordinal_of(walk, item->dump, record);
    if (place.communicator == NOWHERE || record->peer < 0 || ordinal == SEQ_NONE ||
        (record->flags & (FLAG_CANCELLED | FLAG_FAILED | FLAG_PARTITIONED)))
        return false;
    const struct match_communicator *communicator = &directory->communicators[place.communicator];
    int32_t peer = match_rank_of(communicator, place.position, record->peer);
    uint32_t position = match_position_of(communicator, peer);
    if (position == NOWHERE) /* it has no dump */
        return false;
    uint32_t me = communicator->rank_of[place.position];
    *half = (struct message_half){
        .key = {.communicator = place.communicator,
                .from = send ? me : (uint32_t)peer,
                .to = send ? (uint32_t)peer : me,
                .tag = device ? (int32_t)item->replay : record->tag,
                .ordinal = ordinal},
        .send = send,
        .dump = (uint32_t)item->dump,
        .receiver = send ? communicator->dump_of[position] : (uint32_t)item->dump,
        .sender = send ? (uint32_t)item->dump : communicator->dump_of[position],
        .op = record->op,
        .device = device,
        .synchronous = !device && (record->flags & FLAG_SYNCHRONOUS) != 0,
        .bytes = record->flags & FLAG_BYTES_POSTED ? BYTES_UNKNOWN : record->bytes,
        .member = half_member(walk, item),
        .error = device ? device_error_at(walk->clock, item->dump, item->begin) : 0,
    };
    return true;
}

/* `record`: as in make_half. */
static void walk_message(struct match_walk *walk, const struct match_record *item, const struct record *record,
                         struct walk_lane *lane) {
    struct completion completion = {.message = true};
    if (record->peer == PEER_NULL) /* goes nowhere */
        return;
    if (!make_half(walk, item, record, &completion.half)) {
        walk->totals.halves_unmatchable++;
        walk->totals.foreign += is_foreign(walk, item);
        return;
    }
    completion.half.member.before = item->record->kind == RECORD_CALL ? lane->called : MATCH_ABSENT;
    if (walk->sink->sent && completion.half.device)
        match_walk_tell_half(walk, ARRIVAL_SENT, &completion.half);
    walk->totals.halves++;
    if (item->record->kind == RECORD_DONE && !(item->record->flags & FLAG_UNOBSERVED))
        hold(walk, lane, &completion);
    else
        match_walk_tell_half(walk, ARRIVAL_HALF, &completion.half);
}

/* One rank's half of what two of them need of each other in an epoch. */
static void take_epoch_half(struct match_walk *walk, const struct match_record *item,
                            const struct epoch_partner *partner, enum epoch_need need, bool gives, bool shared) {
    struct record record = *item->record;
    struct message_half half;
    record.peer = partner->peer;
    record.seq = partner->ordinal;
    record.tag = (int32_t)need;
    record.flags = gives ? FLAG_SEND : FLAG_RECV;
    if (!make_half(walk, item, &record, &half))
        return;
    half.member.shared = shared;
    match_walk_tell_half(walk, ARRIVAL_NEED, &half);
}

/* A call that ends an epoch: it needs, or is needed by, everybody whom the call named that began it. */
static void end_epoch(struct match_walk *walk, const struct match_record *item, bool completes) {
    struct epoch_group group;
    if (!epochs_end(&walk->epochs, &(struct epoch_key){(uint32_t)item->dump, item->record->comm, completes}, &group))
        return;
    for (uint32_t i = 0; i < group.count; i++) {
        if (completes)
            take_epoch_half(walk, item, &group.partners[i], EPOCH_POST_TO_COMPLETE, false, group.count > 1);
        take_epoch_half(walk, item, &group.partners[i], EPOCH_COMPLETE_TO_WAIT, completes, group.count > 1);
    }
}

static void walk_epoch(struct match_walk *walk, const struct match_record *item) {
    const struct record *record = item->record;
    if (item->call == CALL_UNKNOWN || !walk->sink->epoch)
        return;
    enum epoch_part part = walk->directory->calls[item->call].name->epoch;
    if (record->kind == RECORD_CALL && (part == EPOCH_COMPLETE || part == EPOCH_WAIT) && !(record->flags & FLAG_FAILED))
        end_epoch(walk, item, part == EPOCH_COMPLETE);
    if (record->kind != RECORD_PARTNER || (part != EPOCH_POST && part != EPOCH_START))
        return;
    struct epoch_partner partner = {record->peer, record->flags & FLAG_ORDINAL_UNKNOWN ? SEQ_NONE : record->seq};
    bool post = part == EPOCH_POST;
    walk->failed |=
        !epochs_begin(&walk->epochs, &(struct epoch_key){(uint32_t)item->dump, record->comm, !post}, record, &partner);
    take_epoch_half(walk, item, &partner, EPOCH_POST_TO_START, post, !post && record->op > 1);
    if (post)
        take_epoch_half(walk, item, &partner, EPOCH_POST_TO_COMPLETE, true, false);
}

static enum call_class class_of(const struct match_walk *walk, const struct match_record *item) {
    return item->call == CALL_UNKNOWN ? CLASS_OTHER : walk->directory->calls[item->call].name->call_class;
}

/* Since when the call's result was asked for. */
static int64_t asked_since(struct match_walk *walk, const struct match_record *item, struct walk_lane *lane) {
    int64_t from = covered_time_bounds(walk->sink->covered, item->stretch).from;
    int64_t t0 = item->record->kind == RECORD_POLL
                     ? to_common(walk->clock, item->dump, record_polls_since(item->record))
                     : item->begin;
    return polling_pass(&lane->polling, &(struct polling_call){.record = item->record,
                                                               .call_class = class_of(walk, item),
                                                               .stretch = item->stretch,
                                                               .gap = item->gap,
                                                               .t0 = t0 < from ? from : t0,
                                                               .t1 = item->t1});
}

/* A Wait or Test call tells since when the completions inside it were waited for; any other call ends the search. */
static void note_wait(struct match_walk *walk, const struct match_record *item, struct walk_lane *lane) {
    enum call_class class = class_of(walk, item);
    if (class == CLASS_WAIT || class == CLASS_TEST) {
        lane->wait = (struct waiting){item->since, item->t1, item->record->stack};
        match_walk_settle(walk, lane, &lane->wait);
    } else if (lane->count > 0) {
        match_walk_settle(walk, lane, &match_no_waiting);
    }
}

/* Whether nobody is to see a record; else its stretch of the covered time is known. */
static bool is_outside(const struct match_walk *walk, struct match_record *item) {
    const struct match_sink *sink = walk->sink;
    if (sink->limited && (item->t1 < sink->from_ns || item->begin > sink->to_ns))
        return true;
    if (!sink->covered || sink->covered->whole)
        return false;
    if (sink->covered->silent[item->dump])
        return true;
    item->stretch = covered_time_at(sink->covered, item->begin, item->t1);
    return item->stretch == COVERED_NOWHERE;
}

/* What reaches out of the covered time has counterparts that are not on record, or waits that lie outside. */
static bool is_matched(const struct match_walk *walk, const struct match_record *item) {
    const struct match_sink *sink = walk->sink;
    return !sink->covered || sink->covered->whole ||
           covered_time_holds(sink->covered, item->stretch, item->begin, item->t1);
}

static bool is_blocking_send(const struct match_walk *walk, const struct match_record *item) {
    if (item->call == CALL_UNKNOWN)
        return false;
    const struct call_name *call = walk->directory->calls[item->call].name;
    return !call->nonblocking && (call->call_class == CLASS_SEND || call->call_class == CLASS_SENDRECV);
}

/* A launch on a GPU that happened once. */
static bool is_launch(const struct record *record) {
    return (record->kind == RECORD_GPU || record->kind == RECORD_KERNEL) && !(record->flags & FLAG_CAPTURED);
}

/* A probe, and a call that prepares a persistent send or receive, names a partner but is no operation: it has no number
 * of one. Nor has a blocking send, which has a place in its channel, or is one whose place is not known. */
static bool moves_a_message(const struct match_walk *walk, const struct match_record *item) {
    const struct record *record = item->record;
    return record->flags & (FLAG_SEND | FLAG_RECV) &&
           (record->op != 0 || record->seq != SEQ_NONE || is_blocking_send(walk, item)) &&
           (record->kind == RECORD_CALL || record->kind == RECORD_DONE || is_launch(record) || item->replay > 0);
}

static void match_record(struct match_walk *walk, const struct match_record *item, struct walk_lane *lane) {
    const struct record *record = item->record;
    if ((record->flags & FLAG_COLLECTIVE) && (record->kind == RECORD_CALL || record->kind == RECORD_DONE ||
                                              record->kind == RECORD_GPU || record->kind == RECORD_KERNEL))
        take_collective(walk, item, lane);
    else if (item->message_count == 0 && moves_a_message(walk, item))
        walk_message(walk, item, record, lane);
    for (uint32_t i = 0; i < item->message_count; i++)
        walk_message(walk, item, &item->messages[i], lane);
}

/* Shows what lies in the covered time. Cut in place and put back: a copy of a record that was just filled in waits for
 * every one of its fields to be written, which took a tenth of the walk. */
static void hand_out_record(struct match_walk *walk, struct match_record *item) {
    struct time_stretch bounds = covered_time_bounds(walk->sink->covered, item->stretch);
    int64_t whole_t1 = item->t1, whole_since = item->since;
    int64_t t0 = arrival_of(walk, item);
    item->t0 = t0 < bounds.from ? bounds.from : t0;
    item->t1 = whole_t1 > bounds.to ? bounds.to : whole_t1;
    item->since = whole_since < item->t0 ? whole_since : item->t0;
    walk->sink->record(walk->state, item);
    item->t1 = whole_t1;
    item->since = whole_since;
}

/* Whether the launch of the group that this message is in will ask for it. Where launches have no times none will. */
static bool is_message_to_keep(const struct match_walk *walk, const struct match_record *item) {
    return item->call != CALL_UNKNOWN && is_message_of_group(item->record, walk->directory->calls[item->call].name) &&
           dump_has_device_times(walk->directory->dumps[item->dump]);
}

/* The messages of the group that the item is the launch of, NULL where it is none. Which of a captured group's they are
 * tells the number of the replay. */
static const struct posted_group *group_launched(const struct group_messages *groups, const struct match_record *item) {
    if (is_launch(item->record))
        return group_messages_find(groups, (uint32_t)item->dump, item->record->op);
    return item->replay > 0 ? group_messages_captured(groups, (uint32_t)item->dump, item->record->op) : NULL;
}

static void note_messages_of_groups(struct match_walk *walk, struct match_record *item) {
    const struct record *record = item->record;
    struct group_messages *groups = &walk->dumps[item->dump].groups;
    const struct posted_group *group = group_launched(groups, item);
    if (group) {
        item->messages = group->messages;
        item->message_count = group->count;
    }
    if (is_message_to_keep(walk, item))
        walk->failed |= !group_messages_post(groups, (uint32_t)item->dump, record);
    else if (record->kind == RECORD_GROUP && record->flags & FLAG_CAPTURED)
        walk->failed |= !group_messages_capture(groups, (uint32_t)item->dump, record->op);
}

void match_walk_record(struct match_walk *walk, size_t dump, const struct record *record) {
    struct record_stream *stream = &walk->dumps[dump].stream;
    struct walk_lane *lane = &walk->dumps[dump].lanes[record_stream_lane(stream)];
    struct match_record item = {.record = record,
                                .dump = dump,
                                .call = match_call_of(walk->directory, dump, record->call),
                                .gap = record_stream_gap(stream),
                                .lane = record_stream_lane(stream),
                                .replay = record_stream_replay(stream).number,
                                .begin = record_begin(walk->clock, dump, record),
                                .t1 = record_end(walk->clock, dump, record), /* whole: hand_out_record cuts it */
                                .since = INT64_MAX};
    if (item.gap)
        epochs_forget(&walk->epochs, (uint32_t)dump);
    if (is_outside(walk, &item))
        return;
    if (record->kind == RECORD_CALL || record->kind == RECORD_POST || record->kind == RECORD_POLL)
        item.since = asked_since(walk, &item, lane);
    if (record->kind == RECORD_CALL)
        note_wait(walk, &item, lane);
    else if (record->kind == RECORD_POST || record->kind == RECORD_GROUP)
        note_launch_call(walk, &item);
    note_messages_of_groups(walk, &item);
    if (walk->sink->record)
        hand_out_record(walk, &item);
    if (is_matched(walk, &item)) {
        match_record(walk, &item, lane);
        walk_epoch(walk, &item);
    }
    if (record->kind == RECORD_CALL || record->kind == RECORD_POST)
        lane->called = item.begin;
    walk->totals.records++;
    if (item.message_count > 0 && is_launch(record))
        group_messages_drop(&walk->dumps[dump].groups, (uint32_t)dump, record->op);
}
