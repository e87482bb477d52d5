/* SPDX-License-Identifier: Apache-2.0
 *
 * Matching collectives by (communicator, number) in one walk over all dumps.
 * Lives here: the walk in time order, what a record says about an instance, the workers.
 * Must not live here: the window of open instances (channel.c), what a late arrival costs.
 */
#include "analyzer/match/match.h"

#include <stdlib.h>

#include "analyzer/base/hash_table.h"
#include "analyzer/base/side_by_side.h"
#include "analyzer/match/channel.h"
#include "analyzer/match/epochs.h"
#include "analyzer/match/group_messages.h"
#include "analyzer/match/messages.h"
#include "analyzer/match/polling.h"
#include "analyzer/match/slips.h"
#include "analyzer/match/stream.h"
#include "analyzer/match/wildcards.h"

enum {
    BATCH = 128,     /* records of one dump between looks at the others */
    DONES_MAX = 256, /* completions of one lane that wait for the record of their Wait call */
    PROGRESS_BATCHES = 1024,
    HALVES_INTERVAL = 1 << 20, /* records after which an unpaired half of a message may be given up ... */
    HALVES_PER_DUMP = 256,     /* ... and at least so many per dump */
};

/* A completion whose Wait or Test call has not been recorded yet: that record follows. */
struct completion {
    struct channel *channel; /* NULL: half of a message */
    union {
        struct channel_arrival arrival;
        struct message_half half;
    };
};

/* What completions were waited for in. */
struct waiting {
    int64_t from, to; /* from > to: nothing */
    uint32_t stack;
};
static const struct waiting no_waiting = {INT64_MAX, INT64_MIN, STACK_NONE};

struct walk_lane {
    struct completion *completions; /* DONES_MAX, allocated at the first */
    uint32_t count;
    uint32_t passed; /* completions since the last settling, other workers' too: all settle at the same records */
    bool overrun;    /* completions of the same stretch, between two calls, have been settled: there were too many */
    struct waiting wait; /* the last Wait or Test call, with the polls before it */
    int64_t called;      /* entry of the last call, MATCH_ABSENT: none yet */
    struct polling polling;
};

/* A call that enqueued GPU work: a launch begins within the few calls before it, or long after its own. */
struct enqueuing_call {
    uint32_t op;
    int64_t left; /* common ns */
};
enum { LAUNCH_CALLS = 16 };

struct walk_dump {
    struct record_stream stream;
    struct walk_lane *lanes;
    int64_t front; /* common ns */
    struct enqueuing_call launch_calls[LAUNCH_CALLS];
};

struct started_key {
    uint32_t communicator; /* index into the directory */
    uint32_t number;       /* of the call that made it, or was captured */
};

struct started {
    struct started_key key;
    struct channel *channel; /* NULL: memory was short */
};

HASH_TABLE_OF(started_channels, struct started, struct started_key);

struct match_walk {
    const struct common_clock *clock;
    struct channel_owner owner;
    struct walk_dump *dumps;
    uint32_t *heap; /* dumps that have records left, the earliest first */
    size_t heap_count;
    struct channel *channels;  /* one per communicator */
    struct hash_table started; /* channels of persistent and captured collectives */
    struct messages messages;
    struct messages sent; /* between GPUs, for sink->sent */
    struct group_messages groups;
    struct epochs epochs;
    const struct wildcards *wildcards; /* per dump; shared by the workers */
    const struct slips *slips;         /* likewise */
    uint64_t walked;                   /* records, by all workers alike */
    unsigned workers;
    uint64_t total_records;
    bool failed;
    struct match_totals totals;
};

/* ---- which dump is next ------------------------------------------------------------------------------------------ */

static bool before(const struct match_walk *walk, uint32_t a, uint32_t b) {
    if (walk->dumps[a].front != walk->dumps[b].front)
        return walk->dumps[a].front < walk->dumps[b].front;
    return a < b;
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

static int64_t front_of(const struct match_walk *walk, size_t dump) {
    uint64_t ticks = record_stream_front(&walk->dumps[dump].stream);
    return ticks == UINT64_MAX ? INT64_MAX : to_common(walk->clock, dump, ticks);
}

/* ---- channels -------------------------------------------------------------------------------- */

/* The channel that counts the starts of one persistent collective, or the replays of a captured one. NULL when memory
 * is short. */
static struct channel *started_channel(struct match_walk *walk, const struct match_communicator *communicator,
                                       uint32_t number) {
    struct started_key key = {(uint32_t)(communicator - walk->owner.directory->communicators), number};
    struct started *started = started_channels_add(&walk->started, &key);
    if (started && !started->channel && (started->channel = malloc(sizeof *started->channel))) {
        channel_init(started->channel, communicator);
        started->channel->started = true;
        started->channel->start_of = number;
    }
    return started ? started->channel : NULL;
}

static void close_channels(struct match_walk *walk) {
    for (size_t i = 0; i < walk->owner.directory->communicator_count; i++)
        channel_close(&walk->channels[i], &walk->owner);
    for (size_t i = 0; i < walk->started.count; i++)
        if (started_channels_items(&walk->started)[i].channel)
            channel_close(started_channels_items(&walk->started)[i].channel, &walk->owner);
}

/* ---- records --------------------------------------------------------------------------------- */

static bool arrive_half(struct match_walk *walk, const struct message_half *half) {
    return messages_arrive(&walk->messages, half, walk->owner.sink, walk->owner.state, &walk->totals);
}

/* Hands over a completion, which was waited for in `in` if it lies there. */
static void complete(struct match_walk *walk, struct completion *completion, const struct waiting *in, bool shared) {
    struct match_member *member = completion->channel ? &completion->arrival.member : &completion->half.member;
    member->shared = shared;
    member->wait = member->leave;
    if (in->from <= member->leave && member->leave <= in->to) {
        member->wait = in->from > member->enter ? in->from : member->enter;
        member->wait_stack = in->stack;
    }
    walk->failed |= completion->channel ? !channel_arrive(completion->channel, &walk->owner, &completion->arrival)
                                        : !arrive_half(walk, &completion->half);
}

/* Hands over all completions of a lane. */
static void settle_lane(struct match_walk *walk, struct walk_lane *lane, const struct waiting *in) {
    for (uint32_t i = 0; i < lane->count && !walk->failed; i++)
        complete(walk, &lane->completions[i], in, lane->passed > 1 || lane->overrun);
    lane->count = 0;
    lane->passed = 0;
    lane->overrun = false;
}

/* The record of its Wait or Test call is the last of its kind: it came before. */
static bool is_behind_its_wait(const struct walk_lane *lane, int64_t leave) {
    return lane->wait.from <= leave && leave <= lane->wait.to;
}

/* Counts a completion, whosoever it is: all workers settle at the same records. A full lane is settled before the
 * newest is counted, so that never more are held than were counted. Returns whether the completion is to be held. */
static bool pass(struct match_walk *walk, struct walk_lane *lane, int64_t leave) {
    if (is_behind_its_wait(lane, leave))
        return false;
    if (lane->passed == DONES_MAX) {
        settle_lane(walk, lane, &no_waiting);
        lane->overrun = true;
    }
    lane->passed++;
    return true;
}

/* Hands over a completion whose Wait call is known, or keeps it until that call's record comes: as `pass` said. */
static void hold(struct match_walk *walk, struct walk_lane *lane, struct completion *completion, bool held) {
    if (!held) {
        complete(walk, completion, &lane->wait, true);
        return;
    }
    if (!lane->completions) {
        lane->completions = malloc(DONES_MAX * sizeof *lane->completions);
        if (!lane->completions) {
            walk->failed = true;
            return;
        }
    }
    lane->completions[lane->count++] = *completion;
}

/* When the device came to a launch. The event before it is recorded just before the call that launches, and passes on
 * an idle stream at once: where the call took its time until after that, the launch came at the end of the call. A
 * kernel that tells its own beginning began then, be it before its call returned. */
static int64_t arrival_of(struct match_walk *walk, const struct match_record *item) {
    int64_t begin = item->begin;
    bool kernels = walk->owner.directory->dumps[item->dump]->header->gpu_timing == GPU_TIMING_KERNEL;
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
        dump_communicator(walk->owner.directory->dumps[item->dump], item->record->comm);
    return communicator && communicator->definition->flags & COMMUNICATOR_FOREIGN;
}

/* A member's part in an operation that can be matched. */
static struct channel_arrival collective_arrival(struct match_walk *walk, const struct match_record *item,
                                                 const struct channel *channel, uint32_t position, uint32_t seq) {
    const struct record *record = item->record;
    struct channel_arrival arrival = {
        .seq = seq,
        .position = position,
        .call = item->call,
        .base = item->call == CALL_UNKNOWN ? CALL_UNKNOWN : walk->owner.directory->calls[item->call].base,
        .root = match_rank_of(channel->communicator, position, record->peer),
        .bytes = record->bytes,
        .device = record_is_device(record),
        .fence = item->call != CALL_UNKNOWN && record_is_barrier(record, walk->owner.directory->calls[item->call].name),
        .member = {.enter = arrival_of(walk, item),
                   .leave = item->t1,
                   .stack = record->stack,
                   .call = item->call,
                   .lane = item->lane,
                   .ticket = record->commit - 1,
                   .bystander = channel->communicator->kind == COMMUNICATOR_INTER && record->peer == PEER_NULL},
    };
    if (arrival.member.leave < arrival.member.enter) /* damage */
        arrival.member.leave = arrival.member.enter;
    arrival.member.wait = record->kind == RECORD_DONE ? arrival.member.leave : arrival.member.enter;
    return arrival;
}

static void take_collective(struct match_walk *walk, const struct match_record *item, struct walk_lane *lane,
                            bool mine) {
    const struct record *record = item->record;
    struct match_place place = match_place_of(walk->owner.directory, item->dump, record->comm);
    bool replayed = (record->flags & FLAG_CAPTURED) != 0;
    if (place.communicator == NOWHERE || record->seq == SEQ_NONE || (replayed && !item->replay)) {
        walk->totals.collective += mine;
        walk->totals.unmatchable += mine;
        walk->totals.foreign += mine && is_foreign(walk, item);
        return;
    }
    struct channel *channel = &walk->channels[place.communicator];
    uint32_t seq = record->seq + slips_before(&walk->slips[item->dump], record->comm, record->seq);
    /* what a graph replays has its number from the capture: the same at every replay */
    if (replayed || record->flags & FLAG_STARTED) {
        channel = started_channel(walk, channel->communicator, seq);
        seq = replayed ? item->replay : (uint32_t)record->tag;
        if (!channel) {
            walk->failed = true;
            return;
        }
    }
    bool waited_for = record->kind == RECORD_DONE && !(record->flags & FLAG_UNOBSERVED);
    channel_passed(channel, seq);
    bool held = waited_for && pass(walk, lane, item->t1);
    if (!channel_owns(&walk->owner, channel, seq))
        return;
    walk->totals.collective++;
    struct channel_arrival arrival = collective_arrival(walk, item, channel, place.position, seq);
    if (waited_for)
        hold(walk, lane, &(struct completion){.channel = channel, .arrival = arrival}, held);
    else
        walk->failed |= !channel_arrive(channel, &walk->owner, &arrival);
}

static struct match_member half_member(struct match_walk *walk, const struct match_record *item) {
    const struct record *record = item->record;
    struct match_member member = {.enter = record->kind == RECORD_CALL ? item->since : arrival_of(walk, item),
                                  .leave = item->t1,
                                  .stack = record->stack,
                                  .call = item->call,
                                  .lane = item->lane,
                                  .ticket = record->commit - 1};
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
    const struct match_directory *directory = walk->owner.directory;
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
        .synchronous = (record->flags & FLAG_SYNCHRONOUS) != 0,
        .bytes = record->flags & FLAG_BYTES_POSTED ? BYTES_UNKNOWN : record->bytes,
        .member = half_member(walk, item),
        .error = device ? walk->clock->device_error[item->dump] : 0,
    };
    return true;
}

/* The message once more, for the sender's worker: it is counted for the receiver's. */
static bool arrive_sent(struct match_walk *walk, const struct message_half *half) {
    const struct match_sink once_more = {.message = walk->owner.sink->sent};
    struct match_totals ignored = {0};
    if (!once_more.message || !half->device || (half->sender & (walk->workers - 1)) != walk->owner.worker)
        return true;
    return messages_arrive(&walk->sent, half, &once_more, walk->owner.state, &ignored);
}

/* `record`: as in make_half. */
static void walk_message(struct match_walk *walk, const struct match_record *item, const struct record *record,
                         struct walk_lane *lane, bool mine) {
    struct message_half half;
    bool waited_for = item->record->kind == RECORD_DONE && !(item->record->flags & FLAG_UNOBSERVED);
    if (record->peer == PEER_NULL) /* goes nowhere */
        return;
    if (!make_half(walk, item, record, &half)) {
        walk->totals.halves_unmatchable += mine;
        walk->totals.foreign += mine && is_foreign(walk, item);
        return;
    }
    half.member.before = item->record->kind == RECORD_CALL ? lane->called : MATCH_ABSENT;
    bool held = waited_for && pass(walk, lane, half.member.leave);
    walk->failed |= !arrive_sent(walk, &half);
    if ((half.receiver & (walk->workers - 1)) != walk->owner.worker)
        return;
    walk->totals.halves++;
    if (waited_for)
        hold(walk, lane, &(struct completion){.half = half}, held);
    else
        walk->failed |= !arrive_half(walk, &half);
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
    if (!make_half(walk, item, &record, &half) || (half.receiver & (walk->workers - 1)) != walk->owner.worker)
        return;
    half.member.shared = shared;
    walk->failed |= !epochs_arrive(&walk->epochs, &half, walk->owner.sink, walk->owner.state);
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
    if (item->call == CALL_UNKNOWN || !walk->owner.sink->epoch)
        return;
    enum epoch_part part = walk->owner.directory->calls[item->call].name->epoch;
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
    return item->call == CALL_UNKNOWN ? CLASS_OTHER : walk->owner.directory->calls[item->call].name->call_class;
}

/* Since when the call's result was asked for. */
static int64_t asked_since(struct match_walk *walk, const struct match_record *item, struct walk_lane *lane) {
    int64_t from = covered_time_bounds(walk->owner.sink->covered, item->stretch).from;
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
        settle_lane(walk, lane, &lane->wait);
    } else if (lane->passed > 0) {
        settle_lane(walk, lane, &no_waiting);
    }
}

/* Whether nobody is to see a record; else its stretch of the covered time is known. */
static bool is_outside(const struct match_walk *walk, struct match_record *item) {
    const struct match_sink *sink = walk->owner.sink;
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
    const struct match_sink *sink = walk->owner.sink;
    return !sink->covered || sink->covered->whole ||
           covered_time_holds(sink->covered, item->stretch, item->begin, item->t1);
}

static bool is_blocking_send(const struct match_walk *walk, const struct match_record *item) {
    if (item->call == CALL_UNKNOWN)
        return false;
    const struct call_name *call = walk->owner.directory->calls[item->call].name;
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

static void match_record(struct match_walk *walk, const struct match_record *item, struct walk_lane *lane, bool mine) {
    const struct record *record = item->record;
    if ((record->flags & FLAG_COLLECTIVE) && (record->kind == RECORD_CALL || record->kind == RECORD_DONE ||
                                              record->kind == RECORD_GPU || record->kind == RECORD_KERNEL))
        take_collective(walk, item, lane, mine);
    else if (item->message_count == 0 && moves_a_message(walk, item))
        walk_message(walk, item, record, lane, mine);
    for (uint32_t i = 0; i < item->message_count; i++)
        walk_message(walk, item, &item->messages[i], lane, mine);
}

static void hand_out_record(struct match_walk *walk, struct match_record item) {
    struct time_stretch bounds = covered_time_bounds(walk->owner.sink->covered, item.stretch);
    item.t0 = arrival_of(walk, &item);
    item.t0 = item.t0 < bounds.from ? bounds.from : item.t0;
    item.t1 = item.t1 > bounds.to ? bounds.to : item.t1;
    item.since = item.since < item.t0 ? item.since : item.t0;
    walk->owner.sink->record(walk->owner.state, &item);
}

/* Whether this worker will be asked for a message of a group: by its launch, or for its two ends. Where launches have
 * no times nobody will. */
static bool is_message_to_keep(struct match_walk *walk, const struct match_record *item) {
    const struct match_directory *directory = walk->owner.directory;
    const struct record *record = item->record;
    unsigned others = walk->workers - 1;
    struct message_half half;
    if (item->call == CALL_UNKNOWN || !is_message_of_group(record, directory->calls[item->call].name) ||
        !dump_has_device_times(directory->dumps[item->dump]))
        return false;
    return (item->dump & others) == walk->owner.worker ||
           (make_half(walk, item, record, &half) &&
            ((half.receiver & others) == walk->owner.worker || (half.sender & others) == walk->owner.worker));
}

/* The messages of the group that the item is the launch of, NULL where it is none. Which of a captured group's they are
 * tells the number of the replay. */
static const struct posted_group *group_launched(const struct match_walk *walk, const struct match_record *item) {
    if (is_launch(item->record))
        return group_messages_find(&walk->groups, (uint32_t)item->dump, item->record->op);
    return item->replay > 0 ? group_messages_captured(&walk->groups, (uint32_t)item->dump, item->record->op) : NULL;
}

static void note_messages_of_groups(struct match_walk *walk, struct match_record *item) {
    const struct record *record = item->record;
    const struct posted_group *group = group_launched(walk, item);
    if (group) {
        item->messages = group->messages;
        item->message_count = group->count;
    }
    if (is_message_to_keep(walk, item))
        walk->failed |= !group_messages_post(&walk->groups, (uint32_t)item->dump, record);
    else if (record->kind == RECORD_GROUP && record->flags & FLAG_CAPTURED)
        walk->failed |= !group_messages_capture(&walk->groups, (uint32_t)item->dump, record->op);
}

static void walk_record(struct match_walk *walk, size_t dump, const struct record *record) {
    bool mine = (dump & (walk->workers - 1)) == walk->owner.worker;
    struct record_stream *stream = &walk->dumps[dump].stream;
    struct walk_lane *lane = &walk->dumps[dump].lanes[record_stream_lane(stream)];
    struct match_record item = {.record = record,
                                .dump = dump,
                                .call = match_call_of(walk->owner.directory, dump, record->call),
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
    bool handed_out = mine && walk->owner.sink->record, first = walk->owner.sink->record_first;
    if (handed_out && first)
        hand_out_record(walk, item);
    if (is_matched(walk, &item)) {
        match_record(walk, &item, lane, mine);
        walk_epoch(walk, &item);
    }
    if (record->kind == RECORD_CALL || record->kind == RECORD_POST)
        lane->called = item.begin;
    walk->totals.records += mine;
    if (handed_out && !first)
        hand_out_record(walk, item);
    if (item.message_count > 0 && is_launch(record))
        group_messages_drop(&walk->groups, (uint32_t)dump, record->op);
}

/* ---- the walk -------------------------------------------------------------------------------- */

static bool walk_begin(struct match_walk *walk) {
    const struct match_directory *directory = walk->owner.directory;
    walk->dumps = calloc(directory->dump_count, sizeof *walk->dumps);
    walk->heap = calloc(directory->dump_count, sizeof *walk->heap);
    walk->channels = calloc(directory->communicator_count ? directory->communicator_count : 1, sizeof *walk->channels);
    if (!walk->dumps || !walk->heap || !walk->channels)
        return false;
    for (size_t i = 0; i < directory->communicator_count; i++)
        channel_init(&walk->channels[i], &directory->communicators[i]);
    uint64_t interval = (uint64_t)directory->dump_count * HALVES_PER_DUMP;
    interval = interval > HALVES_INTERVAL ? interval : HALVES_INTERVAL;
    messages_init(&walk->messages, interval);
    messages_init(&walk->sent, interval);
    group_messages_init(&walk->groups, interval);
    epochs_init(&walk->epochs, interval);
    for (size_t d = 0; d < directory->dump_count; d++) {
        struct walk_dump *dump = &walk->dumps[d];
        uint32_t lanes = directory->dumps[d]->lane_count;
        dump->lanes = calloc(lanes ? lanes : 1, sizeof *dump->lanes);
        if (!dump->lanes || !record_stream_begin(&dump->stream, directory->dumps[d]))
            return false;
        for (uint32_t l = 0; l < lanes; l++) {
            dump->lanes[l].wait = no_waiting;
            dump->lanes[l].called = MATCH_ABSENT;
            walk->total_records +=
                directory->dumps[d]->lanes[l].end_ticket - directory->dumps[d]->lanes[l].first_ticket;
        }
        dump->front = front_of(walk, d);
        if (dump->front != INT64_MAX)
            walk->heap[walk->heap_count++] = (uint32_t)d;
    }
    for (size_t i = walk->heap_count; i-- > 0;)
        sift_down(walk, i);
    return true;
}

static void walk_end(struct match_walk *walk) {
    const struct match_directory *directory = walk->owner.directory;
    for (size_t d = 0; walk->dumps && d < directory->dump_count; d++) {
        record_stream_end(&walk->dumps[d].stream);
        for (uint32_t l = 0; walk->dumps[d].lanes && l < directory->dumps[d]->lane_count; l++)
            free(walk->dumps[d].lanes[l].completions);
        free(walk->dumps[d].lanes);
    }
    for (size_t i = 0; walk->channels && i < directory->communicator_count; i++)
        channel_free(&walk->channels[i]);
    for (size_t i = 0; i < walk->started.count; i++) {
        struct channel *channel = started_channels_items(&walk->started)[i].channel;
        if (channel)
            channel_free(channel);
        free(channel);
    }
    struct match_totals ignored = {0};
    messages_free(&walk->messages, &walk->totals);
    messages_free(&walk->sent, &ignored);
    group_messages_free(&walk->groups);
    epochs_free(&walk->epochs);
    hash_table_free(&walk->started);
    free(walk->channels);
    free(walk->heap);
    free(walk->dumps);
}

/* Up to BATCH records of the dump that is furthest behind. Returns how many. */
static unsigned walk_batch(struct match_walk *walk) {
    uint32_t dump = walk->heap[0];
    struct record_stream *stream = &walk->dumps[dump].stream;
    const struct record *record = NULL;
    unsigned taken = 0;
    while (taken < BATCH && !walk->failed && (record = record_stream_next(stream)) != NULL) {
        walk_record(walk, dump, record);
        taken++;
    }
    walk->walked += taken;
    struct match_totals ignored = {0};
    messages_walked(&walk->messages, walk->walked, &walk->totals);
    messages_walked(&walk->sent, walk->walked, &ignored);
    group_messages_walked(&walk->groups, walk->walked);
    epochs_walked(&walk->epochs, walk->walked);
    if (taken == BATCH) {
        walk->dumps[dump].front = front_of(walk, dump);
    } else {
        for (uint32_t l = 0; l < walk->owner.directory->dumps[dump]->lane_count; l++)
            settle_lane(walk, &walk->dumps[dump].lanes[l], &no_waiting);
        walk->heap[0] = walk->heap[--walk->heap_count];
    }
    if (walk->heap_count > 0)
        sift_down(walk, 0);
    return taken;
}

static void walk_all(void *context, size_t number) {
    struct match_walk *walk = (struct match_walk *)context + number;
    const struct match_sink *sink = walk->owner.sink;
    uint64_t done = 0;
    for (uint64_t batch = 1; walk->heap_count > 0 && !walk->failed; batch++) {
        done += walk_batch(walk);
        if (sink->progress && walk->owner.worker == 0 && batch % PROGRESS_BATCHES == 0 && walk->total_records > 0)
            sink->progress(sink->progress_context,
                           done < walk->total_records ? (unsigned)(done * 1000 / walk->total_records) : 1000);
    }
    close_channels(walk);
}

static void add_totals(struct match_totals *sum, const struct match_totals *part) {
    sum->records += part->records;
    sum->collective += part->collective;
    sum->matched += part->matched;
    sum->unmatchable += part->unmatchable;
    sum->instances += part->instances;
    sum->partial += part->partial;
    sum->stale += part->stale;
    sum->mismatches += part->mismatches;
    sum->halves += part->halves;
    sum->messages += part->messages;
    sum->halves_alone += part->halves_alone;
    sum->halves_unmatchable += part->halves_unmatchable;
    sum->foreign += part->foreign;
}

static void count_slips(struct match_totals *totals, const struct match_directory *directory, size_t dump,
                        const struct slips *slips) {
    if (slips->count && !totals->slips)
        totals->first_slip = (struct match_slip){.dump = dump,
                                                 .communicator = match_place_of(directory, dump, slips->items[0].comm),
                                                 .call = slips->items[0].call,
                                                 .seq = slips->items[0].seq};
    totals->slips += slips->count;
}

unsigned match_workers(unsigned wish) {
    unsigned workers = 1;
    while (workers * 2 <= wish && workers * 2 <= MATCH_WORKERS_MAX)
        workers *= 2;
    return workers;
}

/* What every worker needs to know of each dump before the walk begins. */
struct foreknowledge {
    struct wildcards *wildcards;
    struct slips *slips;
};

static bool foresee(struct foreknowledge *known, const struct match_directory *directory) {
    size_t count = directory->dump_count ? directory->dump_count : 1;
    known->wildcards = calloc(count, sizeof *known->wildcards);
    known->slips = calloc(count, sizeof *known->slips);
    bool done = known->wildcards && known->slips && slips_find(known->slips, directory);
    for (size_t d = 0; done && d < directory->dump_count; d++)
        done = wildcards_number(&known->wildcards[d], directory->dumps[d]);
    return done;
}

static void foreknowledge_free(struct foreknowledge *known, const struct match_directory *directory) {
    for (size_t d = 0; known->wildcards && d < directory->dump_count; d++)
        wildcards_free(&known->wildcards[d]);
    for (size_t d = 0; known->slips && d < directory->dump_count; d++)
        slips_free(&known->slips[d]);
    free(known->wildcards);
    free(known->slips);
}

bool match_run(const struct common_clock *clock, const struct match_directory *directory, const struct match_sink *sink,
               void *const *states, unsigned workers, struct match_totals *totals) {
    struct match_walk walks[MATCH_WORKERS_MAX] = {0};
    struct foreknowledge known;
    workers = match_workers(workers);
    *totals = (struct match_totals){0};
    bool done = foresee(&known, directory);
    for (unsigned w = 0; w < workers; w++) {
        walks[w].wildcards = known.wildcards;
        walks[w].slips = known.slips;
        walks[w].clock = clock;
        walks[w].workers = workers;
        walks[w].owner = (struct channel_owner){.worker = w,
                                                .shift = (unsigned)__builtin_ctz(workers),
                                                .directory = directory,
                                                .sink = sink,
                                                .state = states[w],
                                                .totals = &walks[w].totals};
        done = done && walk_begin(&walks[w]);
    }
    if (done)
        side_by_side(workers, workers, walk_all, walks);
    for (unsigned w = 0; w < workers; w++) {
        done = done && !walks[w].failed;
        walk_end(&walks[w]);
        add_totals(totals, &walks[w].totals);
    }
    for (size_t d = 0; done && d < directory->dump_count; d++)
        count_slips(totals, directory, d, &known.slips[d]);
    foreknowledge_free(&known, directory);
    return done;
}
